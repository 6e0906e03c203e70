"""Which relations of tables are attributes."""

from __future__ import annotations

import csv
from collections.abc import Sequence
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

import tacit
from tacit.errors import DataError, SettingsError, UnknownName
from tacit.graph.attributes import Attribute
from tacit.graph.graph import Graph
from tacit.graph.recognition import recognise
from tacit.graph.tail_values import TailCodes, TailValues

Rows = Sequence[tuple[str, str, str]]


def of(relation: str, *tails: str) -> list[tuple[str, str, str]]:
    """Facts of a relation with a head for each tail."""
    return [(f"h{i}", relation, tail) for i, tail in enumerate(tails)]


def listed(rows: Rows, **options: object) -> list[str]:
    """The attributes of a table, with their kinds or units."""
    return [str(each) for each in tacit.load(rows, **options).attributes.listed]


def values(graph: Graph) -> set[tuple[str, str, str]]:
    names = graph.attributes.names
    return {
        (
            graph.entities[row["entity"]],
            names[row["attribute"]],
            str(graph.attributes.quantity(row)),
        )
        for row in graph.attributes.rows
    }


@pytest.mark.parametrize(
    ("tails", "kind"),
    [
        (["68000000", "7"], "number"),
        (["1.5", "-2", ".5", "1e+20", "2.5E-3"], "number"),
        (["1984", "2001"], "number"),
        (["1984", "2001-05", "-0043-03-15"], "date"),
        (["0843", "2001-05"], "date"),
        (["2001-05-06T10:00:00Z", "2001-05-06 10:00"], "date"),
        (["+1950-00-00T00:00:00Z"], "date"),
        (["P1Y", "PT90M", "-P3D"], "duration"),
        (["7", "7", "7"], "number"),
    ],
)
def test_values_are_recognised(tails: list[str], kind: str) -> None:
    assert listed(of("size", *tails)) == [f"size[{kind}]"]


@pytest.mark.parametrize(
    "tails",
    [
        ["01234", "90210"],  # codes
        ["1.2.3", "1.2"],  # versions
        ["0", "1", "1"],  # flags
        ["1"],
        ["7", "many"],
        ["7", "nan"],
        ["7", "1,234.5"],
        ["7", "1.234,5"],
        ["12%", "7"],
        ["12e4", "7"],
        ["+4930123456"],  # telephones
        ["1234567890123456"],  # more digits than a number holds
        ["1984", "P1Y"],
        ["2001-13-01"],
        ["20010506", "2001-05-06"],
        ["1e999"],
        ["5. 6. 1984"],
    ],
)
def test_names_stay_entities(tails: list[str]) -> None:
    rows = of("size", *tails)
    graph = tacit.load(rows)
    assert graph.attributes.listed == ()
    assert {graph.entities[tail] for tail in graph.train[:, 2]} == set(tails)
    assert graph.notes == ()


def test_numbers_with_facts_of_their_own_are_names() -> None:
    dated = [("moon landing", "in_year", "1969"), ("woodstock", "in_year", "1970")]
    assert listed(dated) == ["in_year[number]"]
    assert listed([*dated, ("1969", "before", "woodstock")]) == []
    named = [*dated, *of("motto", "1969", "carpe diem", "sapere aude")]
    assert listed(named) == []  # a text relation has one of the two, too


def test_ids_stay_entities() -> None:
    bought = [(f"u{i}", "bought", str(100 + i * k)) for i in range(10) for k in (1, 2)]
    assert listed(bought) == []  # most have several
    assert listed([(f"u{i}", "spent", f"{100 + i * k}.5") for i in range(10) for k in (1, 2)]) == [
        "spent[number]"
    ]
    assert listed([(str(i), "customer", str(1000 + i)) for i in range(10)]) == []
    for name in ("zip", "postcode", "areaCode", "product_id", "ISBN", "app version"):
        assert listed(of(name, "90210", "10115")) == []
    assert listed(of("width", "90210", "10115")) == ["width[number]"]
    chosen = tacit.load(of("zip", "01234", "10115"), attributes=["zip"])
    assert values(chosen) == {("h0", "zip", "1234"), ("h1", "zip", "10115")}


def test_units_stand_in_brackets() -> None:
    rows = [
        *of("area (km2)", "5.5"),
        *of("population[people]", "7000"),
        *of("founded[date]", "1984"),
        *of("rank (estimate)", "3"),
        *of("height_m", "1.5"),
    ]
    assert tacit.load(rows).attributes.listed == (
        Attribute("area", unit="km2"),
        Attribute("population", unit="people"),
        Attribute("founded", "date"),
        Attribute("rank (estimate)"),
        Attribute("height_m"),
    )
    # two units, or a relation of the name, leave the whole names
    assert [each.name for each in tacit.load([*of("area (km2)", "5"), *of("area (ha)", "7")])
            .attributes.listed] == ["area (km2)", "area (ha)"]  # fmt: skip
    both = [*of("area (km2)", "5"), *of("area", "Europe")]
    assert [each.name for each in tacit.load(both).attributes.listed] == ["area (km2)"]


def test_what_is_asked_for_is_what_is_read() -> None:
    rows = [*of("age", "30", "40"), *of("founded", "1984", "2001"), *of("r", "h1")]
    assert listed(rows, attributes=False) == listed(rows, attributes=[]) == []
    assert listed(rows) == ["age[number]", "founded[number]"]
    assert listed(rows, attributes="founded[date]") == ["founded[date]"]
    graph = tacit.load(rows, attributes="founded , age")
    assert [each.name for each in graph.attributes.listed] == ["age", "founded"]
    assert graph.notes == ()
    with pytest.raises(UnknownName, match="unknown relation 'agee'; did you mean 'age'"):
        tacit.load(rows, attributes=["agee"])
    with pytest.raises(SettingsError, match="attributes is 5; it must be a list of words"):
        tacit.load(rows, attributes=5)


def test_a_graph_is_changed_only_where_names_ask_for_it() -> None:
    graph = Graph.of([("a", "age", "30"), ("a", "r", "b")])
    assert tacit.load(graph) is graph
    named = tacit.load(graph, attributes="age")
    assert values(named) == {("a", "age", "30")}
    assert tacit.load(graph, attributes=False) is graph
    with pytest.raises(SettingsError, match="the values of graph are no entities; read its facts"):
        tacit.load(named, attributes=False)


def test_wrong_values_of_what_is_asked_for_name_their_line(tmp_path: Path) -> None:
    path = tmp_path / "g.csv"
    path.write_text("head,relation,tail\na,age,30\nb,age,unknown\nc,age,NaN\n")
    message = (
        r"g\.csv, line 3: 'unknown' of 'b' is no number \(and 1 more\), as age must be; correct "
        "it, or leave it out by `skip_bad=True`, or read all as entities by `attributes=False`"
    )
    with pytest.raises(DataError, match=message):
        tacit.load(path, attributes="age")
    graph = tacit.load(path, attributes="age", skip_bad=True)
    assert graph.notes[-1] == "age: 2 facts skipped without a number, such as 'unknown'"
    assert values(graph) == {("a", "age", "30")}
    assert graph.entities.labels == ["a", "b", "c"]  # none is lost, and no value is one


def test_the_note_says_which_and_what_to_do() -> None:
    rows = [*of("age", "30"), *of("area (km2)", "7.5"), *of("born", "1984-05")]
    assert tacit.load(rows).notes == (
        "3 relations are attributes: age, area (km2), born (dates); as entities with "
        "`attributes=False`",
    )
    assert tacit.load(of("age", "30")).notes == (
        "1 relation is an attribute: age; as entities with `attributes=False`",
    )
    many = [fact for i in range(7) for fact in of(f"a{chr(98 + i)}", f"{i}.5")]
    assert (
        tacit.load(many).notes[0].startswith("7 relations are attributes: ab, ac, ad, ae, af, ...;")
    )


def test_graphs_without_numbers_are_read_as_they_were() -> None:
    rows = [("a", "r", "b"), ("b", "r^-1", "c"), ("c", "s", "a b")]
    graph = Graph.of(rows)
    assert recognise(graph) is not None
    same = tacit.load(rows)
    assert same.entities == graph.entities
    assert same.relations == graph.relations
    assert (same.train == graph.train).all()
    assert same.attributes.listed == same.notes == ()
    numbered = tacit.load([*rows, *of("age", "30")])
    assert numbered.entities.labels[: graph.num_entities] == graph.entities.labels


def test_ids_stay_in_the_order_of_first_occurrence() -> None:
    graph = tacit.load(
        [("a", "age", "30"), ("b", "r", "c"), ("40", "age^-1", "d"), ("a", "r", "b")]
    )
    assert graph.entities.labels == ["a", "b", "c", "d"]
    assert graph.relations.labels == ["r", "r^-1"]
    assert graph.train.tolist() == [[1, 0, 2], [0, 0, 1]]
    assert values(graph) == {("a", "age", "30"), ("d", "age", "40")}


def test_splits_are_those_of_the_files(tmp_path: Path) -> None:
    for split, age in (("train", "30"), ("valid", "40"), ("test", "50")):
        (tmp_path / f"{split}.tsv").write_text(f"a\tr\tb\na\tage\t{age}.5\nb\tage\t30\n")
    graph = tacit.load(tmp_path)
    assert [str(q) for q in graph.attributes.quantities(0, 0, "train")] == ["30.5"]
    assert [str(q) for q in graph.attributes.quantities(0, 0, "valid", "test")] == [
        "40.5",
        "50.5",
    ]
    # a value is in the first split that has it, and no value is a fact that cannot be predicted
    assert graph.attributes.column(0, "test")[0].tolist() == [0]
    assert not any("nothing is learned" in note for note in graph.notes)


def test_shards_of_a_folder_are_judged_together(tmp_path: Path) -> None:
    (tmp_path / "a.tsv").write_text("a\tage\t30\na\tyears\t7\n")
    (tmp_path / "b.tsv").write_text("b\tage\tunknown\nb\tyears\t8\n")
    graph = tacit.load(tmp_path)
    assert [each.name for each in graph.attributes.listed] == ["years"]
    assert {graph.relations[relation] for relation in graph.train[:, 1]} == {"age"}


def test_relations_of_a_graph_stay_when_a_table_joins_it() -> None:
    settled = Graph.of([("a", "age", "30")])
    joined = tacit.load([settled, [("b", "age", "40"), ("b", "height", "1.5")]])
    assert [each.name for each in joined.attributes.listed] == ["height"]
    known = tacit.load([("a", "age", "30")])
    joined = tacit.load([known, [("b", "age", "0"), ("b", "r", "a")]])
    assert values(joined) == {("a", "age", "30"), ("b", "age", "0")}
    other = tacit.load([("a", "age", "1984")], attributes="age[date]")
    with pytest.raises(DataError, match="age of graph is a date, and a number elsewhere"):
        tacit.load([known, other])


LABELS = st.one_of(
    st.from_regex(r"-?[0-9]{1,17}(\.[0-9]{1,20})?([eE][+-]?[0-9]{1,3})?", fullmatch=True),
    st.floats(allow_nan=False, allow_infinity=False).map(repr),
    st.dates().map(str),
    st.datetimes().map(lambda moment: moment.isoformat(timespec="seconds") + "Z"),
    st.sampled_from(["0043", "2001", "-0043", "P1Y", "x", "2001-13-01", "0000-01-01", "a\nb"]),
)


@given(st.lists(LABELS, min_size=1, max_size=5, unique=True))
def test_blocks_are_read_as_label_by_label(labels: list[str]) -> None:
    """Reading many at once is a shortcut, for numbers and dates alike."""
    graph = Graph.of([("h", "r", label) for label in labels])
    tails = graph.train[:, 2]
    together = TailCodes.of(graph, tails)
    for tail in tails.tolist():
        alone = TailCodes.of(Graph.of([("h", "r", graph.entities[tail])]), graph.train[:1, 2])
        assert together.cells[together.entities == tail].tolist() == alone.cells.tolist()
    kind = together.kind(tails)
    if kind is not None:
        quick, slow = together.values(tails, kind), TailValues.of(graph, tails, kind)
        assert slow.known.all()
        assert quick.values.tolist() == slow.values.tolist()
        assert quick.precisions.tolist() == slow.precisions.tolist()
    if kind == "number":
        assert quick.values.tolist() == [float(graph.entities[tail]) for tail in tails.tolist()]


def test_a_table_is_read_as_csv_reads_it(tmp_path: Path) -> None:
    path = tmp_path / "g.csv"
    path.write_text('"Oslo, Norway",area,454.0\n"Oslo, Norway",in,Norway\nRome,area,1285\n')
    with path.open(newline="") as file:
        rows = [(head, float(tail)) for head, name, tail in csv.reader(file) if name == "area"]
    graph = tacit.load(path)
    entities, numbers = graph.attributes.column(0)
    assert [(graph.entities[i], v) for i, v in zip(entities, numbers, strict=True)] == rows
