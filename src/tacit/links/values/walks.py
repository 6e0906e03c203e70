"""Walks from entities to values: their other attributes, and the values one or two hops away."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np

from tacit.graph.fact_index import FactIndex, Floats, Ids, Ints, spread, within

_JOINED = 2**21  # rows of a join at a time


@dataclass(frozen=True, order=True)
class Walk:
    """At most two directed relations, and the attribute whose values are read at the end."""

    relations: tuple[int, ...]
    attribute: int


@dataclass(frozen=True)
class WalkRows:
    """What each walk finds from each entity: the mean, number and spread of the values."""

    walks: Ints  # as `ValueWalks.code` writes them, rising
    entities: Ints
    means: Floats
    counts: Floats
    spreads: Floats

    def __len__(self) -> int:
        return len(self.walks)


class ValueWalks:
    """The facts of a graph to walk along, and the mean value of each attribute at each entity.

    Walks of two hops read one attribute, the target. They never read the value of the entity that
    they start from, so that an entity with a value looks like one without.
    """

    def __init__(
        self,
        index: FactIndex,
        num_entities: int,
        columns: Sequence[tuple[Ids, Floats]],
        target: int,
        around: int | None = None,
    ) -> None:
        """Prepares walks from all entities, or only from one that they are `around`."""
        self.index = index
        self.base = index.num_relations + 1
        self.num_entities = num_entities
        self.target = target
        near = None
        if around is not None:
            near = np.append(self._facts_of(np.array([around]))[2], around)
        heads, relations, tails = self._facts_of(near)
        self.heads, self.relations, self.tails = heads, relations, tails
        self.starts = np.searchsorted(heads, np.arange(num_entities + 1))
        self._place_values(columns)
        self._place_hops()

    def _facts_of(self, entities: Ints | None) -> tuple[Ints, Ints, Ints]:
        """The heads, relations and tails of all facts, or of those of some entities.

        They are in order, and without loops.
        """
        index = self.index
        if entities is None:
            places = np.arange(len(index.keys))
        else:
            bounds = np.unique(entities) * index.num_relations
            starts, ends = (
                np.searchsorted(index.keys, bound) for bound in (bounds, bounds + self.base - 1)
            )
            places = spread(starts, ends)[1]
        pairs, facts = spread(index.offsets[places], index.offsets[places + 1])
        keys = index.keys[places][pairs]
        heads, relations = keys // index.num_relations, keys % index.num_relations
        tails = index.all_tails[facts].astype(np.int64)
        others = heads != tails
        return heads[others], relations[others], tails[others]

    def _place_values(self, columns: Sequence[tuple[Ids, Floats]]) -> None:
        """Lists the mean values by entity, then attribute."""
        n = self.num_entities
        held = [np.unique(entities) for entities, _ in columns]
        means = [
            np.bincount(entities, values, n)[at] / np.bincount(entities, minlength=n)[at]
            for (entities, values), at in zip(columns, held, strict=True)
        ]
        entities = np.concatenate([*held, np.empty(0)]).astype(np.int64)
        attributes = np.repeat(np.arange(len(columns)), [len(at) for at in held])
        order = np.lexsort([attributes, entities])
        self.attributes = attributes[order]
        self.values = np.concatenate([*means, np.empty(0)])[order]
        self.value_starts = np.searchsorted(entities[order], np.arange(n + 1))
        self.own = np.full(n, np.nan)
        self.own[held[self.target]] = means[self.target]

    def _place_hops(self) -> None:
        """Lists the sums of the target's values by entity and relation, one hop away."""
        known = np.flatnonzero(np.isfinite(self.own[self.tails]))
        pairs = self.heads[known] * self.base + self.relations[known]  # rising, as facts are
        firsts = np.flatnonzero(np.diff(pairs, prepend=-1))
        values = self.own[self.tails[known]]
        if len(firsts):
            self.sums = np.add.reduceat(values, firsts)
            self.squares = np.add.reduceat(values * values, firsts)
        else:
            self.sums, self.squares = np.zeros(0), np.zeros(0)
        self.numbers = np.diff(np.append(firsts, len(known))).astype(float)
        self.hop_keys = pairs[firsts]
        self.hop_relations = pairs[firsts] % self.base
        self.hop_starts = np.searchsorted(
            pairs[firsts] // self.base, np.arange(self.num_entities + 1)
        )

    def code(self, walk: Walk) -> int:
        """A walk as a number."""
        first, second = (*(relation + 1 for relation in walk.relations), 0, 0)[:2]
        return (walk.attribute * self.base + first) * self.base + second

    def walk(self, code: int) -> Walk:
        """The walk that a number stands for."""
        hops = code // self.base % self.base, code % self.base
        return Walk(tuple(hop - 1 for hop in hops if hop), code // self.base**2)

    def blocks(self, entities: Ints) -> Iterator[Ints]:
        """Cuts rising entities into parts, whose walks fit into memory together."""
        if not len(entities):
            return
        fan = (np.diff(self.hop_starts) + np.diff(self.value_starts))[self.tails]
        totals = np.append(0, np.cumsum(fan + 1))
        cost = np.cumsum(totals[self.starts[entities + 1]] - totals[self.starts[entities]] + 1)
        yield from np.split(entities, np.flatnonzero(np.diff(cost // _JOINED)) + 1)

    def rows(self, entities: Ints) -> WalkRows:
        """Follows all walks from some rising entities."""
        facts, starts = _joined(self.starts, entities)
        heads, relations = entities[starts], self.relations[facts]
        tails = self.tails[facts]
        own, of = _joined(self.value_starts, entities)
        other = self.attributes[own] != self.target
        own, of = own[other], of[other]
        ends, along = _joined(self.value_starts, tails)
        hops, over = _joined(self.hop_starts, tails)
        second = self.hop_relations[hops]
        # what the walk would find of the entity's own value, where it leads back
        value = self.own[heads[over]]
        returns = np.isfinite(value)
        returns[returns] = self.index.contains(
            tails[over][returns], second[returns], heads[over][returns]
        )
        value = np.where(returns, value, 0.0)
        number = self.numbers[hops] - returns
        others = number > 0
        number = number[others]
        sums = (self.sums[hops] - value)[others]
        squares = (self.squares[hops] - value * value)[others]
        hop_walks = (self.target * self.base + relations[over] + 1) * self.base + second + 1
        own_walks = self.attributes[own] * self.base**2
        end_walks = (self.attributes[ends] * self.base + relations[along] + 1) * self.base
        means = sums / number
        inner = np.maximum(squares / number - means * means, 0.0)
        hop_heads, hop_tails, hop_first = (
            column[over][others] for column in (heads, tails, relations)
        )
        fits = self._misfits(hop_heads, hop_first, hop_tails, means, inner)
        values = self.values[ends]
        end_fits = self._misfits(
            heads[along], relations[along], tails[along], values, np.zeros(len(ends))
        )
        end_fits[self.attributes[ends] != self.target] = 0.0
        parts = (  # walk, entity, number of values, mean, variance
            (own_walks, entities[of], np.ones(len(own)), self.values[own], np.zeros(len(own))),
            (end_walks, heads[along], np.ones(len(ends)), values, end_fits),
            (hop_walks[others], hop_heads, number, means, fits),
        )
        walks, starts, numbers, means, variances = map(np.concatenate, zip(*parts, strict=True))
        return self._grouped(walks, starts, numbers, means, variances + means * means)

    def _misfits(
        self, heads: Ints, relations: Ints, tails: Ints, values: Floats, otherwise: Floats
    ) -> Floats:
        """By how much other entities with the same first hop differ from its value, squared.

        A country differs less from what lies beside its neighbour than from its continent's mean.
        """
        keys = tails * self.base + (relations ^ 1)
        places = np.minimum(np.searchsorted(self.hop_keys, keys), max(len(self.hop_keys) - 1, 0))
        own = self.own[heads]
        known = np.isfinite(own)
        own = np.where(known, own, 0.0)
        hit = within(keys, self.hop_keys)
        at = places[hit]
        misfits = otherwise.copy()
        number = self.numbers[at] - known[hit]
        value, own = values[hit], own[hit]
        total = self.squares[at] - own * own
        total += number * value * value - 2 * value * (self.sums[at] - own)
        misfits[hit] = np.where(
            number > 0, np.maximum(total, 0.0) / np.maximum(number, 1), otherwise[hit]
        )
        return misfits

    def _grouped(
        self, walks: Ints, entities: Ints, numbers: Floats, means: Floats, squares: Floats
    ) -> WalkRows:
        """One row for each walk and entity: the mean over what each first hop finds.

        So a first hop to a hub counts as much as one to an entity with few neighbours.
        """
        keys = walks * self.num_entities + entities
        order = np.argsort(keys, kind="stable")
        firsts = np.flatnonzero(np.diff(keys[order], prepend=-1))
        if not len(firsts):
            none = np.zeros(0)
            return WalkRows(walks[:0], entities[:0], none, none, none)
        steps = np.diff(np.append(firsts, len(keys)))
        counts, mean, square = (
            np.add.reduceat(column[order], firsts) for column in (numbers, means, squares)
        )
        mean, square = mean / steps, square / steps
        spreads = np.sqrt(np.maximum(square - mean * mean, 0.0))
        distinct = keys[order[firsts]]
        return WalkRows(
            distinct // self.num_entities, distinct % self.num_entities, mean, counts, spreads
        )


def _joined(starts: Ints, keys: Ints) -> tuple[Ints, Ints]:
    """The rows of every key in a table by `starts`, and which key each belongs to."""
    of, places = spread(starts[keys], starts[keys + 1])
    return places, of
