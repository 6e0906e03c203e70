"""What the training facts rule out, and scores that are no numbers."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from served_graphs import Untrained
from tables import FactorScorer, SparseScorer, TableScorer
from tacit.engine.atoms.calibration import CALIBRATIONS
from tacit.engine.completion import Completion
from tacit.engine.engine import Engine
from tacit.errors import RunError, TacitError
from tacit.graph.graph import Graph
from tacit.links.models import ComplEx
from tacit.query.plans.plan import Plan

# likes loops once; borders never does. Only b and c are ever bordered, only a and b border.
GRAPH = Graph.of(
    [("a", "borders", "b"), ("b", "borders", "c"), ("a", "likes", "a"), ("c", "likes", "d")],
    test=[("d", "borders", "d")],
)
SURE = 0.95


def make_engine(kind: type[TableScorer] = FactorScorer, **settings: object) -> Engine:
    """Every entity is most like itself; all other pairs are a little likely."""
    table = np.full((4, 4), 0.2) + np.arange(4) / 100
    np.fill_diagonal(table, SURE)
    return Engine(
        GRAPH, kind([table, table]), **({"calibration": "sigmoid", "observed": "none"} | settings)
    )


@pytest.mark.parametrize("kind", [TableScorer, FactorScorer, SparseScorer])
@pytest.mark.parametrize("how", sorted(CALIBRATIONS))
@pytest.mark.parametrize("search", ["beam", "exact"])
def test_a_relation_that_never_loops_predicts_no_loop(
    kind: type[TableScorer], how: str, search: str
) -> None:
    engine = make_engine(kind, calibration=how, search=search, k=2)
    assert "a" not in engine.ask("?x : borders(a, ?x)").entities
    assert "a" not in engine.ask("?x : borders(?x, a)").entities
    assert engine.ask("?x : likes(a, ?x)").entities[0] == "a"
    assert not engine.ask("?x : borders(?x, ?x)")
    assert engine.with_settings(loops=True).ask("?x : borders(a, ?x)").entities[0] == "a"
    through = engine.explain("?x : borders(a, ?y) & borders(?y, ?x)", top=4)
    assert all(
        w.variables["y"] not in ("a", answer.entity) for answer in through for w in answer.witnesses
    )


class Indifferent(Untrained):
    """An encoder that scores all entities equally for every question."""

    name = "Indifferent"
    num_entities = 4

    def check(self, plan: Plan) -> None:
        """Refuse nothing."""

    def logits(self, plan: Plan, entities: torch.Tensor, relations: torch.Tensor) -> torch.Tensor:
        """Return the logits of scores of one half."""
        return torch.zeros(len(relations), self.num_entities)


BETWEEN = ["borders(a, ?y) & borders(?y, ?x)", "borders(a, ?y) & likes(?y, ?x) & borders(b, ?x)"]
ATOMS = [
    "borders(a, ?x)", "borders(?x, a)", "likes(a, ?x)", "borders(a, ?x) & borders(?x, b)",
    "borders(d, ?x)", "borders(a, ?x) | likes(a, ?x)", "borders(a, ?x) | borders(?x, a)",
    "likes(b, ?x) & !borders(a, ?x)", "borders(a, ?x) & likes(a, ?x)", "borders(?x, ?x)",
    "likes(?x, ?x)", "(borders(a, ?x) | borders(b, ?x)) & likes(c, ?x)",
]  # fmt: skip


@pytest.mark.parametrize("observed", ["none", "all"])  # of all, d borders itself
@pytest.mark.parametrize("question", [*ATOMS, *BETWEEN])
def test_encoders_answer_no_loop_either(question: str, observed: str) -> None:
    """Exact search scores what is left, or more through a variable between."""
    exact = make_engine(search="exact", observed=observed)
    engine = Engine(
        GRAPH, exact.scorer, search="encoder", observed=observed, encoder=Indifferent().reasoner()
    )
    found = set(engine.ask(f"?x : {question}", top=None).entities)
    left = set(exact.ask(f"?x : {question}", top=None).entities)
    assert found >= left if question in BETWEEN else found == left
    assert set(engine.with_settings(loops=True).ask(f"?x : {question}", top=None).entities) == set(
        "abcd"
    )
    plan = engine.prepare(f"?x : {question}")
    slots = (torch.tensor([ids]) for ids in (plan.entities, plan.relations))
    ranking = engine.reasoner.ranking(plan.compiled.plan, *slots)[0]  # by which it is evaluated
    assert {GRAPH.entities[int(i)] for i in ranking.isfinite().nonzero()} <= found


@pytest.mark.parametrize("typed", [False, True])
def test_whole_rows_lose_loops_as_their_blocks_do(typed: bool) -> None:
    graph = Graph.of(
        [("a", "r", "b"), ("b", "r", "c"), ("c", "s", "c"), ("a", "s", "b"), ("c", "t", "a")]
    )
    model = ComplEx(graph.num_entities, graph.num_relations, 3)
    model.reset(0.7, torch.Generator().manual_seed(0))
    atoms = Engine(graph, model, typed=typed).atoms
    heads, relations = (
        ids.flatten() for ids in torch.meshgrid(torch.arange(3), torch.arange(6), indexing="ij")
    )
    with torch.no_grad():
        rows = atoms.raw.rows(heads, relations)
        for width in (1, 2, 3):
            blocks = [block.scores.clone() for block in atoms.raw.blocks(heads, relations, width)]
            assert torch.equal(torch.cat(blocks, dim=1), rows)
    assert rows.isneginf().any()
    assert rows[:, 2].isfinite().any()


def test_softmax_shares_out_what_a_loop_would_have_taken() -> None:
    """Without `a` itself, the odds of b, c and d share one: `x / (b + c + d)`."""
    odds = {name: p / (1 - p) for name, p in zip("bcd", (0.21, 0.22, 0.23), strict=True)}
    found = make_engine(calibration="softmax-count").ask("?x : borders(a, ?x)")
    assert {a.entity: a.score for a in found} == pytest.approx(
        {k: v / sum(odds.values()) for k, v in odds.items()}
    )


def test_test_facts_do_not_tell_what_is_possible() -> None:
    assert "d" not in make_engine().ask("?x : borders(d, ?x)").entities


# minmax makes nothing of the least of a row
@pytest.mark.parametrize("how", ["sigmoid", "softmax-count"])
@pytest.mark.parametrize("search", ["beam", "exact"])
def test_typed_answers_are_of_a_kind_that_the_relation_was_seen_to_hold_between(
    how: str, search: str
) -> None:
    facts = [
        ("Paris", "capital_of", "France"),
        ("Rome", "capital_of", "Italy"),
        ("Oslo", "lies_in", "Norway"),
    ]
    facts += [
        ("Paris", "lies_in", "France"),
        ("Rome", "lies_in", "Italy"),
        ("France", "borders", "Italy"),
    ]
    facts += [
        ("France", "speaks", "French"),
        ("Norway", "speaks", "Norwegian"),
        ("Italy", "borders", "France"),
    ]
    graph = Graph.of(facts)
    table = np.full((graph.num_entities, graph.num_entities), 0.3)
    engine = Engine(
        graph,
        FactorScorer([table] * 4),
        calibration=how,
        observed="none",
        typed=True,
        search=search,
        k=3,
    )
    # Oslo was never seen as a capital, nor Norway as a country with one: all that they are,
    # capitals and countries are.
    assert set(engine.ask("?x : capital_of(?x, Norway)").entities) == {"Paris", "Rome", "Oslo"}
    assert set(engine.ask("?x : capital_of(Oslo, ?x)").entities) == {"France", "Italy", "Norway"}
    # No country is spoken or lies somewhere: languages and cities border nothing.
    assert set(engine.ask("?x : borders(Norway, ?x)").entities) == {"France", "Italy"}
    assert not engine.ask("?x : borders(French, ?x)")
    assert set(engine.ask("?x : capital_of(Oslo, ?y) & speaks(?y, ?x)").entities) == {
        "French",
        "Norwegian",
    }


@pytest.mark.parametrize("value", [np.nan, np.inf, -np.inf])
def test_scores_that_are_no_numbers_are_refused(value: float) -> None:
    engine = make_engine(TableScorer)
    assert isinstance(engine.scorer, TableScorer)
    engine.scorer._logits[0, 0, 2] = value
    for question in ("?x : borders(a, ?x)", "?x : borders(a, ?y) & likes(?y, ?x)"):
        with pytest.raises(TacitError, match="not finite numbers"):
            engine.ask(question)


@pytest.mark.parametrize("value", [np.nan, np.inf])
@pytest.mark.parametrize("where", ["entities", "relations"])
def test_weights_that_are_no_numbers_are_refused(value: float, where: str) -> None:
    model = ComplEx(4, 4, 2)
    model.reset(0.1, torch.Generator().manual_seed(0))
    getattr(model, where).weight.data[1, 1] = value
    with pytest.raises(RunError, match="weights that are not finite"):
        Engine(GRAPH, model).ask("?x : borders(a, ?x)")


def test_weights_whose_products_are_no_numbers_are_refused_by_lists_and_completion_too() -> None:
    model = ComplEx(4, 4, 2).requires_grad_(False)
    model.reset(1e20, torch.Generator().manual_seed(0))
    engine = Engine(GRAPH, model, search="certified")
    for candidates in ("rows", "scan"):
        with pytest.raises(RunError, match="not numbers"):
            engine.with_settings(candidates=candidates).ask("?x : borders(a, ?x)")
    with pytest.raises(RunError, match="not numbers"):
        list(Completion(engine, min_score=0.01))
