"""A sorted index of the known values of attributes: which entities have one in a range."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache, cached_property, partial

import numpy as np

from tacit.graph.attributes import Attributes
from tacit.graph.fact_index import Flags, Floats, Integers, Ints, spread
from tacit.graph.graph import SPLITS


@dataclass(frozen=True, eq=False)
class Column:
    """The values of one attribute, by entity and then by value."""

    entities: Ints
    values: Floats

    @cached_property
    def levels(self) -> Floats:
        """The distinct values, in order."""
        return np.unique(self.values)

    @cached_property
    def by_entity(self) -> Ints:
        """A key for each value, `entity · (levels + 1) + level`, in order."""
        return self.entities * (len(self.levels) + 1) + np.searchsorted(self.levels, self.values)

    @cached_property
    def by_level(self) -> tuple[Ints, Ints]:
        """The entities by level, and where each level starts among them."""
        order = np.argsort(self.values, kind="stable")
        starts = np.searchsorted(self.values[order], self.levels)
        return self.entities[order], np.append(starts, len(order))

    def levels_below(self, values: Floats, low: float, high: float) -> tuple[Ints, Ints]:
        """The span of levels `u` with `low <= v - u <= high`, for each value `v`.

        Differences are compared as they are rounded, so that `v > u` is exactly that.
        """
        return _first(self.levels, values, high, False), _first(self.levels, values, low, True)

    def spans(self, entities: Integers) -> tuple[Ints, Ints]:
        """Where the values of each entity start and end."""
        starts, ends = (np.searchsorted(self.entities, each) for each in (entities, entities + 1))
        return starts, ends


def _first(levels: Floats, values: Floats, bound: float, strict: bool) -> Ints:
    """The first level `u` with `v - u <= bound`, or with `v - u < bound`, for each value `v`."""
    with np.errstate(invalid="ignore", over="ignore"):
        if np.isinf(bound):
            return np.full(len(values), len(levels) if bound < 0 else 0)
        places = np.searchsorted(levels, values - bound)
        while True:  # rounding may be a level or two off
            before = levels[np.maximum(places - 1, 0)] if len(levels) else values
            gap = values - before
            back = (places > 0) & ((gap < bound) if strict else (gap <= bound))
            at = levels[np.minimum(places, len(levels) - 1)] if len(levels) else values
            gap = values - at
            forward = (places < len(levels)) & ~((gap < bound) if strict else (gap <= bound))
            if not (back | forward).any():
                return places
            places = places - back + (forward & ~back)


class ValueIndex:
    """The values of some splits, by attribute: known ones, as a search takes them.

    >>> from tacit.graph.attributes import Attribute
    >>> from tacit.graph.quantities import Quantity
    >>> rows = [(0, 0, Quantity(68e6), 0), (2, 0, Quantity(47e6), 0)]
    >>> index = ValueIndex(Attributes.of([Attribute("population")], rows), ("train",), 3)
    >>> index.within("population", 5e7, 1e9), index.known("population")
    (array([ True, False, False]), array([ True, False,  True]))
    """

    def __init__(self, attributes: Attributes, splits: tuple[str, ...], num_entities: int) -> None:
        self.attributes = attributes.where(
            np.isin(attributes.rows["split"], [SPLITS.index(split) for split in splits])
        )
        self.num_entities = num_entities
        self.column = cache(partial(_column, self.attributes))

    def __reduce__(self) -> tuple[object, ...]:
        return ValueIndex, (self.attributes, SPLITS, self.num_entities)

    def known(self, attribute: str) -> Flags:
        """Which entities have a value, `[N]`."""
        return self._marked(self.column(attribute).entities)

    def within(self, attribute: str, low: float, high: float) -> Flags:
        """Which entities have a value from `low` to `high`, `[N]`."""
        column = self.column(attribute)
        return self._marked(column.entities[(column.values >= low) & (column.values <= high)])

    def differing(
        self, left: str, right: str, low: float, high: float, sources: Integers
    ) -> tuple[Ints, Ints]:
        """The entities whose right value is in a range below a left one of each source.

        They come as positions of sources and as entities, repeated where values are.
        """
        ours = self.column(left)
        theirs = self.column(right)
        rows, places = spread(*ours.spans(sources))
        entities, starts = theirs.by_level
        levels = theirs.levels_below(ours.values[places], low, high)
        at, found = spread(*(starts[each] for each in _ordered(*levels)))
        return rows[at], entities[found]

    def differ(
        self, left: str, right: str, low: float, high: float, sources: Integers, targets: Integers
    ) -> Flags:
        """Whether a left value of each source, less a right one of its target, is in a range."""
        ours = self.column(left)
        theirs = self.column(right)
        rows, places = spread(*ours.spans(sources))
        width = len(theirs.levels) + 1
        levels = _ordered(*theirs.levels_below(ours.values[places], low, high))
        keys = np.asarray(targets, dtype=np.int64)[rows] * width
        starts, ends = (np.searchsorted(theirs.by_entity, keys + each) for each in levels)
        hits = np.zeros(len(sources), dtype=bool)
        hits[rows[starts < ends]] = True
        return hits

    def ranges(self, attribute: str, low: float, high: float) -> tuple[Ints, Floats, Floats]:
        """The ranges `[v + low, v + high]` around the values of entities, joined where they meet.

        They come as entities, in order, and the ends of their ranges.
        """
        column = self.column(attribute)
        lows = column.values + low
        highs = column.values + high
        fresh = np.ones(len(lows), dtype=bool)
        fresh[1:] = (column.entities[1:] != column.entities[:-1]) | (lows[1:] > highs[:-1])
        last = np.append(fresh[1:], True)[: len(fresh)]
        return column.entities[fresh], lows[fresh], highs[last]

    def _marked(self, entities: Ints) -> Flags:
        marks = np.zeros(self.num_entities, dtype=bool)
        marks[entities] = True
        return marks


def _column(attributes: Attributes, attribute: str) -> Column:
    entities, values = attributes.column(attributes.names.id(attribute))
    return Column(entities.astype(np.int64), values)


def _ordered(starts: Ints, ends: Ints) -> tuple[Ints, Ints]:
    """The spans, empty where they would end before they start."""
    return starts, np.maximum(starts, ends)
