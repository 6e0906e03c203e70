"""RDF: N-Triples line by line; Turtle and RDF/XML through rdflib's parsers, without building an rdflib graph."""

from __future__ import annotations

import logging
import re
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from tacit.errors import DataError
from tacit.graph.build import Builder, counted
from tacit.graph.files import blocks, decoded, opened
from tacit.graph.prefixes import Prefixes

FORMATS = {".nt": "nt", ".ttl": "turtle", ".rdf": "xml", ".owl": "xml", ".xml": "xml"}
_BATCH = 30_000
_STRING = "^^<http://www.w3.org/2001/XMLSchema#string>"  # the type of a literal that names none

# Terms are kept as N-Triples writes them until all are known; `labelling` then shortens them.
_CODE = r"\\(?:u(?![Dd][89A-Fa-f])[0-9A-Fa-f]{4}|U00(?:0[0-9A-Fa-f]|10)[0-9A-Fa-f]{4})"
_IRI = rf"<[^\x00-\x20<>\"{{}}|^`\\]*(?:{_CODE}[^\x00-\x20<>\"{{}}|^`\\]*)*>"
_NODE = r"_:[\w:](?:[\w:.\-]*[\w:\-])?"
_TEXT = rf'"[^"\\\n\r]*(?:(?:{_CODE}|\\[tbnrf"\'\\])[^"\\\n\r]*)*"'
_LITERAL = rf"{_TEXT}(?:@[A-Za-z]+(?:-[A-Za-z0-9]+)*|\^\^{_IRI})?"
_ESCAPE = re.compile(rf"{_CODE}|\\[tbnrf\"'\\]")
_CONTROLS = {"t": "\t", "b": "\b", "n": "\n", "r": "\r", "f": "\f"}
_LINE = re.compile(
    rf"^[ \t]*({_IRI}|{_NODE})[ \t]*({_IRI})[ \t]*({_IRI}|{_NODE}|{_LITERAL})[ \t]*\.[ \t]*(?:#.*)?$", re.MULTILINE
)


class Facts:
    """Hands facts to a builder in batches; literals are kept or counted."""

    def __init__(self, part: str, builder: Builder, literals: bool) -> None:
        self.part, self.builder, self.literals = part, builder, literals
        self.seen = self.skipped = 0
        self._fields: list[str] = []

    def add(self, subject: str, predicate: str, object: str) -> None:
        """Takes one fact, terms as N-Triples writes them."""
        self.seen += 1
        if object[0] == '"' and not self.literals:
            self.skipped += 1
            return
        self._fields += (subject, predicate, object.removesuffix(_STRING))
        if len(self._fields) >= _BATCH:
            self.flush()

    def flush(self) -> None:
        """Hands over what is left."""
        self.builder.add(self.part, self._fields)
        self._fields = []


def read_rdf(path: Path, kind: str, part: str, builder: Builder, literals: bool, prefixes: dict[str, str]) -> None:
    """Adds the facts of an RDF file of a kind of `FORMATS`, and its prefixes to `prefixes`.

    A fact whose object is a literal is kept or skipped as `literals` says; how many were skipped is noted.
    """
    facts = Facts(part, builder, literals)
    if FORMATS[kind] == "nt":
        _n_triples(path, facts)
    else:
        _parsed(path, FORMATS[kind], facts, prefixes)
    facts.flush()
    if facts.skipped:
        what = counted(facts.skipped, "fact") + " with a literal skipped"
        builder.notes.append(f"{part}: {what}; ask for literals to keep them")
    if not facts.seen:
        raise DataError("holds no RDF statements", path)
    if facts.seen == facts.skipped:
        raise DataError("has literals as its only objects; ask for literals to keep them", path)


def _n_triples(path: Path, facts: Facts) -> None:
    for line, block in blocks(path):
        text = decoded(block, line, path)
        rows = _LINE.findall(text)
        if len(rows) < text.count("\n"):
            _check(text, line, path)
        for subject, predicate, object in rows:
            if "\\" in subject or "\\" in predicate or ("\\" in object and (facts.literals or object[0] != '"')):
                subject, predicate, object = map(_unescaped, (subject, predicate, object))
            facts.add(subject, predicate, object)


def _check(text: str, line: int, path: Path) -> None:
    """Finds the line that is neither a statement nor blank nor a comment."""
    for number, content in enumerate(text.split("\n"), start=line):
        if content.strip() and not content.lstrip().startswith("#") and not _LINE.fullmatch(content):
            shown = content if len(content) <= 60 else content[:57] + "..."
            raise DataError(f"is not an N-Triples statement, <subject> <predicate> object . ({shown})", path, number)


def _unescaped(term: str) -> str:
    """A term with its escapes resolved, so that one spelling stands for one term."""
    if not term.startswith('"'):
        return _ESCAPE.sub(_character, term)
    end = term.rindex('"')
    return _quoted(_ESCAPE.sub(_character, term[1:end])) + term[end + 1 :]


def _character(escape: re.Match[str]) -> str:
    kind, code = escape[0][1], escape[0][2:]
    return chr(int(code, 16)) if code else _CONTROLS.get(kind, kind)


def _quoted(text: str) -> str:
    for plain, escaped in (("\\", "\\\\"), ('"', '\\"'), ("\n", "\\n"), ("\r", "\\r"), ("\t", "\\t")):
        text = text.replace(plain, escaped)
    return f'"{text}"'


def _parsed(path: Path, kind: str, facts: Facts, prefixes: dict[str, str]) -> None:
    """Lets rdflib parse into a store that passes statements on and keeps only the prefixes."""
    try:
        from rdflib import Graph as RdfGraph
        from rdflib.store import Store
    except ImportError:
        raise DataError("needs rdflib to be read; install it with: pip install 'tacit[rdf]'", path) from None

    term = _terms("b" if facts.part == "train" else facts.part)

    class Passing(Store):
        def add(self, triple: Any, context: Any = None, quoted: bool = False) -> None:
            facts.add(*map(term, triple))

        def bind(self, prefix: str, namespace: Any, override: bool = True) -> None:
            prefixes.setdefault(prefix, str(namespace))

        def prefix(self, namespace: Any) -> str | None:
            return next((p for p, n in prefixes.items() if n == str(namespace)), None)

        def namespace(self, prefix: str) -> Any:
            return prefixes.get(prefix)

        def namespaces(self) -> Iterator[Any]:
            return iter(())

    if kind == "xml":
        _refuse_nested_entities(path)
    graph = RdfGraph(store=Passing(), bind_namespaces="none")
    with opened(path) as file, _faults(path):
        graph.parse(file=file, format=kind, publicID=f"file:///{path.name}")  # type: ignore[arg-type]


def _refuse_nested_entities(path: Path) -> None:
    """Looks at what an XML file declares before its first element: entities made of entities can grow without end."""
    from xml.parsers import expat

    declared: dict[str, str] = {}
    started: list[str] = []
    parser = expat.ParserCreate()
    parser.EntityDeclHandler = lambda name, _, value, *others: declared.setdefault(name, value or "")
    parser.StartElementHandler = lambda name, _: started.append(name)
    with opened(path) as file:
        while not started and (chunk := file.read(1 << 12)):
            try:
                parser.Parse(chunk)
            except expat.ExpatError:  # rdflib's parser will meet it too, and say more
                break
            nested = next((name for name, value in declared.items() if "&" in value), None)
            if nested is not None:
                raise DataError(f"declares entity '{nested}' by other entities; write it out", path)


def _terms(stem: str) -> Callable[[Any], str]:
    """Writes rdflib's terms as N-Triples does; blank nodes are numbered, as rdflib's own names differ in each run."""
    from rdflib import BNode, Literal

    nodes: dict[Any, str] = {}

    def term(value: Any) -> str:
        if isinstance(value, BNode):
            return nodes.setdefault(value, f"_:{stem}{len(nodes) + 1}")
        if isinstance(value, Literal):
            kind = f"@{value.language}" if value.language else f"^^<{value.datatype}>" if value.datatype else ""
            return _quoted(str(value)) + kind
        return f"<{value}>"

    return term


@contextmanager
def _faults(path: Path) -> Iterator[None]:
    """Turns what rdflib's parsers raise into an error with its line; their log messages are not for our readers."""
    logger = logging.getLogger("rdflib")
    level = logger.level
    logger.setLevel(logging.CRITICAL)
    try:
        yield
    except (DataError, OSError, EOFError):
        raise
    except UnicodeDecodeError as error:
        line = error.object.count(b"\n", 0, error.start) + 1
        byte = error.object[error.start]
        raise DataError(f"is not UTF-8 (byte 0x{byte:02x}); save the file as UTF-8", path, line) from None
    except Exception as error:  # the parsers raise their own, SAX's, and now and then a plain ValueError or KeyError
        why = str(getattr(error, "_why", "") or getattr(error, "_msg", "") or error)
        at = getattr(error, "lines", None)  # Turtle's, counted from 0; SAX has a method that counts from 1
        line_of: int | None = at + 1 if isinstance(at, int) else getattr(error, "_linenum", None)
        raise DataError(f"cannot be parsed: {' '.join(why.split())[:200]}", path, line_of) from None
    finally:
        logger.setLevel(level)


def labelling(builder: Builder, declared: dict[str, str]) -> tuple[Prefixes, Callable[[str], str]]:
    """The prefixes of all IRIs collected, and the function from terms to labels."""
    prefixes = Prefixes(declared, (term[term.rindex("<") + 1 : -1] for term in builder.terms() if term.endswith(">")))

    def label(term: str) -> str:
        if term.startswith("<"):
            return prefixes.label(term[1:-1])
        if not term.endswith(">"):  # a blank node, or a literal without a type
            return term
        text, _, datatype = term.rpartition('"^^')
        return f'{text}"^^{prefixes.label(datatype[1:-1])}'

    return prefixes, label
