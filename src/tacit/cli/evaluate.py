"""`tacit eval` and `tacit report`: how good a run is, by number and on one page."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from tacit.cli import options
from tacit.cli.progress import bar
from tacit.engine.settings import EngineSettings

if TYPE_CHECKING:
    from rich.table import Table

    from tacit.engine.engine import Engine
    from tacit.evaluate.results import Results
    from tacit.folder import RunFolder
    from tacit.query.queries import QuerySet


@options.of_settings(EngineSettings, defaults={"observed": "train"})
def evaluate(
    source: Annotated[str, typer.Argument(metavar="RUN|world", help="A run folder, or world.")],
    given: dict[str, Any],
    queries: Annotated[
        Path | None,
        typer.Option("--queries", help="A BetaE folder of queries; else the run's own held-out facts."),
    ] = None,
    split: Annotated[str, typer.Option("--split", help="train, valid or test.")] = "test",
    shapes: Annotated[
        str | None, typer.Option("--shapes", help="Shapes such as 1p,2i,3in, or positive, negative, all.")
    ] = None,
    unadapted: Annotated[bool, typer.Option("--unadapted", help="Leave the run's adapter out.")] = False,
    ties: Annotated[str, typer.Option("--ties", help="realistic, optimistic or pessimistic.")] = "realistic",
    limit: Annotated[int | None, typer.Option("--limit", min=1, help="At most so many queries of each shape.")] = None,
    per_relation: Annotated[bool, typer.Option("--per-relation", help="Also show 1p by relation.")] = False,
    reliability: Annotated[
        bool, typer.Option("--reliability", help="Also measure whether scores can be read as probabilities.")
    ] = False,
    batch: Annotated[int | None, typer.Option("--batch", min=1, help="Queries at once; by memory otherwise.")] = None,
    device: options.Device = "auto",
    json_: Annotated[Path | None, typer.Option("--json", help="Write the results to this file.")] = None,
) -> None:
    """Rank the hard answers of queries: MRR and Hits@1, 3, 10, by BetaE's protocol."""
    _check_writable(json_)
    run, engine = _opened(
        source, split, given.pop("observed", None), {"device": device, "adapted": not unadapted} | given
    )
    asked = _queries(engine, queries, split, shapes)
    about = {"graph": engine.graph.name, "queries": queries.name if queries else None, "split": split, "limit": limit}
    results, report = _measured(engine, asked, about | engine.settings, ties, limit, batch, given.get("memory", 1.0))
    _show(report)
    if per_relation:
        report["relations"] = _by_relation(engine, asked, results)
    if reliability:
        report["reliability"] = _reliability(engine, asked, split, limit or 500)
    _keep(run, report, json_)


def report(
    source: Annotated[str, typer.Argument(metavar="RUN|world", help="A run folder, or world.")],
    out: Annotated[Path, typer.Option("--out", help="The page to write, .html or .md.")] = Path("report.html"),
) -> None:
    """Write settings, tables and figures of a run as one page that needs no other file."""
    from tacit.evaluate.report import write_report

    typer.echo(f"wrote {write_report(_run(source), out)}")


def _check_writable(path: Path | None) -> None:
    """Refuses a file that cannot be written before hours are spent on what it should hold."""
    from tacit.errors import DataError

    if path is not None and path.is_dir():
        raise DataError("is a folder; --json needs the name of a file", path)
    if path is not None and not path.parent.is_dir():
        raise DataError(f"cannot be written: there is no folder '{path.parent}'", path)


def _run(source: str) -> RunFolder:
    from tacit.folder import RunFolder
    from tacit.workbench import world_run

    return RunFolder.open(world_run() if source == "world" and not Path(source).exists() else source)


def _opened(source: str, split: str, observed: str | None, settings: dict[str, Any]) -> tuple[RunFolder, Engine]:
    """The run and its engine, which is never handed the facts it is asked to predict."""
    from tacit import workbench
    from tacit.engine.settings import observed_parts
    from tacit.errors import SettingsError
    from tacit.folder import ADAPTER
    from tacit.graph.graph import PARTS

    if split not in PARTS:
        raise SettingsError(f"no split '{split}'; the splits are {', '.join(PARTS)}")
    run = _run(source)
    uses_adapter = settings["adapted"] and "calibration" not in settings and run.has(ADAPTER)
    adapted_for = run.settings.get("adapt", {}).get("observed") if uses_adapter else None
    before = PARTS[: PARTS.index(split)]
    parts = observed_parts(observed or adapted_for or before[:1])
    leaked = [part for part in parts if part not in before]
    if leaked:
        allowed = " or ".join(["none", *("+".join(before[: i + 1]) for i in range(len(before)))])
        raise SettingsError(
            f"the {' and '.join(leaked)} facts cannot be observed while {split} queries are evaluated; "
            f"give --observed {allowed}"
        )
    return run, workbench.open(run.path, observed=parts, **settings)


def _queries(engine: Engine, folder: Path | None, split: str, shapes: str | None) -> dict[str, QuerySet]:
    from tacit.errors import DataError, SettingsError
    from tacit.evaluate.benchmark import one_hop_queries
    from tacit.query.query_folder import queries_for
    from tacit.query.shapes import parse_shapes

    if folder is not None:
        return queries_for(engine.graph, folder, split, shapes)
    if shapes is not None and parse_shapes(shapes) != ("1p",):
        raise SettingsError(f"shapes {shapes} need queries: give --queries FOLDER, or make some with tacit sample")
    if not len(engine.graph.part(split)):
        raise DataError(
            f"{engine.graph.name} has no {split} facts to predict; split some off (tacit data split) or give --queries"
        )
    return {"1p": one_hop_queries(engine.graph, split)}


def _measured(
    engine: Engine,
    queries: Mapping[str, QuerySet],
    settings: Mapping[str, Any],
    ties: Any,
    limit: int | None,
    batch: int | None,
) -> tuple[Results, dict[str, Any]]:
    from tacit.evaluate.benchmark import evaluate as measure
    from tacit.folder import versions

    kept = {name: value for name, value in settings.items() if value is not None}
    with bar() as progress:
        results = measure(engine.reasoner, queries, ties, limit, batch, memory, progress, kept)
    return results, results.to_json() | {"versions": versions()}


def _show(report: Mapping[str, Any]) -> None:
    from tacit.evaluate.results import AVERAGES
    from tacit.evaluate.tables import metrics_table

    _print(metrics_table(report))
    said = report["settings"]
    names = [name for name in ("search", "k", "logic", "calibration", "observed") if name in said]
    how = ", ".join(f"{name} {said[name]}" for name in names)
    typer.echo(f"{report['ties']} ties; {how}{', adapted' if said.get('adapted') else ''}")
    for name, shapes in AVERAGES.items():
        missing = [shape for shape in shapes if shape not in report["mrr"]]
        if 0 < len(missing) < len(shapes) and len(report["mrr"]) > 1:
            typer.echo(f"{name} is not stated: there are no {', '.join(missing)} queries")


def _print(table: Table) -> None:
    from rich.console import Console

    console = Console()
    console.print(table, width=None if console.is_terminal else 100)


def _by_relation(engine: Engine, queries: Mapping[str, QuerySet], results: Results) -> dict[str, Any]:
    """The figures of 1p queries by relation, also printed, the most frequent first."""
    from tacit.errors import SettingsError
    from tacit.evaluate.tables import relations_table

    if "1p" not in queries:
        raise SettingsError("--per-relation is about 1p queries, and none were evaluated; add 1p to --shapes")
    kept = results.figures["1p"]
    labels = engine.graph.relations.labels
    found = {labels[i]: row for i, row in kept.grouped(kept.queries.relations[:, 0]).items()}
    _print(relations_table(found))
    return found


def _reliability(engine: Engine, queries: Mapping[str, QuerySet], split: str, limit: int) -> dict[str, Any]:
    """The reliability of atoms, and of the ten best answers of all queries together, also printed."""
    from tacit.evaluate.protocol import one_hop_queries, sample
    from tacit.evaluate.reliability import Reliability, reliability

    answers = [reliability(engine.reasoner, sample(chosen, limit), top=10) for chosen in queries.values()]
    found = {"ten best answers": sum(answers, Reliability.empty())}
    if len(engine.graph.part(split)):
        atoms = reliability(engine.reasoner, sample(one_hop_queries(engine.graph, split), limit))
        found = {"atoms": atoms} | found
    for name, measured in found.items():
        typer.echo(f"{name}: calibration error {measured.calibration_error:.4f}, Brier score {measured.brier:.4f}")
    return {name: measured.to_json() for name, measured in found.items()}


def _keep(run: RunFolder, report: dict[str, Any], json_: Path | None) -> None:
    """Write the results to a file where one is asked for, and into the run in place of those with equal settings."""
    import json

    from tacit.errors import TacitError
    from tacit.folder import atomic_write

    if json_ is not None:
        text = json.dumps(report, indent=1, ensure_ascii=False) + "\n"
        atomic_write(json_, lambda target: Path(target).write_text(text, encoding="utf-8"))
        typer.echo(f"wrote {json_}", err=True)
    before = run.results()
    others = [one for one in before.get("eval", []) if one.get("settings") != report["settings"]]
    try:
        run.write_results({**before, "eval": [*others, report]})
    except TacitError as error:  # a run may lie where one may only read
        typer.echo(f"the results are not kept in the run: {error}", err=True)
