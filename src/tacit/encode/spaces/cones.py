"""ConE: a question is a list of cones that hold the angles of its answers."""

from __future__ import annotations

import math

import torch
from torch import Tensor, nn
from torch.nn.functional import dropout

from tacit.encode.layers import embedding_range, network, reset_tables, rows, zero_last_layer
from tacit.encode.settings import EncodeSettings
from tacit.encode.spaces.pairs import cone
from tacit.encode.spaces.space import Space

INSIDE = 0.02  # the weight of distances inside a cone
NEAR = 1e-3  # a mean this near to the origin has no direction
UNIT = 0.2  # of tables, where residual
START = 0.1  # the share of a turn over which angles start


class ConE(Space):
    """A state is axes θ and apertures ω in [0, π]: cones from θ - ω to θ + ω.

    Logits are `γ - m · distance`, m learned.

    Apertures are dropped before their minimum is taken, in training alone, as published: one
    dropped part closes a cone. Directions are added up by `atan2`. Where projections are
    `residual`, which the published ones are not, a relation turns the axes, and the network, which
    starts at 0, corrects how far; distances start three times as large. A number of a table then
    stands for the same angle whatever the width; by margin and width, as published, a step of Adam
    would turn a wide model several times as far as a narrow one. Angles start near each other.
    """

    name = "ConE"
    lean_in_bfloat16 = True
    unit: Tensor  # the number in a table that stands for one turn

    def __init__(self, num_entities: int, num_relations: int, settings: EncodeSettings) -> None:
        super().__init__(num_entities, num_relations, settings)
        width = settings.width
        self.margin = settings.margin
        self.width = 2 * width
        unit = torch.tensor(UNIT if settings.residual else embedding_range(settings))
        # Saved with the weights, since a table alone does not say its unit.
        self.register_buffer("unit", unit, persistent=settings.residual)
        self.entities = nn.Parameter(torch.empty(num_entities, width))
        self.relations = nn.Parameter(torch.empty(num_relations, 2 * width))
        self.hop = network(2 * width, settings.hidden, settings.layers, 2 * width)
        self.weigh = network(2 * width, width, 1, width)
        self.inner = nn.Linear(2 * width, width)
        self.outer = nn.Linear(width, width)
        self.scale = nn.Parameter(torch.empty(()))

    def reset(self, generator: torch.Generator) -> None:
        """Draw tables uniformly from ±`unit`; where residual, angles from a tenth of it."""
        residual = self.settings.residual
        reset_tables(self, float(self.unit), generator)
        nn.init.constant_(self.scale, embedding_range(self.settings) * (1.5 if residual else 0.5))
        if residual:
            zero_last_layer(self.hop)
            with torch.no_grad():
                self.entities.mul_(START)
                self.relations.chunk(2, 1)[0].mul_(START)

    def anchor(self, entities: Tensor) -> Tensor:
        """Cones of no aperture at the angles of entities."""
        angles = axis(rows(self.entities, entities) / self.unit)
        return torch.cat((angles, torch.zeros_like(angles)), 1)

    def project(self, states: Tensor, relations: Tensor) -> Tensor:
        """Turn and widen the state by the relation, and pass it through a network."""
        moves = rows(self.relations, relations) / self.unit
        turned = states + axis(moves)
        axes, apertures = self.hop(turned).chunk(2, 1)
        if self.settings.residual:
            axes = turned.chunk(2, 1)[0] + axis(axes)
            axes = axes - 2 * math.pi * (axes / (2 * math.pi)).round()
            return torch.cat((axes, aperture(moves.chunk(2, 1)[1] + apertures - 1)), 1)
        return torch.cat((axis(axes), aperture(apertures)), 1)

    def intersect(self, states: Tensor) -> Tensor:
        """Cones about the mean axes by attention, no wider than the narrowest part."""
        axes, apertures = states.chunk(2, 2)
        edges = torch.cat((axes - apertures, axes + apertures), 2)
        weights = torch.softmax(self.weigh(edges), 1)
        shrink = torch.sigmoid(self.outer(self.inner(edges).relu().mean(1)))
        dropped = dropout(apertures, self.settings.dropout, self.training)
        narrowest = dropped.amin(1).clamp(max=math.pi)
        x = (weights * axes.cos()).sum(1)
        y = (weights * axes.sin()).sum(1)
        # Opposite directions cancel, and the slope would have no bound.
        directions = torch.atan2(y, torch.where(x * x + y * y < NEAR * NEAR, NEAR, x))
        return torch.cat((directions, narrowest * shrink), 1)

    def complement(self, states: Tensor) -> Tensor:
        """The cones beside these: `(θ ± π, π - ω)`."""
        axes, apertures = states.chunk(2, 1)
        opposite = torch.where(axes >= 0, axes - math.pi, axes + math.pi)
        return torch.cat((opposite, math.pi - apertures), 1)

    def everything(self) -> Tensor:
        """Cones of a full turn."""
        none = torch.zeros(self.width // 2, device=self.device)
        return torch.cat((none, none + math.pi))

    def match(self, states: Tensor, entities: Tensor | None = None) -> Tensor:
        """The margin minus the distance."""
        angles = axis(rows(self.entities, entities) / self.unit)
        axes, apertures = states.chunk(2, 1)
        return self.margin - self.scale * cone(axes, apertures, angles, INSIDE)


def axis(numbers: Tensor) -> Tensor:
    """Any numbers as angles in [-π, π]."""
    return math.pi * torch.tanh(numbers)


def aperture(numbers: Tensor) -> Tensor:
    """Any numbers as apertures in [0, π]."""
    return math.pi / 2 * (torch.tanh(2 * numbers) + 1)
