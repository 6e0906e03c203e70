"""The run folder: everything a trained model needs, in files that are never half-written."""

from __future__ import annotations

import copy
import errno
import json
import platform
import re
import shlex
import shutil
import subprocess
import sys
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, contextmanager, suppress
from functools import cached_property
from importlib import metadata
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from tacit import disk
from tacit.errors import RunError, SettingsError
from tacit.graph.graph import SPLITS, Graph
from tacit.graph.stored import GRAPH_FILES, Fingerprint, fingerprint, read_graph, write_graph
from tacit.run.locked_folder import LockedFolder

if TYPE_CHECKING:
    from torch import Tensor

FORMAT = 2  # of the files of a run; other formats are refused
SETTINGS = "settings.toml"
MODEL = "model.safetensors"
ADAPTER = "adapter.safetensors"
ENCODER = "encoder.safetensors"
# checkpoints
CHECKPOINT = "checkpoint.safetensors"
ADAPTATION = "adaptation.safetensors"
ENCODING = "encoding.safetensors"
BEST = "best-{step}.safetensors"  # the best weights of a training under way
QUESTIONS = "questions.safetensors"  # for validation
TRACE = "trace.jsonl"
RESULTS = "results.json"
# indexes of the weights, for retrieval of tails
INDEX = "index.faiss"
WEIGHTS = "weights.json"
# the weights quantised to a byte per number
CODES = "codes.safetensors"
BYTES = "codes.npy"
# caches
ROWS = "rows.cache"
LOG_SUMS = "log-sums.cache"
FOUND_BY = (INDEX, CODES, BYTES, WEIGHTS, ROWS, LOG_SUMS)
EARLIER = "facts.npz"  # from the first format, deleted when the run is replaced
# written by commands that take time
WRITTEN = (MODEL, ADAPTER, ENCODER, CHECKPOINT, ADAPTATION, ENCODING, TRACE, RESULTS)
FILES = (SETTINGS, *GRAPH_FILES, EARLIER, *WRITTEN, QUESTIONS, *FOUND_BY)
# the files that an engine is made of
OPENED = (SETTINGS, *GRAPH_FILES, MODEL, ADAPTER, ENCODER, INDEX, CODES, BYTES)
# encoders over the vectors of the run's link predictor, deleted together with it
ON_PREDICTOR = ("lmpnn",)
TRAINED = ("train", "encode")  # tables of settings, at least one of which a run has
OUTDATED = "the {} changed since this was measured"
# files that several processes write in parts; `fitting/parts.py` names them
_PART = re.compile(r"(best-\d+|(model|checkpoint|best)-[\w-]+-of-\d+)\.safetensors")

SettingsTable = Mapping[str, Any]
# the parts of a run by their table of settings: weights, checkpoint, and a predicate on the
# settings of an evaluation that says whether it depends on those weights
PARTS: dict[str, tuple[str, str, Callable[[SettingsTable], bool]]] = {
    "train": (MODEL, CHECKPOINT, lambda how: how.get("search") not in ("symbolic", "encoder")),
    "adapt": (ADAPTER, ADAPTATION, lambda how: how.get("adapted") is True),
    "encode": (ENCODER, ENCODING, lambda how: how.get("search") == "encoder"),
}
# commands that delete an optional part
REPAIRS = {ADAPTER: "adapt {} --drop", ENCODER: "encode {} --drop"}


class RunFolder(LockedFolder):
    """A folder with a graph, the settings and weights of its models, and their results.

    `settings.toml` is written last when a run is created: a folder without it is no run.
    """

    def __init__(self, path: str | Path) -> None:
        super().__init__(path)
        # the state of the settings file when it was read, and its tables
        self._kept: tuple[object, dict[str, dict[str, Any]]] = "", {}

    def __repr__(self) -> str:
        return f"RunFolder({str(self.path)!r})"

    @classmethod
    def create(
        cls,
        path: str | Path,
        graph: Graph,
        settings: SettingsTable,
        force: bool = False,
        *,
        table: str = "train",
        resumable: bool = True,
    ) -> RunFolder:
        """Create a run folder for a graph, with `settings` as one `table`.

        `force` replaces an existing run. `resumable` says that the caller could resume an existing
        run, and only changes the advice of the error.
        """
        run = cls(path)
        _make_empty(run.path, force, resumable)
        written = write_graph(graph, run.path)
        described = {"format": FORMAT, **written.pop("graph"), **fingerprint(graph)._asdict()}
        tables = {"graph": described, table: settings, **written}
        disk.write_text(run.path / SETTINGS, disk.to_toml(tables))
        _ = run.fingerprint
        return run

    @classmethod
    def open(cls, path: str | Path) -> RunFolder:
        """Open the run in a folder, and check that its settings can be read."""
        run = cls(path)
        if present := disk.exists(path):
            disk.finish_exchange(run.path)
        if not present or not run.has(SETTINGS):
            problem = (
                f"'{path}' is no run: it has no {SETTINGS}"
                if present
                else f"there is no run '{path!s:.200}'"
            )
            raise RunError(f"{problem}; train one on a graph first", command="train")
        run._stored_fingerprint()
        return run

    @contextmanager
    def exchanged(self) -> Iterator[tuple[RunFolder, Path]]:
        """Yield the run and an empty folder whose files replace those of the run atomically.

        All files of the run except the trace are exchanged; foreign files stay. One change waits
        for another.
        """
        with disk.exchanging(self.path, lambda name: _is_ours(name) and name != TRACE) as draft:
            yield RunFolder.open(self.path), draft

    @property
    def settings(self) -> dict[str, dict[str, Any]]:
        """The tables of `settings.toml`: `graph`, `train`, `encode` and those of other commands.

        The file is read again only after it was replaced.
        """
        if (state := disk.state(self.path / SETTINGS)) != self._kept[0]:
            with self.fits(SETTINGS, "train the run again"):
                settings = disk.from_toml(self._read_text(SETTINGS))
                if "graph" not in settings or settings.keys().isdisjoint(TRAINED):
                    raise ValueError("it lacks the tables [graph] and [train] or [encode]")
            self._kept = state, settings
        return {name: dict(table) for name, table in self._kept[1].items()}

    def write_settings(self, table: str, values: SettingsTable | None) -> None:
        """Replace or remove one table of `settings.toml`, under the run's lock."""
        with self.locked():
            self._kept = "", {}  # two successive files can share time stamp and inode
            tables = self.settings | {table: values or {}}
            remaining = {name: tables[name] for name in tables if name != table or values}
            disk.write_text(self.path / SETTINGS, disk.to_toml(remaining))

    @cached_property
    def fingerprint(self) -> Fingerprint:
        """The fingerprint of the graph at the first access; later changes do not affect it."""
        return self._stored_fingerprint()

    def _stored_fingerprint(self) -> Fingerprint:
        """The fingerprint that `settings.toml` holds at this moment."""
        made = self.settings["graph"]
        if made.get("format", 1) != FORMAT:
            raise RunError(
                f"run '{self.path}' was written by another version of Tacit, in format "
                f"{made.get('format', 1)} and not {FORMAT}; train the run again"
            )
        if "labels" not in made or "facts" not in made:
            raise RunError(
                f"{self.path / SETTINGS} does not say which labels and facts it is for; train the "
                "run again"
            )
        for name in ("entities", "relations", *SPLITS):
            if type(made.get(name)) is not int or not 0 <= made[name] < 2**31:
                raise RunError(
                    f"{self.path / SETTINGS} says that {name} is {made.get(name)!r:.40}; it must "
                    "be a whole number; train the run again"
                )
        return Fingerprint(str(made["labels"]), str(made["facts"]))

    def graph(self) -> Graph:
        """The graph of the run, with the facts of all splits; it is read once."""
        return self._graph

    @cached_property
    def _graph(self) -> Graph:
        _ = self.fingerprint  # refuses other formats
        return read_graph(self.path, self.settings)

    def check(self, graph: Graph) -> None:
        """Raise a `RunError` unless a graph has the run's labels and facts."""
        actual = fingerprint(graph)
        made = self.fingerprint
        if actual != made:
            what = "another vocabulary" if actual.labels != made.labels else "other facts"
            made_of = f"run '{self.path}' was trained on {what} than {graph.name} has now"
            raise RunError(f"{made_of}; give the graph as it was, or train a run in another folder")

    def begin(self, graph: Graph) -> None:
        """Raise a `RunError` early where the run could not store a training on this graph."""
        self.check(graph)
        self.check_unchanged()
        self.results()

    def check_unchanged(self) -> None:
        """Raise a `RunError` if the run's graph changed since the run was opened."""
        if self._stored_fingerprint() != self.fingerprint:
            raise RunError(
                f"the facts of run '{self.path}' were changed since it was opened; open it again"
            )

    @contextmanager
    def unchanged(self) -> Iterator[None]:
        """Lock the graph while data derived from it are written.

        A `RunError` says that the graph has changed since the run was opened.
        """
        with self.locked(shared=True):
            self.check_unchanged()
            yield

    @contextmanager
    def rewritten(self) -> Iterator[RunFolder]:
        """Yield a draft folder whose files replace those of the run atomically.

        It starts with the settings and results of the run.
        """
        with disk.exchanging(self.path) as draft:
            self.check_unchanged()
            for name in (SETTINGS, RESULTS):
                if self.has(name):
                    shutil.copyfile(self.path / name, draft / name)
            yield RunFolder(draft)

    def write_tensors(
        self, name: str, tensors: Mapping[str, Tensor], metadata: Mapping[str, str] | None = None
    ) -> None:
        """Write tensors and string metadata to a safetensors file with the run's fingerprint."""
        from safetensors import SafetensorError
        from safetensors.torch import save_file

        ready = {key: tensor.detach().cpu().contiguous() for key, tensor in tensors.items()}
        stamped = {**(metadata or {}), **self.fingerprint._asdict()}
        stamped["padding"] = disk.padding(
            {key: tensor.shape for key, tensor in ready.items()}, stamped
        )

        with self.unchanged(), disk.replacing(self.path / name) as target:
            try:
                save_file(ready, target, stamped)
            except SafetensorError as error:
                full = "os error 28" in str(error) or "No space left" in str(error)
                raise OSError(errno.ENOSPC if full else errno.EIO, str(error)) from None

    def tensors(self, name: str) -> dict[str, Tensor]:
        """The tensors of a safetensors file of this run."""
        return self.contents(name)[1]

    def metadata(self, name: str) -> dict[str, str]:
        """The metadata of a safetensors file of this run."""
        return self.contents(name, tensors=False)[0]

    def contents(self, name: str, tensors: bool = True) -> tuple[dict[str, str], dict[str, Tensor]]:
        """The metadata and, if `tensors`, the tensors of a safetensors file, read together."""
        from safetensors import SafetensorError, safe_open

        path = self.path / name
        if not path.is_file():
            raise RunError(f"run '{self.path}' has no {name}")
        try:
            with safe_open(path, framework="pt" if tensors else "np") as file:
                stamp = file.metadata() or {}
                made = self.fingerprint
                if not stamp.keys() >= set(Fingerprint._fields):
                    raise RunError(f"{path} was not written by Tacit; train the run again")
                if (stamp["labels"], stamp["facts"]) != made:
                    # the weights may be right, and the opened graph outdated
                    self.check_unchanged()
                    other = (
                        "another vocabulary" if stamp["labels"] != made.labels else "other facts"
                    )
                    advice = (
                        "drop it, or train it again" if name in REPAIRS else "train the run again"
                    )
                    raise RunError(
                        f"{path} was trained on {other}, and weights and graph must come from "
                        f"one run; {advice}",
                        command=self.repair(name),
                    )
                return dict(stamp), {
                    key: file.get_tensor(key)
                    for key in file.keys()  # noqa: SIM118
                } if tensors else {}
        except (SafetensorError, OSError) as error:
            reason = " ".join(str(error).split())[:200]
            raise RunError(
                f"{path} is truncated or no safetensors file ({reason}); delete it and train again"
            ) from None

    @contextmanager
    def fits(self, name: str, advice: str) -> Iterator[None]:
        """Turn errors from the content of a file into a `RunError` with advice."""
        try:
            yield
        except (
            KeyError,
            ValueError,
            TypeError,
            OverflowError,
            RuntimeError,
            SettingsError,
        ) as error:
            reason = " ".join(str(error).split())[:200]
            problem = f"{self.path / name} is damaged or does not fit the run ({reason})"
            raise RunError(f"{problem}; {advice}", command=self.repair(name)) from None

    def repair(self, name: str) -> str | None:
        """The command that deletes an optional part of the run."""
        return REPAIRS[name].format(shlex.quote(str(self.path))) if name in REPAIRS else None

    def trace(self, event: SettingsTable) -> None:
        """Append one line to `trace.jsonl`."""
        path = self.path / TRACE
        line = json.dumps(dict(event), ensure_ascii=False) + "\n"
        with disk.written(path), path.open("a", encoding="utf-8") as file:
            file.write(line)

    def events(self) -> list[dict[str, Any]]:
        """The entries of `trace.jsonl`, without a last line that a crash cut short."""
        if not self.has(TRACE):
            return []
        with self.fits(TRACE, "delete it"):
            lines = self._read_text(TRACE).split("\n")
            return [
                disk.from_json(line)
                for line in lines
                if line.startswith("{") and line.endswith("}")
            ]

    def write_results(self, results: SettingsTable) -> None:
        """Write `results.json`, with the versions that produced the results."""
        stamped = {**results, "versions": versions()}
        disk.write_text(
            self.path / RESULTS, json.dumps(stamped, indent=2, ensure_ascii=False) + "\n"
        )

    def results(self) -> dict[str, Any]:
        """The content of `results.json`, or an empty dict."""
        if not self.has(RESULTS):
            return {}
        with self.fits(RESULTS, "delete it"):
            results = disk.from_json(self._read_text(RESULTS))
            if not isinstance(results, dict):
                raise ValueError("it holds no table")
            evaluations = results.get("eval", [])
            tables = evaluations if isinstance(evaluations, list) else [None]
            if not all(
                isinstance(each, dict) and isinstance(each.get("settings", {}), dict)
                for each in tables
            ):
                raise ValueError("eval is no list of evaluations")
        return dict(results)

    @contextmanager
    def changed_results(self) -> Iterator[dict[str, Any]]:
        """Yield the results for changes under the run's lock, and write them if they changed."""
        with self.locked():
            results = self.results()
            before = copy.deepcopy(results)
            yield results
            if results != before:
                self.write_results(results)

    def depends(self, settings: SettingsTable, part: str) -> bool:
        """Whether an evaluation with these settings depends on a part of the run.

        An encoder without a link predictor also predicts links.
        """
        alone = part == "encode" and not self.has(MODEL)
        return PARTS[part][-1](settings) or (alone and PARTS["train"][-1](settings))

    def weight_files(self) -> dict[str, list[Any]]:
        """The state of the weight files of each part, which changes when they are written."""
        # one file, or one per process
        model = sorted(self.path.glob(f"{Path(MODEL).stem}*.safetensors"))
        paths = {"train": model, "adapt": [self.path / ADAPTER], "encode": [self.path / ENCODER]}
        return {
            part: [(path.name, disk.state(path)) for path in files] for part, files in paths.items()
        }

    def check_weights(self, files: Mapping[str, list[Any]]) -> None:
        """Raise a `RunError` where the weights that predict links are others than when `files` told
        them apart.
        """
        parts = ("train",) if files["train"] else ("train", "encode")
        present = self.weight_files()
        if any(files[part] != present[part] for part in parts):
            raise RunError(
                f"the weights of run '{self.path}' were changed since it was opened; open it again"
            )

    def outdate(self, part: str) -> None:
        """Mark the evaluations that depend on a part of the run as outdated."""
        with self.changed_results() as results:
            for each in results.get("eval", []):
                if self.depends(each.get("settings", {}), part):
                    each.setdefault("outdated", OUTDATED.format("weights have"))

    def drop(self, part: str) -> bool:
        """Delete a part of the run with its settings and results; return whether it existed.

        Without a link predictor, the adapter belongs to the encoder and is deleted with it.
        """
        if part == "encode" and not self.has(MODEL):
            self.drop("adapt")
        weights, under_way, _ = PARTS[part]
        had = self.has(weights)
        self.outdate(part)
        self.remove(weights)
        self.remove(under_way)
        # a run needs one trained table
        if part in self.settings and not self.settings.keys().isdisjoint(set(TRAINED) - {part}):
            self.write_settings(part, None)
        with self.changed_results() as results:
            results.pop(part, None)
        return had

    def _read_text(self, name: str) -> str:
        path = self.path / name
        try:
            return path.read_bytes().decode("utf-8")
        except FileNotFoundError:
            raise RunError(f"run '{self.path}' has no {name}; train the run again") from None
        except (OSError, UnicodeDecodeError) as error:
            raise RunError(f"{path} cannot be read ({error})") from None


def versions() -> dict[str, str]:
    """The versions of Python, torch, numpy and Tacit, and the git head if there is one."""
    torch = (
        sys.modules["torch"].__version__ if "torch" in sys.modules else metadata.version("torch")
    )
    numbers = {"python": platform.python_version(), "numpy": np.__version__, "torch": torch}
    numbers["tacit"] = sys.modules["tacit"].__version__
    with suppress(OSError, subprocess.SubprocessError):
        command = ["git", "rev-parse", "HEAD"]
        numbers["git"] = subprocess.run(
            command, capture_output=True, text=True, timeout=5, check=True
        ).stdout.strip()
    return numbers


def _make_empty(path: Path, force: bool, resumable: bool) -> None:
    """Create a folder without a run; only files of runs are deleted."""
    if str(path).encode("utf-8", "replace").decode() != str(path):
        raise RunError(
            f"'{path}' is not UTF-8, as the name of a run folder must be; choose another"
        )
    if path.is_file():
        raise RunError(f"'{path}' is a file; a run needs a folder; choose another name")
    with disk.written(path):
        path.mkdir(parents=True, exist_ok=True)
    disk.finish_exchange(path)
    shutil.rmtree(path / disk.DRAFT, ignore_errors=True)
    names = {entry.name for entry in path.iterdir()}
    begun = not names.isdisjoint(WRITTEN)  # else there is nothing to lose
    if SETTINGS in names and begun and not force:
        go_on = "go on with it by `resume=True`, " if resumable else ""
        raise RunError(
            f"'{path}' holds a run; {go_on}replace it by `force=True`, or choose another folder"
        )
    ours = {name for name in names if _is_ours(name)}
    if names - ours and SETTINGS not in names:
        raise RunError(
            f"folder '{path}' is not empty and holds no run; choose an empty or a new one"
        )
    with ExitStack() as stack:
        if SETTINGS in names:
            for part in TRAINED:
                stack.enter_context(RunFolder(path).training(part))
            stack.enter_context(RunFolder(path).in_use(changes=True))
        for name in sorted(ours, key=lambda name: name != SETTINGS):  # the mark of a run goes first
            if not name.startswith(disk.LOCK):  # others may hold a lock, or wait for it
                disk.remove(path / name)


def _is_ours(name: str) -> bool:
    """Whether a file belongs to a run."""
    return name in FILES or name.startswith(disk.TEMPORARY) or _PART.fullmatch(name) is not None
