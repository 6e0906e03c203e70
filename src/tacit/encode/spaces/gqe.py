"""GQE: a question is a point, a relation a translation, an intersection a weighted mean.

This is the model that the tables of the literature report under the name: translations and
attention, as in the code of BetaE's authors, not the bilinear maps of the paper of 2018.
"""

from __future__ import annotations

import torch
from torch import Tensor, nn

from tacit.encode.layers import Attention, reset_tables, rows
from tacit.encode.settings import EncodeSettings
from tacit.encode.spaces.pairs import l1
from tacit.encode.spaces.space import Space


class GQE(Space):
    """Logits are `γ - ‖v - x‖₁`."""

    name = "GQE"

    def __init__(self, num_entities: int, num_relations: int, settings: EncodeSettings) -> None:
        super().__init__(num_entities, num_relations, settings)
        self.width = settings.width
        self.margin = settings.margin
        self.entities = nn.Parameter(torch.empty(num_entities, self.width))
        self.relations = nn.Parameter(torch.empty(num_relations, self.width))
        self.attention = Attention(self.width)

    def reset(self, generator: torch.Generator) -> None:
        """Tables are uniform in a range by margin and width."""
        reset_tables(self, (self.margin + 2) / self.width, generator)

    def anchor(self, entities: Tensor) -> Tensor:
        """The points of entities."""
        return rows(self.entities, entities)

    def project(self, states: Tensor, relations: Tensor) -> Tensor:
        """Move by the relation."""
        return states + rows(self.relations, relations)

    def intersect(self, states: Tensor) -> Tensor:
        """The mean of the parts, weighted by attention number by number."""
        weights: Tensor = self.attention(states)
        return (weights * states).sum(1)

    def match(self, states: Tensor, entities: Tensor | None = None) -> Tensor:
        """The margin minus the distance."""
        return self.margin - l1(states, rows(self.entities, entities))
