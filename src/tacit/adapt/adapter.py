"""The adapter: a tiny network that says how to stretch and shift the raw score of an atom, and its file in a run."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import dataclass
from typing import cast

import torch
from torch import Tensor, nn

from tacit.adapt.settings import AdaptSettings
from tacit.disk import from_json
from tacit.engine.atoms.calibration import EVERY, Tails
from tacit.errors import SettingsError
from tacit.links.scorer import Scorer, VectorScorer
from tacit.run.folder import ADAPTER, RunFolder

VectorsOf = Callable[[Tensor], Tensor]  # of ids
_BLOCK = 2**24  # numbers of a hidden layer held at once


class Adapter(nn.Module):
    """`ρ(x) = x(1 + α) + β` with `α, β = ψ(e_s, e_p, e_o)` (eq. 4), ψ linear or two layers with ReLU.

    `condition` names what ψ sees: nothing, the relation `p`, the head as well (`sp`), or all three (`spo`). The vectors
    are those of the frozen link predictor; a predictor without vectors gets a learned one per relation.

    One that learns `negation` says instead, and one that learns `both` says beside that, how many times more strongly a
    negation excludes than the logic says: a number for every relation, and a last one for negations that are about no
    single relation. Their logarithms are `strengths`.

    The last layer starts at zero, where the adapter changes nothing. So that it can never turn an order around, the
    first output `a` of ψ becomes `1 + α = 1 + a` where `a >= 0` and `exp(a)` below: above zero everywhere, with value
    and slope 1 at zero.
    """

    def __init__(
        self,
        scorer: Scorer,
        condition: str = "p",
        layers: int = 1,
        hidden: int = 32,
        seed: int = 0,
        by_id: bool = False,
        learns: str = "scores",
    ) -> None:
        super().__init__()
        if learns == "negation":  # scores stay as they are, whatever they depend on
            condition, layers = "none", 1
        self.condition, self.layers, self.hidden, self.learns = condition, layers, hidden, learns
        self.num_entities, self.num_relations = scorer.num_entities, scorer.num_relations
        self.by_id = by_id  # no vectors, but numbers of its own for every relation
        letters = "" if condition == "none" else condition
        self._features = {
            letter: Features(scorer.num_relations) if by_id else features(scorer, letter) for letter in letters
        }
        outputs = 2 if layers == 1 else hidden
        self.first = nn.ParameterDict({key: torch.zeros(seen.width, outputs) for key, seen in self._features.items()})
        self.bias = nn.Parameter(torch.zeros(outputs))
        self.second = nn.Parameter(torch.zeros(hidden, 2)) if layers == 2 else None
        if layers == 2:  # a zero layer before a zero layer would never learn
            generator = torch.Generator().manual_seed(seed)
            for weight in (*self.first.values(), self.bias):
                nn.init.uniform_(weight, -1.0, 1.0, generator=generator)
        self.strengths: Tensor | None
        self.register_buffer("strengths", None if learns == "scores" else torch.zeros(scorer.num_relations + 1))
        self._table: tuple[Tensor, Tensor] | None = None
        self.to(scorer.device)

    @property
    def by_row(self) -> bool:
        """Whether all atoms of a row `p(s, ·)` share their scale and shift."""
        return self.condition != "spo"

    @property
    def by_relation(self) -> bool:
        """Whether the adapter is a table of two numbers per relation."""
        return self.condition in ("none", "p")

    @property
    def num_parameters(self) -> int:
        """How many numbers are learned."""
        moving = 0 if self.learns == "negation" else sum(parameter.numel() for parameter in self.parameters())
        return moving + (0 if self.strengths is None else self.strengths.numel())

    def forward(self, heads: Tensor, relations: Tensor, tails: Tails = EVERY) -> tuple[Tensor, Tensor]:
        """The scale `1 + α` and the shift `β` of atoms, `[B, 1]` each, or `[B, n]` where they depend on the tail."""
        if self.by_relation:
            scale, shift = self.table()
            return scale[relations, None], shift[relations, None]
        inner = self._inner("p", relations) + self._inner("s", heads) + self.bias  # [B, H]
        if self.condition == "sp":
            return _affine(self._outer(inner)[:, None])
        if isinstance(tails, Tensor):
            return _affine(self._outer(inner + self._inner("o", tails))[:, None])
        ids = torch.arange(self.num_entities, device=inner.device)[tails]
        # ψ is a sum over s, p and o up to its first layer, so that only what comes after is computed for every pair.
        blocks = torch.split(self._inner("o", ids), max(1, _BLOCK // max(1, inner.numel())))
        return _affine(torch.cat([self._outer(inner[:, None] + block) for block in blocks], dim=1))

    def strengths_of(self, relations: Tensor | None) -> Tensor | None:
        """The logs of what was learned of the strength of negation, `[B]`, or `[]` without relations."""
        if self.strengths is None:
            return None
        return self.strengths[-1] if relations is None else self.strengths[relations]

    def table(self) -> tuple[Tensor, Tensor]:
        """The scale and shift of every relation, `[R]` each, for an adapter that sees no entity.

        While training it is computed anew, otherwise once.
        """
        if self._table is not None:
            return self._table
        scale, shift = _affine(self._outputs())
        if not self.training:
            self._table = scale.detach(), shift.detach()
        return scale, shift

    @torch.no_grad()
    def without_vectors(self, scorer: Scorer) -> Adapter:
        """The same, of an adapter that sees no entity, with two numbers of its own for every relation."""
        plain = Adapter(scorer, by_id=True)
        cast(Tensor, plain.first["p"]).copy_(self._outputs())
        return plain.requires_grad_(False).eval()

    @torch.no_grad()
    def grown(self, scorer: Scorer) -> Adapter:
        """The same for a scorer with further relations and entities, what it says of all others unchanged.

        Of a further relation it says what it makes of its vector; one that goes by id, and the strength of negation,
        says the mean of all relations.
        """
        larger = Adapter(scorer, self.condition, self.layers, self.hidden, by_id=self.by_id, learns=self.learns)
        more, state = scorer.num_relations - self.num_relations, self.state_dict()
        for letter, seen in self._features.items():
            weight, key = cast(Tensor, self.first[letter]), f"first.{letter}"
            if seen.vectors is None:
                state[key] = torch.cat((weight, weight.mean(0).expand(more, -1)))
            else:
                state[key] = weight * (seen.factor / larger._features[letter].factor)
        if self.strengths is not None:
            each, other = self.strengths[:-1], self.strengths[-1:]
            state["strengths"] = torch.cat((each, each.mean().expand(more), other))
        larger.load_state_dict(state)
        return larger.requires_grad_(False).eval()

    def _outputs(self) -> Tensor:
        """The two outputs of ψ for every relation, `[R, 2]`."""
        ids = torch.arange(self.num_relations, device=self.bias.device)
        inner = self.bias.expand(len(ids), -1)
        return self._outer(inner + self._inner("p", ids) if self.condition == "p" else inner)

    def train(self, mode: bool = True) -> Adapter:
        """Go into training or out of it; either forgets the table."""
        self._table = None
        return super().train(mode)

    def _inner(self, letter: str, ids: Tensor) -> Tensor:
        vectors, weight = self._features[letter].vectors, cast(Tensor, self.first[letter])
        if vectors is None:
            return weight[ids]
        return (vectors(ids).detach() * self._features[letter].factor) @ weight

    def _outer(self, inner: Tensor) -> Tensor:
        return inner if self.second is None else inner.relu() @ self.second


@dataclass(frozen=True)
class Features:
    """What an adapter sees of an entity or a relation: its vector times a factor, or nothing but its id."""

    width: int
    vectors: VectorsOf | None = None  # None: one learned row per id
    factor: float = 1.0  # makes the sum of a vector's magnitudes 1 on average


def features(scorer: Scorer, letter: str) -> Features:
    """The features of relations (`p`) or entities (`s`, `o`) that a link predictor offers."""
    if not isinstance(scorer, VectorScorer):
        if letter == "p":
            return Features(scorer.num_relations)
        raise SettingsError(
            f"an adapter that sees entities needs their vectors, which {type(scorer).__name__} does not have; "
            "use condition p"
        )
    vectors: VectorsOf = scorer.relation_vectors if letter == "p" else scorer.entity_vectors
    number = scorer.num_relations if letter == "p" else scorer.num_entities
    # Adagrad at first moves every weight by the learning rate. With magnitudes that sum to 1, the outputs then move by
    # as much, whatever the rank: as if they were two numbers of their own.
    with torch.no_grad():
        ids = torch.arange(0, number, max(1, number // 4096), device=scorer.device)
        sample = vectors(ids)
        length = float(sample.abs().sum(1).mean())
    return Features(sample.shape[1], vectors, 1.0 / length if length > 0 else 1.0)


def _affine(outputs: Tensor) -> tuple[Tensor, Tensor]:
    """The scale and shift from the two outputs of ψ, which are last in `outputs`."""
    a, shift = outputs.unbind(-1)
    return torch.where(a < 0, a.clamp(max=0.0).exp(), 1.0 + a), shift


def save_adapter(run: RunFolder, adapter: Adapter, settings: AdaptSettings) -> None:
    """Write an adapter and the settings it was trained with; evaluations with another are marked."""
    run.outdate("adapt")
    trained_with = settings.to_dict()
    about = {"settings": json.dumps(trained_with)} | ({"by_id": "yes"} if adapter.by_id else {})
    run.write_tensors(ADAPTER, adapter.state_dict(), about)
    run.write_settings("adapt", trained_with)


def load_adapter(run: RunFolder, scorer: Scorer) -> tuple[Adapter, AdaptSettings]:
    """The adapter of a run, frozen, and the settings it was trained with."""
    with run.fits(ADAPTER, "adapt the run again"):
        about, tensors = run.contents(ADAPTER)
        settings = AdaptSettings.of(from_json(about["settings"]))
        adapter = Adapter(
            scorer, settings.condition, settings.layers, settings.hidden, by_id="by_id" in about, learns=settings.learn
        )
        adapter.load_state_dict(tensors)
    return adapter.requires_grad_(False).eval(), settings
