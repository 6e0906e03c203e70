"""Examples of docs/query-language.md and docs/sparql.md do what the pages say."""

from __future__ import annotations

import doctest
import re
import shlex
from dataclasses import replace
from pathlib import Path

import pytest
from typer.testing import CliRunner

from tacit.cli import app
from tacit.engine.engine import Engine
from tacit.errors import TacitError
from tacit.graph.attributes import Attribute, Attributes
from tacit.graph.datasets import load
from tacit.graph.quantities import Kind
from tacit.query.formula import atoms
from tacit.query.plans.compile import compile_query
from tacit.query.question import bind
from tacit.query.sparql.sparql import parse_sparql
from tacit.query.sparql.table_query import TableQuery
from tacit.query.text import MAX_BRACKETS, MAX_CHARACTERS, parse
from tacit.query.value_binding import bind_values

PAGE, SPARQL = (
    (Path(__file__).parents[2] / "docs" / name).read_text(encoding="utf-8")
    for name in ("query-language.md", "sparql.md")
)
WORLD = load("world")


def blocks(kind: str, page: str = PAGE) -> list[str]:
    found = re.findall(rf"^```{kind}\n(.*?)^```", page, flags=re.MULTILINE | re.DOTALL)
    assert found, kind
    return found


@pytest.mark.parametrize("text", [line for block in blocks("text") for line in block.splitlines()])
def test_questions_can_be_asked(text: str) -> None:
    _, relations = bind(compile_query(parse(text)), WORLD)
    assert len(relations) == len(list(atoms(parse(text).formula)))


@pytest.mark.parametrize("text", "".join(blocks("values")).splitlines())
def test_questions_about_values_can_be_asked(text: str) -> None:
    kinds: dict[str, Kind] = {"founded": "date", "died": "date", "runtime": "duration"}
    names = ("population", "area", *kinds)
    listed = [Attribute(n, kinds.get(n, "number"), "km²" * (n == "area")) for n in names]
    graph = replace(WORLD, attributes=Attributes(tuple(listed)))
    assert parse(str(parse(text))) == parse(text)
    bind(compile_query(bind_values(parse(text), graph)), graph)


def test_pairs_are_read_alike() -> None:
    for block in blocks("pairs"):
        for pair in block.strip().split("\n\n"):
            text, meant = pair.splitlines()
            assert str(parse(text)) == meant
            bind(compile_query(parse(text)), WORLD)


@pytest.mark.parametrize(
    "line", [line for block in blocks("refused") for line in block.splitlines()]
)
def test_refusals_say_what_the_page_says(line: str) -> None:
    text, words = re.split(r"\s{2,}", line)
    with pytest.raises(TacitError) as caught:
        bind(compile_query(bind_values(parse(text), WORLD)), WORLD)
    assert words in str(caught.value)


@pytest.mark.parametrize("text", [*blocks("sparql"), *blocks("sparql", SPARQL)])
def test_sparql_can_be_asked(text: str) -> None:
    pytest.importorskip("rdflib")
    parsed = parse_sparql(text, WORLD)
    assert not parsed.unknown
    if isinstance(parsed, TableQuery):
        assert len(Engine.of_facts(WORLD).ask(parsed)) > 0
        return
    _, relations = bind(compile_query(parsed.query), WORLD)
    assert len(relations) == len(list(atoms(parsed.query.formula)))


def test_python_prints_what_the_page_says() -> None:
    parsed = doctest.DocTestParser().get_doctest("".join(blocks("python")), {}, "page", None, None)
    assert doctest.DocTestRunner(verbose=False).run(parsed).failed == 0


def test_commands_print_what_the_page_says() -> None:
    for block in blocks("console"):
        command, _, printed = block.partition("\n")
        done = CliRunner().invoke(app, shlex.split(command.removeprefix("$ tacit ")))
        assert done.output == printed


def test_limits_are_those_of_the_page() -> None:
    assert f"at most {MAX_CHARACTERS:,} characters, 64 atoms, and {MAX_BRACKETS} levels" in PAGE
