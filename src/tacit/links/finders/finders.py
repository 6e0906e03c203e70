"""What finds the best tails of rows in a run: its index, its codes, its keys, and the rows that it keeps."""

from __future__ import annotations

import json
import time
from contextlib import suppress
from hashlib import file_digest, sha256
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from tacit.disk import from_json, mapped_array, state, write_array, write_text
from tacit.errors import RunError, SettingsError, TacitError
from tacit.links.finders.cached_rows import CachedTop
from tacit.links.finders.codes import Codes, shared_codes
from tacit.links.finders.finder import TopScorer
from tacit.links.finders.index import IndexTop, build_index
from tacit.links.finders.scan import CodedTop, ScanTop
from tacit.links.scorer import BilinearScorer, Scorer, state_of
from tacit.run.folder import BYTES, CODES, INDEX, MODEL, WEIGHTS, RunFolder


class Finders:
    """Makes finders of tails for the weights of a run; what is kept on disk is of these weights alone.

    They are those that the run has when this is made, which is before they are read: whoever has weights open that were
    replaced on disk since then keeps nothing of theirs there.
    """

    def __init__(self, run: RunFolder) -> None:
        self.run, self._opened = run, _weight_files(run)

    @property
    def indexed(self) -> bool:
        """Whether the run has an index."""
        return self.run.has(INDEX)

    def finder(
        self, kind: str, scorer: Scorer, loopless: Tensor, *, nprobe: int = 32, sums: bool = True, cached: bool = True
    ) -> TopScorer:
        """A finder by `index` or `scan` for rows without loops over the relations that are `loopless`, `[R]`.

        A scan reads codes where the run has them, unless `sums` are asked for, which need the keys anyway. Of weights
        that were written to in memory there are none on disk, nor rows.
        """
        model, weights = checked(scorer), self._weights()
        written = any(writes for _, writes in state_of(model))
        inner: TopScorer
        if kind == "index":
            if not self.indexed:
                raise RunError(f"run '{self.run.path}' has no {INDEX}; build one first", command="index")
            inner = IndexTop(model, self.run.path / INDEX, weights, loopless, self.run.graph().index("train"), nprobe)
            found_by = f"index {inner.nprobe} {inner.stamp.nlist} {inner.stamp.seed}"
        elif sums or written or not self.run.has(CODES):
            inner, found_by = ScanTop(model, loopless), "scan"
        else:
            inner, found_by = CodedTop(model, self._codes(weights), loopless), "scan"
        if written or not cached:
            return inner
        rules = loopless.cpu().numpy().tobytes().hex()
        return CachedTop(inner, model.num_relations, self.run.path, weights, rules, found_by)

    @torch.no_grad()
    def build(self, scorer: Scorer, nlist: int | None = None, seed: int = 0) -> dict[str, Any]:
        """Write index and codes of the run's weights; returns what they are."""
        began = time.perf_counter()
        keys, weights = checked(scorer).keys().detach(), self._weights()
        stamp = build_index(self.run.path / INDEX, keys, weights, nlist, seed)
        self._keep(Codes.of(keys), weights)
        written = sum((self.run.path / name).stat().st_size for name in (INDEX, CODES, BYTES))
        seconds = time.perf_counter() - began
        return {"entities": stamp.entities, "nlist": stamp.nlist, "bytes": written, "seconds": seconds}

    def _weights(self) -> str:
        """A hash of every byte of the run's weights, which must be those that were opened.

        To hash a gigabyte takes half a second. So `weights.json` keeps the hash beside size and time of the files, and
        is believed as long as these are the same: a file that is written anew has another time.
        """
        run, opened = self.run, self._opened
        if not opened:
            raise RunError(f"run '{run.path}' has no {MODEL}; train it first")
        if _weight_files(run) != opened:
            raise RunError(f"the weights of run '{run.path}' were changed since it was opened; open it again")
        with suppress(OSError, ValueError, TypeError, KeyError):  # nothing is kept, or something else
            kept = from_json((run.path / WEIGHTS).read_text(encoding="utf-8"))
            if kept["files"] == opened and isinstance(kept["sha256"], str):
                return kept["sha256"]
        hashed = sha256()
        for name, *_ in opened:
            with (run.path / name).open("rb") as file:
                file_digest(file, lambda: hashed)
        with suppress(TacitError):  # a run may lie where one may only read
            write_text(run.path / WEIGHTS, json.dumps({"files": opened, "sha256": hashed.hexdigest()}))
        return hashed.hexdigest()

    def _codes(self, weights: str) -> Codes:
        path = self.run.path / CODES
        about, tensors = self.run.contents(CODES)
        if about.get("weights") != weights:
            raise RunError(f"{path} was built for other weights than the run has; build it again", command="index")
        try:
            return Codes(torch.from_numpy(mapped_array(self.run.path / BYTES)), **tensors)
        except (OSError, ValueError, TypeError) as error:
            raise RunError(f"{path} is damaged ({error}); build it again", command="index") from None

    def _keep(self, codes: Codes, weights: str) -> None:
        """Write codes; their bytes at a place in a file of its own where a kernel can read them as they are mapped."""
        parts = dict(vars(codes))
        write_array(self.run.path / BYTES, parts.pop("numbers").numpy())
        self.run.write_tensors(CODES, parts, {"weights": weights})

    def codes(self, scorer: BilinearScorer, made: bool = True) -> Codes | None:
        """Codes of the run's weights that all its processes share; None where there are none and none is to be made.

        Where nothing can be written, or weights are not those of the file any more, they are this process's alone.
        """
        return shared_codes(scorer, made or self.run.has(CODES), self._shared)

    def _shared(self, keys: Tensor) -> Codes:
        with suppress(TacitError):
            weights = self._weights()
            if keys._version == 0:  # mapped, and nobody has written to them
                with suppress(TacitError):
                    if (codes := self._codes(weights)).fit(keys):
                        return codes
                self._keep(Codes.of(keys), weights)
                if (codes := self._codes(weights)).fit(keys):  # another process may have other weights by now
                    return codes
        return Codes.of(keys)


def checked(scorer: Scorer) -> BilinearScorer:
    """A scorer whose tails can be found by products with keys on the CPU, or a `SettingsError`."""
    if not isinstance(scorer, BilinearScorer):
        raise SettingsError(
            "tails are found by inner products, which complex, distmult and cp score by; this model measures distances",
            "candidates",
        )
    if scorer.device.type != "cpu":
        raise SettingsError("tails are found on the CPU; open the run with device cpu", "candidates")
    return scorer


def _weight_files(run: RunFolder) -> list[list[Any]]:
    """Name, size and time of the files of a run's weights: one, or as many as there were processes to train them."""
    files = sorted(run.path.glob(f"{Path(MODEL).stem}*.safetensors"))
    return [[path.name, *(state(path) or ())[:2]] for path in files]
