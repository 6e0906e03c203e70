"""Locates parts of rdflib's tree in the text of a SPARQL query."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from typing import Any

from tacit.errors import QueryError
from tacit.query.formula import Variable
from tacit.query.text.text import place

SUPPORTED = (
    "(what is: SELECT, ASK and COUNT of triple patterns with ^, / and |, UNION, FILTER [NOT] "
    "EXISTS, FILTER !=, MINUS, VALUES, LIMIT, OFFSET, and answer:score)"
)
CONSTRUCTS = {  # the parser's word for a construct -> its name, and how it is written
    "OptionalGraphPattern": ("OPTIONAL", r"OPTIONAL"),
    "Bind": ("BIND", r"BIND"),
    "InlineData": ("VALUES", r"VALUES"),
    "ValuesClause": ("VALUES", r"VALUES"),
    "SubSelect": ("a sub-query", r"\{\s*SELECT"),
    "GraphGraphPattern": ("GRAPH", r"GRAPH"),
    "ServiceGraphPattern": ("SERVICE", r"SERVICE"),
    "GroupClause": ("grouping", r"GROUP\s+BY"),
    "HavingClause": ("grouping", r"HAVING"),
    "OrderClause": ("ORDER BY of anything but DESC(?score), as which answers come,", r"ORDER\s+BY"),
    "LimitOffsetClauses": ("LIMIT 0 or OFFSET of a single result", r"LIMIT|OFFSET"),
    "DatasetClause": ("FROM", r"FROM"),
    "ConstructQuery": ("CONSTRUCT", r"CONSTRUCT"),
    "DescribeQuery": ("DESCRIBE", r"DESCRIBE"),
    "MinusGraphPattern": ("MINUS", r"MINUS"),
    "Filter": ("FILTER on values, but for !=,", r"FILTER"),
}
_LONG = r"\"{3}(?:[^\\]|\\.)*?\"{3}|'{3}(?:[^\\]|\\.)*?'{3}"
_STRING = rf"{_LONG}|\"(?:[^\"\\\n]|\\.)*\"|'(?:[^'\\\n]|\\.)*'"
# where no keyword is one, and no number
_OPAQUE = re.compile(rf"{_STRING}|<[^<>\s]*>|\\.|#[^\n]*", re.DOTALL)


class SparqlText:
    """The text of a query and its tree, for messages with a line and column."""

    def __init__(self, text: str, tree: Any) -> None:
        self.text = text
        self.nodes = list(walked(tree))
        self.variables = mentioned(tree)
        self.keywords = bare(text)

    def refused(self, node: Any) -> QueryError:
        """The error for an unsupported construct."""
        return self.at(node, f"{CONSTRUCTS[node.name][0]} is not supported {SUPPORTED}")

    def at(self, node: Any, message: str) -> QueryError:
        """An error at a construct, found among those that are spelled alike."""
        spelled = CONSTRUCTS[node.name][1]
        matches = [
            other for other in self.nodes if CONSTRUCTS.get(kind(other), ("", ""))[1] == spelled
        ]
        return self.error(
            message, keyword(spelled), next(at for at, other in enumerate(matches) if other is node)
        )

    def error(self, message: str, pattern: str, before: int = 0) -> QueryError:
        """An error at a match of a pattern, after `before` other matches."""
        places = [match.start() for match in re.finditer(pattern, self.keywords, re.IGNORECASE)]
        return (
            QueryError(message, *place(self.text, places[before]))
            if len(places) > before
            else QueryError(message)
        )

    def spelt(self, value: str) -> bool:
        """Whether every value that is read as a text is written so: rdflib reads `05` as 5."""
        # a subject may come again
        read = {id(node) for node in self.nodes if is_value(node) and str(node) == value}
        written = re.findall(
            rf"(?<![\w.:?$+-]){re.escape(value)}(?!\w|\.\d)", self.keywords, re.IGNORECASE
        )
        return len(written) >= len(read)

    def of_variable(self, message: str, variable: Variable) -> QueryError:
        """An error at the first use of a variable."""
        return self.error(message, rf"[?$]{variable.name}\b")


def bare(text: str) -> str:
    """Blanks out comments, literals and IRIs of a query, which could contain anything."""
    return _OPAQUE.sub(_blanked, text)


def _blanked(part: re.Match[str]) -> str:
    """Spaces of the same length; a literal or IRI keeps its end, so that a term is left."""
    if part[0][0] == "\\":
        return "__"  # an escape is a letter of a name, which goes on
    return " " * (len(part[0]) - 1) + (" " if part[0][0] == "#" else part[0][-1])


def keyword(words: str) -> str:
    """A pattern for words that are no part of a name."""
    return rf"(?<![\w?$:])(?:{words})\b"


def walked(tree: Any) -> Iterator[Any]:
    """Yields all nodes of a parsed tree in the order of writing."""
    yield tree
    if isinstance(tree, dict):
        for part in tree.values():
            yield from walked(part)
    elif not isinstance(tree, str) and isinstance(tree, Iterable):
        for part in tree:
            yield from walked(part)


def kind(node: Any) -> str:
    """The parser's name for a node of a tree; empty for a plain term."""
    return str(getattr(node, "name", "")) if isinstance(node, dict) else ""


def is_variable(node: Any) -> bool:
    """Whether a node is a variable."""
    return type(node).__name__ == "Variable"


def is_value(node: Any) -> bool:
    """Whether a node is a number or a truth value, written without quotes."""
    return type(node).__name__ == "Literal" and node.datatype is not None


def mentioned(tree: Any) -> dict[Variable, None]:
    """The variables anywhere in a tree, in the order of writing."""
    return dict.fromkeys(Variable(str(node)) for node in walked(tree) if is_variable(node))


def inner(node: Any) -> Any:
    """Unwraps an expression or path from operators with one operand, which rdflib adds."""
    while True:
        name = kind(node)
        if name.endswith("Expression") and not node.other:
            node = node.expr
        elif name in ("PathAlternative", "PathSequence") and len(node.part) == 1:
            node = node.part[0]
        elif name == "PathElt" and not node.mod:
            node = node.part
        else:
            return node
