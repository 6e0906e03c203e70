"""`tacit index`: the index of a large graph."""

from __future__ import annotations

from typing import Annotated

from typer import Option

from tacit.cli import options
from tacit.cli.terminal import say


def index(
    source: Annotated[str, options.run_argument("The run whose weights to index.")],
    nlist: Annotated[
        int | None, Option(help="Clusters; four times the root of the entities by default.")
    ] = None,
    seed: Annotated[int, Option(help="Decides the clusters.")] = 0,
) -> None:
    """Build the index by which graphs of more than 200,000 entities are asked."""
    from tacit.links.index import WORTH
    from tacit.run.run import open as open_run
    from tacit.run.world import find_run

    find_run(source)  # facts alone have no vectors
    run = open_run(source, device="cpu")
    built = run.index(nlist=nlist, seed=seed)
    clusters = f"{built['entities']:,} entities in {built['nlist']:,} clusters"
    size = f"{built['bytes'] / 1e6:,.1f} MB"
    say(f"{run.folder.path}: {clusters}, {size}, built in {built['seconds']:.1f} s")
    if built["entities"] <= WORTH:
        say(
            f"Up to {WORTH:,} entities exact search is faster, and stays the default; --candidates "
            "index asks through the index all the same."
        )
