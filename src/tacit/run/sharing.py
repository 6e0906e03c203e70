"""Sharing runs: as one file, as a folder, or on the Hugging Face Hub with a model card."""

from __future__ import annotations

import json
from importlib.resources import files
from pathlib import Path
from typing import Any

from tacit import disk
from tacit.errors import RunError, SettingsError
from tacit.graph.stored import fingerprint
from tacit.links.training.finished import unfinished, unfinished_encoder
from tacit.run.rules import RuleAccess
from tacit.run_folder.files import ENCODER, MODEL, RULES
from tacit.run_folder.folder import RunFolder
from tacit.run_folder.hub import HubName, is_hub_name, push
from tacit.run_folder.saved import Manifest, is_archive_name, saved_names, unpack, write_archive
from tacit.sources import NameOrPath, load

_TAGS = ["knowledge-graph", "link-prediction", "complex-query-answering", "tacit"]
# tables that say nothing to a reader
_UNSHOWN = ("Settings: files", "Settings: prefixes", "Results: versions")


class RunSharing(RuleAccess):
    """A run as others get it."""

    def save(self, out: NameOrPath, *, force: bool = False) -> Path:
        """Save the run to one file, where `out` is `*.tacit`, or else as a run folder.

        `tacit.open` opens either. Equal runs give equal files. Checkpoints and indexes are left
        out. `force` replaces what is there.
        """
        return save_run(self.folder, out, force)

    def push_to_hub(self, name: str, *, private: bool = False, license: str | None = None) -> str:
        """Push the run to the repository `OWNER/NAME` of the Hugging Face Hub, with a model card.

        The card holds the run's settings and results, and the `license` of its facts by the hub's
        name of it, such as `cc-by-4.0`. The token is that of the hub's library: `HF_TOKEN`, or that
        of `hf auth login`. The result is the name of the pushed commit, which `tacit.open` takes.
        """
        return push_run(self.folder, name, private, license)


def save_run(folder: RunFolder, out: NameOrPath, force: bool = False) -> Path:
    """Save a run to an archive or a folder, whichever `out` names."""
    if is_hub_name(out):
        raise SettingsError(f"out is '{out}', on the hub; push_to_hub pushes a run there", "out")
    out = Path(out)
    _check_whole(folder)
    if not is_archive_name(out):
        if disk.exists(out) and out.resolve() == folder.path.resolve():
            raise RunError(f"'{out}' is the run itself; choose another folder")
        RunFolder(out).make_empty(force, resumable=False)
        with disk.reading(folder.path):
            manifest = Manifest.of(folder.path)
            unpack(manifest, lambda name: (folder.path / name).open("rb"), out, str(folder.path))
        return out
    if out.is_dir() or (disk.exists(out) and not force):
        advice = "choose another name" + ("" if out.is_dir() else ", or replace it by `force=True`")
        raise RunError(f"'{out}' exists already; {advice}")
    write_archive(folder.path, out)
    return out


def push_run(
    folder: RunFolder, name: str, private: bool = False, license: str | None = None
) -> str:
    """Push a run to a repository of the hub."""
    repository = HubName.parse(name)
    _check_whole(folder)
    with disk.reading(folder.path):
        return str(
            push(folder.path, repository, lambda name: model_card(folder, name, license), private)
        )


def _check_whole(folder: RunFolder) -> None:
    """Raise a `RunError` for a run without weights, or whose training was stopped."""
    if note := unfinished(folder) or unfinished_encoder(folder):
        raise RunError(f"{note}; a run is shared when it is whole")
    if not {MODEL, ENCODER, RULES}.intersection(saved_names(folder.path)):
        raise RunError(f"run '{folder.path}' has no weights to share; train it first")


def model_card(folder: RunFolder, name: HubName, license: str | None = None) -> str:
    """The card of a run: a header for the hub, how to open it, its results and settings."""
    from tacit.evaluate.report import Section, sections, to_markdown  # which load torch

    graph = folder.settings["graph"]
    attribution = _attribution(folder)
    header: dict[str, Any] = {
        "library_name": "tacit",
        "pipeline_tag": "graph-ml",
        "tags": _TAGS,
    }
    if license is not None:
        header["license"] = license
    elif attribution:
        header |= {"license": "other", "license_name": "see-below"}
    lines = [f"{key}: {json.dumps(value, ensure_ascii=False)}" for key, value in header.items()]
    size = f"{graph['entities']:,} entities, {graph['relations'] // 2:,} relations"
    facts = f"{graph['train']:,} training facts"
    about = (
        f"Answers logical questions over the knowledge graph {graph.get('name', 'graph')} ({size}, "
        f"{facts}), and says why. Open it with Tacit, `pip install 'tacit-kg[hub]'`:\n\n"
        f'```python\nimport tacit\n\nrun = tacit.open("{name}")\n```\n\n'
        f"or serve it: `tacit serve {name}`."
    )
    parts = sections(folder, figures_too=False)
    shown = [Section("Use", about), *(part for part in parts if part.title not in _UNSHOWN)]
    if attribution:
        shown.append(Section("Licence of the facts", f"```\n{attribution}\n```"))
    page = to_markdown(name.repository.rpartition("/")[-1], shown)
    return "\n".join(["---", *lines, "---", "", page])


def _attribution(folder: RunFolder) -> str:
    """The licence note of the facts of `world`, or "" for other graphs, which have none."""
    if folder.settings["graph"].get("name") != "world":
        return ""
    if fingerprint(load("world")) != folder.fingerprint:
        return ""
    return (files("tacit.graph") / "world" / "LICENSE").read_text(encoding="utf-8").strip()
