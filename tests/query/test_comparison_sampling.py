"""Sampled questions with comparisons: their easy and hard answers, by brute force."""

from __future__ import annotations

import operator
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

import tacit
from tacit.errors import SettingsError
from tacit.graph.graph import Graph
from tacit.query.plans.plan import Relation, walk
from tacit.query.sampling.queries import GRAPHS, with_answers
from value_graphs import places

SHAPES = ("2ia", "pa", "ina")


@pytest.fixture(scope="module")
def graph() -> Graph:
    """Towns with values and facts in all splits."""
    whole = places(150, shares=(0.5, 0.2, 0.2))
    facts = whole.train[np.random.default_rng(0).permutation(len(whole.train))]
    train, valid, test = np.split(facts, [len(facts) * 7 // 10, len(facts) * 85 // 100])
    return replace(whole, train=train, valid=valid, test=test)


def by_hand(
    graph: Graph, splits: tuple[str, ...], name: str, entity: int, relations: list[int]
) -> set[int]:
    """The answers of a shape by definition, with the facts and values of some splits alone."""
    if not splits:
        return set()
    shape, attribute, sign, number = name.split()
    compare = {">": operator.gt, "<=": operator.le}[sign]
    column = graph.attributes.column(graph.attributes.names.id(attribute), *splits)
    fitting = {
        e
        for e, v in zip(*(part.tolist() for part in column), strict=True)
        if compare(v, float(number))
    }
    facts = graph.triples(*splits).tolist()
    ends = {entity}
    for relation in relations:
        ends = {tail for head, along, tail in facts if along == relation and head in ends}
    return ends - fitting if shape == "ina" else ends & fitting


@pytest.mark.parametrize("split", ["train", "valid", "test"])
def test_easy_and_hard_answers_are_those_of_their_graphs(graph: Graph, split: str) -> None:
    samples = tacit.sample(graph, shapes=",".join(SHAPES), split=split, count=24)
    drawn = set()
    for name, sample in samples.items():
        queries = sample.queries
        flips = {s.slot: s.flip for s in walk(queries.shape.plan.root) if isinstance(s, Relation)}
        for row in range(len(queries)):
            relations = [int(r) ^ flips[at] for at, r in enumerate(queries.relations[row])]
            entity = int(queries.entities[row, 0])
            smaller, larger = (by_hand(graph, s, name, entity, relations) for s in GRAPHS[split])
            found = set(queries.hard.ids[queries.hard.rows == row].tolist())
            assert found == larger - smaller != set()
            assert set(queries.easy.ids[queries.easy.rows == row].tolist()) == smaller
            drawn.add(name.split()[0])
        again = with_answers(queries, graph, split)
        assert (again.hard.ids == queries.hard.ids).all()
    assert drawn == set(SHAPES)


def test_each_attribute_is_compared_with_its_median(graph: Graph) -> None:
    samples = tacit.sample(graph, shapes="2ia", split="train", count=8)
    median = np.sort(graph.attributes.column(0, "train")[1])
    middle = float(median[len(median) // 2])
    assert [f"2ia latitude > {middle}", f"2ia latitude <= {middle}"] == list(samples)[:2]
    assert all(sample.requested == 2 for sample in samples.values())


def test_a_run_ranks_their_hard_answers(graph: Graph, tmp_path: Path) -> None:
    run = tacit.train(graph, tmp_path / "run", model="rules", progress=False)
    samples = tacit.sample(graph, shapes="2ia,2p", split="test", count=20)
    assert "2p" in samples
    queries = {name: sample.queries for name, sample in samples.items()}
    found = run.evaluate(queries).to_json()
    assert set(found["mrr"]) == set(queries)
    # without predictions an unknown value counts as false, and its entity comes last
    blind = run.evaluate(queries, search="symbolic").to_json()
    names = [name for name in queries if "latitude" in name]
    assert np.mean([found["mrr"][name] - blind["mrr"][name] for name in names]) > 0.05


def test_they_are_not_written_as_tuples(graph: Graph, tmp_path: Path) -> None:
    for options in ({"out": tmp_path / "q"}, {"missing": 2}):
        with pytest.raises(SettingsError, match="comparisons"):
            tacit.sample(graph, shapes="2ia", split="test", count=4, **options)
