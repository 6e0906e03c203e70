"""`tacit sample`: queries with easy and hard answers, from any graph."""

from __future__ import annotations

from collections.abc import Collection
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

from typer import Option

from tacit.cli import options, shell_completion
from tacit.cli.data import Graphs, loaded
from tacit.cli.terminal import say
from tacit.graph.settings import ReadSettings
from tacit.query.sampling.settings import SampleSettings

if TYPE_CHECKING:
    from tacit.query.sampling.sampling import Sample


@options.of_settings(SampleSettings)
@options.of_settings(ReadSettings, "reading")
def sample(
    graph: Graphs,
    given: dict[str, Any],
    reading: dict[str, Any],
    out: Annotated[Path, Option(help="The BetaE folder to write; other splits in it stay.")],
    shapes: str = Option(
        "",
        autocompletion=shell_completion.shapes,
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

    facts = loaded(graph, **reading)
    samples = sample_graph(
        facts, out, shapes=shapes, templates=template or (), force=force, progress=True, **given
    )
    _print(samples.values())
    sizes = [len(drawn.queries) for drawn in samples.values() if len(drawn.queries)]
    wrote = (
        f"{sum(sizes):,} {SampleSettings.of(given).split} queries of {counted(len(sizes), 'shape')}"
    )
    say(f"wrote {wrote} and the graph to {out}")


def _print(samples: Collection[Sample]) -> None:
    """Print a line per shape, and why a sample is smaller than requested."""
    width = max(len("shape"), *(len(drawn.queries.name) for drawn in samples))
    say(f"{'shape':{width}}  queries    tries   good    easy    hard")
    for drawn in samples:
        queries = drawn.queries
        easy, hard = (
            part.counts.mean() if len(part) else 0.0 for part in (queries.easy, queries.hard)
        )
        numbers = (
            f"{len(queries):7,}  {drawn.tries:7,}  {drawn.share:5.1%}  {easy:6.1f}  {hard:6.1f}"
        )
        say(f"{queries.name:{width}}  {numbers}")
    for drawn in samples:
        if not drawn.complete:
            say(f"note: fewer than asked for: {drawn}", err=True)
