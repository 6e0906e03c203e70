"""Ranked answers, with the reason for each, ready to be read by people and programs."""

from __future__ import annotations

import html
import json
import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, overload

if TYPE_CHECKING:
    import pandas as pd


@dataclass(frozen=True)
class Reason:
    """One atom of a witness, by labels: its score, and whether it is a known fact or a prediction."""

    subject: str
    relation: str
    object: str
    score: float
    observed: bool
    negated: bool = False

    def __str__(self) -> str:
        mark = "known" if self.observed else "predicted"
        return (
            f"{'not ' if self.negated else ''}{self.relation}({self.subject}, {self.object})  {self.score:.3f} {mark}"
        )


@dataclass(frozen=True)
class Witness:
    """The entity of every bound variable, and the atoms that make an answer true."""

    score: float
    variables: dict[str, str]
    atoms: tuple[Reason, ...]


@dataclass(frozen=True)
class Answer:
    """An entity that answers a question, its score in [0, 1], and why."""

    entity: str
    id: int
    score: float
    log_score: float
    known: bool  # the graph alone implies it
    witnesses: tuple[Witness, ...] = ()

    def __str__(self) -> str:
        return f"{self.entity}  {self.score:.3f} {'known' if self.known else 'predicted'}"


@dataclass(frozen=True)
class Answers(Sequence[Answer]):
    """The best answers to a question, best first: a sequence of `Answer` that prints as a table.

    `entities` are their labels; `to_pandas()`, `to_json()` and `to_dict()` hand them on; a notebook shows them as HTML.
    """

    query: str
    answers: tuple[Answer, ...]
    certified: bool | None = None  # whether dropped candidates provably change nothing; None where nobody asked
    settings: dict[str, Any] = field(default_factory=dict)

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
        """The labels of the answers, best first."""
        return [answer.entity for answer in self.answers]

    def to_dict(self) -> dict[str, Any]:
        """Plain data, as JSON needs it."""
        rows = []
        for rank, answer in enumerate(self.answers, start=1):
            row: dict[str, Any] = {
                "rank": rank,
                "entity": answer.entity,
                "score": answer.score,
                "log_score": answer.log_score if math.isfinite(answer.log_score) else None,
                "known": answer.known,
            }
            if answer.witnesses:
                row["witnesses"] = [
                    {
                        "score": w.score,
                        "variables": w.variables,
                        "atoms": [vars(atom) | {} for atom in w.atoms],
                    }
                    for w in answer.witnesses
                ]
            rows.append(row)
        return {"query": self.query, "certified": self.certified, "answers": rows}

    def to_json(self, indent: int | None = None) -> str:
        """The answers as JSON text."""
        return json.dumps(self.to_dict(), ensure_ascii=False, indent=indent)

    def to_pandas(self) -> pd.DataFrame:
        """One row per answer; the first witness's variables as columns."""
        import pandas as pd

        rows = []
        for rank, answer in enumerate(self.answers, start=1):
            row: dict[str, Any] = {"rank": rank, "entity": answer.entity, "score": answer.score, "known": answer.known}
            if answer.witnesses:
                row |= {f"?{name}": value for name, value in answer.witnesses[0].variables.items()}
            rows.append(row)
        return pd.DataFrame(rows, columns=None if rows else ["rank", "entity", "score", "known"])

    def __str__(self) -> str:
        if not self.answers:
            return f"{self.query}\n  no answer"
        width = max(len(answer.entity) for answer in self.answers)
        lines = [self.query]
        for rank, answer in enumerate(self.answers, start=1):
            mark = "known" if answer.known else "predicted"
            lines.append(f"{rank:>4}. {answer.entity:<{width}}  {answer.score:.3f}  {mark}")
            for number, witness in enumerate(answer.witnesses):
                lines += [f"      or {witness.score:.3f}, because"] if number else []
                lines += [f"        {atom}" for atom in witness.atoms]
        return "\n".join(lines)

    __repr__ = __str__  # what a prompt shows is what a person reads

    def _repr_html_(self) -> str:
        if not self.answers:
            return f"<p><code>{html.escape(self.query)}</code></p><p>no answer</p>"
        explained = any(answer.witnesses for answer in self.answers)
        rows = []
        for rank, answer in enumerate(self.answers, start=1):
            why = "<br>".join(html.escape(str(atom)) for w in answer.witnesses[:1] for atom in w.atoms)
            mark = "known" if answer.known else "predicted"
            rows.append(
                f"<tr><td>{rank}</td><td><b>{html.escape(answer.entity)}</b></td><td>"
                f'<meter value="{answer.score:.4f}" min="0" max="1"></meter> {answer.score:.3f}</td>'
                f"<td>{mark}</td>" + (f'<td style="text-align:left">{why}</td></tr>' if explained else "</tr>")
            )
        because = '<th style="text-align:left">because</th>' if explained else ""
        head = f"<tr><th></th><th>answer</th><th>score</th><th></th>{because}</tr>"
        return f"<p><code>{html.escape(self.query)}</code></p><table>{head}{''.join(rows)}</table>"
