"""The paper's ablation: ways to fit complex queries that change the link predictor itself, on a copy of it.

- `f` (CQD_F) fine-tunes all parameters of the link predictor;
- `af` (CQD^A_F) fine-tunes all of them together with an adapter;
- `r` (CQD_R) replaces every vector `e` by a learned linear map `We`, one `W` for entities and one for relations;
- `c` (CQD_C) concatenates the two: `[e; We]`.

All variants start from the pretrained scores. Maps start as the identity; only that of relations starts as zero in `c`.
Were that of entities near zero as well, so would be the gradients of all, which are products of the others. What is
learned is the difference, on vectors whose magnitudes sum to 1 on average: the learning rate then says how far the
numbers of a mapped vector move at first, as it does without maps, whatever the rank.
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
from tacit.links.scorer import Scorer
from tacit.query.sampling.queries import QuerySets
from tacit.run.folder import RunFolder

VARIANTS = ("f", "af", "r", "c")


class VariantTraining(AdapterTraining):
    """The training of a variant: of a copy of the link predictor, or of maps that make another from it."""

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
        self.variant, self.model = variant, _checked(variant, model, queries, settings)
        self.tables = {key: table.weight.detach() for key, table in _tables(self.model).items()}
        self.maps = nn.ParameterDict()
        if variant in ("f", "af"):
            self.fitted = copy.deepcopy(self.model)
        else:
            for key, table in self.tables.items():
                self.maps[key] = nn.Parameter(table.new_zeros(2 * table.shape[1:]))
            rank = self.model.rank * (2 if variant == "c" else 1)
            self.fitted = make_like(self.model, model.num_entities, model.num_relations, rank).to(model.device)
        self.fitted.requires_grad_(True)
        super().__init__(graph, model, queries, settings, valid)
        self.scorer = self.fitted

    def prepare(self, graph: Graph, scorer: Scorer) -> tuple[MessageReasoner, nn.Module]:
        """A search with gradients all the way to the vectors, and what is trained."""
        # An adapter sees the pretrained vectors; those being trained would move under it.
        frozen, adapter = super().prepare(graph, scorer)
        self.facts, self.precision = frozen.atoms.facts, frozen.atoms.precision
        trained = nn.ModuleList([self.maps if len(self.maps) else self.fitted])
        if self.variant == "af":
            trained.append(adapter)
        else:
            self.adapter, self.calibration = None, cast(Adapted, self.calibration).calibration
        return self._search(TrainedAtoms, frozen.logic), trained

    def accumulate(self) -> Tensor:
        """Gather the gradient of a batch; with maps, gather it at the tables they make and hand it on to them."""
        made = self.write()
        loss = super().accumulate()
        if made:
            grads = ((_tables(self.fitted)[key].storage.grad, len(table)) for key, table in made.items())
            wanted = [None if grad is None else grad[:rows] for grad, rows in grads]
            torch.autograd.backward(list(made.values()), wanted)
            self.fitted.zero_grad(set_to_none=True)
        return loss

    def validation_reasoner(self) -> MessageReasoner:
        """A search over the link predictor as it is at this moment."""
        self.write()
        return self._search(Atoms, self.reasoner.logic)

    def settle(self) -> None:
        """Write the tables of the weights as they are, for good."""
        self.write()
        self.fitted.requires_grad_(False).eval()

    def write(self) -> dict[str, Tensor]:
        """Write the tables that the maps make into the link predictor; they are returned with their gradients."""
        made = {}
        for key, weight in self.maps.items():
            old, parts = self.tables[key], self.tables[key].shape[1] // self.model.rank
            mapped = (old / old.abs().sum(1).mean()) @ weight
            if self.variant == "r" or key != "relations":
                mapped = old + mapped
            if self.variant == "c":  # part by part: real numbers beside real ones, imaginary beside imaginary
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
    """Keep a variant as a run of its own within the folder of the run; it opens as the variant was trained."""
    settings, fitted = training.settings, training.fitted
    values = {**run.settings["train"], "rank": fitted.rank}
    out = RunFolder.create(run.path / f"variant-{training.variant}", graph, values, force=True)
    save_model(out, fitted)
    if training.adapter is not None:  # which saw vectors that are not those of the variant
        settings = settings.changed(condition="p", layers=1)
        adapter = training.adapter.without_vectors(fitted)
    else:  # one that changes nothing says how scores are calibrated
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
    """Raise a `SettingsError` where there is no such variant; None is none."""
    if variant is not None and variant not in VARIANTS:
        raise SettingsError(f"variant is '{variant}'; it must be one of {', '.join(VARIANTS)}", "variant")


def _checked(variant: str, model: Scorer, queries: QuerySets, settings: AdaptSettings) -> FactorModel:
    """The link predictor, where the variant can be made of it and learn from the queries."""
    check_variant(variant)
    kind = BilinearModel if variant in ("r", "c") else FactorModel
    if not isinstance(model, kind):
        raise SettingsError(
            f"variant {variant} needs the vectors of a {kind.__name__}, which {type(model).__name__} is not"
        )
    if settings.learn != "scores":
        raise SettingsError(f"learn is {settings.learn}; variants learn scores alone", "learn")
    if variant == "af" and settings.condition not in ("none", "p"):
        raise SettingsError(f"condition is {settings.condition}; variant af takes none or p", "condition")
    walking = [name for name, query_set in queries.items() if literals(query_set.shape.plan) is None]
    if walking:
        raise SettingsError(f"variants learn from intersections of atoms (2i, 3i, 2in, 3in), not {', '.join(walking)}")
    return model


def _tables(model: FactorModel) -> dict[str, Embeddings]:
    return {key: table for key, table in model.named_children() if isinstance(table, Embeddings)}
