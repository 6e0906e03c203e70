"""Rules as a link predictor: the tails that they imply, and what each of them rests on."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np
import torch
from torch import Tensor

from tacit.distributed.shards import Shards
from tacit.graph.fact_index import FactIndex, Integers, Ints, spread
from tacit.links.rules.deduction import Deductions, deduce
from tacit.links.rules.groundings import groundings
from tacit.links.rules.row_cache import Row, RowCache
from tacit.links.rules.rule_joins import RuleJoins
from tacit.links.rules.rule_set import NONE, WRITTEN, Rule, RuleSet
from tacit.links.scorer import Entries as Entries

FLOOR = -20.0  # the logit of an atom that no rule speaks for
_CACHED = 2**23  # entries of the rows that are cached
_ATOMS = 2**12  # rows that single atoms are looked up in at a time
_BUILT = (
    "_deductions",
    "joins",
    "_by_tail",
    "_closed",
)  # from the rules, where they are first needed


class Firing(NamedTuple):
    """A rule that speaks for an atom, and paths of entities from x to the end of its body."""

    id: int
    rule: Rule
    paths: list[tuple[int, ...]]  # the first few, each from x on
    total: int  # how many there are; at least so many where it is not exact
    exact: bool = True


@dataclass(frozen=True, eq=False)
class RuleScorer:
    """The rules of a graph as a scorer: log-odds of `1 - Π (1 - share · confidence)`.

    The product is over the eight best rules that speak for an atom. Bodies are looked up in
    `index`, which holds facts in both directions. An atom that no rule speaks for has the logit
    `FLOOR`. Threads may share one. With `shards` rows have the columns of this process.
    """

    rules: RuleSet
    index: FactIndex
    num_entities: int
    device: torch.device = field(default_factory=lambda: torch.device("cpu"))
    shards: Shards | None = None
    floor = FLOOR
    _rows: RowCache = field(default_factory=lambda: RowCache(_CACHED), init=False, repr=False)

    def __getstate__(self) -> dict[str, Any]:
        """The state of a copy, without what is built from the rules."""
        return {name: value for name, value in vars(self).items() if name not in _BUILT}

    @property
    def num_relations(self) -> int:
        """The number of relation ids, inverses included."""
        return self.index.num_relations

    @cached_property
    def _deductions(self) -> dict[FactIndex, Deductions | None]:
        return {}

    def deductions(self, facts: FactIndex, name: Callable[[int], str]) -> Deductions | None:
        """What follows from facts by hard rules, computed once; see `deduce`."""
        if facts not in self._deductions:
            self._deductions[facts] = deduce(facts, self.rules, name)
        return self._deductions[facts]

    @cached_property
    def joins(self) -> RuleJoins:
        """The rules, ready to be joined with the facts."""
        return RuleJoins(self.rules, self.index, self.num_entities)

    def logits(self, heads: Tensor, relations: Tensor, out: Tensor | None = None) -> Tensor:
        """Log-odds of every tail, `[B] x [B] -> [B, N]`."""
        width = self.num_entities if self.shards is None else self.shards.size
        if out is None:
            out = torch.empty(len(heads), width, device=self.device)
        out.fill_(self.floor)
        found = self.entries(heads.cpu().numpy(), relations.cpu().numpy())
        rows, columns, scores = map(torch.from_numpy, found)
        if self.shards is not None and self.shards.world > 1:
            local, columns = self.shards.inside(columns)
            rows, columns, scores = rows[local], columns[local], scores[local]
        places = rows.to(out.device), columns.to(out.device)
        out[places] = self.log_odds(scores).to(out.device)
        return out

    def logits_of(self, heads: Tensor, relations: Tensor, tails: Tensor) -> Tensor:
        """Log-odds of single atoms, `[B] x [B] x [B] -> [B]`."""
        n = self.num_entities
        columns = [each.cpu().numpy() for each in (heads, relations, tails)]
        out = np.full(len(heads), self.floor, dtype=np.float32)
        apart = np.flatnonzero(columns[0] != columns[2])  # no rule speaks for a loop
        keys = columns[0][apart] * self.num_relations + columns[1][apart]
        order = np.argsort(keys, kind="stable")
        distinct, starts = np.unique(keys[order], return_index=True)
        for first in range(0, len(distinct), _ATOMS):
            rows = distinct[first : first + _ATOMS]
            stops = starts[first + _ATOMS : first + _ATOMS + 1]
            atoms = order[starts[first] : stops[0] if len(stops) else None]
            found = self.entries(*np.divmod(rows, self.num_relations))
            present = found.rows * n + found.tails
            numbers = np.searchsorted(rows, keys[atoms]) * n + columns[2][apart[atoms]]
            at = np.minimum(np.searchsorted(present, numbers), max(0, len(present) - 1))
            hits = present[at] == numbers if len(present) else np.zeros(len(atoms), dtype=bool)
            scores = torch.from_numpy(found.scores[at[hits]])
            out[apart[atoms[hits]]] = self.log_odds(scores).numpy()
        return torch.from_numpy(out).to(heads.device)

    def log_odds(self, scores: Tensor) -> Tensor:
        """The logits of entries, none of which is below the floor."""
        return torch.logit(scores).clamp_(min=self.floor)

    def entries(self, heads: Integers, relations: Integers) -> Entries:
        """The tails that rules speak for in rows `relation(head, ·)`, and their scores.

        Rows that were used of late come from a cache.
        """
        keys = np.asarray(heads, dtype=np.int64) * self.num_relations + relations
        distinct, inverse = np.unique(keys, return_inverse=True)
        rows = self._distinct_rows(distinct)
        sizes = np.array([len(tails) for tails, _ in rows], dtype=np.int64)
        empty = np.zeros(0, dtype=np.int64), np.zeros(0, dtype=np.float32)
        tails, scores = map(np.concatenate, zip(*rows, empty, strict=True))
        ends = np.cumsum(sizes)
        places, at = spread((ends - sizes)[inverse], ends[inverse])
        if len(distinct) == len(keys) and bool((np.diff(inverse) > 0).all()):
            return Entries(places, tails, scores)
        return Entries(places, tails[at], scores[at])

    def _distinct_rows(self, keys: Ints) -> list[Row]:
        """The rows of distinct numbers `head · R + relation`."""
        names = keys.tolist()
        rows = self._rows.rows(names)
        missing = [place for place, row in enumerate(rows) if row is None]
        if missing:
            columns = np.divmod(keys[missing], self.num_relations)
            found, tails, scores = self.joins.best(*columns)
            bounds = np.searchsorted(found, np.arange(len(missing) + 1)).tolist()
            for place, start, stop in zip(missing, bounds, bounds[1:], strict=False):
                # copies, so that a cached row does not keep the others
                row = tails[start:stop].copy(), scores[start:stop].copy()
                rows[place] = row
                self._rows.add(names[place], row)
        return [row for row in rows if row is not None]

    def firings(
        self, head: int, relation: int, tail: int, top: int = 3, paths: int = 3
    ) -> list[Firing]:
        """The best rules that speak for an atom, with some of the paths that they rest on."""
        found = list[Firing]()
        candidates = [(place, head, tail) for place in self._candidates(head, relation, tail)]
        turned = self._by_tail.tails(relation ^ 1, head)  # as `RuleJoins` reads them
        turned = turned[(self.rules.flags[turned] & WRITTEN) != 0]
        if len(turned):
            candidates += [(place, tail, head) for place in turned]
            candidates.sort(key=lambda each: (-self.rules.confidence[each[0]], each[0]))
        for place, start, end in candidates:
            if len(found) == top:
                break
            rule = self.rules[int(place)]
            ground = groundings(self.index, rule, start, end, paths)
            if ground.total:
                found.append(Firing(int(place), rule, *ground))
        return found

    @cached_property
    def _by_tail(self) -> FactIndex:
        """`(relation, constant tail, or N without one) -> rules` that are not switched off."""
        rules = self.rules
        places = np.flatnonzero(rules.active)
        tails = np.where(rules.tail[places] == NONE, self.num_entities, rules.tail[places])
        columns = rules.relation[places], tails, places
        # relation and tail take the places of head and relation
        return FactIndex(np.stack(columns, axis=1).astype(np.int64), self.num_entities + 1)

    def _candidates(self, head: int, relation: int, tail: int) -> Ints:
        """The rules that may speak for an atom by the facts at the ends of their paths, best first.

        Constant rules of one step are those that do.
        """
        rules = self.rules
        groups = [self._by_tail.tails(relation, each) for each in (tail, self.num_entities)]
        places = np.concatenate(groups).astype(np.int64)
        body = rules.body[places]
        lengths = (body != NONE).sum(axis=1)
        closed = rules.tail[places] == NONE
        ends = np.where(closed, tail, rules.end[places])
        starts = self.index.counts(np.full(len(places), head), body[:, 0]) > 0
        last = body[np.arange(len(places)), lengths - 1]
        bound = np.flatnonzero(starts & (ends != NONE))
        starts[bound] = self.index.counts(ends[bound], last[bound] ^ 1) > 0
        if len(short := bound[(lengths[bound] == 1) & starts[bound]]):
            heads = np.full(len(short), head)
            starts[short] = self.index.contains(heads, body[short, 0], ends[short])
        places = places[starts]
        order = np.lexsort((places, -rules.confidence[places]))
        sorted_places: Ints = places[order]
        return sorted_places
