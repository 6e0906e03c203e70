"""The figures of the paper and of reports, from plain arrays.

Every function returns a matplotlib `Figure` that belongs to no window and no global state; `save` writes it as PNG, SVG
or PDF. Colours are those of Okabe and Ito, which colour-blind people tell apart.
"""

from __future__ import annotations

import io
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import ArrayLike

from tacit.errors import DataError, SettingsError

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

COLOURS = ("#0072B2", "#E69F00", "#009E73", "#CC79A7", "#56B4E9", "#D55E00", "#000000")
MINIMUM = "minimum of both"


def score_distributions(
    first: ArrayLike, second: ArrayLike, names: Sequence[str] = ("first atom", "second atom"), title: str = ""
) -> Figure:
    """The distributions of the scores of two atoms and of their minimum, the conjunction under Gödel's t-norm.

    Where one atom scores high throughout, the minimum is the other atom alone: such atoms ask for adaptation.
    """
    first, second = np.asarray(first, dtype=float).ravel(), np.asarray(second, dtype=float).ravel()
    if first.shape != second.shape:
        raise SettingsError(f"{len(first)} scores of one atom cannot be paired with {len(second)} of the other")
    figure, axes = _new()
    drawn = dict(zip(names, (first, second), strict=True))
    _densities(axes, {**drawn, MINIMUM: np.minimum(first, second)})
    return _finished(figure, axes, "score", "share of the scores", title)


def adaptation(before: Mapping[str, ArrayLike], after: Mapping[str, ArrayLike], title: str = "") -> Figure:
    """The distributions of scores by name, such as relations, on the left before and on the right after adaptation."""
    if set(before) != set(after):
        raise SettingsError("the scores before and after adaptation must have the same names")
    figure, (left, right) = _new(columns=2, sharey=True)
    for axes, heading, scores in ((left, "before", before), (right, "after", {name: after[name] for name in before})):
        _densities(axes, scores)
        axes.set_title(heading, fontsize="medium")
        _finished(figure, axes, "score", "share of the scores" if axes is left else "")
    if title:
        figure.suptitle(title)
    return figure


def steps(
    curves: Mapping[str, tuple[ArrayLike, ArrayLike]],
    title: str = "",
    ylabel: str = "mean test MRR",
    xlabel: str = "step",
) -> Figure:
    """MRR or a loss over adaptation steps: a curve `(steps, values)` per name, such as 1 % and 100 % of the data."""
    figure, axes = _new()
    for (name, (x, y)), colour in zip(curves.items(), _colours(len(curves)), strict=True):
        axes.plot(np.asarray(x), np.asarray(y), color=colour, label=name, marker="o" if np.size(x) <= 20 else "")
    if len(curves) > 1:
        _legend(axes, len(curves))
    return _finished(figure, axes, xlabel, ylabel, title)


def bars(groups: Mapping[str, Mapping[str, float]], title: str = "", ylabel: str = "MRR, %") -> Figure:
    """Bars side by side: one group per shape, one bar per name of `groups` (`{"CQD^A, 1%": {"2p": 11.8, …}, …}`)."""
    columns = list(dict.fromkeys(column for values in groups.values() for column in values))
    figure, axes = _new(width=min(10.0, max(5.0, 0.3 * len(columns) * max(1, len(groups)))))
    width = 0.8 / max(1, len(groups))
    for i, ((name, values), colour) in enumerate(zip(groups.items(), _colours(len(groups)), strict=True)):
        places = [j + (i - (len(groups) - 1) / 2) * width for j, column in enumerate(columns) if column in values]
        axes.bar(places, [values[column] for column in columns if column in values], width, color=colour, label=name)
    axes.set_xticks(range(len(columns)), columns)
    _legend(axes, len(groups))
    return _finished(figure, axes, "", ylabel, title)


def reliability_diagram(curves: Mapping[str, Mapping[str, Any]], title: str = "") -> Figure:
    """The share that holds against the score, from `Reliability.to_json()` by name; the diagonal is honest."""
    figure, axes = _new(width=4.2 if len(curves) < 6 else 8.0, height=4.2)
    axes.plot([0, 1], [0, 1], color="0.6", linestyle="--", linewidth=1, label="scores are probabilities")
    for (name, found), colour in zip(curves.items(), _colours(len(curves)), strict=True):
        curve = found["curve"]
        label = f"{name} (calibration error {found['ece']:.3f})"
        axes.plot(curve["score"], curve["accuracy"], color=colour, marker="o", markersize=4, label=label)
    axes.set(xlim=(0, 1), ylim=(0, 1), aspect="equal")
    _legend(axes, len(curves) + 1)
    return _finished(figure, axes, "mean score", "share that holds", title)


def save(figure: Figure, path: str | Path) -> Path:
    """Write a figure; the ending of the name says as what."""
    path = Path(path)
    kinds = figure.canvas.get_supported_filetypes()
    if path.suffix.lower().lstrip(".") not in kinds:
        raise DataError(f"unknown kind of picture '{path.suffix}'; use .png, .svg or .pdf", path)
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        figure.savefig(path, dpi=160)
    except OSError as error:
        raise DataError(f"cannot be written ({error.strerror or error})", path) from None
    return path


def svg(figure: Figure) -> str:
    """A figure as SVG text that can stand inside an HTML page."""
    import matplotlib

    buffer = io.StringIO()
    # Without a fixed salt and date the same figure would be another text every time.
    with matplotlib.rc_context({"svg.hashsalt": "tacit"}):
        figure.savefig(buffer, format="svg", metadata={"Date": None})
    text = buffer.getvalue()
    return text[text.index("<svg") :]


def _new(width: float = 5.0, height: float = 3.2, columns: int = 1, sharey: bool = False) -> tuple[Figure, Any]:
    try:
        from matplotlib.figure import Figure
    except ImportError:
        raise SettingsError("figures need matplotlib; install it with: pip install 'tacit[plots]'") from None
    figure = Figure(figsize=(width * columns * (0.8 if columns > 1 else 1), height), layout="constrained")
    return figure, figure.subplots(1, columns, sharey=sharey)


def _densities(axes: Axes, scores: Mapping[str, ArrayLike]) -> None:
    """Histograms as outlines over shared bins, each adding up to 1."""
    values = {name: np.asarray(column, dtype=float).ravel() for name, column in scores.items()}
    finite = np.concatenate([column[np.isfinite(column)] for column in values.values()] or [np.zeros(1)])
    if not len(finite):
        raise SettingsError("there are no finite scores to draw")
    edges = np.histogram_bin_edges(finite, bins=40)
    for (name, column), colour in zip(values.items(), _colours(len(values)), strict=True):
        counts, _ = np.histogram(column[np.isfinite(column)], edges)
        shares = counts / max(1, counts.sum())
        if name == MINIMUM:  # often covers one of the others: an outline lets that one show through
            axes.stairs(shares, edges, color="black", linestyle="--", label=name)
            continue
        axes.stairs(shares, edges, color=colour, fill=True, alpha=0.25)
        axes.stairs(shares, edges, color=colour, label=name)
    _legend(axes, len(values))


def _colours(count: int) -> list[str]:
    return [COLOURS[i % len(COLOURS)] for i in range(count)]


def _legend(axes: Axes, entries: int) -> None:
    if entries > 6:  # too many to stand inside the axes
        axes.legend(frameon=False, fontsize="small", loc="upper left", bbox_to_anchor=(1.0, 1.0))
    elif entries:
        axes.legend(frameon=False, fontsize="small")


def _finished(figure: Figure, axes: Axes, xlabel: str, ylabel: str, title: str = "") -> Figure:
    axes.set_xlabel(xlabel)
    axes.set_ylabel(ylabel)
    axes.spines[["top", "right"]].set_visible(False)
    if title:
        axes.set_title(title)
    return figure
