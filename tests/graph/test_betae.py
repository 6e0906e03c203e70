"""BetaE folders."""

from __future__ import annotations

import pickle
from pathlib import Path

import numpy as np
import pytest

from tacit.errors import DataError
from tacit.graph.datasets import load
from tacit.graph.formats.betae import write_betae
from tacit.graph.graph import Graph

ENTITIES = {0: "Oslo", 1: "Norway", 2: "Sweden"}
RELATIONS = {0: "+in", 1: "-in", 2: "+near", 3: "-near"}


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A folder as BetaE ships them: each line followed by its inverse."""
    (tmp_path / "id2ent.pkl").write_bytes(pickle.dumps(ENTITIES))
    (tmp_path / "id2rel.pkl").write_bytes(pickle.dumps(RELATIONS))
    (tmp_path / "stats.txt").write_text("numentity: 3\nnumrelations: 4\n")
    (tmp_path / "train.txt").write_text("0\t0\t1\n1\t1\t0\n1\t2\t2\n2\t3\t1\n")
    (tmp_path / "valid.txt").write_text("2\t2\t1\n1\t3\t2\n")
    (tmp_path / "test.txt").write_text("0\t2\t2\n2\t3\t0\n")
    return tmp_path


def test_ids_and_labels_stay_as_they_are(folder: Path) -> None:
    graph = load(folder, name="nordic")
    assert graph.name == "nordic"
    assert graph.entities.labels == ["Oslo", "Norway", "Sweden"]
    assert graph.relations.labels == ["+in", "-in", "+near", "-near"]
    assert graph.train.tolist() == [[0, 0, 1], [1, 2, 2]]
    assert graph.valid.tolist() == [[2, 2, 1]]
    assert graph.test.tolist() == [[0, 2, 2]]
    assert graph.notes == ()


def test_a_forward_label_that_is_an_inverse_is_joined_as_one(folder: Path) -> None:
    (folder / "id2rel.pkl").write_bytes(
        pickle.dumps({0: "in^-1", 1: "in", 2: "near", 3: "near^-1"})
    )
    graph = load([folder, Graph.of([("Bergen", "in", "Norway")])])
    assert graph.relations.labels == ["in", "in^-1", "near", "near^-1"]
    assert {
        (graph.entities[h], graph.entities[t]) for h, r, t in graph.train.tolist() if r == 0
    } == {
        ("Norway", "Oslo"),
        ("Bergen", "Norway"),
    }


def test_the_order_of_directions_does_not_matter(folder: Path) -> None:
    (folder / "train.txt").write_text("2\t3\t1\n1\t1\t0\n1\t2\t2\n0\t0\t1\n")
    assert load(folder).train.tolist() == [[1, 2, 2], [0, 0, 1]]


def test_stats_may_be_missing(folder: Path) -> None:
    (folder / "stats.txt").unlink()
    assert load(folder).num_entities == 3


@pytest.mark.parametrize(
    ("file", "content", "message"),
    [
        (
            "train.txt",
            "0\t0\t1\n1\t1\t0\n0\t0\t3\n3\t1\t0\n",
            "train.txt, line 3: expected ids of 3 ent",
        ),
        (
            "train.txt",
            "0\t0\t1\n1\t1\t0\n0\t4\t1\n1\t5\t0\n",
            "train.txt, line 3: expected ids of 3 entities and 4",
        ),
        ("train.txt", "0\t0\t-1\n-1\t1\t0\n", "train.txt, line 1: expected ids"),
        ("train.txt", "0\t0\t1\n\n1\tone\t0\n", "train.txt, line 3: expected ids.*1 one 0"),
        ("train.txt", "0\t0\t99999999999999999999\n", "train.txt, line 1: expected ids"),
        (
            "train.txt",
            "0\t0\t1\n1\t1\t0\n1\t2\t2\n",
            "train.txt, line 3: this triple's inverse .* not in the file",
        ),
        ("train.txt", "0\t0\t1\n1\t1\t0\n1\t3\t2\n", "train.txt, line 3: this triple's inverse"),
        ("valid.txt", "0 0 1\n1 1 0\n", "valid.txt, line 1: has 1 column"),
        ("train.txt", "", "train.txt: holds no facts"),
        (
            "stats.txt",
            f"numentity: {'9' * 5000}\n",
            r"stats.txt, line 1: says numentity 9{20}, but the id map has 3",
        ),
        (
            "stats.txt",
            "numentity: 3\nnumrelations: 6\n",
            "stats.txt, line 2: says numrelations 6, but the id map has 4",
        ),
    ],
)
def test_bad_text_files_name_the_file_and_the_line(
    folder: Path, file: str, content: str, message: str
) -> None:
    (folder / file).write_text(content)
    with pytest.raises(DataError, match=message):
        load(folder)


@pytest.mark.parametrize(
    ("file", "content", "message"),
    [
        ("id2ent.pkl", ["Oslo"], "id2ent.pkl: expected a dict from entity ids to labels"),
        (
            "id2ent.pkl",
            {0: "Oslo", 2: "Norway"},
            "id2ent.pkl: has no label for entity 1; expected the ids 0 to 1",
        ),
        ("id2ent.pkl", {0: "Oslo", 1: "Oslo"}, "id2ent.pkl: entity label 'Oslo' occurs twice"),
        (
            "id2ent.pkl",
            {0: "\ud800", 1: "Norway"},
            "id2ent.pkl: has a label that is not Unicode text",
        ),
        (
            "id2ent.pkl",
            {0: 10**400, float("nan"): "Norway"},
            "id2ent.pkl: has no label for entity 0",
        ),
        ("id2rel.pkl", {0: 7, 1: 8}, "id2rel.pkl: has no label for relation 0"),
        ("id2rel.pkl", {0: "in"}, "id2rel.pkl: has 1 relations; expected an even number"),
    ],
)
def test_bad_id_maps_are_named(folder: Path, file: str, content: object, message: str) -> None:
    (folder / file).write_bytes(pickle.dumps(content))
    with pytest.raises(DataError, match=message):
        load(folder)


@pytest.mark.parametrize("file", ["train.txt", "valid.txt", "test.txt", "id2ent.pkl", "id2rel.pkl"])
def test_a_missing_file_is_named(folder: Path, file: str) -> None:
    (folder / file).unlink()
    with pytest.raises(DataError, match=file):
        load(folder)


def test_written_folders_read_back_exactly(folder: Path, tmp_path: Path) -> None:
    graph = load(folder)
    write_betae(graph, tmp_path / "again")
    for file in ("train.txt", "valid.txt", "test.txt", "stats.txt"):
        assert (tmp_path / "again" / file).read_text() == (folder / file).read_text()
    again = load(tmp_path / "again")
    assert again.entities == graph.entities
    assert again.relations == graph.relations
    assert all(
        np.array_equal(again.split(part), graph.split(part)) for part in ("train", "valid", "test")
    )
    assert pickle.loads((tmp_path / "again" / "rel2id.pkl").read_bytes()) == {
        v: k for k, v in RELATIONS.items()
    }


def test_writing_leaves_other_files_of_the_folder_alone(folder: Path) -> None:
    (folder / "train-queries.pkl").write_bytes(b"queries")
    write_betae(Graph.of([("a", "r", "b")]), folder)
    assert (folder / "train-queries.pkl").read_bytes() == b"queries"
    assert (folder / "train.txt").read_text() == "0\t0\t1\n1\t1\t0\n"
    assert not [p for p in folder.parent.iterdir() if p.name.startswith(f".{folder.name}.")]
