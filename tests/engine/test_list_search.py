"""Search over lists equals exact search where proven, and its bounds hold elsewhere."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor

from tacit.engine.atoms.atoms import Atoms
from tacit.engine.engine import Engine
from tacit.engine.search import list_search as module
from tacit.engine.search.list_search import Lists
from tacit.engine.search.row_lists import Listing, RowLists
from tacit.graph.graph import Graph, directed
from tacit.graph.labels.vocabulary import Vocabulary
from tacit.links.codes import Codes
from tacit.links.models import ComplEx
from tacit.links.retrievers import CodeRetriever, ScanRetriever, TopK, TopKRetriever
from tacit.query.plans.traits import listable
from tacit.query.sampling.shapes import SHAPES, Shape

N = 150
R = 3
TOP = 5
LISTED = ("1p", "2p", "3p", "2i", "3i", "pi", "ip", "2u", "up", "2in", "3in", "inp", "pin")


def graph() -> Graph:
    random = np.random.default_rng(0)
    facts = np.stack(
        [
            random.integers(N, size=200),
            2 * random.integers(R, size=200),
            random.integers(N, size=200),
        ],
        1,
    ).astype(np.int32)
    return Graph(
        Vocabulary(f"e{i}" for i in range(N)),
        directed(f"r{i}" for i in range(R)),
        facts,
        name="random",
    )


def scorer(scale: float = 1.6) -> ComplEx:
    model = ComplEx(N, 2 * R, 4).requires_grad_(False)
    model.reset(scale, torch.Generator().manual_seed(1))
    return model


def make_engine(**settings: object) -> Engine:
    return Engine(graph(), scorer(), search="exact", **settings)  # type: ignore[arg-type]


def loopless(atoms: Atoms) -> Tensor:
    assert atoms.possible is not None
    return atoms.possible.without_loops


@pytest.fixture
def short_lists(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let lists end, grow and be cut even over few entities."""
    for name, value in (("_LISTED", 6), ("_FIRST", 1), ("_CANDIDATES", 3)):
        monkeypatch.setattr(module, name, value)


def queries(shape: Shape, count: int = 6) -> list[tuple[list[int], list[int]]]:
    random = np.random.default_rng(2)
    slots = [
        (
            random.integers(N, size=shape.num_entities),
            random.integers(2 * R, size=shape.num_relations),
        )
        for _ in range(count)
    ]
    return [(entities.tolist(), relations.tolist()) for entities, relations in slots]


def exact(engine: Engine, shape: Shape, entities: list[int], relations: list[int]) -> Tensor:
    return engine.reasoner.scores(shape.plan, torch.tensor([entities]), torch.tensor([relations]))[
        0
    ]


def check(listing: Listing, scores: Tensor, proven: bool) -> None:
    """All bounds hold; a finished search has the best answers with exact scores."""
    assert at_most(listing.low, scores[listing.ids])
    assert at_most(scores[listing.ids], listing.high)
    assert at_most(scores.index_fill(0, listing.ids, -torch.inf), torch.tensor(listing.bound))
    if proven:
        expected = scores.topk(TOP).values
        found = torch.cat([listing.low, torch.full((TOP,), -torch.inf)]).topk(TOP).values
        assert at_most(found, expected)
        assert at_most(expected, found)


def at_most(a: Tensor, b: Tensor) -> bool:
    """At most, up to rounding of log-scores, or of scores where `x + y - 1` cancels."""
    return bool(((a <= b + 2e-5 + 1e-5 * b.abs()) | (a.exp() <= b.exp() + 1e-5)).all())


@pytest.mark.usefixtures("short_lists")
@pytest.mark.parametrize("calibration", ["sigmoid", "softmax-count"])
@pytest.mark.parametrize("logic", ["product", "godel", "lukasiewicz"])
@pytest.mark.parametrize("observed", ["all", "none"])
def test_lists_find_what_exact_search_finds(logic: str, calibration: str, observed: str) -> None:
    engine = make_engine(logic=logic, calibration=calibration, observed=observed)
    retriever = ScanRetriever(engine.scorer, loopless(engine.atoms))  # type: ignore[arg-type]
    for name in LISTED:
        shape = SHAPES[name]
        assert listable(shape.plan)
        for entities, relations in queries(shape, 2):
            found = Lists(RowLists(engine.atoms, retriever), engine.logic, entities, relations, N)
            listing = found.top(shape.plan.root, TOP)
            check(
                listing, exact(engine, shape, entities, relations), proven=listing.is_decided(TOP)
            )
            assert found.rows.sure
            assert not found.rows.estimated
            if logic == "product":
                assert listing.is_decided(TOP), name


@pytest.mark.usefixtures("short_lists")
def test_a_search_cut_short_says_how_far_its_values_can_be_off() -> None:
    engine = make_engine(calibration="sigmoid", observed="none")
    retriever = ScanRetriever(engine.scorer, loopless(engine.atoms))  # type: ignore[arg-type]
    unsettled = 0  # type: ignore[arg-type]
    for name in ("2p", "3p", "ip", "pi", "up"):
        for entities, relations in queries(SHAPES[name]):
            found = Lists(RowLists(engine.atoms, retriever), engine.logic, entities, relations, 1)
            listing = found.top(SHAPES[name].plan.root, TOP)
            unsettled += not (listing.is_decided(TOP) and bool((listing.low == listing.high).all()))
            check(listing, exact(engine, SHAPES[name], entities, relations), proven=False)
    assert unsettled > 5


def test_few_rows_are_looked_up() -> None:
    engine = make_engine(calibration="softmax-count")
    for entities, relations in queries(SHAPES["2p"]):
        retriever = ScanRetriever(engine.scorer, loopless(engine.atoms))  # type: ignore[arg-type]
        found = Lists(RowLists(engine.atoms, retriever), engine.logic, entities, relations, N)
        found.top(SHAPES["2p"].plan.root, TOP)
        assert 1 + len(found.expanded) < N / 2  # the row of the anchor, and those of candidates


@dataclass
class Guessing:
    """A retriever that bounds neither the entities it has not found nor the sums of rows."""

    inner: TopKRetriever

    def top(self, heads: Tensor, relations: Tensor, m: int) -> TopK:
        top = self.inner.top(heads, relations, m)
        return TopK(top.ids, top.logits, torch.full_like(top.rest, torch.inf))

    def log_sums(self, heads: Tensor, relations: Tensor) -> tuple[Tensor, Tensor]:
        sums, exact = self.inner.log_sums(heads, relations)
        return sums, ~exact


@pytest.mark.parametrize("calibration", ["sigmoid", "softmax-count"])
def test_what_a_finder_does_not_know_is_told(calibration: str) -> None:
    engine = make_engine(calibration=calibration)
    retriever = Guessing(ScanRetriever(engine.scorer, loopless(engine.atoms)))  # type: ignore[arg-type]
    for name in ("1p", "2p", "2i"):
        entities, relations = queries(SHAPES[name], 1)[0]
        found = Lists(RowLists(engine.atoms, retriever), engine.logic, entities, relations, N)
        found.top(SHAPES[name].plan.root, TOP)
        assert not found.rows.sure
        assert found.rows.estimated == (calibration == "softmax-count")


def test_a_scan_of_codes_gives_the_same_lists() -> None:
    engine = make_engine(calibration="sigmoid")
    scorer: Any = engine.scorer
    coded = CodeRetriever(scorer, Codes.of(scorer.keys()), loopless(engine.atoms))
    for entities, relations in queries(SHAPES["2p"]):
        found = Lists(RowLists(engine.atoms, coded), engine.logic, entities, relations, N)
        listing = found.top(SHAPES["2p"].plan.root, TOP)
        check(listing, exact(engine, SHAPES["2p"], entities, relations), proven=True)
        assert found.rows.sure


def test_what_no_list_can_answer_is_told_apart() -> None:
    assert not listable(SHAPES["pni"].plan)
    assert {name for name, shape in SHAPES.items() if listable(shape.plan)} == set(LISTED)
