"""The rows of a table that an encoder answers: what it learns from, and how it was trained.

A row says `learn_from = "given"` where the encoder learns from the training queries of the data
set; shapes that it has none of, negation among them, are drawn. Without it all queries are drawn.
With `share` in `[encode]` nothing is drawn: 1p queries are there whole, those of any other shape by
that share, and where the data set has none, so many sampled ones, of negation a tenth, as in BetaE.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from tacit.encode.models import NETWORKS
from tacit.encode.settings import SMALL, EncodeSettings
from tacit.encode.training.encoding import EncodeResult
from tacit.errors import PlanError
from tacit.graph.graph import Graph
from tacit.query.sampling.queries import QuerySet, read_queries, with_answers
from tacit.query.sampling.sampling import sample
from tacit.query.sampling.shapes import NEGATIVE, SHAPES

WHOLE = "1p"  # of which no share is taken: a link predictor is trained on all facts, too
TENTH = 10  # as many 1p queries as BetaE has of each shape with negation


def given_queries(graph: Graph, folder: Path, settings: EncodeSettings) -> dict[str, QuerySet]:
    """The stored training queries with all their answers, or the share that settings ask for."""
    shapes = settings.shapes or ()
    found = read_queries(
        folder, "train", [name for name in shapes if name not in NEGATIVE], absent_ok=True
    )
    if settings.share == 1:
        return {name: with_answers(queries, graph, "train") for name, queries in found.items()}
    many = max(map(len, found.values()))
    taken: dict[str, QuerySet] = {}
    for name in shapes:
        if name in found:
            share_of_queries = (
                found[name] if name == WHOLE else found[name].share(settings.share, settings.seed)
            )
            taken[name] = with_answers(share_of_queries, graph, "train")
        else:
            share = 1.0 if name == WHOLE else settings.share / (TENTH if name in NEGATIVE else 1)
            count = max(1, round(share * many))
            taken[name] = sample(graph, SHAPES[name], "train", count, seed=settings.seed).queries
    return {name: queries for name, queries in taken.items() if len(queries)}


def expressible(
    encoder: Any, queries: Mapping[str, QuerySet]
) -> tuple[dict[str, QuerySet], dict[str, str]]:
    """The queries that an encoder can answer, and for the other shapes why it cannot."""
    refused: dict[str, str] = {}
    for name, query_set in queries.items():
        try:
            encoder.check(query_set.shape.plan)
        except PlanError as error:
            refused[name] = str(error)
    return {name: query_set for name, query_set in queries.items() if name not in refused}, refused


def training_report(
    result: EncodeResult, row: Mapping[str, Any], training_sets: Mapping[str, QuerySet] | None
) -> dict[str, Any]:
    """Notes on the training behind a row; `row` are its settings as they stand in its file."""
    chosen = result.settings
    summary = result.summary
    seconds = summary["seconds"]
    steps = summary["steps"]
    report: dict[str, Any] = {
        "model": chosen.model,
        "recipe": chosen.recipe,
        "minutes": round(seconds / 60, 2),
        "steps": steps,
        "step_ms": round(1e3 * seconds / max(1, steps), 3),  # validations included
        "given": {name: len(queries) for name, queries in (training_sets or {}).items()},
        "drawn": [name for name, origin in summary["learned_from"].items() if origin == "drawn"],
        "share": row.get("share", 1.0),
        "best_step": summary["best_step"],
        "valid_mrr": summary["valid_mrr"],
        "observed": "train" if chosen.model in NETWORKS else "none",
    }
    whole = EncodeSettings.of(row).with_derived(SMALL)
    if whole.minutes is not None:
        if chosen.minutes is not None and chosen.minutes < whole.minutes:
            report["cut"] = f"{chosen.minutes:g} of {whole.minutes:g} minutes"
    elif steps < whole.steps:
        report["cut"] = f"{steps:,} of {whole.steps:,} steps"
    return report
