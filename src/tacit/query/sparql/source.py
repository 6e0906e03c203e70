"""Parses the text of a SPARQL query by rdflib, and locates parts of its tree in the text."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from importlib import import_module
from threading import Lock
from typing import Any

from tacit.errors import QueryError
from tacit.query.formula import Variable
from tacit.query.text import position_of

MAX_CHARACTERS = 10_000
MAX_TERMS = 300  # of a whole query
MAX_LIST = 32  # between two brackets: the parser's time grows with the square of it
MAX_NESTING = 12

SUPPORTED = (
    "(what is: SELECT, ASK and COUNT of triple patterns and paths, UNION, OPTIONAL, MINUS, VALUES, "
    "FILTER on terms and values and FILTER [NOT] EXISTS, (?x AS ?name), ORDER BY values, LIMIT, "
    "OFFSET, rdfs:label and answer:score)"
)
_ONE_GRAPH = "there is one graph, which needs no name: leave it out"
# The parser's word for a construct -> its name, how it is written, and what to do instead.
CONSTRUCTS = {
    "OptionalGraphPattern": ("OPTIONAL", r"OPTIONAL", ""),
    "Bind": (
        "BIND of anything but a variable that the patterns before it always bind, in the outermost "
        "braces,",
        r"BIND",
        "compute values from the results, or give them by VALUES",
    ),
    "InlineData": ("VALUES", r"VALUES", ""),
    "ValuesClause": ("VALUES", r"VALUES", ""),
    "SubSelect": ("a sub-query", r"\{\s*SELECT", "ask it first, and give its results by VALUES"),
    "GraphGraphPattern": ("GRAPH", r"GRAPH", _ONE_GRAPH),
    "ServiceGraphPattern": ("SERVICE", r"SERVICE", "let the client ask both, as rdflib does"),
    "GroupClause": ("grouping", r"GROUP\s+BY", "COUNT the solutions of one group at a time"),
    "HavingClause": ("grouping", r"HAVING", "COUNT the solutions of one group at a time"),
    "OrderClause": (
        "ORDER BY of anything but values of attributes and DESC(?score)",
        r"ORDER\s+BY",
        "sort the results",
    ),
    "LimitOffsetClauses": ("LIMIT 0 or OFFSET of a single result", r"LIMIT|OFFSET", "leave it out"),
    "DatasetClause": ("FROM", r"FROM", _ONE_GRAPH),
    "ConstructQuery": ("CONSTRUCT", r"CONSTRUCT", "SELECT the parts of its triples"),
    "DescribeQuery": (
        "DESCRIBE",
        r"DESCRIBE",
        "SELECT ?p ?o { :a ?p ?o } lists the known facts of :a",
    ),
    "MinusGraphPattern": ("MINUS", r"MINUS", ""),
    "Filter": (
        "FILTER by the order of entities, or by other functions,",
        r"FILTER",
        "it takes <, <=, >, >=, =, !=, IN, NOT IN, EXISTS, sameTerm, bound, isIRI, isBlank, "
        "isLiteral, str, lang, langMatches, lcase, ucase, contains, strStarts and strEnds",
    ),
}
_NOT_A_PATH = r"(?<=[\w>)])[*+?](?=[\s/|)<:^]|$)|!(?!=|\s*(?:NOT|EXISTS|\(\s*[?$]|[?$]))"
_LONG = r"\"{3}(?:[^\\]|\\.)*?\"{3}|'{3}(?:[^\\]|\\.)*?'{3}"
_STRING = rf"{_LONG}|\"(?:[^\"\\\n]|\\.)*\"|'(?:[^'\\\n]|\\.)*'"
# the parts of a text in which nothing is a keyword or a number
_OPAQUE = re.compile(rf"{_STRING}|<[^<>\s]*>|\\.|#[^\n]*", re.DOTALL)
# two threads that use the grammar first at the same time would leave it in a wrong order
_GRAMMAR = Lock()
_UPDATE = re.compile(
    r"^\s*(?:(?:PREFIX\s+[^\s<]*|BASE)\s+>?\s*)*"
    r"(INSERT|DELETE|LOAD|CLEAR|CREATE|DROP|COPY|MOVE|ADD|WITH)\s",
    re.IGNORECASE,
)
_LITERAL = re.compile(r"""<[^<>\s]*>|#[^\n]*|"(?:[^"\\\n]|\\.)*"|'(?:[^'\\\n]|\\.)*'""")
_CODE = re.compile(r"\\\\|\\u([0-9A-Fa-f]{4})|\\U(00(?:0[0-9A-Fa-f]|10)[0-9A-Fa-f]{4})")


class SparqlText:
    """The text of a query and its tree, for messages with a line and column."""

    def __init__(self, text: str, tree: Any) -> None:
        self.text = text
        self.nodes = list(walk_tree(tree))
        self.variables = variables_in(tree)
        self.keywords = blank_literals(text)
        self._split = dict[int, Any]()  # the filters of which others are parts

    def without_prologue(self) -> str:
        """The text from its form on, without declarations."""
        form = re.search(keyword("SELECT|ASK"), self.keywords, re.IGNORECASE)
        return self.text[form.start() :].strip() if form else self.text

    def unsupported(self, node: Any) -> QueryError:
        """The error for an unsupported construct."""
        name, _, hint = CONSTRUCTS[node.name]
        return self.at(
            node, f"{name} is not supported" + (f"; {hint}" if hint else f" {SUPPORTED}")
        )

    def unsupported_path(self, path: Any) -> QueryError:
        """The error for a path that is not supported."""
        negated = path.name == "PathNegatedPropertySet"
        words = "a negated path" if negated else f"the path modifier {path.mod or 'DISTINCT'}"
        return self.error(f"{words} is not supported; paths have ^, /, |, ?, * and +", _NOT_A_PATH)

    def split_filter(self, node: Any) -> list[Any]:
        """A filter for each condition that a filter joins by `&&`."""
        parts = [type(node)("Filter", expr=each) for each in conjuncts(node.expr)]
        self._split |= {id(part): node for part in parts}
        return parts

    def at(self, node: Any, message: str) -> QueryError:
        """An error at a construct, found among those that are spelled alike."""
        node = self._split.get(id(node), node)
        pattern = CONSTRUCTS[node.name][1]
        matches = [
            other for other in self.nodes if CONSTRUCTS.get(kind(other), ("", "", ""))[1] == pattern
        ]
        return self.error(
            message, keyword(pattern), next(at for at, other in enumerate(matches) if other is node)
        )

    def error(self, message: str, pattern: str, before: int = 0) -> QueryError:
        """An error at a match of a pattern, after `before` other matches."""
        places = [match.start() for match in re.finditer(pattern, self.keywords, re.IGNORECASE)]
        return (
            QueryError(message, *position_of(self.text, places[before]))
            if len(places) > before
            else QueryError(message)
        )

    def is_spelled_out(self, value: str) -> bool:
        """Whether every number with this text is written like it; rdflib reads `05` as 5."""
        # by identity, since a node may be in the tree twice
        nodes = {id(node) for node in self.nodes if is_value(node) and str(node) == value}
        spellings = re.findall(
            rf"(?<![\w.:?$+-]){re.escape(value)}(?!\w|\.\d)", self.keywords, re.IGNORECASE
        )
        return len(spellings) >= len(nodes)

    def of_variable(self, message: str, variable: Variable) -> QueryError:
        """An error at the first use of a variable."""
        return self.error(message, rf"[?$]{variable.name}\b")


def blank_literals(text: str) -> str:
    """Blanks out comments, literals and IRIs of a query, which could contain anything."""
    return _OPAQUE.sub(_blank, text)


def _blank(part: re.Match[str]) -> str:
    """Spaces of the same length; a literal or IRI keeps its end, so that a term is left."""
    if part[0][0] == "\\":
        return "__"  # an escape is a letter of a name, which goes on
    return " " * (len(part[0]) - 1) + (" " if part[0][0] == "#" else part[0][-1])


def keyword(words: str) -> str:
    """A pattern for words that are no part of a name."""
    return rf"(?<![\w?$:])(?:{words})\b"


def walk_tree(tree: Any) -> Iterator[Any]:
    """Yields all nodes of a parsed tree in the order of writing."""
    yield tree
    if isinstance(tree, dict):
        for part in tree.values():
            yield from walk_tree(part)
    elif not isinstance(tree, str) and isinstance(tree, Iterable):
        for part in tree:
            yield from walk_tree(part)


def kind(node: Any) -> str:
    """The parser's name for a node of a tree; empty for a plain term."""
    return str(getattr(node, "name", "")) if isinstance(node, dict) else ""


def is_variable(node: Any) -> bool:
    """Whether a node is a variable."""
    return type(node).__name__ == "Variable"


def is_name(node: Any) -> bool:
    """Whether a node is an IRI, whole or prefixed."""
    return kind(node) == "pname" or type(node).__name__ == "URIRef"


def is_literal(node: Any) -> bool:
    """Whether a node is a literal, in quotes or without."""
    return kind(node) == "literal" or is_value(node)


def is_value(node: Any) -> bool:
    """Whether a node is a number or a truth value, written without quotes."""
    return type(node).__name__ == "Literal" and node.datatype is not None


def triples(node: Any) -> list[list[Any]]:
    """The triples of a block."""
    terms = [term for run in node.triples for term in run]
    return [terms[at : at + 3] for at in range(0, len(terms), 3)]


def last_step(path: Any) -> Any:
    """The last step of a path, which leads to its object."""
    path = unwrap(path)
    return last_step(path.part[-1]) if kind(path) == "PathSequence" else path


def variables_in(tree: Any) -> dict[Variable, None]:
    """The variables anywhere in a tree, in the order of writing."""
    return dict.fromkeys(Variable(str(node)) for node in walk_tree(tree) if is_variable(node))


def unwrap(node: Any) -> Any:
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


def conjuncts(expression: Any) -> Iterator[Any]:
    """The conditions that an expression joins by `&&`."""
    expression = unwrap(expression)
    if kind(expression) == "ConditionalAndExpression":
        for part in (expression.expr, *expression.other):
            yield from conjuncts(part)
    else:
        yield expression


def parse_source(text: str) -> tuple[SparqlText, Any, Any]:
    """The text with its escapes resolved, and the trees of its declarations and its query."""
    text = _CODE.sub(_character, text)  # first, since a line that ends by an escape ends a comment
    _check_size(text)
    if update := _UPDATE.search(blank_literals(text)):
        raise QueryError(
            f"{update[1].upper()} is an update, and SPARQL changes nothing here; add and remove "
            "facts by run.add and run.remove, by the commands add and remove, or by /facts of the "
            "service",
            *position_of(text, update.start(1)),
        )
    try:
        parser = import_module("rdflib.plugins.sparql.parser")
    except ImportError:
        raise QueryError(
            "reading SPARQL needs rdflib; install it with: pip install 'tacit-kg[rdf]'"
        ) from None
    try:
        with _GRAMMAR:
            prologue, tree = _tree(parser, text)
    except RecursionError:
        raise
    except Exception as error:  # rdflib raises bare exceptions beside its parser's
        at = getattr(error, "loc", None)
        if at is None:
            raise QueryError(f"not a SPARQL query: {' '.join(str(error).split())[:200]}") from None
        following = text[at:].split()
        words = f"'{following[0][:30]}' is unexpected" if following else "it ends too early"
        raise QueryError(f"not a SPARQL query: {words}", *position_of(text, at)) from None
    return SparqlText(text, tree), prologue, tree


def _check_size(text: str) -> None:
    if len(text) > MAX_CHARACTERS:
        raise QueryError(
            f"the query is {len(text):,} characters long; at most {MAX_CHARACTERS:,} are read"
        )
    # a literal is a single term, whatever it holds
    depth = 0
    text = blank_literals(text)
    for bracket in re.findall(r"[{}()\[\]]", text):
        depth += 1 if bracket in "{([" else -1
        if depth > MAX_NESTING:
            raise QueryError(f"brackets are nested deeper than {MAX_NESTING} levels")
    if len(re.findall(r"[^\s{}()\[\].;,]+", text)) > MAX_TERMS:
        raise QueryError(f"the query has more than {MAX_TERMS} terms; ask it in parts")
    if any(len(inside.split()) > MAX_LIST for inside in re.findall(r"\(([^(){}\[\]]*)", text)):
        raise QueryError(f"a list in brackets has more than {MAX_LIST} terms")


def _tree(parser: Any, text: str) -> Any:
    """Parses to rdflib's trees by a copy of its grammar that keeps tabs, or by `parseQuery`.

    `parseQuery` turns tabs into spaces, so tabs in literals are escaped first. The grammar is no
    public part of rdflib.
    """
    try:
        grammar = parser.Query.copy().parse_with_tabs()
    except AttributeError:
        return parser.parseQuery(_LITERAL.sub(lambda part: part[0].replace("\t", "\\t"), text))
    return grammar.parse_string(text, parse_all=True)


def _character(code: re.Match[str]) -> str:
    """The character of a codepoint escape; none begins after an escaped backslash."""
    digits = code[1] or code[2]
    return chr(int(digits, 16)) if digits else code[0]
