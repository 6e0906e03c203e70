"""A calibration with an adapter."""

from __future__ import annotations

from dataclasses import replace

import torch
import torch.nn.functional as F
from torch import Tensor

from tacit.adapt.adapter import Adapter
from tacit.distributed.shards import Shards
from tacit.engine.atoms.calibration import EVERY, ByRow, Calibration, Tails
from tacit.engine.atoms.known_facts import KnownFacts
from tacit.engine.atoms.mixture import RuleMixture
from tacit.engine.logic import LOG2_E, log1mexp, steadily


class Adapted(Calibration):
    """`log σ(x(1 + α) + β)` of the raw score `x`, or of the log-odds of softmax-count.

    Beside rules the log-odds are those of the mixture.
    """

    def __init__(self, calibration: Calibration, adapter: Adapter) -> None:
        super().__init__()
        self.calibration = calibration
        self.adapter = adapter
        self.num_entities = adapter.scorer.num_entities
        self.num_relations = adapter.scorer.num_relations
        capabilities = calibration.capabilities
        self.by_odds = capabilities.by_odds
        self.capabilities = replace(
            capabilities,
            monotone=capabilities.monotone and adapter.by_row,
            rowwise=(
                capabilities.rowwise
                and adapter.by_row
                and (capabilities.sigmoidal or capabilities.by_odds)
            ),
            shareable=adapter.by_relation,
        )
        self.name = f"{calibration.name}, adapted"
        self.kind = calibration.kind
        self.rules = calibration.rules

    @property
    def supremum(self) -> float:  # type: ignore[override]
        """The upper bound of adapted log-scores, if the adapter only sees relations."""
        if not (self.by_odds and self.adapter.by_relation):
            return 0.0
        scale, shift = (part.detach() for part in self.adapter.table())
        before = torch.full_like(scale, self.calibration.supremum)
        return float(_moved_odds(before, scale, shift).max())

    def forward(
        self, logits: Tensor, heads: Tensor, relations: Tensor, tails: Tails = EVERY
    ) -> Tensor:
        """The adapted log-scores of atoms."""
        if not self.by_odds:
            scores: Tensor = self.calibration(
                self.moved(logits, heads, relations, tails), heads, relations, tails
            )
            return scores
        return self.summed(logits, heads, relations, tails, self.log_sums(logits))

    def by_row(self, logits: Tensor, heads: Tensor, relations: Tensor) -> ByRow:
        """The sigmoid of scaled and shifted rows."""
        scale, shift = (
            part[:, 0].expand(len(logits)).contiguous()
            for part in self.adapter(heads, relations, EVERY)
        )
        if not self.by_odds:
            return ByRow(shift, scale)
        unadapted = self.calibration.by_row(logits, heads, relations)
        return ByRow(shift, scale, unadapted.cap, unadapted.shift)

    def log_sums(self, logits: Tensor) -> Tensor:
        """The log-sums of the calibration."""
        return self.calibration.log_sums(logits)

    def summed(
        self, logits: Tensor, heads: Tensor, relations: Tensor, tails: Tails, log_sums: Tensor
    ) -> Tensor:
        """The adapted log-scores of parts of rows, `[B, n]`."""
        if not self.by_odds:
            return super().summed(logits, heads, relations, tails, log_sums)
        before = self.calibration.summed(logits, heads, relations, tails, log_sums)
        return _moved_odds(before, *self.adapter(heads, relations, tails))

    def moved(
        self, logits: Tensor, heads: Tensor, relations: Tensor, tails: Tails = EVERY
    ) -> Tensor:
        """`x(1 + α) + β`."""
        scale, shift = self.adapter(heads, relations, tails)
        if torch.is_grad_enabled() and (scale.requires_grad or logits.requires_grad):
            return torch.addcmul(shift, logits, scale)
        if scale.shape[1] == 1:
            return torch.addcmul(shift, logits, scale, out=logits)
        return logits.mul_(scale).add_(shift)

    def with_rules(self, rules: RuleMixture | None) -> Adapted:
        """The same adapter with other rules, where it has any."""
        if rules is self.rules or self.rules is None:
            return self
        return Adapted(self.calibration.with_rules(rules), self.adapter)

    def counting(self, facts: KnownFacts, shards: Shards | None = None) -> Adapted:
        """The same adapter over a calibration with other facts to count and other shards."""
        return Adapted(self.calibration.counting(facts, shards), self.adapter)

    def forget(self) -> None:
        """Drop the adapter's cache."""
        self.adapter.forget()

    @torch.no_grad()
    def adaptable(self, logits: Tensor, heads: Tensor, relations: Tensor) -> Tensor:
        """The values to scale and shift, of whole rows, in the memory of the logits."""
        if not self.by_odds:
            return logits
        x: Tensor = self.calibration(logits, heads, relations)
        # log c / (1 - c): no score is so near 1 that `1 - c` would lose what counts
        return x.sub_(steadily(torch.mul(x, LOG2_E), lambda t: t.exp2_().neg_().log1p_()))


def _moved_odds(scores: Tensor, scale: Tensor, shift: Tensor) -> Tensor:
    """`log σ(x(1 + α) + β)` of the log-odds `x = log c / (1 - c)` of `log c`."""
    after = F.logsigmoid(torch.addcmul(shift, scores - log1mexp(scores), scale))
    if after.requires_grad:
        return after
    # log-odds and back lose digits, which unchanged rows keep
    return torch.where((scale == 1.0) & (shift == 0.0), scores, after)
