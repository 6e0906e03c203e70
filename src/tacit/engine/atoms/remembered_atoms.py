"""Atoms while a question is explained, whose answers ask for few rows, and each of them for the same."""

from __future__ import annotations

from torch import Tensor

from tacit.engine.atoms.atoms import Atoms
from tacit.links.finders.codes import Codes

_HELD = 2**24  # floats of rows that are kept
_LARGE = 2**21  # and of a table of rows that is not: it is asked for once, for all answers


class RememberedAtoms(Atoms):
    """The same atoms, which keep the last tables of rows: what is asked for again is the same to the bit.

    Nobody writes to tables of rows; they are let go with the question.
    """

    def __init__(self, atoms: Atoms) -> None:
        self._tables: dict[tuple[int, ...], Tensor] = {}
        self._atoms, kept = atoms, atoms.kept  # what is known of the weights stays with those that others ask, too
        vars(self).update(vars(atoms) | {"_kept": kept})

    def rows(self, heads: Tensor, relations: Tensor) -> Tensor:
        """Log-scores of every tail, `[B, N]`, as they were scored before where the same rows were asked for."""
        if len(heads) > max(1, _LARGE // self.widest):
            return super().rows(heads, relations)
        asked = tuple(self._row_keys(heads, relations))
        if asked in self._tables:
            return self._tables[asked]
        self._tables[asked] = table = super().rows(heads, relations)
        while sum(map(len, self._tables)) * self.widest > _HELD:
            del self._tables[next(iter(self._tables))]  # the first that came
        return table

    def codes(self, questions: int) -> Codes | None:
        """Codes of the keys, which are made once many questions were asked."""
        return self._atoms.codes(questions)
