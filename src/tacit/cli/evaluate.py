"""`tacit sample`, `eval`, `compare` and `report`: queries, and how good runs are."""

from __future__ import annotations

from collections.abc import Collection
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

from typer import Option

from tacit.cli import options
from tacit.cli.data import Graphs, read_graph
from tacit.cli.terminal import complete_shapes, say
from tacit.engine.settings import EngineSettings
from tacit.evaluate.settings import EvaluateSettings
from tacit.graph.settings import ReadSettings
from tacit.query.sampling.settings import SampleSettings

if TYPE_CHECKING:
    from rich.table import Table

    from tacit.evaluate.evaluation import Evaluation
    from tacit.query.sampling.sampling import Sample


@options.of_settings(SampleSettings)
@options.of_settings(ReadSettings, "reading")
def sample(
    graph: Graphs,
    settings: options.Values,
    reading: options.Values,
    out: Annotated[Path, Option(help="The BetaE folder to write; other splits in it stay.")],
    shapes: str = Option(
        "",
        autocompletion=complete_shapes,
        help="Shapes, as in 2i,3i,2in; or all (the default), positive, negative.",
    ),
    template: Annotated[
        list[str] | None,
        Option(
            help="A question with slots for names: '?t : r(a, ?t) & !s(b, ?t)'; may be repeated."
        ),
    ] = None,
    force: bool = Option(False, "--force", help="Replace queries of the split in the folder."),
) -> None:
    """Sample queries with easy and hard answers; write them and the graph as a BetaE folder."""
    from tacit.graph.builder import counted
    from tacit.query.sampling.query_folder import sample as sample_graph

    facts = read_graph(graph, **reading)
    samples = sample_graph(
        facts, out, shapes=shapes, templates=template or (), force=force, progress=True, **settings
    )
    _print_samples(samples.values())
    sizes = [len(draw.queries) for draw in samples.values() if len(draw.queries)]
    split = SampleSettings.of(settings).split
    wrote = f"{sum(sizes):,} {split} queries of {counted(len(sizes), 'shape')}"
    say(f"wrote {wrote} and the graph to {out}")


def _print_samples(samples: Collection[Sample]) -> None:
    """Print a line per shape, and why a sample is smaller than requested."""
    width = max(len("shape"), *(len(draw.queries.name) for draw in samples))
    say(f"{'shape':{width}}  queries    tries   good    easy    hard")
    for draw in samples:
        queries = draw.queries
        easy, hard = (
            part.counts.mean() if len(part) else 0.0 for part in (queries.easy, queries.hard)
        )
        numbers = f"{len(queries):7,}  {draw.tries:7,}  {draw.share:5.1%}  {easy:6.1f}  {hard:6.1f}"
        say(f"{queries.name:{width}}  {numbers}")
    for draw in samples:
        if not draw.complete:
            say(f"note: fewer than asked for: {draw}", err=True)


PATIENCE = 7 * 86_400.0  # seconds that a process waits for the slowest batch of another


@options.of_settings(EngineSettings, defaults={"observed": "train"})
@options.of_settings(EvaluateSettings, "protocol")
def evaluate(
    source: Annotated[str, options.run_argument()],
    settings: options.Values,
    protocol: options.Values,
    queries: Annotated[
        Path | None, Option(help="A BetaE folder of queries; else the run's own held-out facts.")
    ] = None,
    shapes: options.Shapes = None,
    unadapted: options.Unadapted = False,
    device: options.Device = "auto",
    json_: Annotated[Path | None, Option("--json", help="Write the results to this file.")] = None,
    attributes: Annotated[
        bool, Option("--attributes", help="Measure predicted values of attributes instead.")
    ] = False,
) -> None:
    """Rank the hard answers of queries: MRR and Hits@1, 3, 10, by BetaE's protocol."""
    if attributes:
        others = {"queries": queries, "shapes": shapes, **settings, **protocol}
        split = protocol.get("split", "test")
        _evaluate_values(source, split, json_, [n for n, v in others.items() if v is not None])
        return
    from tacit.distributed.shards import Shards, leave, local_device
    from tacit.run.run import open as open_run
    from tacit.run.world import find_run

    find_run(source)  # facts alone are no run to keep results in
    processes = Shards.joined(0, PATIENCE)  # where torchrun started several
    run = open_run(source, device=local_device(device), adapted=not unadapted)
    evaluation = run.evaluate(
        queries,
        shapes=shapes,
        out=json_,
        progress=processes.leads,
        processes=processes,
        **protocol,
        **settings,
    )
    leave()
    if not processes.leads:
        return
    _show(evaluation)
    if json_ is not None:
        say(f"wrote {json_}", err=True)
    if evaluation.unstored_reason:
        say(f"the results are not kept in the run: {evaluation.unstored_reason}", err=True)
    elif evaluation.outdated:
        say(f"the run keeps the results as outdated: {evaluation.outdated}", err=True)


def _evaluate_values(source: str, split: str, out: Path | None, options: Collection[str]) -> None:
    """Measure predicted values of attributes, and print them."""
    from tacit.errors import SettingsError
    from tacit.run.run import open as open_run
    from tacit.run.world import find_run

    for name in options:
        if name not in ("split", "observed"):
            raise SettingsError(
                f"{name} belongs to queries; leave it out where `attributes=True`", name
            )
    find_run(source)
    evaluation = open_run(source).evaluate_values(split, out=out)
    for line in evaluation.lines():
        say(line)
    say(
        f"{split} values of entities without a training value; 80 %: the share in their intervals; "
        "median, near: the MAE of guesses by the median of all, and of the neighbours"
    )
    if out is not None:
        say(f"wrote {out}", err=True)
    if evaluation.unstored_reason:
        say(f"the results are not kept in the run: {evaluation.unstored_reason}", err=True)


@options.of_settings(EvaluateSettings, "protocol", only=("split", "limit", "ties"))
def compare(
    sources: Annotated[list[str], options.run_argument("Runs of one graph, or world.", "RUN...")],
    protocol: options.Values,
    queries: Annotated[
        Path | None, Option(help="A BetaE folder of queries; else 100 of each shape, or --limit.")
    ] = None,
    shapes: options.Shapes = None,
    seed: Annotated[int, Option(help="Seed of the queries that are drawn.")] = 0,
    device: options.Device = "auto",
    out: Annotated[Path | None, Option(help="Write the comparison to this file, as JSON.")] = None,
) -> None:
    """Compare runs of one graph on the same queries: MRR by shape, seconds and parameters."""
    from tacit.run.compare import compare as compare_runs

    comparison = compare_runs(
        sources,
        queries,
        shapes=shapes,
        seed=seed,
        device=device,
        out=out,
        progress=True,
        **protocol,
    )
    for line in str(comparison).split("\n"):
        say(line)
    if out is not None:
        say(f"wrote {out}", err=True)


def report(
    source: Annotated[str, options.run_argument()],
    out: Annotated[Path, Option(help="The page to write, .html or .md.")] = Path("report.html"),
) -> None:
    """Write settings, tables and figures of a run as one page that needs no other file."""
    from tacit.evaluate.report import write_report
    from tacit.run.world import find_run

    say(f"wrote {write_report(find_run(source), out)}")


def _show(evaluation: Evaluation) -> None:
    from tacit.evaluate.results import AVERAGES, metrics_table, missing_table, relations_table

    written = evaluation.to_json()
    _print_table(metrics_table(written))
    of = "hard answers of its" if evaluation.mean == "fact" else "its"
    split = evaluation.settings.get("split", "test")
    say(
        f"in percent, filtered; each row is the mean over {of} {split} questions, averages over "
        "those of their shapes"
    )
    how = ", ".join(f"{name} {value}" for name, value in evaluation.settings.items())
    say(f"MRR and Hits in percent; {how}")
    if evaluation.settings.get("new"):
        say("answers that the observed facts imply are ranked last (new)")
    for name, shapes in AVERAGES.items():
        missing = [shape for shape in shapes if shape not in written["mrr"]]
        if 0 < len(missing) < len(shapes) and len(written["mrr"]) > 1:
            say(f"{name} is not stated: there are no {', '.join(missing)} queries")
    if evaluation.by_missing:
        _print_table(missing_table(evaluation.by_missing))
    if evaluation.relations:
        _print_table(relations_table(evaluation.relations))
    for name, measured in evaluation.reliability.items():
        say(
            f"{name}: calibration error {measured.calibration_error:.4f}, Brier score "
            f"{measured.brier:.4f}"
        )


def _print_table(table: Table) -> None:
    from rich.console import Console

    console = Console()
    console.print(table, width=None if console.is_terminal else 100)
