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
from typing import cast

import torch
from torch import Tensor, nn

from tacit.adapt.adapter import Adapter, save_adapter
from tacit.adapt.adapter_training import AdapterTraining
from tacit.adapt.calibrated import Adapted
from tacit.adapt.settings import AdaptSettings
from tacit.adapt.streamed_loss import literals
from tacit.engine.atoms.atoms import Atoms
from tacit.engine.logic import Logic
from tacit.engine.reasoner import MessageReasoner
from tacit.errors import SettingsError
from tacit.graph.graph import Graph
from tacit.links.embeddings import Embeddings
from tacit.links.factors import BilinearModel, FactorModel
from tacit.links.loading import make_like, save_model
from tacit.links.models import MODELS
from tacit.links.scorer import Scorer
from tacit.query.sampling.queries import QuerySets
from tacit.run_folder.folder import RunFolder

VARIANTS = ("f", "af", "r", "c")


class VariantTraining(AdapterTraining):
    """The training of a variant: of a copy of the link predictor, or of maps over it."""

    frozen = False

    def __init__(
        self,
        variant: str,
        graph: Graph,
        model: Scorer,
        queries: QuerySets,
        settings: AdaptSettings,
        valid: QuerySets | None = None,
    ) -> None:
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
        super().__init__(graph, model, queries, settings, valid)
        self.scorer = self.fitted

    def prepare(self, graph: Graph, scorer: Scorer) -> tuple[MessageReasoner, nn.Module]:
        """Create a search with gradients at the vectors, and the trained module."""
        # an adapter sees the pretrained vectors, since those in training change
        frozen, adapter = super().prepare(graph, scorer)
        self.facts = frozen.atoms.facts
        self.precision = frozen.atoms.precision
        trained = nn.ModuleList([self.maps if len(self.maps) else self.fitted])
        if self.variant == "af":
            trained.append(adapter)
        else:
            self.adapter, self.calibration = None, cast(Adapted, self.calibration).calibration
        return self._search(TrainedAtoms, frozen.logic), trained

    def accumulate(self) -> Tensor:
        """Accumulate the gradient of a batch, through the tables to the maps if any."""
        made = self.write()
        loss = super().accumulate()
        if made:
            grads = (
                (_tables(self.fitted)[key].storage.grad, len(table)) for key, table in made.items()
            )
            gradients = [None if grad is None else grad[:rows] for grad, rows in grads]
            torch.autograd.backward(list(made.values()), gradients)
            self.fitted.zero_grad(set_to_none=True)
        return loss

    def validation_reasoner(self) -> MessageReasoner:
        """A search over the current link predictor."""
        self.write()
        return self._search(Atoms, self.reasoner.logic)

    def settle(self) -> None:
        """Write the final tables of the maps, and freeze the model."""
        self.write()
        self.fitted.requires_grad_(False).eval()

    def write(self) -> dict[str, Tensor]:
        """Write the tables of the maps into the link predictor, and return them."""
        made = {}
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
            made[key] = mapped
        return made

    def _search(self, kind: type[Atoms], logic: Logic) -> MessageReasoner:
        atoms = kind(self.fitted, self.calibration, self.facts, precision=self.precision)
        return MessageReasoner(atoms, logic, self.settings.k, self.settings.memory)


def save_variant(run: RunFolder, graph: Graph, training: VariantTraining) -> RunFolder:
    """Write a variant as a run within the folder of the run, with its settings."""
    settings = training.settings
    fitted = training.fitted
    values = {**run.settings["train"], "rank": fitted.rank}
    out = RunFolder.create(run.path / f"variant-{training.variant}", graph, values, force=True)
    save_model(out, fitted)
    if training.adapter is not None:  # it saw other vectors than those of the variant
        settings = settings.changed(condition="p", layers=1)
        adapter = training.adapter.without_vectors(fitted)
    else:  # a neutral adapter stores the calibration
        adapter = Adapter(fitted, settings.condition, settings.layers, settings.hidden)
    save_adapter(out, adapter, settings)
    return out


class TrainedAtoms(Atoms):
    """Atoms whose raw scores have gradients."""

    def rows(self, heads: Tensor, relations: Tensor) -> Tensor:
        """Log-scores of every tail, `[B, N]`; gradients reach the calibration and the vectors."""
        scores: Tensor = self.calibration(self.scorer.logits(heads, relations), heads, relations)
        return self._lifted(scores, heads, relations)


def check_variant(variant: str | None) -> None:
    """Raise a `SettingsError` for an unknown variant; None is none."""
    if variant is not None and variant not in VARIANTS:
        raise SettingsError(
            f"variant is '{variant}'; it must be one of {', '.join(VARIANTS)}", "variant"
        )


def _checked(
    variant: str, model: Scorer, queries: QuerySets, settings: AdaptSettings
) -> FactorModel:
    """The link predictor, if the variant applies to it and to the queries."""
    check_variant(variant)
    kind = BilinearModel if variant in ("r", "c") else FactorModel
    kinds = ", ".join(name for name, each in MODELS.items() if issubclass(each, kind))
    if not isinstance(model, kind):
        raise SettingsError(
            f"variant is '{variant}', which needs a model of {kinds}; that of the run is a "
            f"{type(model).__name__}",
            "variant",
        )
    if settings.learn != "scores":
        raise SettingsError(
            f"learn is {settings.learn}, and a `variant` learns scores alone; leave one out",
            "learn",
        )
    if variant == "af" and settings.condition not in ("none", "p"):
        raise SettingsError(
            f"condition is {settings.condition}; with `variant='af'` it must be none or p",
            "condition",
        )
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
