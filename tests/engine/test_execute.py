"""Yes or no, counts, relations and tuples, with numbers worked out by hand."""

from __future__ import annotations

import math
import weakref
from dataclasses import replace

import numpy as np
import pytest
import torch
from torch import Tensor

from tables import TableScorer
from tacit.engine.answers.answers import Answer, Answers
from tacit.engine.engine import Engine
from tacit.engine.reasoner import Explanation, Reasoner
from tacit.engine.search.message_reasoner import CertifiedReasoner
from tacit.engine.top_k import TopKRequest
from tacit.errors import PlanError, QueryError, SettingsError, TacitError, UnknownName
from tacit.graph.graph import Graph
from tacit.query.plans.plan import Plan

FACTS = [("a", "likes", "b"), ("b", "likes", "c"), ("a", "fears", "c"), ("c", "fears", "d")]
LIKES = np.array(
    [[0.1, 0.2, 0.6, 0.3], [0.4, 0.1, 0.2, 0.7], [0.05, 0.3, 0.1, 0.2], [0.3, 0.3, 0.3, 0.1]]
)
FEARS = np.array(
    [[0.1, 0.5, 0.4, 0.2], [0.2, 0.1, 0.8, 0.3], [0.1, 0.2, 0.3, 0.4], [0.6, 0.1, 0.1, 0.2]]
)
KNOWN = 1 - 2.0**-10


@pytest.fixture(scope="module")
def engine() -> Engine:
    graph = Graph.of(FACTS)
    assert list(graph.entities) == ["a", "b", "c", "d"]
    # no prediction is worth what a fact is: the engine scales all of them
    tables = [LIKES / KNOWN, FEARS / KNOWN]
    return Engine(graph, TableScorer(tables), calibration="sigmoid", search="exact", loops=True)


def rows(answers: Answers) -> list[tuple[tuple[str, ...], float, bool]]:
    return [
        (tuple(answer.values.values()), round(answer.score, 4), answer.known) for answer in answers
    ]


def test_names_that_several_answers_share_are_told_apart(engine: Engine) -> None:
    listed = [
        Answer(
            "",
            -1,
            0.5,
            -0.7,
            True,
            values={"x": label, "y": "Q3"},
            names={"x": name, "y": "Europe"},
        )
        for label, name in (("Q1", "Georgia"), ("Q2", "Georgia"), ("Q4", "Kenya"))
    ]
    answers = replace(engine.ask("?x, ?y : likes(?x, ?y)", 3), answers=tuple(listed))
    assert [line.split("  ")[:3] for line in str(answers).splitlines()[2:5]] == [
        ["", " 1. Georgia (Q1)", "Europe"],
        ["", " 2. Georgia (Q2)", "Europe"],
        ["", " 3. Kenya", ""],
    ]
    assert "<b>Georgia (Q2)</b></td><td><b>Europe</b>" in answers._repr_html_()


def test_whether_a_fact_holds(engine: Engine) -> None:
    known = engine.score("a", "likes", "b")
    predicted = engine.score("a", "likes", "c", explain=True)
    assert (known.score, known.known) == (pytest.approx(KNOWN), True)
    assert (predicted.score, predicted.known) == (pytest.approx(0.6), False)
    assert [str(atom) for atom in predicted.witnesses[0].atoms] == ["likes(a, c)  0.600 predicted"]
    with pytest.raises(UnknownName, match="did you mean 'likes'"):
        engine.score("a", "lies", "b")


def test_whether_a_formula_holds(engine: Engine) -> None:
    answers = engine.explain(": likes(a, ?x) & fears(?x, d) & !likes(?x, a)")
    (answer,) = answers
    # Over ?x: a .1 · .2 · .9, b KNOWN · .3 · .6, c .6 · KNOWN · .95, d .3 · .2 · .7
    assert answer.score == pytest.approx(0.6 * KNOWN * 0.95, rel=1e-5)
    assert (answer.known, answers.kind, answers.variables, answers.certified) == (
        False,
        "truth",
        (),
        True,
    )
    assert answer.witnesses[0].variables == {"x": "c"}
    assert str(answers).splitlines()[1] == "   yes:  0.569  predicted"
    assert answers.to_pandas().columns.tolist() == ["rank", "score", "known", "?x"]
    assert "<b>yes</b>" in answers._repr_html_()
    assert engine.ask(": likes(a, ?x) & likes(?x, c)")[0].known


def test_what_cannot_be_holds_with_score_zero(engine: Engine) -> None:
    strict = engine.with_settings(loops=False, logic="godel")
    answers = strict.explain(": likes(a, a)")
    assert (answers[0].score, answers[0].known) == (0.0, False)
    assert answers.to_dict()["answers"][0]["log_score"] is None
    assert "no:  0.000" in str(answers)


def test_known_tuples_come_first_then_the_best(engine: Engine) -> None:
    answers = engine.ask("?x, ?y : likes(?x, ?y)", top=5)
    best = [(("a", "b"), round(KNOWN, 4), True), (("b", "c"), round(KNOWN, 4), True)]
    best += [(("b", "d"), 0.7, False), (("a", "c"), 0.6, False), (("b", "a"), 0.4, False)]
    assert rows(answers) == best
    assert (answers.kind, answers.variables, answers.certified) == ("tuples", ("x", "y"), True)
    turned = [((y, x), score, known) for (x, y), score, known in best]
    assert rows(engine.ask("?y, ?x : likes(?x, ?y)", top=5)) == turned
    new = engine.with_settings(new=True).ask("?x, ?y : likes(?x, ?y)", top=3)
    assert (rows(new), new.left_out) == (best[2:], 2)
    assert str(answers).splitlines()[1:3] == ["      ?x  ?y", "   1. a   b   0.999  known"]
    frame = answers.to_pandas()
    assert frame.columns.tolist() == ["rank", "?x", "?y", "score", "known"]
    assert frame["?y"].tolist() == ["b", "c", "d", "c", "a"]
    assert "<th>?x</th><th>?y</th>" in answers._repr_html_()
    with pytest.raises(QueryError, match="the answers are tuples"):
        _ = answers.entities


def test_tuples_have_reasons(engine: Engine) -> None:
    answers = engine.explain(
        "?x, ?y : exists ?z . likes(?x, ?z) & fears(?z, ?y) & !likes(?y, ?x)", top=6
    )
    assert len(answers) == 6
    assert answers.explained is True
    for answer in answers:
        x, y = (list(engine.graph.entities).index(answer.values[name]) for name in "xy")
        z = list(engine.graph.entities).index(answer.witnesses[0].variables["z"])
        likes = LIKES.copy()
        fears = FEARS.copy()
        for s, relation, t in FACTS:
            (likes if relation == "likes" else fears)["abcd".index(s), "abcd".index(t)] = KNOWN
        through = likes[x] * fears[:, y]
        assert through[z] == pytest.approx(through.max())
        assert answer.score == pytest.approx(through.max() * (1 - likes[y, x]), rel=1e-5)
        assert answer.witnesses[0].score == pytest.approx(answer.score)


def test_a_count_is_what_is_known_and_what_is_expected(engine: Engine) -> None:
    assert engine.count("?x : likes(a, ?x)") == (1, pytest.approx(0.1 + 1 + 0.6 + 0.3))
    answers = engine.ask("count ?x : likes(a, ?x) & !fears(a, ?x)")
    # What the facts imply may yet be ruled out by one that is missing: it counts by its score.
    expected = 0.1 * 0.9 + KNOWN * 0.5 + 0.6 * (1 - KNOWN) + 0.3 * 0.8
    assert answers.counted == (1, pytest.approx(expected, rel=1e-5))
    assert (answers.kind, answers.variables, len(answers)) == ("count", ("x",), 0)
    assert answers.to_dict()["count"] == {"known": 1, "expected": pytest.approx(expected, rel=1e-5)}
    assert "1 known, 0.8 expected" in str(answers)
    assert "1 known, 0.8 expected" in answers._repr_html_()
    assert answers.to_pandas().to_dict("list")["known"] == [1]
    new = engine.with_settings(new=True).ask("count ?x : likes(a, ?x)")
    assert (new.counted, new.left_out) == ((0, pytest.approx(0.1 + 0.6 + 0.3)), 1)
    assert str(new).endswith("0 known, 1.0 expected with predictions; 1 known answer left out")
    with pytest.raises(QueryError, match=r"a count must be of one variable, not of \?x, \?y"):
        engine.count("?x, ?y : likes(?x, ?y)")


def test_a_beam_says_whether_its_count_is_exact(engine: Engine) -> None:
    question = "count ?x : exists ?z . likes(a, ?z) & likes(?z, ?x)"
    beam = engine.with_settings(search="beam", k=1)
    unsure = beam.explain(question)
    assert unsure.certified is False
    assert str(unsure).splitlines()[-1].startswith("not certified")
    assert "<p>not certified" in unsure._repr_html_()
    assert "<p>not certified" in beam.explain(question.removeprefix("count "))._repr_html_()
    assert "certified" not in str(beam.explain("count ?x : likes(a, ?x)"))
    assert beam.explain("count ?x : likes(a, ?x)").certified is True
    assert beam.ask(question).certified is None


def test_relations_between_two_entities(engine: Engine) -> None:
    answers = engine.explain("?r : ?r(a, c)")
    assert rows(answers) == [(("fears",), round(KNOWN, 4), True), (("likes",), 0.6, False)]
    assert (answers.kind, answers.variables, answers.entities) == (
        "relations",
        ("r",),
        ["fears", "likes"],
    )
    assert str(answers[1].witnesses[0].atoms[0]) == "likes(a, c)  0.600 predicted"
    new = engine.with_settings(new=True).ask("?r : ?r(a, c)")
    assert (new.entities, new.left_out) == (["likes"], 1)
    assert rows(engine.ask("?r : ?r^-1(c, a)")) == rows(answers)
    assert rows(engine.ask("?r : ?r(a, c)", top=1)) == rows(answers)[:1]


def test_facts_alone_answer_every_kind(engine: Engine) -> None:
    facts = engine.with_settings(search="symbolic")
    assert rows(facts.ask("?x, ?y : likes(?x, ?y)")) == [
        (("a", "b"), 1.0, True),
        (("b", "c"), 1.0, True),
    ]
    assert [facts.ask(f": likes(a, {name})")[0].score for name in "bc"] == [1.0, 0.0]
    assert facts.ask("?r : ?r(a, c)").entities == ["fears"]
    assert facts.count("?x : exists ?y . likes(?x, ?y)") == (2, 2.0)


@pytest.mark.parametrize(
    ("question", "error", "says"),
    [
        ("?a, ?b, ?c, ?d : likes(?a, ?b) & likes(?c, ?d)", QueryError, "at most 3 variables"),
        ("?a, ?a : likes(?a, b)", QueryError, "must differ"),
        ("?a, ?b : likes(?a, c)", PlanError, r"the target \?b occurs nowhere"),
        ("?a, ?b : likes(?a, c) & !likes(?a, ?b)", PlanError, r"\?b occurs only under negation"),
        ("?r : ?r(a, ?x)", QueryError, "for one between two entities"),
        ("?r : ?r(a, b) & likes(a, b)", QueryError, "for one between two entities"),
        (": ?r(a, b)", QueryError, "for one between two entities"),
        ("likes(a, b)", QueryError, "or with .:. where the answer is yes or no"),
        ("count : likes(a, b)", QueryError, "variable"),
    ],
)
def test_what_no_search_can_list_is_refused(
    engine: Engine, question: str, error: type[TacitError], says: str
) -> None:
    with pytest.raises(error, match=says):
        engine.ask(question)


def test_a_reasoner_that_cannot_tell_proves_nothing(engine: Engine) -> None:
    class Plain(Reasoner):
        num_entities = 4
        probabilities = True

        def __init__(self) -> None:
            self.scores = engine.search.scores  # type: ignore[method-assign]

    Plain.__abstractmethods__ = frozenset()
    plain = Engine(engine.graph, engine.scorer, engine.settings, reasoner=Plain())
    question = "?x, ?y : likes(?x, ?y)"
    found = plain.explain(question, top=16)
    assert rows(found) == rows(engine.ask(question, top=16))
    assert (found.certified, found.explained) == (None, False)
    assert math.isclose(plain.score("a", "likes", "c").score, 0.6, rel_tol=1e-6)


@pytest.mark.parametrize(
    "question",
    ["count ?y : likes(a, ?y)", ": likes(a, b)", "?x, ?y : likes(?x, ?y)", "?r : ?r(a, b)"],
)
def test_scores_that_are_no_probabilities_order_entities_alone(
    engine: Engine, question: str
) -> None:
    class ById(Reasoner):
        """Likes the last best, by scores that add up to nothing."""

        num_entities = 4

        def scores(self, plan: Plan, entities: Tensor, relations: Tensor) -> Tensor:
            return (torch.arange(4.0) - 3).expand(len(relations), -1)

    by_id = Engine(engine.graph, engine.scorer, engine.settings, reasoner=ById(), observed="none")
    assert by_id.ask("?y : likes(?x, ?y)", top=4).entities == ["d", "c", "b", "a"]
    assert (by_id.config["search"], by_id.config["calibration"]) == ("ById", "none")
    with pytest.raises(PlanError, match="ById orders the answers to one question for entities"):
        by_id.ask(question)
    with pytest.raises(
        SettingsError, match="search is given beside ById, a reasoner that takes its place"
    ):
        by_id.with_settings(search="continuous")


def test_what_explains_an_answer_is_let_go_before_the_next(
    engine: Engine, monkeypatch: pytest.MonkeyPatch
) -> None:
    made: list[weakref.ref[Explanation]] = []
    alive: list[int] = []
    explain = CertifiedReasoner.explain

    def counted(
        self: CertifiedReasoner,
        plan: Plan,
        entities: Tensor,
        relations: Tensor,
        request: TopKRequest,
    ) -> Explanation:
        alive.append(sum(each() is not None for each in made))
        found = explain(self, plan, entities, relations, request)
        made.append(weakref.ref(found))
        return found

    monkeypatch.setattr(CertifiedReasoner, "explain", counted)
    found = engine.with_settings(search="certified").ask(
        "?x, ?y : likes(?x, ?y)", top=None, explain=True
    )
    assert found.explained
    assert len(made) == len(found) > 2
    assert max(alive) <= 1  # each remembers sets of all entities, and answers may be many
