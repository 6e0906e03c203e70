"""Neo4j's exports, as neo4j-admin and apoc write them."""

from __future__ import annotations

from pathlib import Path

import pytest

from tacit.errors import DataError
from tacit.graph.datasets import load
from tacit.graph.graph import Graph

PEOPLE = """personId:ID,name,born:int,:LABEL
7,Carrie Fisher,1956,Person
8,"Ford, Harrison",1942,Person;Pilot
9,Nobody,,Person
"""
FILMS = "filmId:ID,title,:LABEL\n70,Star Wars,Film\n"
ROLES = ":START_ID,role,:END_ID,:TYPE\n7,Leia,70,ACTED_IN\n8,Han,70,ACTED_IN\n7,,8,KNOWS\n"
EXPECTED = [("7", "ACTED_IN", "70"), ("8", "ACTED_IN", "70"), ("7", "KNOWS", "8")]
NAMES = {"7": ("Carrie Fisher",), "8": ("Ford, Harrison",), "70": ("Star Wars",)}
APOC = """"_id","_labels","born","name","title","_start","_end","_type","role"
"7",":Person","1956","Carrie Fisher","",,,,
"8",":Person:Pilot","1942","Ford, Harrison","",,,,
"9",":Person","","Nobody","",,,,
"70",":Film","","","Star Wars",,,,
,,"","","","7","70","ACTED_IN","Leia"
,,"","","","8","70","ACTED_IN","Han"
,,"","","","7","8","KNOWS",""
"""


def facts(graph: Graph) -> list[tuple[str, str, str]]:
    return [
        (graph.entities[h], graph.relations[r], graph.entities[t])
        for h, r, t in graph.facts().tolist()
    ]


def write(folder: Path, **files: str) -> list[Path]:
    for name, text in files.items():
        (folder / f"{name}.csv").write_text(text)
    return [folder / f"{name}.csv" for name in files]


def test_nodes_name_the_ends_of_relationships(tmp_path: Path) -> None:
    paths = write(tmp_path, people=PEOPLE, films=FILMS, roles=ROLES)
    for order in (paths, paths[::-1]):
        graph = load(order)
        assert facts(graph) == EXPECTED
        assert graph.entities.names == NAMES
        assert graph.notes[0] == "train: 1 node without relationships left out"
        assert graph.notes[1:] == (
            "train: properties are no facts and were left out: role",
            "1 relation is an attribute: born; `attributes=False` reads none",
        )
        holders, years = graph.attributes.column(0)
        assert dict(zip([graph.entities[i] for i in holders], years, strict=True)) == {
            "7": 1956,
            "8": 1942,
        }
    assert (facts(load(tmp_path)), load(tmp_path).name) == (EXPECTED, tmp_path.name)
    assert load(paths[2]).entities.names == {}
    assert facts(load(paths[2])) == EXPECTED


def test_nodes_without_relationships_or_names_are_counted(tmp_path: Path) -> None:
    unnamed = write(
        tmp_path, nodes=":ID,name\n1,Ada\n2,\n3,\n4,\n", ties=":START_ID,:TYPE,:END_ID\n1,KNOWS,2\n"
    )
    assert load(unnamed).entities.names == {"1": ("Ada",)}
    assert load(unnamed).notes[0] == "train: 2 nodes without relationships left out"


def test_ends_that_are_no_nodes_are_noted(tmp_path: Path) -> None:
    """An end without its space is another node than the one of the space."""
    people = PEOPLE.replace(":ID", ":ID(Person)")
    films = FILMS.replace(":ID", ":ID(Film)")
    graph = load(
        write(
            tmp_path,
            people=people,
            films=films,
            roles=":START_ID(Person),:END_ID,:TYPE\n7,70,ACTED_IN\n",
        )
    )
    assert facts(graph) == [("Person/7", "ACTED_IN", "70")]
    assert (
        "train: relationships speak of 1 node which no file of nodes has, such as '70'"
        in graph.notes
    )
    assert not any(
        "no file" in note for note in load(write(tmp_path, roles=ROLES)).notes
    )  # there are none to have them


def test_apoc_writes_nodes_and_relationships_into_one_file(tmp_path: Path) -> None:
    graph = load(write(tmp_path, all=APOC)[0])
    assert facts(graph) == EXPECTED
    assert graph.entities.names == NAMES


def test_ids_of_two_spaces_are_of_two_nodes(tmp_path: Path) -> None:
    write(
        tmp_path,
        people="id:ID(Person),name:string[]\n1,Ada;Countess\n",
        films="id:ID(Film){label:Film},title\n1,Metropolis\n",
        likes=":START_ID(Person),:END_ID(Film),:TYPE\n1,1,LIKES\n",
    )
    graph = load(tmp_path)
    assert facts(graph) == [("Person/1", "LIKES", "Film/1")]
    assert graph.entities.names == {"Person/1": ("Ada", "Countess"), "Film/1": ("Metropolis",)}
    (alone,) = write(tmp_path, knows=":START_ID(Person),:TYPE,:END_ID(Person)\n1,KNOWS,2\n")
    assert facts(load(alone)) == [("1", "KNOWS", "2")]


def test_an_export_goes_with_other_files(tmp_path: Path) -> None:
    (export,) = write(tmp_path, all=APOC)
    (tmp_path / "more.tsv").write_text("70\tMADE_IN\tUSA\n")
    graph = load([tmp_path / "more.tsv", export])
    assert sorted(facts(graph)) == sorted([("70", "MADE_IN", "USA"), *EXPECTED])
    assert graph.entities.name(graph.entities.id("70")) == "Star Wars"


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (":START_ID,:END_ID\n1,2\n", r"g\.csv, line 1: has no column :TYPE"),
        (
            ":START_ID,:END_ID,:TYPE\n1,2,R\n1,,R\n",
            r"g\.csv, line 3: the :END_ID is empty; expected START_ID, TYPE",
        ),
        (":START_ID,:END_ID,:TYPE\n1,2\n", r"g\.csv, line 2: has 2 columns; the table has 3"),
        (
            PEOPLE,
            r"g\.csv: holds no relationships; expected a file of them with :START_ID, :END_ID and "
            r":TYPE",
        ),
        (
            "id:ID,name\n,Ada\n",
            r"g\.csv, line 2: has neither the id of a node nor the ends of a relationship",
        ),
        (":START_ID,:END_ID,:TYPE\n", r"g\.csv: holds no relationships"),
        (':START_ID,:END_ID,:TYPE\n1,"2,R\n', r"g\.csv, line 2: is not CSV"),
    ],
)
def test_a_broken_export_is_named_by_file_and_line(tmp_path: Path, text: str, message: str) -> None:
    with pytest.raises(DataError, match=message):
        load(write(tmp_path, g=text)[0])
