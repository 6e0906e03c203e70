"""Reifiers of RDF 1.2: nodes that stand for statements about facts, and what is said of them."""

from __future__ import annotations

import json
from collections import Counter, defaultdict
from collections.abc import Collection
from pathlib import Path

import numpy as np

from tacit.errors import DataError
from tacit.graph.builder import Builder
from tacit.graph.formats.files import open_file
from tacit.graph.qualifiers import (
    QUALIFIERS,
    STATEMENT_ROW,
    QualifierError,
    Statement,
    qualifier_of,
)

REIFIES = "<http://www.w3.org/1999/02/22-rdf-syntax-ns#reifies>"
# one of these is in every file with a reifier: in Turtle, N-Triples and RDF/XML
_MARKS = (b"<<", b"{|", b"~", b"annotation", b"Triple")
_BLOCK = 1 << 20
_MOST = 1_000_000  # statements of a reifier, whose facts and sources multiply

Fact = tuple[str, str, str]


class Reifiers:
    """The reifiers of a file, and the properties of theirs that qualify facts.

    A property may come before its subject is known as a reifier. Until then it may be a fact, and
    is `pending` where the file has any reifiers at all.
    """

    def __init__(self, path: Path) -> None:
        self._path = path
        self._facts = defaultdict[str, list[Fact]](list)  # by reifier
        self._properties = defaultdict[str, dict[str, list[str]]](lambda: defaultdict(list))
        self._names: dict[str, str | None] = {}
        self._may_come: bool | None = None
        self.pending: list[str] = []

    def name_of(self, predicate: str) -> str | None:
        """The qualifier that a predicate, an IRI in angle brackets, gives its reifier, or None.

        It is that of the last word of the IRI, as `startDate` of schema.org.
        """
        if predicate not in self._names:
            cut = max(predicate.rfind("/"), predicate.rfind("#"), predicate.rfind(":")) + 1
            self._names[predicate] = qualifier_of(predicate[cut:-1])
        return self._names[predicate]

    def qualify(self, predicates: Collection[str]) -> bool:
        """Whether some predicates may be properties of reifiers."""
        return any(map(self.name_of, set(predicates)))

    def add(self, reifier: str, fact: Fact) -> None:
        """Adds a fact that a reifier stands for."""
        self._facts[reifier].append(fact)

    def takes(self, statement: str, subject: str, name: str, value: str) -> bool:
        """Takes a property of a known reifier, or a statement that may be one; says whether."""
        if subject in self._facts:
            self._properties[subject][name].append(value)
            return True
        if self._may_come is None:
            self._may_come = self._has_marks()
        if self._may_come:
            self.pending.append(statement)
        return self._may_come

    def finish(self) -> list[str]:
        """Ends the wait for reifiers; returns the pending statements, in order."""
        self._may_come = False
        pending, self.pending = self.pending, []
        return pending

    def _has_marks(self) -> bool:
        """Whether the file may have reifiers, by a look at its bytes."""
        with open_file(self._path) as file:
            before = b""
            while block := file.read(_BLOCK):
                data = before + block
                if any(mark in data for mark in _MARKS):
                    return True
                before = block[-16:]
        return False

    def add_to(self, builder: Builder, noticed: Counter[str]) -> None:
        """Adds the statements that reifiers stand for to a builder; counts those that are none."""
        stated: list[tuple[Fact, str, Statement]] = []
        for reifier, facts in self._facts.items():
            if reifier not in self._properties:
                noticed["triples"] += len(facts)
                continue
            properties = self._properties[reifier]
            if len(facts) * len(properties["source"]) > _MOST:
                problem = f"has a reifier with {len(facts):,} facts and many sources"
                raise DataError(f"{problem}; give each fact a reifier of its own", self._path)
            for statement in self._statements(properties, noticed):
                for fact in facts:
                    ends = fact[0] in builder.entities and fact[2] in builder.entities
                    known = ends and fact[1] in builder.relations
                    noticed["unstated"] += not known
                    stated += [(fact, statement.source or "", statement)] if known else []
        sources = dict.fromkeys(source for _, source, _ in stated if source)
        ids = {"": -1} | {source: place for place, source in enumerate(sources)}
        rows = [
            (2 * at, at, 2 * at + 1, ids[source], *statement.numbers)
            for at, (_, source, statement) in enumerate(stated)
        ]
        entities = [end for (head, _, tail), *_ in stated for end in (head, tail)]
        relations = [fact[1] for fact, *_ in stated]
        builder.add_statements(entities, relations, [*sources], np.array(rows, STATEMENT_ROW))

    def _statements(
        self, properties: dict[str, list[str]], noticed: Counter[str]
    ) -> list[Statement]:
        """The statements of a reifier, one for each of its sources, which are terms."""
        texts = {}
        for name in QUALIFIERS[1:]:
            values = dict.fromkeys(map(_text, properties.get(name, ())))
            texts[name] = "|".join(values)  # several dates are none
        statements = []
        for source in dict.fromkeys(properties.get("source") or [""]):
            if source.startswith("_:"):
                noticed["unclear"] += 1
                source = ""
            term = json.dumps(_text(source), ensure_ascii=False) if source[:1] == '"' else source
            try:
                statements.append(Statement.parse({**texts, "source": term}))
            except QualifierError:
                noticed["unclear"] += 1
        return statements


def _text(term: str) -> str:
    """The text of a literal, without language and datatype; any other term as it is."""
    return str(json.loads(term[: term.rindex('"') + 1])) if term[0] == '"' else term
