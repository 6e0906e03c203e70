"""The adapter: a small network that scales and shifts raw scores, and its file in a run."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import dataclass
from typing import cast

import torch
from torch import Tensor, nn

from tacit.adapt.settings import AdaptSettings, stored_settings
from tacit.disk import from_json
from tacit.engine.atoms.calibration import EVERY, Tails
from tacit.errors import SettingsError
from tacit.links.scorer import Scorer, State, VectorScorer, state_of
from tacit.run_folder.files import ADAPTER, SETTINGS
from tacit.run_folder.folder import RunFolder

VectorsOf = Callable[[Tensor], Tensor]  # of ids
HIDDEN = 32  # the width of the layer between two
_BLOCK = 2**24  # numbers of a hidden layer held at once


class Adapter(nn.Module):
    """`ρ(x) = x(1 + α) + β` with `α, β = ψ(e_s, e_p, e_o)` (eq. 4).

    ψ is linear or two layers with ReLU. `condition` names the inputs of ψ: none, the relation `p`,
    the head as well (`sp`), or all three (`spo`). The vectors are those of the frozen link
    predictor; a predictor without vectors gets a learned one per relation.

    The last layer starts at zero, where the adapter changes nothing. The scale is always positive,
    so that the adapter never reverses an order: the first output `a` of ψ becomes `1 + α = 1 + a`
    where `a >= 0` and `exp(a)` below, with value and slope 1 at zero.
    """

    def __init__(
        self,
        scorer: Scorer,
        condition: str = "p",
        layers: int = 1,
        hidden: int = HIDDEN,
        seed: int = 0,
    ) -> None:
        super().__init__()
        self.condition = condition
        letters = "" if condition == "none" else condition
        self._features = {letter: features(scorer, letter) for letter in letters}
        outputs = 2 if layers == 1 else hidden
        self.first = nn.ParameterDict(
            {key: torch.zeros(feature.width, outputs) for key, feature in self._features.items()}
        )
        self.bias = nn.Parameter(torch.zeros(outputs))
        self.second = nn.Parameter(torch.zeros(hidden, 2)) if layers == 2 else None
        if layers == 2:  # a zero layer before a zero layer would never learn
            generator = torch.Generator().manual_seed(seed)
            for weight in (*self.first.values(), self.bias):
                nn.init.uniform_(weight, -1.0, 1.0, generator=generator)
        # cached scales and shifts, with the states of the weights
        self._table: tuple[tuple[State, State], tuple[Tensor, Tensor]] | None = None
        self._scorer = (scorer,)  # a tuple, so that it is no submodule
        self.to(scorer.device)

    @property
    def scorer(self) -> Scorer:
        """The frozen link predictor."""
        return self._scorer[0]

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
        """The number of learned parameters."""
        return sum(parameter.numel() for parameter in self.parameters())

    def forward(
        self, heads: Tensor, relations: Tensor, tails: Tails = EVERY
    ) -> tuple[Tensor, Tensor]:
        """The scale `1 + α` and the shift `β` of atoms.

        Both are `[B, 1]`, or `[B, n]` if they depend on the tail.
        """
        if self.by_relation:
            scale, shift = self.table()
            return scale[relations, None], shift[relations, None]
        inner = self._inner("p", relations) + self._inner("s", heads) + self.bias  # [B, H]
        if self.condition == "sp":
            return _affine(self._outer(inner)[:, None])
        if isinstance(tails, Tensor):
            return _affine(self._outer(inner + self._inner("o", tails))[:, None])
        ids = torch.arange(self.scorer.num_entities, device=inner.device)[tails]
        # the first layer of ψ is a sum over s, p and o, so only the rest is computed per pair
        blocks = torch.split(self._inner("o", ids), max(1, _BLOCK // max(1, inner.numel())))
        return _affine(torch.cat([self._outer(inner[:, None] + block) for block in blocks], dim=1))

    def table(self) -> tuple[Tensor, Tensor]:
        """The scale and shift of every relation, `[R]` each, if entities do not matter.

        Outside of training the table is cached until somebody writes to the weights.
        """
        states = (state_of(self), state_of(self.scorer))
        if self._table is not None and self._table[0] == states:
            return self._table[1]
        inner = self.bias.expand(self.scorer.num_relations, -1)
        if self.condition == "p":
            ids = torch.arange(len(inner), device=inner.device)
            inner = inner + self._inner("p", ids)
        scale, shift = _affine(self._outer(inner))
        if not self.training:
            self._table = states, (scale.detach(), shift.detach())
        return scale, shift

    def forget(self) -> None:
        """Drop the cache after writes to weights that torch does not count."""
        self._table = None

    @torch.no_grad()
    def with_larger_scorer(self, scorer: Scorer) -> Adapter:
        """A copy for a scorer with more relations and entities; old ones are unchanged.

        A new relation is adapted by its vector, if it has one.
        """
        layers = 1 if self.second is None else 2
        larger = Adapter(scorer, self.condition, layers, hidden=len(self.bias))
        state = self.state_dict()
        for letter, feature in self._features.items():
            smaller = feature.factor / larger._features[letter].factor
            weight = state[f"first.{letter}"] * smaller
            if feature.vectors is None:  # a new relation moves nothing of its own
                rows = larger._features[letter].width - len(weight)
                weight = torch.cat((weight, weight.new_zeros(rows, weight.shape[1])))
            state[f"first.{letter}"] = weight
        larger.load_state_dict(state)
        return larger.requires_grad_(False).eval()

    def train(self, mode: bool = True) -> Adapter:
        """Set the training mode, and drop the cached table."""
        self.forget()
        return super().train(mode)

    def _inner(self, letter: str, ids: Tensor) -> Tensor:
        feature = self._features[letter]
        weight = cast(Tensor, self.first[letter])
        if feature.vectors is None:
            return weight[ids]
        return (feature.vectors(ids).detach() * feature.factor) @ weight

    def _outer(self, inner: Tensor) -> Tensor:
        return inner if self.second is None else inner.relu() @ self.second


@dataclass(frozen=True)
class Features:
    """The input for an entity or a relation: its vector times a factor, or only its id."""

    width: int
    vectors: VectorsOf | None = None  # None: one learned row per id
    factor: float = 1.0  # makes the sum of a vector's magnitudes 1 on average


def features(scorer: Scorer, letter: str) -> Features:
    """The features of relations (`p`) or entities (`s`, `o`) of a link predictor."""
    if not isinstance(scorer, VectorScorer):
        if letter == "p":
            return Features(scorer.num_relations)
        raise SettingsError(
            f"an adapter that sees entities needs their vectors, which {type(scorer).__name__} "
            "does not have; use `condition='p'`"
        )
    vectors: VectorsOf = scorer.relation_vectors if letter == "p" else scorer.entity_vectors
    number = scorer.num_relations if letter == "p" else scorer.num_entities
    # Adagrad's first step moves each weight, and so these outputs, by the learning rate
    with torch.no_grad():
        ids = torch.arange(0, number, max(1, number // 4096), device=scorer.device)
        sample = vectors(ids)
        length = float(sample.abs().sum(1).mean())
    return Features(sample.shape[1], vectors, 1.0 / length if length > 0 else 1.0)


def _affine(outputs: Tensor) -> tuple[Tensor, Tensor]:
    """The scale and shift from the outputs of ψ, in the last dimension."""
    a, shift = outputs.unbind(-1)
    return torch.where(a < 0, a.clamp(max=0.0).exp(), 1.0 + a), shift


def save_adapter(run: RunFolder, adapter: Adapter, settings: AdaptSettings) -> None:
    """Write an adapter with its settings; evaluations of another one become outdated."""
    trained_with = settings.to_dict()
    with run.rewrite() as draft:
        draft.outdate("adapt")
        draft.write_tensors(ADAPTER, adapter.state_dict(), {"settings": json.dumps(trained_with)})
        draft.write_settings("adapt", trained_with)


def load_adapter(run: RunFolder, scorer: Scorer) -> tuple[Adapter, AdaptSettings]:
    """Load the frozen adapter of a run and its settings, which the run must share."""
    with run.fits(ADAPTER, "ask without it, or drop it and adapt the run again"):
        metadata, tensors = run.contents(ADAPTER)
        settings = stored_settings(from_json(metadata["settings"]))
        table = run.settings.get("adapt")
        if table is None or stored_settings(table) != settings:
            raise ValueError(
                f"the table [adapt] of {SETTINGS} "
                f"{'is gone' if table is None else 'has other settings'}"
            )
        if "by_id" in metadata:
            raise ValueError("it belongs to a variant of the paper's ablation")
        hidden = len(tensors["bias"])  # earlier versions let it be chosen
        adapter = Adapter(scorer, settings.condition, settings.layers, hidden)
        adapter.load_state_dict(tensors)
    return adapter.requires_grad_(False).eval(), settings
