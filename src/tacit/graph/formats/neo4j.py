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
from tacit.graph.builder import Builder, Ranked, counted
from tacit.graph.formats.delimited import TEXTS, BadLines, batch_rows, table_rows
from tacit.graph.formats.files import extension
from tacit.graph.graph import Graph

ENDS = ("START_ID", "TYPE", "END_ID")
_COLUMN = re.compile(r"[^:]*:(ID|START_ID|END_ID|TYPE|LABEL)(?:\(([^)]*)\))?(?:\{.*\})?")
_APOC = {"_id": "ID", "_labels": "LABEL", "_start": "START_ID", "_end": "END_ID", "_type": "TYPE"}
# properties that name a node, the best first
_NAMES = ("name", "title", "label", "fullname", "displayname")
_SHOWN = 5  # properties in a note


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

    def label(self, kind: str, id: str, several: bool) -> str:
        """The label of a node: its id, prefixed by its id space where there are several."""
        return f"{self.spaces[kind]}/{id}" if several and self.spaces[kind] else id

    def facts(self, several: bool, names: Ranked, bad: BadLines) -> Iterator[list[str]]:
        """The relationships of the file; the names of its nodes go into `names`."""
        rows = table_rows(self.path, bad)
        next(rows)
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
        if not bad.skip:  # another file of the export may hold facts
            bad.check()


def read_neo4j(exports: Sequence[Export], name: str, skip_bad: bool = False) -> Graph:
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
        bad = BadLines(export.path, skip_bad)
        for fields in batch_rows(export.facts(len(spaces) > 1, builder.names, bad)):
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
        p.split(":")[0] for export in exports for p in export.properties if p not in export.naming
    )
    if unused:
        shown = ", ".join(list(unused)[:_SHOWN]) + (", ..." if len(unused) > _SHOWN else "")
        builder.notes.append(f"train: properties are no facts and were left out: {shown}")
    return builder.graph(name)
