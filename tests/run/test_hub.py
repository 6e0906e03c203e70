"""Runs on the Hugging Face Hub: the real library, and a stand-in of the hub on this machine."""

from __future__ import annotations

import hashlib
import json
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

import tacit
from hub_server import USER, WRITER, Hub, running_hub
from rule_runs import CAPITALS, LINKS, rule_run
from tacit.errors import RunError, SettingsError
from tacit.run_folder.files import MODEL, RULES, SETTINGS
from tacit.run_folder.saved import MANIFEST

huggingface_hub = pytest.importorskip("huggingface_hub")

# a deprecation within the library, which its users cannot mend
pytestmark = pytest.mark.filterwarnings("ignore:Use 'content=:DeprecationWarning")

ASKED = "?k : capital_of(c5, ?k)"
NAME = f"{USER}/cities"


@pytest.fixture
def hub(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Hub]:
    """A hub that the library of this process asks, with a token that may write."""
    constants = pytest.importorskip("huggingface_hub.constants")
    with running_hub() as hub:
        monkeypatch.setattr(constants, "ENDPOINT", hub.address)
        template = hub.address + "/{repo_id}/resolve/{revision}/{filename}"
        monkeypatch.setattr(constants, "HUGGINGFACE_CO_URL_TEMPLATE", template)
        monkeypatch.setattr(constants, "HF_HUB_CACHE", str(tmp_path / "hf"))
        monkeypatch.setattr(constants, "HF_TOKEN_PATH", str(tmp_path / "no-token"))
        monkeypatch.setattr(constants, "HF_HUB_DISABLE_XET", True)
        monkeypatch.setenv("HF_TOKEN", WRITER)
        monkeypatch.setenv("TACIT_CACHE", str(tmp_path / "cache"))
        yield hub


@pytest.fixture
def run(tmp_path: Path) -> tacit.Run:
    return rule_run(tmp_path / "run")


def test_a_pushed_run_is_opened_by_its_name(hub: Hub, tmp_path: Path) -> None:
    run = tacit.train([*LINKS, *CAPITALS], tmp_path / "run", rank=4, epochs=1, progress=False)
    pushed = run.push_to_hub(NAME)
    repository = hub.repositories[NAME]
    assert pushed == f"hf://{NAME}@{repository.names['main']}"
    files = repository.files()
    assert MODEL in files
    for name, (size, digest) in json.loads(files[MANIFEST])["files"].items():
        assert files[name] == (run.folder.path / name).read_bytes()
        assert (len(files[name]), hashlib.sha256(files[name]).hexdigest()) == (size, digest)
    for source in (f"hf://{NAME}", pushed, f"hf://{NAME}@main", "hf://cities"):
        assert tacit.open(source).ask(ASKED).to_dict() == run.ask(ASKED).to_dict()
    assert sorted(hub.fetched()) == sorted(set(hub.fetched()))  # no file twice
    assert tacit.load(f"hf://{NAME}").num_entities == 12
    with pytest.raises(RunError, match="only read"):
        tacit.open(f"hf://{NAME}").add([("a", "b", "c")])


def test_the_card_is_made_of_settings_and_results(
    hub: Hub, run: tacit.Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    run.push_to_hub("cities", license="cc-by-4.0")
    card = hub.repositories[NAME].files()["README.md"].decode()
    _, header, page = card.split("---\n", 2)
    assert yaml.safe_load(header) == {
        "library_name": "tacit",
        "pipeline_tag": "graph-ml",
        "tags": ["knowledge-graph", "link-prediction", "complex-query-answering", "tacit"],
        "license": "cc-by-4.0",
    }
    assert f'tacit.open("hf://{NAME}")' in page
    assert "12 entities, 2 relations, 11 training facts" in page
    assert "| model | rules |" in page
    assert f"| rules | {run.results['train']['rules']} |" in page
    parsed = huggingface_hub.ModelCard(card, ignore_metadata_errors=False)
    assert (parsed.data.library_name, parsed.data.license) == ("tacit", "cc-by-4.0")


def test_the_card_has_what_was_measured(hub: Hub, tmp_path: Path) -> None:
    splits = tmp_path / "cities"
    splits.mkdir()
    held_out = [("c5", "capital_of", "k5")]
    for name, facts in (("train", [*LINKS, *CAPITALS]), ("valid", []), ("test", held_out)):
        (splits / f"{name}.tsv").write_text("".join("\t".join(fact) + "\n" for fact in facts))
    run = tacit.train(splits, tmp_path / "run", model="rules", progress=False)
    mrr = run.evaluate(reliability=True).to_json()["mrr"]["1p"]
    run.push_to_hub(NAME)
    card = hub.repositories[NAME].files()["README.md"].decode()
    table = card.partition("## Mean reciprocal rank")[2].partition("##")[0]
    assert f"| this run | {100 * mrr:.1f} |" in table
    assert "## Calibration" in card
    assert "image/png" not in card


def test_the_card_of_world_keeps_its_licence(tmp_path: Path, hub: Hub) -> None:
    run = tacit.train("world", tmp_path / "run", rank=2, epochs=1, rules=False, progress=False)
    run.push_to_hub("world")
    card = hub.repositories[f"{USER}/world"].files()["README.md"].decode()
    assert yaml.safe_load(card.split("---\n", 2)[1])["license"] == "other"
    assert "Creative Commons Attribution 4.0" in card


def test_a_push_replaces_the_run_that_was_there(hub: Hub, run: tacit.Run, tmp_path: Path) -> None:
    other = tacit.train([*LINKS, *CAPITALS], tmp_path / "other", rank=4, epochs=1, progress=False)
    first = other.push_to_hub(NAME)
    hub.repositories[NAME].files()["picture.png"] = b"mine"
    run.push_to_hub(NAME)
    files = hub.repositories[NAME].files()
    assert MODEL not in files
    assert files["picture.png"] == b"mine"
    assert tacit.open(f"hf://{NAME}").ask(ASKED).to_dict() == run.ask(ASKED).to_dict()
    assert tacit.open(first).ask(ASKED).to_dict() == other.ask(ASKED).to_dict()


def test_a_private_run_needs_a_token(
    hub: Hub, run: tacit.Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    run.push_to_hub(NAME, private=True)
    assert hub.repositories[NAME].private
    monkeypatch.delenv("HF_TOKEN")
    with pytest.raises(RunError, match=r"is not there, or is private; .* HF_TOKEN may read it"):
        tacit.open(f"hf://{NAME}")
    with pytest.raises(RunError, match="has no owner, and nobody is logged in"):
        tacit.open("hf://cities")
    with pytest.raises(RunError, match="may not be written with this HF_TOKEN"):
        run.push_to_hub(NAME)
    monkeypatch.setenv("HF_TOKEN", WRITER)
    with pytest.raises(RunError, match="may not be written with this HF_TOKEN"):
        run.push_to_hub("others/cities")
    assert tacit.open(f"hf://{NAME}").ask(ASKED).entities


@pytest.mark.parametrize(
    ("name", "says"),
    [
        (f"hf://{USER}/citties", "is not there, or is private"),
        (f"hf://{NAME}@v9", "has no revision 'v9'; give a branch, a tag or a commit"),
        (f"hf://{USER}/empty", "is no run of Tacit: it has no tacit.json"),
        ("hf://a/b/c", "names no repository of the hub; write hf://OWNER/NAME"),
        ("hf://", "names no repository of the hub"),
        ("hf://me/-x-", "is no name of a repository"),
        ("hf://me/../../etc", "names no repository of the hub"),
    ],
)
def test_a_wrong_name_is_named(hub: Hub, run: tacit.Run, name: str, says: str) -> None:
    run.push_to_hub(NAME)
    huggingface_hub.HfApi().create_repo(f"{USER}/empty")
    with pytest.raises(RunError) as error:
        tacit.open(name)
    assert says in str(error.value)
    assert name in str(error.value)


def test_a_broken_download_is_resumed(hub: Hub, run: tacit.Run) -> None:
    run.push_to_hub(NAME)
    hub.broken[RULES] = 1  # which the library notices and mends
    assert tacit.open(f"hf://{NAME}").ask(ASKED).entities == run.ask(ASKED).entities
    assert hub.fetched().count(RULES) == 2


def test_an_interrupted_download_goes_on_with_what_it_lacks(
    hub: Hub, run: tacit.Run, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    run.push_to_hub(NAME)
    monkeypatch.setattr("time.sleep", lambda seconds: None)  # between the tries of the library
    hub.broken[RULES] = 100
    with pytest.raises(RunError, match=r"was not fetched \(.*; the same call goes on"):
        tacit.open(f"hf://{NAME}")
    assert not [*(tmp_path / "cache").glob("*/settings.toml")]
    before = {name: hub.fetched().count(name) for name in hub.fetched() if name != RULES}
    hub.broken.clear()
    assert tacit.open(f"hf://{NAME}").ask(ASKED).entities == run.ask(ASKED).entities
    assert {name: hub.fetched().count(name) for name in before if name != SETTINGS} == {
        name: count for name, count in before.items() if name != SETTINGS
    }
    assert {path.name[:6] for path in (tmp_path / "cache").iterdir()} == {"saved-"}
    assert len([*(tmp_path / "cache").iterdir()]) == 1


@pytest.mark.parametrize("name", [RULES, SETTINGS])
def test_a_tampered_file_is_refused(hub: Hub, run: tacit.Run, tmp_path: Path, name: str) -> None:
    run.push_to_hub(NAME)
    files = hub.repositories[NAME].files()
    whole = files[name]
    files[name] = whole[:-1] + bytes([whole[-1] ^ 1])
    with pytest.raises(RunError, match=f"{name} is not the file that its tacit.json names"):
        tacit.open(f"hf://{NAME}")
    files[name] = whole + b"x" * 1000
    with pytest.raises(RunError, match=f"{name} is missing, or not as large"):
        tacit.open(f"hf://{NAME}")
    del files[name]
    with pytest.raises(RunError, match=f"{name} is missing, or not as large"):
        tacit.open(f"hf://{NAME}")
    assert not [*(tmp_path / "cache").glob("*/settings.toml")]
    files[name] = whole
    assert tacit.open(f"hf://{NAME}").ask(ASKED).entities == run.ask(ASKED).entities


def test_a_hostile_manifest_is_refused(hub: Hub, run: tacit.Run, tmp_path: Path) -> None:
    run.push_to_hub(NAME)
    files = hub.repositories[NAME].files()
    content = json.loads(files[MANIFEST])
    content["files"]["../evil.safetensors"] = [1, "0"]
    files[MANIFEST] = json.dumps(content).encode()
    files["../evil.safetensors"] = b"x"
    with pytest.raises(RunError, match="which is no file of a saved run"):
        tacit.open(f"hf://{NAME}")
    assert not [*tmp_path.rglob("evil*")]


def test_what_was_fetched_is_asked_without_the_hub(
    hub: Hub, run: tacit.Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    pushed = run.push_to_hub(NAME)
    assert tacit.open(f"hf://{NAME}").ask(ASKED).entities
    monkeypatch.setattr("time.sleep", lambda seconds: None)
    hub.is_down = True
    assert tacit.open(pushed).ask(ASKED).entities == run.ask(ASKED).entities
    assert tacit.open(f"hf://{NAME}").ask(ASKED).entities == run.ask(ASKED).entities
    with pytest.raises(RunError, match="was not written"):
        run.push_to_hub(NAME)
    with pytest.raises(RunError, match="was not fetched"):
        tacit.open(f"hf://{USER}/other")


def test_a_push_to_a_revision_is_refused(hub: Hub, run: tacit.Run) -> None:
    with pytest.raises(SettingsError, match="has a revision, and a run is pushed to main"):
        run.push_to_hub(f"{NAME}@v1")


def test_without_the_library_the_extra_is_named(
    run: tacit.Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "huggingface_hub", None)
    for call in (lambda: run.push_to_hub(NAME), lambda: tacit.open(f"hf://{NAME}")):
        with pytest.raises(SettingsError, match=r"pip install 'tacit-kg\[hub\]'"):
            call()


def command(hub: Hub, tmp_path: Path, *words: str, **environment: str) -> Any:
    """Run a command as a user does, whose library reads its environment."""
    return subprocess.run(
        [sys.executable, "-m", "tacit", *words],
        env={
            **os.environ,
            "HF_ENDPOINT": hub.address,
            "HF_HOME": str(tmp_path / "hf-home"),
            "HF_HUB_DISABLE_XET": "1",
            "TACIT_CACHE": str(tmp_path / "cache"),
            **environment,
        },
        cwd=tmp_path,
        capture_output=True,
        text=True,
        check=False,
    )


def test_commands_push_and_ask(hub: Hub, run: tacit.Run, tmp_path: Path) -> None:
    done = command(hub, tmp_path, "save", "run", f"hf://{NAME}", "--private", HF_TOKEN=WRITER)
    assert (done.returncode, hub.repositories[NAME].private) == (0, True), done.stderr
    assert done.stdout == f"pushed to hf://{NAME}@{hub.repositories[NAME].names['main']}\n"
    asked = command(hub, tmp_path, "ask", f"hf://{NAME}", ASKED, HF_TOKEN=WRITER)
    assert "k5" in asked.stdout
    elsewhere = {"HF_TOKEN": "", "HF_HOME": str(tmp_path / "empty")}
    refused = command(hub, tmp_path, "ask", f"hf://{NAME}", ASKED, **elsewhere)
    assert refused.returncode == 2
    assert "Traceback" not in refused.stderr
    assert "is private" in refused.stderr.splitlines()[-1]
