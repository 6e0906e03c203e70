"""Answers as RDF statements: the solutions of a result set, each with its score and whether it is known."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from tacit.graph.terms import SCHEME, n_triples

if TYPE_CHECKING:
    from tacit.engine.answers import Answers

_RDF = "http://www.w3.org/1999/02/22-rdf-syntax-ns#"
_RS = "http://www.w3.org/2001/sw/DataAccess/tests/result-set#"
_XSD = "http://www.w3.org/2001/XMLSchema#"


def statements(answers: Answers) -> Iterator[str]:
    """Lines of N-Triples: a result set, its variables, and a solution for each answer, with its place as index.

    An answer is no fact of the graph, so none is written as one: it is what a question was answered with.
    """
    stem = "_:tacit"
    while any(label.startswith(stem) for answer in answers for label in answer.values.values()):
        stem += "_"  # the graph has blank nodes of its own
    results = f"{stem}Results"
    yield f"{results} <{_RDF}type> <{_RS}ResultSet> ."
    yield f"{results} <{SCHEME}question> {_literal(answers.query)} ."
    for variable in answers.variables:
        yield f"{results} <{_RS}resultVariable> {_literal(variable)} ."
    for rank, answer in answers.ranked:
        solution = f"{stem}{rank}"
        yield f"{results} <{_RS}solution> {solution} ."
        yield f"{solution} <{_RS}index> {_typed(str(rank), 'integer')} ."
        yield f"{solution} <{SCHEME}score> {_typed(repr(answer.score), 'double')} ."
        yield f"{solution} <{SCHEME}known> {_typed('true' if answer.known else 'false', 'boolean')} ."
        for number, (variable, label) in enumerate(answer.values.items(), start=1):
            binding = f"{solution}x{number}"
            yield f"{solution} <{_RS}binding> {binding} ."
            yield f"{binding} <{_RS}variable> {_literal(variable)} ."
            yield f"{binding} <{_RS}value> {n_triples(label, answers.prefixes)} ."


_ESCAPES = str.maketrans({"\\": "\\\\", '"': '\\"', "\n": "\\n", "\r": "\\r"})


def _literal(text: str) -> str:
    return f'"{text.translate(_ESCAPES)}"'


def _typed(text: str, kind: str) -> str:
    return f'"{text}"^^<{_XSD}{kind}>'
