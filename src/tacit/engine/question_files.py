"""Files of many questions and of their answers, processed as a stream."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterable, Iterator, Mapping
from contextlib import nullcontext
from dataclasses import dataclass, field
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from tacit.engine.answers.answers import Answer, Answers
from tacit.engine.engine import Engine
from tacit.engine.questions import BoundQuery, ListLength, Question, retry_individually
from tacit.errors import DataError, QueryError, TacitError
from tacit.graph.builder import counted
from tacit.graph.formats.files import BOM, LONGEST_LINE, extension, open_file
from tacit.graph.formats.writing import (
    INTEGER,
    NUMBER,
    TEXT,
    TRUTH,
    check_format,
    write_lines,
    write_table,
)

if TYPE_CHECKING:
    from tacit.query.sparql.table_query import TableQuery

FORMATS = (".jsonl", ".csv", ".parquet")
_TOGETHER = 1024  # questions held at once; those of one structure run as a batch
_COLUMNS = {
    "line": INTEGER,
    "query": TEXT,
    "rank": INTEGER,
    "entity": TEXT,
    "name": TEXT,
    "values": TEXT,
    "score": NUMBER,
    "known": TRUTH,
    "error": TEXT,
}


@dataclass(frozen=True)
class Line:
    """A line of a question file: its number, its text, and its question or an error."""

    number: int
    text: str
    question: Question | TacitError = field(hash=False)  # parameters are a dict


def _values(answer: Answer) -> str:
    """The labels and the values of attributes of an answer, as JSON."""
    quantities = {name: value and value.plain for name, value in answer.quantities.items()}
    return json.dumps(answer.values | quantities, ensure_ascii=False)


class Outcome(NamedTuple):
    """The result of a line: answers, or an error."""

    line: Line
    result: Answers | TacitError

    def to_dict(self) -> dict[str, Any]:
        """The result as plain data for JSON."""
        data: dict[str, Any] = {"line": self.line.number}
        if isinstance(self.result, TacitError):
            return data | {"query": self.line.text, "error": self.result.to_dict()}
        return data | self.result.to_dict()

    def rows(self) -> list[tuple[Any, ...]]:
        """The rows of a table: one for each answer, or a single one with the error."""
        number, text = self.line.number, self.line.text
        if isinstance(self.result, TacitError):
            return [(number, text, *[None] * 6, self.result.to_dict()["message"])]
        rows: list[tuple[Any, ...]] = [
            (rank, a.entity, a.name, _values(a), a.score, a.known) for rank, a in self.result.ranked
        ]
        if self.result.counted is not None:
            rows = [(None, None, None, json.dumps(self.result.counted._asdict()), None, None)]
        return [(number, self.result.query, *row, None) for row in rows or [(None,) * 6]]


@dataclass
class Tally:
    """The number of questions asked and failed, and the first failure.

    `cut` counts answer lists that leave out likely answers.
    """

    asked: int = 0
    failed: int = 0
    cut: int = 0
    first: Outcome | None = None

    def over(self, outcomes: Iterable[Outcome]) -> Iterator[Outcome]:
        """Pass outcomes through and count them."""
        for outcome in outcomes:
            self.asked += 1
            if isinstance(outcome.result, TacitError):
                self.failed += 1
                self.first = self.first or outcome
            else:
                self.cut += outcome.result.misses_likely
            yield outcome

    def __str__(self) -> str:
        summary = f"{self.failed:,} of {counted(self.asked, 'question')} could not be answered"
        if self.first is None:
            return summary
        return f"{summary}; line {self.first.line.number}: {self.first.result}"


@dataclass(frozen=True)
class AskedFile:
    """The questions of a file, asked as one iterates over the results; see `Run.ask_file`.

    A wrong line does not keep the others from their answers.
    """

    engine: Engine
    path: Path
    parameters: Mapping[str, str] = field(hash=False)
    options: Mapping[str, Any] = field(hash=False)  # of `Engine.ask_many`

    def __iter__(self) -> Iterator[Outcome]:
        return outcomes(self.engine, question_lines(self.path, self.parameters), **self.options)

    def write(self, path: str | Path) -> Tally:
        """Write the results as they come to a `.jsonl`, `.csv` or `.parquet` file."""
        check_format(Path(path), FORMATS, "answers")
        tally = Tally()
        results = tally.over(self)
        if extension(Path(path)) == ".jsonl":
            write_lines(path, (json.dumps(each.to_dict(), ensure_ascii=False) for each in results))
        else:
            write_table(path, _COLUMNS, (row for each in results for row in each.rows()))
        return tally


def question_lines(path: Path, parameters: Mapping[str, str]) -> Iterator[Line]:
    """Yield the questions of a file, one a line.

    A line is text or SPARQL, or a JSON object with `query` and `parameters`. `parameters` are given
    to every line, beside its own. Empty lines are skipped; `-` is standard input.
    """
    with nullcontext(sys.stdin.buffer) if str(path) == "-" else open_file(path) as file:
        for number, raw in enumerate(iter(lambda: file.readline(LONGEST_LINE), b""), start=1):
            if len(raw) == LONGEST_LINE and not raw.endswith(b"\n"):
                raise DataError(
                    f"is longer than {LONGEST_LINE >> 20} MB; is this a text file?", path, number
                )
            raw = raw.removeprefix(BOM if number == 1 else b"").strip()
            if raw:
                yield Line(number, raw.decode("utf-8", "replace"), _question(raw, parameters))


def _question(raw: bytes, parameters: Mapping[str, str]) -> Question | QueryError:
    """Parse a line into its question, or the error of why it is none."""
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
    query = row.get("query")
    own = row.get("parameters", {})
    if not isinstance(query, str) or not isinstance(own, dict):
        raise QueryError(
            'a question in JSON is {"query": "text", "parameters": {"name": "label"}}, the latter '
            "optional"
        )
    return query, {**parameters, **own}


def outcomes(
    engine: Engine, lines: Iterable[Line], top: ListLength = "likely", **options: Any
) -> Iterator[Outcome]:
    """Yield the result of each line, in order; a wrong line leaves the others unharmed.

    The options are those of `Engine.ask_many`.
    """
    # Refuse wrong options at once, rather than once per question.
    engine.ask_many([], top, **options)
    remaining = iter(lines)
    while chunk := list(islice(remaining, _TOGETHER)):
        questions = [_bind(engine, line.question) for line in chunk]
        bound = [question for question in questions if not isinstance(question, TacitError)]
        answers = iter(
            retry_individually(
                lambda part: engine.ask_many(part, top, **options), bound, TacitError
            )
        )
        for line, question in zip(chunk, questions, strict=True):
            yield Outcome(line, question if isinstance(question, TacitError) else next(answers))


def _bind(engine: Engine, question: Question | TacitError) -> BoundQuery | TableQuery | TacitError:
    try:
        return question if isinstance(question, TacitError) else engine.read(question)
    except TacitError as error:
        return error
