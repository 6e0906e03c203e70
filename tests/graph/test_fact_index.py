"""The sorted index and keys of facts, also where ids do not fit into one number."""

from __future__ import annotations

from collections import defaultdict
from dataclasses import replace
from itertools import count

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tacit.engine.atoms.known_facts import KnownFacts
from tacit.errors import LimitError
from tacit.graph.builder import Builder, assemble, fact_keys
from tacit.graph.fact_index import FactIndex, paired
from tacit.graph.graph import Graph, directed
from tacit.graph.labels.vocabulary import Vocabulary
from tacit.graph.split import split
from tacit.graph.statistics import redundancies

FREEBASE = (86_054_151, 29_648)  # entities and relation ids: N²·R is 24 times 2⁶³
MOST = (2**31 - 1, 2**31 - 2)


def near(size: int) -> st.SearchStrategy[int]:
    """Ids from both ends of a range."""
    return st.integers(0, 3) | st.integers(size - 4, size - 1)


@st.composite
def sized_triples(draw: st.DrawFn) -> tuple[list[tuple[int, int, int]], tuple[int, int]]:
    sizes = draw(st.sampled_from([(10, 4), FREEBASE, MOST]))
    triple = st.tuples(near(sizes[0]), near(sizes[1]), near(sizes[0]))
    return draw(st.lists(triple, max_size=30)), sizes


def array(triples: list[tuple[int, int, int]]) -> np.ndarray:
    return np.array(triples, dtype=np.int32).reshape(-1, 3)


@settings(max_examples=40, deadline=None)
@given(sized_triples(), st.data())
def test_an_index_finds_what_a_set_holds(drawn: tuple, data: st.DataObject) -> None:
    triples, sizes = drawn
    queries = triples + data.draw(
        st.lists(st.tuples(near(sizes[0]), near(sizes[1]), near(sizes[0])), max_size=10)
    )
    index = FactIndex(array(triples), sizes[1])
    known = set(triples)
    assert len(index) == len(known)
    tails = {(h, r): sorted(t for a, b, t in known if (a, b) == (h, r)) for h, r, _ in queries}
    assert {pair: index.tails(*pair).tolist() for pair in tails} == tails
    heads, relations, ends = array(queries).T
    assert index.contains(heads, relations, ends).tolist() == [
        triple in known for triple in queries
    ]
    assert index.counts(heads, relations).tolist() == [len(tails[h, r]) for h, r, _ in queries]
    rows, found = index.neighbours(heads, relations)
    assert list(zip(rows.tolist(), found.tolist(), strict=True)) == [
        (row, tail) for row, (h, r, _) in enumerate(queries) for tail in tails[h, r]
    ]


@settings(max_examples=40, deadline=None)
@given(sized_triples())
def test_known_facts_are_those_of_the_index(drawn: tuple) -> None:
    import torch

    triples, sizes = drawn
    facts = KnownFacts(FactIndex(array(triples), sizes[1]))
    queries = torch.tensor([*triples, (0, 0, 0), (sizes[0] - 1, sizes[1] - 1, 3)])
    heads, relations, ends = queries.T
    known = set(triples)
    assert facts.contains(heads, relations, ends).tolist() == [
        tuple(triple) in known for triple in queries.tolist()
    ]
    expected = [sorted(t for a, b, t in known if [a, b] == [h, r]) for h, r, _ in queries.tolist()]
    assert facts.counts(heads, relations).tolist() == list(map(len, expected))
    rows, found = facts.tails(heads, relations)
    assert found.dtype == torch.int64
    assert [found[rows == i].tolist() for i in range(len(queries))] == expected


@settings(max_examples=40, deadline=None)
@given(sized_triples(), sized_triples())
def test_packed_facts_are_equal_where_the_facts_are(one: tuple, other: tuple) -> None:
    parts = (one[0], other[0])
    sizes = max(one[1], other[1])
    keys = [
        key for part in fact_keys([array(part) for part in parts], *sizes) for key in part.tolist()
    ]
    facts = [fact for part in parts for fact in part]
    assert all(
        (a == b) == (f == g)
        for a, f in zip(keys, facts, strict=True)
        for b, g in zip(keys, facts, strict=True)
    )


@settings(max_examples=40, deadline=None)
@given(st.lists(st.tuples(near(2**63), near(MOST[0])), max_size=20))
def test_pairs_keep_their_order(pairs: list[tuple[int, int]]) -> None:
    high, low = np.array(pairs, dtype=np.int64).reshape(-1, 2).T
    keys = paired(high, low, MOST[0]).tolist()
    assert all(key >= 0 for key in keys)
    assert sorted(range(len(keys)), key=keys.__getitem__) == sorted(
        range(len(keys)), key=pairs.__getitem__
    )


class Countless(Vocabulary):
    """Labels that nobody could hold; only their number is known."""

    def __init__(self, size: int, kind: str = "entity") -> None:
        super().__init__((), kind)
        self.size = size

    def __len__(self) -> int:
        return self.size


def test_a_fact_of_a_graph_as_large_as_freebase_is_found() -> None:
    """Its last ids, few facts, and no array as long as there are entities."""
    last = FREEBASE[0] - 1
    relation = FREEBASE[1] - 2
    facts = array(
        [
            (last, relation, last - 1),
            (last - 1, relation, last),
            (0, 0, 1),
            (last, relation, last - 1),
        ]
    )
    graph = assemble(
        Countless(FREEBASE[0]),
        Countless(FREEBASE[1], "relation"),
        [facts, facts[:1], facts[:0]],
        "large",
    )
    assert graph.train.tolist() == facts[:3].tolist()
    assert graph.notes == (
        "train: 1 duplicate fact dropped",
        "valid: 1 fact dropped that train has too",
    )
    assert graph.index().tails(last, relation).tolist() == [last - 1]
    assert graph.index().tails(last - 1, relation + 1).tolist() == [last]
    assert graph.index().contains(*facts[:1].T).tolist() == [True]
    assert list(redundancies(graph)) == [(relation, relation + 1)]


def test_splits_of_large_ids_keep_pairs_together() -> None:
    """A symmetric relation gives each fact away by its other direction, whatever the ids are."""
    few = [(h, 0, t) for h in range(12) for t in range(12) if h != t]
    # N²·R = 2⁶⁴
    size = 2**22
    relations = 2**20
    shift = size - 12
    large = array([(h + shift, relations - 2, t + shift) for h, _, t in few])
    graph = replace(Graph.of([("a", "r", "b")]), entities=Countless(size), train=large)
    graph = replace(graph, relations=Countless(relations, "relation"))
    parts = split(graph, 0.2, 0.2)
    small = split(Graph(Vocabulary(map(str, range(12))), directed("r"), array(few)), 0.2, 0.2)
    for name in ("train", "valid", "test"):
        assert np.array_equal(parts.split(name) - [shift, relations - 2, shift], small.split(name))
    assert len(parts.valid)


def test_more_labels_than_ids_have_bits_are_refused() -> None:
    builder = Builder()
    builder.entities = defaultdict(count(2**31).__next__)
    with pytest.raises(LimitError, match="an id has 32 bits"):
        builder.add("train", ["a", "r", "b"])
