"""How hard queries are for whoever answers them: the links that must be predicted for their hard answers, counted."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from tacit.errors import SettingsError
from tacit.evaluate.evaluation import observed_before, queries_of
from tacit.fitting.progress import Progress
from tacit.query.sampling.hardness import missing_links
from tacit.query.sampling.queries import QuerySet, has_queries
from tacit.query.sampling.query_folder import sample
from tacit.sources import NameOrPath, load

if TYPE_CHECKING:
    from tacit.graph.datasets import Facts


def hardness(
    graph: Facts | Sequence[Facts],
    queries: NameOrPath | Mapping[str, QuerySet] | None = None,
    split: str = "test",
    shapes: str | None = None,
    *,
    observed: str | Iterable[str] | None = None,
    count: int = 200,
    seed: int = 0,
    progress: Progress | bool = False,
) -> dict[str, dict[int, int]]:
    """How many hard answers of each shape need how many links to be predicted: `{"2i": {1: 310, 2: 25}}`.

    `queries` are a query folder, or query sets by shape, of the `split`, `valid` or `test`; by default those of the
    graph's own folder, and where it has none, `count` of each shape are drawn by a `seed`, of which `progress` hears,
    or True shows it.
    `observed` names the splits whose facts are known, joined by +, by default all before the split.
    """
    if split not in ("valid", "test"):
        raise SettingsError(f"split is '{split}'; it must be one of valid, test", "split")
    known = None if observed is None else observed_before(split, observed)
    loaded = load(graph)
    if queries is None and isinstance(graph, str | Path) and has_queries(graph, split):
        queries = graph
    if queries is not None:
        asked = queries_of(loaded, queries, split, shapes)
    else:
        drawn = sample(loaded, shapes=shapes, split=split, count=count, seed=seed, progress=progress)
        asked = {name: each.queries for name, each in drawn.items() if len(each.queries)}
    links = {name: missing_links(each, loaded, split, known) for name, each in asked.items()}
    return {
        name: dict(zip(*(part.tolist() for part in np.unique(missing, return_counts=True)), strict=True))
        for name, missing in links.items()
    }
