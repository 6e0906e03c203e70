"""Log-scores of a scorer whose rows are sparse: those of entries, and one for all other tails."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple, cast

import torch
from torch import Tensor

from tacit.engine.logic import ZERO
from tacit.links.scorer import SparseScorer

if TYPE_CHECKING:
    from tacit.engine.atoms.atoms import Atoms


class SparseScores(NamedTuple):
    """The log-scores of some atoms of rows, sorted by row."""

    rows: Tensor
    tails: Tensor
    scores: Tensor


@dataclass(frozen=True)
class SparseRows:
    """The rows of atoms whose calibration looks at a logit and its relation alone."""

    atoms: Atoms

    def floors(self, relations: Tensor) -> Tensor:
        """The log-score of a tail that is no entry, by relation, `[B] -> [B, 1]`."""
        atoms = self.atoms
        scorer = cast(SparseScorer, atoms.scorer)
        logits = torch.full((len(relations), 1), scorer.floor, device=relations.device)
        nobody = torch.zeros_like(relations)
        return atoms.capped(atoms.calibration(logits, nobody, relations, nobody))

    def entries(self, heads: Tensor, relations: Tensor) -> SparseScores:
        """The log-scores of entries, predictions all; those of forbidden loops are zero."""
        atoms = self.atoms
        scorer = cast(SparseScorer, atoms.scorer)
        found = scorer.entries(heads.cpu().numpy(), relations.cpu().numpy())
        rows, tails, scores = (torch.from_numpy(each).to(heads.device) for each in found)
        logits = scorer.log_odds(scores)[:, None]
        along = relations[rows]
        calibrated = atoms.calibration(logits, heads[rows], along, tails)[:, 0]
        scores = atoms.capped(calibrated)
        if atoms.possible is not None:
            loops = (heads[rows] == tails) & atoms.possible.without_loops[along]
            scores = scores.masked_fill(loops, ZERO)
        return SparseScores(rows, tails, scores)

    def known(self, heads: Tensor, relations: Tensor) -> SparseScores:
        """The log-scores of known facts."""
        rows, tails = self.atoms.known_tails(heads, relations)
        scores = torch.full(rows.shape, self.atoms.observed, device=rows.device)
        return SparseScores(rows, tails, scores)

    def table(self, heads: Tensor, relations: Tensor) -> Tensor:
        """Log-scores of every tail, `[B, N]`, known facts included."""
        atoms = self.atoms
        out = self.floors(relations).repeat(1, atoms.num_entities)
        if atoms.possible is not None:
            loops = atoms.possible.loops(heads, relations)
            out[loops.rows, loops.tails] = ZERO
        for part in (self.entries(heads, relations), self.known(heads, relations)):
            out[part.rows, part.tails] = part.scores
        return out
