"""Encoders as link predictors, so that every search, adapter and reason works over them."""

from __future__ import annotations

import torch
from torch import Tensor

from tacit.encode.encoder import Encoder
from tacit.query.shapes import SHAPES

_ROWS = 1024  # whole rows of scores at once, where single ones are asked for


class EncoderScorer:
    """What an encoder answers to a question of one atom, `r(h, ?t)`, is how it scores that atom for every tail."""

    def __init__(self, encoder: Encoder) -> None:
        self.encoder, self.plan = encoder, SHAPES["1p"].plan
        self.num_entities, self.num_relations = encoder.num_entities, encoder.num_relations

    @property
    def device(self) -> torch.device:
        """Where the encoder computes."""
        return self.encoder.device

    @torch.no_grad()
    def logits(self, heads: Tensor, relations: Tensor, out: Tensor | None = None) -> Tensor:
        """Raw scores of every tail, `[B] x [B] -> [B, N]`; written into `out` where given."""
        found = self.encoder.logits(self.plan, heads.long()[:, None], relations.long()[:, None])
        return found if out is None else out.copy_(found)

    @torch.no_grad()
    def logits_of(self, heads: Tensor, relations: Tensor, tails: Tensor) -> Tensor:
        """Raw scores of single atoms, `[B] x [B] x [B] -> [B]`."""
        parts = zip(*(ids.long().split(_ROWS) for ids in (heads, relations, tails)), strict=True)
        return torch.cat([self.encoder.logits_of(self.plan, h[:, None], r[:, None], t) for h, r, t in parts])
