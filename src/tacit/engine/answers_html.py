"""Answers as HTML, which a notebook shows."""

from __future__ import annotations

import html
from typing import TYPE_CHECKING

from tacit.engine.aligned_cells import cells_of

if TYPE_CHECKING:
    from tacit.engine.answers import Answers


def table(answers: Answers) -> str:
    """The question and a table of its answers, with the best reason for each."""
    question = f"<p><code>{html.escape(answers.query)}</code></p>"
    if not answers:
        return question + _paragraphs(answers.instead, answers.doubt)
    explained = any(answer.witnesses for answer in answers)
    rows = []
    named = [[answers.truth]] if answers.kind == "truth" else cells_of(answers)
    for (rank, answer), cells in zip(answers.ranked, named, strict=True):
        told = [line for witness in answer.witnesses[:1] for line in witness.lines()]
        why = "<br>".join(html.escape(text) if plain else f"<i>{html.escape(text)}</i>" for text, plain in told)
        names = "".join(f"<td><b>{html.escape(cell)}</b></td>" for cell in cells)
        rows.append(
            f"<tr><td>{rank}</td>{names}<td>"
            f'<meter value="{answer.score:.4f}" min="0" max="1"></meter> {answer.score:.3f}</td>'
            f"<td>{answer.mark}</td>" + (f'<td style="text-align:left">{why}</td></tr>' if explained else "</tr>")
        )
    because = '<th style="text-align:left">because</th>' if explained else ""
    columns = [html.escape(f"?{name}") for name in answers.variables] if len(answers.variables) > 1 else ["answer"]
    head = f"<tr><th></th>{''.join(f'<th>{name}</th>' for name in columns)}<th>score</th><th></th>{because}</tr>"
    return f"{question}<table>{head}{''.join(rows)}</table>" + _paragraphs(*answers.notes, answers.doubt)


def _paragraphs(*sentences: str) -> str:
    return "".join(f"<p>{html.escape(sentence)}</p>" for sentence in sentences if sentence)
