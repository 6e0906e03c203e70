"""The rows of scores that the literals of a batch of queries need, adapted, block by block of entities.

The adapted score of an atom is `c = σ(y)` with `y = scale · x + shift`, where `x` is constant: a logit, or the log-odds
of a calibrated score.
"""

from __future__ import annotations

from typing import cast

import torch
from torch import Tensor

from tacit.adapt.calibrated import Adapted, log_odds
from tacit.engine.atoms import Atoms
from tacit.engine.calibration import ByRow
from tacit.engine.logic import LOG2_E
from tacit.links.precision import product
from tacit.links.rooms import Rooms
from tacit.links.scorer import BilinearScorer

_WIDTH = 1024  # columns of a product
_FEW = 0.75  # of all rows: where so few are distinct, these are computed once


class SharedRows:
    """The rows `p(s, ·)` of some atoms, `[P]`, of which several may be the same."""

    def __init__(self, atoms: Atoms, adapted: Adapted, heads: Tensor, ids: Tensor) -> None:
        self.atoms, self.adapted, self.heads, self.ids = atoms, adapted, heads, ids
        self.places: Tensor | None = None  # [P], which distinct row each is
        self._first: Tensor | slice = slice(None)  # [D], of each distinct row one place
        if atoms.device.type == "cpu":
            distinct, places = torch.unique(heads * atoms.scorer.num_relations + ids, return_inverse=True)
            if len(distinct) < _FEW * len(heads):
                self.places = places
                self._first = places.new_empty(len(distinct)).scatter_(0, places, torch.arange(len(places)))
        self._heads, self._ids = heads[self._first], ids[self._first]
        self._rooms = Rooms()
        self._logits: Tensor | None = None  # [D, N], where rows must be there whole
        self._by_row: ByRow | None = None
        if not atoms.blockwise:
            self._logits = self._whole()
            if adapted.on_odds:
                self._by_row = adapted.calibration.by_row(self._logits, self._heads, self._ids)

    def _whole(self) -> Tensor:
        """The logits of the distinct rows, `[D, N]`; on a CPU each row starts at a cache line, which products like."""
        atoms, n = self.atoms, self.atoms.num_entities
        if atoms.device.type != "cpu" or not isinstance(atoms.scorer, BilinearScorer):
            return next(atoms.products(self._heads, self._ids, n)).scores
        queries, keys = atoms.scorer.queries(self._heads, self._ids), atoms.scorer.keys().detach()
        logits = torch.empty(len(queries), n + -n % 64)[:, :n]
        for start in range(0, n, _WIDTH):
            part = slice(start, min(start + _WIDTH, n))
            product(queries, keys[part].t(), out=logits[:, part])
        return logits

    def at(self, tails: Tensor) -> Tensor:
        """`x` of each row at one entity, `[P]`."""
        logits = self.atoms.scorer.logits_of(self.heads, self.ids, tails)
        if self._by_row is None:
            return logits
        shift = self._by_row.shift if self.places is None else self._by_row.shift[self.places]
        return log_odds((logits + shift).clamp(max=self._by_row.cap))

    def adapt(self, scale: Tensor, shift: Tensor) -> None:
        """Take the scale and the shift of each row, `[P, 1]`, for the blocks to come."""
        self._scale, self._shift = scale[self._first], shift[self._first]
        if self._logits is None and self.atoms.device.type == "cpu":
            scorer = cast(BilinearScorer, self.atoms.scorer)
            self._keys = scorer.keys().detach()
            self._queries = scorer.queries(self._heads, self._ids) * self._scale

    def block(self, columns: slice) -> tuple[Tensor, Tensor]:
        """`y` and `c` of all rows in some columns, `[P, n]`, valid until this thread asks for others."""
        y = self._moved(columns).add_(self._shift)
        c = torch.sigmoid(y, out=self._room("c", y))
        return self._every("y", y), self._every("c", c)

    def _every(self, name: str, rows: Tensor) -> Tensor:
        """All rows, from the distinct ones."""
        if self.places is None:
            return rows
        room = self._rooms(f"every {name}", (len(self.places), rows.shape[1]), rows.device)
        return torch.index_select(rows, 0, self.places, out=room)

    def _moved(self, columns: slice) -> Tensor:
        """`scale · x` of the distinct rows."""
        if self._logits is None and self.atoms.device.type == "cpu":
            keys = self._keys[columns]
            room = self._rooms("y", (len(self._queries), len(keys)), keys.device)
            return product(self._queries, keys.t(), out=room)
        if self._logits is None:  # a GPU is asked for whole rows
            return next(self.atoms.products(self._heads, self._ids, self.atoms.num_entities, self._scale)).scores
        logits = self._logits[:, columns]
        y = self._room("y", logits)
        if self._by_row is None:
            return torch.mul(logits, self._scale, out=y)
        x = torch.add(logits, self._by_row.shift[:, None], out=y).clamp_(max=self._by_row.cap)
        # log c / (1 - c): no score is so near 1 that `1 - c` would lose what counts
        return x.sub_(torch.mul(x, LOG2_E, out=self._room("c", x)).exp2_().neg_().log1p_()).mul_(self._scale)

    def _room(self, name: str, like: Tensor) -> Tensor:
        return self._rooms(name, like.shape, like.device)
