"""Known values in ranges and their differences, against every pair of them."""

from __future__ import annotations

import math
import pickle

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from tacit.graph.attributes import Attribute, Attributes
from tacit.graph.quantities import Quantity
from tacit.graph.value_index import ValueIndex

SIZE = 5
# numbers whose differences are rounded, and some that tie
NUMBERS = st.sampled_from([0.0, 0.1, 0.2, 0.30000000000000004, 0.3, -1e-300, 1e16, 1.0, -2.5])
BOUNDS = st.sampled_from(
    [-math.inf, math.inf, 0.0, 5e-324, -5e-324, 0.1, 0.2, -0.1, math.nextafter(0.1, 1), 1e16, -2.8]
)
VALUES = st.lists(st.tuples(st.integers(0, SIZE - 1), st.integers(0, 1), NUMBERS), max_size=12)


def indexed(values: list[tuple[int, int, float]]) -> ValueIndex:
    rows = [(entity, attribute, Quantity(value), 0) for entity, attribute, value in values]
    attributes = Attributes.of([Attribute("a"), Attribute("b")], rows)
    return ValueIndex(attributes, ("train",), SIZE)


@settings(max_examples=300, deadline=None)
@given(VALUES, BOUNDS, BOUNDS)
def test_ranges_and_differences_are_those_of_every_pair(
    values: list[tuple[int, int, float]], low: float, high: float
) -> None:
    index = pickle.loads(pickle.dumps(indexed(values)))
    a, b = (
        [{v for e, of, v in values if (e, of) == (entity, at)} for entity in range(SIZE)]
        for at in (0, 1)
    )
    assert index.known("a").tolist() == [bool(some) for some in a]
    inside = [any(low <= value <= high for value in some) for some in a]
    assert index.within("a", low, high).tolist() == inside
    pairs = np.array(
        [[any(low <= x - y <= high for x in left for y in right) for right in b] for left in a]
    )
    sources, targets = map(np.ravel, np.indices((SIZE, SIZE)))
    found = index.differ("a", "b", low, high, sources, targets)
    assert found.reshape(SIZE, SIZE).tolist() == pairs.tolist()
    rows, entities = index.differing("a", "b", low, high, np.arange(SIZE))
    assert {*zip(rows.tolist(), entities.tolist(), strict=True)} == {
        *map(tuple, np.argwhere(pairs))
    }


@given(VALUES, st.sampled_from([0.0, -1.0, -0.15]), st.sampled_from([0.0, 0.15, 1.0]))
def test_ranges_around_values_are_joined_where_they_meet(
    values: list[tuple[int, int, float]], low: float, high: float
) -> None:
    entities, lows, highs = indexed(values).ranges("a", low, high)
    around = [(e, v + low, v + high) for e, attribute, v in values if not attribute]
    probes = [*np.linspace(-3, 2, 41), 0.3, 0.30000000000000004, 1e16]
    for probe in probes:
        meant = {e for e, start, end in around if start <= probe <= end}
        hits = (lows <= probe) & (probe <= highs)
        assert set(entities[hits].tolist()) == meant
        assert len(entities[hits]) == len(meant)


def test_only_the_values_of_some_splits_are_known() -> None:
    attributes = Attributes.of(
        [Attribute("a")], [(0, 0, Quantity(1.0), 0), (1, 0, Quantity(1.0), 1)]
    )
    assert ValueIndex(attributes, ("valid",), 2).known("a").tolist() == [False, True]
    assert ValueIndex(attributes, (), 2).known("a").tolist() == [False, False]
