"""The tails that rules imply, found for many rows at once by joins over the facts.

Bodies that start alike share their first steps: the rules of a relation are a tree, a *node* of
which is a relation of the head and the first steps of some bodies. Paths from the heads of rows are
followed through the tree, and the rules that end at a node are looked up for all paths together:
those with a constant at the end of the path by the node and that constant.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from tacit.graph.fact_index import FactIndex, Flags, Ids, Ints, spread, within
from tacit.links.rules.consequences import consequences
from tacit.links.rules.rule_set import LONGEST, NONE, WRITTEN, Rule, RuleSet

# what the best rules of an atom count for, in falling order; found best on validation facts
SHARES = tuple(0.6**place for place in range(8))
HIGHEST = 0.999  # the largest confidence of a prediction
_SPREAD = 2**20  # paths or firings that are held at once
_PENDING = 2**22  # firings between two looks at which count
_LARGEST = 2**62  # of a firing as a number


@dataclass(frozen=True, eq=False)
class Paths:
    """Paths through facts: their rows, their nodes of the tree, and their entities in order."""

    rows: Ints
    nodes: Ints
    entities: tuple[Ints, ...]  # from the head of the row on

    def only(self, places: Ints | Flags) -> Paths:
        """Some of the paths."""
        return Paths(
            self.rows[places], self.nodes[places], tuple(each[places] for each in self.entities)
        )


@dataclass(eq=False)
class Firings:
    """Rules that speak for tails of rows, each firing as one number `(row · N + tail) · M + rank`.

    The rank of a rule falls with its confidence, so the first numbers of a row and tail are those
    of its best rules. No more than these are held.
    """

    num_entities: int
    bits: int  # of a rank
    _parts: list[Ints] = field(default_factory=list)
    _pending: int = 0

    @property
    def most_rows(self) -> int:
        """How many rows the numbers leave room for."""
        return max(1, (_LARGEST >> self.bits) // self.num_entities)

    def add(self, rows: Ints, tails: Ints, ranks: Ids) -> None:
        """Add firings, of a rule for a row and a tail any number of times."""
        numbers = rows * self.num_entities
        numbers += tails
        numbers <<= self.bits
        numbers |= ranks
        self._parts.append(numbers)
        self._pending += len(numbers)
        if self._pending > _PENDING:
            self._parts = [self.best()]
            self._pending = 0

    def best(self) -> Ints:
        """The numbers of the best rules of each row and tail, in order."""
        if not self._parts:
            return np.zeros(0, dtype=np.int64)
        numbers = np.sort(np.concatenate(self._parts))
        numbers = numbers[np.diff(numbers, prepend=-1) != 0]
        atoms = numbers >> self.bits
        best = np.ones(len(atoms), dtype=bool)
        np.not_equal(atoms[len(SHARES) :], atoms[: -len(SHARES)], out=best[len(SHARES) :])
        firsts: Ints = numbers[best]
        return firsts


class RuleJoins:
    """The rules of a set as a tree of bodies, joined with the facts of an index."""

    def __init__(self, rules: RuleSet, index: FactIndex, num_entities: int) -> None:
        self.index = index
        self.num_entities = num_entities
        order = np.argsort(-rules.confidence, kind="stable")
        order = order[rules.active[order]]
        self.confidences = rules.confidence[order].astype(np.float64)  # by rank
        self.constants = rules.tail[order].astype(np.int64)  # NONE where the head ends in y
        self.bits = max(1, len(order).bit_length())
        body = rules.body[order].astype(np.int64)
        ends = rules.end[order].astype(np.int64)
        ranks = np.arange(len(order))
        r = index.num_relations
        parents = rules.relation[order].astype(np.int64)
        steps = list[Ints]()
        levels = list[NDArray[np.int64]]()
        last = np.full(len(order), NONE, dtype=np.int64)  # the node that each rule ends at
        count = 0
        for place in range(LONGEST):
            present = np.flatnonzero(body[:, place] != NONE)
            keys = parents[present] * r + body[present, place]
            distinct, inverse = np.unique(keys, return_inverse=True)
            nodes = count + inverse
            levels.append(np.stack([distinct, count + np.arange(len(distinct))], axis=1))
            steps.append(distinct % r)
            count += len(distinct)
            parents = np.full(len(order), NONE, dtype=np.int64)
            parents[present] = last[present] = nodes
        first, *later = levels
        self._first_keys, self._first_nodes = first.T  # `relation · R + first step`, and its node
        self.steps = np.concatenate(steps)  # the relation that leads to each node
        children = np.concatenate(later)
        self._children = _table(children[:, 0] // r, np.zeros_like(children[:, 0]), children[:, 1])
        bound = ends != NONE
        closed = ~bound & (self.constants == NONE)
        free = ~bound & ~closed
        self._closed = _table(last[closed], ends[closed] * 0, ranks[closed])
        self._free = _table(last[free], ends[free] * 0, ranks[free])
        self._bound = _table(last[bound], ends[bound], ranks[bound], num_entities)
        own = ((rules.flags[order] & WRITTEN) != 0) & ~closed & (self.constants != NONE)
        self._turned = [(int(rank), rules[int(order[rank])]) for rank in np.flatnonzero(own)]
        self._heads: dict[int, Ints] = {}  # of what turned rules imply, by their rank

    def best(self, heads: Ints, relations: Ints) -> tuple[Ints, Ints, NDArray[np.float32]]:
        """The rows, tails and scores of the atoms that rules speak for, in order."""
        empty = Firings(self.num_entities, self.bits)
        parts = []
        for start in range(0, len(heads), empty.most_rows):
            firings = Firings(self.num_entities, self.bits)
            part = slice(start, start + empty.most_rows)
            for paths in self._first_steps(heads[part], relations[part]):
                self._follow(paths, firings)
            for rank, rule in self._turned:
                self._fire_turned(rank, rule, heads[part], relations[part], firings)
            rows, tails, scores = self._combined(firings.best())
            parts.append((rows + start, tails, scores))
        if not parts:
            return (*np.zeros((2, 0), dtype=np.int64), np.zeros(0, dtype=np.float32))
        rows, tails, scores = map(np.concatenate, zip(*parts, strict=True))
        return rows, tails, scores

    def _fire_turned(
        self, rank: int, rule: Rule, heads: Ints, relations: Ints, firings: Firings
    ) -> None:
        """Add what a rule with a constant in its head says, in rows that start at the constant.

        Only written rules are read so; mined ones speak for the direction that they were mined for.
        """
        rows = np.flatnonzero((heads == rule.tail) & (relations == rule.relation ^ 1))
        if not len(rows):
            return
        if rank not in self._heads:
            blocks = [found for found, _ in consequences(self.index, rule)]
            self._heads[rank] = np.concatenate([*blocks, np.zeros(0, dtype=np.int64)])
        tails = self._heads[rank]
        ranks = np.full(len(rows) * len(tails), rank, dtype=np.int32)
        firings.add(np.repeat(rows, len(tails)), np.tile(tails, len(rows)), ranks)

    def _combined(self, numbers: Ints) -> tuple[Ints, Ints, NDArray[np.float32]]:
        """Combine the best confidences of each row and tail, `1 - Π (1 - share · confidence)`."""
        atoms = numbers >> self.bits
        confidences = self.confidences[numbers & ((1 << self.bits) - 1)]
        starts = np.flatnonzero(np.diff(atoms, prepend=-1))
        sizes = np.diff(np.append(starts, len(atoms)))
        rest = np.ones(len(starts))
        for place, share in enumerate(SHARES):
            some = sizes > place
            rest[some] *= 1.0 - share * confidences[starts[some] + place]
        scores = np.minimum(1.0 - rest, HIGHEST).astype(np.float32)
        return (*np.divmod(atoms[starts], self.num_entities), scores)

    def _first_steps(self, heads: Ints, relations: Ints) -> Iterator[Paths]:
        """The paths of one step from the heads of rows, by the relations of these heads alone."""
        r = self.index.num_relations
        facts = self.index
        starts, ends = np.searchsorted(facts.keys, np.stack([heads, heads + 1]) * r)
        for rows, at in in_parts(starts, ends):
            keys = relations[rows] * r + facts.keys[at] % r
            present = np.flatnonzero(within(keys, self._first_keys))
            rows = rows[present]
            at = at[present]
            nodes = self._first_nodes[np.searchsorted(self._first_keys, keys[present])]
            for origins, places in in_parts(facts.offsets[at], facts.offsets[at + 1]):
                tails = facts.all_tails[places].astype(np.int64)
                own = rows[origins]
                other = tails != heads[own]
                yield Paths(own, nodes[origins], (heads[own], tails)).only(other)

    def _follow(self, paths: Paths, firings: Firings) -> None:
        """Add what rules that end at the nodes of paths say, and follow the paths further."""
        self._fire(paths, firings)
        starts, ends = self._children.spans(paths.nodes, np.zeros_like(paths.nodes))
        for origins, at in in_parts(starts, ends):
            nodes = self._children.all_tails[at].astype(np.int64)
            spans = self.index.spans(paths.entities[-1][origins], self.steps[nodes])
            for places, facts in in_parts(*spans):
                longer = paths.only(origins[places])
                tails = self.index.all_tails[facts].astype(np.int64)
                distinct = np.ones(len(tails), dtype=bool)
                for entity in longer.entities:
                    distinct &= tails != entity
                longer = Paths(longer.rows, nodes[places], (*longer.entities, tails))
                self._follow(longer.only(distinct), firings)

    def _fire(self, paths: Paths, firings: Firings) -> None:
        """Add the firings of the rules that end at the nodes of paths."""
        ends = paths.entities[-1]
        zeros = np.zeros_like(ends)
        for origins, at in in_parts(*self._closed.spans(paths.nodes, zeros)):
            firings.add(paths.rows[origins], ends[origins], self._closed.all_tails[at])
        for origins, at in in_parts(*self._bound.spans(paths.nodes, ends)):
            ranks = self._bound.all_tails[at]
            self._fire_constants(paths, origins, ranks, len(paths.entities) - 1, firings)
        if not len(self._free):
            return
        if len(paths.entities) == 2:  # two tails of a step tell whether it has one for any rule
            paths = _two_of_each(paths)
            zeros = np.zeros_like(paths.rows)
        for origins, at in in_parts(*self._free.spans(paths.nodes, zeros)):
            ranks = self._free.all_tails[at]
            self._fire_constants(paths, origins, ranks, len(paths.entities), firings)

    def _fire_constants(
        self, paths: Paths, origins: Ints, ranks: Ids, variables: int, firings: Firings
    ) -> None:
        """Add rules with a constant tail, which none of the first entities of their path is."""
        tails = self.constants[ranks]
        apart = np.ones(len(tails), dtype=bool)
        for entity in paths.entities[:variables]:
            apart &= entity[origins] != tails
        firings.add(paths.rows[origins[apart]], tails[apart], ranks[apart])


def _two_of_each(paths: Paths) -> Paths:
    """The first two of the paths that share a row and a node, which lie side by side."""
    first = np.ones(len(paths.rows), dtype=bool)
    first[2:] = (paths.rows[2:] != paths.rows[:-2]) | (paths.nodes[2:] != paths.nodes[:-2])
    return paths.only(first)


def _table(nodes: Ints, ends: Ints, values: Ints, width: int = 1) -> FactIndex:
    """`(node, end) -> values` as an index."""
    return FactIndex(np.stack([nodes, ends, values], axis=1).astype(np.int64), width)


def in_parts(starts: Ints, ends: Ints) -> Iterator[tuple[Ints, Ints]]:
    """Yield the non-empty spans spread as `spread` does, so many at a time as are held at once."""
    filled = np.flatnonzero(ends > starts)
    totals = np.cumsum(ends[filled] - starts[filled])
    at = 0
    while at < len(filled):
        before = int(totals[at - 1]) if at else 0
        stop = max(at + 1, int(np.searchsorted(totals, before + _SPREAD, side="right")))
        part = filled[at:stop]
        spans, places = spread(starts[part], ends[part])
        yield part[spans], places
        at = stop
