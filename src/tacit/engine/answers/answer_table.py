"""Answers as people are shown them: the question, a row for each with its reasons, and what is to be said below.

Plain text and HTML are made here; terminals draw the same table their own way.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from html import escape

from tacit.engine.answers.aligned_cells import harmless, in_columns
from tacit.engine.answers.answers import LIKELY, Answer, Answers

ESTIMATED = "Scores are estimates: the sums that they are shares of were sampled."
NO_REASONS = "This search has no reasons to show; beam and exact search have."
CERTIFIED = "The search provably missed nothing: these are the exact best answers."
BEAM = "not certified: the beam dropped candidates that may lead to better answers; search exact keeps them all"
INDEXED = "not certified: the index may have missed better answers; candidates scan misses none"


class AnswerTable:
    """What there is to show of answers; texts of others in it can command no terminal."""

    def __init__(self, answers: Answers) -> None:
        self.answers, self.question = answers, harmless(answers.query)
        self.heads = [f"?{name}" for name in answers.variables] if len(answers.variables) > 1 and answers else []
        named = [[answers.truth]] if answers.kind == "truth" else _cells(answers)
        self.rows = [(rank, answer, cells) for (rank, answer), cells in zip(answers.ranked, named, strict=True)]

    def aligned(self, length: Callable[[str], int] = len) -> tuple[list[str], list[str]]:
        """The heads, where there are some, and the cells of each row as lines with columns of one width."""
        heads = [self.heads] if self.heads else []
        lines = in_columns([*heads, *(cells for _, _, cells in self.rows)], length)
        return lines[: len(heads)], lines[len(heads) :]

    def __str__(self) -> str:
        heads, named = self.aligned()
        lines = [self.question, *(f"      {head}".rstrip() for head in heads)]
        for (rank, answer, _), cells in zip(self.rows, named, strict=True):
            place = f"{rank:>4}. {cells}" if self.answers.kind != "truth" else f"   {cells}:"
            lines.append(f"{place}  {answer.score:.3f}  {answer.mark}")
            lines += [f"{' ' * (6 + indent)}{text}" for indent, text, _ in reason_lines(answer)]
        return "\n".join([*lines, *([] if self.rows else [f"  {self.instead}"]), *self.notes])

    def html(self) -> str:
        """The same for a notebook."""
        below = self.notes if self.rows else [self.instead, *self.notes]
        paragraphs = "".join(f"<p>{escape(note)}</p>" for note in below)
        return f"<p><code>{escape(self.question)}</code></p>{self._html_rows() if self.rows else ''}{paragraphs}"

    def _html_rows(self) -> str:
        explained = any(answer.witnesses for answer in self.answers)
        names = "".join(f"<th>{escape(head)}</th>" for head in self.heads or ["answer"])
        because = '<th style="text-align:left">because</th>' if explained else ""
        rows = []
        for rank, answer, cells in self.rows:
            named = "".join(f"<td><b>{escape(cell)}</b></td>" for cell in cells)
            meter = f'<meter value="{answer.score:.4f}" min="0" max="1"></meter> {answer.score:.3f}'
            lines = (escape(text) if carries else f"<i>{escape(text)}</i>" for _, text, carries in reason_lines(answer))
            why = f'<td style="text-align:left">{"<br>".join(lines)}</td>' if explained else ""
            rows.append(f"<tr><td>{rank}</td>{named}<td>{meter}</td><td>{answer.mark}</td>{why}</tr>")
        return f"<table><tr><th></th>{names}<th>score</th><th></th>{because}</tr>{''.join(rows)}</table>"

    @property
    def instead(self) -> str:
        """What is to be said where no answer is listed: how many there are, or why there is none."""
        if (counted := self.answers.counted) is not None:
            told = f"{counted.known:,} known, {counted.expected:,.1f} expected with predictions"
            return f"{told}; {self._left_out}" if self._left_out else told
        return self._left_out or "no answer"

    @property
    def notes(self) -> list[str]:
        """What a reader of the answers should know, among it why they are not proven where that was looked into."""
        answers = self.answers
        said = [self._cut, self._left_out, answers.uncalibrated] if self.rows else []
        said += [NO_REASONS] * bool(self.rows and answers.explained is False)
        said += [ESTIMATED] * bool(self.rows and answers.estimated)
        return [*filter(None, said), *[self._doubt] * (answers.certified is False)]

    @property
    def proof(self) -> str:
        """That the answers are proven, where some are listed and they are; nothing elsewhere."""
        return CERTIFIED if self.rows and self.answers.certified else ""

    @property
    def _cut(self) -> str:
        """Where the sensible answers end; nothing where that is not among these."""
        answers, total, likely = self.answers, len(self.answers), self.answers.likely
        if likely == total or answers.kind == "truth" or answers.uncalibrated:
            return ""
        first, last = answers.offset + 1, answers.offset + total
        paged = f"answers {first:,} to {last:,}" if total > 1 else f"answer {first:,}"
        counted = paged if answers.offset else f"{total:,} answer{'s' if total > 1 else ''}"
        return f"{counted}, {f'{likely:,}' if likely else 'none'} at {LIKELY} or above"

    @property
    def _left_out(self) -> str:
        """That known answers are not listed, or nothing."""
        if not (number := self.answers.left_out):
            return ""
        known = f"{number:,} known answer{'s' if number > 1 else ''}"
        listed = self.rows or self.answers.counted is not None
        return f"{known} left out" if listed else f"no new answer: {known}, and nothing else fits"

    @property
    def _doubt(self) -> str:
        """Why not all answers are proven, and how many of the first are."""
        answers, first = self.answers, ""
        if answers.proven:
            first = "the first is" if answers.proven == 1 else f"the first {answers.proven} of {len(answers)} are"
        # An index found them, unless there are reasons, which come from whole rows.
        indexed = answers.settings.get("candidates") == "index" and not answers.explained
        return (INDEXED if indexed else BEAM) + (first and f"; {first} proven")


def reason_lines(answer: Answer) -> Iterator[tuple[int, str, bool]]:
    """The reasons for an answer in lines: how far each stands in, its text, and whether it carries the answer."""
    for number, witness in enumerate(answer.witnesses):
        if number:
            yield 0, f"or {witness.score:.3f}, because", False
        yield from ((2, text, carries) for text, carries in witness.lines())


def _cells(answers: Answers) -> list[list[str]]:
    """The readable names of listed answers, with the label behind a name that several of them share."""
    meant: dict[str, set[str]] = {}
    for answer in answers:
        for variable, name in answer.names.items():
            meant.setdefault(name, set()).add(answer.values[variable])
    return [
        [harmless(f"{name} ({answer.values[v]})" if len(meant[name]) > 1 else name) for v, name in answer.names.items()]
        or [harmless(answer.name)]
        for answer in answers
    ]
