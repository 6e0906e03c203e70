"""Reads RDF files in every format that pyoxigraph parses, one statement at a time."""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Callable, Iterator
from io import BytesIO
from itertools import islice
from pathlib import Path
from typing import IO, TYPE_CHECKING, cast
from urllib.parse import quote, unquote
from xml.parsers import expat

from tacit.errors import DataError
from tacit.graph.builder import Builder, counted
from tacit.graph.formats.files import BOM, blocks, extension, open_file
from tacit.graph.formats.reifiers import REIFIES, Reifiers
from tacit.graph.labels.literal_values import read_literal
from tacit.graph.labels.prefixes import SCHEME, WELL_KNOWN, Prefixes, n_triples
from tacit.graph.quantities import Quantity
from tacit.graph.settings import ReadSettings

if TYPE_CHECKING:
    from pyoxigraph import Quad

RDF_FORMATS = {  # pyoxigraph's names of formats, by extension
    ".nt": "N_TRIPLES",
    ".ttl": "TURTLE",
    ".trig": "TRIG",
    ".nq": "N_QUADS",
    ".n3": "N3",
    ".rdf": "RDF_XML",
    ".owl": "RDF_XML",
    ".xml": "RDF_XML",
    ".jsonld": "JSON_LD",
}
_BATCH = 1000  # statements
_WELL_KNOWN = [(prefix, namespace) for namespace, prefix in WELL_KNOWN.items()]
# bytes of XML that are checked together: expat reads a long comment from its start in each block
_BLOCK = 1 << 20
_LABELLED = ("N_TRIPLES", "N_QUADS")  # formats in which every blank node has a label
# formats in which statements may belong to a named graph or a formula
_GROUPED = ("TRIG", "N_QUADS", "JSON_LD", "N3")
_RDF = "http://www.w3.org/1999/02/22-rdf-syntax-ns#"
_NAMING = (
    "<http://www.w3.org/2000/01/rdf-schema#label>",
    "<http://www.w3.org/2004/02/skos/core#prefLabel>",
    "<http://schema.org/name>",
    "<https://schema.org/name>",
)
# levels of nesting: the parser overflows its stack or takes minutes from about 15,000 on
_DEEPEST = 1000
_BRACKETS = re.compile(rb"(?:[(\[{]\s*){%d}" % _DEEPEST)
_PLAIN = re.compile(r"(?:[^&<]|&#\w+;){0,1000}")  # texts that an XML entity may stand for
_SKIPPED = {
    "literals": "with a literal skipped; `literals=True` keeps them",
    "triples": "about other facts skipped",
    "unstated": "of reifiers skipped: they are values, or stated nowhere",
    "unclear": "with a source, date or confidence skipped that cannot be read",
    "formulas": "inside N3 formulas skipped",
    "graphs": "of named graphs merged with the others",
}


def read_rdf(path: Path, split: str, builder: Builder, reading: ReadSettings) -> None:
    """Adds the facts of a file in one of pyoxigraph's formats, and its prefixes.

    `rdfs:label` and the like are no facts: they name their subjects, in `language` first. Literals
    that are numbers, dates or durations are values of `attributes`, all of them by default. Other
    facts with literals are kept with `literals`, or else skipped; so are those with numbers, where
    `literals` are kept and no attributes named. Notes count skipped and merged ones. Terms stay
    as in N-Triples until all are known: `labelling` then shortens them.
    """
    kind = RDF_FORMATS[extension(path)]
    reader = _Reader(kind, "b" if split == "train" else split, reading, builder, Reifiers(path))
    statements = _statements(path, kind, builder.prefixes)
    reifiers = reader.reifiers
    empty = True
    while lines := list(map(str, islice(statements, _BATCH))):
        text = " ".join(lines)
        fields = text.split(" ") if lines else []
        is_plain = len(fields) == 3 * len(lines) and '"' not in text and "_:" not in text
        if not is_plain or reifiers.qualify(fields[1::3]):
            fields = [term for line in lines for term in reader.fact(line)]
        empty = empty and not fields and not reader.values
        builder.add(split, fields)
        if reader.values:
            builder.add_quantities(split, reader.values)
            reader.values = []
    fields = [term for line in reifiers.finish() for term in reader.fact(line)]
    empty = empty and not fields and not reader.values
    builder.add(split, fields)
    builder.add_quantities(split, reader.values)
    noticed = reader.noticed
    reifiers.add_to(builder, noticed)
    if empty and not noticed["names"]:
        only = "has literals as its only objects; `literals=True` keeps them"
        raise DataError(
            only if noticed["literals"] else "holds no RDF statements that are facts", path
        )
    builder.notes += [
        f"{split}: {counted(noticed[what], 'fact')} {_SKIPPED[what]}"
        for what in _SKIPPED
        if noticed[what]
    ]


class _Reader:
    """Turns statements into facts, and counts the statements that are none.

    Blank nodes without a label are numbered in order: the parser's own names for them differ from
    run to run.
    """

    def __init__(
        self, kind: str, stem: str, reading: ReadSettings, builder: Builder, reifiers: Reifiers
    ) -> None:
        self._kind = kind
        self.reifiers = reifiers
        self._stem = stem
        self._literals = reading.literals
        self._skips_literals = not reading.literals and kind not in _GROUPED
        self._language = reading.language
        self._names = builder.names
        self._prefixes = builder.prefixes
        self._attributes = reading.attributes
        self._predicates: dict[str, bool] = {}
        self._nodes: dict[str, str] = {}
        self.noticed: Counter[str] = Counter()
        self.values: list[tuple[str, str, Quantity]] = []  # subjects, predicates and values

    def fact(self, statement: str) -> tuple[str, ...]:
        """The head, relation and tail of a statement in N-Quads; empty if it is no fact."""
        subject, predicate, object = statement.split(" ", 2)
        qualifier = self.reifiers.name_of(predicate)
        is_plain = object[0] == '"' and "<<" not in object and qualifier is None
        if is_plain and self._skips_literals and predicate not in _NAMING and object[-1] != ">":
            self.noticed["literals"] += 1  # the usual case
            return ()
        if object.startswith("<<"):
            parts = object[4 : object.rindex(")>>") - 1].split(" ", 2)
            if predicate == REIFIES and not parts[2].startswith("<<"):
                head, relation, tail = parts
                fact = self._node(head), relation, self._node(tail)
                self.reifiers.add(self._node(subject), fact)
            else:
                self.noticed["triples"] += 1
            return ()
        end = object.rindex('"') if object[0] == '"' else 0
        cut = object.find(" ", end)
        if qualifier is not None:
            value = self._node(object[:cut] if cut > 0 else object)
            if self.reifiers.takes(statement, self._node(subject), qualifier, value):
                return ()
        if cut > 0:
            object = object[:cut]
            self.noticed["formulas" if self._kind == "N3" else "graphs"] += 1
            if self._kind == "N3":  # a formula is quoted, not stated
                return ()
        subject = self._node(subject)
        object = self._node(object)
        if end and predicate in _NAMING:
            self.noticed["names"] += 1
            self._name(subject, object, end)
            return ()
        if object[-1] == ">" and end and self._is_attribute(predicate):
            quantity = read_literal(object[1:end], object[end + 4 : -1])
            if quantity is not None:
                self.values.append((subject, predicate, quantity))
                return ()
        if end and not self._literals:
            self.noticed["literals"] += 1
            return ()
        return subject, predicate, object

    def _is_attribute(self, predicate: str) -> bool:
        """Whether values of a predicate are read: it, or its last word, is one of the names."""
        if self._attributes is None:
            return not self._literals
        if predicate not in self._predicates:
            iri = predicate[1:-1]
            spellings = {predicate, iri, iri[max(map(iri.rfind, "/#:")) + 1 :]}
            for prefix, namespace in (*self._prefixes.items(), *_WELL_KNOWN):
                if iri.startswith(namespace):
                    spellings.add(f"{prefix}:{iri[len(namespace) :]}")
            self._predicates[predicate] = not spellings.isdisjoint(self._attributes)
        return self._predicates[predicate]

    def _name(self, subject: str, literal: str, end: int) -> None:
        """Stores a name with its rank: the requested language, then none, then any."""
        # strings are escaped as in JSON
        name = " ".join(str(json.loads(literal[: end + 1])).split())
        tag, _, _ = literal[end + 1 :].lower().partition("--")
        preferred = f"@{self._language.lower()}"
        rank = 2 if tag else 1
        if f"{tag}-".startswith(f"{preferred}-"):
            rank = 0
        if name:
            self._names.setdefault(subject, []).append((rank, name))

    def _node(self, term: str) -> str:
        """A term, or the numbered label of a blank node."""
        if term[0] != "_" or self._kind in _LABELLED:
            return term
        return self._nodes.setdefault(term, f"_:{self._stem}{len(self._nodes) + 1}")


def _statements(
    path: Path, kind: str, prefixes: dict[str, str], by_line: bool = False
) -> Iterator[Quad]:
    """Yields the statements of a file, and adds its prefixes to `prefixes`."""
    try:
        from pyoxigraph import RdfFormat, parse
    except ImportError:
        raise DataError(
            "needs pyoxigraph to be read; install it with: pip install 'tacit-kg[rdf]'", path
        ) from None
    # with a statement per line, the parser can take whole blocks at once
    if kind in _LABELLED:
        for line, block in blocks(path):
            if block.count(b"<<(") > _DEEPEST:
                for text in block.split(b"\n"):
                    _check_depth(text.count(b"<<("), path)
            try:
                yield from parse(block, getattr(RdfFormat, kind))
            except SyntaxError as error:
                raise _fault(error, path, line - 1 + (error.lineno or 1)) from None
        return
    with open_file(path) as file:
        source = _Source(file, path, by_line, kind == "RDF_XML")
        base = f"file:///{quote(path.name)}"
        parser = parse(cast(IO[bytes], source), getattr(RdfFormat, kind), base_iri=base)
        try:
            for quad in parser:
                yield quad
                break
            prefixes.update({**parser.prefixes, **prefixes})  # RDF/XML forgets them as elements end
            yield from parser
        except SyntaxError as error:
            # fed line by line, the parser stops at the fault
            if not by_line and error.lineno is None:
                for _ in _statements(path, kind, {}, by_line=True):
                    pass
            raise _fault(error, path, error.lineno or (source.lines if by_line else None)) from None
        prefixes.update({**parser.prefixes, **prefixes})


def _fault(error: SyntaxError, path: Path, line: int | None) -> DataError:
    """The error of a file that the parser refuses."""
    why = re.sub(r"^Parser error at line \d+ (?:between )?", "", error.msg)
    if "remote contexts" in why:
        why = "its context is another file; write that into this one"
    return DataError(f"cannot be parsed: {' '.join(why.split())[:200]}", path, line)


def _check_depth(depth: int, path: Path) -> None:
    if depth > _DEEPEST:
        raise DataError(f"nests more than {_DEEPEST:,} triples in one another", path)


class _Source:
    """The bytes of a file for a parser, checked first and without a byte order mark."""

    def __init__(self, file: IO[bytes], path: Path, by_line: bool, xml: bool) -> None:
        self._file = file
        self._path = path
        self._by_line = by_line
        self._ended = True
        self._depth = 0
        self.lines = 0
        self._block = BytesIO()
        self._xml = expat.ParserCreate() if xml else None
        if self._xml:
            self._xml.StartElementHandler, self._xml.EndElementHandler = self._begin, self._end
            self._xml.EntityDeclHandler = self._declare
            self._xml.ordered_attributes = True
            # expat 2.6 defers its checks, and the parser would be ahead of them
            if hasattr(self._xml, "SetReparseDeferralEnabled"):
                self._xml.SetReparseDeferralEnabled(False)

    def read(self, size: int = -1) -> bytes:
        """The next bytes, or the next line."""
        ahead = self._read_xml if self._xml else self._file.read
        data = self._file.readline(size) if self._by_line else ahead(size)
        start = not self.lines
        self.lines += bool(data) and self._ended
        self._ended = data.endswith(b"\n")
        if self._xml is None and _BRACKETS.search(data):
            raise DataError(f"opens more than {_DEEPEST:,} brackets in a row", self._path)
        if self._xml is None and (self._depth or b"<<(" in data):
            for inside in data.split(b")>>"):
                depth = self._depth + inside.count(b"<<(")
                self._depth = 0
                _check_depth(depth, self._path)
            self._depth = depth
        return data.removeprefix(BOM) if start else data

    def _begin(self, name: str, attributes: list[str]) -> None:
        self._depth += 1
        if max(self._depth, len(attributes) // 2) > _DEEPEST:
            raise DataError(
                f"nests more than {_DEEPEST:,} elements, or gives one as many attributes",
                self._path,
            )

    def _end(self, name: str) -> None:
        self._depth -= 1

    def _declare(self, name: str, inside: bool, text: str | None, *_: object) -> None:
        """Refuses entities other than plain text, which could grow or read files."""
        if inside or text is None or not _PLAIN.fullmatch(text):
            problem = (
                f"declares entity '{name[:40]}' by more than 1,000 letters of plain text; "
                "write it out"
            )
            raise DataError(problem, self._path, self._xml.CurrentLineNumber if self._xml else None)

    def _read_xml(self, size: int) -> bytes:
        if not (data := self._block.read(size)):
            block = self._file.read(_BLOCK)
            self._check_xml(block)
            self._block = BytesIO(block)
            data = self._block.read(size)
        return data

    def _check_xml(self, data: bytes) -> None:
        """Refuses malformed XML, since pyoxigraph accepts a truncated file."""
        assert self._xml is not None
        try:
            self._xml.Parse(data, not data)
        except expat.ExpatError as error:
            raise DataError(
                f"cannot be parsed: {expat.ErrorString(error.code)}", self._path, error.lineno
            ) from None
        except (LookupError, ValueError) as error:  # the encoding is unknown or wrong
            raise DataError(
                f"cannot be parsed: {error!s:.100}; save the file as UTF-8", self._path
            ) from None


def labelling(builder: Builder) -> tuple[Prefixes, Callable[[str], str]]:
    """The prefixes of all IRIs collected, and the function from terms to labels.

    An IRI in the scheme `tacit:` is a name, spelled by Tacit or by a person. If several IRIs spell
    one name, only that of Tacit's spelling is the name.
    """
    others = {
        name: namespace
        for name, namespace in builder.prefixes.items()
        if not namespace.startswith(SCHEME)
    }
    prefixes = Prefixes(
        others, (term[term.rindex("<") + 1 : -1] for term in builder.terms() if term.endswith(">"))
    )
    if not prefixes and not all(term.startswith(f"<{SCHEME}") for term in builder.terms()):
        # IRIs such as urn:isbn:1 have no namespace; one prefix marks the labels as RDF terms
        prefixes = Prefixes({"rdf": _RDF})
    spelt = Counter(unquote(term) for term in set(builder.terms()) if term.startswith(f"<{SCHEME}"))

    def label(term: str) -> str:
        if term.startswith(f"<{SCHEME}"):
            name = unquote(term[len(SCHEME) + 1 : -1])
            written = n_triples(name, prefixes)
            # another term may have the name as its label
            only = spelt[unquote(term)] == 1 and written.startswith(f"<{SCHEME}")
            if name and (written == term or only):
                return name
        if term.startswith("<"):
            return prefixes.label(term[1:-1])
        if not term.endswith(">"):  # a blank node, or a literal without a type
            return term
        text, _, datatype = term.rpartition('"^^')
        return f'{text}"^^{prefixes.label(datatype[1:-1])}'

    return prefixes, label
