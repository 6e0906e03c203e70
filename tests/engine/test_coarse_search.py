"""Answers by codes of the keys are those of exact rows, to the bit, for any keys."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch

from tacit.adapt.adapter import Adapter
from tacit.adapt.calibrated import Adapted
from tacit.engine.answers.answers import Answers
from tacit.engine.atoms import atoms as atoms_module
from tacit.engine.atoms import derived_weights
from tacit.engine.atoms.calibration import calibration
from tacit.engine.atoms.known_facts import KnownFacts
from tacit.engine.engine import Engine
from tacit.engine.questions import BoundQuery
from tacit.engine.search.coarse_search import CoarseSearch
from tacit.graph.graph import Graph
from tacit.links.codes import FEW, Codes
from tacit.links.models import ComplEx
from tacit.query.plans.compile import compile_query, compile_template
from tacit.query.plans.traits import without_hops
from tacit.query.question import parse_question
from tacit.query.sampling.shapes import SHAPES

SIZE = 150
LABELS = ("r", "q", "p")
NESTED = (
    "?x : (r(e1, ?x) | q(e2, ?x)) & !(p(e3, ?x) & r(e4, ?x))",
    "?x : r(e5, ?x) & !q(e5, ?x) & p(?x, e6)",
)


def graph() -> Graph:
    random = np.random.default_rng(0)
    facts = random.integers(0, [SIZE, len(LABELS), SIZE], (500, 3))
    facts = np.concatenate(
        [facts, [[i, 0, i] for i in range(0, SIZE, 5)], [[i, 1, 0] for i in range(SIZE)]]
    )
    return Graph.of([(f"e{s}", LABELS[r], f"e{t}") for s, r, t in np.unique(facts, axis=0)])


GRAPH = graph()


def model(kind: str) -> ComplEx:
    """Keys that codes hardly separate: equal ones, nearly equal ones, and spikes."""
    factors = ComplEx(GRAPH.num_entities, GRAPH.num_relations, 5).requires_grad_(False)
    factors.reset(1.0, torch.Generator().manual_seed(1))
    table = factors.entities.weight
    if kind == "equal":
        table[60:] = table[: len(table) - 60].clone()
    if kind == "near":
        table[30:] = table[7] + 1e-4 * table[30:]
    if kind == "spikes":
        table[::3, 0] = 9.0
    return factors


def engine(
    monkeypatch: pytest.MonkeyPatch, kind: str = "plain", large: bool = True, **changes: Any
) -> Engine:
    """An engine that asks codes from its first question on, or rows alone."""
    monkeypatch.setattr(atoms_module, "_LARGE", 0 if large else 2**60)
    monkeypatch.setattr(derived_weights, "_CODED_AFTER", -1)
    made = Engine(GRAPH, model(kind), **changes)
    assert made.atoms.capabilities.codable is large
    return made


def questions(count: int = 3) -> list[BoundQuery]:
    """Questions of every shape without hops, and nested ones."""
    random = np.random.default_rng(2)
    batch = []
    for shape in SHAPES.values():
        compiled = compile_template(shape.query)
        for _ in range(count if without_hops(compiled.plan) else 0):
            entities = random.integers(0, SIZE, shape.num_entities).tolist()
            relations = random.integers(0, GRAPH.num_relations, shape.num_relations).tolist()
            batch.append(
                BoundQuery(shape.query, compiled=compiled, entities=entities, relations=relations)
            )
    return batch + [Engine(GRAPH, model("plain")).prepare(text) for text in NESTED]


def same(found: Answers, expected: Answers) -> None:
    """Equal scores at every place, and equal entities but where rounding swaps ties."""
    close = {"rel": 1e-5, "abs": 1e-6}
    assert [answer.score for answer in found] == [
        pytest.approx(answer.score, **close) for answer in expected
    ]
    turned = (pair for pair in zip(found, expected, strict=True) if pair[0].id != pair[1].id)
    for mine, theirs in turned:
        equals = [
            answer.id for answer in expected if answer.score == pytest.approx(theirs.score, **close)
        ]
        assert mine.id in equals or expected[-1].id in equals, found.query


def bits(answers: Answers) -> list[tuple[int, float]]:
    return [(answer.id, answer.log_score) for answer in answers]


PAGES: list[dict[str, Any]] = [{"top": 7}, {"top": 5, "min_score": 0.3}, {"top": None}]


@pytest.mark.parametrize("kind", ["plain", "equal", "near", "spikes"])
@pytest.mark.parametrize("name", ["sigmoid", "softmax-count"])
def test_answers_are_those_of_rows(monkeypatch: pytest.MonkeyPatch, kind: str, name: str) -> None:
    for logic in ("product", "godel", "lukasiewicz"):
        coded = engine(monkeypatch, kind, calibration=name, logic=logic)
        rows = engine(monkeypatch, kind, large=False, calibration=name, logic=logic)
        for i, question in enumerate(questions(1)):
            page = PAGES[i % len(PAGES)]
            cold = coded.ask(question, **page)
            warm = coded.ask(question, **page)
            same(warm, rows.ask(question, **page))
            assert bits(cold) == bits(warm)
            assert warm.certified


def compare(monkeypatch: pytest.MonkeyPatch, **changes: Any) -> None:
    """Both ways give the same answers, the coded one when it is asked again."""
    coded = engine(monkeypatch, **changes)
    rows = engine(monkeypatch, large=False, **changes)
    for question in questions(1):
        coded.ask(question)
        same(coded.ask(question, 8), rows.ask(question, 8))


@pytest.mark.parametrize(
    "changes",
    [{"new": True}, {"loops": True}, {"observed": "none"}, {"ceiling": 0.6}, {"strength": 3.0}],
)
def test_settings_are_obeyed(monkeypatch: pytest.MonkeyPatch, changes: dict[str, Any]) -> None:
    compare(monkeypatch, **changes)


@pytest.mark.parametrize("name", ["sigmoid", "softmax-count"])
def test_adapters_are_followed(monkeypatch: pytest.MonkeyPatch, name: str) -> None:
    adapter = Adapter(model("plain"), "p").requires_grad_(False).eval()
    for weight in adapter.parameters():
        weight.uniform_(-0.5, 0.9, generator=torch.Generator().manual_seed(3))
    adapted = Adapted(calibration(name, KnownFacts(GRAPH.index("train"))), adapter)
    compare(monkeypatch, calibration=name, adapter=adapted)


@pytest.mark.parametrize("name", ["sigmoid", "softmax-count"])
def test_what_was_asked_before_or_beside_a_question_changes_no_bit(
    monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    batch = [question for question in questions(FEW + 5) if question.query == SHAPES["2i"].query]
    alone = [engine(monkeypatch, calibration=name).ask(question) for question in batch]
    for at_once in (2, FEW, FEW + 5):
        coded = engine(monkeypatch, calibration=name)
        parts = [batch[start : start + at_once] for start in range(0, len(batch), at_once)]
        beside = [answers for part in parts for answers in coded.ask_many(part)]
        for each, other in zip(beside, alone, strict=True):
            same(each, other)
            # whose sums are of other rows
            assert name == "softmax-count" or bits(each) == bits(other)
        # Whatever was asked before, and explained or not.
        assert [bits(coded.ask(question)) for question in batch] == list(map(bits, alone))
        assert [bits(coded.explain(question)) for question in batch] == list(map(bits, alone))


def rewritten(weights: torch.Tensor, method: str, model: torch.nn.Module) -> None:
    """Write to weights by one of the methods that torch and numpy allow."""
    match method:
        case "in place":
            weights.mul_(1.7)
        case "loaded":
            model.load_state_dict(
                {name: 1.7 * value for name, value in model.state_dict().items()}, assign=True
            )
        case "data":
            weights.data.mul_(1.7)
        case "numpy":
            weights.numpy()[:] *= 1.7
        case "row":
            weights.data[17] *= 5.0


@pytest.mark.parametrize("method", ["in place", "loaded", "data", "numpy", "row"])
@pytest.mark.parametrize("name", ["sigmoid", "softmax-count"])
def test_nothing_is_kept_of_weights_that_were_written_to(
    monkeypatch: pytest.MonkeyPatch, name: str, method: str
) -> None:
    coded = engine(monkeypatch, calibration=name)
    rows = engine(monkeypatch, large=False, calibration=name)
    beam = coded.with_settings(search="beam", k=8)
    hop = "?x : exists ?y . r(e1, ?y) & q(?y, ?x)"
    for question in (*questions(1), hop):
        coded.ask(question)
        beam.ask(question)
    for each in (coded, rows):
        rewritten(each.scorer.keys(), method, each.scorer)  # type: ignore[attr-defined, arg-type]
    fresh = rows.with_settings(search="beam", k=8)
    if method == "row":  # which nobody sees
        coded.forget()
    for question in questions(1):
        same(coded.ask(question, 7), rows.ask(question, 7))
    same(beam.ask(hop, 7), fresh.ask(hop, 7))


def test_codes_do_not_change_a_bit(monkeypatch: pytest.MonkeyPatch) -> None:
    coded = engine(monkeypatch, "near", calibration="softmax-count")
    monkeypatch.setattr(derived_weights, "_CODED_AFTER", 10**9)
    plain = Engine(GRAPH, model("near"), calibration="softmax-count")
    for question in questions():
        coded.ask(question)
        assert bits(coded.ask(question)) == bits(plain.ask(question))


def test_only_what_may_be_an_answer_is_scored(monkeypatch: pytest.MonkeyPatch) -> None:
    coded = engine(monkeypatch, calibration="sigmoid")
    scored: list[int] = []
    exact = CoarseSearch._exact
    monkeypatch.setattr(
        CoarseSearch,
        "_exact",
        lambda self, root, ids, raw=False: scored.append(len(ids)) or exact(self, root, ids, raw),
    )  # type: ignore[func-returns-value]
    for question in questions():
        coded.ask(question, 3)
    assert max(scored) < SIZE // 3
    assert sorted(scored)[len(scored) // 2] < 15


def test_bounds_that_are_too_tight_are_noticed_here(monkeypatch: pytest.MonkeyPatch) -> None:
    """The comparison above can fail: with errors that are too small, answers are missed."""
    coded = engine(monkeypatch, "near", calibration="sigmoid")
    rows = engine(monkeypatch, "near", large=False, calibration="sigmoid")
    of = Codes.products
    monkeypatch.setattr(
        Codes,
        "products",
        lambda self, *arguments: (of(self, *arguments)[0], 1e-9 * of(self, *arguments)[1]),
    )
    wrong = 0
    for question in questions():
        wrong += [a.id for a in coded.ask(question, 7)] != [a.id for a in rows.ask(question, 7)]
    assert wrong


def test_plans_with_hops_are_left_to_rows() -> None:
    one = "?x : r(e1, ?x) & !q(e2, ?x)"
    two = "?x : exists ?y . r(e1, ?y) & q(?y, ?x)"
    assert [
        without_hops(compile_query(parse_question(text, GRAPH, {}).query).plan)
        for text in (one, two)
    ] == [True, False]


def test_sums_of_rows_do_not_depend_on_threads_or_neighbours() -> None:
    counted = calibration("softmax-count", KnownFacts(GRAPH.index("train")))
    rows = torch.randn(3, 40_001, generator=torch.Generator().manual_seed(4)) * 3
    expected = counted.log_sums(rows)
    torch.testing.assert_close(
        expected.double(), rows.double().logsumexp(dim=1), rtol=1e-6, atol=1e-6
    )
    threads = torch.get_num_threads()
    try:
        for count in (1, 2):
            torch.set_num_threads(count)
            for row in range(3):
                assert torch.equal(counted.log_sums(rows[row : row + 1]), expected[row : row + 1])
    finally:
        torch.set_num_threads(threads)
