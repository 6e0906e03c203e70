"""Reasons: the branch that carried an answer, and the nearest denied fact."""

from __future__ import annotations

from collections import Counter
from functools import reduce
from typing import Any

import numpy as np
import pytest
from torch import Tensor

from bruteforce import LOGICS
from random_engine import CYCLES, KINDS, questions, random_engine
from tables import FactorScorer
from tacit.engine.answers.answer_table import NO_REASONS
from tacit.engine.answers.witnesses import WitnessPart
from tacit.engine.atoms import atoms as atoms_module
from tacit.engine.atoms.atoms import Atoms
from tacit.engine.engine import Engine
from tacit.graph.graph import Graph
from tacit.query.plans.plan import Project

GRAPH = Graph.of([("a", "r", "b"), ("c", "q", "d")])
R = np.full((4, 4), 0.1)
Q = np.full((4, 4), 0.2)
R[0, 1], Q[2, 1], R[0, 3] = 0.9, 0.6, 0.3


@pytest.fixture
def engine() -> Engine:
    return Engine(GRAPH, FactorScorer([R, Q]), calibration="sigmoid", observed="none", loops=True)


def test_of_an_or_the_branch_that_carried_the_answer_comes_first(engine: Engine) -> None:
    best = engine.explain("?x : q(c, ?x) | r(a, ?x)", top=1)[0]
    assert best.entity == "b"
    assert best.score == pytest.approx(1 - 0.1 * 0.4)
    tree = best.witnesses[0].tree
    assert [(part.atom.relation, part.carried) for part in tree.parts if part.atom] == [
        ("q", False),
        ("r", True),
    ]
    lines = best.witnesses[0].lines()
    assert lines == [
        ("r(a, b)  0.900 predicted", True),
        ("or 0.600", False),
        ("  q(c, b)  0.600 predicted", False),
        ("2 of 2 atoms predicted", False),
    ]
    assert best.to_dict()["witnesses"][0]["tree"]["parts"][1]["carried"] is True


def test_what_is_denied_is_explained_by_what_comes_nearest_to_it(engine: Engine) -> None:
    best = engine.explain("?x : r(a, ?x) & !(q(c, ?y) & r(?y, ?x))", top=1)[0]
    tree = best.witnesses[0].tree
    denied = next(part for part in tree.parts if part.kind == "not")
    assert denied.counter_example
    # q(c, y) & r(y, b) is nearest over a, by 0.2 · 0.9; over b it is 0.6 · 0.1.
    assert denied.parts[0].chosen == {"y": "a"}
    assert denied.parts[0].score == pytest.approx(0.2 * 0.9)
    texts = [text for text, _ in best.witnesses[0].lines()]
    assert texts[1] == "nothing found; nearest: ?y = a  0.180"
    assert texts[2:4] == ["  not q(c, a)  0.200 predicted", "  not r(a, b)  0.900 predicted"]


def test_a_name_that_is_bound_twice_is_told_apart() -> None:
    graph = Graph.of(
        [("a", "r", "b"), ("b", "r", "e"), ("a", "q", "c"), ("c", "q", "e"), ("c", "q", "b")]
    )
    engine = Engine(graph, FactorScorer([np.full((4, 4), 0.1)] * 2), calibration="sigmoid")
    both = engine.explain(
        "?y : (exists ?x . r(a, ?x) & r(?x, ?y)) & (exists ?x . q(a, ?x) & q(?x, ?y))", 1
    )
    assert both.entities == ["e"]
    assert sorted(both[0].witnesses[0].variables.values()) == ["b", "c"]
    assert set(both[0].witnesses[0].variables) == {"x", "x'"}
    hidden = engine.explain(
        "?x : exists ?y . r(a, ?y) & r(?y, ?x) & (exists ?x . q(a, ?x) & q(?x, ?y))", 1
    )
    assert (hidden.entities, hidden[0].witnesses[0].variables) == (["e"], {"y": "b", "x'": "c"})
    assert hidden.to_pandas()[["entity", "?y", "?x'"]].values.tolist() == [["e", "b", "c"]]


def test_how_much_is_predicted_is_said_in_a_line() -> None:
    partly_observed = Engine(GRAPH, FactorScorer([R, Q]), calibration="sigmoid", observed="train")
    best = partly_observed.explain("?x : r(a, ?x) & q(c, ?x)", top=1)[0]
    assert best.witnesses[0].lines()[-1] == ("1 of 2 atoms predicted", False)
    assert (best.witnesses[0].predicted, len(best.witnesses[0].atoms)) == (1, 2)


def test_under_a_known_answer_nothing_is_said_of_predicted_atoms() -> None:
    """The denied atom is predicted, since it is no fact, but the answer rests on facts."""
    partly_observed = Engine(
        GRAPH, FactorScorer([R, Q]), calibration="sigmoid", observed="train", loops=True
    )
    known, other = partly_observed.explain("?x : r(a, ?x) & !q(c, ?x)", top=2)
    assert (known.entity, known.known, other.known) == ("b", True, False)
    assert known.witnesses[0].lines() == [
        ("r(a, b)  0.999 known", True),
        ("not q(c, b)  0.599 predicted", True),
    ]
    assert known.witnesses[0].to_dict()["known"] is True
    assert other.witnesses[0].lines()[-1] == ("2 of 2 atoms predicted", False)
    assert other.witnesses[0].to_dict()["known"] is False


@pytest.mark.parametrize("search", ["exact", "certified", "beam"])
def test_the_first_reason_of_a_known_answer_is_by_facts_where_predictions_tie(search: str) -> None:
    """Predictions may score as facts do; of two equal reasons the known one comes first."""
    facts = [("a", "r", "m2"), ("m2", "q", "x"), ("m1", "p", "m1")]
    graph = Graph.of([("m1", "q", "a"), ("m1", "r", "a"), *facts])
    # of equal ones a search takes the first
    assert graph.entities.id("m1") < graph.entities.id("m2")
    size = graph.num_entities
    tables = [np.full((size, size), 0.1) for _ in range(graph.num_relations // 2)]
    a, m1, x = (graph.entities.id(name) for name in ("a", "m1", "x"))
    for name, ends in (("r", (a, m1)), ("q", (m1, x))):
        tables[graph.relations.id(name) // 2][ends] = 1 - 1e-9  # of what a fact is worth
    made = Engine(
        graph,
        FactorScorer(tables),
        calibration="sigmoid",
        search=search,
        observed_score=0.9,
        loops=True,
    )
    for question in ("?x : r(a, ?m) & q(?m, ?x)", "?x : (r(a, ?m) | p(x, ?m)) & q(?m, ?x)"):
        (answer,) = made.explain(question, 1, paths=2)
        first, second = answer.witnesses
        assert (answer.entity, answer.known) == ("x", True)
        assert [atom.observed for atom in first.atoms if atom.relation != "p"] == [True, True]
        assert first.variables == {"m": "m2"}
        assert first.score == pytest.approx(answer.score, rel=1e-6)
        assert second.variables == {"m": "m1"}
        assert second.lines()[-1][0].startswith("2 of 2" if "|" not in question else "3 of 3")


def test_a_search_without_reasons_says_so(engine: Engine) -> None:
    symbolic = engine.with_settings(search="symbolic", observed="train")
    answers = symbolic.explain("?x : r(a, ?x)")
    assert answers.explained is False
    assert answers.certified is True
    assert str(answers).endswith(NO_REASONS)
    assert symbolic.ask("?x : r(a, ?x)").explained is None


def test_a_tree_is_told_whole() -> None:
    nothing = WitnessPart("true", 1.0)
    assert WitnessPart("and", 1.0, (nothing,)).lines() == []


HANGING = (
    "?x : exists ?w, ?y, ?z . r(e1, ?w) & q(?w, ?y) & p(?y, ?z) & q(?z, ?x) & r(?x, ?y)",
    "?x : exists ?y, ?z . q(e1, ?y) & p(?y, ?z) & r(?z, ?x) & q(?x, ?y) & !(exists ?v . p(e2, ?v) "
    "& r(?v, ?x))",
    "?x : exists ?y . (exists ?w . r(e1, ?w) & q(?w, ?y)) & (p(?y, ?x) | (exists ?v . r(?y, ?v) & "
    "q(?v, ?x)))",
    "?x, ?y : exists ?z . r(e1, ?x) & q(?x, ?z) & p(?z, ?y) & !(exists ?v . r(?x, ?v) & q(?v, ?y))",
)  # cycles, disjunctions and pairs that hang on hops


def recomputed_score(part: WitnessPart, norm: str) -> float:
    """Compute the score of a witness from its atoms by the formulas of a logic."""
    if part.atom is not None:
        return part.atom.score
    conjunction, disjunction = LOGICS[norm]
    values = [np.float64(recomputed_score(inner, norm)) for inner in part.parts]
    if part.kind == "not":
        return 1.0 - values[0]
    return (
        float(reduce(conjunction if part.kind == "and" else disjunction, values)) if values else 1.0
    )


@pytest.mark.parametrize(
    ("seed", "settings"),
    [
        (1, {"calibration": "sigmoid", "observed": "none", "k": 1, "budget": 4}),
        (
            2,
            {
                "calibration": "softmax-count",
                "observed": "all",
                "k": 2,
                "budget": 9,
                "logic": "godel",
            },
        ),
        (3, {"calibration": "sigmoid", "observed": "all", "k": 1, "budget": 60}),
        (
            4,
            {
                "calibration": "softmax-count",
                "observed": "none",
                "k": 3,
                "budget": 20,
                "logic": "lukasiewicz",
            },
        ),
    ],
)
def test_the_atoms_of_a_witness_are_worth_what_the_answer_is(
    seed: int, settings: dict[str, Any]
) -> None:
    """It is so for proven and unproven answers, and explaining leaves the list unchanged."""
    engine = random_engine(seed, ties=seed == 4, **settings)
    proven = set()
    hops = [question for question in questions(engine, seed) if question.compiled.plan.has(Project)]
    batch = [*hops, *map(engine.prepare, (*CYCLES, *KINDS, *HANGING))]
    for question, plain in zip(batch, engine.ask_many(batch, 2), strict=True):
        found = engine.explain(question, 2)
        proven.add(found.certified)
        assert [(a.id, a.values) for a in found] == [(a.id, a.values) for a in plain]
        for answer, same in zip(found, plain, strict=True):
            value = recomputed_score(answer.witnesses[0].tree, engine.settings.logic)
            assert answer.score == pytest.approx(same.score, abs=1e-6)
            assert answer.witnesses[0].score == pytest.approx(value, rel=1e-4, abs=1e-7)
            # which are worth that at least
            if not (answer.known and not found.certified and "|" in found.query):
                assert value == pytest.approx(answer.score, rel=1e-4, abs=1e-7), (
                    found.query,
                    answer,
                )
            assert value >= answer.score * (1 - 1e-4)
    assert proven == {True, False}


@pytest.mark.parametrize("search", ["certified", "beam"])
def test_a_known_answer_is_explained_by_its_facts_where_the_search_has_dropped_them(
    search: str,
) -> None:
    hub = [("hub", "r", f"m{i}") for i in range(9)]
    ends = [(f"m{i}", "q", f"x{i}") for i in range(9)] + [("m7", "q", "y"), ("y", "r", "m7")]
    graph = Graph.of(hub + ends)
    scorer = FactorScorer(
        list(
            np.random.default_rng(3).uniform(0.1, 0.6, (2, graph.num_entities, graph.num_entities))
        )
    )
    engine = Engine(graph, scorer, calibration="sigmoid", search=search, k=2)
    for text, atoms in (("", 2), (" & r(?x, ?m)", 3)):
        found = engine.explain(
            f"?x : exists ?m . r(hub, ?m) & q(?m, ?x){text}", 10 if not text else 1
        )
        assert sum(answer.known for answer in found) == (10 if not text else 1)
        plain = engine.ask(f"?x : exists ?m . r(hub, ?m) & q(?m, ?x){text}", len(found))
        assert [answer.id for answer in found] == [answer.id for answer in plain]
        for answer in found:
            witness = answer.witnesses[0]
            assert (witness.predicted, len(witness.atoms)) == (0, atoms)
            assert witness.variables["m"] == (
                "m7" if answer.entity == "y" else "m" + answer.entity[1:]
            )
            assert witness.score == pytest.approx(answer.score, rel=1e-6)


def test_a_known_pair_is_explained_by_its_facts_where_a_fact_is_worth_1() -> None:
    """A beam of two drops the value of `?m`, of nine, that facts lead over, from either end."""
    wide = [("hub", "r", f"m{i}") for i in range(9)] + [(f"m{i}", "q", "end") for i in range(9)]
    graph = Graph.of([*wide, ("m8", "q", "x"), ("s", "r", "m8")])
    size = graph.num_entities
    scorer = FactorScorer(list(np.random.default_rng(3).uniform(0.1, 0.6, (2, size, size))))
    engine = Engine(graph, scorer, calibration="sigmoid", search="beam", k=2, observed_score=1.0)
    found = engine.explain("?a, ?b : exists ?m . r(?a, ?m) & q(?m, ?b)", 4)
    assert {tuple(answer.values.values()) for answer in found} == {
        ("hub", "end"),
        ("hub", "x"),
        ("s", "end"),
        ("s", "x"),
    }
    for answer in found:
        assert (answer.known, answer.score, answer.witnesses[0].score) == (True, 1.0, 1.0)
        assert answer.witnesses[0].predicted == 0


def test_what_is_proven_stays_proven_when_reasons_are_asked_for() -> None:
    """A cycle of known answers is proven by a closer bound than that of its body."""
    engine = random_engine(
        8, k=1, budget=30, calibration="sigmoid", observed_score=0.95, loops=True
    )
    cycle = "?x : exists ?y, ?z . r(?x, ?y) & q(?y, ?z) & p(?z, ?x)"
    plain = engine.ask(cycle, 2)
    found = engine.explain(cycle, 2)
    assert plain.certified
    assert found.certified
    assert [(answer.id, answer.score) for answer in found] == [
        (answer.id, answer.score) for answer in plain
    ]
    for answer in found:
        assert recomputed_score(answer.witnesses[0].tree, "product") == pytest.approx(
            answer.score, rel=1e-5
        )


ROWS_ASKED = [
    "?x : r(e1, ?x)",
    "?x : r(e1, ?y) & q(?y, ?x)",
    "?x : r(e1, ?y) & q(?y, ?z) & p(?z, ?x)",
    "?x : r(e1, ?y) & q(?y, ?x) & p(e2, ?x)",
    "?x : r(e1, ?x) & !q(e2, ?x)",
    *CYCLES[:2],
    KINDS[0],
    "?r : ?r(e1, e2)",
]


@pytest.mark.parametrize("question", ROWS_ASKED)
def test_rows_that_the_reasons_of_all_answers_need_are_scored_once(
    question: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A softmax scores whole rows for single atoms, nearly the same for each answer."""
    scored: Counter[tuple[tuple[int, ...], ...]] = Counter()
    rows = Atoms.rows

    def counted(self: Atoms, heads: Tensor, relations: Tensor) -> Tensor:
        scored[tuple(heads.tolist()), tuple(relations.tolist())] += 1
        return rows(self, heads, relations)

    monkeypatch.setattr(Atoms, "rows", counted)
    engine = random_engine(3, calibration="softmax-count")
    answers = engine.explain(question, top=8, paths=2)
    assert answers.explained
    if answers.kind == "entities":  # others are found by scores before they are explained
        assert max(scored.values()) == 1
    once = scored.total()
    scored.clear()
    monkeypatch.setattr(atoms_module, "_ROWS_CACHED", 0)
    assert engine.explain(question, top=8, paths=2).to_dict() == answers.to_dict()
    assert scored.total() > 1.5 * once  # where nothing is kept
