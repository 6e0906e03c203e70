"""New answers only: as they were in the whole list, with a certificate or a message."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from typer.testing import CliRunner

import formulas
from formulas import RELATIONS, Facts, fact_sets, queries
from tables import FactorScorer
from tacit.cli import app
from tacit.engine.engine import Engine
from tacit.errors import SettingsError, TacitError
from tacit.graph.graph import Graph, directed
from tacit.graph.labels.vocabulary import Vocabulary
from tacit.query.formula import Query


def engine_of(facts: Facts, entities: tuple[str, ...], seed: int, **changes: object) -> Engine:
    """Random scores over random facts, all of them known."""
    triples = [
        (entities.index(s), 2 * RELATIONS.index(r), entities.index(o)) for s, r, o in sorted(facts)
    ]
    graph = Graph(
        Vocabulary(entities), directed(RELATIONS), np.array(triples, np.int32).reshape(-1, 3)
    )
    random = np.random.default_rng(seed)
    tables = [random.uniform(0.01, 0.99, (len(entities), len(entities))) for _ in RELATIONS]
    return Engine(graph, FactorScorer(tables), calibration="sigmoid", loops=True, **changes)


@settings(max_examples=60, deadline=None)
@given(
    queries(depth=3, size=5), fact_sets(5), st.integers(0, 2**32 - 1), st.sampled_from([1, 2, 100])
)
def test_they_are_the_answers_that_do_not_follow(
    query: Query, facts: tuple[Facts, tuple[str, ...]], seed: int, k: int
) -> None:
    engine = engine_of(*facts, seed, k=k)
    known = formulas.answers(query, *facts)
    try:
        plain = engine.explain(query, top=100)
    except TacitError:  # unsafe questions are refused, new or not
        return
    new = engine.with_settings(new=True).explain(query, top=100)
    assert new.left_out == len(known)
    assert [(a.entity, a.score, a.witnesses) for a in new] == [
        (a.entity, a.score, a.witnesses) for a in plain if a.entity not in known
    ]
    assert not any(answer.known for answer in new)
    assert (plain.left_out, {a.entity for a in plain if a.known} <= known) == (None, True)


@settings(max_examples=80, deadline=None)
@given(queries(depth=3, size=5), fact_sets(5), st.integers(0, 2**32 - 1), st.integers(1, 3))
def test_what_is_certified_is_what_exact_search_finds(
    query: Query, facts: tuple[Facts, tuple[str, ...]], seed: int, top: int
) -> None:
    engine = engine_of(*facts, seed, k=2, new=True)
    try:
        found = engine.explain(query, top=top)
    except TacitError:
        return
    exact = engine.with_settings(search="exact").explain(query, top=100)
    assert exact.certified
    # which is about answers and their order; a score may be that of the best way the beam found
    if found.certified:
        scores = {answer.entity: answer.score for answer in exact}
        assert [scores[entity] for entity in found.entities] == pytest.approx(
            [a.score for a in exact[:top]], rel=1e-5
        )


def test_a_certificate_is_about_new_answers() -> None:
    """A beam of one follows m alone, so that n is open; one hop leaves nothing open."""
    graph = Graph.of([("a", "r", "m"), ("a", "r", "n"), ("n", "q", "k")])
    hop, last = np.full((2, 4, 4), 1e-6)
    hop[0, 3], last[1, 0] = 0.8, 0.9  # a to k, m to a
    engine = Engine(graph, FactorScorer([hop, last]), calibration="sigmoid", k=1, new=True)
    one = engine.explain("?x : r(a, ?x)", top=1)
    assert (one.entities, one.certified, one.left_out) == (["k"], True, 2)
    two = "?x : exists ?y . r(a, ?y) & q(?y, ?x)"
    answers = engine.explain(two, top=1)
    exact = engine.with_settings(search="exact").explain(two, top=1)
    assert answers.entities == exact.entities == ["a"]  # and not k, which n is known to lead to
    assert (answers.certified, exact.certified) == (False, True)
    assert (answers.left_out, answers[0].witnesses[0].predicted) == (1, 1)


def test_a_question_whose_answers_are_all_known_says_so() -> None:
    graph = Graph.of([("a", "r", "b"), ("a", "r", "c")])
    table = np.full((3, 3), 0.5)
    engine = Engine(
        graph, FactorScorer([table]), calibration="sigmoid", search="symbolic", new=True
    )
    answers = engine.ask("?x : r(a, ?x)")
    assert (len(answers), answers.left_out) == (0, 2)
    assert "no new answer: 2 known answers, and nothing else fits" in str(answers)
    assert "2 known answers" in answers._repr_html_()
    assert answers.to_dict()["left_out"] == 2
    some = engine.with_settings(search="exact", loops=True).ask("?x : r(a, ?x)")
    assert "2 known answers left out" in str(some)
    assert "2 known answers left out" in some._repr_html_()
    assert "left_out" not in engine.with_settings(new=False).ask("?x : r(a, ?x)").to_dict()
    nothing = engine.ask("?x : r(b, ?x)")  # no answer at all is not the same as none that is new
    assert str(nothing).endswith("no answer")


def test_nothing_is_new_where_nothing_is_known() -> None:
    graph = Graph.of([("a", "r", "b")])
    with pytest.raises(
        SettingsError, match="new leaves out what is known, and with `observed='none'` nothing is"
    ):
        Engine(graph, FactorScorer([np.full((2, 2), 0.5)]), observed="none", new=True)


def test_one_question_may_be_asked_for_what_is_new() -> None:
    graph = Graph.of([("a", "r", "b"), ("a", "r", "c")])
    engine = Engine(graph, FactorScorer([np.full((3, 3), 0.5)]), calibration="sigmoid", loops=True)
    for question in ("?x : r(a, ?x)", "?x ?y : r(?x, ?y)", "?r : ?r(a, b)", "count ?x : r(a, ?x)"):
        by_argument = engine.ask(question, new=True)
        by_setting = engine.with_settings(new=True).ask(question)
        assert (by_argument, by_argument.settings["new"]) == (by_setting, True)
        assert (by_argument.left_out, engine.ask(question).left_out) == (
            2 - (question[:2] == "?r"),
            None,
        )
    prefixes = "PREFIX : <tacit:> PREFIX answer: <tacit:answer#>"
    # and nothing is new as well
    known = f"{prefixes} SELECT ?x {{ :a :r ?x . ?x answer:known ?k FILTER(?k) }}"
    assert (len(engine.ask(known)), len(engine.ask(known, new=True))) == (2, 0)
    with pytest.raises(
        SettingsError, match="new leaves out what is known, and with `observed='none'` nothing is"
    ):
        engine.with_settings(observed="none").ask("?x : r(a, ?x)", new=True)


def test_the_command_line_and_sparql(tmp_path) -> None:
    (tmp_path / "g.tsv").write_text("a\tr\tb\n")
    for question in ("?x : r(a, ?x)", "PREFIX : <tacit:> SELECT ?x { :a :r ?x }"):
        shown = CliRunner().invoke(
            app, ["ask", str(tmp_path / "g.tsv"), question, "--symbolic", "--new"]
        )
        assert "no new answer: 1 known answer, and nothing else fits" in shown.output


@settings(max_examples=60, deadline=None)
@given(queries(depth=3, size=5), fact_sets(5), st.integers(0, 2**32 - 1), st.integers(1, 3))
def test_best_first_search_finds_the_new_answers_of_exact_search(
    query: Query, facts: tuple[Facts, tuple[str, ...]], seed: int, top: int
) -> None:
    engine = engine_of(*facts, seed, new=True)
    try:
        exact = engine.with_settings(search="exact").ask(query, top=top)
    except TacitError:
        return
    found = engine.with_settings(search="certified").ask(query, top=top)
    assert found.certified
    assert found.entities == exact.entities
    assert [answer.score for answer in found] == pytest.approx(
        [answer.score for answer in exact], rel=1e-5
    )
