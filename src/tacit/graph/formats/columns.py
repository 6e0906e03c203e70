"""Finds the head, relation and tail columns of a table, by option, header or values."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from itertools import permutations
from pathlib import Path

import numpy as np

from tacit.errors import DataError, SettingsError
from tacit.graph.builder import Builder, counted
from tacit.graph.formats.delimited import COLUMNS, SEPARATORS, BadLines, separator_of
from tacit.graph.formats.files import extension
from tacit.graph.qualifiers import qualifier_of

Order = tuple[int, ...]  # the positions of head, relation and tail
USUAL: Order = (0, 1, 2)
_JUDGED = 100  # facts that suffice to doubt a guessed order of columns
_FAR_MORE = 5  # times as many distinct values as another column has
_LOOKED_AT = 10  # first columns of a wide table that an example may name
_LONGEST_WORD = 100  # letters of a word that names a column
_SWAPPED = 0.1  # share of the relations that are entities too if columns are swapped
_MELTING = "; a table with a column for each relation is melted into these first"
_WORDS = {
    "head": "head h subject subj s source src from start node1 entity1 arg1",
    "relation": (
        "relation rel r relationship predicate pred p property type edge label link interaction"
    ),
    "tail": "tail t object obj o target tgt dst dest destination to end node2 entity2 arg2",
}
_ROLES = {word: role for role, words in _WORDS.items() for word in words.split()}
_NO_LABELS = ("relation", "relationship", "predicate")  # words that are hardly ever labels
_NEO4J = re.compile(r":(START_ID|END_ID|TYPE)\b.*")


def column_order(columns: str, header: Sequence[str] = ()) -> Order:
    """The positions of head, relation and tail that the option `columns` gives.

    It has three positions, or words for the three roles in the order of the file, or names of
    columns. Names that are words for the roles may be in any order; others are those of head,
    relation and tail.

    >>> column_order("head,tail,relation"), column_order("subject object predicate")
    ((0, 2, 1), (0, 2, 1))
    >>> column_order("2,3,1")
    (1, 2, 0)
    >>> column_order("year, book, author", ["author", "book", "pages", "year"])
    (3, 1, 0)
    """
    words = words_of(columns)
    if len(words) == len(set(words)) == 3:
        roles = header_order(words)
        if _are_positions(words):
            return tuple(int(word) - 1 for word in words)
        if roles and len(header) <= 3:
            return roles
        if all(header.count(word) == 1 for word in words):
            return tuple(header.index(words[i]) for i in roles or USUAL)
    names = f"three of {', '.join(header)}"
    if len(header) <= 3:
        own = header_names(header)
        by_header = f" or as the table does ({own})" if own else ""
        names = f"the three, as in 'head,tail,relation'{by_header},"
    positions = "the positions of head, relation and tail, as in '1,3,2'"
    raise SettingsError(f"columns '{columns}' must name {names} or give {positions}", "columns")


def header_names(header: Sequence[str]) -> str:
    """The columns of a header as the option `columns` names them; empty where it cannot."""
    is_named = len(set(header)) == len(header) and all(header)
    has_space = any("," in word or word != word.strip() for word in header)
    return "" if has_space or not is_named or _are_positions(header) else ",".join(header)


def advice(header: Sequence[str]) -> str:
    """An example of the option `columns` for a table whose header names not all roles.

    Columns with a word for a role get that role; the others get the remaining roles in order, side
    by side where they can, columns without a name last.

    >>> advice(["subject", "kind", "object"]), advice(["id", "from", "kind", "where"])
    ("`columns='subject,kind,object'`", "`columns='from,kind,where'`")
    >>> advice(["", "City", "Rel", "Country"]), advice(list("wxyz"))
    ("`columns='City,Rel,Country'`", "`columns='w,x,y'`")
    """
    order = _likely_order(header, [_role(word) for word in header])
    by_name = header_names([header[place] for place in order])
    return f"`columns='{by_name or _positions(order)}'`"


def _likely_order(header: Sequence[str], roles: Sequence[str | None]) -> Order:
    """The positions of head, relation and tail that a header with some `roles` suggests."""
    named = {role: roles.index(role) for role in COLUMNS if roles.count(role) == 1}
    places = sorted({*range(min(len(header), _LOOKED_AT)), *named.values()})

    def cost(order: tuple[int, ...]) -> tuple[int, int, bool, int]:
        wrong = sum(order[COLUMNS.index(role)] != place for role, place in named.items())
        nameless = sum(not header[place] for place in order)
        return wrong, nameless, list(order) != sorted(order), max(order) - min(order)

    head, relation, tail = min(permutations(places, 3), key=cost)
    return head, relation, tail


def _positions(order: Order) -> str:
    return ",".join(str(place + 1) for place in order)


def words_of(columns: str) -> list[str]:
    """The three words of `columns`, separated by commas, or by spaces where there are none."""
    return [word.strip() for word in columns.split(",")] if "," in columns else columns.split()


def _are_positions(words: Sequence[str]) -> bool:
    return all(word.isdecimal() and int(word) for word in words)


def header_order(words: Sequence[str]) -> Order | None:
    """The column order of a header, which has one word per role; None for any other line.

    >>> header_order([":START_ID(Person)", ":END_ID", ":TYPE"])
    (0, 2, 1)
    >>> header_order(["France", "type", "country"]) is None
    True
    """
    roles = [_role(word) for word in words]
    if any(roles.count(role) != 1 for role in COLUMNS):
        return None
    return tuple(map(roles.index, COLUMNS))


def is_half_a_header(fields: Sequence[str]) -> bool:
    """Whether the first line (three fields a line) names columns, but not all roles.

    Its words name two different roles, or one of them is hardly a label; none of the three occurs
    in its column again.
    """
    first = fields[:3]
    roles = {_role(word) for word in first if len(word) > 1} - {None}
    return (len(roles) > 1 or any(map(_is_no_label, first))) and not any(
        word in fields[i + 3 :: 3] for i, word in enumerate(first)
    )


def header_in(
    fields: Sequence[str], columns: str | None, order: Order, explicit: bool, path: Path
) -> Order | None:
    """The column order if the first line (three fields a line) is a header, else None.

    An `explicit` order overrides that of the header; without one, half a header is refused.
    """
    first = fields[:3]
    words = words_of(columns or "")
    stated = header_order(first)
    named = set(words) <= set(first) and not _are_positions(words)
    if not named and stated is None and not is_half_a_header(fields):
        return None
    if not explicit and stated is None:
        names = (
            f"its first line ({', '.join(first)}) names columns, but not head, relation and tail"
        )
        raise DataError(f"{names}; say which is which, such as {advice(first)}, or delete it", path)
    return order if explicit else stated


def resolve_order(
    header: Sequence[str], columns: str | None, usual: Order, path: Path, line: int | None = None
) -> tuple[Order, bool]:
    """The positions of head, relation and tail, and whether an option or header states them."""
    stated = _stated_order(header) if columns is None else column_order(columns, header)
    order = stated or usual
    if stated is None and len(header) != 3:
        wide = f"; {_choice(header)}{_MELTING}" if len(header) > 3 else ""
        number = counted(len(header), "column")
        raise DataError(f"has {number}; expected 3 ({', '.join(COLUMNS)}){wide}", path, line)
    roles = [_role(header[at]) for at in order] if stated is None else COLUMNS
    if any(role not in (None, column) for role, column in zip(roles, COLUMNS, strict=True)):
        names = ", ".join(header)
        raise DataError(
            f"its columns ({names}) are not all named as head, relation and tail; say which is "
            f"which, such as {advice(header)}",
            path,
            line,
        )
    if max(order) >= len(header):
        problem = f"columns '{columns}' ask for column {max(order) + 1}"
        raise SettingsError(f"{problem}, and {path} has {len(header)}", "columns")
    return order, stated is not None


def _stated_order(header: Sequence[str]) -> Order | None:
    """The order that a header states, in which `source` may be a qualifier beside a head."""
    unqualified = ["" if qualifier_of(word) else word for word in header]
    return header_order(header) or (header_order(unqualified) if len(header) > 3 else None)


def _choice(header: Sequence[str]) -> str:
    """How to choose three columns of a wider table, whose first line may be a fact.

    A single word that names a role may be a label; that of a relation is in its column then, too.
    """
    words = [word for word in header if len(word) > 1 and _role(word)]
    if len(words) > 1 or any(map(_is_no_label, words)):
        return f"say which these are, such as {advice(header)}"
    relations = [role if role == COLUMNS[1] else None for role in map(_role, header)]
    positions = _positions(_likely_order(header, relations))
    names = header_names(header)
    by_name = f", or their names if {names} are such" if names else ""
    return f"give `columns='{positions}'`, the positions of these{by_name}"


def _is_no_label(word: str) -> bool:
    """Whether a word names a column, since it is hardly ever a label."""
    return word.lower() in _NO_LABELS or bool(_NEO4J.fullmatch(word))


def check_table(
    bad: BadLines,
    split: str,
    builder: Builder,
    header: Sequence[str],
    order: Order,
    columns: str | None,
    explicit: bool,
    facts: int,
    qualified: Mapping[str, int],
) -> None:
    """Notes what was skipped or guessed of a table; a train table without facts is an error.

    A guessed order of columns that looks wrong is noted, or an error. So are `qualified` columns.
    """
    path = bad.path
    bad.good = facts
    bad.check()
    if bad.count:
        builder.notes.append(bad.note(split))
    if extension(path) == ".csv" and (separator := separator_of(path)) != ",":
        builder.notes.append(
            f"{split}: the columns of {path.name} are separated by {SEPARATORS[separator]}"
        )
    if not facts and split == "train":  # the other splits may be empty
        raise DataError("holds no facts; expected rows of head, relation and tail", path)
    if columns is None and len(header) > 3:
        names = ", ".join(header[i] for i in (*order, *qualified.values()))
        roles = ", ".join((*COLUMNS, *qualified))
        read = f"{names} were read" + f" as {roles}" * (names != roles or not qualified)
        builder.notes.append(f"{split}: of {path.name} the columns {read}")
    elif columns is None and order != USUAL:
        names = ", ".join(COLUMNS[order.index(i)] for i in range(3))
        builder.notes.append(f"{split}: the columns of {path.name} were read as {names}")
    if not explicit and order == USUAL and facts >= _JUDGED:
        _check_relation_column(path, split, builder)


def _check_relation_column(path: Path, split: str, builder: Builder) -> None:
    """Notes a relation column with too many values; refuses one of mostly entities."""
    heads, relations, tails = (
        np.count_nonzero(np.bincount(column)) for column in builder.facts(split).T
    )
    fewest = min(heads, tails)
    if relations < _FAR_MORE * fewest:
        return
    column, positions = (3, "1,3,2") if tails == fewest else (1, "2,1,3")
    values = (
        f"column 2, read as the relation, has {relations:,} different values "
        f"and column {column} only {fewest:,}"
    )
    if len(builder.relations.keys() & builder.entities.keys()) >= _SWAPPED * relations:
        raise DataError(
            f"{values}; say which is the relation, `columns='{positions}'` or `columns='1,2,3'`",
            path,
        )
    builder.notes.append(
        f"{split}: in {path.name} {values}; if that is the relation, give `columns='{positions}'`"
    )


def _role(word: str) -> str | None:
    """The role of a header word: head for `source_id`, `Head entity`, `:START_ID(City)`."""
    if len(word) > _LONGEST_WORD:
        return None
    plain = re.sub(r"\(.*\)|[\W_]", "", word.casefold())
    return _ROLES.get(plain) or _ROLES.get(
        re.sub(r"(?<=.)(id|uri|iri|name|label|entity|node|type)$", "", plain)
    )
