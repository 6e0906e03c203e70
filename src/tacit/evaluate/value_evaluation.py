"""How well a run predicts the values of attributes, beside two simple guesses."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np

from tacit.disk import write_text
from tacit.errors import DataError, SettingsError, TacitError
from tacit.evaluate.evaluation import check_writable
from tacit.graph.attributes import Attribute
from tacit.graph.fact_index import Floats, Ids
from tacit.graph.graph import Graph
from tacit.links.values.fitted_values import FittedValues
from tacit.query.value_text import rounded_text
from tacit.run_folder.folder import RunFolder

LEVEL = 0.8  # of the intervals whose coverage is measured
_UNITS = {"date": "days", "duration": "s"}


@dataclass(frozen=True)
class ValueFigures:
    """How well the held-out values of one attribute were predicted."""

    values: int
    unit: str  # of the errors: days for dates, seconds for durations
    scale: str  # that the attribute was learned in: linear or log
    mae: float  # mean absolute error of the medians
    rmse: float
    r2: float | None  # the share of the variance that is explained; None where there is none
    coverage: float  # the share of values in their intervals
    close: float | None  # the share of values met within 10 %; None for dates
    median_mae: float  # of the median of the training values, as a guess
    neighbours_mae: float  # of the median of the neighbours' values, as a guess


@dataclass(frozen=True)
class ValueEvaluation:
    """The figures of each attribute with held-out values that a run predicts."""

    split: str
    figures: Mapping[str, ValueFigures]
    unstored_reason: str = ""

    def to_json(self) -> dict[str, Any]:
        """The figures as plain data."""
        attributes = {name: asdict(each) for name, each in self.figures.items()}
        return {"split": self.split, "level": LEVEL, "attributes": attributes}

    def write(self, path: str | Path) -> None:
        """Write the figures to a JSON file."""
        path = Path(path)
        check_writable(path)
        write_text(path, json.dumps(self.to_json(), indent=2, ensure_ascii=False) + "\n")

    def lines(self) -> list[str]:
        """The figures as lines of a table."""
        head = ["attribute", "values", "MAE", "RMSE", "R²", "80 %", "±10 %", "median", "near"]
        rows = [head, *(_cells(name, each) for name, each in self.figures.items())]
        widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
        return [
            "  ".join([row[0].ljust(widths[0]), *map(str.rjust, row[1:], widths[1:])])
            for row in rows
        ]


def _cells(name: str, row: ValueFigures) -> list[str]:
    """A row of the table."""
    plain = Attribute("")
    mae, rmse, median, near = (
        rounded_text(error, plain)
        for error in (row.mae, row.rmse, row.median_mae, row.neighbours_mae)
    )
    r2 = "–" if row.r2 is None else f"{row.r2:.2f}"
    close = "–" if row.close is None else f"{row.close:.1%}"
    named = f"{name} [{row.unit}]" if row.unit else name
    return [named, f"{row.values:,}", mae, rmse, r2, f"{row.coverage:.1%}", close, median, near]


def evaluate_values(graph: Graph, values: FittedValues, split: str = "test") -> ValueEvaluation:
    """Compare predictions with the values of a split, of entities without a training value."""
    if split not in ("valid", "test"):
        raise SettingsError(f"split is '{split}'; values are held out in valid and test", "split")
    figures = {}
    for attribute, listed in enumerate(graph.attributes.listed):
        learned = graph.attributes.column(attribute, "train")
        entities, true = graph.attributes.column(attribute, split)
        fresh = ~np.isin(entities, learned[0])
        entities, true = entities[fresh].astype(np.int64), true[fresh]
        distribution = values.distribution(attribute)
        if distribution is None or not len(true):
            continue
        chances = (1 - LEVEL) / 2, 0.5, (1 + LEVEL) / 2
        low, median, high = distribution.quantiles(entities, chances).T
        errors = median - true
        around = float(((true - true.mean()) ** 2).sum())
        near = np.abs(errors) <= 0.1 * np.abs(true)
        middle = float(np.median(learned[1]))
        guesses = _neighbour_medians(graph, learned, entities, middle)
        figures[listed.name] = ValueFigures(
            len(true),
            _UNITS.get(listed.kind, listed.unit),
            "log" if distribution.logarithmic else "linear",
            float(np.abs(errors).mean()),
            float(np.sqrt((errors**2).mean())),
            1 - float((errors**2).sum()) / around if around > 0 else None,
            float(((low <= true) & (true <= high)).mean()),
            None if listed.kind == "date" else float(near.mean()),
            float(np.abs(middle - true).mean()),
            float(np.abs(guesses - true).mean()),
        )
    if not figures:
        raise DataError(f"{graph.name} has no {split} values of attributes that are predicted")
    return ValueEvaluation(split, figures)


def _neighbour_medians(
    graph: Graph, learned: tuple[Ids, Floats], entities: Ids, otherwise: float
) -> Floats:
    """The median of the values of each entity's neighbours by training facts."""
    index = graph.index("train")
    holders, values = learned
    guesses = np.full(len(entities), otherwise)
    for row, entity in enumerate(entities.tolist()):
        bounds = entity * index.num_relations, (entity + 1) * index.num_relations
        first, last = np.searchsorted(index.keys, bounds)
        around = np.unique(index.all_tails[index.offsets[first] : index.offsets[last]])
        found = values[np.isin(holders, around[around != entity])]
        if len(found):
            guesses[row] = np.median(found)
    return guesses


def store_values(folder: RunFolder, evaluation: ValueEvaluation) -> ValueEvaluation:
    """Write the figures into a run's results, in place of those of the same split."""
    try:
        folder.check_unchanged()
        with folder.changed_results() as results:
            stored = results.get("eval_values", [])
            others = [each for each in stored if each.get("split") != evaluation.split]
            results["eval_values"] = [*others, evaluation.to_json()]
    except TacitError as error:  # a read-only run, or one that was changed meanwhile
        return ValueEvaluation(evaluation.split, evaluation.figures, str(error))
    return evaluation
