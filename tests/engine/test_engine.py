"""Asking: answers, reasons, certificates, and what happens with odd questions."""

from __future__ import annotations

import json
import math
from typing import Any

import numpy as np
import pytest
import torch

from bruteforce import LOGICS
from tables import FactorScorer, TableScorer
from tacit.engine.answers.answers import Answer, Answers
from tacit.engine.answers.witnesses import Witness, WitnessAtom, WitnessPart
from tacit.engine.engine import Engine
from tacit.engine.logic import NORMS
from tacit.errors import QueryError, SettingsError, TacitError, UnknownName
from tacit.graph.graph import Graph, directed, no_triples
from tacit.graph.labels.vocabulary import Vocabulary
from tacit.links.models import make_model
from tacit.links.scorer import GraphScorer

EUROPE = [
    ("France", "borders", "Spain"), ("Spain", "borders", "France"),
    ("Spain", "borders", "Portugal"), ("Portugal", "borders", "Spain"),
    ("France", "borders", "Germany"), ("Germany", "borders", "France"),
    ("Germany", "speaks", "German"), ("Spain", "speaks", "Spanish"),
    ("Lisbon", "capital_of", "Portugal"),
]  # fmt: skip


@pytest.fixture
def europe() -> Engine:
    graph = Graph.of(EUROPE)
    return Engine(graph, GraphScorer(graph.index(), graph.num_entities), calibration="sigmoid")


def test_answers_come_with_the_facts_that_make_them_true(europe: Engine) -> None:
    answers = europe.explain(
        "?city : exists ?n . borders(Spain, ?n) & capital_of(?city, ?n)", top=3
    )
    best = answers[0]
    assert best.entity == "Lisbon"
    assert best.known
    assert best.witnesses[0].variables == {"n": "Portugal"}
    assert {(a.subject, a.relation, a.object, a.observed) for a in best.witnesses[0].atoms} == {
        ("Spain", "borders", "Portugal", True),
        ("Lisbon", "capital_of", "Portugal", True),
    }


def test_negated_atoms_are_marked(europe: Engine) -> None:
    answers = europe.explain("?c : borders(France, ?c) & !speaks(?c, German)", top=1)
    assert answers.entities == ["Spain"]
    assert [(a.relation, a.negated, a.observed) for a in answers[0].witnesses[0].atoms] == [
        ("borders", False, True),
        ("speaks", True, False),
    ]


def test_alternative_reasons(europe: Engine) -> None:
    answers = europe.explain("?c : borders(?n, ?c)", top=5, paths=2)
    france = next(a for a in answers if a.entity == "France")
    assert {w.variables["n"] for w in france.witnesses} == {"Spain", "Germany"}


def test_every_way_to_read_answers(europe: Engine) -> None:
    answers = europe.explain("?c : borders(France, ?c)", top=2)
    assert [row["entity"] for row in json.loads(answers.to_json())["answers"]] == [
        "Spain",
        "Germany",
    ]
    frame = answers.to_pandas()
    assert list(frame["entity"]) == ["Spain", "Germany"]
    assert "<b>Spain</b>" in answers._repr_html_()
    assert "borders(France, Spain)" in str(answers)
    assert len(answers) == 2
    assert answers[:1][0].entity == "Spain"


def test_answers_are_told_apart_in_sets(europe: Engine) -> None:
    question = "?c : exists ?n . borders(France, ?n) & borders(?n, ?c)"
    first = europe.explain(question)
    again = europe.explain(question)
    assert (first, hash(first), len({first, again})) == (again, hash(again), 1)
    assert len(set(first) | set(again)) == len(first)
    assert set(first).isdisjoint(europe.ask(question))  # which have no reasons
    assert len({europe.prepare(question), europe.prepare(question)}) == 1


def test_html_escapes_labels() -> None:
    graph = Graph.of([("a", "r", "<script>alert(1)</script>")])
    engine = Engine(graph, GraphScorer(graph.index(), 2), calibration="sigmoid")
    assert "<script>" not in engine.explain("?x : r(a, ?x)")._repr_html_()


def test_questions_of_one_structure_and_others_together(europe: Engine) -> None:
    texts = ["?c : borders(France, ?c)", "?c : speaks(?c, German)", "?c : borders(Portugal, ?c)"]
    together = europe.ask_many(texts, top=1)
    assert [a.entities for a in together] == [europe.ask(text, top=1).entities for text in texts]


def test_sparql_and_text_are_asked_alike(europe: Engine) -> None:
    sparql = "PREFIX : <tacit:> SELECT ?c { :France :borders ?c MINUS { ?c :speaks :German } }"
    text = "?c : borders(France, ?c) & !speaks(?c, German)"
    assert europe.explain(sparql) == europe.explain(text, top="likely")
    assert europe.explain(sparql, top=10) == europe.explain(text)


@pytest.mark.parametrize(("limit", "top", "expected"), [(1, 10, 1), (5, 2, 2), (0, 10, 0)])
def test_the_lower_of_limit_and_top_counts(
    europe: Engine, limit: int, top: int, expected: int
) -> None:
    sparql = f"PREFIX : <tacit:> SELECT ?c {{ :France :borders ?c }} LIMIT {limit}"
    unlimited, limited = europe.ask_many(["?c : borders(France, ?c)", sparql], top)
    assert limited.answers == unlimited.answers[:expected]


@pytest.mark.parametrize(
    ("question", "error", "says"),
    [
        ("?c : boarders(France, ?c)", UnknownName, "did you mean 'borders'"),
        ("?c : borders(Frnace, ?c)", UnknownName, "did you mean 'France'"),
        ("?c : borders(France", QueryError, "column"),
        ("", QueryError, "a question starts with"),
    ],
)
def test_wrong_questions_say_what_would_work(
    europe: Engine, question: str, error: type[TacitError], says: str
) -> None:
    with pytest.raises(error, match=says):
        europe.ask(question)


def test_top_beyond_the_graph_and_scores_of_zero(europe: Engine) -> None:
    assert len(europe.ask("?c : borders(France, ?c)", top=1000)) <= europe.graph.num_entities
    nothing = europe.with_settings(search="symbolic").ask("?c : capital_of(?c, France)")
    assert len(nothing) == 0
    assert "no answer" in str(nothing)
    assert nothing.to_pandas().empty


def test_a_least_score_says_how_many_known_answers_it_leaves_out(europe: Engine) -> None:
    question = "?c : borders(France, ?c)"
    known = europe.ask(question, top=None).known_total
    assert known
    # 0.999 is what a known fact is worth
    below = f"{known} known answers score less"
    assert str(europe.ask(question, min_score=1.0)).endswith(f"no answer of such a score: {below}")
    assert below not in str(europe.ask(question, top=None, min_score=0.9))
    assert str(europe.ask(": borders(France, Spain)", min_score=1.0)).count("known") == 1
    assert str(europe.ask(question, offset=10_000)).endswith("no more answers")


@pytest.mark.parametrize(
    "bad", [{"k": 0}, {"search": "guess"}, {"observed": "tomorrow"}, {"nonsense": 1}]
)
def test_impossible_settings(europe: Engine, bad: dict[str, object]) -> None:
    with pytest.raises(SettingsError):
        europe.with_settings(**bad)
    with pytest.raises(SettingsError, match="top"):
        europe.ask("?c : borders(France, ?c)", top=0)


def test_symbolic_search_finds_nothing_where_nothing_is_known(europe: Engine) -> None:
    assert not europe.with_settings(search="symbolic", observed="none").ask(
        "?c : borders(France, ?c)"
    )


def test_what_is_no_question_is_refused(europe: Engine) -> None:
    with pytest.raises(QueryError, match="not int"):
        europe.ask(5)  # type: ignore[arg-type]
    with pytest.raises(QueryError, match="list of questions"):
        europe.ask_many("?c : borders(France, ?c)")
    for pair in (("?c : borders(France, ?c)",), ("?c : borders($who, ?c)", None)):
        with pytest.raises(QueryError, match="a pair"):
            europe.ask(pair)  # type: ignore[arg-type]


def test_a_variable_that_only_a_negation_speaks_of_keeps_all_its_values(europe: Engine) -> None:
    """The complement of a few languages is nearly all; a beam of two would pick by chance."""
    question = "?c : exists ?l . speaks(?c, ?l) & !speaks(Germany, ?l)"
    answers = europe.with_settings(k=2).explain(question, top=1)
    assert answers.entities == ["Spain"]
    assert answers[0].witnesses[0].variables == {"l": "Spanish"}
    assert answers.certified


def test_twenty_atoms(europe: Engine) -> None:
    chain = (
        " & ".join(f"borders(?v{i}, ?v{i + 1})" for i in range(20))
        .replace("?v0", "France")
        .replace("?v20", "?t")
    )
    assert europe.ask(f"?t : {chain}", top=1)[0].known


@pytest.mark.parametrize("query", ["?t : r(x, ?t)", "PREFIX : <tacit:> SELECT ?t { :x :r ?t }"])
def test_a_question_that_was_prepared_on_another_graph_is_refused(query: str) -> None:
    """Its ids mean other things: `x` is 2 in one graph and 0 in the other."""
    first = Engine.of_facts(Graph.of([("foo", "r", "bar"), ("x", "r", "bar")]))
    second = Engine.of_facts(Graph.of([("x", "r", "t2"), ("bar", "r", "t1")], name="second"))
    question = first.prepare(query)
    doors = (
        second.ask, second.explain, second.count, second.describe, second.seconds, second.prepare,
        lambda each: second.ask_many([query, each]),
        lambda each: second.with_settings(new=True).ask(each),
    )  # fmt: skip
    for door in doors:
        with pytest.raises(
            QueryError,
            match=r"prepared on another graph, .* in second; ask its text itself: \?t : r",
        ):
            door(question)
    assert (first.ask(question).entities, second.ask(query).entities) == (["bar"], ["t2"])
    few = Engine.of_facts(Graph.of([("x", "r", "x")]))  # which has no entity 2
    with pytest.raises(QueryError, match="prepared on another graph"):
        few.ask(question)


def test_a_question_that_was_prepared_on_fewer_facts_is_asked_of_more() -> None:
    """Labels that were appended change no id."""
    before = Engine.of_facts(Graph.of([("x", "r", "y")]))
    after = Engine.of_facts(Graph.of([("x", "r", "y"), ("x", "r", "z"), ("z", "q", "y")]))
    assert after.ask(before.prepare("?t : r(x, ?t)")).entities == ["y", "z"]


def test_a_model_of_another_graph_is_refused(europe: Engine) -> None:
    other = Graph.of(EUROPE[:2])
    with pytest.raises(SettingsError, match="open the run"):
        Engine(other, europe.scorer)


def witness(score: float) -> Witness:
    return Witness(
        score, {}, WitnessPart("atom", score, atom=WitnessAtom("a", "r", "b", score, False))
    )


def test_further_reasons_are_set_apart() -> None:
    first, second = (witness(score) for score in (0.5, 0.25))
    answers = Answers("?x : r(a, ?x)", (Answer("b", 1, 0.5, -0.69, False, (first, second)),))
    assert str(answers).splitlines()[2:] == [
        "        r(a, b)  0.500 predicted",
        "      or 0.250, because",
        "        r(a, b)  0.250 predicted",
    ]
    why = "r(a, b)  0.500 predicted<br><i>or 0.250, because</i><br>r(a, b)  0.250 predicted"
    assert f">{why}</td>" in answers._repr_html_()


def test_answers_show_themselves_at_a_prompt_and_in_a_notebook() -> None:
    reason = witness(0.5)
    plain, with_reasons = (
        Answers("?x : r(a, ?x)", (Answer("b", 1, 0.5, -0.69, False, why),))
        for why in ((), (reason,))
    )
    assert repr(plain) == "?x : r(a, ?x)\n   1. b  0.500  predicted"
    assert "because" not in plain._repr_html_()
    assert "r(a, b)  0.500 predicted" in with_reasons._repr_html_()
    assert "no answer" in Answers("?x : r(a, ?x)", ())._repr_html_()


@pytest.mark.parametrize("search", ["beam", "exact"])
@pytest.mark.parametrize("norm", NORMS)
def test_equal_answers_are_listed_by_id(search: str, norm: str) -> None:
    """With few distinct scores, answers tie at the cut of the beam and of the list."""
    random = np.random.default_rng(4)
    size = 12
    hops = random.choice([0.25, 0.5, 0.75], (size, size))
    names = [f"e{i}" for i in range(size)]
    graph = Graph(Vocabulary(names), directed(["r"]), no_triples())
    settings: dict[str, Any] = {
        "calibration": "sigmoid",
        "observed": "none",
        "logic": norm,
        "loops": True,
        "k": 3,
    }
    engine = Engine(graph, FactorScorer([hops]), search=search, **settings)
    ids = sorted(range(size), key=lambda v: (-hops[0, v], v))[: 3 if search == "beam" else size]
    joined = LOGICS[norm][0]
    for question, values in {
        "?t : r(e0, ?t)": hops[0],
        "?t : exists ?v . r(e0, ?v) & r(?v, ?t)": np.max(
            [joined(hops[0, v], hops[v]) for v in ids], axis=0
        ),
    }.items():
        order = sorted(
            (t for t in range(size) if values[t] > 0), key=lambda t: (-round(values[t], 6), t)
        )
        assert [answer.id for answer in engine.ask(question, top=5)] == order[:5]


@pytest.mark.parametrize("calibration", ["sigmoid", "minmax", "softmax-count", "softmax-observed"])
def test_a_scorer_that_hands_out_what_it_keeps_keeps_it(calibration: str) -> None:
    """All rows are one vector; an engine that wrote into it would change later answers."""

    class Popularity(TableScorer):
        popularity = torch.tensor([1.0, 2.0, 3.0, 4.0], dtype=torch.float64)

        def logits(
            self, heads: torch.Tensor, relations: torch.Tensor, out: torch.Tensor | None = None
        ) -> torch.Tensor:
            return self.popularity.expand(len(heads), -1)

        def logits_of(
            self, heads: torch.Tensor, relations: torch.Tensor, tails: torch.Tensor
        ) -> torch.Tensor:
            return self.popularity[tails]

    graph = Graph.of([("a", "r", "b"), ("b", "r", "c"), ("c", "q", "d"), ("d", "q", "a")])
    scorer = Popularity([np.full((4, 4), 0.5)] * 2)
    questions = ["?x : r(a, ?x)", "?x : exists ?y . r(a, ?y) & q(?y, ?x)", "?x, ?y : r(?x, ?y)"]
    first, second = (
        Engine(graph, scorer, calibration=calibration).ask_many(questions) for _ in range(2)
    )
    assert first == second
    assert scorer.popularity.tolist() == [1.0, 2.0, 3.0, 4.0]
    if calibration == "sigmoid":
        worth = (1 - 2.0**-10) / (1 + math.exp(-3.0))
        assert {answer.entity: answer.score for answer in first[0]}["c"] == pytest.approx(worth)


def test_numbers_that_scores_are_not_made_of_are_refused_in_a_line() -> None:
    graph = Graph.of([("a", "r", "b"), ("b", "r", "c")])
    model = make_model("complex", graph.num_entities, graph.num_relations, 2)
    with pytest.raises(
        SettingsError, match=r"vectors of torch.float64; scores are float32: use model.float()"
    ):
        Engine(graph, model.double()).ask("?x : r(a, ?x)")
    usual = torch.get_default_dtype()
    torch.set_default_dtype(torch.float64)
    try:
        with pytest.raises(SettingsError, match="set_default_dtype"):
            Engine(graph, model.float()).ask("?x : r(a, ?x)")
    finally:
        torch.set_default_dtype(usual)
    assert len(Engine(graph, model.float()).ask("?x : r(a, ?x)")) == 2
