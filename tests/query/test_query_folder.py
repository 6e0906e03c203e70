"""Query folders: carried over to the ids of a graph by label, or refused."""

from __future__ import annotations

import random
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from tacit.errors import DataError
from tacit.evaluate.evaluation import hardness
from tacit.graph.formats.betae import write_betae
from tacit.graph.graph import Graph
from tacit.query.sampling.queries import QuerySet, with_answers, write_queries
from tacit.query.sampling.query_folder import queries_for, sample

FACTS = [
    (f"e{i}", relation, f"e{(i * step + 1) % 24}")
    for i in range(24)
    for relation, step in (("r", 2), ("s", 5))
]
TRAIN = FACTS[:36]
VALID = FACTS[36:42]
TEST = FACTS[42:]
GRAPH = Graph.of(TRAIN, VALID, TEST, "ring")


def shuffled(seed: int = 1) -> Graph:
    """The same graph with its facts in another order, so that every id is another."""
    parts = [random.Random(seed).sample(part, len(part)) for part in (TRAIN, VALID, TEST)]
    return Graph.of(parts[0][::-1], parts[1], parts[2], "ring")


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    sample(
        GRAPH, tmp_path / "queries", shapes="1p,2p,2i,2in,up-DM", split="test", count=10, waste=0.99
    )
    return tmp_path / "queries"


def spelled(queries: QuerySet, graph: Graph) -> set[tuple[tuple[str, ...], ...]]:
    """Each query as the labels of its entities, relations, easy and hard answers."""
    sides = zip(
        queries.entities,
        queries.relations,
        queries.easy.to_sets(),
        queries.hard.to_sets(),
        strict=True,
    )
    return {
        (
            tuple(graph.entities[i] for i in entities),
            tuple(graph.relations[i] for i in relations),
            tuple(sorted(graph.entities[i] for i in easy)),
            tuple(sorted(graph.entities[i] for i in hard)),
        )
        for entities, relations, easy, hard in sides
    }


def test_queries_are_carried_over_by_label(folder: Path) -> None:
    other = shuffled()
    assert other.entities != GRAPH.entities
    assert other.relations != GRAPH.relations or other.entities[0] != GRAPH.entities[0]
    names = ("1p", "2p", "2i", "2in", "up-DM")
    mine, theirs = (queries_for(graph, folder, "test", names) for graph in (GRAPH, other))
    for name in names:
        assert spelled(mine[name], GRAPH) == spelled(theirs[name], other)
        exact = with_answers(theirs[name], other, "test")
        assert exact.hard.to_sets() == theirs[name].hard.to_sets()
        assert exact.easy.to_sets() == theirs[name].easy.to_sets()


def test_unions_in_de_morgans_form_are_asked_for_by_name(folder: Path) -> None:
    assert list(queries_for(GRAPH, folder, "test")) == ["1p", "2p", "2i", "2in"]
    assert list(queries_for(GRAPH, folder, "test", "up-DM")) == ["up-DM"]


def test_queries_of_another_graph_are_refused(folder: Path) -> None:
    other = Graph.of([("e1", "r", "e2"), ("e2", "s", "e3")])
    with pytest.raises(DataError, match=r"made of other facts|they are of another graph"):
        queries_for(other, folder, "test")
    for part in ("train", "valid", "test"):
        (folder / f"{part}.txt").unlink()
    with pytest.raises(
        DataError, match=r"queries name .* that the graph does not have; they are of another graph"
    ):
        queries_for(other, folder, "test")


def test_queries_of_other_facts_are_refused(folder: Path) -> None:
    leaking = replace(GRAPH, train=GRAPH.facts("train", "test"))
    with pytest.raises(
        DataError, match="made of other facts than ring has: 6 facts of train in one and not"
    ):
        queries_for(leaking, folder, "test")
    # has learned from the same facts
    tested = replace(GRAPH, valid=GRAPH.valid[:0], test=GRAPH.test[:0])
    assert len(queries_for(tested, folder, "test")["1p"]) == 10


def test_ids_without_labels_are_taken_for_the_very_graph_alone(
    folder: Path, tmp_path: Path
) -> None:
    for name in ("id2ent.pkl", "id2rel.pkl"):
        (folder / name).unlink()
    assert len(queries_for(GRAPH, folder, "test")["1p"]) == 10
    with pytest.raises(DataError, match=r"has no id2ent\.pkl and id2rel\.pkl, and does not say"):
        queries_for(shuffled(), folder, "test")
    bare = sample(GRAPH, shapes="1p", split="test", count=10, waste=0.99)["1p"].queries
    write_queries(tmp_path / "bare", "test", [bare])
    with pytest.raises(DataError, match=r"has no id2ent\.pkl and id2rel\.pkl, and does not say"):
        queries_for(GRAPH, tmp_path / "bare", "test")


def test_a_plain_betae_folder_needs_no_fingerprint(folder: Path) -> None:
    (folder / "test-sample.json").unlink()
    assert len(queries_for(shuffled(), folder, "test")["2i"]) == 10


def test_an_id_beyond_the_labels_is_refused(tmp_path: Path) -> None:
    queries = sample(GRAPH, shapes="1p", split="test", count=4, waste=0.99)["1p"].queries
    write_betae(Graph.of(TRAIN[:2]), tmp_path / "small")
    (tmp_path / "small" / "stats.txt").unlink()
    for part in ("train", "valid", "test"):
        (tmp_path / "small" / f"{part}.txt").unlink()
    write_queries(
        tmp_path / "small", "test", [replace(queries, entities=np.full_like(queries.entities, 99))]
    )
    with pytest.raises(DataError, match="1p queries name entity 99, but its labels end at"):
        queries_for(GRAPH, tmp_path / "small", "test")


def test_answers_that_a_folder_lacks_are_found_in_the_graph(tmp_path: Path) -> None:
    samples = sample(GRAPH, tmp_path / "q", shapes="2i", count=10, waste=0.99)
    (tmp_path / "q" / "train-answers.pkl").unlink()
    other = shuffled()
    assert spelled(queries_for(other, tmp_path / "q", "train")["2i"], other) == spelled(
        samples["2i"].queries, GRAPH
    )


def test_query_sets_whose_ids_are_those_of_another_graph_are_refused(folder: Path) -> None:
    """The other graph has as many entities and relations, so that every id exists here."""
    drawn = {
        name: each.queries
        for name, each in sample(GRAPH, shapes="1p,2p", count=10, waste=0.99).items()
    }
    for sets in (drawn, queries_for(GRAPH, folder, "test", "1p,2p")):
        assert hardness(GRAPH, sets)
        with pytest.raises(
            DataError,
            match="the 1p queries are of another graph, whose ids mean other things in ring",
        ):
            hardness(shuffled(), sets)
    # labels that were appended change no id
    more = Graph.of(TRAIN, VALID, [*TEST, ("e0", "t", "f0")])
    assert hardness(more, drawn)
