"""`tacit import`: a link predictor trained elsewhere, as a run."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import typer

from tacit.cli import options, shell_completion
from tacit.cli.data import check_unread, loaded
from tacit.cli.terminal import say
from tacit.graph.settings import ReadSettings


@options.of_settings(ReadSettings, "reading")
def import_(
    source: Annotated[Path, typer.Argument(help="A .pt checkpoint of kbc or CQD, or a PyKEEN directory.")],
    out: Annotated[Path, typer.Option("--out", help="The run folder to make.")],
    reading: dict[str, Any],
    graph: Annotated[
        str | None, typer.Option("--graph", help="The graph it was trained on; a PyKEEN directory has its own.")
    ] = None,
    reciprocal: Annotated[
        str,
        typer.Option(
            "--reciprocal",
            metavar="interleaved|stacked",
            autocompletion=shell_completion.choice(("interleaved", "stacked")),
            help="Where a checkpoint keeps inverse relations.",
        ),
    ] = "interleaved",
    trust_pickle: Annotated[
        bool, typer.Option("--trust-pickle", help="Open PyKEEN's pickle, which can run any code.")
    ] = False,
    force: Annotated[bool, typer.Option("--force", help="Replace the run in the folder.")] = False,
) -> None:
    """Import a link predictor that was trained with kbc, CQD or PyKEEN."""
    from tacit.run.training import import_model

    if graph is None:
        check_unread(reading, "no graph is given")
    facts = None if graph is None else loaded(graph, **reading)
    run = import_model(source, out, facts, reciprocal=reciprocal, trust_pickle=trust_pickle, force=force)
    about = run.settings["train"]
    say(f"{out}: {about['model']} of rank {about['rank']} for {run.folder.graph()}")
