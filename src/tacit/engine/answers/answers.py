"""Ranked answers with reasons, for people and programs."""

from __future__ import annotations

import json
import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple, overload

from tacit.engine.answers import answer_files
from tacit.engine.answers.answer_values import AnswerValue
from tacit.engine.answers.witnesses import Witness
from tacit.errors import QueryError
from tacit.graph.formats.frames import Library, make_frame
from tacit.graph.formats.writing import data_frame
from tacit.graph.labels.prefixes import Prefixes
from tacit.query.sparql.terms import Term

if TYPE_CHECKING:
    import pandas as pd

LIKELY = 0.5  # the score from which an answer counts as true


@dataclass(frozen=True)
class Answer:
    """An answer: an entity by label and readable name, its score in [0, 1], and its reasons.

    `values` are the labels of all answer variables, `names` their readable names. Where there is
    not exactly one variable, `entity` is empty and `id` is -1. An answer of a table has the RDF
    `terms` of the values that it binds, and empty texts for the others. `quantities` are the values
    of attributes that the question asks for or is ordered by; None where there is none.
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
    quantities: dict[str, AnswerValue | None] = field(default_factory=dict, hash=False)
    terms: dict[str, Term] | None = field(default=None, hash=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "name", self.name or ", ".join(self.names.values()) or self.entity)

    def __str__(self) -> str:
        # A truth value has no name.
        values = "".join(f"  {value}" for value in self.quantities.values() if value)
        return f"{self.name}{values}  {self.score:.3f} {self.mark}".lstrip()

    @property
    def mark(self) -> str:
        """`known` or `predicted`."""
        return "known" if self.known else "predicted"

    def to_dict(self) -> dict[str, Any]:
        """The answer as plain data for JSON."""
        data: dict[str, Any] = {"entity": self.entity, "name": self.name} if self.entity else {}
        bound = self.values if self.terms is None else self.terms
        data |= {
            "values": {name: self.values[name] for name in bound},
            "names": {name: self.names[name] for name in bound},
            "score": self.score,
            "log_score": self.log_score if math.isfinite(self.log_score) else None,
            "known": self.known,
        }
        if self.quantities:
            data["quantities"] = {
                name: value and value.to_dict() for name, value in self.quantities.items()
            }
        if self.witnesses:
            data["witnesses"] = [witness.to_dict() for witness in self.witnesses]
        return data


class Count(NamedTuple):
    """The number of answers: those that the known facts imply, and all expected ones.

    The expected number is the sum of the answers' scores. Implied answers count whole, unless the
    question has a negation: a missing fact may then rule them out.
    """

    known: int
    expected: float


@dataclass(frozen=True)
class Answers(Sequence[Answer]):
    """The best answers to a question, best first; a sequence that prints as a table.

    `kind` says what they are: `entities`, `tuples` of them or `relations`, with a value for each of
    the `variables`; `truth`, a single answer without values; or `count`, none, with `counted` in
    their place.

    `entities` are their labels; `to_pandas()`, `to_frame("polars")`, `to_json()` and `to_dict()`
    convert them, `to_csv`, `to_parquet` and `to_rdf` write them to files; a notebook shows them as
    HTML.
    """

    query: str
    answers: tuple[Answer, ...]
    # whether dropped candidates provably change nothing; None where that was not examined
    certified: bool | None = None
    settings: dict[str, Any] = field(default_factory=dict, hash=False)
    # whether there are reasons; None without `explain`, False where a search has none
    explained: bool | None = None
    # how many candidates were expanded, each by a row of scores; None where that is not counted
    rows: int | None = None
    # how many known answers are not listed; None unless only new answers are listed
    left_out: int | None = None
    # how many answers are known, listed or not; None for a truth value or a count
    known_total: int | None = None
    known_at_least: bool = False  # whether more may be known: the count of tuples is capped
    # what ends the list where others may follow: `top`, `LIMIT` or `likely`
    cut_by: str | None = None
    estimated: bool = False  # whether scores are shares of sums that were estimated
    kind: str = "entities"
    variables: tuple[str, ...] = ()  # the answer variables, without question marks
    counted: Count | None = None  # the result of a count
    offset: int = 0  # how many better answers come before these
    prefixes: Prefixes = field(default_factory=Prefixes, compare=False)  # expand labels to IRIs
    leading: int = 0  # how many of the first answers are proven where not all are
    ordered_by: str = ""  # the reasoner's name, where its scores are no probabilities
    unknown: tuple[str, ...] = ()  # what is wrong with IRIs that the graph does not have
    quantities: tuple[str, ...] = ()  # the columns of values: `?n`, or as `population(?c)`

    @overload
    def __getitem__(self, position: int) -> Answer: ...
    @overload
    def __getitem__(self, position: slice) -> tuple[Answer, ...]: ...
    def __getitem__(self, position: int | slice) -> Answer | tuple[Answer, ...]:
        return self.answers[position]

    def __len__(self) -> int:
        return len(self.answers)

    @property
    def entities(self) -> list[str]:
        """The labels of the answers, best first; for a single answer variable only."""
        if self.kind not in ("entities", "relations"):
            raise QueryError(
                f"the answers are {self.kind}, not one entity each; see kind, values and counted"
            )
        return [answer.entity for answer in self.answers]

    @property
    def ranked(self) -> Iterator[tuple[int, Answer]]:
        """The answers with their ranks among all."""
        return enumerate(self.answers, start=self.offset + 1)

    def by_score(self) -> Answers:
        """Sort the answers by falling score alone, known ones no longer first.

        It is then open which of the known ones is first.
        """
        leading = 0 if any(answer.known for answer in self) else self.leading
        return replace(
            self, answers=tuple(sorted(self, key=lambda answer: -answer.score)), leading=leading
        )

    @property
    def proven(self) -> int | None:
        """How many of the first answers are provably those of exact search, scores included.

        None where that was not examined.
        """
        if self.certified is None:
            return None
        return len(self.answers) if self.certified else self.leading

    @property
    def likely(self) -> int:
        """How many of these answers have a score of `LIKELY` or more."""
        return sum(answer.score >= LIKELY for answer in self.answers)

    @property
    def misses_likely(self) -> bool:
        """Whether the list may end before its likely answers do.

        Then known answers are missing, or the last one is likely itself.
        """
        if self.cut_by is None or not self.answers:
            return self.cut_by is not None
        last_is_likely = bool(self.uncalibrated or self.answers[-1].score >= LIKELY)
        return self.misses_known or (last_is_likely and self.cut_by != "likely")

    @property
    def misses_known(self) -> bool:
        """Whether known answers are missing from a list and from the answers before its offset."""
        listed = sum(answer.known for answer in self) + self.offset
        return self.left_out is None and (self.known_total or 0) > listed

    @property
    def uncalibrated(self) -> str:
        """A note that scores are no probabilities; empty where they are."""
        name = self.ordered_by
        return f"Scores of {name} order the answers; they are no probabilities." if name else ""

    def to_dict(self) -> dict[str, Any]:
        """The answers as plain data for JSON."""
        optional = {
            "left_out": self.left_out,
            "count": None if self.counted is None else self.counted._asdict(),
        }
        return {
            "query": self.query,
            "kind": self.kind,
            "variables": list(self.variables),
            **({"quantities": list(self.quantities)} if self.quantities else {}),
            "certified": self.certified,
            "proven": self.proven,
            "explained": self.explained,
            "estimated": self.estimated,
            "offset": self.offset,
            "likely": None if self.uncalibrated else self.likely,
            "threshold": LIKELY,
            **({"uncalibrated": self.uncalibrated} if self.uncalibrated else {}),
            "cut_by": self.cut_by,
            **({"unknown": list(self.unknown)} if self.unknown else {}),
            "known_total": self.known_total,
            "known_at_least": self.known_at_least,
            **{name: value for name, value in optional.items() if value is not None},
            "answers": [{"rank": rank} | answer.to_dict() for rank, answer in self.ranked],
        }

    def to_json(self, indent: int | None = None) -> str:
        """The answers as JSON text."""
        return json.dumps(self.to_dict(), ensure_ascii=False, indent=indent)

    def to_pandas(self) -> pd.DataFrame:
        """One row per answer, with a column for each of several variables.

        Further columns are the variables of the first witness.
        """
        return data_frame(answer_files.rows(self), answer_files.columns(self))

    def to_frame(self, library: Library = "pandas") -> Any:
        """The table of `to_pandas` as a frame of `pandas`, `polars` or `pyarrow`."""
        return make_frame(answer_files.columns(self), answer_files.rows(self), library)

    def to_csv(self, path: str | Path) -> None:
        """Write the table of `to_pandas` as CSV, with a header line."""
        answer_files.write(path, self, ".csv")

    def to_parquet(self, path: str | Path) -> None:
        """Write the table of `to_pandas` as Parquet."""
        answer_files.write(path, self, ".parquet")

    def to_rdf(self, path: str | Path) -> None:
        """Write the answers as N-Triples, in W3C's result set vocabulary.

        Turtle includes N-Triples. Each solution has an index, bindings of variables to terms, and
        `tacit:score` and `tacit:known` of its own.
        """
        answer_files.write(path, self, ".nt")

    @property
    def truth(self) -> str:
        """The answer to a yes/no question: yes from a score of `LIKELY` on, else no."""
        return "yes" if self.likely else "no"

    def __str__(self) -> str:
        # Imported here, since the table imports this module.
        from tacit.engine.answers.answer_table import AnswerTable

        return str(AnswerTable(self))

    __repr__ = __str__  # an interactive prompt shows the table

    def _repr_html_(self) -> str:
        from tacit.engine.answers.answer_table import AnswerTable

        return AnswerTable(self).html()
