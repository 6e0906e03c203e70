"""Retrievers of the best tails in a run, by index, codes or keys."""

from __future__ import annotations

import json
import time
from contextlib import suppress
from hashlib import file_digest, sha256
from typing import Any

import torch
from torch import Tensor

from tacit.disk import from_json, mapped_array, write_array, write_text
from tacit.errors import RunError, SettingsError, TacitError
from tacit.links.codes import Codes, shared_codes
from tacit.links.index import IndexRetriever, build_index
from tacit.links.retrievers import CodeRetriever, ScanRetriever, TopKRetriever
from tacit.links.scorer import BilinearScorer, Scorer, WeightRecord
from tacit.run_folder.files import BYTES, CODES, INDEX, MODEL, WEIGHTS
from tacit.run_folder.folder import RunFolder


class RunRetrievers:
    """Creates retrievers of tails for the weights of a run, and their files on disk.

    The weights are those of the run when this object is created, before they are read. If they are
    replaced on disk later, nothing of the old weights is stored.
    """

    def __init__(self, run: RunFolder) -> None:
        self.run = run
        self._files = _weight_files(run)
        # models of the run, each with the record of its weights as they were read
        self._watched: tuple[tuple[object, WeightRecord], ...] = ()
        self._forgotten = False

    def __getstate__(self) -> dict[str, Any]:
        """The state of a copy; its weights lie elsewhere, so that earlier writes are noted."""
        models = [model for model, _ in self._watched]
        written = any(map(self._written, models)) or self._forgotten
        return vars(self) | {"_watched": models, "_forgotten": written}

    def __setstate__(self, state: dict[str, Any]) -> None:
        vars(self).update(state | {"_watched": ()})
        for model in state["_watched"]:
            self.watch(model)

    def watch(self, model: object) -> None:
        """Take note of a model's weights as they were read, so that writes to them are seen."""
        self._watched = (*self._watched, (model, WeightRecord.of(model)))

    def forget(self) -> None:
        """Use nothing on disk from now on, and keep nothing there: weights were written to."""
        self._forgotten = True

    def check_unwritten(self, model: object) -> None:
        """Raise a `RunError` if the weights of a model in memory are others than on disk."""
        if self._written(model):
            raise RunError(
                f"the weights of run '{self.run.path}' were written to in memory, and are not "
                "those on disk; open it again"
            )

    def _written(self, model: object) -> bool:
        """Whether weights in memory are others than on disk, as far as that can be seen."""
        records = (record for watched, record in self._watched if watched is model)
        return self._forgotten or any(record.differs(model) for record in records)

    @property
    def indexed(self) -> bool:
        """Whether the run has an index."""
        return self.run.has(INDEX)

    def retriever(
        self, kind: str, scorer: Scorer, loopless: Tensor, *, nprobe: int = 32, sums: bool = True
    ) -> TopKRetriever:
        """A retriever by `index` or `scan`; `loopless` relations `[R]` have no loops.

        A scan reads codes if the run has them, unless it must compute `sums`, which need the keys.
        Weights that were changed in memory have neither codes nor an index on disk.
        """
        model = require_bilinear(scorer)
        weights = self._weights()
        written = self._written(model)
        if kind == "index" and not self.indexed:
            raise RunError(
                f"run '{self.run.path}' has no {INDEX}; build one first", command="index RUN"
            )
        if kind == "index" and not written:
            facts = self.run.graph().index("train")
            return IndexRetriever(model, self.run.path / INDEX, weights, loopless, facts, nprobe)
        if sums or written or not self.run.has(CODES):
            return ScanRetriever(model, loopless)
        return CodeRetriever(model, self._read_codes(weights, model.keys().detach()), loopless)

    @torch.no_grad()
    def build(self, scorer: Scorer, nlist: int | None = None, seed: int = 0) -> dict[str, Any]:
        """Write index and codes of the run's weights, and return their sizes."""
        began = time.perf_counter()
        with self.run.in_use():
            keys = require_bilinear(scorer).keys().detach()
            weights = self._weights()
            self.check_unwritten(scorer)
            stamp = build_index(self.run.path / INDEX, keys, weights, nlist, seed)
            self._write_codes(keys, weights)
            written = sum((self.run.path / name).stat().st_size for name in (INDEX, CODES, BYTES))
        return {
            "entities": stamp.entities,
            "nlist": stamp.nlist,
            "bytes": written,
            "seconds": time.perf_counter() - began,
        }

    def _weights(self) -> str:
        """A SHA-256 of the run's weight files, which must be those that were opened.

        Hashing a gigabyte takes half a second, so `weights.json` stores the hash with size and time
        of the files, and is valid as long as these are the same.
        """
        run = self.run
        if not self._files:
            raise RunError(f"run '{run.path}' has no {MODEL}; train it first")
        self._check_files()
        # the stored hash may be missing or damaged
        with suppress(OSError, ValueError, TypeError, KeyError):
            record = from_json((run.path / WEIGHTS).read_text(encoding="utf-8"))
            if record["files"] == self._files and isinstance(record["sha256"], str):
                return record["sha256"]
        hasher = sha256()
        for name, *_ in self._files:
            with (run.path / name).open("rb") as file:
                file_digest(file, lambda: hasher)
        self._check_files()  # they may have been replaced on the way
        content = {"files": self._files, "sha256": hasher.hexdigest()}
        with suppress(TacitError):  # the run may be read-only
            write_text(run.path / WEIGHTS, json.dumps(content))
        return hasher.hexdigest()

    def _check_files(self) -> None:
        """Raise a `RunError` if the weight files were replaced since the run was opened."""
        if _weight_files(self.run) != self._files:
            raise RunError(
                f"the weights of run '{self.run.path}' were changed since it was opened; open it "
                "again"
            )

    def _read_codes(self, weights: str, keys: Tensor) -> Codes:
        """The stored codes of some keys, whose weights have this hash."""
        path = self.run.path / CODES
        stamp, tensors = self.run.contents(CODES)
        if stamp.get("weights") != weights:
            problem = "was built for other weights than the run has"
        else:
            try:
                codes = Codes(torch.from_numpy(mapped_array(self.run.path / BYTES)), **tensors)
                if codes.match(keys):
                    return codes
                problem = f"does not fit {BYTES}"  # a writer may have been killed between the two
            except (OSError, ValueError, TypeError) as error:
                problem = f"is damaged ({error})"
        raise RunError(f"{path} {problem}; build it again", command="index RUN")

    def _write_codes(self, keys: Tensor, weights: str) -> None:
        """Write the codes of keys, with their bytes in a file of their own, which can be mapped."""
        parts = dict(vars(Codes.of(keys)))
        with self.run.lock_graph():
            write_array(self.run.path / BYTES, parts.pop("numbers").numpy())
        self.run.write_tensors(CODES, parts, {"weights": weights})

    def codes(self, scorer: BilinearScorer, create: bool = True) -> Codes | None:
        """The codes of the run's weights, shared by its processes, or None unless `create`.

        They are local to this process if the run cannot be written or its weights changed.
        """
        make = Codes.of if self._written(scorer) else self._stored_codes
        return shared_codes(scorer, create or self.run.has(CODES), make)

    def _stored_codes(self, keys: Tensor) -> Codes:
        """The codes on disk, which are written where they are missing or damaged."""
        with suppress(TacitError):
            weights = self._weights()
            with suppress(TacitError):
                return self._read_codes(weights, keys)
            self._write_codes(keys, weights)
            return self._read_codes(weights, keys)  # another process may have replaced the weights
        return Codes.of(keys)


def require_bilinear(scorer: Scorer) -> BilinearScorer:
    """A scorer whose tails are found by inner products on the CPU, or a `SettingsError`."""
    if not isinstance(scorer, BilinearScorer):
        reason = (
            "others are found by the inner products of complex, distmult and cp, and this model "
            "measures distances"
        )
    elif scorer.device.type != "cpu":
        reason = "others are found on the CPU alone, by `device='cpu'`"
    else:
        return scorer
    raise SettingsError(f"candidates must be rows here: {reason}", "candidates")


def _weight_files(run: RunFolder) -> list[list[Any]]:
    """Name, size and time of the run's weight files: one, or one per training process."""
    return [[name, *(state or ())[:2]] for name, state in run.weight_files()["train"]]
