"""The example notebooks run from top to bottom, with small settings, and show what they promise."""

from __future__ import annotations

import csv
import json
import os
import re
import warnings
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import duckdb
import nbformat
import pytest
import rdflib
from jupyter_client.manager import start_new_kernel

import tacit
from source_tree import ROOT

NOTEBOOKS = sorted((ROOT / "examples").glob("*.ipynb"))
SMALL = {"TACIT_EPOCHS": "1", "TACIT_COUNT": "5", "TACIT_STEPS": "4", "OMP_NUM_THREADS": "1"}


@pytest.fixture(scope="module")
def kernel() -> Iterator[Any]:
    """A kernel for all notebooks of this file: to start one costs more than most of them."""
    paths = os.pathsep.join([str(ROOT / "src"), os.environ.get("PYTHONPATH", "")])
    with warnings.catch_warnings(action="ignore"):
        manager, client = start_new_kernel(env=os.environ | SMALL | {"PYTHONPATH": paths})
    yield client
    client.stop_channels()
    manager.shutdown_kernel(now=True)


def executed(name: str, folder: Path, kernel: Any) -> list[dict[str, Any]]:
    """The output of a notebook's code cells as data by kind, each run in fresh names."""
    shown: list[dict[str, Any]] = []

    def record_output(message: dict[str, Any]) -> None:
        content = message["content"]
        if message["msg_type"] == "error":
            pytest.fail("\n".join(content["traceback"]))
        if message["msg_type"] in ("display_data", "execute_result"):
            shown.append(dict(content["data"]))
        if message["msg_type"] == "stream":
            shown.append({"text/plain": content["text"], "stream": content["name"]})

    notebook = nbformat.read(ROOT / "examples" / name, as_version=4)
    code = [cell.source for cell in notebook.cells if cell.cell_type == "code"]
    for source in (f"%reset -f\n%cd -q {folder}", *code):
        start = len(shown)
        known = kernel.execute_interactive(source, timeout=120, output_hook=record_output)
        assert known["content"]["status"] == "ok"
        shown[start:] = _joined(shown[start:])
    return shown


def _joined(outputs: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """The outputs of a cell, with what it printed in pieces in one, as a notebook keeps it."""
    whole: list[dict[str, Any]] = []
    for output in outputs:
        if "stream" in output and whole and whole[-1].get("stream") == output["stream"]:
            whole[-1]["text/plain"] += output["text/plain"]
        else:
            whole.append(output)
    return whole


@pytest.mark.filterwarnings("ignore::DeprecationWarning", "ignore::RuntimeWarning")
def test_own_graph(tmp_path: Path, kernel: Any) -> None:
    shown = executed("own-graph.ipynb", tmp_path, kernel)
    html = [output["text/html"] for output in shown if "text/html" in output]
    assert "2,310 entities" in html[0]
    assert html[1].count("<meter") == 6
    assert "<b>Czechia</b>" in html[1]
    assert "<th>known</th>" in html[2]
    assert (
        shown[-1]["text/plain"]
        == "unknown relation 'boarders' at column 6; did you mean 'borders'?\n"
    )


@pytest.mark.filterwarnings("ignore::DeprecationWarning", "ignore::RuntimeWarning")
def test_one_row(tmp_path: Path, kernel: Any) -> None:
    shown = executed("one-row.ipynb", tmp_path, kernel)
    table = next(
        output["text/html"] for output in shown if "<th>avg_n</th>" in output.get("text/html", "")
    )
    assert all(f"<th>{shape}</th>" in table for shape in ("1p", "3in", "pni"))
    assert shown[-1]["image/png"]


@pytest.mark.filterwarnings("ignore::DeprecationWarning", "ignore::RuntimeWarning")
def test_compare_systems(tmp_path: Path, kernel: Any) -> None:
    shown = executed("compare-systems.ipynb", tmp_path, kernel)
    text = "".join(output["text/plain"] for output in shown)
    assert "Scores of GNN-QE order the answers; they are no probabilities." in text
    assert "Query2Box has no complement (Complement)" in text
    rows = {
        row["model"]: row for row in json.loads((tmp_path / "comparison.json").read_text())["rows"]
    }
    assert list(rows) == ["ComplEx", "Query2Box", "GNN-QE"]
    assert "pni" not in rows["Query2Box"]["mrr"]
    table = next(
        output["text/html"] for output in shown if "<th>avg_n</th>" in output.get("text/html", "")
    )
    assert f"<td>{100 * rows['GNN-QE']['mrr']['pni']:.1f}</td>" in table


@pytest.mark.filterwarnings("ignore::DeprecationWarning", "ignore::RuntimeWarning")
def test_csv_to_graph(tmp_path: Path, kernel: Any) -> None:
    shown = executed("csv-to-graph.ipynb", tmp_path, kernel)
    assert "if it is a header, give `columns='who,what,value'`" in shown[0]["text/plain"]
    # people, places, companies
    with (tmp_path / "people.csv").open(encoding="utf-8") as file:
        facts_of_people = {tuple(row) for row in csv.reader(file)}
    joined = {who: date for who, what, date in facts_of_people if what == "joined"}
    values = len(joined) + 7  # years in which companies were founded
    sizes = f"6 relations, {200 + 6 + 23 - values} train facts, {values} values"
    assert sizes in shown[1]["text/html"]
    assert all(
        f"<td>{cell}</td>" in shown[2]["text/html"]
        for cell in ("joined", "date", "founded", "number")
    )
    late = {who for who, date in joined.items() if date >= "2015"}
    rows = shown[3]["text/html"].split("<tr>")
    known = [who for row in rows if ">known<" in row for who in re.findall(r"Person \d+", row)]
    assert set(known) == {who for who in late if (who, "works_for", "Oak Tools") in facts_of_people}
    answers = duckdb.sql(f"from '{tmp_path / 'answers.parquet'}'").fetchall()
    columns = duckdb.sql(f"describe from '{tmp_path / 'answers.parquet'}'").fetchall()
    assert [name for name, *_ in columns[:5]] == ["rank", "entity", "name", "score", "known"]
    for _, who, _, _, known, *_ in answers:  # all that is known is in the table
        assert (
            not known
            or {(who, "works_for", "Oak Tools"), (who, "lives_in", "Graz")} <= facts_of_people
        )
    assert [row[0] for row in answers] == list(range(1, 11))
    rows = [
        re.findall(r"<td>([\d.]+)</td>", row) for row in shown[-3]["text/html"].split("<tr>")[3:]
    ]
    facts, held_back, true = zip(*[map(float, row) for row in rows], strict=True)
    assert list(facts) == sorted(facts, reverse=True)
    assert all(low <= high for low, high in zip(held_back, true, strict=True))
    # as the notebook says: the higher the score, the more often it is right
    assert true[-1] > 0.8 > true[0]
    files = [
        duckdb.sql(f"select subject, relation, object from '{tmp_path / name}'").fetchall()
        for name in ("missing.parquet", "missing.csv")
    ]
    assert files[0] == files[1]
    assert facts_of_people.isdisjoint(files[0])
    assert len(files[0]) == len(rdflib.Graph().parse(tmp_path / "missing.nt")) > 10


@pytest.mark.filterwarnings("ignore::DeprecationWarning", "ignore::RuntimeWarning")
def test_turtle_to_sparql(tmp_path: Path, kernel: Any) -> None:
    shown = executed("turtle-to-sparql.ipynb", tmp_path, kernel)
    facts = rdflib.Graph().parse(tmp_path / "kitchen.ttl")
    food, dish = (
        rdflib.Namespace(f"https://kitchen.example/{name}") for name in ("food#", "dish/")
    )
    several = next(output["text/plain"] for output in shown if "yes or no" in output["text/plain"])
    southern = set(facts.subjects(food["from"], food.south))
    assert f"{len(southern)} known" in several
    assert re.search(r"south-3, food:south\)\n   yes: .* known", several)
    assert re.search(r"south-4, food:south\)\n   \w+: .* predicted", several)
    pairs = re.findall(
        r"<td>(https:[^<]*)</td>",
        next(o["text/html"] for o in shown if "?with" in o.get("text/html", "")),
    )
    assert len(pairs) == 6
    for one, other in zip(pairs[::2], pairs[1::2], strict=True):
        assert (rdflib.URIRef(one), food.uses, rdflib.URIRef(other)) in facts
        assert rdflib.URIRef(one) in southern
    written = rdflib.Graph().parse(tmp_path / "southern.nt")
    rs = rdflib.Namespace("http://www.w3.org/2001/sw/DataAccess/tests/result-set#")
    places = {int(str(index)): solution for solution, index in written.subject_objects(rs["index"])}
    best = {
        written.value(written.value(places[place], rs.binding), rs.value) for place in (1, 2, 3)
    }
    # those that do not say where they come from
    assert best == {dish["south-4"], dish["south-8"], dish["south-12"]}
    assert shown[-2]["text/plain"].startswith("an aggregate other than COUNT")
    assert "comes from(south dish" in shown[-1]["text/plain"]


@pytest.mark.filterwarnings("ignore::DeprecationWarning", "ignore::RuntimeWarning")
def test_todays_facts(tmp_path: Path, kernel: Any) -> None:
    shown = executed("todays-facts.ipynb", tmp_path, kernel)
    text = "".join(output["text/plain"] for output in shown)
    named = (
        "6 new entities: Arrival 0, Arrival 1, Arrival 2, Arrival 3, Arrival 4 and 1 more; "
        "1 new relation: tutored_by"
    )
    assert f"unknown entity 'Arrival 0'\n24 facts added; {named}\n" in text
    assert "same vectors: True" in text
    assert re.search(
        r"before: 0\.999 known\n1 fact removed; .*\n.* after: [\d.]+ predicted\n", text
    )
    assert "this service needs a key" in text
    assert "{'added': 2, 'removed': 0, 'unchanged': 0, 'entities': 1, 'relations': 0" in text
    graph = tacit.load(tmp_path / "runs" / "school")
    arrival = graph.entities.id("Arrival 6")
    takes = graph.relations.id("takes")
    assert [graph.entities[tail] for tail in graph.index().tails(arrival, takes)] == ["waves"]
    first = graph.index().tails(graph.entities.id("Arrival 0"), graph.relations.id("tutored_by"))
    assert [graph.entities[tail] for tail in first] == ["Student 00"]
    train, test = map(int, re.findall(r"(\d+) train, (\d+) test facts", text)[0])
    assert len(graph.facts()) == train + test + 24 - 1 + 2 - 1


@pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda path: path.name)
def test_notebooks_are_kept_without_output(path: Path) -> None:
    notebook = nbformat.read(path, as_version=4)
    nbformat.validate(notebook)
    code = [cell for cell in notebook.cells if cell.cell_type == "code"]
    assert [cell.outputs for cell in code] == [[]] * len(code)
    assert {cell.execution_count for cell in code} == {None}
