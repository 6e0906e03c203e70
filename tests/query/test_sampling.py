"""Sampled queries: answers, rules, seeds, and messages when they run out."""

from __future__ import annotations

from itertools import pairwise
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from formulas import queries
from tacit.errors import SettingsError
from tacit.graph.graph import Graph, directed
from tacit.graph.labels.vocabulary import Vocabulary
from tacit.query.formula import Atom, Entity, Exists, Formula, Query, Variable
from tacit.query.plans.compile import compile_query
from tacit.query.plans.symbolic import answers
from tacit.query.sampling.queries import GRAPHS
from tacit.query.sampling.sampling import Sample, sample, without_negation
from tacit.query.sampling.shapes import NEGATIVE, SHAPES, Shape

SIZE = 60
KINDS = 4


def random_graph(seed: int = 0, size: int = SIZE) -> Graph:
    random = np.random.default_rng(seed)
    facts = np.unique(
        random.integers(0, [size, KINDS, size], (12 * size, 3), dtype=np.int32), axis=0
    )
    facts[:, 1] *= 2
    parts = np.split(random.permutation(facts), [len(facts) * 3 // 5, len(facts) * 4 // 5])
    return Graph(Vocabulary(map(str, range(size))), directed("rqps"), *parts)


@pytest.fixture(scope="module")
def graph() -> Graph:
    return random_graph()


class Tuples:
    """BetaE's tuples evaluated by their definition, one set after the other."""

    def __init__(self, graph: Graph, *parts: str) -> None:
        self.facts: set[tuple[int, ...]] = (
            set(map(tuple, graph.triples(*parts).tolist())) if parts else set()
        )
        self.everything = set(range(graph.num_entities))

    def answers(self, query: Any) -> set[int]:
        if isinstance(query, int):
            return {query}
        if not all(isinstance(step, int) and step != -1 for step in query[-1]):
            sets = [self.answers(part) for part in query if part != (-1,)]
            return set.union(*sets) if query[-1] == (-1,) else set.intersection(*sets)
        found = self.answers(query[0])
        for step in query[1]:
            found = (
                self.everything - found
                if step == -2
                else {t for s, r, t in self.facts if s in found and r == step}
            )
        return found


@pytest.mark.parametrize("split", GRAPHS)
@pytest.mark.parametrize("name", SHAPES)
def test_answers_and_rules(graph: Graph, name: str, split: str) -> None:
    whole = sample(graph, SHAPES[name], split, count=25, max_answers=30)
    found = whole.queries
    assert len(found) == whole.tries - sum(whole.rejected.values()) == 25
    smaller, larger = (Tuples(graph, *parts) for parts in GRAPHS[split])
    tuples = found.tuples()
    assert len(set(tuples)) == 25
    for query, easy, hard in zip(tuples, found.easy.to_sets(), found.hard.to_sets(), strict=True):
        before = smaller.answers(query) if split != "train" else set()
        assert (easy, hard) == (before, larger.answers(query) - before)
        assert 1 <= len(hard) <= 30
        if name in NEGATIVE and split != "train":
            assert 1 <= len(easy - larger.answers(query)) <= 30
        parts = [query, *(part for part in query if isinstance(part, tuple))]
        branches = [
            branch
            for part in parts
            for branch in part
            if isinstance(branch, tuple) and len(branch) > 1
        ]
        assert len(set(branches)) == len(branches)
        for _, steps in (
            part for part in parts if isinstance(part[0], int) and isinstance(part[-1], tuple)
        ):
            assert all(first != second ^ 1 for first, second in pairwise(steps) if second >= 0)


@pytest.mark.parametrize("name", NEGATIVE)
def test_train_negations_take_something_away(graph: Graph, name: str) -> None:
    found = sample(graph, SHAPES[name], "train", count=25).queries
    plan = SHAPES[name].plan
    positive = type(plan)(
        without_negation(plan.root), plan.num_entities, plan.num_relations, plan.num_variables
    )
    more = answers(positive, found.entities, found.relations, graph.index("train"), SIZE)
    assert (more.counts > found.hard.counts).all()


class Links(Tuples):
    """BetaE's tuples with each answer's cost, the fewest unknown facts it needs."""

    def __init__(self, graph: Graph, split: str) -> None:
        super().__init__(graph, *GRAPHS[split][1])
        self.known = set(map(tuple, graph.triples(*GRAPHS[split][0]).tolist()))

    def costs(self, query: Any) -> dict[int, int]:
        if isinstance(query, int):
            return {query: 0}
        if not all(isinstance(step, int) and step != -1 for step in query[-1]):
            parts = [self.costs(part) for part in query if part != (-1,)]
            if query[-1] == (-1,):
                return {e: min(part[e] for part in parts if e in part) for e in set().union(*parts)}
            return {e: sum(part[e] for part in parts) for e in set.intersection(*map(set, parts))}
        found = self.costs(query[0])
        for step in query[1]:
            reached: dict[int, int] = {}
            for s, r, t in self.facts if step != -2 else ():
                if r == step and s in found:
                    reached[t] = min(reached.get(t, 99), found[s] + ((s, r, t) not in self.known))
            found = dict.fromkeys(self.everything - set(found), 0) if step == -2 else reached
        return found


@pytest.mark.parametrize("missing", [1, 2, "2", "2+", 3])
@pytest.mark.parametrize("name", ["1p", "3p", "3i", "ip", "up", "3in", "pin"])
def test_hard_answers_miss_so_many_links(graph: Graph, name: str, missing: int | str) -> None:
    least = int(str(missing)[0])
    if least > {"1p": 1, "3p": 3, "3i": 3, "ip": 3}.get(name, 2):
        with pytest.raises(
            SettingsError, match=f"missing is {least}.*, but answers of {name} miss at most"
        ):
            sample(graph, SHAPES[name], "test", missing=missing)
        return
    found = sample(graph, SHAPES[name], "test", count=4, missing=missing, max_answers=30).queries
    assert len(found) >= 2
    links = Links(graph, "test")
    smaller = Tuples(graph, *GRAPHS["test"][0])
    for query, easy, hard in zip(
        found.tuples(), found.easy.to_sets(), found.hard.to_sets(), strict=True
    ):
        costs = links.costs(query)
        before = smaller.answers(query)
        expected = {
            e
            for e, cost in costs.items()
            if cost >= least and (cost == least or str(missing).endswith("+"))
        }
        assert hard == expected - before
        assert easy == before | set(costs) - hard
        assert 1 <= len(hard) <= 30


def same(one: Sample, other: Sample) -> bool:
    return one.queries.tuples() == other.queries.tuples()


def test_a_seed_decides(graph: Graph) -> None:
    first = sample(graph, SHAPES["pi"], "test", count=30, seed=3)
    assert same(first, sample(random_graph(), SHAPES["pi"], "test", count=30, seed=3))
    assert not same(first, sample(graph, SHAPES["pi"], "test", count=30, seed=4))


def test_branches_in_order_unless_mirrored(graph: Graph) -> None:
    pairs = [
        tuple(sorted(query)) == query
        for query in sample(graph, SHAPES["2i"], "test", count=60).queries.tuples()
    ]
    assert all(pairs)
    drawn = sample(graph, SHAPES["2i"], "test", count=60, mirrored=True).queries.tuples()
    assert 10 < sum(tuple(sorted(query)) == query for query in drawn) < 50
    assert all(one != other for one, other in drawn)


def test_links_are_drawn_alike() -> None:
    hub = [("hub", "has", str(i)) for i in range(90)]
    rest = [(str(i), "next", str(i + 1)) for i in range(89)]
    found = sample(Graph.of(hub + rest), SHAPES["1p"], "train", count=180, waste=0.9)
    # (hub, has), 90 inverses of it, 89 times next and 89 inverses: 269 in all, so none is in the
    # sample twice
    assert len(set(found.queries.tuples())) == len(found.queries) == 180


def test_it_says_when_queries_run_out() -> None:
    small = Graph.of([("a", "likes", "b"), ("b", "likes", "c")])
    found = sample(small, SHAPES["1p"], "train", count=50, waste=0.5)
    assert len(found.queries) == 4  # (a, likes), (b, likes) and the two inverses
    assert not found.complete
    assert found.tries == 100
    assert str(found) == "1p: 4 of 50 queries in 100 tries (4.0% good; 96 seen before)"
    nothing = sample(small, SHAPES["3in"], "train", count=2, waste=0.9)
    assert (len(nothing.queries), nothing.tries) == (0, 20)
    assert nothing.queries.entities.shape == (0, 3)


def test_progress_counts_what_is_kept(graph: Graph, monkeypatch: pytest.MonkeyPatch) -> None:
    counts: list[int] = []
    # so that there are several batches
    monkeypatch.setattr("tacit.query.sampling.sampling._MOST", 16)
    sample(graph, SHAPES["2p"], "test", count=40, progress=counts.append)
    assert counts == sorted(counts)
    assert counts[0] < counts[-1] == 40


@pytest.mark.parametrize(
    ("change", "says"),
    [
        ({"split": "dev"}, "split is 'dev'; it must be one of train, valid, test"),
        ({"split": "test"}, "no test facts"),
        ({"count": 0}, "count is 0; it must be at least 1"),
        ({"max_answers": 0}, "max_answers is 0; it must be at least 1"),
        ({"seed": -1}, "seed is -1; it must be 0 or more"),
        ({"waste": 1.0}, "waste is 1.0; it must be below 1"),
        ({"missing": 0}, "missing is '0'; it must be a number of links from 1"),
        ({"missing": "two"}, "missing is 'two'; it must be"),
        ({"missing": 2}, "nothing is known before the train facts"),
    ],
)
def test_settings(change: dict[str, Any], says: str) -> None:
    with pytest.raises(SettingsError, match=says):
        sample(Graph.of([("a", "likes", "b")]), SHAPES["1p"], **change)


A = Entity("a")
B = Entity("b")
T = Variable("t")
X = Variable("x")
Y = Variable("y")
TEMPLATES = {
    "backwards": Atom("r", T, A),
    "side by side": Exists(X, Atom("r", A, X) & Atom("q", X, T) & Atom("p", X, T)),
    "side by side, one negated": Exists(X, Atom("r", A, X) & Atom("q", X, T) & ~Atom("p", T, X)),
    "triangle": Exists(
        X, Exists(Y, Atom("r", A, X) & Atom("q", X, Y) & Atom("p", X, T) & Atom("s", Y, T))
    ),
    "loop": Atom("r", A, T) & Atom("q", T, T),
    "negated union": Atom("r", A, T) & ~(Atom("q", A, T) | Atom("p", T, B)),
    "apart": Atom("r", A, T) & Exists(X, Atom("q", X, X) & Atom("p", B, X)),
    "about entities": Atom("r", A, T) & Atom("q", A, B),
}


@pytest.mark.parametrize("name", TEMPLATES)
def test_templates(name: str) -> None:
    dense = random_graph(1, size=12)
    found = sample(
        dense, Shape.of(name, Query(T, TEMPLATES[name])), "test", count=8, max_answers=12
    )
    assert found.complete
    assert found.queries.hard.counts.min() >= 1


@settings(max_examples=60, deadline=None)
@given(queries(), st.integers(0, 2**32))
def test_any_template(query: Query, seed: int) -> None:
    shape = Shape("any", query, compile_query(query, safe=False).plan)
    dense = random_graph(1, size=12)
    found = sample(dense, shape, "train", count=4, seed=seed, waste=0.8)
    again = answers(
        shape.plan, found.queries.entities, found.queries.relations, dense.index("train"), 12
    )
    assert found.queries.hard.to_sets() == again.to_sets()
    assert found.queries.hard.counts.all()


def test_positive_templates_are_answered_by_what_they_are_drawn_from() -> None:
    formula: Formula = Exists(X, (Atom("r", A, X) & Atom("q", X, T)) & Exists(Y, Atom("p", Y, X)))
    found = sample(random_graph(), Shape.of("mine", Query(T, formula)), "train", count=50)
    assert found.complete
    assert "without an answer" not in str(found)


def test_a_graph_of_three_entities_is_given_up_once_all_is_found() -> None:
    facts = [("a", "r", "b"), ("b", "r", "c"), ("c", "r", "a"), ("a", "s", "c")]
    ring = Graph.of(facts)
    tails: dict[tuple[int, int], set[int]] = {}
    for head, relation, tail in ring.train.tolist():
        tails.setdefault((head, relation), set()).add(tail)
        tails.setdefault((tail, relation ^ 1), set()).add(head)
    pairs = {tuple(sorted((one, other))) for one in tails for other in tails if one != other}
    expected = {pair for pair in pairs if tails[pair[0]] & tails[pair[1]]}
    drawn = sample(ring, SHAPES["2i"], count=10**12)
    rows = zip(drawn.queries.entities.tolist(), drawn.queries.relations.tolist(), strict=True)
    assert {tuple(sorted(zip(*row, strict=True))) for row in rows} == expected
    assert drawn.tries < 200_000
