"""The figures of reports, from plain arrays.

Every function returns a matplotlib `Figure` that belongs to no window and no global state. Colours
are those of Okabe and Ito, which colour-blind people tell apart.
"""

from __future__ import annotations

import io
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import ArrayLike

from tacit.errors import SettingsError

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

COLOURS = ("#0072B2", "#E69F00", "#009E73", "#CC79A7", "#56B4E9", "#D55E00", "#000000")


def steps(
    curves: Mapping[str, tuple[ArrayLike, ArrayLike]], ylabel: str, xlabel: str = "step"
) -> Figure:
    """MRR or a loss over steps or epochs: a curve `(steps, values)` per name."""
    figure, axes = blank()
    for name, (x, y) in curves.items():
        axes.plot(x, y, label=name, marker="o" if np.size(x) <= 20 else "")
    finish(axes, xlabel, ylabel, entries=len(curves) if len(curves) > 1 else 0)
    return figure


def reliability_diagram(curves: Mapping[str, Mapping[str, Any]]) -> Figure:
    """The share that holds by score, from `Reliability.to_json()` by name.

    On the diagonal, scores are probabilities.
    """
    figure, axes = blank(width=4.2 if len(curves) < 6 else 8.0, height=4.2)
    axes.plot(
        [0, 1], [0, 1], color="0.6", linestyle="--", linewidth=1, label="scores are probabilities"
    )
    for name, reliability in curves.items():
        curve = reliability["curve"]
        label = f"{name} (calibration error {reliability['ece']:.3f})"
        axes.plot(curve["score"], curve["accuracy"], marker="o", markersize=4, label=label)
    axes.set(xlim=(0, 1), ylim=(0, 1), aspect="equal")
    finish(axes, "mean score", "share that holds", entries=len(curves) + 1)
    return figure


def svg(figure: Figure) -> str:
    """A figure as SVG text that can stand inside an HTML page."""
    import matplotlib

    buffer = io.StringIO()
    # Without a fixed salt and date the same figure would be another text every time.
    with matplotlib.rc_context({"svg.hashsalt": "tacit"}):
        figure.savefig(buffer, format="svg", metadata={"Date": None})
    text = buffer.getvalue()
    return text[text.index("<svg") :]


def blank(width: float = 5.0, height: float = 3.2, columns: int = 1) -> tuple[Figure, Any]:
    """An empty figure and its axes; several side by side share their vertical axis."""
    try:
        from matplotlib.figure import Figure
    except ImportError:
        raise SettingsError(
            "figures need matplotlib; install it with: pip install 'tacit-kg[plots]'"
        ) from None
    figure = Figure(figsize=(width, height), layout="constrained")
    every = figure.subplots(1, columns, sharey=True)
    for axes in np.ravel(every):
        axes.set_prop_cycle(color=COLOURS)
    return figure, every


def finish(axes: Axes, xlabel: str, ylabel: str, title: str = "", entries: int = 0) -> None:
    """Set labels, title and legend of the axes."""
    axes.set_xlabel(xlabel)
    axes.set_ylabel(ylabel)
    axes.spines[["top", "right"]].set_visible(False)
    if title:
        axes.set_title(title, fontsize="medium")
    if entries > 6:  # too many to stand inside the axes
        axes.legend(frameon=False, fontsize="small", loc="upper left", bbox_to_anchor=(1.0, 1.0))
    elif entries:
        axes.legend(frameon=False, fontsize="small")
