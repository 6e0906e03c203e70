"""The paper's ablation: variants that fine-tune a copy of the link predictor.

- `f` (CQD_F) fine-tunes all parameters of the link predictor;
- `af` (CQD^A_F) fine-tunes all of them together with an adapter;
- `r` (CQD_R) replaces every vector `e` by a learned linear map `We`, one `W` for entities and one
  for relations;
- `c` (CQD_C) concatenates the two: `[e; We]`.

All variants start from the pretrained scores. Maps start as the identity; only that of relations
starts as zero in `c`. If that of entities were near zero as well, so would be all gradients, which
are products of the other factors. The maps learn the difference, on vectors whose magnitudes sum to
1 on average: as without maps, the learning rate then is the first change of a vector's numbers,
whatever the rank.
"""

from __future__ import annotations

import copy
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn

from tacit.adapt.adapter_training import PRECISION, AdapterTraining
from tacit.adapt.query_loss import QueryLoss
from tacit.adapt.settings import AdaptSettings
from tacit.adapt.training_queries import literals
from tacit.engine.atoms.atoms import Atoms
from tacit.engine.atoms.calibration import Calibration
from tacit.engine.ranking import mean_reciprocal_ranks
from tacit.engine.search.message_reasoner import MessageReasoner
from tacit.errors import SettingsError
from tacit.fitting.loop import fit
from tacit.graph.graph import Graph
from tacit.links.factors import BilinearModel, Embeddings, FactorModel
from tacit.links.models import MODELS, make_like
from tacit.links.scorer import Scorer
from tacit.query.sampling.queries import QuerySets

VARIANTS = ("f", "af", "r", "c")


@dataclass(frozen=True, eq=False)
class FittedVariant:
    """A fine-tuned link predictor, what turns its logits into scores, and its validations."""

    scorer: FactorModel
    calibration: Calibration
    trace: list[dict[str, Any]]


def fit_variant(
    variant: str,
    graph: Graph,
    model: Scorer,
    queries: QuerySets,
    settings: AdaptSettings,
    valid: QuerySets | None = None,
) -> FittedVariant:
    """Train a variant of a link predictor, which stays as it is."""
    settings = settings.with_derived(len(graph.valid) > 0)
    training = VariantTraining(variant, graph, model, queries, settings, valid)
    trainer = fit(training, settings, progress=False)
    training.write()
    fitted = training.fitted.requires_grad_(False).eval()
    return FittedVariant(fitted, training.own_calibration, trainer.state.history)


class VariantTraining(AdapterTraining):
    """The training of a variant: of a copy of the link predictor, or of maps over it."""

    def __init__(
        self,
        variant: str,
        graph: Graph,
        model: Scorer,
        queries: QuerySets,
        settings: AdaptSettings,
        valid: QuerySets | None = None,
    ) -> None:
        # an adapter sees the pretrained vectors, since those in training change
        super().__init__(graph, model, queries, settings, valid)
        self.variant = variant
        self.model = _checked(variant, model, queries, settings)
        self.tables = {key: table.weight.detach() for key, table in _tables(self.model).items()}
        self.maps = nn.ParameterDict()
        if variant in ("f", "af"):
            self.fitted = copy.deepcopy(self.model)
        else:
            for key, table in self.tables.items():
                self.maps[key] = nn.Parameter(table.new_zeros(2 * table.shape[1:]))
            rank = self.model.rank * (2 if variant == "c" else 1)
            self.fitted = make_like(self.model, model.num_entities, model.num_relations, rank).to(
                model.device
            )
        self.fitted.requires_grad_(True)
        self.module = nn.ModuleList([self.maps if len(self.maps) else self.fitted])
        self.own_calibration: Calibration = self.calibration
        if variant == "af":
            self.module.append(self.calibration.adapter)
        else:
            self.own_calibration = self.calibration.calibration
        self.reasoner = self._search(TrainedAtoms)
        self.loss = SearchedLoss(self.reasoner, settings.loss, bool(settings.held_out), self.random)
        self.optimizer = torch.optim.Adagrad(self.module.parameters(), lr=settings.lr)

    def accumulate(self) -> Tensor:
        """Accumulate the gradient of a batch, through the tables to the maps if any."""
        mapped = self.write()
        loss = super().accumulate()
        if mapped:
            grads = (
                (_tables(self.fitted)[key].storage.grad, len(table))
                for key, table in mapped.items()
            )
            gradients = [None if grad is None else grad[:rows] for grad, rows in grads]
            torch.autograd.backward(list(mapped.values()), gradients)
            self.fitted.zero_grad(set_to_none=True)
        return loss

    def validate(self) -> dict[str, float]:
        """The mean reciprocal rank of each shape, by the current link predictor."""
        self.module.eval()
        self.write()
        return mean_reciprocal_ranks(self._search(Atoms), self.valid)

    def write(self) -> dict[str, Tensor]:
        """Write the tables of the maps into the link predictor, and return them."""
        tables = {}
        for key, weight in self.maps.items():
            old = self.tables[key]
            parts = self.tables[key].shape[1] // self.model.rank
            mapped = (old / old.abs().sum(1).mean()) @ weight
            if self.variant == "r" or key != "relations":
                mapped = old + mapped
            # part by part: real numbers beside real ones, imaginary beside imaginary
            if self.variant == "c":
                pairs = zip(old.chunk(parts, -1), mapped.chunk(parts, -1), strict=True)
                mapped = torch.cat([torch.cat(pair, -1) for pair in pairs], -1)
            with torch.no_grad():
                _tables(self.fitted)[key].weight.copy_(mapped)
            tables[key] = mapped
        return tables

    def _search(self, kind: type[Atoms]) -> MessageReasoner:
        facts = self.reasoner.atoms.facts
        own = kind(self.fitted, self.own_calibration, facts, precision=PRECISION)
        return MessageReasoner(own, self.reasoner.logic, self.settings.k, self.settings.memory)


class TrainedAtoms(Atoms):
    """Atoms whose raw scores have gradients."""

    def rows(self, heads: Tensor, relations: Tensor) -> Tensor:
        """Log-scores of every tail, `[B, N]`; gradients reach the calibration and the vectors."""
        scores: Tensor = self.calibration(self.scorer.logits(heads, relations), heads, relations)
        known = self.known(heads, relations)
        if known is None:
            return scores
        return scores.index_put((known.rows, known.tails), scores.new_tensor(self.observed))


class SearchedLoss(QueryLoss):
    """The loss of queries whose raw scores change, so that no sums over constants apply."""

    streamed = None


def _checked(
    variant: str, model: Scorer, queries: QuerySets, settings: AdaptSettings
) -> FactorModel:
    """The link predictor, if the variant applies to it and to the queries."""
    if variant not in VARIANTS:
        raise SettingsError(f"variant is '{variant}'; it must be one of {', '.join(VARIANTS)}")
    kind = BilinearModel if variant in ("r", "c") else FactorModel
    if not isinstance(model, kind):
        kinds = ", ".join(name for name, each in MODELS.items() if issubclass(each, kind))
        raise SettingsError(
            f"variant is '{variant}', which needs a model of {kinds}; this is a "
            f"{type(model).__name__}"
        )
    if variant == "af" and settings.condition not in ("none", "p"):
        raise SettingsError(f"condition is {settings.condition}; with 'af' it must be none or p")
    walking = [
        name for name, query_set in queries.items() if literals(query_set.shape.plan) is None
    ]
    if walking:
        raise SettingsError(
            "a variant learns from intersections of atoms (2i, 3i, 2in, 3in), not from "
            f"{', '.join(walking)}; give other `shapes`"
        )
    return model


def _tables(model: FactorModel) -> dict[str, Embeddings]:
    return {key: table for key, table in model.named_children() if isinstance(table, Embeddings)}
