"""Files of many questions, and of their answers: read, asked and written as they come."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterable, Iterator, Mapping
from contextlib import nullcontext
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from typing import Any, NamedTuple

from tacit.engine.answers.answers import Answers
from tacit.engine.asked import Asked, Question, alone_where_wrong
from tacit.engine.engine import Engine
from tacit.errors import DataError, QueryError, TacitError
from tacit.graph.builder import counted
from tacit.graph.formats.files import BOM, LONGEST_LINE, extension, opened
from tacit.graph.formats.writing import NUMBER, TEXT, TRUTH, WHOLE, check_format, write_lines, write_table

FORMATS = (".jsonl", ".csv", ".parquet")
_TOGETHER = 1024  # questions that are held at once, and run as a batch where they share a structure
_COLUMNS = {
    "line": WHOLE, "query": TEXT, "rank": WHOLE, "entity": TEXT, "name": TEXT, "values": TEXT, "score": NUMBER,
    "known": TRUTH, "error": TEXT,
}  # fmt: skip


class Line(NamedTuple):
    """A line of a file of questions: its number and text, and what it asks, or why that is no question."""

    number: int
    text: str
    question: Question | TacitError


class Outcome(NamedTuple):
    """What came of a line: answers, or an error."""

    line: Line
    result: Answers | TacitError

    def to_dict(self) -> dict[str, Any]:
        """Plain data, as JSON needs it."""
        if isinstance(self.result, TacitError):
            return {"line": self.line.number, "query": self.line.text, "error": self.result.to_dict()}
        return {"line": self.line.number, **self.result.to_dict()}

    def rows(self) -> list[tuple[Any, ...]]:
        """Rows of a table: one for each answer, or one that has none, and says why."""
        if isinstance(self.result, TacitError):
            return [(self.line.number, self.line.text, *[None] * 6, self.result.to_dict()["message"])]
        rows: list[tuple[Any, ...]] = [
            (rank, a.entity, a.name, json.dumps(a.values, ensure_ascii=False), a.score, a.known, None)
            for rank, a in self.result.ranked
        ]
        if self.result.counted is not None:
            rows = [(None, None, None, json.dumps(self.result.counted._asdict()), None, None, None)]
        return [(self.line.number, self.result.query, *row) for row in rows or [(None,) * 7]]


@dataclass
class Tally:
    """How many questions were asked, how many of them could not be answered, and the first of these."""

    asked: int = 0
    failed: int = 0
    first: Outcome | None = None

    def over(self, many: Iterable[Outcome]) -> Iterator[Outcome]:
        """The same outcomes, counted as they come."""
        for outcome in many:
            self.asked += 1
            if isinstance(outcome.result, TacitError):
                self.failed += 1
                self.first = self.first or outcome
            yield outcome

    def __str__(self) -> str:
        told = f"{self.failed:,} of {counted(self.asked, 'question')} could not be answered"
        return f"{told}; line {self.first.line.number}: {self.first.result}" if self.first else told


@dataclass(frozen=True)
class AskedFile:
    """The questions of a file, asked as one iterates over what comes of each; `Run.ask_file` makes it.

    A line that is wrong keeps none of the others from their answers.
    """

    engine: Engine
    path: Path
    parameters: Mapping[str, str]
    options: Mapping[str, Any]  # of `Engine.ask_many`

    def __iter__(self) -> Iterator[Outcome]:
        return outcomes(self.engine, question_lines(self.path, self.parameters), **self.options)

    def write(self, path: str | Path) -> Tally:
        """Write what comes of them as it comes, to a `.jsonl`, `.csv` or `.parquet` file."""
        check_format(Path(path), FORMATS, "answers")
        tally = Tally()
        many = tally.over(self)
        if extension(Path(path)) == ".jsonl":
            write_lines(path, (json.dumps(each.to_dict(), ensure_ascii=False) for each in many))
        else:
            write_table(path, _COLUMNS, (row for each in many for row in each.rows()))
        return tally


def question_lines(path: Path, parameters: Mapping[str, str]) -> Iterator[Line]:
    """The questions of a file, one a line: in text or SPARQL, or a JSON object with `query` and `parameters`.

    The parameters given here are those of every line, beside its own. Empty lines are none; `-` is standard input.
    """
    with nullcontext(sys.stdin.buffer) if str(path) == "-" else opened(path) as file:
        for number, raw in enumerate(iter(lambda: file.readline(LONGEST_LINE), b""), start=1):
            if len(raw) == LONGEST_LINE and not raw.endswith(b"\n"):
                raise DataError(f"is longer than {LONGEST_LINE >> 20} MB; is this a text file?", path, number)
            raw = raw.removeprefix(BOM if number == 1 else b"").strip()
            if raw:
                yield Line(number, raw.decode("utf-8", "replace"), _question(raw, parameters))


def _question(raw: bytes, parameters: Mapping[str, str]) -> Question | QueryError:
    """What a line asks, or why it is no question."""
    try:
        text = raw.decode()
        return _from_json(text, parameters) if text.startswith("{") else (text, parameters)
    except UnicodeDecodeError:
        return QueryError("the line is not UTF-8")
    except QueryError as error:
        return error


def _from_json(text: str, parameters: Mapping[str, str]) -> Question:
    try:
        row = json.loads(text)
        json.dumps(row, ensure_ascii=False).encode()
    except UnicodeEncodeError:
        raise QueryError("the line has half of a surrogate pair, which is no letter") from None
    except (ValueError, RecursionError) as error:
        raise QueryError(f"the line is no JSON: {error}") from None
    for name in row:
        if name not in ("query", "parameters"):
            raise QueryError(f"unknown '{name}'; a question in JSON has query and parameters")
    query, own = row.get("query"), row.get("parameters", {})
    if not isinstance(query, str) or not isinstance(own, dict):
        raise QueryError(
            'a question in JSON is {"query": "text", "parameters": {"name": "label"}}, the latter optional'
        )
    return query, {**parameters, **own}


def outcomes(engine: Engine, lines: Iterable[Line], top: int | None = 10, **options: Any) -> Iterator[Outcome]:
    """What comes of each line, in order; those that are wrong keep none of the others from their answers.

    The options are those of `Engine.ask_many`.
    """
    engine.ask_many([], top, **options)  # what is wrong with the options is not the questions' fault
    left = iter(lines)
    while chunk := list(islice(left, _TOGETHER)):
        prepared = [_prepared(engine, line.question) for line in chunk]
        asked = [question for question in prepared if isinstance(question, Asked)]
        answers = iter(alone_where_wrong(lambda part: engine.ask_many(part, top, **options), asked, TacitError))
        for line, question in zip(chunk, prepared, strict=True):
            yield Outcome(line, next(answers) if isinstance(question, Asked) else question)


def _prepared(engine: Engine, question: Question | TacitError) -> Asked | TacitError:
    try:
        return question if isinstance(question, TacitError) else engine.prepare(question)
    except TacitError as error:
        return error
