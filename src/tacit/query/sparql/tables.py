"""Tables of solutions, and the operations of SPARQL's algebra on them.

A row has a cell for each variable, None where it is unbound. Rows may repeat, as solutions do. Two
rows agree if no variable has different values in them.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Hashable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import chain

from tacit.errors import LimitError

MAX_ROWS = 100_000  # of a table
MAX_PAIRS = 2_000_000  # of rows that one operation compares
Cell = Hashable  # None where a variable is unbound
Row = tuple[Cell, ...]
Values = Mapping[str, frozenset[Cell]]
Condition = Callable[[Mapping[str, Cell]], bool]


@dataclass(frozen=True)
class Table:
    """Rows of cells under the names of variables."""

    variables: tuple[str, ...]
    rows: Sequence[Row]

    def __post_init__(self) -> None:
        if len(self.rows) > MAX_ROWS:
            raise LimitError(
                f"a part of the query has more than {MAX_ROWS:,} solutions in the known facts; "
                "name an entity or a relation in it, or ask in parts"
            )

    def bindings(self) -> Iterator[dict[str, Cell]]:
        """The rows, as the variables they bind with their values."""
        return (_binding(self.variables, row) for row in self.rows)

    def values(self) -> Values:
        """The values of each variable that every row binds."""
        columns = zip(self.variables, zip(*self.rows, strict=True), strict=False)
        sets = {name: frozenset(column) for name, column in columns}
        return {name: cells for name, cells in sets.items() if None not in cells}

    def joined(self, other: Table) -> Table:
        """The pairs of rows that agree, each as one row."""
        return Table(*_pairs(self, other, keep=False))

    def extended(self, other: Table, condition: Condition | None = None) -> Table:
        """The left join: rows that agree with none, by the condition, stay as they are."""
        return Table(*_pairs(self, other, keep=True, condition=condition))

    def without(self, other: Table) -> Table:
        """The rows that agree with no row of another table that shares a variable with them."""
        matches = _Matches(self, other)
        return Table(
            self.variables,
            [row for row in self.rows if not any(shared for _, shared in matches.of(row))],
        )

    def filtered(self, condition: Condition) -> Table:
        """The rows for which a condition holds."""
        pairs = zip(self.rows, self.bindings(), strict=True)
        return Table(self.variables, [row for row, binding in pairs if condition(binding)])

    def selected(self, variables: Sequence[str]) -> Table:
        """The rows with the cells of some variables alone."""
        places = [self.variables.index(n) if n in self.variables else None for n in variables]
        rows = [tuple(None if at is None else row[at] for at in places) for row in self.rows]
        return Table(tuple(variables), rows)


UNIT = Table((), [()])


def table_of(bindings: Sequence[Mapping[str, Cell]]) -> Table:
    """The table of rows that are given by the variables they bind."""
    variables = tuple(dict.fromkeys(chain.from_iterable(bindings)))
    return Table(variables, [tuple(map(row.get, variables)) for row in bindings])


def united(tables: Sequence[Table]) -> Table:
    """The rows of all tables."""
    variables = tuple(dict.fromkeys(chain.from_iterable(table.variables for table in tables)))
    return Table(variables, [row for table in tables for row in table.selected(variables).rows])


class _Matches:
    """The rows of a table that agree with a row of another."""

    def __init__(self, left: Table, right: Table) -> None:
        names = [name for name in left.variables if name in right.variables]
        self._shared = [(left.variables.index(n), right.variables.index(n)) for n in names]
        bound = left.values().keys() & right.values().keys()
        # columns that both tables bind in every row find the rows, others are compared
        self._keys = [pair for name, pair in zip(names, self._shared, strict=True) if name in bound]
        self._rows = defaultdict[Row, list[Row]](list)
        for row in right.rows:
            self._rows[tuple(row[at] for _, at in self._keys)].append(row)
        self._compared = 0

    def of(self, row: Row) -> Iterator[tuple[Row, bool]]:
        """The rows that agree with one, and whether both bind a variable."""
        candidates = self._rows.get(tuple(row[at] for at, _ in self._keys), ())
        self._compared += len(candidates)
        if self._compared > MAX_PAIRS:
            raise LimitError(
                f"joining two parts of the query compares more than {MAX_PAIRS:,} pairs of "
                "solutions; let them share a variable that each of them binds, or ask in parts"
            )
        for other in candidates:
            pairs = [(row[i], other[j]) for i, j in self._shared]
            both = [one == two for one, two in pairs if one is not None and two is not None]
            if all(both):
                yield other, bool(both)


def _pairs(
    left: Table, right: Table, keep: bool, condition: Condition | None = None
) -> tuple[tuple[str, ...], list[Row]]:
    """The variables and rows of a join, where `keep` with the rows that agree with none."""
    added = [at for at, name in enumerate(right.variables) if name not in left.variables]
    variables = (*left.variables, *(right.variables[at] for at in added))
    places = {name: at for at, name in enumerate(right.variables)}
    gaps = [(at, places[name]) for at, name in enumerate(left.variables) if name in places]
    matches = _Matches(left, right)
    rows: list[Row] = []
    for row in left.rows:
        before = len(rows)
        for other, _ in matches.of(row):
            whole = list(row)
            for at, place in gaps:
                whole[at] = other[place] if row[at] is None else row[at]
            joined = (*whole, *(other[at] for at in added))
            if condition is None or condition(_binding(variables, joined)):
                rows.append(joined)
        if keep and len(rows) == before:
            rows.append((*row, *(None for _ in added)))
        if len(rows) > MAX_ROWS:
            break  # the table says so
    return variables, rows


def _binding(variables: Sequence[str], row: Row) -> dict[str, Cell]:
    """The variables that a row binds, with their values."""
    return {n: cell for n, cell in zip(variables, row, strict=True) if cell is not None}
