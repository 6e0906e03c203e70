"""GQE and Query2Box: a question is a point or a box, and a relation translates it.

GQE is the model that the tables of the literature report under the name: translations and
attention, as in the code of BetaE's authors, not the bilinear maps of the paper of 2018.
"""

from __future__ import annotations

import torch
from torch import Tensor, nn

from tacit.encode.layers import Attention, embedding_range, reset_tables, rows
from tacit.encode.settings import EncodeSettings
from tacit.encode.spaces.pairs import box, l1
from tacit.encode.spaces.space import Space

INSIDE = 0.02  # the weight of distances inside a box


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
        """Draw tables uniformly, in a range by margin and width."""
        reset_tables(self, embedding_range(self.settings), generator)

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


class Query2Box(Space):
    """A state is a centre and an offset of a box; `δ = |v - c|` is the distance to its centre.

    Logits are `γ - ‖relu(δ - o)‖₁ - 0.02 ‖min(δ, o)‖₁`.

    Nothing keeps offsets above 0, as in the published code; the distance inside is `|min(δ, o)|`
    then, too.
    """

    name = "Query2Box"

    def __init__(self, num_entities: int, num_relations: int, settings: EncodeSettings) -> None:
        super().__init__(num_entities, num_relations, settings)
        width = settings.width
        self.margin = settings.margin
        self.width = 2 * width
        self.entities = nn.Parameter(torch.empty(num_entities, width))
        # moves of the centre and of the offset, side by side
        self.relations = nn.Parameter(torch.empty(num_relations, 2 * width))
        self.attention = Attention(width)
        self.inner = nn.Linear(width, width)
        self.outer = nn.Linear(width, width)

    def reset(self, generator: torch.Generator) -> None:
        """Draw tables uniformly, in a range by margin and width; offsets start above 0."""
        reset_tables(self, embedding_range(self.settings), generator)
        with torch.no_grad():
            self.relations.chunk(2, 1)[1].abs_()

    def anchor(self, entities: Tensor) -> Tensor:
        """Boxes of no size around entities."""
        centres = rows(self.entities, entities)
        return torch.cat((centres, torch.zeros_like(centres)), 1)

    def project(self, states: Tensor, relations: Tensor) -> Tensor:
        """Move and widen by the relation."""
        return states + rows(self.relations, relations)

    def intersect(self, states: Tensor) -> Tensor:
        """A box about the mean of the centres, by attention, no wider than the narrowest part."""
        centres, offsets = states.chunk(2, 2)
        centre = (self.attention(centres) * centres).sum(1)
        shrink = torch.sigmoid(self.outer(self.inner(offsets).relu().mean(1)))
        return torch.cat((centre, offsets.amin(1) * shrink), 1)

    def match(self, states: Tensor, entities: Tensor | None = None) -> Tensor:
        """The margin minus the distance."""
        centres, offsets = states.chunk(2, 1)
        return self.margin - box(centres, offsets, rows(self.entities, entities), INSIDE)
