"""Ranked answers, with the reason for each, ready to be read by people and programs."""

from __future__ import annotations

import json
import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple, overload

from tacit.engine.answers import answer_files
from tacit.engine.answers.witnesses import Witness
from tacit.errors import QueryError
from tacit.graph.labels.prefixes import Prefixes

if TYPE_CHECKING:
    import pandas as pd

LIKELY = 0.5  # the score from which an answer is taken to hold rather than not: sensible answers end below it


@dataclass(frozen=True)
class Answer:
    """What answers a question: an entity by label and readable name, its score in [0, 1], and why.

    `values` are the labels of the variables that were asked for, `names` their readable names. Where that is not one,
    `entity` is empty and `id` -1.
    """

    entity: str
    id: int
    score: float
    log_score: float
    known: bool  # the graph alone implies it
    witnesses: tuple[Witness, ...] = ()
    name: str = ""
    values: dict[str, str] = field(default_factory=dict, hash=False)
    names: dict[str, str] = field(default_factory=dict, hash=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "name", self.name or ", ".join(self.names.values()) or self.entity)

    def __str__(self) -> str:
        return f"{self.name}  {self.score:.3f} {self.mark}".lstrip()  # what is asked by yes or no has no name

    @property
    def mark(self) -> str:
        """What the answer is, in a word."""
        return "known" if self.known else "predicted"

    def to_dict(self) -> dict[str, Any]:
        """Plain data, as JSON needs it."""
        data: dict[str, Any] = {"entity": self.entity, "name": self.name} if self.entity else {}
        data |= {
            "values": self.values,
            "names": self.names,
            "score": self.score,
            "log_score": self.log_score if math.isfinite(self.log_score) else None,
            "known": self.known,
        }
        return data | ({"witnesses": [witness.to_dict() for witness in self.witnesses]} if self.witnesses else {})


class Count(NamedTuple):
    """How many answers there are: those that the known facts imply, and how many are expected in all.

    Each answer is expected with its score; what the facts imply counts whole, unless a negation is part of the
    question: a fact that is missing may then rule it out.
    """

    known: int
    expected: float


@dataclass(frozen=True)
class Answers(Sequence[Answer]):
    """The best answers to a question, best first: a sequence of `Answer` that prints as a table.

    `kind` says what they are: `entities`, `tuples` of them or `relations`, with a value for each of the `variables`;
    `truth`, a single answer without values; or `count`, none, with `counted` in their place.

    `entities` are their labels; `to_pandas()`, `to_json()` and `to_dict()` hand them on, `to_csv`, `to_parquet` and
    `to_rdf` write them to files; a notebook shows them as HTML.
    """

    query: str
    answers: tuple[Answer, ...]
    certified: bool | None = None  # whether dropped candidates provably change nothing; None where nobody asked
    settings: dict[str, Any] = field(default_factory=dict)
    explained: bool | None = None  # whether there are reasons; None where nobody asked, False where a search has none
    rows: int | None = None  # how many candidates were followed, each by a row of scores; None where nobody counted
    left_out: int | None = None  # how many known answers are not listed; None unless only new ones were asked for
    estimated: bool = False  # whether scores are shares of sums that were estimated
    kind: str = "entities"
    variables: tuple[str, ...] = ()  # what was asked for, without question marks
    counted: Count | None = None  # how many there are, where that was asked
    offset: int = 0  # how many better answers come before these
    prefixes: Prefixes = field(default_factory=Prefixes, compare=False)  # what makes IRIs of labels
    leading: int = 0  # how many of the first answers are proven where not all are
    ordered_by: str = ""  # the name of what scored them, where its scores are no probabilities

    @overload
    def __getitem__(self, position: int) -> Answer: ...
    @overload
    def __getitem__(self, position: slice) -> tuple[Answer, ...]: ...
    def __getitem__(self, position: int | slice) -> Answer | tuple[Answer, ...]:
        return self.answers[position]

    def __len__(self) -> int:
        return len(self.answers)

    def __iter__(self) -> Iterator[Answer]:
        return iter(self.answers)

    @property
    def entities(self) -> list[str]:
        """The labels of the answers, best first, where one variable was asked for."""
        if self.kind not in ("entities", "relations"):
            raise QueryError(f"the answers are {self.kind}, not one entity each; see kind, values and counted")
        return [answer.entity for answer in self.answers]

    @property
    def ranked(self) -> Iterator[tuple[int, Answer]]:
        """The answers, each with its place among all."""
        return enumerate(self.answers, start=self.offset + 1)

    def by_score(self) -> Answers:
        """The same answers by falling score alone, known ones no longer first; which of these is first, is open."""
        leading = 0 if any(answer.known for answer in self) else self.leading
        return replace(self, answers=tuple(sorted(self, key=lambda answer: -answer.score)), leading=leading)

    @property
    def proven(self) -> int | None:
        """How many of the first of these are provably those of exact search, scores included; None as above."""
        return None if self.certified is None else len(self.answers) if self.certified else self.leading

    @property
    def likely(self) -> int:
        """How many of these answers have a score of `LIKELY` or more."""
        return sum(answer.score >= LIKELY for answer in self.answers)

    @property
    def uncalibrated(self) -> str:
        """That scores are no probabilities, where they are none; nothing elsewhere."""
        name = self.ordered_by
        return f"Scores of {name} order the answers; they are no probabilities." if name else ""

    def to_dict(self) -> dict[str, Any]:
        """Plain data, as JSON needs it."""
        rows = [{"rank": rank} | answer.to_dict() for rank, answer in self.ranked]
        told: dict[str, Any] = {"certified": self.certified, "proven": self.proven}
        told |= {"explained": self.explained, "estimated": self.estimated}
        likely = None if self.uncalibrated else self.likely
        told |= {"offset": self.offset, "likely": likely, "threshold": LIKELY}
        told |= {"uncalibrated": self.uncalibrated} if self.uncalibrated else {}
        told |= {} if self.left_out is None else {"left_out": self.left_out}
        told |= {} if self.counted is None else {"count": self.counted._asdict()}
        return {"query": self.query, "kind": self.kind, "variables": list(self.variables), **told, "answers": rows}

    def to_json(self, indent: int | None = None) -> str:
        """The answers as JSON text."""
        return json.dumps(self.to_dict(), ensure_ascii=False, indent=indent)

    def to_pandas(self) -> pd.DataFrame:
        """One row per answer, with a column for each of several variables; the first witness's variables as columns."""
        import pandas as pd

        return pd.DataFrame(answer_files.rows(self), columns=list(answer_files.columns(self)))

    def to_csv(self, path: str | Path) -> None:
        """Write a row for each answer, with the columns of `to_pandas`, below a line that names them."""
        answer_files.write(path, self, ".csv")

    def to_parquet(self, path: str | Path) -> None:
        """Write the same table as Parquet."""
        answer_files.write(path, self, ".parquet")

    def to_rdf(self, path: str | Path) -> None:
        """Write the answers as RDF, in N-Triples, which Turtle includes: solutions of W3C's result set vocabulary.

        Each solution has an index, bindings of variables to terms, and `tacit:score` and `tacit:known` of its own.
        """
        answer_files.write(path, self, ".nt")

    @property
    def truth(self) -> str:
        """Whether a yes/no question is rather to be answered with yes or with no: from a score of `LIKELY` on, yes."""
        return "yes" if self.likely else "no"

    def __str__(self) -> str:
        from tacit.engine.answers.answer_table import AnswerTable  # here, since it is one of answers

        return str(AnswerTable(self))

    __repr__ = __str__  # what a prompt shows is what a person reads

    def _repr_html_(self) -> str:
        from tacit.engine.answers.answer_table import AnswerTable

        return AnswerTable(self).html()
