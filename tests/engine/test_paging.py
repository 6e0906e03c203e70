"""A page of answers is a slice of the whole list above the least score, with ties."""

from __future__ import annotations

import math
import re
from dataclasses import replace
from itertools import product

import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from formulas import RELATIONS, Facts, fact_sets, holds, queries, tuple_queries
from tables import FactorScorer
from tacit.engine import questions
from tacit.engine.answers.answer_table import AnswerTable
from tacit.engine.answers.answers import LIKELY, Answer, Answers
from tacit.engine.engine import Engine
from tacit.engine.questions import lowest
from tacit.errors import SettingsError, TacitError
from tacit.graph.graph import Graph, directed
from tacit.graph.labels.vocabulary import Vocabulary
from tacit.query.formula import Query

ENTITIES = tuple("abcdefghij")
LEVELS = np.array([0.1, 0.3, 0.5, 0.9])  # few, so that many answers tie


def engine_of(facts: Facts, entities: tuple[str, ...], seed: int, **changes: object) -> Engine:
    """Random scores over random facts, all of them known."""
    triples = [
        (entities.index(s), 2 * RELATIONS.index(r), entities.index(o)) for s, r, o in sorted(facts)
    ]
    graph = Graph(
        Vocabulary(entities), directed(RELATIONS), np.array(triples, np.int32).reshape(-1, 3)
    )
    random = np.random.default_rng(seed)
    tables = [random.choice(LEVELS, (len(entities), len(entities))) for _ in RELATIONS]
    return Engine(graph, FactorScorer(tables), calibration="sigmoid", loops=True, **changes)


SEARCHES = [
    {"search": "beam", "k": 2},
    {"search": "exact"},
    {"search": "beam", "k": 2, "new": True},
]


@settings(max_examples=60, deadline=None)
@given(
    queries(depth=3, size=5), fact_sets(5), st.integers(0, 2**32 - 1), st.sampled_from(SEARCHES),
    st.booleans(), st.integers(1, 3), st.integers(0, 4), st.data(),
)  # fmt: skip
def test_a_page_is_a_slice_of_all_answers_that_are_asked_for(
    query: Query,
    facts: tuple[Facts, tuple[str, ...]],
    seed: int,
    search: dict[str, object],
    explain: bool,
    top: int,
    offset: int,
    data: st.DataObject,
) -> None:
    engine = engine_of(*facts, seed, **search)
    try:
        whole = engine.ask(query, top=None, explain=explain).answers
    except TacitError:  # unsafe questions are refused
        return
    assert len(whole) == len(engine.ask(query, top=100).answers)
    least = data.draw(st.sampled_from([0.0, 0.3, 0.999, *(answer.score for answer in whole)]))
    good = tuple(answer for answer in whole if answer.score >= least)
    page = engine.ask(query, top=top, offset=offset, min_score=least, explain=explain)
    assert page.answers == good[offset : offset + top]
    assert [rank for rank, _ in page.ranked] == list(range(offset + 1, offset + 1 + len(page)))
    assert engine.ask(query, top=None, min_score=least, explain=explain).answers == good

    # The LIMIT and OFFSET of a question choose first, and so does what it says of known answers.
    known, limit, inner = data.draw(
        st.tuples(st.sampled_from([None, True, False]), st.integers(0, 4), st.integers(0, 2))
    )
    question = replace(
        engine.prepare(query), limit=limit, offset=inner, known=known, min_score=least
    )
    chosen = [answer for answer in good if known is None or answer.known is known][
        inner : inner + limit
    ]
    listed = engine.ask(question, top=top, offset=1, explain=explain)
    assert list(listed) == chosen[1 : 1 + top]
    assert listed.offset == inner + 1


@settings(max_examples=60, deadline=None)
@given(
    queries(depth=3, size=5), fact_sets(5), st.integers(0, 2**32 - 1), st.integers(1, 3),
    st.integers(0, 3), st.sampled_from([0.0, 0.2, 0.8]),
    st.sampled_from([{"search": "certified"}, {"search": "certified", "k": 1}]),
)  # fmt: skip
def test_what_is_certified_is_the_page_of_exact_search(
    query: Query,
    facts: tuple[Facts, tuple[str, ...]],
    seed: int,
    top: int,
    offset: int,
    least: float,
    search: dict[str, object],
) -> None:
    engine = engine_of(*facts, seed, **search)
    page = {"top": top, "offset": offset, "min_score": least}
    try:
        exact = engine.with_settings(search="exact").ask(query, **page)
    except TacitError:
        return
    for found in (
        engine.ask(query, **page),
        engine.with_settings(search="beam").explain(query, **page),
    ):
        if found.certified:
            assert [answer.score for answer in found] == pytest.approx(
                [answer.score for answer in exact], rel=1e-5
            )
        proven = found.proven or 0
        scores = [answer.score for answer in exact]
        assert [answer.score for answer in found[:proven]] == pytest.approx(
            scores[:proven], rel=1e-5
        )
        assert found.certified or "k" in search or found.settings["search"] == "beam"


@pytest.mark.parametrize(
    "question",
    ["?x : r(a, ?x)", "?x : exists ?y . r(a, ?y) & q(?y, ?x)", "?x : r(a, ?x) | q(a, ?x)"],
)
def test_lists_have_the_pages_of_rows(question: str) -> None:
    random = np.random.default_rng(5)
    facts = [("a", "r", "c"), ("a", "q", "b"), ("c", "q", "d")]
    graph = Graph.of([(e, "r", e) for e in ENTITIES] + facts)
    tables = [random.uniform(0.01, 0.99, (10, 10)) for _ in range(2)]
    rows = Engine(graph, FactorScorer(tables), calibration="sigmoid", loops=True, observed="all")
    lists = rows.with_settings(search="certified", candidates="scan")
    whole = rows.with_settings(search="exact").ask(question, top=None)
    assert len(whole) == 10
    for least in (0.0, 0.4, 0.9992):
        good = [answer for answer in whole if answer.score >= least]
        for offset in (0, 3, 9, 12):
            page = lists.ask(question, top=4, offset=offset, min_score=least)
            assert page.entities == [answer.entity for answer in good[offset : offset + 4]]
            assert page.certified


LISTS: list[dict[str, object]] = [
    {"search": "exact"},
    {"search": "beam", "k": 2},
    {"search": "certified", "k": 2},
    {"search": "certified", "candidates": "scan"},
    {"search": "symbolic"},
    {"search": "exact", "new": True},
    {"search": "exact", "logic": "lukasiewicz", "observed_score": 0.51},
]


@settings(max_examples=120, deadline=None)
@given(
    st.one_of(queries(depth=3, size=5), tuple_queries(2, depth=2, size=4)), fact_sets(5),
    st.integers(0, 2**32 - 1), st.sampled_from(LISTS), st.integers(1, 3), st.booleans(),
)  # fmt: skip
def test_a_likely_list_holds_what_is_known_or_likely_and_some_of_the_best(
    query: Query,
    facts: tuple[Facts, tuple[str, ...]],
    seed: int,
    search: dict[str, object],
    shown: int,
    explain: bool,
) -> None:
    """Likely lists against all answers of the same search, and against sets of assignments."""
    engine = engine_of(*facts, seed, **search)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(questions, "SHOWN", shown)
        try:
            whole = engine.ask(query, top=None)
        except TacitError:  # unsafe questions are refused
            return
        found = engine.ask(query, top="likely", explain=explain)
        page = engine.ask(query)
    expected = [a for place, a in enumerate(whole) if a.known or a.score >= LIKELY or place < shown]
    if search["search"] == "exact" or query.kind == "entities":
        key = [
            (answer.values, answer.known, pytest.approx(answer.score, abs=1e-6))
            for answer in expected
        ]
        assert key == [(answer.values, answer.known, answer.score) for answer in found]
    assert len(page) == min(shown, len(whole))
    names = facts[1]
    known = sum(
        holds(query.formula, facts[0], names, dict(zip(query.targets, ends, strict=True)))
        for ends in product(names, repeat=len(query.targets))
    )
    for answers in (whole, found, page):
        assert (answers.known_total, answers.known_at_least) == (known, False)
        assert answers.left_out == (known if "new" in search else None)
    assert whole.cut_by is None
    # what is worth nothing, as three weak facts together may be, is listed nowhere
    if "new" not in search:
        assert (
            sum(answer.known for answer in found) == sum(answer.known for answer in whole) <= known
        )
    if len(whole) > len(page):
        assert page.cut_by == "top"
        assert page.misses_likely or all(
            answer.score < LIKELY for answer in whole if answer not in page
        )
    if len(whole) > len(found):
        assert found.cut_by == "likely"


@settings(max_examples=200, deadline=None)
@example(1.0)
@given(st.floats(1e-30, 1.0))
def test_the_lowest_log_score_is_the_first_that_does(score: float) -> None:
    log = np.float32(lowest(score))
    assert math.exp(log) >= score > math.exp(np.nextafter(log, np.float32(-np.inf)))


@pytest.mark.parametrize(
    ("options", "says"),
    [
        ({"top": 0}, "top must be at least 1, not 0"),
        ({"top": "France"}, "top must be a whole number, 'likely', or None for all, not 'France'"),
        ({"offset": -1}, "offset must be at least 0, not -1"),
        ({"min_score": 1.5}, "min_score must be a number from 0 to 1, not 1.5"),
        ({"min_score": math.nan}, "min_score must be a number from 0 to 1, not nan"),
    ],
)
def test_a_page_that_cannot_be_is_refused(options: dict[str, object], says: str) -> None:
    engine = engine_of(frozenset(), ENTITIES, 0)
    with pytest.raises(SettingsError, match=re.escape(says)):
        engine.ask("?x : r(a, ?x)", **options)


def answers(*scores: float, offset: int = 0) -> Answers:
    return Answers(
        "?x : r(a, ?x)", tuple(Answer("e", 0, s, math.log(s), False) for s in scores), offset=offset
    )


@pytest.mark.parametrize(
    ("listed", "likely", "says"),
    [
        (answers(0.9, LIKELY, 0.4, 0.1), 2, "4 answers, 2 at 0.5 or above"),
        (answers(0.4), 0, "1 answer, none at 0.5 or above"),
        (answers(0.9, 0.4, offset=10), 1, "answers 11 to 12, 1 at 0.5 or above"),
        (answers(0.9, 1e-9), 1, "2 answers, 1 at 0.5 or above; the last scores next to nothing"),
        (
            answers(0.9, 1e-4, 1e-9, 1e-18),
            1,
            "4 answers, 1 at 0.5 or above; the last 2 score next to nothing",
        ),
        (answers(1e-9, 1e-9), 0, "2 answers, none at 0.5 or above; they score next to nothing"),
        (answers(0.9, 0.8), 2, ""),  # where they end is not to be seen
        (answers(), 0, ""),
    ],
)
def test_a_line_says_where_the_sensible_answers_end(
    listed: Answers, likely: int, says: str
) -> None:
    assert (listed.likely, AnswerTable(listed).notes) == (likely, [says] if says else [])
    fields = listed.to_dict()
    assert (fields["likely"], fields["threshold"], fields["offset"]) == (
        likely,
        LIKELY,
        listed.offset,
    )
    for shown in (str(listed), listed._repr_html_()):
        assert ("or above" in shown) == bool(says)
        assert says in shown
