"""Answers as a table for readers: the question, a row per answer with reasons, and notes.

Plain text and HTML are made here; terminals draw the same table with their own styles.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from html import escape
from itertools import takewhile

from tacit.engine.answers.aligned_cells import escape_control_chars, in_columns
from tacit.engine.answers.answer_values import AnswerValue
from tacit.engine.answers.answers import LIKELY, Answer, Answers
from tacit.graph.builder import counted

ESTIMATED = "Scores are estimates: the sums that they are shares of were sampled."
NO_REASONS = "This search has no reasons to show; beam and exact search have."
CERTIFIED = "The search provably missed nothing: these are the exact best answers."
BEAM = (
    "not certified: the beam dropped candidates that may lead to better answers; "
    "`search='exact'` keeps them all"
)
_NOTHING = 1e-6  # answers of lower scores, such as those of no rule, only fill a list
INDEXED = "not certified: the index may have missed better answers; `candidates='scan'` misses none"


def in_python(note: str) -> str:
    """A note as Python says it: `top=None` without backquotes."""
    return note.replace("`", "")


class AnswerTable:
    """The rows and notes that show answers, safe for terminals.

    `unlimited` is how the reader asks for all answers, in the interface at hand, and `spelled` puts
    the parameters of notes in its words.
    """

    def __init__(
        self,
        answers: Answers,
        unlimited: str = "top=None",
        spelled: Callable[[str], str] = in_python,
    ) -> None:
        self.answers = answers
        self.spelled = spelled
        self.question = escape_control_chars(answers.query)
        self.unlimited = unlimited
        heads = [*(f"?{name}" for name in answers.variables), *answers.quantities]
        several = len(heads) > 1 and answers and answers.kind != "truth"
        self.heads = heads if several else []
        table = [[_truth(answers)]] if answers.kind == "truth" else _cells(answers)
        self.rows = [
            (rank, answer, cells)
            for (rank, answer), cells in zip(answers.ranked, table, strict=True)
        ]

    def aligned(self, length: Callable[[str], int] = len) -> tuple[list[str], list[str]]:
        """The heads, if any, and the cells of each row, as lines with aligned columns."""
        heads = [self.heads] if self.heads else []
        lines = in_columns([*heads, *(cells for _, _, cells in self.rows)], length)
        return lines[: len(heads)], lines[len(heads) :]

    def __str__(self) -> str:
        heads, table = self.aligned()
        lines = [self.question, *(f"      {head}".rstrip() for head in heads)]
        for (rank, answer, _), cells in zip(self.rows, table, strict=True):
            place = f"{rank:>4}. {cells}"
            if self.answers.kind == "truth":
                place = f"   {cells}{':' * (not answer.quantities)}"
            lines.append(f"{place}  {answer.score:.3f}  {answer.mark}")
            lines += [f"{' ' * (6 + indent)}{text}" for indent, text, _ in reason_lines(answer)]
        return "\n".join([*lines, *([] if self.rows else [f"  {self.empty_message}"]), *self.notes])

    def html(self) -> str:
        """The table as HTML, for notebooks."""
        below = self.notes if self.rows else [self.empty_message, *self.notes]
        paragraphs = "".join(f"<p>{escape(note)}</p>" for note in below)
        table = self._html_rows() if self.rows else ""
        return f"<p><code>{escape(self.question)}</code></p>{table}{paragraphs}"

    def _html_rows(self) -> str:
        explained = any(answer.witnesses for answer in self.answers)
        names = "".join(f"<th>{escape(head)}</th>" for head in self.heads or ["answer"])
        reasons_head = '<th style="text-align:left">because</th>' if explained else ""
        rows = []
        for rank, answer, cells in self.rows:
            named = "".join(f"<td><b>{escape(cell)}</b></td>" for cell in cells)
            meter = f'<meter value="{answer.score:.4f}" min="0" max="1"></meter> {answer.score:.3f}'
            lines = (
                _html_line(text) if carries else f"<i>{_html_line(text)}</i>"
                for _, text, carries in reason_lines(answer)
            )
            reasons = f'<td style="text-align:left">{"<br>".join(lines)}</td>' if explained else ""
            rows.append(
                f"<tr><td>{rank}</td>{named}<td>{meter}</td><td>{answer.mark}</td>{reasons}</tr>"
            )
        heads = f"<tr><th></th>{names}<th>score</th><th></th>{reasons_head}</tr>"
        return f"<table>{heads}{''.join(rows)}</table>"

    @property
    def empty_message(self) -> str:
        """The message where no answer is listed: a count, or the reason why."""
        if (counted := self.answers.counted) is not None:
            counts = f"{counted.known:,} known, {counted.expected:,.1f} expected with predictions"
            return f"{counts}; {self._known_note}" if self._known_note else counts
        if self.below:
            return f"no answer of such a score: {self.below}"
        return self._known_note or ("no more answers" if self.answers.offset else "no answer")

    @property
    def notes(self) -> list[str]:
        """The notes below the table, among them why answers are not proven."""
        answers = self.answers
        notes = [*answers.unknown, *[self._proof_note] * (answers.certified is False)]
        if not self.rows:
            return notes
        return [
            *filter(None, (self._cut_note, self.below, self._known_note, answers.uncalibrated)),
            *[NO_REASONS] * (answers.explained is False),
            *[ESTIMATED] * answers.estimated,
            *notes,
        ]

    @property
    def proof(self) -> str:
        """The statement that all listed answers are proven; empty where they are not."""
        return CERTIFIED if self.rows and self.answers.certified else ""

    @property
    def _cut_note(self) -> str:
        """Where the likely answers end, and what a shorter list leaves out; empty elsewhere."""
        answers = self.answers
        total = len(answers)
        likely = answers.likely
        first = answers.offset + 1
        shown = f"answers {first:,} to {first + total - 1:,}" if total > 1 else f"answer {first:,}"
        if not answers.offset:
            shown = counted(total, "answer")
        if likely < total and answers.kind != "truth" and not answers.uncalibrated:
            shown += f", {f'{likely:,}' if likely else 'none'} at {LIKELY} or above"
            shown += self._padding
        elif self.left_out:
            shown = f"{shown if answers.offset else f'{total:,}'} shown"
        else:
            return ""
        return f"{shown}, {self.left_out}" if self.left_out else shown

    @property
    def _padding(self) -> str:
        """How many answers at the end of a list score next to nothing; empty if none."""
        worthless = (not a.known and a.score < _NOTHING for a in reversed(self.answers))
        last = sum(takewhile(bool, worthless))
        if not last:
            return ""
        if last == len(self.answers):
            return f"; {'they score' if last > 1 else 'it scores'} next to nothing"
        return f"; the last {f'{last:,} score' if last > 1 else 'scores'} next to nothing"

    @property
    def left_out(self) -> str:
        """How many answers a list leaves out that ends too early, and how to list them."""
        answers = self.answers
        if not answers.misses_likely:
            return ""
        more = "a higher LIMIT" if answers.cut_by == "LIMIT" else self.unlimited
        missing = "others may be likely, too"
        if answers.misses_known:
            missing = f"{'at least ' * answers.known_at_least}{answers.known_total:,} known in all"
        return f"{missing}; {more} lists more"

    @property
    def below(self) -> str:
        """How many known answers a least score leaves out; empty where it leaves none out."""
        answers = self.answers
        if not answers.misses_known or answers.cut_by is not None:
            return ""
        listed = answers.offset + sum(answer.known for answer in answers)
        number = (answers.known_total or 0) - listed
        known = "at least " * answers.known_at_least + counted(number, "known answer")
        return f"{known} {'scores' if known.startswith('1 ') else 'score'} less"

    @property
    def _known_note(self) -> str:
        """How many known answers are left out; empty where none are."""
        if not (number := self.answers.left_out):
            return ""
        known = "at least " * self.answers.known_at_least + counted(number, "known answer")
        listed = self.rows or self.answers.counted is not None
        return f"{known} left out" if listed else f"no new answer: {known}, and nothing else fits"

    @property
    def _proof_note(self) -> str:
        """Why not all answers are proven, and how many of the first are."""
        answers = self.answers
        # With reasons, answers come from whole rows in place of the index.
        indexed = answers.settings.get("candidates") == "index" and not answers.explained
        doubt = self.spelled(INDEXED if indexed else BEAM)
        if not answers.proven:
            return doubt
        if answers.proven == 1:
            return f"{doubt}; the first is proven"
        return f"{doubt}; the first {answers.proven} of {len(answers)} are proven"


def reason_lines(answer: Answer) -> Iterator[tuple[int, str, bool]]:
    """The reasons for an answer as lines: indentation, text, and whether it carries."""
    for number, witness in enumerate(answer.witnesses):
        if number:
            yield 0, f"or {witness.score:.3f}, because", False
        yield from ((2, text, carries) for text, carries in witness.lines())


def _html_line(text: str) -> str:
    """A line as HTML, which keeps its indentation."""
    words = text.lstrip(" ")
    return "&emsp;" * ((len(text) - len(words)) // 2) + escape(words)


def _cells(answers: Answers) -> list[list[str]]:
    """The names of listed answers; a name that several share is followed by its label."""
    labels_by_name: dict[str, set[str]] = {}
    for answer in answers:
        for variable, name in answer.names.items():
            labels_by_name.setdefault(name, set()).add(answer.values[variable])

    def cell(answer: Answer, variable: str) -> str:
        name = answer.names[variable]
        shared = len(labels_by_name[name]) > 1
        return escape_control_chars(f"{name} ({answer.values[variable]})" if shared else name)

    return [
        [
            *(
                [cell(answer, variable) for variable in answer.names]
                or [escape_control_chars(answer.name)]
            ),
            *(_said(value) for value in answer.quantities.values()),
        ]
        for answer in answers
    ]


def _truth(answers: Answers) -> str:
    """Yes or no, or the values that are asked for."""
    values = answers[0].quantities.items()
    texts = (f"{escape_control_chars(name)} = {_said(value)}" for name, value in values)
    return ", ".join(texts) or answers.truth


def _said(value: AnswerValue | None) -> str:
    """A value with whether it is known; a dash where there is none."""
    return (
        "–"
        if value is None
        else escape_control_chars(f"{value} {'' if value.known else 'predicted'}".strip())
    )
