"""The run folder: everything a trained model needs, in files that are never half-written."""

from __future__ import annotations

import copy
import errno
import json
import platform
import re
import shutil
import subprocess
import sys
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from functools import cached_property
from importlib import metadata
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from tacit import disk
from tacit.errors import RunError, SettingsError
from tacit.graph.graph import SPLITS, Graph
from tacit.graph.stored import GRAPH_FILES, Fingerprint, fingerprint, read_graph, write_graph

if TYPE_CHECKING:
    from torch import Tensor

FORMAT = 2  # of the files of a run; those of another are not read
SETTINGS = "settings.toml"
MODEL, ADAPTER, ENCODER = "model.safetensors", "adapter.safetensors", "encoder.safetensors"
# Of what is under way.
CHECKPOINT, ADAPTATION, ENCODING = "checkpoint.safetensors", "adaptation.safetensors", "encoding.safetensors"
BEST = "best-{step}.safetensors"  # the best weights of a training under way
QUESTIONS = "questions.safetensors"  # to validate with
TRACE, RESULTS = "trace.jsonl", "results.json"
INDEX, WEIGHTS = "index.faiss", "weights.json"  # of the weights, to find tails by
CODES, BYTES = "codes.safetensors", "codes.npy"  # the same in a byte a number
ROWS, LOG_SUMS = "rows.cache", "log-sums.cache"  # what was found
FOUND_BY = (INDEX, CODES, BYTES, WEIGHTS, ROWS, LOG_SUMS)
EARLIER = "facts.npz"  # of a run of the first format; it goes when the run is replaced
WRITTEN = (MODEL, ADAPTER, ENCODER, CHECKPOINT, ADAPTATION, ENCODING, TRACE, RESULTS)  # by commands that take time
FILES = (SETTINGS, *GRAPH_FILES, EARLIER, *WRITTEN, QUESTIONS, *FOUND_BY)
# What an engine is made of; the rest is written beside it while somebody trains, adapts, evaluates or asks.
OPENED = (SETTINGS, *GRAPH_FILES, MODEL, ADAPTER, ENCODER, INDEX, CODES, BYTES)
ON_PREDICTOR = ("lmpnn",)  # encoders over the vectors of the link predictor beside them, with which they go
TRAINED = ("train", "encode")  # tables of settings of which a run has one or both
OUTDATED = "the {} changed since this was measured"
# What several processes write together is in parts; `fitting/parts.py` names them.
_PART = re.compile(r"(best-\d+|(model|checkpoint|best)-[\w-]+-of-\d+)\.safetensors")

SettingsTable = Mapping[str, Any]
# What a command puts into a run, by the name of its settings and results: weights, what is under way, and, by the
# settings of an evaluation, whether it is one of those weights.
PARTS: dict[str, tuple[str, str, Callable[[SettingsTable], bool]]] = {
    "train": (MODEL, CHECKPOINT, lambda asked: asked.get("search") not in ("symbolic", "encoder")),
    "adapt": (ADAPTER, ADAPTATION, lambda asked: asked.get("adapted") is True),
    "encode": (ENCODER, ENCODING, lambda asked: asked.get("search") == "encoder"),
}


class RunFolder:
    """A folder that holds a graph, the settings and weights of models trained on it, and what was measured.

    `settings.toml` is written last when a run is created: a folder without it is no run.
    """

    def __init__(self, path: str | Path) -> None:
        self.path = Path(path)
        self._kept: tuple[object, dict[str, dict[str, Any]]] = "", {}  # of which file the settings are, and they

    def __repr__(self) -> str:
        return f"RunFolder({str(self.path)!r})"

    @classmethod
    def create(
        cls, path: str | Path, graph: Graph, settings: SettingsTable, force: bool = False, *, table: str = "train"
    ) -> RunFolder:
        """A run folder for a graph, with `settings` as a `table` of them; `force` replaces a run that is there."""
        run = cls(path)
        _make_empty(run.path, force)
        written = write_graph(graph, run.path)
        described = {"format": FORMAT, **written.pop("graph"), **fingerprint(graph)._asdict()}
        tables = {"graph": described, table: settings, **written}
        disk.write_text(run.path / SETTINGS, disk.to_toml(tables))
        return run

    @classmethod
    def open(cls, path: str | Path) -> RunFolder:
        """The run in a folder, its settings checked to be readable."""
        run = cls(path)
        if not disk.exists(path):
            raise RunError(f"there is no run folder '{path!s:.200}'; train one of a graph first", command="train")
        disk.finish_exchange(run.path)
        if not run.has(SETTINGS):  # most likely the graph itself was given
            reason = f"it has no {SETTINGS}" if run.path.is_dir() else "it is a file"
            raise RunError(f"'{path}' is no run folder: {reason}; train one of a graph first", command="train")
        _ = run.fingerprint
        return run

    @contextmanager
    def exchanged(self) -> Iterator[tuple[RunFolder, Path]]:
        """The run as it stands, and an empty folder; what is written there becomes the run, at once and as a whole.

        All of the run's files are exchanged but for the trace; those of others stay. One change waits for another.
        """
        with disk.exchanging(self.path, lambda name: _is_ours(name) and name != TRACE) as draft:
            yield RunFolder.open(self.path), draft

    def has(self, name: str) -> bool:
        """Whether the run has a file."""
        return (self.path / name).is_file()

    @property
    def settings(self) -> dict[str, dict[str, Any]]:
        """The tables of `settings.toml`: `graph`, `train` or `encode` or both, and those other commands add.

        The file is read once, and again where it is another one.
        """
        if (state := disk.state(self.path / SETTINGS)) != self._kept[0]:
            with self.fits(SETTINGS, "train the run again"):
                settings = disk.from_toml(self._read_text(SETTINGS))
                if "graph" not in settings or settings.keys().isdisjoint(TRAINED):
                    raise ValueError("it lacks the tables [graph] and [train] or [encode]")
            self._kept = state, settings
        return {name: dict(table) for name, table in self._kept[1].items()}

    def write_settings(self, table: str, values: SettingsTable | None) -> None:
        """Replace one table of `settings.toml`, or remove it."""
        tables = self.settings | {table: values or {}}
        kept = {name: tables[name] for name in tables if name != table or values}
        disk.write_text(self.path / SETTINGS, disk.to_toml(kept))

    @property
    def fingerprint(self) -> Fingerprint:
        """The fingerprint of the graph this run was made for."""
        made = self.settings["graph"]
        if made.get("format", 1) != FORMAT:
            other = f"was written by another version of Tacit, in format {made.get('format', 1)} and not {FORMAT}"
            raise RunError(f"run '{self.path}' {other}; train the run again")
        if "labels" not in made or "facts" not in made:
            raise RunError(f"{self.path / SETTINGS} says not which labels and facts it is for; train the run again")
        for name in ("entities", "relations", *SPLITS):
            if type(made.get(name)) is not int or not 0 <= made[name] < 2**31:
                given = f"{made.get(name)!r:.40}"
                raise RunError(f"{self.path / SETTINGS} says that {name} is {given}; expected a count of them")
        return Fingerprint(str(made["labels"]), str(made["facts"]))

    def graph(self) -> Graph:
        """The graph the run was made for, facts of all splits included; read once."""
        return self._graph

    @cached_property
    def _graph(self) -> Graph:
        _ = self.fingerprint  # which refuses another format
        return read_graph(self.path, self.settings)

    def check(self, graph: Graph) -> None:
        """Raise a `RunError` unless the run was made for the labels and the facts of this graph."""
        given, made = fingerprint(graph), self.fingerprint
        if given != made:
            what = "another vocabulary" if given.labels != made.labels else "other facts"
            made_of = f"run '{self.path}' was trained on {what} than {graph.name} has now"
            raise RunError(f"{made_of}; give the graph as it was, or train anew in another folder")

    def begin(self, graph: Graph) -> None:
        """Raise a `RunError` where a training on a graph could not be kept in the run: before hours are spent."""
        self.check(graph)
        self.results()

    def write_tensors(
        self, name: str, tensors: Mapping[str, Tensor], metadata: Mapping[str, str] | None = None
    ) -> None:
        """Write tensors and string metadata as one safetensors file, stamped with the run's fingerprint."""
        from safetensors import SafetensorError
        from safetensors.torch import save_file

        ready = {key: tensor.detach().cpu().contiguous() for key, tensor in tensors.items()}
        stamped = {**(metadata or {}), **self.fingerprint._asdict()}
        stamped["padding"] = disk.padding({key: tensor.shape for key, tensor in ready.items()}, stamped)

        with disk.replacing(self.path / name) as target:
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
        """The metadata and, where they are wanted, the `tensors` of a safetensors file of this run, of one moment."""
        from safetensors import SafetensorError, safe_open

        path = self.path / name
        if not path.is_file():
            raise RunError(f"run '{self.path}' has no {name}")
        try:
            with safe_open(path, framework="pt" if tensors else "np") as file:
                stamp, made = file.metadata() or {}, self.fingerprint
                if not stamp.keys() >= set(Fingerprint._fields):
                    raise RunError(f"{path} was not written by Tacit; train the run again")
                if (stamp["labels"], stamp["facts"]) != made:
                    other = "another vocabulary" if stamp["labels"] != made.labels else "other facts"
                    raise RunError(f"{path} was trained on {other}; weights and graph must come from one run")
                return dict(stamp), {key: file.get_tensor(key) for key in file.keys()} if tensors else {}  # noqa: SIM118
        except (SafetensorError, OSError) as error:
            reason = " ".join(str(error).split())[:200]
            raise RunError(f"{path} is truncated or no safetensors file ({reason}); delete it, train again") from None

    @contextmanager
    def fits(self, name: str, advice: str) -> Iterator[None]:
        """Raise a `RunError` with advice where what a file holds does not make what it should."""
        try:
            yield
        except (KeyError, ValueError, TypeError, OverflowError, RuntimeError, SettingsError) as error:
            reason = " ".join(str(error).split())[:200]
            raise RunError(f"{self.path / name} is damaged or does not fit the run ({reason}); {advice}") from None

    def trace(self, event: SettingsTable) -> None:
        """Append one line to `trace.jsonl`."""
        path, line = self.path / TRACE, json.dumps(dict(event), ensure_ascii=False) + "\n"
        with disk.written(path), path.open("a", encoding="utf-8") as file:
            file.write(line)

    def events(self) -> list[dict[str, Any]]:
        """The lines of `trace.jsonl`; a last line cut short by a crash is left out."""
        if not self.has(TRACE):
            return []
        with self.fits(TRACE, "delete it"):
            lines = self._read_text(TRACE).split("\n")
            return [disk.from_json(line) for line in lines if line.startswith("{") and line.endswith("}")]

    def write_results(self, results: SettingsTable) -> None:
        """Write `results.json`, with the versions that produced it."""
        stamped = {**results, "versions": versions()}
        disk.write_text(self.path / RESULTS, json.dumps(stamped, indent=2, ensure_ascii=False) + "\n")

    def results(self) -> dict[str, Any]:
        """What `results.json` holds, or nothing."""
        if not self.has(RESULTS):
            return {}
        with self.fits(RESULTS, "delete it"):
            results = disk.from_json(self._read_text(RESULTS))
            if not isinstance(results, dict):
                raise ValueError("it holds no table")
            evaluations = results.get("eval", [])
            tables = evaluations if isinstance(evaluations, list) else [None]
            if not all(isinstance(each, dict) and isinstance(each.get("settings", {}), dict) for each in tables):
                raise ValueError("eval is no list of evaluations")
        return dict(results)

    @contextmanager
    def changed_results(self) -> Iterator[dict[str, Any]]:
        """What `results.json` holds, to be changed while nobody else does; where it was, it is written."""
        path = self.path / RESULTS
        with disk.written(path), disk.locked(path.with_name(f"{disk.LOCK}-{path.name}")):
            results = self.results()
            before = copy.deepcopy(results)
            yield results
            if results != before:
                self.write_results(results)

    def outdate(self, part: str) -> None:
        """Mark the evaluations of a part of the run as made with other weights than it has."""
        with self.changed_results() as results:
            for each in results.get("eval", []):
                if PARTS[part][-1](each.get("settings", {})):
                    each.setdefault("outdated", OUTDATED.format("weights have"))

    def drop(self, part: str) -> bool:
        """Take a part out of the run, with its settings and results; whether it was there.

        Without a link predictor an adapter is one of what the encoder predicts, and goes with it.
        """
        if part == "encode" and not self.has(MODEL):
            self.drop("adapt")
        weights, under_way, _ = PARTS[part]
        had = self.has(weights)
        self.outdate(part)
        self.remove(weights)
        self.remove(under_way)
        if part in self.settings and not self.settings.keys().isdisjoint(set(TRAINED) - {part}):  # it stays a run
            self.write_settings(part, None)
        with self.changed_results() as results:
            results.pop(part, None)
        return had

    def remove(self, name: str) -> None:
        """Delete a file of the run, if it is there."""
        disk.remove(self.path / name)

    def tidy(self) -> None:
        """Delete what writers that were killed have left behind."""
        for path in self.path.glob(disk.TEMPORARY + "*"):
            if path.is_file() and not path.name.startswith(disk.LOCK):
                disk.remove(path)

    def _read_text(self, name: str) -> str:
        path = self.path / name
        try:
            return path.read_bytes().decode("utf-8")
        except FileNotFoundError:
            raise RunError(f"run '{self.path}' has no {name}; train the run again") from None
        except (OSError, UnicodeDecodeError) as error:
            raise RunError(f"{path} cannot be read ({error})") from None


def versions() -> dict[str, str]:
    """The versions results depend on: Python, torch, numpy, Tacit, and the git head of the working directory if any."""
    torch = sys.modules["torch"].__version__ if "torch" in sys.modules else metadata.version("torch")
    numbers = {"python": platform.python_version(), "numpy": np.__version__, "torch": torch}
    numbers["tacit"] = sys.modules["tacit"].__version__
    with suppress(OSError, subprocess.SubprocessError):
        command = ["git", "rev-parse", "HEAD"]
        numbers["git"] = subprocess.run(command, capture_output=True, text=True, timeout=5, check=True).stdout.strip()
    return numbers


def _make_empty(path: Path, force: bool) -> None:
    """Make a folder that holds no run; files that are not ours are never deleted."""
    if str(path).encode("utf-8", "replace").decode() != str(path):
        raise RunError(f"'{path}' is no text in UTF-8, and weights are found by such names alone; choose another")
    if path.is_file():
        raise RunError(f"'{path}' is a file; a run needs a folder")
    with disk.written(path):
        path.mkdir(parents=True, exist_ok=True)
    disk.finish_exchange(path)
    shutil.rmtree(path / disk.DRAFT, ignore_errors=True)
    names = {entry.name for entry in path.iterdir()}
    begun = not names.isdisjoint(WRITTEN)  # else there is nothing to lose
    if SETTINGS in names and begun and not force:
        raise RunError(f"'{path}' holds a run; resume it, replace it with force, or choose another folder")
    ours = {name for name in names if _is_ours(name)}
    if names - ours and SETTINGS not in names:
        raise RunError(f"folder '{path}' is not empty and holds no run; choose another")
    for name in sorted(ours - {disk.LOCK}, key=lambda name: name != SETTINGS):  # the mark of a run goes first
        disk.remove(path / name)


def _is_ours(name: str) -> bool:
    """Whether a file belongs to a run."""
    return name in FILES or name.startswith(disk.TEMPORARY) or _PART.fullmatch(name) is not None
