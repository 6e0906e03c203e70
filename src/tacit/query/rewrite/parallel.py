"""Parts that say the same, or speak of the same pair, brought together."""

from __future__ import annotations

from collections.abc import Iterator

from tacit.query.formula import And, Atom, Exists, Formula, Not, Or


def merge_parallel_atoms(formula: Formula) -> Formula:
    """The formula without `&` directly in `&` or `|` in `|`, without repeated parts, and parallel atoms side by side.

    Parallel atoms hold between the same two terms, either way round: together they are a single step of a plan.
    """
    match formula:
        case And() | Or():
            kind = type(formula)
            parts: list[Formula] = []
            for part in _flat(formula):
                if not any(part.same_as(kept) for kept in parts):
                    parts.append(part)
            return kind(tuple(_gathered(parts))) if len(parts) > 1 else parts[0]
        case Not(part):
            return Not(merge_parallel_atoms(part))
        case Exists(variable, part):
            return Exists(variable, merge_parallel_atoms(part))
    return formula


def _flat(formula: And | Or) -> Iterator[Formula]:
    for part in map(merge_parallel_atoms, formula.parts):
        if isinstance(part, type(formula)):
            yield from part.parts
        else:
            yield part


def _gathered(parts: list[Formula]) -> list[Formula]:
    """The parts, each atom moved up to the first one over the same terms."""
    groups: dict[object, list[Formula]] = {}
    for number, part in enumerate(parts):
        key = frozenset(part.terms) if isinstance(part, Atom) else number
        groups.setdefault(key, []).append(part)
    return [part for group in groups.values() for part in group]
