"""The figures of questions with comparisons, beside scores and ranks that are counted by hand."""

from __future__ import annotations

import argparse

import numpy as np
import pytest
import torch

import tacit
import tiny
import value_questions
from tacit.engine.engine import Engine
from tacit.graph.graph import SPLITS
from tacit.query.plans.plan import Within, walk
from tacit.query.plans.symbolic import answers
from tacit.query.sampling.queries import QuerySet
from tacit.query.sampling.shapes import SHAPES


@pytest.fixture(scope="module")
def engines(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Engine]:
    data = tiny.write_data(tmp_path_factory.mktemp("data"))
    scratch = tmp_path_factory.mktemp("runs")
    args = argparse.Namespace(tiny=True, data=data, scratch=scratch, seed=0)
    return value_questions.engines_of(args, "FB15k-237")


def drawn(engines: dict[str, Engine], shape: str) -> list[QuerySet]:
    graph = engines["predicted"].graph
    samples = tacit.sample(graph, shapes=shape, split="test", count=6)
    return [each.queries for each in samples.values() if len(each.queries)]


def by_hand(engine: Engine, queries: QuerySet, compared: bool) -> list[float]:
    """The reciprocal rank of each question, from the scores of a single atom."""
    step = next(step for step in walk(queries.shape.plan.root) if isinstance(step, Within))
    size = engine.graph.num_entities
    values = {split: dict[int, float]() for split in SPLITS}
    for row in engine.graph.attributes.rows:
        values[SPLITS[row["split"]]][int(row["entity"])] = float(row["value"])
    chances = np.zeros(size)
    if engine.parts.values is not None:
        chances = engine.parts.values.probability(0, step.low, step.high).numpy().astype(float)
    for entity, value in values["train"].items():
        chances[entity] = step.low <= value <= step.high
    if queries.shape.name.startswith("ina"):
        chances = 1 - chances
    found = []
    for number in range(len(queries)):
        ids = queries.entities[number, None], queries.relations[number, None]
        slots = (torch.from_numpy(each).long() for each in ids)
        scores = engine.reasoner.scores(SHAPES["1p"].plan, *slots)[0].exp().numpy().astype(float)
        if compared:
            scores = scores * chances
        hard, easy = queries.hard[number].tolist(), queries.easy[number].tolist()
        others = np.setdiff1d(np.arange(size), [*hard, *easy])
        ranks = []
        for answer in hard:
            equal = np.isclose(scores[others], scores[answer], 1e-5, 1e-12)
            above = (scores[others] > scores[answer]) & ~equal
            ranks.append(1 + above.sum() + equal.sum() / 2)
        found.append(float(np.mean(1 / np.array(ranks))))
    return found


@pytest.mark.parametrize("shape", ["2ia", "ina"])
def test_ranks_are_those_of_products_of_scores(engines: dict[str, Engine], shape: str) -> None:
    sets = drawn(engines, shape)
    row = value_questions.ranked(engines, sets)
    assert row["questions"] == sum(map(len, sets)) > 2
    for name, engine in engines.items():
        expected = [rank for queries in sets for rank in by_hand(engine, queries, True)]
        assert row[name] == pytest.approx(np.mean(expected), rel=1e-4)
    bare = [r for queries in sets for r in by_hand(engines["predicted"], queries, False)]
    assert row["without"] == pytest.approx(np.mean(bare), rel=1e-4)


def test_the_other_atom_is_a_fact_of_the_first_hard_answer(engines: dict[str, Engine]) -> None:
    graph = engines["predicted"].graph
    index = graph.index(*SPLITS)
    for queries in drawn(engines, "2ia"):
        other = value_questions.with_atom(graph, queries, np.random.default_rng(0))
        assert other.relations.shape == (len(queries), 2)
        slots = other.entities, other.relations
        found = answers(other.shape.plan, *slots, index, graph.num_entities)
        for number in range(len(queries)):
            assert queries.hard[number][0] in found[number]
