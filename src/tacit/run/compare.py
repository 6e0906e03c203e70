"""Compare the answers of several runs of one graph on the same queries."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tacit.disk import write_text
from tacit.errors import RunError, SettingsError
from tacit.evaluate.settings import EvaluateSettings
from tacit.loaded_run import describe_adapter, engine_of
from tacit.query.sampling.query_folder import sample
from tacit.run.run import Run, open
from tacit.run.world import find_run
from tacit.run_folder.files import ADAPTER, ON_PREDICTOR
from tacit.run_folder.folder import versions
from tacit.sources import NameOrPath

# Imports of torch are local.
if TYPE_CHECKING:
    from rich.table import Table

    from tacit.engine.engine import Engine
    from tacit.evaluate.results import Results
    from tacit.fitting.progress import Progress
    from tacit.query.sampling.queries import QuerySet

    Measured = Callable[[Engine], Results]

COUNT = 100  # default number of sampled queries of each shape


@dataclass(frozen=True)
class System:
    """One way to answer: a run's link predictor, alone or with its adapter, or its encoder."""

    run: str
    what: str  # "predictor", "adapted" or "encoder"
    model: str  # for display
    trained: str  # its training, in one line
    parameters: int
    results: Results

    @property
    def seconds(self) -> float:
        """The seconds that the ranking took."""
        return sum(figures.seconds for figures in self.results.figures.values())

    def to_json(self) -> dict[str, Any]:
        """The row as plain data."""
        values = vars(self) | self.results.to_json() | {"seconds": round(self.seconds, 4)}
        return {name: value for name, value in values.items() if name != "results"}


@dataclass(frozen=True)
class Comparison:
    """The compared systems, a row each, and the conditions that they share."""

    rows: tuple[System, ...]
    shared: Mapping[str, Any] = field(default_factory=dict, hash=False)

    def to_json(self) -> dict[str, Any]:
        """The comparison as plain data, as `write` and the `out` of `compare` write it."""
        return {**self.shared, "rows": [row.to_json() for row in self.rows], "versions": versions()}

    def write(self, path: str | Path) -> None:
        """Write the plain data to a file."""
        write_text(Path(path), json.dumps(self.to_json(), indent=1, ensure_ascii=False) + "\n")

    @property
    def conditions(self) -> str:
        """The conditions that all rows share, in one line."""
        counts = ", ".join(f"{number} {name}" for name, number in self.shared["queries"].items())
        others = ", ".join(
            f"{name} {value}" for name, value in self.shared.items() if name != "queries"
        )
        return f"MRR in percent; the same queries for all: {counts}; {others}"

    def table(self) -> Table:
        """The comparison as a table for a terminal, with a column for each system.

        A shape that a system cannot express is blank.
        """
        from rich.markup import escape

        from tacit.evaluate.results import columns_of, empty_table, percentages

        figures = [percentages({"mrr": row.results.mrr}) for row in self.rows]
        table = empty_table(
            ("", *(escape(f"{row.run}\n{row.what}\n{row.model}") for row in self.rows))
        )
        for name in columns_of(figures):
            table.add_row(
                name, *(f"{values[name]:.1f}" if name in values else "" for values in figures)
            )
        table.add_section()
        table.add_row("seconds", *(f"{row.seconds:.1f}" for row in self.rows))
        table.add_row("parameters", *(f"{row.parameters:,}" for row in self.rows))
        return table

    def __str__(self) -> str:
        from rich.console import Console

        console = Console(width=20 + 20 * len(self.rows), force_terminal=False, color_system=None)
        with console.capture() as capture:
            console.print(self.table())
        trained = [f"{row.run}, {row.what}: {row.trained}" for row in self.rows]
        return "\n".join([capture.get().rstrip(), *trained, self.conditions])


def compare(
    runs: NameOrPath | Sequence[NameOrPath],
    queries: NameOrPath | Mapping[str, QuerySet] | None = None,
    split: str = "test",
    shapes: str | None = None,
    *,
    limit: int | None = None,
    ties: Any = "realistic",
    seed: int = 0,
    device: str = "auto",
    out: NameOrPath | None = None,
    progress: Progress | bool = False,
) -> Comparison:
    """Ask the same queries of one or several runs of a graph, and rank their hard answers.

    A run gives a row for its link predictor, one with its adapter and one for its encoder, as far
    as it has them. `queries` are a query folder or query sets; by default 100 of each shape, or
    `limit`, are drawn from the split of the graph. All observe the training facts; shapes that an
    encoder cannot express are left out of its row. `out` is a JSON file to write; `progress` hears
    an `Event` of each shape as its queries are ranked, or True shows it.
    """
    from tacit.evaluate.evaluation import (
        check_writable,
        observed_before,
        queries_of,
        relevant_settings,
    )
    from tacit.evaluate.protocol import evaluate, queries_to_rank

    protocol = EvaluateSettings(split=split, limit=limit, ties=ties)
    if out is not None:
        check_writable(Path(out))
    open_runs = _open_all([runs] if isinstance(runs, NameOrPath) else runs, device)
    graph = next(iter(open_runs.values())).graph
    if queries is None:
        origin = "drawn from the graph"
        samples = sample(graph, shapes=shapes, split=split, count=limit or COUNT, seed=seed)
        query_sets = {name: each.queries for name, each in samples.items() if len(each.queries)}
    else:
        origin = "given" if isinstance(queries, Mapping) else str(queries)
        query_sets = queries_of(graph, queries, split, shapes)
    observed = observed_before(split)

    def measure(engine: Engine) -> Results:
        sets = {
            shape: each
            for shape, each in query_sets.items()
            if engine.search.unsupported_reason(each.shape.plan) is None
        }
        settings = {"split": split, **relevant_settings(engine)}
        return evaluate(engine.reasoner, sets, protocol, settings, progress)

    rows = list[System]()
    names = [Path(source).name or Path(source).resolve().name for source in open_runs]
    for (source, run), name in zip(open_runs.items(), names, strict=True):
        rows += _systems(run, name if names.count(name) == 1 else source, observed, measure)
    conditions = {
        "graph": graph.name,
        "split": split,
        "queries": {name: len(each) for name, each in queries_to_rank(query_sets, limit).items()},
        "origin": origin,
        "observed": "+".join(observed) or "none",
        "ties": ties,
        "mean": protocol.mean,
    }
    comparison = Comparison(tuple(rows), conditions)
    if out is not None:
        comparison.write(out)
    return comparison


def _open_all(sources: Sequence[NameOrPath], device: str) -> dict[str, Run]:
    """The runs by their sources, or a `RunError` unless all are of one graph."""
    if not sources:
        raise SettingsError("there are no runs to compare; give at least one", "runs")
    for source in sources:
        find_run(source)  # facts alone are no run to compare
    open_runs = {str(source): open(source, device=device) for source in sources}
    (first_name, first), *others = (
        (name, run.folder.fingerprint) for name, run in open_runs.items()
    )
    for name, other in others:
        if first != other:
            same_labels = first.labels == other.labels
            raise RunError(
                f"runs '{first_name}' and '{name}' are of different graphs: their "
                f"{'facts' if same_labels else 'labels'} differ; compare runs of one graph"
            )
    return open_runs


def _systems(run: Run, name: str, observed: tuple[str, ...], measure: Measured) -> list[System]:
    """The rows of a run: its link predictor, adapter and encoder, evaluated by `measured`."""
    folder = run.folder
    weights = run.weights
    rows = list[System]()
    by_rows = {"observed": observed, "candidates": "rows"}  # all entities are ranked
    model = type(weights.scorer).__name__
    size = _size(weights.scorer)

    def add(system: str, engine: Engine, model: str, training: str, parameters: int) -> None:
        rows.append(System(name, system, model, training, parameters, measure(engine)))

    if folder.has_predictor:
        settings = folder.settings["train"]
        training = ", ".join(
            f"{name} {settings[name]}" for name in ("model", "rank", "epochs") if name in settings
        )
        engine = engine_of(folder, weights, False, by_rows)
        add("predictor", engine, model, training, size)
        if folder.has(ADAPTER):
            engine = engine_of(folder, weights, True, by_rows)
            more = int(getattr(getattr(engine.adapter, "adapter", None), "num_parameters", 0))
            training = describe_adapter(folder.settings.get("adapt", {})) or training
            add("adapted", engine, model, training, size + more)
    if weights.encoder is not None:
        engine = engine_of(folder, weights, False, {"observed": observed, "search": "encoder"})
        on_predictor = folder.settings.get("encode", {}).get("model") in ON_PREDICTOR
        parameters = _size(weights.encoder) + (size if on_predictor else 0)
        config = engine.config
        add("encoder", engine, config["encoder"], config["encoding"], parameters)
    return rows


def _size(module: Any) -> int:
    """The number of rules, or of weights in a model's file without the padding of its tables."""
    if hasattr(module, "rules"):
        return len(module.rules)
    tables = module.state_dict() if hasattr(module, "state_dict") else {}
    return sum(table.numel() for table in tables.values())
