"""Answers as HTML, which a notebook shows."""

from __future__ import annotations

from html import escape

from tacit.engine.answers.answer_table import AnswerTable, reason_lines
from tacit.engine.answers.answers import Answer, Answers


def html_of(answers: Answers) -> str:
    """The question, a table of its answers with the reasons for each, and what is to be said of them."""
    table = AnswerTable(answers)
    below = table.notes if table.rows else [table.instead, *table.notes]
    paragraphs = "".join(f"<p>{escape(note)}</p>" for note in below)
    return f"<p><code>{escape(table.question)}</code></p>{_drawn(table) if table.rows else ''}{paragraphs}"


def _drawn(table: AnswerTable) -> str:
    explained = any(answer.witnesses for answer in table.answers)
    names = "".join(f"<th>{escape(head)}</th>" for head in table.heads or ["answer"])
    because = '<th style="text-align:left">because</th>' if explained else ""
    rows = []
    for rank, answer, cells in table.rows:
        named = "".join(f"<td><b>{escape(cell)}</b></td>" for cell in cells)
        meter = f'<meter value="{answer.score:.4f}" min="0" max="1"></meter> {answer.score:.3f}'
        why = f'<td style="text-align:left">{_why(answer)}</td>' if explained else ""
        rows.append(f"<tr><td>{rank}</td>{named}<td>{meter}</td><td>{answer.mark}</td>{why}</tr>")
    return f"<table><tr><th></th>{names}<th>score</th><th></th>{because}</tr>{''.join(rows)}</table>"


def _why(answer: Answer) -> str:
    lines = ((escape(text), carries) for _, text, carries in reason_lines(answer))
    return "<br>".join(text if carries else f"<i>{text}</i>" for text, carries in lines)
