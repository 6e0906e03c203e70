"""The paper's ablation: ways to fit complex queries that change the link predictor itself, on a copy of it.

- `F` (CQD_F) fine-tunes all parameters of the link predictor;
- `AF` (CQD^A_F) fine-tunes all of them together with an adapter;
- `R` (CQD_R) replaces every vector `e` by a learned linear map `We`, one `W` for entities and one for relations;
- `C` (CQD_C) concatenates the two: `[e; We]`.

Maps start near the identity (R), or near nothing (C), so that all variants start from the pretrained scores.
"""

from __future__ import annotations

import copy
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn

from tacit.adapt.calibrated import Adapted
from tacit.adapt.intersections import literals
from tacit.adapt.settings import AdaptSettings
from tacit.adapt.training import Adaptation, Report, make_reasoner
from tacit.engine.atoms import Atoms
from tacit.engine.calibration import Calibration
from tacit.engine.logic import Logic
from tacit.engine.reasoner import MessageReasoner
from tacit.errors import SettingsError
from tacit.graph.graph import Graph
from tacit.links.factors import BilinearModel, FactorModel
from tacit.links.interruption import stop_on_signals
from tacit.links.scorer import Scorer
from tacit.links.tables import Table
from tacit.query.queries import QuerySet

VARIANTS = ("F", "AF", "R", "C")


@dataclass(frozen=True, eq=False)
class VariantResult:
    """A link predictor fitted to complex queries, its calibration, and what happened on the way."""

    scorer: FactorModel
    calibration: Calibration
    trace: list[dict[str, Any]]
    summary: dict[str, Any]


def fit_variant(
    variant: str,
    graph: Graph,
    model: FactorModel,
    queries: Mapping[str, QuerySet],
    settings: AdaptSettings | None = None,
    *,
    valid: Mapping[str, QuerySet] | None = None,
    report: Report | None = None,
) -> VariantResult:
    """Fit a variant of the method by the loss of an adapter; the model given stays as it is."""
    if variant not in VARIANTS:
        raise SettingsError(f"no variant '{variant}'; there are {', '.join(VARIANTS)}")
    if variant in ("R", "C") and not isinstance(model, BilinearModel):
        raise SettingsError(f"variant {variant} maps vectors of a bilinear model, which {type(model).__name__} is not")
    walking = [name for name, one in queries.items() if literals(one.shape.plan) is None]
    if walking:
        raise SettingsError(f"variants learn from intersections of atoms (2i, 3i, 2in, 3in), not {', '.join(walking)}")
    tuning = FineTuning(variant, graph, model, queries, settings or AdaptSettings(), valid)
    with stop_on_signals() as stop:
        tuning.loop(stop, report)
    tuning.restore()
    tuning.write()
    scorer = tuning.scorer.requires_grad_(False).eval()
    return VariantResult(scorer, tuning.calibration, tuning.trace, tuning.summary())


class FineTuning(Adaptation):
    """The training of a variant: of a copy of the link predictor, or of maps that make another from it."""

    frozen = False

    def __init__(
        self,
        variant: str,
        graph: Graph,
        model: FactorModel,
        queries: Mapping[str, QuerySet],
        settings: AdaptSettings,
        valid: Mapping[str, QuerySet] | None = None,
    ) -> None:
        self.variant, self.model = variant, model
        self.tables = {key: one.weight.detach() for key, one in model.named_children() if isinstance(one, Table)}
        self.maps = nn.ParameterDict()
        if variant in ("R", "C"):
            self.maps = _maps(self.tables, variant, settings.seed)
            rank = model.rank * (2 if variant == "C" else 1)
            self.scorer = type(model)(model.num_entities, model.num_relations, rank).to(model.device)
        else:
            self.scorer = copy.deepcopy(model)
        self.scorer.requires_grad_(True)
        super().__init__(graph, model, queries, settings, valid)

    def prepare(self, graph: Graph, scorer: Scorer) -> tuple[MessageReasoner, nn.Module]:
        """A search with gradients all the way to the vectors, and what is trained."""
        # An adapter sees the pretrained vectors; those being trained would move under it.
        frozen = make_reasoner(graph, scorer, self.settings)
        self.facts, self.precision = frozen.atoms.facts, frozen.atoms.precision
        self.calibration = frozen.atoms.calibration
        trained = nn.ModuleList([self.maps if len(self.maps) else self.scorer])
        if isinstance(self.calibration, Adapted):
            if self.variant == "AF":
                trained.append(self.calibration.adapter)
            else:
                self.calibration = self.calibration.calibration
        return self._search(TrainedAtoms, frozen.logic), trained

    def accumulate(self) -> None:
        """Gather the gradient of a batch; with maps, gather it at the tables they make and hand it on to them."""
        made = self.write()
        super().accumulate()
        if made:
            grads = [_table(self.scorer, key).storage.grad for key in made]
            wanted = [
                None if grad is None else grad[: len(one)] for grad, one in zip(grads, made.values(), strict=True)
            ]
            torch.autograd.backward(list(made.values()), wanted)
            self.scorer.zero_grad(set_to_none=True)

    def validation_reasoner(self) -> MessageReasoner:
        """A search over the link predictor as it is at this moment."""
        self.write()
        return self._search(Atoms, self.reasoner.logic)

    def _search(self, kind: type[Atoms], logic: Logic) -> MessageReasoner:
        atoms = kind(self.scorer, self.calibration, self.facts, precision=self.precision)
        return MessageReasoner(atoms, logic, self.settings.k, self.settings.memory)

    def write(self) -> dict[str, Tensor]:
        """Write the tables that the maps make into the link predictor; they are returned with their gradients."""
        made = {}
        for key, weight in self.maps.items():
            old, parts = self.tables[key], self.tables[key].shape[1] // self.model.rank
            mapped = old @ weight
            if self.variant == "C":  # part by part: real numbers beside real ones, imaginary beside imaginary
                pairs = zip(old.chunk(parts, -1), mapped.chunk(parts, -1), strict=True)
                mapped = torch.cat([torch.cat(pair, -1) for pair in pairs], -1)
            with torch.no_grad():
                _table(self.scorer, key).weight.copy_(mapped)
            made[key] = mapped
        return made


class TrainedAtoms(Atoms):
    """Atoms whose raw scores have gradients."""

    def rows(self, heads: Tensor, relations: Tensor) -> Tensor:
        """Log-scores of every tail, `[B, N]`; gradients reach the calibration and the vectors."""
        scores: Tensor = self.calibration(self.scorer.logits(heads, relations), heads, relations)
        return self._lifted(scores, heads, relations)


def _table(model: FactorModel, key: str) -> Table:
    table: Table = getattr(model, key)
    return table


def _maps(tables: Mapping[str, Tensor], variant: str, seed: int) -> nn.ParameterDict:
    generator = torch.Generator().manual_seed(seed)
    maps = {}
    for key, table in tables.items():
        width = table.shape[1]
        noise = torch.randn(width, width, generator=generator) * 1e-3
        maps[key] = (noise + torch.eye(width) if variant == "R" else noise).to(table.device)
    return nn.ParameterDict(maps)
