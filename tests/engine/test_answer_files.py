"""Answers in files: other libraries read back what Python has."""

from __future__ import annotations

import csv
import json
from dataclasses import replace
from pathlib import Path
from urllib.parse import quote

import duckdb
import numpy as np
import pandas as pd
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from rdflib import Graph as RdfGraph
from rdflib import Literal, URIRef
from rdflib.plugins.sparql.results.rdfresults import RS, RDFResult
from rdflib.term import BNode, Variable

from tables import FactorScorer
from tacit.engine.answers.answer_files import write
from tacit.engine.answers.answers import Answer, Answers
from tacit.engine.engine import Engine
from tacit.errors import SettingsError
from tacit.graph.datasets import load
from tacit.graph.formats.writing import write_scored
from tacit.graph.graph import Graph
from tacit.graph.labels.prefixes import Prefixes

LABELS = ['say "hi", all', "two\nlines", "Łódź", "_:b1", "NULL", "back\\slash"]
SCORE = URIRef("tacit:score")
KNOWN = URIRef("tacit:known")


@pytest.fixture(scope="module")
def answers() -> Answers:
    graph = Graph.of(
        [("a", "r", label) for label in LABELS[:2]] + [(label, "q", "a") for label in LABELS]
    )
    tables = [np.random.default_rng(1).uniform(0.01, 0.99, (7, 7)) for _ in range(2)]
    engine = Engine(graph, FactorScorer(tables), calibration="sigmoid", loops=True)
    return engine.explain("?x : exists ?y . r(a, ?y) & q(?x, ?y)", top=5, offset=1)


def test_frames_of_each_library_have_the_rows_of_pandas(answers: Answers) -> None:
    expected = answers.to_pandas()
    pd.testing.assert_frame_equal(answers.to_frame(), expected)
    polars = answers.to_frame("polars")
    assert polars.rows() == list(expected.itertuples(index=False, name=None))
    assert [str(kind) for kind in polars.dtypes] == [
        "Int64",
        "String",
        "String",
        "Float64",
        "Boolean",
        "String",
    ]
    assert answers.to_frame("pyarrow").to_pylist() == polars.to_dicts()
    nothing = replace(answers, answers=())
    assert nothing.to_frame("polars").is_empty()
    assert nothing.to_frame("polars").columns == nothing.to_pandas().columns.tolist()


def test_tables_read_back(answers: Answers, tmp_path: Path) -> None:
    answers.to_csv(tmp_path / "answers.any")
    answers.to_parquet(tmp_path / "answers.parquet")
    write(tmp_path / "answers.jsonl", answers)
    expected = pd.DataFrame(
        [
            (rank, a.entity, a.name, a.score, a.known, a.witnesses[0].variables["y"])
            for rank, a in enumerate(answers, 2)
        ],
        columns=["rank", "entity", "name", "score", "known", "?y"],
    )
    assert len(expected) == 5
    pd.testing.assert_frame_equal(answers.to_pandas(), expected)
    pd.testing.assert_frame_equal(parquet(tmp_path / "answers.parquet"), expected)
    rows = [
        json.loads(line)
        for line in (tmp_path / "answers.jsonl").read_text(encoding="utf-8").splitlines()
    ]
    pd.testing.assert_frame_equal(pd.DataFrame(rows), expected)
    table = pd.read_csv(tmp_path / "answers.any", keep_default_na=False, dtype={"?y": str})
    pd.testing.assert_frame_equal(table, expected, rtol=1e-5)  # of six digits


@settings(
    max_examples=50, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture]
)
@given(
    st.lists(
        st.text(st.sampled_from(",;'\"\\\t\r\n a=é\u2028\x0b😀"), min_size=1, max_size=6),
        min_size=1,
        max_size=4,
    )
)
def test_csv_reads_back_with_pythons_own_reader(tmp_path: Path, labels: list[str]) -> None:
    """Answers, scored facts and their files, whatever labels hold."""
    answers = [
        Answer(label, i, 0.5, -1.0, True, (), label, {"x": label}, {"x": label})
        for i, label in enumerate(labels)
    ]
    Answers("?x : r(a, ?x)", tuple(answers), variables=("x",)).to_csv(tmp_path / "answers.csv")
    write_scored(tmp_path / "facts.csv", [(label, "r", label, 0.5) for label in labels], Prefixes())
    with (tmp_path / "answers.csv").open(newline="", encoding="utf-8") as file:
        _, *rows = csv.reader(file, strict=True)
    assert rows == [
        [str(rank), label, label, "0.5", "true"] for rank, label in enumerate(labels, 1)
    ]
    with (tmp_path / "facts.csv").open(newline="", encoding="utf-8") as file:
        _, *rows = csv.reader(file, strict=True)
    assert rows == [[label, "r", label, "0.5"] for label in labels]


def parquet(path: Path) -> pd.DataFrame:
    return duckdb.read_parquet(str(path)).df()


@pytest.mark.parametrize("kind", ["nt", "ttl"])
def test_rdf_is_a_result_set_that_rdflib_reads(answers: Answers, tmp_path: Path, kind: str) -> None:
    write(tmp_path / f"answers.{kind}", answers)
    graph = RdfGraph().parse(tmp_path / f"answers.{kind}")
    result = RDFResult(graph)
    assert [str(variable) for variable in result.vars] == ["x"]
    terms = [URIRef(f"tacit:{quote(answer.entity, safe='')}") for answer in answers]
    assert {row[Variable("x")] for row in result.bindings} == set(terms)
    solutions = sorted(
        graph.subjects(RS["index"]), key=lambda node: graph.value(node, RS["index"]).value
    )
    assert [graph.value(node, RS["index"]).value for node in solutions] == [2, 3, 4, 5, 6]
    assert [graph.value(graph.value(node, RS.binding), RS.value) for node in solutions] == terms
    assert [graph.value(node, SCORE).value for node in solutions] == [
        answer.score for answer in answers
    ]
    assert [graph.value(node, KNOWN).value for node in solutions] == [
        answer.known for answer in answers
    ]
    assert next(graph.objects(None, URIRef("tacit:question"))) == Literal(answers.query)


def test_terms_are_those_of_the_graph_that_was_read(tmp_path: Path) -> None:
    source = (
        "<http://a.org/x> <http://a.org/r> <http://b.org/y>, "
        '"z\\"\\n"@en, _:tacit1, _:tacitResults .'
    )
    (tmp_path / "g.ttl").write_text(source, encoding="utf-8")
    graph = load(tmp_path / "g.ttl", literals=True)
    engine = Engine(graph, FactorScorer([np.full((5, 5), 0.5)]), calibration="sigmoid")
    engine.ask("?t : $r($x, ?t)", min_score=0.9, r=graph.relations[0], x=graph.entities[0]).to_rdf(
        tmp_path / "out.nt"
    )
    result = RDFResult(RdfGraph().parse(tmp_path / "out.nt"))
    values = [row[Variable("t")] for row in result.bindings]
    assert {value for value in values if not isinstance(value, BNode)} == {
        URIRef("http://b.org/y"),
        Literal('z"\n', lang="en"),
    }
    assert len(values) == len(set(values)) == 4


def test_a_name_that_says_no_format_is_refused(answers: Answers, tmp_path: Path) -> None:
    with pytest.raises(SettingsError, match=r"a file of answers must end in \.csv, \.json, "):
        write(tmp_path / "answers.xlsx", answers)
    write(tmp_path / "answers.json", answers)
    assert json.loads((tmp_path / "answers.json").read_text(encoding="utf-8")) == answers.to_dict()


def test_no_answers_are_a_table_with_columns_alone(tmp_path: Path) -> None:
    Answers("?x : r(a, ?x)", (), variables=("x",)).to_csv(tmp_path / "none.csv")
    assert (tmp_path / "none.csv").read_text() == "rank,entity,name,score,known\n"
    Answers("?x : r(a, ?x)", (), variables=("x",)).to_parquet(tmp_path / "none.parquet")
    assert list(parquet(tmp_path / "none.parquet")) == ["rank", "entity", "name", "score", "known"]


def test_several_variables_have_a_column_and_a_binding_each(tmp_path: Path) -> None:
    values = {"a": "France", "b": "Spain"}
    pairs = Answers(
        "", (Answer("", -1, 0.5, -0.69, False, values=values),), kind="tuples", variables=("a", "b")
    )
    pairs.to_csv(tmp_path / "both.csv")
    assert (
        tmp_path / "both.csv"
    ).read_text() == "rank,?a,?b,score,known\n1,France,Spain,0.5,false\n"
    pairs.to_rdf(tmp_path / "both.nt")
    (row,) = RDFResult(RdfGraph().parse(tmp_path / "both.nt")).bindings
    assert row == {Variable(name): URIRef(f"tacit:{label}") for name, label in values.items()}


def test_yes_and_no_and_counts(tmp_path: Path) -> None:
    scorer = FactorScorer([np.full((2, 2), 0.3)])
    engine = Engine(Graph.of([("a", "r", "b")]), scorer, calibration="sigmoid", loops=True)
    for question, holds in ((": r(a, b)", True), (": r(b, a)", False)):
        truth = engine.ask(question)
        truth.to_rdf(tmp_path / "truth.nt")
        assert RDFResult(RdfGraph().parse(tmp_path / "truth.nt")).askAnswer is holds
        truth.to_csv(tmp_path / "truth.csv")
        assert pd.read_csv(tmp_path / "truth.csv")["known"].tolist() == [holds]
    count = engine.ask("count ?x : r(a, ?x)")
    count.to_csv(tmp_path / "count.csv")
    assert (
        tmp_path / "count.csv"
    ).read_text() == f"known,expected\n1,{1 + 0.3 * (1 - 2**-10):.6g}\n"
    count.to_rdf(tmp_path / "count.nt")
    graph = RdfGraph().parse(tmp_path / "count.nt")
    assert [term.value for term in graph.objects(None, KNOWN)] == [1]
    (expected,) = graph.objects(None, URIRef("tacit:expected"))
    assert expected.value == count.counted.expected
