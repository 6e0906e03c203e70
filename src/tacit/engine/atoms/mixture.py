"""Rules beside a link predictor: a calibration that mixes their probabilities into its scores."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Self

import numpy as np
import torch
from torch import Tensor

from tacit.distributed.shards import Shards
from tacit.engine.atoms.calibration import (
    EVERY,
    Calibration,
    CalibrationCapabilities,
    Tails,
)
from tacit.engine.atoms.known_facts import KnownFacts
from tacit.links.rules.rule_scorer import RuleScorer
from tacit.links.rules.rule_set import WRITTEN

LARGEST_SHARE = 0.999  # so that atoms without a rule keep their order


@dataclass(frozen=True, eq=False)
class RuleMixture:
    """Rules, and the share that they have in scores: `λ(h, r) = λ_r + (1-λ_r) · c / (c + n_h)`.

    `n_h` is the number of facts of the head, so that rules count for more where a vector was
    learned from few. Confidences are shares of pairs that are facts already; the log-odds `x` of
    those that are none become `scale · x + shift` first. No score is below the confidence by the
    rules that a person wrote, which count whole.
    """

    scorer: RuleScorer
    shares: Tensor  # λ_r, [R]
    few: float = 0.0  # c
    scale: float = 1.0
    shift: float = 0.0

    @cached_property
    def written(self) -> RuleScorer | None:
        """The rules that a person wrote, alone; None where there are none."""
        rules = self.scorer.rules
        places = np.flatnonzero(rules.active & ((rules.flags & WRITTEN) != 0))
        return replace(self.scorer, rules=rules.take(places)) if len(places) else None

    @cached_property
    def degrees(self) -> Tensor:
        """The number of facts of each entity, in both directions, `[N]`."""
        index = self.scorer.index
        counts = np.bincount(index.heads, np.diff(index.offsets), self.scorer.num_entities)
        return torch.from_numpy(counts).to(self.scorer.device)

    @cached_property
    def _shares(self) -> Tensor:
        return self.shares.to(self.scorer.device, torch.float64)

    def shares_of(self, heads: Tensor, relations: Tensor) -> Tensor:
        """`λ(h, r)` of some rows, `[B]` in float64."""
        shares = self._shares[relations]
        if self.few:
            shares = shares + (1.0 - shares) * self.few / (self.few + self.degrees[heads])
        return shares.clamp(max=LARGEST_SHARE)

    def chances(self, scores: Tensor) -> Tensor:
        """The probabilities of atoms by rules, of their scores by confidences, in float64."""
        if (self.scale, self.shift) == (1.0, 0.0):
            return scores.double()
        return torch.sigmoid(self.scale * torch.logit(scores.double()) + self.shift)

    def to_tensors(self) -> dict[str, Tensor]:
        """The weights as tensors by name."""
        numbers = torch.tensor([self.few, self.scale, self.shift], dtype=torch.float64)
        return {"shares": self.shares, "numbers": numbers}

    @classmethod
    def from_tensors(cls, scorer: RuleScorer, tensors: Mapping[str, Tensor]) -> Self:
        """The mixture of `to_tensors`; relations that it does not know have the mean share."""
        shares = tensors["shares"]
        missing = scorer.num_relations - len(shares)
        if missing > 0:
            shares = torch.cat([shares, shares.mean().expand(missing)])
        return cls(scorer, shares, *tensors["numbers"].tolist())


class Mixed(Calibration):
    """`log ((1-λ) c + λ p)` of the score `c` of a calibration and the probability `p` by rules.

    Where no rule speaks for an atom that is `log (1-λ) + log c`, and impossible atoms stay so.
    """

    capabilities = CalibrationCapabilities(monotone=False, by_odds=True)
    rules: RuleMixture

    def __init__(
        self, calibration: Calibration, rules: RuleMixture, shards: Shards | None = None
    ) -> None:
        super().__init__(shards or calibration.shards)
        self.calibration = calibration
        self.rules = rules
        self.name = f"{calibration.name} with rules"
        self.kind = calibration.kind
        self.num_entities = rules.scorer.num_entities
        self.num_relations = rules.scorer.num_relations

    @property
    def supremum(self) -> float:  # type: ignore[override]
        """The upper bound of the calibration, which no mixed score exceeds."""
        return self.calibration.supremum

    def forward(
        self, logits: Tensor, heads: Tensor, relations: Tensor, tails: Tails = EVERY
    ) -> Tensor:
        """The mixed log-scores of atoms."""
        return self.summed(logits, heads, relations, tails, self.log_sums(logits))

    def log_sums(self, logits: Tensor) -> Tensor:
        """The log-sums of the calibration."""
        return self.calibration.log_sums(logits)

    def summed(
        self, logits: Tensor, heads: Tensor, relations: Tensor, tails: Tails, log_sums: Tensor
    ) -> Tensor:
        """The mixed log-scores of parts of rows, `[B, n]`."""
        scores = self.calibration.summed(logits, heads, relations, tails, log_sums)
        shares = self.rules.shares_of(heads, relations)
        rows, columns, confidences = self._entries(
            self.rules.scorer, heads, relations, tails, scores
        )
        chances = self.rules.chances(confidences)
        alone = scores[rows, columns].double()
        # by few numbers, whose logarithms are the same in any batch in 64 bits alone
        mixed = torch.logaddexp(
            alone + torch.log1p(-shares)[rows], shares.log()[rows] + chances.log()
        )
        mixed = mixed.masked_fill(torch.isneginf(alone), -torch.inf)
        mixed = mixed.clamp(max=self.supremum).to(scores.dtype)
        rest = torch.log1p(-shares).to(scores.dtype)[:, None]
        if scores.requires_grad:
            scores = (scores + rest).index_put((rows, columns), mixed)
        else:
            scores.add_(rest)[rows, columns] = mixed
        if self.rules.written is None:
            return scores
        rows, columns, confidences = self._entries(
            self.rules.written, heads, relations, tails, scores
        )
        before = scores[rows, columns]
        whole = confidences.double().log().clamp(max=self.supremum).to(scores.dtype)
        lifted = torch.maximum(before, whole.masked_fill(torch.isneginf(before), -torch.inf))
        return scores.index_put((rows, columns), lifted)

    def with_rules(self, rules: RuleMixture | None) -> Mixed:
        """The same calibration with other rules."""
        if rules is None or rules is self.rules:
            return self
        return Mixed(self.calibration, rules, self.shards)

    def counting(self, facts: KnownFacts, shards: Shards | None = None) -> Mixed:
        """The same rules beside a calibration with other facts to count and other shards."""
        return Mixed(self.calibration.counting(facts, shards), self.rules, shards)

    def _entries(
        self, scorer: RuleScorer, heads: Tensor, relations: Tensor, tails: Tails, scores: Tensor
    ) -> tuple[Tensor, Tensor, Tensor]:
        """The places in `scores` of atoms that rules speak for, and their confidences."""
        found = scorer.entries(heads.cpu().numpy(), relations.cpu().numpy())
        if isinstance(tails, Tensor):
            columns = np.zeros_like(found.tails)
            inside = found.tails == tails.cpu().numpy()[found.rows]
        else:
            start = self.shards.start if tails.start is None else tails.start
            columns = found.tails - start
            inside = (columns >= 0) & (columns < scores.shape[1])
        device = scores.device
        return (
            torch.from_numpy(found.rows[inside].astype(np.int64)).to(device),
            torch.from_numpy(columns[inside].astype(np.int64)).to(device),
            torch.from_numpy(found.scores[inside]).to(device),
        )


def mixed(calibration: Calibration, rules: RuleMixture | None) -> Calibration:
    """A calibration with rules beside it, if there are any."""
    return calibration if rules is None else Mixed(calibration, rules)
