"""How files of facts are read."""

from __future__ import annotations

import os
from dataclasses import dataclass

from tacit.settings import Settings, setting

STANDARD_INPUT = "-"  # where the path of a file is expected


def _joined(columns: object) -> str:
    """Columns as one text, with commas; a `TypeError` where they are no three names or more."""
    if isinstance(columns, str):
        return columns
    if not isinstance(columns, list | tuple) or len(columns) < 3:
        raise TypeError
    if not all(isinstance(column, str | int) for column in columns):
        raise TypeError
    return ",".join(map(str, columns))


def _names(attributes: object) -> tuple[str, ...]:
    """The names of attributes: a text with commas, a list, or False for none."""
    if attributes is False:
        return ()
    listed = attributes.split(",") if isinstance(attributes, str) else attributes
    if not isinstance(listed, list | tuple) or not all(isinstance(each, str) for each in listed):
        raise TypeError
    return tuple(name for each in listed if (name := each.strip()))


@dataclass(frozen=True)
class ReadSettings(Settings):
    """Options for reading the files of a graph."""

    noun = "reading"

    literals: bool = setting(False, "Keep the literals of RDF files as entities.")
    labels: str | None = setting(
        None, "A table of two columns, label and readable name.", read=os.fspath
    )
    language: str = setting("en", "The language of names in RDF files that comes first.")
    columns: str | None = setting(
        None,
        "Head, relation and tail in a table: their names or positions, as in head,tail,relation or "
        "1,3,2; then those that qualify facts, as in 1,3,2,source=4,valid_from=begin.",
        read=_joined,
    )
    skip_bad: bool = setting(
        False, "Skip lines of a table that lack a column or a label, and count them."
    )
    attributes: tuple[str, ...] | None = setting(
        None,
        "The relations, joined by commas, whose tails are numbers, dates or durations and no "
        "entities; by default those that look so.",
        read=_names,
        off="Read every tail as an entity, numbers and dates too.",
    )
    format: str = setting(
        "tsv", "What standard input holds, as an extension says it: csv, ttl, nt.gz."
    )
