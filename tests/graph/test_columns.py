"""Columns in another order than head, relation, tail."""

from __future__ import annotations

import re
import time
from itertools import permutations
from pathlib import Path

import pytest

from tacit.errors import DataError, SettingsError
from tacit.graph.datasets import load
from tacit.graph.formats.columns import column_order
from tacit.graph.graph import Graph

FACTS = [
    ("France", "borders", "Spain"),
    ("Paris", "capital of", "France"),
    ("Madrid", "capital of", "Spain"),
]


def facts(graph: Graph, *parts: str) -> list[tuple[str, str, str]]:
    return [
        (graph.entities[h], graph.relations[r], graph.entities[t])
        for h, r, t in graph.facts(*parts).tolist()
    ]


def write(
    path: Path, rows: list[tuple[str, ...]], order: tuple[int, ...], header: str = ""
) -> Path:
    """Writes facts with their columns in some order, under a header."""
    separator = "," if path.suffix == ".csv" else "\t"
    lines = [header] if header else []
    lines += [separator.join(row[i] for i in order) for row in rows]
    path.write_text("\n".join(lines) + "\n", encoding="utf-8")
    return path


@pytest.mark.parametrize(
    ("header", "order"),
    [
        ("subject,object,relation", (0, 2, 1)),
        ("source,type,target", (0, 1, 2)),
        ("Source_ID,Target_ID,Edge Type", (0, 2, 1)),
        ("from,to,relation", (0, 2, 1)),
        ("predicate,subject,object", (1, 0, 2)),
        ("tail,relation,head", (2, 1, 0)),
        ("t,h,r", (2, 0, 1)),
        ("relation_id,head_entity,tail_entity", (1, 0, 2)),
        ("HEAD,EDGE,TAIL", (0, 1, 2)),
    ],
)
def test_a_header_tells_the_order(tmp_path: Path, header: str, order: tuple[int, ...]) -> None:
    graph = load(write(tmp_path / "g.csv", FACTS, order, header))
    assert facts(graph) == FACTS
    assert graph.notes[0] == "train: the first line of g.csv was taken for a header and skipped"
    assert len(graph.notes) == (1 if order == (0, 1, 2) else 2)
    assert facts(load(write(tmp_path / "g.tsv", FACTS, order, header.replace(",", "\t")))) == FACTS


def test_a_label_of_brackets_is_told_from_a_header_at_once(tmp_path: Path) -> None:
    began = time.process_time()
    rows = [("(" * 30_000, "r", "(" * 30_000 + "b"), *FACTS]
    assert facts(load(write(tmp_path / "g.tsv", rows, (0, 1, 2)))) == rows
    # a search from each bracket to the end of the label takes a second
    assert time.process_time() - began < 0.3


def test_the_note_says_how_columns_were_read(tmp_path: Path) -> None:
    notes = load(write(tmp_path / "g.csv", FACTS, (2, 0, 1), "object,subject,relation")).notes
    assert notes[1] == "train: the columns of g.csv were read as tail, head, relation"


@pytest.mark.parametrize("order", list(permutations(range(3))))
def test_the_order_can_be_given(tmp_path: Path, order: tuple[int, ...]) -> None:
    names = ["head", "relation", "tail"]
    path = write(tmp_path / "g.tsv", FACTS, order)
    assert facts(load(path, columns=",".join(names[i] for i in order))) == FACTS
    assert facts(load(path, columns=", ".join(str(order.index(i) + 1) for i in range(3)))) == FACTS
    headed = write(tmp_path / "h.tsv", FACTS, order, "one\tto\trelation")
    assert facts(load(headed, columns=",".join(names[i] for i in order))) == FACTS


def test_positions_are_not_the_names_of_columns(tmp_path: Path) -> None:
    (tmp_path / "g.tsv").write_text("1\t2\t3\n2\t4\t3\n")
    graph = load(tmp_path / "g.tsv", columns="1,3,2")
    assert (facts(graph), graph.notes) == ([("1", "3", "2"), ("2", "3", "4")], ())


@pytest.mark.parametrize(
    "columns", ["head,tail", "1,2", "1,2,2", "0,1,2", "head,head,tail", "a,b,c", "", "1,2,x"]
)
def test_columns_that_name_no_order_are_refused(columns: str) -> None:
    with pytest.raises(
        SettingsError, match=r"columns '.*' must name the three, as in 'head,tail,relation'"
    ):
        column_order(columns)


@pytest.mark.parametrize(
    "header",
    [
        "from;to;weight",
        "person;city;relation",
        "relation;id;name",
        "von;relation;nach",
        "nr;source;art;object",
        "source;source;typ;ziel",
        '"Name, kurz";relation;"Ort, lang"',
    ],
)
def test_advice_on_columns_works_for_the_file_it_is_about(tmp_path: Path, header: str) -> None:
    path = tmp_path / "g.csv"
    cells = ";".join("abcd"[: header.count(";") + 1])
    path.write_text(f"{header}\n{cells}\n", encoding="utf-8")
    with pytest.raises(DataError) as refused:
        load(path)
    advised = re.search(r"such as `columns='([^`]+)'`", str(refused.value))
    assert advised is not None, refused.value
    assert len(facts(load(path, columns=advised[1]))) >= 1
    own = {cell.strip('"') for cell in header.split(";")}
    is_by_name = len(own) == header.count(";") + 1 and '"' not in header
    assert (set(advised[1].split(",")) <= own) == is_by_name


@pytest.mark.parametrize(
    "table",
    [
        ",City,Rel,Country\n0,Paris,in,France\n",  # as pandas writes a frame with its index
        ",City,How,Country\n0,Paris,in,France\n",
        "id,city,type,country\n0,Paris,in,France\n",
        "Paris,in,France,0.9\nRome,in,Italy,0.8\n",
        "Paris,type,France,0.9\nRome,type,Italy,0.8\n",  # a label that is a word for a role
        "Paris,r,France,0.9\nRome,r,Italy,0.8\n",
        "Paris,source,France,2024,0.9\nRome,source,Italy,2024,0.8\n",
    ],
)
def test_advice_on_columns_of_wide_tables_chooses_the_facts(tmp_path: Path, table: str) -> None:
    path = tmp_path / "g.csv"
    path.write_text(table, encoding="utf-8")
    with pytest.raises(DataError) as refused:
        load(path)
    advised = re.search(r"`columns='([^`]+)'`", str(refused.value))
    assert advised is not None, refused.value
    read = facts(load(path, columns=advised[1]))
    assert ("Paris", "France") in {(head, tail) for head, _, tail in read}
    assert ("Rome" in table) == any(head == "Rome" for head, _, _ in read)


def test_wrong_columns_are_answered_with_those_of_the_file(tmp_path: Path) -> None:
    path = write(tmp_path / "g.tsv", FACTS, (0, 1, 2), "Kopf\tArt\tSchwanz")
    with pytest.raises(SettingsError, match=r"or as the table does \(Kopf,Art,Schwanz\), or give"):
        load(path, columns="kopf,art,schwanz")
    path.write_text("id\tvon\tnach\twie\n1\ta\tb\tr\n")
    with pytest.raises(DataError, match="or their names if id,von,nach,wie are such; a table with"):
        load(path)


def test_columns_are_for_tables(tmp_path: Path) -> None:
    (tmp_path / "g.nt").write_text("<a:a> <a:r> <a:b> .\n")
    with pytest.raises(SettingsError, match=r"columns is '1,3,2', but .*g\.nt is no table"):
        load(tmp_path / "g.nt", columns="1,3,2")


@pytest.mark.parametrize(
    "header",
    ["from\tto\tweight", "relation\tid\tname", "city\t:TYPE\tcountry", "source\tobject\tx"],
)
def test_a_header_that_does_not_tell_the_order_is_refused(tmp_path: Path, header: str) -> None:
    path = write(tmp_path / "g.tsv", FACTS, (0, 1, 2), header)
    with pytest.raises(
        DataError,
        match=r"its first line \(.*\) names columns, but not .*; say which is which, "
        "such as `columns='",
    ):
        load(path)
    assert facts(load(path, columns="1,2,3")) == FACTS


LOOP = ("object", "resembles", "object")


@pytest.mark.parametrize(
    "first",
    [("France", "type", "country"), ("source", "type", "target group"), ("s", "r", "x"), LOOP],
)
def test_a_fact_is_no_header(tmp_path: Path, first: tuple[str, str, str]) -> None:
    rows = [first, ("Spain", "type", "country"), *FACTS]
    graph = load(write(tmp_path / "g.tsv", rows, (0, 1, 2)))
    assert facts(graph) == rows
    assert graph.notes == ()


@pytest.mark.parametrize("name", ["g.csv", "g.tsv"])
@pytest.mark.parametrize(("order", "columns"), [((0, 1, 2), None), ((0, 2, 1), "1,3,2")])
def test_a_first_line_that_may_be_a_header_is_noted(
    tmp_path: Path, name: str, order: tuple[int, ...], columns: str | None
) -> None:
    first = ("who", "what", "value")
    rows = [first, *friends(9)]
    note = (
        f"train: the first line of {name} has nothing in common with any other; if it is a header, "
        "give `columns='who,what,value'`"
    )
    graph = load(write(tmp_path / name, rows, order), columns=columns)
    assert (facts(graph), graph.notes) == (rows, (note,))
    assert facts(load(tmp_path / name, columns="who,what,value")) == rows[1:]
    for shared in (
        ("who", "knows", "value"),
        ("person 3", "what", "value"),
        ("who", "what", "person 3"),
    ):
        assert load(write(tmp_path / name, [shared, *rows[1:]], order), columns=columns).notes == ()
    # too few to tell
    assert load(write(tmp_path / name, rows[:9], order), columns=columns).notes == ()


def test_a_part_without_header_is_read_like_the_first(tmp_path: Path) -> None:
    write(tmp_path / "train.csv", FACTS, (0, 2, 1), "subject,object,relation")
    write(tmp_path / "valid.csv", FACTS[:1], (0, 1, 2), "head,relation,tail")
    valid = [("Spain", "borders", "France")]
    write(tmp_path / "valid.csv", valid, (0, 2, 1))
    write(tmp_path / "test.csv", [("Spain", "borders", "Paris")], (0, 1, 2), "head,relation,tail")
    graph = load(tmp_path)
    assert facts(graph, "train") == FACTS
    assert facts(graph, "valid") == valid
    assert facts(graph, "test") == [("Spain", "borders", "Paris")]
    assert "valid: the columns of valid.csv were read as head, tail, relation" in graph.notes


def friends(count: int) -> list[tuple[str, ...]]:
    return [(f"person {i}", ("knows", "likes")[i % 2], f"person {i + 1}") for i in range(count)]


@pytest.mark.parametrize(
    ("order", "column", "positions"), [((0, 2, 1), 3, "1,3,2"), ((1, 0, 2), 1, "2,1,3")]
)
def test_swapped_columns_without_a_header_are_refused(
    tmp_path: Path, order: tuple[int, ...], column: int, positions: str
) -> None:
    path = write(tmp_path / "g.tsv", friends(200), order)
    message = (
        f"column 2, read as the relation, has 200 different values and column {column} only 2; "
        f".*'{positions}'"
    )
    with pytest.raises(DataError, match=message):
        load(path)
    assert facts(load(path, columns=positions)) == friends(200)
    assert len(load(path, columns="1,2,3").train) == 200
    assert facts(load(write(tmp_path / "g.tsv", friends(200), (0, 1, 2)))) == friends(200)


def test_columns_that_may_be_swapped_are_noted(tmp_path: Path) -> None:
    answers = [(f"person {i % 40}", f"question {i}", ("yes", "no")[i % 2]) for i in range(200)]
    graph = load(write(tmp_path / "g.tsv", answers, (0, 1, 2)))
    assert facts(graph) == answers
    assert graph.notes == (
        "train: in g.tsv column 2, read as the relation, has 200 different values and column 3 "
        "only 2; if that is the relation, give `columns='1,3,2'`",
    )
    assert load(tmp_path / "g.tsv", columns="1,2,3").notes == ()


WIDE = [("1", "France", "0.5", "borders", "Spain"), ("2", "Paris", "", "capital of", "France")]


@pytest.mark.parametrize("name", ["g.csv", "g.tsv"])
@pytest.mark.parametrize(
    ("header", "columns"),
    [
        ("id,source,weight,type,target", None),
        ("id,source,weight,type,target", "target,source,type"),
        ("id,source,weight,type,target", "2,4,5"),
        ("id,one,weight,how,other", "one,how,other"),
        ("", "2,4,5"),
    ],
)
def test_of_a_wider_table_three_columns_are_chosen(
    tmp_path: Path, name: str, header: str, columns: str | None
) -> None:
    separator = "," if name.endswith("csv") else "\t"
    path = write(tmp_path / name, WIDE, tuple(range(5)), header.replace(",", separator))
    graph = load(path, columns=columns)
    assert facts(graph) == FACTS[:2]
    read = f"train: of {name} the columns source, type, target were read as head, relation, tail"
    assert (read in graph.notes) == (columns is None)
    assert any("taken for a header" in note for note in graph.notes) == bool(header)


def test_names_of_columns_may_be_given_that_say_nothing_themselves(tmp_path: Path) -> None:
    path = write(tmp_path / "g.csv", FACTS, (2, 0, 1), "into,place,how")
    assert facts(load(path, columns="place,how,into")) == FACTS


@pytest.mark.parametrize(
    ("lines", "columns", "error", "message"),
    [
        (
            "a,b,c,d\n",
            None,
            DataError,
            "g.csv, line 1: has 4 columns; expected 3 .*; give `columns='1,2,3'`, the positions of "
            "these, or their names if a,b,c,d are such; .* melted",
        ),
        # start: a head?
        ("x,head,rel,tail,start\n", None, DataError, "g.csv, line 1: has 5 columns; expected 3"),
        (
            "h,r,t,x\na,r,b,1\na,r,b\n",
            None,
            DataError,
            "g.csv, line 3: has 3 columns; the table has 4",
        ),
        ("h,r,t,x\na,r,,1\n", None, DataError, "g.csv, line 2: the tail is empty"),
        ("h,r,t,x\n", None, DataError, "g.csv: holds no facts"),
        (
            "h,r,t,x\na,r,b,1\n",
            "h,r,y",
            SettingsError,
            "columns 'h,r,y' must name three of h, r, t, x or give",
        ),
        (
            "h,r,t,x\na,r,b,1\n",
            "1,2,5",
            SettingsError,
            "columns '1,2,5' ask for column 5, and .*g.csv has 4",
        ),
        ("a,r,b\n", "4,5,6", SettingsError, "columns '4,5,6' ask for column 6, and .*g.csv has 3"),
        ("h,r,r,t\na,r,b,1\n", "h,r,t", SettingsError, "columns 'h,r,t' must name three of"),
    ],
)
def test_what_no_column_can_be_chosen_by(
    tmp_path: Path, lines: str, columns: str | None, error: type[Exception], message: str
) -> None:
    (tmp_path / "g.csv").write_text(lines)
    with pytest.raises(error, match=message):
        load(tmp_path / "g.csv", columns=columns)
