"""`tacit data`: graphs one can point Tacit at."""

from __future__ import annotations

import typer

app = typer.Typer(help="List, describe and write graphs.", no_args_is_help=True, rich_markup_mode=None)


@app.command("list")
def list_() -> None:
    """List the graphs that come with Tacit."""
    typer.echo("world")


@app.callback()
def group() -> None:
    """List, describe and write graphs."""
