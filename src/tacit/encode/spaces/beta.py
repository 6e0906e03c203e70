"""BetaE: a question is a list of Beta distributions, near to those of its answers."""

from __future__ import annotations

import torch
from torch import Tensor, nn

from tacit.encode.layers import (
    Attention,
    embedding_range,
    exact_products,
    network,
    reset_tables,
    rows,
    zero_last_layer,
)
from tacit.encode.settings import EncodeSettings
from tacit.encode.spaces.space import Space

# the range of a distribution's parameters
LEAST = 0.05
MOST = 1e9
START = 0.4  # how far from 1 parameters start at most, where projections are residual


class BetaE(Space):
    """A state is `q = (α, β)`; logits are `γ - Σ KL(Beta(v) ‖ Beta(q))`.

    Beta distributions are one exponential family, so the divergence from all entities is one matrix
    product: `h(q) + f(v) - ⟨q, φ(v)⟩` with `φ = (ψ(a) - ψ(a+b), ψ(b) - ψ(a+b))`, `f = Σ -lnB(a, b)
    + ⟨v, φ⟩`, `h = Σ lnB(α, β)`. Large numbers cancel in it: it is never rounded to TF32.

    Where projections are `residual`, which the published ones are not, a relation moves the
    parameters of a state, and the network, which starts at 0, corrects where to; in narrow models
    parameters start nearer to 1.
    """

    name = "BetaE"
    lean_in_bfloat16 = True
    terms: tuple[Tensor, Tensor]  # cached φ and f of all entities, [N, W] and [N]

    def __init__(self, num_entities: int, num_relations: int, settings: EncodeSettings) -> None:
        super().__init__(num_entities, num_relations, settings)
        width = settings.width
        self.margin = settings.margin
        self.width = 2 * width
        move = 2 * width if settings.residual else width
        self.entities = nn.Parameter(torch.empty(num_entities, 2 * width))
        self.relations = nn.Parameter(torch.empty(num_relations, move))
        self.hop = network(2 * width + move, settings.hidden, settings.layers, 2 * width)
        self.attention = Attention(2 * width, width)

    def reset(self, generator: torch.Generator) -> None:
        """Draw tables uniformly, in a range by margin and width that is capped where residual."""
        reach = embedding_range(self.settings)
        reset_tables(self, min(START, reach) if self.settings.residual else reach, generator)
        if self.settings.residual:
            zero_last_layer(self.hop)

    def renew(self) -> None:
        """Cache φ and f of all entities."""
        with torch.no_grad():
            self.terms = _terms(regular(self.entities))

    def anchor(self, entities: Tensor) -> Tensor:
        """The distributions of entities."""
        return regular(rows(self.entities, entities))

    def project(self, states: Tensor, relations: Tensor) -> Tensor:
        """Pass the state and the vector of the relation through a network."""
        moves = rows(self.relations, relations)
        moved: Tensor = self.hop(torch.cat((states, moves), 1))
        return regular(states - 1 + moves + moved if self.settings.residual else moved)

    def intersect(self, states: Tensor) -> Tensor:
        """Means of the parts' parameters, with one attention for both of a distribution."""
        weights: Tensor = self.attention(states)
        return (torch.cat((weights, weights), 2) * states).sum(1)

    def complement(self, states: Tensor) -> Tensor:
        """Distributions that are dense where these are sparse: `(1/α, 1/β)`."""
        return 1 / states

    def everything(self) -> Tensor:
        """Uniform distributions, which are their own complement."""
        return torch.ones(self.width, device=self.device)

    def match(self, states: Tensor, entities: Tensor | None = None) -> Tensor:
        """The margin minus the divergence."""
        if entities is None and not self.training:
            self.renew_if_stale()
            features, offsets = self.terms
        else:
            features, offsets = _terms(regular(rows(self.entities, entities)))
        return self.margin - _volume(states)[:, None] - offsets + exact_products(states, features)


def regular(parameters: Tensor) -> Tensor:
    """Parameters of distributions from any numbers: 1 more, and not below 0.05."""
    return (1 + parameters).clamp(LEAST, MOST)


def _volume(states: Tensor) -> Tensor:
    """`h`: the sum of `ln B(α, β)`, `[..., W] -> [...]`."""
    alpha, beta = states.chunk(2, -1)
    return (torch.lgamma(alpha) + torch.lgamma(beta) - torch.lgamma(alpha + beta)).sum(-1)


def _terms(entities: Tensor) -> tuple[Tensor, Tensor]:
    """`φ` and `f` of the distributions of entities, `[..., W] -> [..., W], [...]`."""
    a, b = entities.chunk(2, -1)
    both = torch.digamma(a + b)
    features = torch.cat((torch.digamma(a) - both, torch.digamma(b) - both), -1)
    return features, (entities * features).sum(-1) - _volume(entities)
