"""The run folder: everything a trained model needs, in files that are never half-written."""

from __future__ import annotations

import copy
import errno
import json
import platform
import subprocess
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from importlib import metadata
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from tacit import disk
from tacit.errors import RunError
from tacit.graph.graph import Graph
from tacit.graph.stored import Fingerprint
from tacit.run_folder.files import (
    ADAPTER,
    ENCODER,
    MODEL,
    ON_PREDICTOR,
    OUTDATED,
    PARTS,
    REPAIRS,
    RESULTS,
    RULES,
    RULES_MODEL,
    SETTINGS,
    TRACE,
    TRAINED_TABLES,
    SettingsTable,
)
from tacit.run_folder.graph_folder import GraphFolder

if TYPE_CHECKING:
    from torch import Tensor


class RunFolder(GraphFolder):
    """A folder with a graph, the settings and weights of its models, and their results."""

    def begin(self, graph: Graph) -> None:
        """Raise a `RunError` early where the run could not store a training on this graph."""
        self.check(graph)
        self.check_unchanged()
        self.results()

    def write_tensors(
        self, name: str, tensors: Mapping[str, Tensor], metadata: Mapping[str, str] | None = None
    ) -> None:
        """Write tensors and string metadata to a safetensors file with the run's fingerprint."""
        from safetensors import SafetensorError
        from safetensors.torch import save_file

        arrays = {key: tensor.detach().cpu().contiguous() for key, tensor in tensors.items()}
        stamped = {**(metadata or {}), **self.fingerprint._asdict()}
        shapes = {key: tensor.shape for key, tensor in arrays.items()}
        stamped["padding"] = disk.padding(shapes, stamped)
        with self.lock_graph(), disk.replacing(self.path / name) as target:
            try:
                save_file(arrays, target, stamped)
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
                about = dict(file.metadata() or {})
                self._check_stamp(name, about)
                keys = file.keys() if tensors else ()
                return about, {key: file.get_tensor(key) for key in keys}
        except (SafetensorError, OSError) as error:
            reason = " ".join(str(error).split())[:200]
            raise RunError(
                f"{path} is truncated or no safetensors file ({reason}); delete it and train again"
            ) from None

    def _check_stamp(self, name: str, about: Mapping[str, str]) -> None:
        """Raise a `RunError` for a file of weights that was trained on another graph."""
        path = self.path / name
        if not about.keys() >= set(Fingerprint._fields):
            raise RunError(f"{path} was not written by Tacit; train the run again")
        if (about["labels"], about["facts"]) == self.fingerprint:
            return
        self.check_unchanged()  # the weights may be right, and the opened graph outdated
        advice = "drop it, or train it again" if name in REPAIRS else "train the run again"
        raise RunError(
            f"{path} was trained on {self._difference(about['labels'])}, and weights and graph "
            f"must come from one run; {advice}",
            command=self.repair(name),
        )

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
            lines = self.read_text(TRACE).split("\n")
            return [disk.from_json(line) for line in lines if line[:1] + line[-1:] == "{}"]

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
            results = disk.from_json(self.read_text(RESULTS))
            if not isinstance(results, dict):
                raise ValueError("it holds no table")
            evaluations = results.get("eval", [])
            if not isinstance(evaluations, list) or not all(
                isinstance(each, dict) and isinstance(each.get("settings", {}), dict)
                for each in evaluations
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

    @property
    def has_predictor(self) -> bool:
        """Whether the run has a link predictor: vectors, rules, or both."""
        return self.has(MODEL) or self.has(RULES)

    def depends(self, settings: SettingsTable, part: str) -> bool:
        """Whether an evaluation with these settings depends on a part of the run.

        An encoder without a link predictor also predicts links; one over its vectors depends on it.
        """
        encoder_only = part == "encode" and not self.has_predictor
        if part == "train" and self.settings.get("encode", {}).get("model") in ON_PREDICTOR:
            return PARTS["encode"][-1](settings) or PARTS["train"][-1](settings)
        return PARTS[part][-1](settings) or (encoder_only and PARTS["train"][-1](settings))

    def weight_files(self) -> dict[str, list[Any]]:
        """The state of the weight files of each part, which changes when they are written."""
        # one file, or one per process
        model = sorted(self.path.glob(f"{Path(MODEL).stem}*.safetensors"))
        paths = {
            "train": model,
            "rules": [self.path / RULES] if self.has(RULES) else [],
            "adapt": [self.path / ADAPTER],
            "encode": [self.path / ENCODER],
        }
        return {
            part: [(path.name, disk.state(path)) for path in files] for part, files in paths.items()
        }

    def check_weights(self, files: Mapping[str, list[Any]]) -> None:
        """Raise a `RunError` if the weights that predict links changed since `files` were read."""
        present = self.weight_files()
        if any(files[part] != present[part] for part in predicting_parts(files)):
            raise RunError(
                f"the weights of run '{self.path}' were changed since it was opened; open it again"
            )

    def outdate(self, part: str) -> None:
        """Mark the evaluations that depend on a part of the run as outdated."""
        with self.changed_results() as results:
            self._mark_outdated(results, part)

    def _mark_outdated(self, results: Mapping[str, Any], part: str) -> None:
        for each in results.get("eval", []):
            if self.depends(each.get("settings", {}), part):
                each.setdefault("outdated", OUTDATED.format("weights have"))

    def drop(self, part: str) -> bool:
        """Delete a part of the run with its settings and results; return whether it existed.

        Readers find all of the part or nothing of it. Without a link predictor, the adapter belongs
        to the encoder and is deleted with it.
        """
        if part == "encode" and not self.has_predictor:
            self.drop("adapt")
        weights, under_way, _ = PARTS[part]
        with disk.exchanging(self.path, (weights, under_way).__contains__) as draft:
            self._read_settings = "", {}  # two successive files can share time stamp and inode
            settings, results = self.settings, self.results()
            existed = self.has(weights) or part in settings
            before = copy.deepcopy(results)
            # a run needs one trained table
            if not settings.keys().isdisjoint(set(TRAINED_TABLES) - {part}):
                settings.pop(part, None)
            self._mark_outdated(results, part)
            results.pop(part, None)
            changed = type(self)(draft)
            if results != before:
                changed.write_results(results)
            if existed or self.has(under_way) or settings != self.settings:
                disk.write_text(draft / SETTINGS, disk.to_toml(settings))
        return existed


def predicting_parts(files: Mapping[str, list[Any]]) -> tuple[str, ...]:
    """The parts of a run that predict links: an encoder does without a link predictor."""
    by_predictor = files["train"] or files["rules"]
    return ("train", "rules") if by_predictor else ("train", "rules", "encode")


def is_of_rules(run: RunFolder) -> bool:
    """Whether rules alone are the link predictor of a run."""
    return run.settings.get("train", {}).get("model") == RULES_MODEL


def versions() -> dict[str, str]:
    """The versions of Python, torch, numpy and Tacit, and the git head if there is one."""
    torch = sys.modules.get("torch")
    numbers = {
        "python": platform.python_version(),
        "numpy": np.__version__,
        "torch": torch.__version__ if torch else metadata.version("torch"),
        "tacit": sys.modules["tacit"].__version__,
    }
    with suppress(OSError, subprocess.SubprocessError):
        command = ["git", "rev-parse", "HEAD"]
        head = subprocess.run(command, capture_output=True, text=True, timeout=5, check=True)
        numbers["git"] = head.stdout.strip()
    return numbers
