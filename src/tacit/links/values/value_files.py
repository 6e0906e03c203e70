"""The fitted attributes of a run in its `values.safetensors`, and fitting them at the first use."""

from __future__ import annotations

import threading
import time
from collections.abc import Mapping
from contextlib import suppress
from typing import Any

import numpy as np
import torch
from torch import Tensor

from tacit.errors import LimitError, RunError
from tacit.fitting.progress import Progress
from tacit.graph.graph import Graph
from tacit.links.values.distribution import Errors, ValueDistribution
from tacit.links.values.fitted_values import FittedAttribute, FittedValues
from tacit.links.values.fitting import fit_values
from tacit.links.values.predictor import PredictedValue, ValuePredictor
from tacit.links.values.walk_model import WalkModel
from tacit.run_folder.files import VALUES
from tacit.run_folder.folder import RunFolder

_SCALARS = ("logarithmic", "whole", "least", "median", "low", "high", "linear", "log")


def save_values(run: RunFolder, values: FittedValues, seconds: float) -> None:
    """Write fitted attributes to a run, and how well they did on held-out values."""
    tensors = dict[str, Tensor]()
    for attribute, fitted in enumerate(values.fitted):
        if fitted is not None:
            named = _to_tensors(fitted).items()
            tensors |= {f"{attribute}.{name}": tensor for name, tensor in named}
    run.write_tensors(VALUES, tensors)
    with run.changed_results() as results:
        names = values.attributes.names
        results["values"] = {
            "held_out_error": {
                names[attribute]: dict(fitted.held_out)
                for attribute, fitted in enumerate(values.fitted)
                if fitted is not None
            },
            "seconds": round(seconds, 3),
        }


def load_values(run: RunFolder, graph: Graph) -> FittedValues:
    """Read the fitted attributes of a run."""
    fitted = list[FittedAttribute | None]()
    with run.fits(VALUES, "delete it, and it is made again"):
        tensors = run.tensors(VALUES)
        for attribute in range(len(graph.attributes.listed)):
            prefix = f"{attribute}."
            own = {
                name.removeprefix(prefix): tensor.numpy()
                for name, tensor in tensors.items()
                if name.startswith(prefix)
            }
            fitted.append(_from_arrays(own, graph.num_entities) if own else None)
    return FittedValues(graph.attributes, tuple(fitted), graph.num_entities)


def fit_run(run: RunFolder, graph: Graph, progress: Progress | bool = False) -> FittedValues:
    """The attributes of a run: as its folder has them, or fitted, by the seed of its training."""
    if run.has(VALUES):
        with suppress(RunError):  # they are of other facts, or damaged
            return load_values(run, graph)
    began = time.perf_counter()
    values = fit_values(graph, run.settings.get("train", {}).get("seed", 0), progress)
    with suppress(RunError, LimitError):  # a folder that cannot be written
        save_values(run, values, time.perf_counter() - began)
    return values


def complete_values(run: RunFolder, graph: Graph, progress: Progress | bool) -> None:
    """Fit the attributes of a trained run, where its graph has values and they are not there."""
    if len(graph.attributes):
        fit_run(run, graph, progress)


class RunValues(ValuePredictor):
    """The values that a run predicts: read from its folder, or fitted at the first use.

    They are fitted again after the facts or values of a run were changed.
    """

    def __init__(self, run: RunFolder, graph: Graph) -> None:
        self.run = run
        self.graph = graph
        self._found: FittedValues | None = None
        self._lock = threading.Lock()

    def __getstate__(self) -> dict[str, Any]:
        return {**vars(self), "_lock": None}

    def __setstate__(self, state: Mapping[str, Any]) -> None:
        vars(self).update(state, _lock=threading.Lock())

    @property
    def fitted(self) -> FittedValues:
        """The fitted attributes."""
        with self._lock:
            if self._found is None:
                self._found = fit_run(self.run, self.graph)
            return self._found

    def probability(self, attribute: int, low: float, high: float) -> Tensor:
        """The probability that an entity has a value from `low` to `high`, `[N]`."""
        return self.fitted.probability(attribute, low, high)

    def probability_of(
        self, attribute: int, entities: Tensor, lows: Tensor, highs: Tensor
    ) -> Tensor:
        """The probability that each of some entities has a value in a range of its own, `[M]`."""
        return self.fitted.probability_of(attribute, entities, lows, highs)

    def difference(self, left: int, right: int, sources: Tensor, low: float, high: float) -> Tensor:
        """The probability that a source's left value less an entity's right one is in a range."""
        return self.fitted.difference(left, right, sources, low, high)

    def difference_of(
        self, left: int, right: int, sources: Tensor, targets: Tensor, low: float, high: float
    ) -> Tensor:
        """The probability that the values of each pair of entities differ by a range, `[M]`."""
        return self.fitted.difference_of(left, right, sources, targets, low, high)

    def predicted(self, attribute: int, entity: int, level: float = 0.8) -> PredictedValue | None:
        """The value of one entity; None where an attribute has no prediction."""
        return self.fitted.predicted(attribute, entity, level)


def _to_tensors(fitted: FittedAttribute) -> dict[str, Tensor]:
    """An attribute as tensors of numbers."""
    distribution, walks = fitted.distribution, fitted.walks
    scalars = (
        distribution.logarithmic,
        distribution.whole,
        distribution.least,
        walks.median,
        walks.low,
        walks.high,
        *(fitted.held_out.get(scale, np.nan) for scale in ("linear", "log")),
    )
    arrays = {
        "locations": distribution.locations,
        "spreads": distribution.spreads,
        "presence": distribution.presence,
        "knots": distribution.errors.knots,
        "chances": distribution.errors.chances,
        "codes": walks.codes,
        "slopes": walks.slopes,
        "intercepts": walks.intercepts,
        "errors": walks.errors,
        "scalars": np.array(scalars, dtype=float),
    }
    return {name: torch.from_numpy(np.ascontiguousarray(array)) for name, array in arrays.items()}


def _from_arrays(arrays: Mapping[str, Any], num_entities: int) -> FittedAttribute:
    """An attribute from its arrays; a `ValueError` for impossible ones."""
    knots, codes = arrays["knots"], arrays["codes"]
    sizes = dict.fromkeys(("locations", "spreads", "presence"), (num_entities,))
    sizes |= dict.fromkeys(("knots", "chances"), knots.shape)
    sizes |= dict.fromkeys(("codes", "slopes", "intercepts", "errors"), codes.shape)
    sizes["scalars"] = (len(_SCALARS),)
    for name, size in sizes.items():
        array = arrays[name]
        kind = "i" if name == "codes" else "f"
        finite = name == "scalars" or bool(np.isfinite(array).all())
        if array.shape != size or array.ndim != 1 or array.dtype.kind != kind or not finite:
            raise ValueError(f"{name} holds {array.dtype} {array.shape}")
    scalars = dict(zip(_SCALARS, arrays["scalars"].tolist(), strict=True))
    positive = (arrays["spreads"] > 0).all() and (arrays["errors"] > 0).all()
    chances, presence = arrays["chances"], arrays["presence"]
    in_order = (np.diff(knots) >= 0).all() and (np.diff(chances) > 0).all() and len(knots)
    shares = (presence >= 0).all() and (presence <= 1).all() and (chances > 0).all()
    if not (positive and in_order and shares and (chances < 1).all()):
        raise ValueError("it holds no distributions")
    held_out = {name: scalars[name] for name in ("linear", "log") if np.isfinite(scalars[name])}
    distribution = ValueDistribution(
        arrays["locations"],
        arrays["spreads"],
        presence,
        Errors(knots, chances),
        bool(scalars["logarithmic"]),
        bool(scalars["whole"]),
        scalars["least"],
    )
    walks = WalkModel(
        codes,
        arrays["slopes"],
        arrays["intercepts"],
        arrays["errors"],
        scalars["median"],
        scalars["low"],
        scalars["high"],
    )
    return FittedAttribute(distribution, walks, held_out)
