"""Plans as a person reads them: the tree, its costs, and the command that prints it."""

from __future__ import annotations

from textwrap import dedent

import pytest
from hypothesis import given, settings
from typer.testing import CliRunner

from formulas import queries
from tacit.cli import app
from tacit.errors import QueryError, UnknownName
from tacit.query.describe import describe
from tacit.query.formula import Query
from tacit.query.plans.compile import compile_query
from tacit.query.text import parse

PRINTED = {
    "?t : !(p(a, ?v) & q(?v, ?t)) & r(b, ?t)": """
        ?t: all of
          ?t: from b over r               1 row
          ?t: not
            ?t: from the best ?v over q   k rows
              ?v: from a over p           1 row
        k + 2 rows in all: 12 at k = 10
        """,
    "?t : p(a, ?x) & (q(?x, ?t) & !r(?t, ?x) | s(?x, b))": """
        ?t: from the best ?x over ([?x] | (q & !r^-1))   2 k rows
          ?x: from a over p                              1 row
          ?x: from b over s^-1                           1 row
        2 k + 2 rows in all: 22 at k = 10
        """,
    "?t : p(a, ?x) & p(?x, ?t) & !(q(?x, ?y) & q(?y, ?t))": """
        ?t: the best over the best k ?x, tried one by one
          ?x: from a over p                                 1 row
          ?t: all of
            ?t: whatever it is, how far ?x fits
              ?x: from a over p                             1 row
            ?t: from ?x over p                              k rows
            ?t: not
              ?t: from the best ?y over q                   k^2 rows
                ?y: from ?x over q                          k rows
        k^2 + 2 k + 2 rows in all: 122 at k = 10
        """,
    "?t : p(a, b) & q(?x, ?t) & r(?t, ?t)": """
        ?t: all of
          ?t: whatever it is, how far b fits
            b: from a over p                   1 row
          ?t: from every ?x over q             N rows
          ?t: itself over r                    1 row
        N + 2 rows in all
        """,
}


@pytest.mark.parametrize("text", PRINTED)
def test_a_plan_prints_as_a_tree_with_its_costs(text: str) -> None:
    assert describe(compile_query(parse(text), safe=False), k=10) == dedent(PRINTED[text]).strip()


def test_the_number_of_entities_settles_the_sum() -> None:
    prepared = compile_query(parse("?t : p(a, ?x) & q(?x, ?t) & r(?y, ?t)"))
    assert describe(prepared, k=10, num_entities=5).endswith(
        "N + k + 1 rows in all: 11 at k = 5, N = 5"
    )


@given(queries())
@settings(max_examples=100, deadline=None)
def test_every_plan_prints(query: Query) -> None:
    assert " in all" in describe(compile_query(query, safe=False), num_entities=7)


def test_the_command_prints_the_question_and_its_plan() -> None:
    done = CliRunner().invoke(
        app, ["plan", "?c : borders(Brazil, ?n) & capital_of(?c, ?n)", "--k", "8"]
    )
    assert done.exit_code == 0
    assert done.output.startswith(
        "?c : exists ?n . borders(Brazil, ?n) & capital_of(?c, ?n)\n\n?c: from the best ?n"
    )
    assert done.output.endswith("k + 1 rows in all: 9 at k = 8\n")


def test_a_plan_fills_in_parameters() -> None:
    text = "?c : borders($who, ?n) & capital_of(?c, ?n)"
    plain = "?c : borders(Brazil, ?n) & capital_of(?c, ?n)"
    filled, written = (
        CliRunner().invoke(app, ["plan", *arguments])
        for arguments in ([text, "--param", "who=Brazil"], [plain])
    )
    assert filled.exit_code == 0
    assert filled.output == written.output
    with pytest.raises(QueryError, match="parameter \\$who has no value"):
        CliRunner().invoke(app, ["plan", text], catch_exceptions=False)


def test_the_command_reads_sparql() -> None:
    pytest.importorskip("rdflib")
    done = CliRunner().invoke(app, ["plan", "PREFIX : <tacit:>\nselect ?c { :France :borders ?c }"])
    assert done.output.startswith("?c : borders(France, ?c)\n\n?c: from France over borders")


def test_the_command_checks_names_against_a_graph(tmp_path_factory: pytest.TempPathFactory) -> None:
    path = tmp_path_factory.mktemp("graph") / "facts.tsv"
    path.write_text("France\tborders\tSpain\nSpain\tborders\tPortugal\n")
    done = CliRunner().invoke(app, ["plan", "?c : borders(France, ?c)", "--graph", str(path)])
    assert done.output.endswith("1 row in all: 1 at k = 3, N = 3\n")
    with pytest.raises(
        UnknownName, match=r"unknown entity 'Frnace' at column 14; did you mean 'France'\?"
    ):
        CliRunner().invoke(
            app, ["plan", "?c : borders(Frnace, ?c)", "--graph", str(path)], catch_exceptions=False
        )
