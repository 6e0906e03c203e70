"""Options that several commands share, each with one name, one meaning and one help text."""

from __future__ import annotations

from typing import Annotated, Any

import typer

Search = Annotated[str | None, typer.Option("--search", help="beam, exact, continuous or symbolic.")]
K = Annotated[int | None, typer.Option("--k", help="Candidates a beam keeps for every variable.")]
Logic = Annotated[str | None, typer.Option("--logic", help="product, godel or lukasiewicz.")]
Negation = Annotated[str | None, typer.Option("--negation", help="standard or cosine.")]
Strength = Annotated[float | None, typer.Option("--strength", help="How strongly negation excludes.")]
Calibration = Annotated[
    str | None, typer.Option("--calibration", help="sigmoid, minmax or softmax-count, instead of the adapter.")
]
Observed = Annotated[
    str | None, typer.Option("--observed", help="Parts whose facts count as known: all, none, train+valid …")
]
Memory = Annotated[float | None, typer.Option("--memory", help="GB that a step may use.")]
Device = Annotated[str, typer.Option("--device", help="auto, cpu, cuda or cuda:N.")]


def given(**values: Any) -> dict[str, Any]:
    """The options that were given, by name."""
    return {name: value for name, value in values.items() if value is not None}
