"""The results of an evaluation, and their JSON form."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from tacit.disk import from_json
from tacit.errors import DataError
from tacit.graph.fact_index import Floats
from tacit.links.ranking import MEANS, METRICS, by_query
from tacit.query.sampling.queries import QuerySet
from tacit.query.sampling.shapes import NEGATIVE, POSITIVE

AVERAGES = {"avg_p": POSITIVE, "avg_n": NEGATIVE}


@dataclass(frozen=True, eq=False)
class Figures:
    """The ranks of the hard answers of one set of queries, their metrics and the time."""

    queries: QuerySet
    ranks: Tensor  # of each of `queries.hard.ids`
    seconds: float = 0.0

    @cached_property
    def by_query(self) -> dict[str, Floats]:
        """Reciprocal rank and Hits@k of each query, `[Q]`: the means over its hard answers."""
        values = by_query(self.ranks, torch.from_numpy(self.queries.hard.rows))
        return {name: column.numpy() for name, column in values.items()}

    def __len__(self) -> int:
        return len(self.queries)

    def mean(self, metric: str = "mrr", mean: str = "question") -> float:
        """The mean over the queries, or over their hard answers."""
        weights = self.queries.hard.counts if mean == "fact" else None
        return float(np.average(self.by_query[metric], weights=weights))

    def grouped(
        self, keys: NDArray[np.integer], mean: str = "question"
    ) -> dict[int, dict[str, float]]:
        """The metrics of the hard answers that share a key, such as their relation.

        Each group is an evaluation of its own: a query takes part with its answers of that key.
        Beside the metrics there are the numbers of queries and answers.
        """
        distinct, group = np.unique(keys, return_inverse=True)
        pairs, pair, answers = np.unique(
            group * len(self) + self.queries.hard.rows, return_inverse=True, return_counts=True
        )
        of_key = pairs // len(self)  # of each pair of a key and a query
        weights = answers if mean == "fact" else np.ones(len(pairs))
        columns: dict[str, NDArray[Any]] = {
            name: np.bincount(of_key, weights * values.numpy()) / np.bincount(of_key, weights)
            for name, values in by_query(self.ranks, torch.from_numpy(pair)).items()
        }
        columns |= {"queries": np.bincount(of_key), "answers": np.bincount(group)}
        return {
            int(key): {name: column[i].item() for name, column in columns.items()}
            for i, key in enumerate(distinct)
        }


@dataclass(frozen=True)
class Results:
    """The figures of every set of queries, with tie policy, mean and settings.

    A mean per `question` is BetaE's: over the hard answers of a query, then over the queries. A
    mean per `fact` counts every hard answer once, as PyKEEN does; for 1p queries in both directions
    it is the number PyKEEN calls `both`.
    """

    figures: Mapping[str, Figures] = field(hash=False)
    ties: str
    settings: Mapping[str, Any] = field(default_factory=dict, hash=False)
    mean: str = "question"

    @property
    def mrr(self) -> dict[str, float]:
        """The mean reciprocal rank of each set, as a fraction."""
        return self.metric("mrr")

    def metric(self, metric: str, mean: str | None = None) -> dict[str, float]:
        """A metric of each set, as a fraction."""
        return {
            name: figures.mean(metric, mean or self.mean) for name, figures in self.figures.items()
        }

    def average(self, name: str) -> float | None:
        """`avg_p` or `avg_n`: the mean MRR over nine positive or five negative shapes.

        It is None unless all of them are present.
        """
        return average(self.mrr, AVERAGES[name])

    def to_json(self) -> dict[str, Any]:
        """The results as `tacit eval --json` writes them: metrics as fractions.

        They are given by the chosen mean, then by each mean.
        """
        return {
            **{metric: self.metric(metric) for metric in METRICS},
            **{name: self.average(name) for name in AVERAGES},
            "queries": {name: len(figures) for name, figures in self.figures.items()},
            "answers": {
                name: len(figures.queries.hard.ids) for name, figures in self.figures.items()
            },
            "seconds": {name: round(figures.seconds, 4) for name, figures in self.figures.items()},
            "ties": self.ties,
            "mean": self.mean,
            "means": {
                mean: {metric: self.metric(metric, mean) for metric in METRICS} for mean in MEANS
            },
            "settings": dict(self.settings),
        }


def average(values: Mapping[str, float], names: Sequence[str]) -> float | None:
    """The mean of the named values, or None unless all of them are there.

    >>> average({"2i": 0.5, "3i": 0.25}, ("2i", "3i")), average({"2i": 0.5}, ("2i", "3i"))
    (0.375, None)
    """
    return sum(values[name] for name in names) / len(names) if values.keys() >= {*names} else None


def read_results(path: str | Path) -> dict[str, Any]:
    """The results in a file written by `tacit eval --json`, their form checked."""
    path = Path(path)
    try:
        results = from_json(path.read_text(encoding="utf-8"))
    except OSError as error:
        raise DataError(f"cannot be read ({error.strerror or error})", path) from None
    except ValueError as error:
        raise DataError(f"is not JSON ({error})", path) from None
    if not is_results(results):
        raise DataError(
            "holds no results; write those of an evaluation", path, command="eval RUN --json FILE"
        )
    return dict(results)


def is_results(data: Any) -> bool:
    """Whether plain data has the form of results."""
    return isinstance(data, dict) and all(
        isinstance(table := data.get(metric), dict)
        and all(isinstance(value, int | float) for value in table.values())
        for metric in METRICS
    )
