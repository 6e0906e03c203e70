"""Questions as SPARQL, through rdflib's parser.

`SELECT`, `ASK` and `COUNT` of triple patterns and paths, groups, `UNION`, `MINUS`, `VALUES`, `FILTER` of `EXISTS` and
`NOT EXISTS`, prefixes, `LIMIT` and `OFFSET` are a formula and what is wanted of its answers; whatever else SPARQL has
is refused by its name. A query is read from the outside in: `forms.py`, `groups.py`, `iris.py`.
"""

from __future__ import annotations

import re
from threading import Lock
from typing import Any

from tacit.errors import QueryError
from tacit.graph.graph import Graph
from tacit.query.reading import Reading
from tacit.query.sparql.forms import Form
from tacit.query.sparql.iris import TermLabels
from tacit.query.sparql.source import SparqlText, bare
from tacit.query.text.text import place

MAX_CHARACTERS = 10_000
MAX_TERMS = 300  # of a whole query
MAX_LIST = 32  # between two brackets: the parser's time grows with the square of it
MAX_NESTING = 12

_GRAMMAR = Lock()  # it is put in order as it is first used, and for good in a wrong one where two threads do so at once
_OPENING = re.compile(r"(?:\s|#[^\n]*\n)*(?:PREFIX|BASE|SELECT|ASK|CONSTRUCT|DESCRIBE)\b", re.IGNORECASE)
_CODE = re.compile(r"\\\\|\\u([0-9A-Fa-f]{4})|\\U(00(?:0[0-9A-Fa-f]|10)[0-9A-Fa-f]{4})")


def parse_sparql(text: str, graph: Graph | None = None) -> Reading:
    """The query a SPARQL text asks and what it says of the answers; IRIs become labels as `iris.py` says.

    >>> parse_sparql("PREFIX : <tacit:> SELECT ?c { :France :borders ?c MINUS { ?c :speaks :German } }").query
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
    """What a codepoint escape stands for; after a backslash that is escaped itself, `u` begins none."""
    digits = code[1] or code[2]
    return chr(int(digits, 16)) if digits else code[0]


def is_sparql(text: str) -> bool:
    """Whether a text is meant as SPARQL: no question in the text syntax begins with a word.

    >>> is_sparql("PREFIX : <tacit:> SELECT ?c { :France :borders ?c }"), is_sparql("?c : borders(France, ?c)")
    (True, False)
    """
    return _OPENING.match(text) is not None


def _check_size(text: str) -> None:
    if len(text) > MAX_CHARACTERS:
        raise QueryError(f"the query is {len(text):,} characters long; at most {MAX_CHARACTERS:,} are read")
    depth, text = 0, bare(text)  # a literal is a single term, whatever it holds
    for bracket in re.findall(r"[{}()\[\]]", text):
        depth += 1 if bracket in "{([" else -1
        if depth > MAX_NESTING:
            raise QueryError(f"brackets are nested deeper than {MAX_NESTING} levels")
    if len(re.findall(r"[^\s{}()\[\].;,]+", text)) > MAX_TERMS:
        raise QueryError(f"the query has more than {MAX_TERMS} terms; ask it in parts")
    if any(len(inside.split()) > MAX_LIST for inside in re.findall(r"\(([^(){}\[\]]*)", text)):
        raise QueryError(f"a list in brackets has more than {MAX_LIST} terms")


def _parsed(text: str) -> tuple[Any, Any]:
    """Rdflib's tree of the declarations in front of a query, and of the query."""
    try:
        from rdflib.plugins.sparql.parser import Query
    except ImportError:
        raise QueryError("reading SPARQL needs rdflib; install it with: pip install 'tacit[rdf]'") from None
    try:
        # Its own copy of the grammar takes a tab as one; rdflib's `parseQuery` makes spaces of it, in literals, too.
        with _GRAMMAR:
            prologue, tree = Query.copy().parse_with_tabs().parse_string(text, parse_all=True)
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
