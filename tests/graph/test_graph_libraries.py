"""Graphs of networkx, PyTorch Geometric and PyKEEN, as those libraries read them themselves."""

from __future__ import annotations

import io
import random
import sys
import warnings
from collections import Counter
from datetime import date, timedelta
from decimal import Decimal
from pathlib import Path
from typing import Any

import networkx as nx
import numpy as np
import pykeen.datasets as pykeen_datasets
import pytest
import torch
from pykeen.datasets import UMLS, Dataset, Kinships, Nations
from pykeen.triples import CoreTriplesFactory, TriplesFactory
from typer.testing import CliRunner

import tacit
from tacit.cli import app
from tacit.errors import DataError, RunError, SettingsError
from tacit.graph.graph import SPLITS, Graph
from tacit.run.mined import holds_facts

FACTS = [
    ("Oslo", "capital of", "Norway"),
    ("Norway", "borders", "Sweden"),
    ("Norway", "borders", "Finland"),
    ("Sweden", "ally of", "Finland"),
    ("Sweden", "borders", "Finland"),
    ("Ö<&>", "near", "Ö<&>"),
]
GRAPH = Graph.of(FACTS[:4], FACTS[4:5], FACTS[5:], name="north").named(
    {"Norway": ["Kingdom of Norway", "Noreg"]}
)


def facts(graph: Graph, *splits: str) -> Counter[tuple[str, str, str]]:
    return Counter(
        (graph.entities[h], graph.relations[r], graph.entities[t])
        for h, r, t in graph.facts(*splits).tolist()
    )


def random_graph(seed: int) -> Graph:
    draw = random.Random(seed)
    rows = [
        [(f"e{draw.randrange(20)}", f"r{draw.randrange(4)}", f"e{draw.randrange(20)}")
         for _ in range(size)]
        for size in (60, 20, 10)
    ]  # fmt: skip
    return Graph.of(*rows)


@pytest.mark.parametrize("seed", range(5))
def test_networkx_and_back(seed: int) -> None:
    graph = random_graph(seed)
    there = graph.to_networkx()
    assert list(there) == graph.entities.labels
    assert Counter(list(there.edges(keys=True))) == Counter((h, t, r) for h, r, t in facts(graph))
    index = graph.index()
    for entity, label in enumerate(graph.entities):
        for relation in range(0, graph.num_relations, 2):
            name = graph.relations[relation]
            tails = {t for _, t, key in there.out_edges(label, keys=True) if key == name}
            heads = {h for h, _, key in there.in_edges(label, keys=True) if key == name}
            assert tails == {graph.entities[i] for i in index.tails(entity, relation)}
            assert heads == {graph.entities[i] for i in index.tails(entity, relation + 1)}
    back = Graph.from_networkx(there)
    assert back.entities.labels == graph.entities.labels
    for split in SPLITS:
        assert facts(back, split) == facts(graph, split)
    assert facts(Graph.from_networkx(graph.to_networkx("train", "test"))) == facts(
        graph, "train", "test"
    )


def test_names_and_splits_go_through_graphml() -> None:
    file = io.BytesIO()
    nx.write_graphml(GRAPH.to_networkx(), file)
    file.seek(0)
    read = nx.read_graphml(file, force_multigraph=True)
    back = Graph.from_networkx(read)
    assert (back.name, GRAPH.to_networkx().graph) == ("north", {"name": "north"})
    for split in SPLITS:
        assert facts(back, split) == facts(GRAPH, split)
    assert back.entities.name(back.entities.id("Norway")) == "Kingdom of Norway"
    assert back.entities.names == {"Norway": ("Kingdom of Norway",)}


VALUES = Graph.of(
    [("Oslo", "in", "Norway"), ("Oslo", "area[km²]", "454.03"), ("Oslo", "founded[date]", "1048"),
     ("Oslo", "population", "717710"), ("Norway", "population", "5550203"),
     ("Norway", "population", "5425270"), ("Norway", "name[number]", "7")],
    [("Norway", "founded[date]", "1905-06-07")],
    [("Norway", "sea[duration]", "PT90M")],
    attributes=["area[km²]", "founded[date]", "population", "name[number]", "sea[duration]"],
)  # fmt: skip


def values(graph: Graph) -> dict[str, set[tuple[str, str]]]:
    """The values of each attribute, named with its kind or unit."""
    return {
        str(attribute): {(graph.entities[id_], text) for id_, text in graph.attributes.texts(i)}
        for i, attribute in enumerate(graph.attributes.listed)
    }


def test_values_are_attributes_of_nodes() -> None:
    there = VALUES.to_networkx()
    assert there.nodes["Oslo"] == {
        "area[km²]": 454.03,
        "founded[date]": "1048",
        "population": 717710,
    }
    assert there.nodes["Norway"]["population"] == [5425270, 5550203]
    assert there.nodes["Norway"]["name[number]"] == 7
    assert [type(there.nodes["Oslo"][key]) for key in ("population", "area[km²]")] == [int, float]
    back = Graph.from_networkx(there)
    assert (values(back), back.notes) == (values(VALUES), ())
    assert "founded[date]" not in VALUES.to_networkx("train").nodes["Norway"]
    file = io.BytesIO()
    del there.nodes["Norway"]["population"]  # GraphML has no lists
    nx.write_graphml(there, file)
    file.seek(0)
    read = values(Graph.from_networkx(nx.read_graphml(file, force_multigraph=True)))
    assert read.pop("population[number]") == {("Oslo", "717710")}
    assert read == {key: each for key, each in values(VALUES).items() if "population" not in key}


def test_what_nodes_have_is_read_by_its_type() -> None:
    graph = nx.DiGraph([("a", "b", {"relation": "r"})])
    graph.nodes["a"].update(
        size=np.float64(0.5), big=True, color="red", born=date(1815, 12, 10), year="1815",
        empty=None, hole=float("nan"), steps=np.int64(3), name="A",
    )  # fmt: skip
    graph.nodes["a"]["length[km]"] = Decimal("1.5")
    graph.nodes["a"]["died[date]"] = 1852
    graph.nodes["a"]["span"] = timedelta(hours=1)
    read = Graph.from_networkx(graph)
    assert values(read) == {
        "size[number]": {("a", "0.5")},
        "born[date]": {("a", "1815-12-10")},
        "steps[number]": {("a", "3")},
        "length[km]": {("a", "1.5")},
        "died[date]": {("a", "1852")},
        "span[duration]": {("a", "PT1H")},
    }
    assert read.notes == (
        "nodes: attributes that are no numbers or dates ignored: big, color, year, empty, hole",
    )
    assert read.entities.labels == ["a", "b"]


def test_relations_of_networkx_are_attributes_or_keys() -> None:
    expected = Counter({("a", "knows", "b"): 1, ("b", "likes", "7"): 1})
    keyed = nx.MultiDiGraph([("a", "b", "knows"), ("b", 7, "likes")])
    assert facts(Graph.from_networkx(keyed)) == expected
    for name in ("relation", "predicate", "label", "type"):
        edges = [("a", "b", {name: "knows", "weight": 1}), ("b", 7, {name: "likes"})]
        assert facts(Graph.from_networkx(nx.DiGraph(edges))) == expected
    both = nx.MultiDiGraph([("a", "b", "k", {"type": "x", "kind": "knows"})])
    assert list(facts(Graph.from_networkx(both))) == [("a", "x", "b")]
    assert list(facts(Graph.from_networkx(both, relation="kind"))) == [("a", "knows", "b")]


def test_an_edge_without_direction_is_a_fact_both_ways() -> None:
    graph = nx.Graph([("a", "b", {"relation": "r"}), ("c", "c", {"relation": "r"})])
    assert facts(Graph.from_networkx(graph)) == Counter(
        {("a", "r", "b"): 1, ("b", "r", "a"): 1, ("c", "r", "c"): 1}
    )
    alone = nx.Graph()
    alone.add_node("a", label="Ann")
    assert Graph.from_networkx(alone).entities.name(0) == "Ann"


@pytest.mark.parametrize(
    ("graph", "message"),
    [
        (nx.path_graph(3), "the edge of 0 and 1 has no relation; name the attribute of edges"),
        (nx.MultiDiGraph([(1, 2)]), "the edge of 1 and 2 has no relation"),
        (
            nx.MultiDiGraph([("a", "b", {"label": "r"}), ("b", "c", {})]),
            "the edge of 'b' and 'c' has no 'label'",
        ),
        (nx.DiGraph([("a", "b", {"relation": 0.5})]), r"the relation 0\.5 is no label"),
        (nx.grid_2d_graph(2, 2), r"the node \(0, 0\) is no label.* networkx.relabel_nodes"),
        (nx.MultiDiGraph([(1, "1", "r")]), "2 nodes have the label '1'; relabel all but one"),
        (nx.MultiDiGraph([(" ", "b", "r")]), "the node ' ' is no label"),
        ([("a", "r", "b")], "a list is no graph of networkx"),
    ],
)
def test_what_is_no_knowledge_graph_is_refused(graph: Any, message: str) -> None:
    with pytest.raises(DataError, match=message):
        Graph.from_networkx(graph)


@pytest.fixture(scope="module")
def pyg() -> Any:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of what it uses of torch
        return pytest.importorskip("torch_geometric")


@pytest.mark.parametrize("seed", range(3))
def test_pyg_reads_the_same_edges(pyg: Any, seed: int) -> None:
    graph = random_graph(seed)
    data = graph.to_pyg()
    assert data.validate() is True
    assert (data.num_nodes, data.num_edges) == (graph.num_entities, len(graph.facts()))
    there = pyg.utils.to_networkx(data, edge_attrs=["edge_type"], to_multi=True)
    edges = Counter((h, values["edge_type"], t) for h, t, values in there.edges(data=True))
    assert edges == Counter((h, r // 2, t) for h, r, t in graph.facts().tolist())
    masks = {"train": "train_mask", "valid": "val_mask", "test": "test_mask"}
    for split, mask in masks.items():
        chosen = data.edge_index[:, data[mask]]
        assert np.array_equal(chosen.T.numpy(), graph.split(split)[:, [0, 2]])
    train = graph.to_pyg("train")
    assert train.num_edges == len(graph.train)
    assert "val_mask" not in train


def test_pyg_takes_a_graph_without_facts(pyg: Any) -> None:
    data = Graph.of(()).to_pyg()
    assert data.edge_index.shape == (2, 0)
    assert data.num_nodes == 0


@pytest.mark.parametrize("inverse", [False, True])
@pytest.mark.parametrize("kind", [Nations, Kinships, UMLS])
def test_pykeen_labels_the_same_triples(kind: type[Dataset], inverse: bool) -> None:
    data = kind(create_inverse_triples=inverse)  # type: ignore[call-arg]
    graph = Graph.from_pykeen(data)
    factories = dict(zip(SPLITS, (data.training, data.validation, data.testing), strict=True))
    for split, factory in factories.items():
        assert factory is not None
        assert facts(graph, split) == Counter(map(tuple, factory.triples.tolist()))
    assert graph.num_relations == 2 * data.training.real_num_relations
    assert graph.entities.labels == sorted(data.entity_to_id, key=data.entity_to_id.__getitem__)
    assert graph.name == kind.__name__.lower()
    parts = Graph.from_pykeen(data.training, test=data.testing, name="mine")
    assert (parts.name, len(parts.valid)) == ("mine", 0)
    assert facts(parts, "test") == facts(graph, "test")
    by_name = tacit.load(f"pykeen:{kind.__name__.lower()}")
    assert facts(by_name) == facts(graph)


def test_pykeen_factories_with_ids_of_their_own_are_joined_by_label() -> None:
    train = TriplesFactory.from_labeled_triples(np.array([["a", "r", "b"], ["b", "s", "c"]]))
    test = TriplesFactory.from_labeled_triples(np.array([["c", "s", "a"]]))
    graph = Graph.from_pykeen(train, test=test)
    assert (facts(graph, "test"), graph.num_entities) == (Counter([("c", "s", "a")]), 3)
    plain = CoreTriplesFactory(torch.tensor([[0, 0, 2], [2, 1, 1]]), 3, 2)
    assert facts(Graph.from_pykeen(plain)) == Counter([("0", "0", "2"), ("2", "1", "1")])
    with pytest.raises(DataError, match="a ndarray is no triples factory of PyKEEN"):
        Graph.from_pykeen(np.zeros((2, 3)))


def test_data_sets_by_the_names_of_pykeen(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    shown = CliRunner().invoke(app, ["data", "describe", "pykeen:nations"])
    assert "nations: 14 entities, 55 relations, 1,992 facts" in shown.output
    asked = CliRunner().invoke(
        app, ["ask", "pykeen:nations", "?c : embassy(usa, ?c)", "--symbolic"]
    )
    assert "1. brazil" in asked.output
    assert holds_facts("pykeen:nations")
    with pytest.raises(RunError, match="there is no run or graph 'nations'"):
        holds_facts("nations")
    with pytest.raises(DataError, match=r"^pykeen:natoins: .*; did you mean 'pykeen:nations'\?"):
        tacit.load("pykeen:natoins")
    with pytest.raises(DataError, match=r"has no data set '\?'; there is .*nations, "):
        tacit.load("pykeen:?")
    monkeypatch.chdir(tmp_path)
    (tmp_path / "pykeen:nations").mkdir()
    (tmp_path / "pykeen:nations" / "facts.tsv").write_text("a\tr\tb\n", encoding="utf-8")
    assert len(tacit.load("pykeen:nations").facts()) == 1

    def unreachable(**_: Any) -> Dataset:
        raise OSError("Name or service not known")

    monkeypatch.setattr(pykeen_datasets, "get_dataset", unreachable)
    with pytest.raises(DataError, match=r"pykeen:umls: PyKEEN cannot load it \(Name or service"):
        tacit.load("pykeen:umls")


@pytest.mark.parametrize(
    ("library", "call"),
    [
        ("networkx", lambda: GRAPH.to_networkx()),
        ("torch_geometric.data", lambda: GRAPH.to_pyg()),
        ("pykeen.datasets", lambda: tacit.load("pykeen:nations")),
    ],
)
def test_the_extra_of_a_missing_library_is_named(
    library: str, call: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, library, None)
    extra = {"torch_geometric.data": "pyg", "networkx": "frames"}.get(library, "pykeen")
    with pytest.raises((DataError, SettingsError), match=rf"'tacit-kg\[{extra}\]'"):
        call()
