"""Reads questions in SPARQL through rdflib's parser.

`SELECT`, `ASK` and `COUNT` of triple patterns and paths, groups, `UNION`, `MINUS`, `VALUES`,
`FILTER` of `EXISTS` and `NOT EXISTS`, prefixes, `LIMIT` and `OFFSET` are a formula and what is
wanted of its answers; whatever else SPARQL has is refused by its name. A query is read from the
outside in: `forms.py`, `groups.py`, `iris.py`.
"""

from __future__ import annotations

import re
from importlib import import_module
from threading import Lock
from typing import Any

from tacit.errors import QueryError
from tacit.graph.graph import Graph
from tacit.query.question import ParsedQuestion
from tacit.query.sparql.forms import Form
from tacit.query.sparql.iris import TermLabels
from tacit.query.sparql.source import SparqlText, bare
from tacit.query.text.text import place

MAX_CHARACTERS = 10_000
MAX_TERMS = 300  # of a whole query
MAX_LIST = 32  # between two brackets: the parser's time grows with the square of it
MAX_NESTING = 12

# two threads that use the grammar first at the same time would leave it in a wrong order
_GRAMMAR = Lock()
_OPENING = re.compile(
    r"(?:\s|#[^\n]*\n)*(?:PREFIX|BASE|SELECT|ASK|CONSTRUCT|DESCRIBE)\b", re.IGNORECASE
)
_LITERAL = re.compile(r"""<[^<>\s]*>|#[^\n]*|"(?:[^"\\\n]|\\.)*"|'(?:[^'\\\n]|\\.)*'""")
_CODE = re.compile(r"\\\\|\\u([0-9A-Fa-f]{4})|\\U(00(?:0[0-9A-Fa-f]|10)[0-9A-Fa-f]{4})")


def parse_sparql(text: str, graph: Graph | None = None) -> ParsedQuestion:
    """Parses a SPARQL query; its IRIs become labels as `iris.py` describes.

    >>> text = "SELECT ?c { :France :borders ?c MINUS { ?c :speaks :German } }"
    >>> parse_sparql(f"PREFIX : <tacit:> {text}").query
    <?c : borders(France, ?c) & !speaks(?c, German)>
    """
    text = _CODE.sub(_character, text)  # first, since a line that ends by an escape ends a comment
    _check_size(text)
    try:
        prologue, tree = _parsed(text)
        source = SparqlText(text, tree)
        return Form(source, tree, TermLabels(source, prologue, graph)).reading()
    except RecursionError:
        raise QueryError("the query is nested too deeply, or too long") from None


def _character(code: re.Match[str]) -> str:
    """The character of a codepoint escape; none begins after an escaped backslash."""
    digits = code[1] or code[2]
    return chr(int(digits, 16)) if digits else code[0]


def is_sparql(text: str) -> bool:
    """Whether a text is SPARQL: no question in the text syntax begins with a word.

    >>> is_sparql("PREFIX : <tacit:> SELECT ?c { :France :borders ?c }")
    True
    >>> is_sparql("?c : borders(France, ?c)")
    False
    """
    return _OPENING.match(text) is not None


def _check_size(text: str) -> None:
    if len(text) > MAX_CHARACTERS:
        raise QueryError(
            f"the query is {len(text):,} characters long; at most {MAX_CHARACTERS:,} are read"
        )
    # a literal is a single term, whatever it holds
    depth = 0
    text = bare(text)
    for bracket in re.findall(r"[{}()\[\]]", text):
        depth += 1 if bracket in "{([" else -1
        if depth > MAX_NESTING:
            raise QueryError(f"brackets are nested deeper than {MAX_NESTING} levels")
    if len(re.findall(r"[^\s{}()\[\].;,]+", text)) > MAX_TERMS:
        raise QueryError(f"the query has more than {MAX_TERMS} terms; ask it in parts")
    if any(len(inside.split()) > MAX_LIST for inside in re.findall(r"\(([^(){}\[\]]*)", text)):
        raise QueryError(f"a list in brackets has more than {MAX_LIST} terms")


def _tree(parser: Any, text: str) -> tuple[Any, Any]:
    """Parses to rdflib's tree by a copy of its grammar that keeps tabs, or by `parseQuery`.

    `parseQuery` turns tabs into spaces, so tabs in literals are escaped first. The grammar is no
    public part of rdflib.
    """
    try:
        grammar = parser.Query.copy().parse_with_tabs()
    except AttributeError:
        grammar = None
    if grammar is None:
        prologue, tree = parser.parseQuery(
            _LITERAL.sub(lambda part: part[0].replace("\t", "\\t"), text)
        )
    else:
        prologue, tree = grammar.parse_string(text, parse_all=True)
    return prologue, tree


def _parsed(text: str) -> tuple[Any, Any]:
    """The trees of the declarations and of the query."""
    try:
        parser = import_module("rdflib.plugins.sparql.parser")
    except ImportError:
        raise QueryError(
            "reading SPARQL needs rdflib; install it with: pip install 'tacit[rdf]'"
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
        rest = text[at:].split()
        words = f"'{rest[0][:30]}' is unexpected" if rest else "it ends too early"
        raise QueryError(f"not a SPARQL query: {words}", *place(text, at)) from None
    return prologue, tree
