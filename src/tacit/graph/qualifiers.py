"""Qualifiers of facts: where they come from, when they hold, and how sure that is."""

from __future__ import annotations

import math
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, fields
from functools import cached_property, lru_cache
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tacit.errors import SettingsError
from tacit.graph.fact_index import Flags, Floats, Ids, Integers, Ints, paired
from tacit.graph.quantities import PRECISIONS, Quantity

QUALIFIERS = ("source", "valid_from", "valid_until", "confidence")
# a fact and what one statement says of it, as ids, numbers and positions of precisions
STATEMENT_ROW = np.dtype(
    [
        *((name, "i4") for name in ("head", "relation", "tail", "source")),
        *((name, "f8") for name in QUALIFIERS[1:]),
        *((name, "u1") for name in ("from_precision", "until_precision")),
    ]
)
Rows = NDArray[np.void]  # of type `STATEMENT_ROW`
# a statement that says nothing: no source, any time, no confidence
SILENT = np.array([(0, 0, 0, -1, -np.inf, np.inf, -1.0, 0, 0)], STATEMENT_ROW)
_SORTED_BY = STATEMENT_ROW.names or ()
_WORDS = {
    "source": "source provenance wasderivedfrom derivedfrom hadprimarysource",
    "valid_from": "validfrom since startdate starttime startedattime",
    "valid_until": "validuntil validto validthrough until enddate endtime endedattime",
    "confidence": "confidence",
}
_MEANINGS = {word: name for name, words in _WORDS.items() for word in words.split()}
_LONGEST_WORD = 40
_COMPARED = 10_000  # sources that a misspelt one may be
_REMEMBERED = 1 << 14  # dates, which are few beside the statements
_SHOWN = 3  # statements about a fact in a text
_LONG_YEAR = re.compile(r"\s*[+-]?\d{5}", re.ASCII)
_DATES = "expected a date such as 2019, 2019-05 or 2019-05-14"
Numbers = tuple[float, float, float, int, int]  # of a row, behind its source


class QualifierError(ValueError):
    """A text that is no value of a qualifier, with what was expected."""

    def __init__(self, why: str, expected: str) -> None:
        super().__init__(why)
        self.expected = expected


def qualifier_of(word: str) -> str | None:
    """The qualifier that a column or property of this name holds, or None.

    >>> qualifier_of("Valid from"), qualifier_of("endDate"), qualifier_of("weight")
    ('valid_from', 'valid_until', None)
    """
    if len(word) > _LONGEST_WORD:
        return None
    return _MEANINGS.get(re.sub(r"[\W_]", "", word.casefold()))


@dataclass(frozen=True)
class Statement:
    """What one source says about a fact: its name, when the fact holds, and how sure that is.

    >>> str(Statement("Wikidata", Quantity.parse("2019", "date")))
    'from Wikidata, since 2019'
    """

    source: str | None = None
    valid_from: Quantity | None = None
    valid_until: Quantity | None = None
    confidence: float | None = None

    @classmethod
    def parse(cls, texts: Mapping[str, str]) -> Statement:
        """Reads a statement from texts by qualifier, of which any may be empty.

        >>> str(Statement.parse({"source": "a book", "valid_until": "1990", "confidence": "0.5"}))
        'from a book, until 1990, confidence 0.5'
        """
        since, until = (_parsed_date(name, texts.get(name, "")) for name in QUALIFIERS[1:3])
        if since is not None and until is not None and since.value > until.last:
            problem = f"valid_from is {since}, after valid_until, {until}"
            raise QualifierError(problem, "expected the start of a period before its end")
        confidence = None
        if text := texts.get("confidence", ""):
            number = Quantity.parse(text, "number")
            confidence = -1.0 if number is None else number.value
            if not 0.0 <= confidence <= 1.0:
                raise QualifierError(f"confidence is '{text:.40}'", "expected a number from 0 to 1")
        return cls(texts.get("source") or None, since, until, confidence)

    @property
    def numbers(self) -> Numbers:
        """What a row holds behind its source."""
        since, until = self.valid_from, self.valid_until
        return (
            -math.inf if since is None else since.value,
            math.inf if until is None else until.value,
            -1.0 if self.confidence is None else self.confidence,
            PRECISIONS.index(since.precision) if since else 0,
            PRECISIONS.index(until.precision) if until else 0,
        )

    def __str__(self) -> str:
        since, until = self.valid_from, self.valid_until
        parts = [f"from {self.source}"] if self.source is not None else []
        if since is not None and until is not None:
            parts.append(str(since) if since == until else f"{since} to {until}")
        elif since is not None or until is not None:
            parts.append(f"since {since}" if until is None else f"until {until}")
        if self.confidence is not None:
            parts.append(f"confidence {self.confidence:g}")
        return ", ".join(parts)

    def to_dict(self) -> dict[str, Any]:
        """The statement as plain data for JSON, with dates as texts."""
        values = {each.name: getattr(self, each.name) for each in fields(self)}
        plain = {k: str(v) if isinstance(v, Quantity) else v for k, v in values.items()}
        return plain | {"text": str(self)}


def in_words(statements: Sequence[Statement]) -> str:
    """The first few statements about a fact, and how many more there are.

    >>> in_words([Statement("a"), Statement("b"), Statement("c"), Statement("d")])
    'from a; from b; from c; and 1 more'
    """
    parts = [*map(str, statements[:_SHOWN])]
    parts += [f"and {len(statements) - _SHOWN:,} more"] * (len(statements) > _SHOWN)
    return "; ".join(parts)


@dataclass(frozen=True)
class FactSelection:
    """The facts that hold at some moment of a date's period and come from one of some sources.

    A fact is selected if one statement about it says both. A fact without statements holds always,
    and comes from no source.
    """

    as_of: Quantity | None = None
    sources: tuple[str, ...] = ()

    def __bool__(self) -> bool:
        return self.as_of is not None or bool(self.sources)


@dataclass(frozen=True, eq=False)
class Qualifiers:
    """The statements about facts: distinct rows, by fact. A fact may have several, or none.

    `valid_from` begins with the first moment of its period, and `valid_until` ends with the last
    one of its own. A statement that says neither source, time nor confidence is dropped.
    """

    sources: tuple[str, ...] = ()
    rows: Rows = field(default_factory=lambda: np.empty(0, STATEMENT_ROW))

    def __post_init__(self) -> None:
        silent = np.ones(len(self.rows), dtype=bool)
        for name in QUALIFIERS:
            silent &= self.rows[name] == SILENT[name]
        rows = self.rows[~silent]
        rows = rows[np.lexsort([rows[key] for key in reversed(_SORTED_BY)])]
        fresh = np.ones(len(rows), dtype=bool)
        fresh[1:] = rows[1:] != rows[:-1]
        rows = rows[fresh]
        used = np.unique(rows["source"][rows["source"] >= 0])
        if len(used) < len(self.sources):
            rows["source"] = np.searchsorted(used, rows["source"]) - (rows["source"] < 0)
        vars(self).update(rows=rows, sources=tuple(self.sources[i] for i in used.tolist()))

    @classmethod
    def of_sorted(cls, sources: Sequence[str], rows: Rows) -> Qualifiers:
        """The qualifiers with rows in order, such as those of a file, which are not read here."""
        qualifiers = cls.__new__(cls)
        vars(qualifiers).update(sources=tuple(sources), rows=rows)
        return qualifiers

    def __len__(self) -> int:
        return len(self.rows)

    def statements(self, head: int, relation: int, tail: int) -> tuple[Statement, ...]:
        """The statements about a fact, which may be given by the inverse of its relation."""
        if not len(self.rows):
            return ()
        if relation & 1:
            head, tail = tail, head
        rows = self.rows[slice(*np.searchsorted(self._heads, [head, head + 1]))]
        for name, id_ in (("relation", relation & ~1), ("tail", tail)):
            rows = rows[slice(*np.searchsorted(rows[name], [id_, id_ + 1]))]
        return tuple(statement for _, statement in self.of_sorted(self.sources, rows).items())

    def items(self) -> Iterator[tuple[tuple[int, int, int], Statement]]:
        """Yields the statements in order, each behind the ids of its fact."""
        for head, relation, tail, source, *numbers, begin, end in self.rows.tolist():
            since, until, confidence = numbers
            yield (
                (head, relation, tail),
                Statement(
                    self.sources[source] if source >= 0 else None,
                    _date(since, begin),
                    _date(until, end),
                    confidence if confidence >= 0 else None,
                ),
            )

    @cached_property
    def _heads(self) -> Ints:
        """The heads side by side, which are searched without a copy."""
        return self.rows["head"].astype(np.int64)

    def about(self, facts: Integers) -> Qualifiers:
        """The statements about some facts alone, `[n, 3]`."""
        if not len(self.rows):
            return self
        own, others = _fact_keys(self.rows, facts)
        return Qualifiers(self.sources, self.rows[np.isin(own, others)])

    def renumbered(self, entities: Ids, relations: Ids) -> Qualifiers:
        """The same statements with new ids of entities and forward relations, by the old ones."""
        if not len(self.rows):
            return self
        rows = self.rows.copy()
        rows["head"], rows["tail"] = entities[rows["head"]], entities[rows["tail"]]
        rows["relation"] = 2 * relations[rows["relation"] >> 1]
        return Qualifiers(self.sources, rows)

    def joined(self, others: Qualifiers) -> Qualifiers:
        """The statements of both, whose facts have the same ids."""
        if not len(others):
            return self
        sources = tuple(dict.fromkeys((*self.sources, *others.sources)))
        ids = {source: id_ for id_, source in enumerate(sources)}
        rows = others.rows.copy()
        new_ids = np.array([*map(ids.__getitem__, others.sources), -1], dtype=np.int32)
        rows["source"] = new_ids[rows["source"]]  # -1 is the last
        return Qualifiers(sources, np.concatenate((self.rows, rows)))

    def where(self, mask: Flags) -> Qualifiers:
        """The statements that a mask over `rows` selects."""
        return self.of_sorted(self.sources, self.rows[mask])

    def selects(self, facts: Integers, selection: FactSelection) -> Flags:
        """Whether each fact is selected, `[n, 3] -> [n]`."""
        admitted = self.admitted(selection)
        own, others = _fact_keys(self.rows, facts)
        chosen: Flags = np.isin(others, own[admitted])
        return chosen if selection.sources else chosen | ~np.isin(others, own)

    def admitted(self, selection: FactSelection) -> Flags:
        """Whether each statement says what a selection asks for."""
        rows = self.rows
        admitted = np.ones(len(rows), dtype=bool)
        if selection.sources:
            admitted &= np.isin(rows["source"], [*map(self.source_id, selection.sources)])
        if (date := selection.as_of) is not None:
            last = _last_moments(rows["valid_until"], rows["until_precision"])
            admitted &= (rows["valid_from"] <= date.last) & (last >= date.value)
        return admitted

    def source_id(self, name: str) -> int:
        """The position of a source; a name in quotes may be given without them."""
        for label in (name, f'"{name}"'):
            if label in self.sources:
                return self.sources.index(label)
        from difflib import get_close_matches  # local, since it delays every command

        near = get_close_matches(name, self.sources[:_COMPARED], n=1)
        known = f"the sources are {', '.join(self.sources[:5])}" + ", ..." * (len(self.sources) > 5)
        hint = f"did you mean '{near[0]}'?" if near else known
        if not self.sources:
            hint = "none names a source; tables do in a column named source"
        raise SettingsError(
            f"fact_sources names '{name}', from which no fact comes; {hint}", "fact_sources"
        )

    @property
    def dated(self) -> Flags:
        """Whether each statement has a date."""
        dates: Flags = np.isfinite(self.rows["valid_from"]) | np.isfinite(self.rows["valid_until"])
        return dates

    def source_counts(self) -> tuple[tuple[str, int], ...]:
        """The sources, each with the number of its statements, the most frequent first."""
        named = self.rows["source"][self.rows["source"] >= 0]
        counts = np.bincount(named, minlength=len(self.sources))
        order = np.argsort(-counts, kind="stable").tolist()
        return tuple((self.sources[i], int(counts[i])) for i in order)

    def check(self, selection: FactSelection) -> None:
        """Raise a `SettingsError` for an unknown source, or a date where no fact has one."""
        for name in selection.sources:
            self.source_id(name)
        if selection.as_of is not None and not self.dated.any():
            raise SettingsError(
                f"as_of is '{selection.as_of}', and no fact says when it holds; tables do in "
                "columns named valid_from and valid_until",
                "as_of",
            )


@lru_cache(_REMEMBERED)
def _parsed_date(name: str, text: str) -> Quantity | None:
    """The date of a text, which a program may have written as a number with a fraction of zero."""
    date = Quantity.parse(text, "date")
    if date is None and (number := Quantity.parse(text, "number")) is not None:
        date = Quantity.parse(str(number), "date")
    # 20190514 would be a year
    if text and (date is None or _LONG_YEAR.match(text)):
        raise QualifierError(f"{name} is '{text:.40}'", _DATES)
    return date


def parsed_as_of(text: str) -> Quantity:
    """The date that facts are asked as of."""
    try:
        date = _parsed_date("as_of", text.strip())
    except QualifierError as error:
        raise SettingsError(f"{error}; {error.expected}", "as_of") from None
    if date is None:
        raise SettingsError(f"as_of is empty; {_DATES}", "as_of")
    return date


def triples_of(rows: Rows) -> Ids:
    """The facts of statements, `[n, 3]`."""
    return np.stack([rows["head"], rows["relation"], rows["tail"]], axis=1)


def _fact_keys(rows: Rows, facts: Integers) -> tuple[Ints, Ints]:
    """One integer per row and one per fact, equal exactly where the facts are."""
    heads, relations, tails = np.concatenate((triples_of(rows), facts)).astype(np.int64).T
    pairs = paired(heads, relations, int(relations.max(initial=0)) + 1)
    keys = paired(pairs, tails, int(tails.max(initial=0)) + 1)
    return keys[: len(rows)], keys[len(rows) :]


@lru_cache(_REMEMBERED)
def _date(value: float, precision: int) -> Quantity | None:
    return Quantity(value, "date", PRECISIONS[precision]) if math.isfinite(value) else None


def _last_moments(values: Floats, precisions: NDArray[np.uint8]) -> Floats:
    """The last moment of the period of each date."""
    last = values.copy()
    for precision in np.unique(precisions[np.isfinite(values)]).tolist():
        at = np.isfinite(values) & (precisions == precision)
        distinct, places = np.unique(values[at], return_inverse=True)
        dates = (Quantity(value, "date", PRECISIONS[precision]) for value in distinct.tolist())
        last[at] = np.array([date.last for date in dates])[places]
    return last
