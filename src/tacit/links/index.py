"""The best tails by a cluster index of the keys (faiss, `IVF,SQ8`), rescored exactly."""

from __future__ import annotations

import json
import math
from dataclasses import asdict, dataclass, fields, replace
from pathlib import Path
from typing import Any

import torch  # before faiss: on macOS each brings its own OpenMP, and the first one loaded is used
import torch.nn.functional as F
from torch import Tensor

from tacit.disk import digest, from_json, replacing
from tacit.errors import RunError, SettingsError
from tacit.graph.fact_index import FactIndex
from tacit.links.retrievers import ScanRetriever, TopK, pair_logits, top_of_pairs
from tacit.links.scorer import BilinearScorer

WORTH = 200_000  # entities below which a scan is faster
NPROBE = 32
_MARK = b"tacit index"  # at the very end of a file, after its stamp and the length of that
_TRAINED = 48  # keys a cluster is found from
_ADDED = 65536  # keys added at a time
_FETCHED = 256  # candidates at least: codes order them nearly as keys do
_SUMMED = 1024  # best tails that log Z is estimated from
_DRAWN = 16384  # further tails for that, drawn at random
_SUMMING = 128  # clusters that are searched for these best tails
_EXACT = 64  # of these best tails, how many are scored from keys
_KNOWN = 8  # known tails of a row whose neighbours are added
_BESIDE = 64  # neighbours of each
_NEAREST = 4  # clusters that are searched for them


@dataclass(frozen=True)
class Stamp:
    """The weights and parameters of an index."""

    weights: str  # their fingerprint
    entities: int
    width: int
    nlist: int  # clusters
    seed: int  # that they were drawn by
    digest: str = ""  # of the index itself, whose reader crashes where one was damaged


@torch.no_grad()
def build_index(
    path: Path, keys: Tensor, weights: str, nlist: int | None = None, seed: int = 0
) -> Stamp:
    """Write an index of keys with `nlist` clusters, `4 √N` by default.

    It is stamped with the fingerprint of the weights.
    """
    for name, value, least in (("nlist", nlist, 1), ("seed", seed, 0)):
        if value is None and name == "nlist":
            continue
        if not isinstance(value, int) or isinstance(value, bool):
            raise SettingsError(f"{name} is {value!r}; it must be a whole number", name)
        if not least <= value < 2**31:  # faiss counts in 32 bits
            raise SettingsError(f"{name} is {value}; it must be from {least} to {2**31 - 1}", name)
    library = faiss_library()
    count, width = keys.shape
    nlist = min(count, nlist or max(1, round(4 * math.sqrt(count))))
    index = library.index_factory(width, f"IVF{nlist},SQ8", library.METRIC_INNER_PRODUCT)
    index.cp.seed = seed
    index.cp.niter = 10
    index.cp.min_points_per_centroid = 1
    order = torch.randperm(count, generator=torch.Generator().manual_seed(seed))
    sample = order[: max(_TRAINED * nlist, 1000)].sort().values
    index.train(keys[sample].numpy())
    for part in keys.split(_ADDED):
        index.add(part.contiguous().numpy())
    stamp = Stamp(weights, count, width, nlist, seed)
    with replacing(path) as target:
        library.write_index(index, str(target))
        stamp = replace(stamp, digest=digest(target))
        trailer = json.dumps(asdict(stamp)).encode()  # faiss does not read it
        with target.open("ab") as file:
            file.write(trailer + len(trailer).to_bytes(8, "little") + _MARK)
    return stamp


def read_stamp(path: Path) -> Stamp:
    """Read the stamp at the end of an index file, which a truncated file lacks."""
    try:
        with path.open("rb") as file:
            size = file.seek(0, 2)
            file.seek(max(0, size - len(_MARK) - 8))
            length = int.from_bytes(file.read(8), "little")
            mark = file.read()
            if mark != _MARK or length > size:
                raise ValueError("its end is missing")
            end = file.seek(max(0, size - len(_MARK) - 8 - length))
            stamp = Stamp(**from_json(file.read(length)))
        types = {field.name: type(getattr(stamp, field.name)).__name__ for field in fields(Stamp)}
        if types != Stamp.__annotations__ or stamp.nlist < 1:
            raise ValueError("its stamp says something else")
        if digest(path, end) != stamp.digest:
            raise ValueError("it was changed")
        return stamp
    except (OSError, ValueError, TypeError) as error:
        raise RunError(
            f"{path} is no index or damaged ({error}); build it again", command="index RUN"
        ) from None


class IndexRetriever:
    """The best tails in the `nprobe` clusters nearest to a query and near known tails.

    The search is fast and may miss tails. Scores are exact; the tails outside the lists may have
    any score. `log Z` is estimated from the best tails and a sample of all others.
    """

    def __init__(
        self,
        scorer: BilinearScorer,
        path: Path,
        weights: str,
        loopless: Tensor,
        facts: FactIndex,
        nprobe: int = NPROBE,
    ) -> None:
        self.scorer = scorer
        self.path = path
        self.weights = weights
        self.loopless = loopless
        self.facts = facts
        self.stamp = read_stamp(path)
        built_for = self.stamp.weights, self.stamp.entities, self.stamp.width
        if built_for != (weights, *scorer.keys().shape):
            raise RunError(
                f"{path} was built for other weights than the run has; build it again",
                command="index RUN",
            )
        self.nprobe = nprobe
        library = faiss_library()
        try:
            self._index = library.read_index(str(path), library.IO_FLAG_MMAP)
        except RuntimeError as error:
            reason = " ".join(str(error).split())
            raise RunError(
                f"{path} is damaged ({reason:.200}); build it again", command="index RUN"
            ) from None
        order = torch.randperm(scorer.num_entities, generator=torch.Generator().manual_seed(0))
        self._sample = order[:_DRAWN].sort().values
        self._sample_keys = scorer.keys()[self._sample]

    def __reduce__(self) -> tuple[Any, ...]:
        made_with = self.scorer, self.path, self.weights, self.loopless, self.facts, self.nprobe
        return IndexRetriever, made_with

    @torch.no_grad()
    def top(self, heads: Tensor, relations: Tensor, m: int) -> TopK:
        """The best `m` tails that were found, `[B] x [B] -> [B, m]`."""
        queries = self.scorer.queries(heads, relations)
        fetch_count = max(_FETCHED, m + m // 4 + 2)
        nearest = self._search(queries, min(self.scorer.num_entities, fetch_count), self.nprobe)[1]
        neighbours = self._neighbours(heads, relations, nearest)
        ids = torch.cat([nearest, neighbours], dim=1).sort(dim=1).values
        rows, places = (ids >= 0).nonzero(as_tuple=True)
        ids = ids[rows, places]
        logits = pair_logits(queries, self.scorer.keys(), rows, ids)
        logits.masked_fill_(self.loopless[relations[rows]] & (heads[rows] == ids), -torch.inf)
        top = top_of_pairs(rows, ids, logits, len(heads), m)
        return TopK(top.ids, top.logits, torch.full_like(top.rest, torch.inf))

    @torch.no_grad()
    def log_sums(self, heads: Tensor, relations: Tensor) -> tuple[Tensor, Tensor]:
        """An estimate of `log Z` of each row.

        It sums the best tails and `(N - n) / |S|` times a sample `S` of the others.
        """
        if self.scorer.num_entities <= _DRAWN:
            return ScanRetriever(self.scorer, self.loopless).log_sums(heads, relations)
        queries = self.scorer.queries(heads, relations)
        no_loop = self.loopless[relations]
        best, ids = self._search(queries, _SUMMED, max(self.nprobe, _SUMMING))
        rows = torch.arange(len(heads)).repeat_interleave(_EXACT)
        first = ids[:, :_EXACT].clamp(min=0).flatten()
        # These weigh most, and codes are a little off.
        best[:, :_EXACT] = pair_logits(queries, self.scorer.keys(), rows, first).view(-1, _EXACT)
        neighbours = self._neighbours(heads, relations, ids)
        more = queries.new_full(neighbours.shape, -torch.inf)
        rows, places = (neighbours >= 0).nonzero(as_tuple=True)
        ids_beside = neighbours[rows, places]
        more[rows, places] = pair_logits(queries, self.scorer.keys(), rows, ids_beside)
        best = torch.cat([best, more], dim=1)
        ids = torch.cat([ids, neighbours], dim=1)
        best.masked_fill_((ids < 0) | (no_loop[:, None] & (ids == heads[:, None])), -torch.inf)
        others = queries @ self._sample_keys.t()  # [B, S]
        places = torch.searchsorted(self._sample, ids).clamp(max=len(self._sample) - 1)
        rows, columns = (self._sample[places] == ids).nonzero(as_tuple=True)
        others[rows, places[rows, columns]] = -torch.inf  # counted among the best
        others.masked_fill_(no_loop[:, None] & (self._sample == heads[:, None]), -torch.inf)
        unseen = self.scorer.num_entities - no_loop.long() - best.isfinite().sum(dim=1)
        # where no sample remains, they sum to 0
        weight = (unseen / others.isfinite().sum(dim=1).clamp(min=1)).log()
        total = torch.logaddexp(best.logsumexp(dim=1), others.logsumexp(dim=1) + weight)
        return total, torch.zeros_like(total, dtype=torch.bool)

    def _neighbours(self, heads: Tensor, relations: Tensor, listed_ids: Tensor) -> Tensor:
        """The entities nearest to known tails of rows that are not listed, with -1s, `[B, n]`.

        Training has placed such entities near each other, and the clusters nearest to a query may
        lack them.
        """
        rows, tails = map(torch.from_numpy, self.facts.neighbours(heads.numpy(), relations.numpy()))
        rank_of_tail = torch.arange(len(rows)) - torch.searchsorted(rows, rows)
        few = rank_of_tail < _KNOWN
        rows, tails, rank_of_tail = rows[few], tails[few].long(), rank_of_tail[few]
        nearest = heads.new_full((len(heads), _KNOWN, _BESIDE), -1)
        if len(rows):
            keys = self.scorer.keys()[tails]
            nearest[rows, rank_of_tail] = self._search(keys, _BESIDE, _NEAREST)[1]
        nearest = nearest.view(len(heads), -1).sort(dim=1).values
        repeated = F.pad(nearest[:, 1:] == nearest[:, :-1], (1, 0))
        return nearest.masked_fill(repeated | _within(nearest, listed_ids), -1)

    def _search(self, queries: Tensor, count: int, nprobe: int) -> tuple[Tensor, Tensor]:
        """Falling scores from codes, and ids padded with -1, `[B, count]` each."""
        library = faiss_library()
        # A forked process has one thread, and would wait for others of a team that is gone.
        library.omp_set_num_threads(torch.get_num_threads())
        options = library.SearchParametersIVF(nprobe=min(nprobe, self.stamp.nlist))
        scores, ids = self._index.search(queries.contiguous().numpy(), count, params=options)
        return torch.from_numpy(scores), torch.from_numpy(ids)


def _within(ids: Tensor, others: Tensor) -> Tensor:
    """Whether each id of a row is among others of the same row, `[B, n] x [B, m] -> [B, n]`."""
    sorted_others = others.sort(dim=1).values
    places = torch.searchsorted(sorted_others, ids).clamp(max=sorted_others.shape[1] - 1)
    return sorted_others.gather(1, places) == ids


def faiss_library() -> Any:
    """The faiss package, or a `SettingsError` that says what to install."""
    try:
        import faiss
    except ImportError:
        raise SettingsError(
            "an index needs faiss; install it with: pip install 'tacit-kg[index]'"
        ) from None
    return faiss
