"""FuzzQE: a question is a fuzzy set of hidden features, with logic on its degrees."""

from __future__ import annotations

from functools import reduce

import torch
from torch import Tensor, nn
from torch.nn.functional import layer_norm, normalize

from tacit.encode.layers import products, rows
from tacit.encode.settings import EncodeSettings
from tacit.encode.spaces.space import Space

SHORT = 0.2  # the largest degree of an entity to start with


class FuzzQE(Space):
    """States are degrees in [0, 1] with product logic; logits are `cos(x, v) / temperature`.

    A relation's map is a mixture of bases, `W_r = Σ_j a_rj W_j`. No such matrix is ever made: a
    state times its mixture is one product of the bases with the state, repeated with the weights of
    each. The recipe `lean` departs from the published start: entities are short, which no cosine
    sees, so that a step turns them further.
    """

    name = "FuzzQE"
    lean_in_bfloat16 = True
    unions = True
    degrees: Tensor  # cached, of all entities, normalised, [N, W]

    def __init__(self, num_entities: int, num_relations: int, settings: EncodeSettings) -> None:
        super().__init__(num_entities, num_relations, settings)
        self.width = settings.width
        self.temperature = settings.temperature
        self.entities = nn.Parameter(torch.empty(num_entities, self.width))
        self.mixtures = nn.Parameter(torch.empty(num_relations, settings.bases))
        self.bases = nn.Parameter(torch.empty(settings.bases, self.width, self.width))
        self.biases = nn.Parameter(torch.empty(settings.bases, self.width))

    def reset(self, generator: torch.Generator) -> None:
        """Degrees of entities are uniform, bases orthogonal, the rest by Xavier."""
        longest = 1.0 if self.settings.recipe == "paper" else SHORT
        nn.init.uniform_(self.entities, 0, longest, generator=generator)
        for base in self.bases:
            nn.init.orthogonal_(base, generator=generator)
        for table in (self.mixtures, self.biases):
            nn.init.xavier_normal_(table, generator=generator)

    def renew(self) -> None:
        """Cache the degrees of all entities."""
        with torch.no_grad():
            self.degrees = normalize(self.entities.clamp(0, 1))

    def anchor(self, entities: Tensor) -> Tensor:
        """The degrees of entities."""
        return rows(self.entities, entities).clamp(0, 1)

    def project(self, states: Tensor, relations: Tensor) -> Tensor:
        """`clip(LN(x W_r + b_r))`."""
        weights = rows(self.mixtures, relations)
        kind = torch.bfloat16 if torch.is_autocast_enabled(states.device.type) else states.dtype
        repeated = weights.to(kind)[:, :, None] * states.to(kind)[:, None]
        mixed = repeated.flatten(1) @ self.bases.flatten(0, 1) + weights @ self.biases
        return layer_norm(mixed, (self.width,)).clamp(0, 1)

    def intersect(self, states: Tensor) -> Tensor:
        """The product of the degrees."""
        return reduce(torch.mul, states.unbind(1))  # without the zero checks of `prod`

    def union(self, states: Tensor) -> Tensor:
        """The probabilistic sum of the degrees."""
        return 1 - self.intersect(1 - states)

    def complement(self, states: Tensor) -> Tensor:
        """The difference of the degrees from 1."""
        return 1 - states

    def everything(self) -> Tensor:
        """Degrees of 1."""
        return torch.ones(self.width, device=self.device)

    def match(self, states: Tensor, entities: Tensor | None = None) -> Tensor:
        """Cosines of states and entities."""
        if entities is None and not self.training:
            self.renew_if_stale()
            degrees = self.degrees
        else:
            degrees = normalize(rows(self.entities, entities).clamp(0, 1), dim=-1)
        return products(normalize(states), degrees) / self.temperature
