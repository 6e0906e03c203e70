"""Several sources as one graph."""

from __future__ import annotations

import io
import os
import sys
import threading
from collections.abc import Iterable
from pathlib import Path
from types import SimpleNamespace

import pandas as pd
import pytest
import rdflib

import tacit
from tacit.errors import DataError, SettingsError
from tacit.graph.graph import Graph
from tacit.graph.merging import join_graphs
from tacit.run_folder.folder import RunFolder

Fact = tuple[str, str, str]


def facts(graph: Graph) -> set[Fact]:
    return {
        (graph.entities[h], graph.relations[r], graph.entities[t])
        for h, r, t in graph.facts().tolist()
    }


def feed(monkeypatch: pytest.MonkeyPatch, data: bytes) -> None:
    """Puts bytes into standard input."""
    monkeypatch.setattr(sys, "stdin", SimpleNamespace(buffer=io.BytesIO(data)))


def in_full(graph: Graph) -> set[Fact]:
    """The facts with every label as the IRI that it stands for."""
    iris = (tuple(graph.iri(label) or label for label in fact) for fact in facts(graph))
    return set(iris)  # type: ignore[arg-type]


def by_rdflib(paths: Iterable[Path]) -> set[Fact]:
    """Return the union of the files as a second reader finds it, node by node."""
    triples = (triple for path in paths for triple in rdflib.Graph().parse(path))
    return {tuple(map(str, triple)) for triple in triples}  # type: ignore[misc]


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "a.tsv").write_text("Oslo\tin\tNorway\nBergen\tin\tNorway\n")
    (tmp_path / "b.csv").write_text(
        "object,subject,relation\nSweden,Norway,borders\nNorway,Oslo,in\n"
    )
    return tmp_path


def test_names_may_be_in_another_file_than_the_facts(tmp_path: Path) -> None:
    label = "<http://www.w3.org/2000/01/rdf-schema#label>"
    iri = "http://a.org/{}".format
    (tmp_path / "facts.nt").write_text(
        f'<{iri("Q1")}> <{iri("in")}> <{iri("Q2")}> .\n<{iri("Q1")}> {label} "Uno" .\n'
    )
    (tmp_path / "labels.ttl").write_text(
        f'@prefix a: <http://a.org/> . a:Q1 {label} "One"@en . a:Q2 {label} "Two" . a:in {label} '
        f'"within" . a:Q3 {label} "Three" . _:b {label} "Nobody" .'
    )
    (tmp_path / "table.tsv").write_text(f"{iri('Q2')}\t{iri('in')}\t{iri('Q3')}\n")
    names = {"a:Q1": ("One", "Uno"), "a:Q2": ("Two",), "a:Q3": ("Three",)}
    for order in (["facts.nt", "labels.ttl", "table.tsv"], ["labels.ttl", "table.tsv", "facts.nt"]):
        graph = tacit.load([tmp_path / name for name in order])
        assert graph.entities.names == names
        assert graph.relations.name(1) == "within^-1"
        assert len(graph.train) == 2
    assert tacit.load(tmp_path).entities.names == names
    folder = tmp_path / "chosen"
    folder.mkdir()
    (tmp_path / "facts.nt").rename(folder / "facts.nt")
    (folder / "names.tsv").write_text(f"{iri('Q1')}\tEins\n{iri('Q1')}\tUno\n{iri('Q2')}\tZwei\n")
    chosen = tacit.load([folder, tmp_path / "labels.ttl", tmp_path / "table.tsv"])
    assert chosen.entities.names == {
        "a:Q1": ("Eins", "Uno", "One"),
        "a:Q2": ("Zwei", "Two"),
        "a:Q3": ("Three",),
    }
    with pytest.raises(
        DataError,
        match=r"labels.ttl: holds names, and no facts; read it together with a file of fac",
    ):
        tacit.load(tmp_path / "labels.ttl")


def test_equal_labels_are_one_entity(folder: Path) -> None:
    expected = {
        ("Oslo", "in", "Norway"),
        ("Bergen", "in", "Norway"),
        ("Norway", "borders", "Sweden"),
    }
    files = [folder / "a.tsv", folder / "b.csv"]
    graph = tacit.load(files)
    assert facts(graph) == expected
    assert (graph.num_entities, graph.num_relations, graph.name) == (4, 4, "a+b")
    assert "train: 1 duplicate fact dropped" in graph.notes
    assert "b: train: the columns of b.csv were read as tail, head, relation" in graph.notes
    assert facts(tacit.load(files[::-1])) == expected
    assert facts(tacit.load(folder)) == expected
    assert tacit.load(folder).name == folder.name


def test_all_kinds_of_sources_join(folder: Path) -> None:
    RunFolder.create(folder / "run", tacit.load(folder / "a.tsv"), {})
    frame = pd.DataFrame([("Malmo", "in", "Sweden")])
    graph = tacit.load(
        [str(folder / "run"), folder / "b.csv", frame, Graph.of([("Norway", "borders", "Russia")])]
    )
    assert facts(graph) == facts(tacit.load(folder / "a.tsv")) | facts(
        tacit.load(folder / "b.csv")
    ) | {
        ("Malmo", "in", "Sweden"),
        ("Norway", "borders", "Russia"),
    }
    world = tacit.load("world")
    more = tacit.load(["world", folder / "a.tsv"])
    assert [len(more.valid), len(more.test)] == [len(world.valid), len(world.test)]
    assert facts(more) == facts(world) | {("Oslo", "in", "Norway"), ("Bergen", "in", "Norway")}


def test_rdf_files_join_by_iri_whatever_their_prefixes(tmp_path: Path) -> None:
    (tmp_path / "a.ttl").write_text(
        "@prefix ex: <http://a.org/> . @prefix b: <http://b.org/> .\n"
        "@prefix l: <http://www.w3.org/2000/01/rdf-schema#> .\n"
        'ex:Oslo ex:in b:Norway . ex:Oslo l:label "Oslo by" . b:Norway ex:near ex:Sea .\n'
    )
    (tmp_path / "b.ttl").write_text(
        "@prefix ex: <http://b.org/> . @prefix a: <http://a.org/> .\n"
        "ex:Norway a:in ex:Europe . a:Oslo a:in ex:Norway .\n"
    )
    (tmp_path / "c.nt").write_text("<http://c.org/x> <http://a.org/in> <http://b.org/Europe> .\n")
    paths = [tmp_path / name for name in ("a.ttl", "b.ttl", "c.nt")]
    graph = tacit.load(paths)
    literal = {fact for fact in by_rdflib(paths) if fact[2] == "Oslo by"}
    assert in_full(graph) == by_rdflib(paths) - literal
    assert in_full(tacit.load(paths[::-1])) == by_rdflib(paths) - literal
    assert graph.entities.names == {"ex:Oslo": ("Oslo by",)}


def test_a_table_may_speak_of_the_iris_of_rdf(tmp_path: Path) -> None:
    (tmp_path / "a.ttl").write_text("@prefix ex: <http://a.org/> . ex:Oslo ex:in ex:Norway .\n")
    (tmp_path / "b.tsv").write_text(
        "http://a.org/Oslo\tex:on\tEarth\nex:Norway\thttp://a.org/on\tEarth\n"
    )
    for order in (["a.ttl", "b.tsv"], ["b.tsv", "a.ttl"]):
        graph = tacit.load([tmp_path / name for name in order])
        assert facts(graph) == {
            ("ex:Oslo", "ex:in", "ex:Norway"),
            ("ex:Oslo", "ex:on", "Earth"),
            ("ex:Norway", "ex:on", "Earth"),
        }


def test_literals_with_a_type_join(tmp_path: Path) -> None:
    (tmp_path / "a.ttl").write_text(
        "@prefix t: <http://www.w3.org/2001/XMLSchema#> . @prefix : <http://a.org/> . :x :y "
        "'1984'^^t:gYear .\n"
    )
    (tmp_path / "b.ttl").write_text(
        "@prefix xsd: <http://www.w3.org/2001/XMLSchema#> . @prefix : <http://a.org/> . :z :y "
        "'1984'^^xsd:gYear .\n"
    )
    graph = tacit.load([tmp_path / "a.ttl", tmp_path / "b.ttl"], literals=True)
    assert facts(graph) == {("x", "y", '"1984"^^t:gYear'), ("z", "y", '"1984"^^t:gYear')}


def test_blank_nodes_of_two_files_are_two(tmp_path: Path) -> None:
    for name in "abc":
        (tmp_path / f"{name}.nt").write_text(f"_:x <http://a.org/in> <http://a.org/{name}> .\n")
    graph = tacit.load([tmp_path / "a.nt", tmp_path / "b.nt"])
    assert len({head for head, _, _ in facts(graph)}) == 2
    assert "b: 1 blank node kept apart from those before" in graph.notes
    RunFolder.create(tmp_path / "run", graph, {})
    again = tacit.load([tmp_path / "run", tmp_path / "c.nt"])
    assert len({head for head, _, _ in facts(again)}) == 3
    assert facts(graph) < facts(again)


def test_names_and_splits_of_graphs_join() -> None:
    one = Graph.of([("a", "r", "b")], [("b", "r", "c")]).named({"a": ["Anna"], "r": ["rules"]})
    two = Graph.of([("b", "r", "c")], (), [("a", "s", "d")]).named({"a": ["Anne"], "d": ["Dora"]})
    both = join_graphs([one, two], "both")
    assert both.entities.names == {"a": ("Anna", "Anne"), "d": ("Dora",)}
    assert both.relations.name(both.relations.id("r^-1")) == "rules^-1"
    # what one has to validate with, the other trains on
    assert [len(both.split(split)) for split in ("train", "valid", "test")] == [2, 0, 1]


def test_standard_input(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    feed(monkeypatch, (folder / "a.tsv").read_bytes())
    graph = tacit.load(["-", folder / "b.csv"])
    assert facts(graph) == facts(tacit.load(folder))
    feed(monkeypatch, b"<http://a.org/x> <http://a.org/y> <http://a.org/z> .\n")
    assert in_full(tacit.load("-", format="ttl")) == {
        ("http://a.org/x", "http://a.org/y", "http://a.org/z")
    }
    feed(monkeypatch, b"a\tr\tb\na\tr\n")
    with pytest.raises(DataError, match=r"^standard input, line 2: has 2 columns"):
        tacit.load("-")
    feed(monkeypatch, b"")
    with pytest.raises(DataError, match=r"^standard input: holds no facts"):
        tacit.load("-")
    with pytest.raises(SettingsError, match="format is 'xls'; it must be one of tsv, txt, csv"):
        tacit.load("-", format="xls")


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="needs named pipes")
def test_a_named_pipe_is_read_once(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "g.csv")
    for data in ("head,tail,relation\nOslo,Norway,in\n", "a,b\n"):
        writer = threading.Thread(target=(tmp_path / "g.csv").write_text, args=(data,), daemon=True)
        writer.start()
        if data.startswith("head"):
            assert facts(tacit.load(tmp_path / "g.csv")) == {("Oslo", "in", "Norway")}
        else:
            with pytest.raises(DataError, match=rf"^{tmp_path}/g\.csv, line 1: has 2 columns"):
                tacit.load(tmp_path / "g.csv")
        writer.join(10)


def test_what_cannot_be_joined_is_told(folder: Path) -> None:
    with pytest.raises(DataError, match="no source of facts was given"):
        tacit.load([])
    with pytest.raises(
        DataError,
        match="int is no source of facts; expected a path, a DataFrame, label triples or a Graph",
    ):
        tacit.load([folder / "a.tsv", 3])  # type: ignore[list-item]
    (folder / "b.csv").write_text("a,r\n")
    with pytest.raises(DataError, match=r"b\.csv, line 1: has 2 columns"):
        tacit.load([folder / "a.tsv", folder / "b.csv"])
    with pytest.raises(
        SettingsError, match="format is 'csv', but '-', standard input, is not read"
    ):
        tacit.load(folder / "a.tsv", format="csv")
    with pytest.raises(SettingsError, match="columns is '1,3,2', but graph is no table"):
        tacit.load(Graph.of([("a", "r", "b")]), columns="1,3,2")
