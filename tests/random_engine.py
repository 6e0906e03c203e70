"""Engines over random graphs and scores, questions for them, and equality of lists."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest

from tables import FactorScorer
from tacit.engine.answers.answers import Answer
from tacit.engine.engine import Engine
from tacit.engine.questions import BoundQuery
from tacit.graph.graph import Graph
from tacit.query.plans.compile import compile_template
from tacit.query.sampling.shapes import SHAPES

SIZE = 24
LABELS = ("r", "q", "p")
CYCLES = (
    "?x : exists ?y, ?z . r(e1, ?y) & q(?y, ?z) & p(?z, ?x) & r(?y, ?x)",
    "?x : exists ?y . r(?x, ?y) & q(?y, ?x) & p(e1, ?y)",
    "?x : exists ?y, ?z . r(e1, ?y) & q(?y, ?z) & p(?z, ?x) & !r(?y, ?x)",
    "?x : exists ?y, ?z, ?w . r(?x, ?y) & q(?y, ?z) & p(?z, ?w) & r(?w, ?x) & q(e1, ?x)",
)
KINDS = (
    "?x, ?y : r(e1, ?x) & q(?x, ?y)",
    ": exists ?x, ?y . r(e1, ?x) & q(?x, ?y) & p(?y, e2)",
    "?x : (exists ?y . r(e1, ?y) & q(?y, ?x)) | (exists ?y . p(e2, ?y) & r(?y, ?x))",
    "?x : q(e2, ?x) & !(exists ?y . r(e1, ?y) & !p(?y, ?x))",
)


def random_engine(seed: int, ties: bool = False, **changes: Any) -> Engine:
    """An engine over random facts and scores; `ties` leaves only a few values of scores."""
    random = np.random.default_rng(seed)
    tables = [1 / (1 + np.exp(4 - 3 * random.normal(size=(SIZE, SIZE)))) for _ in LABELS]
    tables = [(4 * table).round().clip(0.2, 3.8) / 4 for table in tables] if ties else tables
    facts = np.unique(random.integers(0, [SIZE, len(LABELS), SIZE], (60, 3)), axis=0)
    graph = Graph.of([(f"e{s}", LABELS[r], f"e{t}") for s, r, t in facts])
    size = graph.num_entities  # some may be in no fact
    return Engine(graph, FactorScorer([table[:size, :size] for table in tables]), **changes)


def questions(engine: Engine, seed: int, count: int = 1) -> list[BoundQuery]:
    """Questions of all 14 shapes about random entities and relations."""
    random = np.random.default_rng(seed)
    batch = []
    for shape in SHAPES.values():
        compiled = compile_template(shape.query)
        for _ in range(count):
            entities = random.integers(0, engine.graph.num_entities, shape.num_entities).tolist()
            relations = random.integers(0, engine.graph.num_relations, shape.num_relations).tolist()
            batch.append(
                BoundQuery(shape.query, compiled=compiled, entities=entities, relations=relations)
            )
    return batch


def same(found: Sequence[Answer], exact: Sequence[Answer]) -> None:
    """Both lists hold the same entities in the same order, with the same scores."""
    assert [answer.id for answer in found] == [answer.id for answer in exact], found
    assert [answer.known for answer in found] == [answer.known for answer in exact]
    assert [answer.score for answer in found] == pytest.approx(
        [answer.score for answer in exact], abs=1e-6
    )
