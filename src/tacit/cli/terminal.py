"""What commands print for people."""

from __future__ import annotations

import typer

from tacit.engine.answers.aligned_cells import harmless


def say(line: str, err: bool = False) -> None:
    """Print a line for people, labels of others in it made harmless; with `err`, on standard error."""
    typer.echo(harmless(line), err=err)
