"""Many questions from a file: the answers that each has alone, whatever stands beside it."""

from __future__ import annotations

import csv
import io
import json
from collections.abc import Iterator
from pathlib import Path

import pytest
from typer.testing import CliRunner

from served_graphs import europe, open_europe
from tacit.cli import app
from tacit.engine import question_files
from tacit.engine.engine import Engine
from tacit.engine.question_files import Line, Outcome, outcomes, question_lines
from tacit.errors import LimitError, SettingsError, TacitError

NAMES = ["France", "Spain", "Portugal", "New York"]
TEXTS = [
    *(f'?c : borders("{name}", ?c)' for name in NAMES),
    "",
    "?c : boarders(France, ?c)",
    "?l : exists ?c . borders(France, ?c) & speaks(?c, ?l)",
    "PREFIX : <tacit:> SELECT ?c { :France :borders ?c } LIMIT 1",
    '{"query": "?c : $r($who, ?c)", "parameters": {"who": "New York", "r": "borders"}}',
    '{"query": "?c : $r($who, ?c)", "parameters": {"who": "New York"}}',
    '{"query": "?c : borders(France, ?c)", "tpo": 3}',
    '{"query": 7}',
    '{"parameters": []}',
    '{"query": "?c : borders($who, ?c)", "parameters": {"who": "\\ud800"}}',
    "{" * 100_000,
    "?c : borders(Germany, ?c)",
    "?a, ?b : borders(?a, ?b)",
    ": borders(France, Spain)",
    "count ?c : borders(France, ?c)",
]
WRONG = {
    6: "unknown relation 'boarders' at column 6; did you mean 'borders'?",
    10: "parameter $r has no value",
    11: "unknown 'tpo'; a question in JSON has query and parameters",
    12: 'a question in JSON is {"query": "text"',
    13: 'a question in JSON is {"query": "text"',
    14: "the line has half of a surrogate pair",
    15: "the line is no JSON",
}


@pytest.fixture
def question_file(tmp_path: Path) -> Path:
    path = tmp_path / "questions.txt"
    path.write_bytes(b"\xef\xbb\xbf" + "\r\n".join(TEXTS).encode() + b"\n?c : borders(\xff, ?c)\n")
    return path


def single_record(engine: Engine, text: str) -> dict[str, object]:
    """Return the answers to a question that is asked alone, as a record."""
    if text.startswith("{"):
        row = json.loads(text)
        return engine.ask(row["query"], top=3, **row["parameters"]).to_dict()
    return engine.ask(text, top=3).to_dict()


def test_each_line_has_its_answers_or_its_error(question_file: Path) -> None:
    engine = open_europe()
    records = {
        o.line.number: o.to_dict()
        for o in outcomes(engine, question_lines(question_file, {}), top=3)
    }
    assert list(records) == [n for n in range(1, 21) if n != 5]
    rows = {
        o.line.number: o.rows() for o in outcomes(engine, question_lines(question_file, {}), top=3)
    }
    both = [(a.values["a"], a.values["b"]) for a in engine.ask("?a, ?b : borders(?a, ?b)", top=3)]
    assert [(row[3], *json.loads(row[5]).values()) for row in rows[17]] == [
        ("", a, b) for a, b in both
    ]
    assert [row[2:6] for row in rows[18]] == [(1, "", "", "{}")]
    assert json.loads(rows[19][0][5]) == engine.count("?c : borders(France, ?c)")._asdict()
    assert records[20]["error"]["message"] == "the line is not UTF-8"
    for number, text in enumerate(TEXTS, start=1):
        if number in WRONG:
            assert WRONG[number] in records[number]["error"]["message"]
            assert records[number]["query"] == text
        elif text:
            assert records[number] == {"line": number, **single_record(engine, text)}


class Refusing(Engine):
    """An engine to which one answer is too much, alone or among others."""

    def ask_many(self, queries, *page, **options):  # type: ignore[no-untyped-def]
        if any(question.query.text.startswith("?c : borders(Spain") for question in queries):
            raise LimitError("that is too much")
        return super().ask_many(queries, *page, **options)


def test_an_error_of_the_search_is_that_of_its_question_alone() -> None:
    plain = open_europe()
    texts = [f"?c : borders({name}, ?c)" for name in ("France", "Spain", "Poland")]
    engine = Refusing(plain.graph, plain.scorer, plain.settings)
    lines = [Line(number, text, text) for number, text in enumerate(texts)]
    first, second, third = (outcome.result for outcome in outcomes(engine, lines))
    assert (first, third) == (plain.ask(texts[0], top="likely"), plain.ask(texts[2], top="likely"))
    assert str(second) == "that is too much"


def test_no_more_is_read_than_is_asked_together(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(question_files, "_TOGETHER", 4)
    read = 0

    def lines() -> Iterator[Line]:
        nonlocal read
        while True:  # for ever: who read on before it answers would never end
            read += 1
            yield Line(read, "", "?c : borders(France, ?c)")

    some = outcomes(open_europe(), lines())
    assert [(next(some).line.number, read) for _ in range(6)] == [
        (1, 4),
        (2, 4),
        (3, 4),
        (4, 4),
        (5, 8),
        (6, 8),
    ]
    with pytest.raises(SettingsError, match="top must be at least 1"):
        next(outcomes(open_europe(), lines(), top=0))


def rows_of(many: list[Outcome]) -> list[list[str]]:
    """The table as it should be, by plain Python."""
    rows = []
    for line, result in many:
        if isinstance(result, TacitError):
            rows.append([str(line.number), line.text, "", "", "", "", "", "", str(result)])
        elif not result:
            rows.append([str(line.number), result.query, "", "", "", "", "", "", ""])
        else:
            for rank, a in enumerate(result, start=1):
                cells = [str(rank), a.entity, a.name, f'{{"c": "{a.entity}"}}', f"{a.score:.6g}"]
                rows.append(
                    [str(line.number), result.query, *cells, "true" if a.known else "false", ""]
                )
    return rows


@pytest.mark.parametrize("kind", ["jsonl", "csv", "parquet", "csv.gz"])
def test_the_command_writes_them_and_its_exit_code_tells(tmp_path: Path, kind: str) -> None:
    facts = tmp_path / "facts.tsv"
    graph = europe()
    triples = [
        (graph.entities[s], graph.relations[r], graph.entities[o])
        for s, r, o in graph.train.tolist()
    ]
    facts.write_text("".join("\t".join(triple) + "\n" for triple in triples), encoding="utf-8")
    lines = [
        "?c : borders($who, ?c)",
        "?c : speaks($who, ?c)",
        "?c : borders($who, ?x) & speaks(?x, ?c)",
    ]
    out = tmp_path / f"answers.{kind}"
    call = ["ask", str(facts), "--symbolic", "--param", "who=New York", "--top", "all"]
    done = CliRunner().invoke(
        app, [*call, "--file", "-", "--out", str(out)], input="\n".join(lines)
    )
    assert (done.exit_code, done.stdout) == (0, f"wrote the answers to 3 questions to {out}\n")
    lines.insert(1, "?c : borders(")
    (tmp_path / "q.txt").write_text("\n".join(lines), encoding="utf-8")
    done = CliRunner().invoke(app, [*call, "--file", str(tmp_path / "q.txt"), "--out", str(out)])
    assert done.exit_code == 1
    assert "error: 1 of 4 questions could not be answered; line 2: the question ends" in done.stderr

    engine = open_europe().with_settings(search="symbolic")
    many = list(outcomes(engine, question_lines(tmp_path / "q.txt", {"who": "New York"}), top=None))
    assert [
        len(outcome.result) if not isinstance(outcome.result, TacitError) else -1
        for outcome in many
    ] == [
        1,
        -1,
        0,
        0,
    ]
    if kind == "jsonl":
        records = [json.loads(line) for line in out.read_text(encoding="utf-8").splitlines()]
        assert records == [outcome.to_dict() for outcome in many]
        shown = CliRunner().invoke(app, [*call, "--file", str(tmp_path / "q.txt"), "--json"]).stdout
        assert shown == out.read_text(encoding="utf-8")
    elif kind == "parquet":
        import duckdb

        table = duckdb.read_parquet(str(out)).fetchall()
        words = [["" if cell is None else str(cell) for cell in row] for row in table]
        assert [[*row[:6], *row[8:]] for row in words] == [
            [*row[:6], *row[8:]] for row in rows_of(many)
        ]
    else:
        import gzip

        text = (
            gzip.decompress(out.read_bytes()).decode()
            if kind.endswith("gz")
            else out.read_text(encoding="utf-8")
        )
        assert list(csv.reader(io.StringIO(text)))[1:] == rows_of(many)


@pytest.mark.parametrize(
    ("options", "says"),
    [
        ([], "no question is given; write one after"),
        (["?c : r(a, ?c)", "--file", "-"], "a question and --file are given; leave one out"),
        (
            ["--file", "-", "--out", "x.ttl"],
            "--out is 'x.ttl'; a file of answers must end in .jsonl, .csv or .parquet",
        ),
        (["?c : r(a, ?c)", "--param", "who"], "--param is 'who'; it must be NAME=LABEL"),
        (
            ["?c : r($w, ?c)", "--param", "w=a", "--param", "$w=b"],
            "--param gives w two labels, 'a' and 'b'",
        ),
        (
            ["?c : r(a, ?c)", "--top", "many"],
            "--top is 'many'; it must be a whole number, likely, or all",
        ),
        (["--file", "no.txt"], "no.txt: no such file"),
    ],
)
def test_what_cannot_be_asked(tmp_path: Path, options: list[str], says: str) -> None:
    (tmp_path / "g.tsv").write_text("a\tr\tb\n")
    error = (
        CliRunner().invoke(app, ["ask", str(tmp_path / "g.tsv"), "--symbolic", *options]).exception
    )
    assert isinstance(error, TacitError)
    assert says in str(error)


def test_options_that_fit_no_question_are_refused_before_the_first_line() -> None:
    unobserved = open_europe().with_settings(observed="none")
    with pytest.raises(SettingsError, match="new leaves out what is known"):
        next(outcomes(unobserved, iter([Line(1, "x", ("?c : borders(France, ?c)", {}))]), new=True))
