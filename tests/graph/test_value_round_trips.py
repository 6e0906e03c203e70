"""Values written and read back: as tables, as N-Triples, in run folders, with other readers."""

from __future__ import annotations

import csv
from dataclasses import replace
from pathlib import Path
from tempfile import TemporaryDirectory

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import tacit
from tacit.errors import DataError, RunError
from tacit.graph.attributes import Attribute, Attributes
from tacit.graph.formats.betae import read_betae, write_betae
from tacit.graph.graph import SPLITS, Graph, without_attributes
from tacit.graph.quantities import KINDS, Quantity
from tacit.graph.stored import VALUES, fingerprint, read_graph, write_graph
from tacit.run_folder.folder import RunFolder

Value = tuple[str, Attribute, str, str]
NAME = st.text(st.characters(codec="utf-8", exclude_categories=["Cc", "Cs", "Zs"]), min_size=1)
QUANTITIES = {
    "number": st.floats(allow_nan=False, allow_infinity=False).map(Quantity),
    "date": st.one_of(
        st.integers(-9999, 9999).map(lambda year: f"{'-' * (year < 0)}{abs(year):04d}"),
        st.dates().map(lambda day: day.isoformat()[:7]),
        st.dates().map(str),
        st.datetimes().map(lambda moment: moment.isoformat(timespec="seconds") + "Z"),
    ).map(lambda text: Quantity.parse(text, "date")),
    "duration": st.integers(-(10**9), 10**9).map(lambda s: Quantity(float(s), "duration")),
}
ATTRIBUTES = st.one_of(
    st.builds(Attribute, NAME, st.sampled_from(KINDS)),
    st.builds(Attribute, NAME, st.just("number"), NAME.filter(lambda n: not set(n) & set("[]"))),
).filter(lambda each: "^" not in each.name)


def stated(graph: Graph) -> set[Value]:
    """The values of a graph, independent of ids."""
    attributes = graph.attributes
    return {
        (
            graph.entities[row["entity"]],
            attributes.listed[row["attribute"]],
            str(attributes.quantity(row)),
            SPLITS[row["split"]],
        )
        for row in attributes.rows
    }


def facts(graph: Graph) -> set[tuple[str, str, str, str]]:
    return {
        (graph.entities[h], graph.relations[r], graph.entities[t], split)
        for split in SPLITS
        for h, r, t in graph.split(split).tolist()
    }


@st.composite
def graphs(draw: st.DrawFn) -> Graph:
    listed = draw(st.lists(ATTRIBUTES, max_size=3, unique_by=lambda each: each.name))
    values = []
    for number, attribute in enumerate(listed):
        for entity in draw(st.lists(st.integers(0, 3), max_size=4)):
            quantity = draw(QUANTITIES[attribute.kind])
            values.append((entity, number, quantity, draw(st.integers(0, 2))))
    used = {number for _, number, _, _ in values}
    graph = Graph.of([("a", "r", "b")], [("b", "r", "c")], [("c", "s", "d e")])
    kept = [attribute for number, attribute in enumerate(listed) if number in used]
    ids = {number: kept.index(listed[number]) for number in used}
    values = [(entity, ids[number], *rest) for entity, number, *rest in values]
    return replace(graph, attributes=Attributes.of(kept, values))


@given(graphs())
@settings(max_examples=60)
def test_a_folder_of_tables_has_the_same_values(graph: Graph) -> None:
    with TemporaryDirectory() as folder:
        graph.write(Path(folder) / "out")
        again = tacit.load(Path(folder) / "out")
        # another reader finds one line for each
        lines = []
        for split in SPLITS:
            text = (Path(folder) / "out" / f"{split}.tsv").read_text(encoding="utf-8-sig")
            rows = csv.reader(text.split("\n"), delimiter="\t", quoting=csv.QUOTE_NONE)
            lines += [row for row in rows if row and row != ["head", "relation", "tail"]]
    assert stated(again) == stated(graph)
    assert facts(again) == facts(graph)
    assert len(lines) == len(graph.facts()) + len(graph.attributes)


@given(graphs())
@settings(max_examples=60)
def test_n_triples_have_the_same_values(graph: Graph) -> None:
    rdflib = pytest.importorskip("rdflib")
    with TemporaryDirectory() as folder:
        path = Path(folder) / "out.nt"
        graph.write(path)
        again = tacit.load(path)
        parsed = rdflib.Graph().parse(path)
    known = {value[:3] for value in stated(graph)}
    assert {value[:3] for value in stated(again)} == known
    assert {fact[:3] for fact in facts(again)} == {fact[:3] for fact in facts(graph)}
    assert len(parsed) == len({fact[:3] for fact in facts(graph)}) + len(known)


@given(graphs())
@settings(max_examples=40)
def test_a_stored_graph_is_the_same(graph: Graph) -> None:
    with TemporaryDirectory() as folder:
        tables = write_graph(graph, Path(folder))
        again = read_graph(Path(folder), tables)
        assert again.attributes.listed == graph.attributes.listed
        assert again.attributes.rows.tolist() == graph.attributes.rows.tolist()
        assert fingerprint(again) == fingerprint(graph)


def two() -> Graph:
    population, founded = Attribute("population", unit="people"), Attribute("founded", "date")
    year = Quantity.parse("1048", "date")
    assert year is not None
    graph = Graph.of([("Oslo", "in", "Norway")])
    values = [(0, 0, Quantity(7e5), 0), (1, 0, Quantity(5.5e6), 2), (0, 1, year, 0)]
    attributes = Attributes.of([population, founded], values)
    return replace(graph, attributes=attributes).named({"founded": ["year of its founding"]})


def test_types_of_rdf_are_those_of_the_standard(tmp_path: Path) -> None:
    rdflib = pytest.importorskip("rdflib")
    two().write(tmp_path / "g.nt")
    literals = {
        str(literal): str(literal.datatype)
        for _, _, literal in rdflib.Graph().parse(tmp_path / "g.nt")
        if isinstance(literal, rdflib.Literal)
    }
    assert literals == {
        "700000": "tacit:people",
        "5500000": "tacit:people",
        "1048": "http://www.w3.org/2001/XMLSchema#gYear",
        "year of its founding": "None",
    }


def test_a_fingerprint_depends_on_every_value() -> None:
    graph = two()
    plain = without_attributes(graph)
    assert fingerprint(plain) == fingerprint(Graph.of([("Oslo", "in", "Norway")]))
    prints = {fingerprint(graph).facts, fingerprint(plain).facts}
    for key, other in (("value", 7.0), ("entity", 1), ("precision", 2), ("split", 1)):
        rows = graph.attributes.rows.copy()
        rows[key][0] = other
        changed = Attributes(graph.attributes.listed, rows)
        prints.add(fingerprint(replace(graph, attributes=changed)).facts)
    renamed = Attributes.of_sorted(
        (Attribute("p"), *graph.attributes.listed[1:]), graph.attributes.rows
    )
    prints.add(fingerprint(replace(graph, attributes=renamed)).facts)
    assert len(prints) == 7
    assert len({fingerprint(each).labels for each in (graph, plain)}) == 1


def test_values_live_in_the_run_folder_and_are_checked(tmp_path: Path) -> None:
    run = RunFolder.create(tmp_path / "run", two(), {"model": "complex"})
    graph = RunFolder.open(run.path).graph()
    assert stated(graph) == stated(two())
    assert graph.attributes.names.name(1) == "year of its founding"
    values = np.load(run.path / VALUES)
    values["value"][0] = 8e5
    np.save(run.path / VALUES, values)
    with pytest.raises(
        RunError, match=r"the facts in .* are not those .* \(values.npy was changed\)"
    ):
        RunFolder.open(run.path).graph()
    (run.path / VALUES).unlink()
    with pytest.raises(RunError, match=r"has no values\.npy; train the run again"):
        RunFolder.open(run.path).graph()


def test_a_run_without_values_has_no_file_of_them(tmp_path: Path) -> None:
    run = RunFolder.create(tmp_path / "run", Graph.of([("a", "r", "b")]), {"model": "complex"})
    assert not run.has(VALUES)
    assert "attributes" not in run.settings
    assert run.graph().attributes.listed == ()


@pytest.mark.parametrize(
    ("key", "wrong"), [("entity", 9), ("attribute", 2), ("precision", 7), ("split", 3)]
)
def test_stored_values_out_of_range_are_refused(tmp_path: Path, key: str, wrong: int) -> None:
    graph = two()
    rows = graph.attributes.rows.copy()
    rows[key][0] = wrong
    damaged = Attributes.of_sorted(graph.attributes.listed, rows)
    tables = write_graph(replace(graph, attributes=damaged), tmp_path)
    with pytest.raises(RunError, match=f"has an? {key} out of range"):
        read_graph(tmp_path, tables)


def test_stored_values_out_of_order_are_refused(tmp_path: Path) -> None:
    graph = two()
    backwards = Attributes.of_sorted(graph.attributes.listed, graph.attributes.rows[::-1])
    tables = write_graph(replace(graph, attributes=backwards), tmp_path)
    with pytest.raises(RunError, match="is not in order"):
        read_graph(tmp_path, tables)
    for damage in ({"names": ["a"]}, {}, {"names": ["a", "b"], "kinds": ["x", "x"]}):
        with pytest.raises((RunError, DataError)):
            read_graph(tmp_path, {**tables, "attributes": damage})


def test_betae_folders_have_no_values(tmp_path: Path) -> None:
    write_betae(two(), tmp_path / "betae")
    again = read_betae(tmp_path / "betae", "betae")
    assert again.attributes.listed == ()
    assert facts(tacit.load(tmp_path / "betae")) == facts(two())


def test_ids_of_a_betae_folder_are_no_numbers(tmp_path: Path) -> None:
    write_betae(Graph.of([("a", "size", "30"), ("b", "size", "40")]), tmp_path / "betae")
    assert tacit.load(tmp_path / "betae").attributes.listed == ()


def test_an_attribute_has_a_kind_and_numbers_a_unit() -> None:
    for value in (float("nan"), float("inf")):
        with pytest.raises(DataError, match=r"x is .*; it must be finite"):
            Attributes.of([Attribute("x")], [(0, 0, Quantity(value), 0)])
    for kind, unit in (("text", ""), ("date", "km"), ("number", "date"), ("number", "a[b")):
        with pytest.raises(DataError):
            Attribute("x", kind, unit)  # type: ignore[arg-type]
