"""Neo4j exports: tables of nodes and relationships, by neo4j-admin or by apoc.

A column of a header is `property:type`, or `name:KIND(space)`: equal ids of two spaces belong to
two nodes.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

from tacit.errors import DataError
from tacit.graph.builder import Builder, counted
from tacit.graph.formats.delimited import TEXTS, BadLines, batch_rows, table_rows
from tacit.graph.formats.files import extension
from tacit.graph.graph import Graph
from tacit.graph.quantities import Kind, Quantity
from tacit.graph.settings import ReadSettings

ENDS = ("START_ID", "TYPE", "END_ID")
_COLUMN = re.compile(r"[^:]*:(ID|START_ID|END_ID|TYPE|LABEL)(?:\(([^)]*)\))?(?:\{.*\})?")
_APOC = {"_id": "ID", "_labels": "LABEL", "_start": "START_ID", "_end": "END_ID", "_type": "TYPE"}
# properties that name a node, the best first
_NAMES = ("name", "title", "label", "fullname", "displayname")
_SHOWN = 5  # properties in a note
# the kinds of properties that are values, by their types
_TYPES: dict[str, Kind] = {
    **dict.fromkeys(("int", "long", "short", "byte", "float", "double"), "number"),
    **dict.fromkeys(("date", "datetime", "localdatetime"), "date"),
    "duration": "duration",
}
_BATCH = 10_000  # values


@dataclass(frozen=True)
class Export:
    """A file of an export: its column positions, id spaces and properties."""

    path: Path
    kinds: dict[str, int]
    spaces: dict[str, str]
    properties: dict[str, int]

    @classmethod
    def at(cls, path: Path) -> Export | None:
        """The export in a text table, recognized by its first line; else None."""
        if extension(path) not in TEXTS:
            return None
        _, header = next(table_rows(path), (1, list[str]()))
        apoc = (
            _APOC
            if {"_id", "_labels"} <= set(header) or {"_start", "_end", "_type"} <= set(header)
            else {}
        )
        kinds = {}
        spaces = {}
        properties = {}
        for place, column in enumerate(header):
            match = _COLUMN.fullmatch(column)
            kind = match[1] if match else apoc.get(column)
            if kind:
                kinds[kind], spaces[kind] = place, (match[2] or "") if match else ""
            else:
                properties[column] = place
        ends = {"START_ID", "END_ID"} <= set(kinds)
        if ends and "TYPE" not in kinds:
            raise DataError(
                "has no column :TYPE; expected the type of a relationship beside its ends", path, 1
            )
        return cls(path, kinds, spaces, properties) if ends or "ID" in kinds else None

    @cached_property
    def naming(self) -> list[str]:
        """The properties that name a node, the best first; the first that is not empty counts."""
        plain = {column.split(":")[0].casefold(): column for column in self.properties}
        return [plain[name] for name in _NAMES if name in plain]

    def quantities(self, attributes: Sequence[str] | None) -> dict[str, Kind | None]:
        """The kinds of properties of nodes that are numbers or dates by their type, or wanted."""
        kinds: dict[str, Kind | None] = {}
        for column in self.properties if "ID" in self.kinds else ():
            name, _, type_ = column.partition(":")
            kind = _TYPES.get(type_.removesuffix("[]").lower())
            if kind if attributes is None else name in attributes:
                kinds[column] = kind
        return kinds

    def label(self, kind: str, id: str, several: bool) -> str:
        """The label of a node: its id, prefixed by its id space where there are several."""
        return f"{self.spaces[kind]}/{id}" if several and self.spaces[kind] else id

    def facts(
        self, several: bool, builder: Builder, bad: BadLines, attributes: Sequence[str] | None
    ) -> Iterator[list[str]]:
        """The relationships of the file; names and values of its nodes go to the builder."""
        rows = table_rows(self.path, bad)
        next(rows)
        names = builder.names
        kinds = self.quantities(attributes)
        values: list[tuple[str, str, Quantity]] = []
        for line, row in rows:
            ends = [row[self.kinds[kind]] for kind in ENDS if kind in self.kinds]
            id = row[self.kinds["ID"]] if "ID" in self.kinds else ""
            if all(ends) and ends:
                start, kind, end = ends
                bad.good += 1
                yield [
                    self.label("START_ID", start, several),
                    kind,
                    self.label("END_ID", end, several),
                ]
            elif any(ends):
                bad.add(
                    line, f"the :{ENDS[ends.index('')]} is empty", f"expected {', '.join(ENDS)}"
                )
            elif not id:
                bad.add(
                    line,
                    "has neither the id of a node nor the ends of a relationship",
                    "expected one of them",
                )
            else:
                bad.good += 1
                node_names = names.setdefault(self.label("ID", id, several), [])
                column = next(
                    (column for column in self.naming if row[self.properties[column]]), None
                )
                if column is not None:
                    field = row[self.properties[column]]
                    node_names += [
                        (0, name)
                        for name in (field.split(";") if column.endswith("[]") else [field])
                    ]
                for column, wanted_kind in kinds.items():
                    field = row[self.properties[column]]
                    name = column.partition(":")[0]
                    for text in filter(None, field.split(";") if "[]" in column else [field]):
                        if quantity := Quantity.parse(text, wanted_kind):
                            values.append((self.label("ID", id, several), name, quantity))
                        else:
                            what = f"{name} is '{text:.40}', no {wanted_kind or 'number or date'}"
                            bad.add(line, what, "expected one, or nothing")
                if len(values) >= _BATCH:
                    builder.add_quantities("train", values)
                    values.clear()
        builder.add_quantities("train", values)
        if not bad.skip:  # another file of the export may hold facts
            bad.check()


def read_neo4j(exports: Sequence[Export], name: str, reading: ReadSettings) -> Graph:
    """Reads the graph of an export: its relationships, with nodes named by a property.

    Ids are the labels, prefixed by their id spaces if there are several: `Person/7`.
    """
    spaces = {
        space for export in exports for kind, space in export.spaces.items() if kind.endswith("ID")
    }
    builder = Builder()
    count = 0
    wrong: BadLines | None = None
    for export in exports:
        bad = BadLines(export.path, reading.skip_bad)
        for fields in batch_rows(export.facts(len(spaces) > 1, builder, bad, reading.attributes)):
            count += len(fields) // 3
            builder.add("train", fields)
        if bad.count:
            builder.notes.append(bad.note("train"))
            wrong = wrong or bad
    if not count and wrong:
        raise wrong.error()
    if not count:
        expected = "a file of them with :START_ID, :END_ID and :TYPE beside the nodes"
        raise DataError(f"holds no relationships; expected {expected}", exports[0].path)
    isolated = len(builder.names.keys() - set(builder.terms()))
    if isolated:
        builder.notes.append(f"train: {counted(isolated, 'node')} without relationships left out")
    unlisted = (
        [label for label in builder.entities if label not in builder.names] if builder.names else []
    )
    if unlisted:
        shown = f"which no file of nodes has, such as '{unlisted[0]}'"
        builder.notes.append(
            f"train: relationships speak of {counted(len(unlisted), 'node')} {shown}"
        )
    unused = dict.fromkeys(
        column.split(":")[0]
        for export in exports
        for column in export.properties
        if column not in (*export.naming, *export.quantities(reading.attributes))
    )
    if unused:
        shown = ", ".join(list(unused)[:_SHOWN]) + (", ..." if len(unused) > _SHOWN else "")
        builder.notes.append(f"train: properties are no facts and were left out: {shown}")
    return builder.graph(name)
