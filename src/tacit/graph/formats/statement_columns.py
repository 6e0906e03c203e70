"""Columns of a table that qualify its facts: source, valid_from, valid_until and confidence."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from itertools import islice

import numpy as np

from tacit.errors import DataError, SettingsError
from tacit.graph.builder import Builder
from tacit.graph.formats.columns import Order, words_of
from tacit.graph.formats.delimited import COLUMNS, BadLines, check_row
from tacit.graph.qualifiers import (
    QUALIFIERS,
    STATEMENT_ROW,
    Numbers,
    QualifierError,
    Statement,
    qualifier_of,
)

_BATCH = 10_000  # rows
_LISTED = f"{', '.join(QUALIFIERS[:-1])} or {QUALIFIERS[-1]}"


def split_columns(columns: str | None) -> tuple[str | None, dict[str, str] | None]:
    """The option `columns` without its qualifiers, and the column of each of these.

    Qualifiers are None where the option is not given, and a header decides.

    >>> split_columns("s,p,o,source,valid_from=begin")
    ('s,p,o', {'source': 'source', 'valid_from': 'begin'})
    """
    if columns is None:
        return None, None
    words = words_of(columns)
    qualified: dict[str, str] = {}
    for word in words[3:]:
        text, equals, column = (part.strip() for part in word.partition("="))
        name = qualifier_of(text)
        if name is None or name in qualified:
            raise SettingsError(
                f"columns '{columns}' has '{word}' {'twice' if name else 'after the first three'}; "
                f"further columns are {_LISTED}, as in 'head,relation,tail,source=origin'",
                "columns",
            )
        qualified[name] = column if equals else text
    return ",".join(words[:3]) if qualified else columns, qualified


def qualifier_places(
    header: Sequence[str], order: Order, qualified: Mapping[str, str] | None, source: object
) -> dict[str, int]:
    """The places of the columns that qualify facts, by the option `columns` or else a header."""
    places: dict[str, int] = {}
    if qualified is None:
        for place, word in enumerate(header if len(header) > 3 else ()):
            name = qualifier_of(word)
            if name is None or place in order:
                continue
            if name in places:
                both = f"'{header[places[name]]}' and '{word}'"
                raise DataError(
                    f"its columns {both} are both {name} of a fact; choose one by `columns`, as in "
                    f"`columns='{','.join(header[i] for i in order)},{name}={word}'`",
                    str(source),
                )
            places[name] = place
    else:
        places = {name: _place(header, column) for name, column in qualified.items()}
    return {name: places[name] for name in QUALIFIERS if name in places}


def is_named(
    header: Sequence[str], places: Mapping[str, int], qualified: Mapping[str, str] | None
) -> bool:
    """Whether the first line names a column of a qualifier, so that it is a header."""
    return any(
        qualifier_of(header[place]) is not None or header[place] == (qualified or {}).get(name)
        for name, place in places.items()
    )


def _place(header: Sequence[str], column: str) -> int:
    """The place of a column by its name or position."""
    if header.count(column) == 1:
        return header.index(column)
    if column.isdecimal() and 1 <= int(column) <= len(header):
        return int(column) - 1
    raise SettingsError(
        f"columns names '{column}', which is no column; there are {', '.join(header)}", "columns"
    )


def add_stated(
    rows: Iterable[tuple[int, Sequence[str]]],
    names: Sequence[str],
    split: str,
    builder: Builder,
    bad: BadLines,
) -> int:
    """Adds facts and the statements about them; returns the number of facts.

    A row has a number and the texts of head, relation, tail and the qualifiers in `names`; one that
    cannot be read is bad.
    """
    rows = iter(rows)
    others = [name for name in names if name != "source"]
    begin = len(COLUMNS) + (len(names) > len(others))
    meanings: dict[tuple[str, ...], Numbers] = {}  # of texts, which are few beside the rows
    facts = 0
    while batch := list(islice(rows, _BATCH)):
        fields: list[str] = []
        sources: dict[str, int] = {"": -1}
        statements: list[tuple[float, ...]] = []
        for number, row in batch:
            texts = tuple(row[begin:])
            if texts not in meanings:
                try:
                    meaning = Statement.parse(dict(zip(others, texts, strict=True))).numbers
                except QualifierError as error:
                    bad.add(number, str(error), error.expected)
                    continue
                meanings[texts] = meaning
            if not (fact := check_row([*row[:3]], COLUMNS, "", bad, number)):
                continue
            fields += fact
            at = len(statements)
            name = row[3] if begin > len(COLUMNS) else ""
            source = sources.setdefault(name, len(sources) - 1)
            statements.append((2 * at, at, 2 * at + 1, source, *meanings[texts]))
        ends, relations = fields.copy(), fields[1::3]
        del ends[1::3]
        builder.add(split, fields)
        table = np.array(statements, STATEMENT_ROW)
        builder.add_statements(ends, relations, list(sources)[1:], table)
        facts += len(statements)
    return facts
