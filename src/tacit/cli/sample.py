"""`tacit sample`: queries with easy and hard answers, from any graph."""

from __future__ import annotations

from collections.abc import Collection
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

import typer

from tacit.cli import options, shell_completion
from tacit.cli.data import Graphs, loaded
from tacit.cli.progress import bar
from tacit.cli.terminal import say
from tacit.graph.read_settings import ReadSettings

if TYPE_CHECKING:
    from tacit.query.sampling import Sample


@options.of_settings(ReadSettings, "reading")
def sample(
    graph: Graphs,
    reading: dict[str, Any],
    out: Annotated[Path, typer.Option("--out", help="The BetaE folder to write; other splits in it stay.")],
    shapes: str = typer.Option(
        "",
        "--shapes",
        autocompletion=shell_completion.shapes,
        help="Shapes, as in 2i,3i,2in; or all (the default), positive, negative.",
    ),
    template: Annotated[
        list[str] | None,
        typer.Option(
            "--template", help="A question with slots for names: '?t : r(a, ?t) & !s(b, ?t)'; may be repeated."
        ),
    ] = None,
    split: Literal["train", "valid", "test"] = typer.Option("train", "--split", help="The facts to ask about."),
    count: int = typer.Option(1000, "--count", help="Queries of each shape."),
    max_answers: int | None = typer.Option(
        None, "--max-answers", help="Hard answers of a query, at most: 80 by default, any number in train."
    ),
    seed: int = typer.Option(0, "--seed", min=0, help="Seed of all draws."),
    waste: float = typer.Option(
        0.999, "--waste", help="Share of tries that may be in vain before a shape is given up."
    ),
    missing: str | None = typer.Option(
        None, "--missing", help="Links that must be predicted for a hard answer: 2, or 2+ for two or more."
    ),
    force: bool = typer.Option(False, "--force", help="Replace queries of the split in the folder."),
) -> None:
    """Sample queries with easy and hard answers, and write them with the graph as a BetaE folder."""
    from tacit.graph.builder import counted
    from tacit.query.query_folder import sample as sample_graph

    with bar() as progress:
        samples = sample_graph(
            loaded(graph, **reading), out, shapes=shapes, templates=template or (), split=split, count=count,
            max_answers=max_answers, seed=seed, waste=waste, missing=missing, force=force, progress=progress,
        )  # fmt: skip
    _print(samples.values())
    sizes = [len(drawn.queries) for drawn in samples.values() if len(drawn.queries)]
    say(f"wrote {sum(sizes):,} {split} queries of {counted(len(sizes), 'shape')} and the graph to {out}")


def _print(samples: Collection[Sample]) -> None:
    """A line per shape, and why a sample is smaller than asked for."""
    width = max(len("shape"), *(len(drawn.queries.name) for drawn in samples))
    say(f"{'shape':{width}}  queries    tries   good    easy    hard")
    for drawn in samples:
        queries = drawn.queries
        easy, hard = (part.counts.mean() if len(part) else 0.0 for part in (queries.easy, queries.hard))
        numbers = f"{len(queries):7,}  {drawn.tries:7,}  {drawn.share:5.1%}  {easy:6.1f}  {hard:6.1f}"
        say(f"{queries.name:{width}}  {numbers}")
    for drawn in samples:
        if not drawn.complete:
            say(f"note: fewer than asked for: {drawn}", err=True)
