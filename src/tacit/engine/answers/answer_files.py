"""Answers in files: as a table, or as the solutions of a result set in RDF."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tacit.graph.formats.files import extension
from tacit.graph.formats.writing import (
    INTEGER,
    NUMBER,
    RDF,
    TEXT,
    TRUTH,
    check_format,
    write_lines,
    write_table,
)
from tacit.graph.labels.literal_values import literal
from tacit.graph.labels.prefixes import SCHEME, n_triples
from tacit.graph.quantities import Quantity

if TYPE_CHECKING:
    from tacit.engine.answers.answer_values import AnswerValue
    from tacit.engine.answers.answers import Answer, Answers

FORMATS = (".csv", ".json", ".jsonl", ".parquet", ".nt", ".ttl")

_RDF = "http://www.w3.org/1999/02/22-rdf-syntax-ns#"
_RS = "http://www.w3.org/2001/sw/DataAccess/tests/result-set#"
_XSD = "http://www.w3.org/2001/XMLSchema#"


def write(path: str | Path, answers: Answers, kind: str = "") -> None:
    """Write answers in a format, by default that of the file's extension."""
    if not kind:
        check_format(path, FORMATS, "answers")
        kind = extension(Path(path))
    if kind == ".json":
        write_lines(path, [answers.to_json(indent=2)])
    elif kind in RDF:
        write_lines(path, statements(answers))
    else:
        write_table(path, columns(answers), rows(answers, as_text=kind == ".csv"), kind)


def columns(answers: Answers) -> dict[str, str]:
    """The columns of answers as a table, and the type of each.

    One answer variable has its label and name, several have a label each. Then come the values of
    attributes that are asked for, each with whether it is known and, where some are predicted, with
    its interval; and the values that the first reason of an answer chose for other variables.
    """
    if answers.counted is not None:
        return {"known": INTEGER, "expected": NUMBER}
    targets = (
        ["entity", "name"]
        if len(answers.variables) == 1
        else [f"?{name}" for name in answers.variables]
    )
    chosen = [f"?{name}" for answer in answers for name in _chosen(answer)]
    fixed = {"rank": INTEGER, **dict.fromkeys(targets, TEXT), "score": NUMBER, "known": TRUTH}
    quantities = dict[str, str]()
    for name in answers.quantities:
        values = [value for answer in answers if (value := answer.quantities[name]) is not None]
        kind = NUMBER if all(value.attribute.kind == "number" for value in values) else TEXT
        quantities |= {name: kind, f"{name} known": TRUTH}
        if any(value.interval for value in values):
            quantities |= {f"{name} low": kind, f"{name} high": kind}
    return fixed | quantities | dict.fromkeys(chosen, TEXT)


def rows(answers: Answers, as_text: bool = False) -> list[tuple[Any, ...]]:
    """The rows of answers as a table, with None for missing values.

    Values of attributes are numbers, or the text of these in full, since scores are rounded there.
    """
    if answers.counted is not None:
        return [answers.counted]
    names = list(columns(answers))
    table = []
    for rank, answer in answers.ranked:
        values = _chosen(answer) | answer.values
        cells = vars(answer) | {f"?{name}": value for name, value in values.items()}
        quantities = _quantities(answer)
        if as_text:
            numbers = {name: n for name, n in quantities.items() if isinstance(n, float)}
            quantities |= {name: str(Quantity(n)) for name, n in numbers.items()}
        cells |= quantities
        table.append(tuple(map((cells | {"rank": rank}).get, names)))
    return table


def _quantities(answer: Answer) -> dict[str, Any]:
    """The cells of an answer's values of attributes."""
    cells = dict[str, Any]()
    for name, value in answer.quantities.items():
        if value is not None:
            cells |= {name: value.plain, f"{name} known": bool(value.known)}
            if value.interval is not None:
                cells[f"{name} low"], cells[f"{name} high"] = value.interval
    return cells


def _chosen(answer: Answer) -> dict[str, str]:
    return answer.witnesses[0].variables if answer.witnesses else {}


def statements(answers: Answers) -> Iterator[str]:
    """Lines of N-Triples: a result set, its variables, and a solution per answer by rank.

    An answer is no fact of the graph, so it is written as a solution of the question.
    """
    stem = "_:tacit"
    while any(label.startswith(stem) for answer in answers for label in answer.values.values()):
        stem += "_"  # the graph has blank nodes of its own
    results = f"{stem}Results"
    yield f"{results} <{_RDF}type> <{_RS}ResultSet> ."
    yield f"{results} <{SCHEME}question> {_literal(answers.query)} ."
    if answers.kind == "truth":
        yield f"{results} <{_RS}boolean> {_boolean(bool(answers.likely))} ."
    if answers.counted is not None:
        yield f"{results} <{SCHEME}known> {_typed(str(answers.counted.known), 'integer')} ."
        yield f"{results} <{SCHEME}expected> {_typed(repr(answers.counted.expected), 'double')} ."
    named = [name[1:] for name in answers.quantities if name.startswith("?")]
    for variable in (*answers.variables, *named):
        yield f"{results} <{_RS}resultVariable> {_literal(variable)} ."
    for rank, answer in answers.ranked:
        solution = f"{stem}{rank}"
        yield f"{results} <{_RS}solution> {solution} ."
        yield f"{solution} <{_RS}index> {_typed(str(rank), 'integer')} ."
        yield f"{solution} <{SCHEME}score> {_typed(repr(answer.score), 'double')} ."
        yield f"{solution} <{SCHEME}known> {_boolean(answer.known)} ."
        for number, (variable, value) in enumerate(_values(answer, answers), start=1):
            binding = f"{solution}x{number}"
            yield f"{solution} <{_RS}binding> {binding} ."
            yield f"{binding} <{_RS}variable> {_literal(variable)} ."
            yield f"{binding} <{_RS}value> {value} ."


def _values(answer: Answer, answers: Answers) -> Iterator[tuple[str, str]]:
    """The variables that an answer binds, with their terms in N-Triples."""
    for variable, label in answer.values.items():
        if answer.terms is None:
            yield variable, n_triples(label, answers.prefixes)
        elif term := answer.terms.get(variable):
            yield variable, term.n_triples()
    for name, value in answer.quantities.items():
        if name.startswith("?") and value is not None:
            yield name[1:], _quantity(value)


_ESCAPES = str.maketrans({"\\": "\\\\", '"': '\\"', "\n": "\\n", "\r": "\\r"})


def _literal(text: str) -> str:
    return f'"{text.translate(_ESCAPES)}"'


def _quantity(value: AnswerValue) -> str:
    """A value as a typed literal; a prediction by its median."""
    if value.attribute.kind == "number":
        return _typed(str(value.plain), "double")
    return literal(value.quantity)


def _boolean(value: bool) -> str:
    return _typed("true" if value else "false", "boolean")


def _typed(text: str, kind: str) -> str:
    return f'"{text}"^^<{_XSD}{kind}>'
