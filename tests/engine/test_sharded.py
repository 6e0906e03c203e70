"""Answers over 2 and 3 processes that share the entities, beside those of one."""

from __future__ import annotations

import json
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from functools import cache
from pathlib import Path
from threading import Barrier
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import Phase, given, seed, settings
from hypothesis import strategies as st
from torch import Tensor

from formulas import ENTITIES, RELATIONS, queries
from odd_values import Numbers, OddPredictor
from rank_processes import on_ranks
from shards import counted_bytes
from tacit.distributed.shards import Shards
from tacit.engine.engine import Engine
from tacit.engine.logic import gather_columns
from tacit.engine.ranking import hard_ranks
from tacit.engine.search.hop import Hop
from tacit.engine.top_k import TopKRequest, TopKResult, best_answers
from tacit.graph.graph import Graph, directed
from tacit.graph.labels.vocabulary import Vocabulary
from tacit.links.factors import FactorModel
from tacit.links.models import make_model
from tacit.links.ranking import TIES
from tacit.query.formula import Query
from tacit.query.plans.compile import compile_query
from tacit.query.sampling.sampling import sample
from tacit.query.sampling.shapes import SHAPES

SIZE = 23  # divided by neither 2 nor 3
SEARCHES: tuple[dict[str, Any], ...] = (
    {"search": "beam", "k": 4, "calibration": "sigmoid"},
    {"search": "beam", "k": 4, "calibration": "softmax-count", "logic": "godel"},
    {"search": "beam", "k": 3, "calibration": "minmax", "logic": "lukasiewicz", "typed": True},
    {"search": "exact", "calibration": "softmax-count", "observed": "none"},
    {
        "search": "exact",
        "calibration": "sigmoid",
        "logic": "lukasiewicz",
        "negation": "cosine",
        "loops": True,
    },
    {"search": "exact", "preset": "fit", "ceiling": 0.9},
    {"search": "symbolic"},
)
CONTINUOUS: dict[str, Any] = {"search": "continuous", "calibration": "sigmoid", "steps": 5}
QUESTIONS = (
    "?t : r(e0, ?t)",
    "?t : exists ?x . r(e0, ?x) & q(?x, ?t)",
    "?t : exists ?x ?y . r(e1, ?x) & q(?x, ?y) & p(?y, ?t) & not r(e2, ?t)",
    "?t : exists ?x ?y . r(?x, ?y) & q(?y, ?t) & p(?x, ?t)",
    "?t : p(e0, ?t) | (exists ?x . q(?x, ?x) & r(?x, ?t))",
    "?t : r(e0, ?t) & size(?t) > 2",
    "?t : exists ?x . r(e0, ?x) & age(?x) < 3 & q(?x, ?t) & size(?x) > size(?t)",
)


@cache
def graph(size: int = SIZE) -> Graph:
    """So many facts that every hop has more known tails, all equal, than a small beam keeps."""
    random = np.random.default_rng(3)
    facts = np.unique(random.integers(0, [size, len(RELATIONS), size], (10 * size, 3)), axis=0) * [
        1,
        2,
        1,
    ]
    labels = Vocabulary(f"e{i}" for i in range(size))
    known = Graph(labels, directed(RELATIONS), facts.astype(np.int32), name="ties")
    return replace(known, attributes=Numbers(size, 3).attributes)


def few_facts(size: int) -> Graph:
    """Many entities, of which hardly anything is known."""
    labels = Vocabulary(f"e{i}" for i in range(size))
    return Graph(labels, directed(RELATIONS), graph().train, name="few")


def model(kind: str, shards: Shards, rank: int = 4) -> FactorModel:
    """Small integer weights: products are exact for any block size, and many are equal."""
    made = make_model(kind, shards.total, 2 * len(RELATIONS), rank, shards=shards)
    random = torch.Generator().manual_seed(5)
    for name, table in sorted(made.named_children()):
        rows = 2 * len(RELATIONS) if name == "relations" else shards.total
        width: Any = table.width
        weight: Any = table.weight
        drawn = torch.randint(-1, 2, (rows, width), generator=random).float()
        weight.data.copy_(drawn if name == "relations" else drawn[shards.start : shards.stop])
    return made.requires_grad_(False).eval()


def make_engine(shards: Shards, kind: str = "complex", **changes: Any) -> Engine:
    known = graph(shards.total)
    return Engine(known, model(kind, shards), values=OddPredictor(shards.total), **changes)


@cache
def random_queries() -> list[Query]:
    """Formulas with any nesting, cycles and negations among them."""
    drawn: list[Query] = []

    @seed(1)
    @settings(max_examples=12, database=None, phases=[Phase.generate], deadline=None)
    @given(queries())
    def draw(query: Query) -> None:
        drawn.append(query)

    draw()
    return drawn


@torch.no_grad()
def all_scores(shards: Shards, formulas: list[Query]) -> list[Tensor]:
    """Scores `[B, N]` of every formula by every search, and of shapes by every second one."""
    found = []
    random = np.random.default_rng(11)
    for number, changes in enumerate(SEARCHES):
        engine = make_engine(shards, ("complex", "cp", "transe")[number % 3], **changes)
        for shape in list(SHAPES.values())[number % 2 :: 2]:
            entities = torch.from_numpy(random.integers(0, SIZE, (6, shape.plan.num_entities)))
            relations = torch.from_numpy(
                random.integers(0, 2 * len(RELATIONS), (6, shape.plan.num_relations))
            )
            scores = engine.reasoner.scores(shape.plan, entities, relations)
            found.append(gather_columns(engine.reasoner.shards, scores))
        for query in formulas if changes["search"] != "symbolic" else ():
            prepared = compile_query(query, safe=False)
            entities = (
                torch.tensor([[ENTITIES.index(name) for name in prepared.entities]])
                .long()
                .view(1, -1)
            )
            relations = (
                torch.tensor([[2 * RELATIONS.index(name) for name in prepared.relations]])
                .long()
                .view(1, -1)
            )
            found.append(
                gather_columns(
                    engine.reasoner.shards,
                    engine.reasoner.scores(prepared.plan, entities, relations),
                )
            )
    return found


def all_answers(shards: Shards) -> list[Any]:
    """Answers with their reasons and certificates, as plain data."""
    found = []
    new = {**SEARCHES[1], "new": True}
    ways = (
        (SEARCHES[1], QUESTIONS),
        (new, QUESTIONS[:3]),
        (SEARCHES[3], QUESTIONS[1:2]),
        (CONTINUOUS, QUESTIONS[1:2]),
    )
    for changes, some in ways:
        engine = make_engine(shards, **changes)
        found += [answers.to_dict() for answers in engine.ask_many(some, 2, explain=True, paths=2)]
        found += [answers.to_dict() for answers in engine.ask_many(some, 40)]
    return found


def all_ranks(shards: Shards) -> Tensor:
    """The ranks of hard answers, for every policy of ties."""
    drawn = sample(graph(), SHAPES["2i"], "train", 5).queries
    first = make_engine(shards, **SEARCHES[1], observed="none").reasoner
    last = make_engine(shards, **SEARCHES[1], new=True).reasoner
    return torch.stack(
        [hard_ranks(reasoner, drawn, ties) for reasoner in (first, last) for ties in TIES]
    )


@dataclass(frozen=True)
class Everything:
    """Return the results of one process."""

    scores: list[Tensor]
    answers: list[Any]
    ranks: Tensor
    bytes: dict[int, int]  # of a hop, by the number of entities


def everything(rank: int, world: int, formulas: list[Query]) -> Everything:
    shards = Shards(SIZE, rank, world)
    moved = (
        {size: hop_bytes(Shards(size, rank, world)) for size in (1_000, 50_000)}
        if world > 1
        else {}
    )
    return Everything(all_scores(shards, formulas), all_answers(shards), all_ranks(shards), moved)


K = 64
RANK = 32


@torch.no_grad()
def hop_bytes(shards: Shards) -> int:
    """The bytes that one hop moves between processes."""
    engine = Engine(few_facts(shards.total), model("complex", shards, RANK), k=K)
    hop = Hop(engine.atoms, engine.logic, K, 2**28)
    source = torch.rand(1, shards.size).log()
    with counted_bytes() as sizes:
        hop.over(source, torch.tensor([0]))
    return sum(sizes)


@torch.no_grad()
def ties_at_the_cut() -> int:
    """How many rows of single atoms have equal values on both sides of a beam's cut."""
    atoms = make_engine(Shards(SIZE), **SEARCHES[1]).atoms
    k = SEARCHES[1]["k"]
    rows = torch.cat(
        [atoms.rows(torch.arange(SIZE), torch.full((SIZE,), r)) for r in range(2 * len(RELATIONS))]
    )
    values = rows.sort(dim=1, descending=True).values
    return int((values[:, k - 1] == values[:, k]).sum())


@pytest.fixture(scope="module")
def alone() -> Everything:
    return everything(0, 1, random_queries())


def test_processes_that_share_the_entities_answer_as_one_does(
    alone: Everything, tmp_path: Path
) -> None:
    world = 3  # shares of different sizes
    assert ties_at_the_cut() > 10
    found = on_ranks(world, tmp_path, everything, random_queries(), timeout=60.0)
    for mine in found:
        for scores, expected in zip(mine.scores, alone.scores, strict=True):
            torch.testing.assert_close(scores, expected, rtol=1e-5, atol=1e-6)
        assert_same(mine.answers, alone.answers)
        assert mine.ranks.tolist() == alone.ranks.tolist()
        assert mine.bytes[1_000] == mine.bytes[50_000]
        assert mine.bytes[1_000] <= 1.1 * K * (4 * 2 * RANK + 12 * world)
    assert json.dumps(found[0].answers) == json.dumps(found[-1].answers)  # to the last digit


def assert_same(got: Any, expected: Any) -> None:
    """Plain data is the same, numbers to six digits."""
    if isinstance(expected, dict):
        # vectors of all entities, which analogies compare, are in no process
        expected = {name: each for name, each in expected.items() if name != "analogies"}
        assert got.keys() == expected.keys()
        for name in expected:
            assert_same(got[name], expected[name])
    elif isinstance(expected, list):
        assert len(got) == len(expected)
        for pair in zip(got, expected, strict=True):
            assert_same(*pair)
    elif isinstance(expected, float):
        assert got == pytest.approx(expected, rel=1e-5, abs=1e-7)
    else:
        assert got == expected


class Thread(Shards):
    """A share whose processes are threads that hand each other tensors."""

    def __init__(self, total: int, rank: int, parts: list[Tensor], barrier: Barrier) -> None:
        super().__init__(total, rank, barrier.parties)
        self.parts = parts
        self.barrier = barrier

    def gathered(self, part: Tensor) -> Tensor:
        self.parts[self.rank] = part
        self.barrier.wait(20)
        every = torch.stack(self.parts)
        self.barrier.wait(20)
        return every


def listed_together(
    request: TopKRequest, world: int, columns: list[Tensor | None]
) -> list[TopKResult]:
    """The lists of several threads, each with its columns: scores, finer values, bounds."""
    parts = [torch.empty(0)] * world
    barrier = Barrier(world)

    def listed(rank: int) -> TopKResult:
        shards = Thread(SIZE, rank, parts, barrier)
        scores, finer, lower, upper = (
            x if x is None else x[shards.start : shards.stop] for x in columns
        )
        assert scores is not None
        bounds = None if lower is None or upper is None else (lower, upper)
        return best_answers(shards, request, scores, finer, bounds)

    with ThreadPoolExecutor(world) as threads:
        return list(threads.map(listed, range(world)))


@given(
    st.integers(0, 2**32 - 1), st.sampled_from([2, 3]), st.integers(0, 9), st.integers(0, 16),
    st.booleans(), st.booleans(), st.sampled_from([0.0, 0.05, 0.2]),
    st.sampled_from([0.0, 0.3, 0.9]),
)  # fmt: skip
@settings(max_examples=300, deadline=None)
def test_lists_and_certificates_are_those_of_all_entities(
    number: int,
    world: int,
    count: int,
    known: int,
    finer: bool,
    bounded: bool,
    loose: float,
    without: float,
) -> None:
    """Few distinct values, so that most of them tie, and some entities without any."""
    random = np.random.default_rng(number)

    def values() -> Tensor:
        drawn = -torch.from_numpy(random.integers(1, 5, SIZE)).float()
        return drawn.masked_fill(torch.from_numpy(random.random(SIZE) < without), -torch.inf)

    scores = values()
    upper = scores + 2.5 * torch.from_numpy(random.random(SIZE) < loose).float()
    some = sorted(random.permutation(SIZE)[:known].tolist())
    request = TopKRequest(count, some, -2.5) if number % 3 else TopKRequest(count, without=some)
    given_bounds = (scores, upper) if bounded else None
    order = values() if finer else None
    expected = request.best(scores, order, given_bounds)
    columns = [scores, order, *(given_bounds or (None, None))]
    assert listed_together(request, world, columns) == [expected] * world
