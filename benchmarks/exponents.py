"""Exponents of growth, fitted to measurements, with the goals missed and the figure.

A step that takes `a·x^b` is a straight line where both axes are logarithmic; `b`, its exponent, is
the slope of the line by least squares. It is held against the exponent of what was counted in the
same run, such as rows.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import cycle
from typing import TYPE_CHECKING

import numpy as np

from tacit.evaluate.figures import COLOURS, finish

if TYPE_CHECKING:
    from matplotlib.figure import Figure

TOLERANCE = 0.15  # of an exponent: caches that no longer hold a table, and what else a clock sees
LAST = 3  # sizes
WIDTH = 4  # panels in a row


@dataclass(frozen=True)
class Fit:
    """`a·x^exponent` with the exponent's standard error and the range of x it was fitted to."""

    exponent: float
    error: float
    least: float
    most: float


@dataclass(frozen=True)
class Growth:
    """Figures measured at several sizes.

    The column `counted` holds the work of each size. A column in `linear` may grow as the size
    does, even where the work grows less.
    """

    part: str
    name: str
    size: str  # what x is
    points: Mapping[int, Mapping[str, float]]
    shown: str = "ms"
    counted: str | None = "rows"
    linear: Sequence[str] = ()

    @property
    def columns(self) -> list[str]:
        """The columns that take time or memory."""
        return [
            name
            for name in next(iter(self.points.values()))
            if name.split()[-1] in ("ms", "s", "MB")
        ]

    def fit(self, column: str, last: int = 0) -> Fit:
        """How a column grows, over all sizes or the last few."""
        return fit(
            list(self.points)[-last:], [point[column] for point in self.points.values()][-last:]
        )

    def allowed(self, column: str, last: int = 0) -> Fit:
        """The fastest growth a column may have: that of the work, or of the size if linear."""
        sizes = list(self.points)[-last:]
        may = [fit(sizes, sizes if column in self.linear else [1.0] * len(sizes))]
        may += [self.fit(self.counted, last)] if self.counted else []
        return max(may, key=lambda one: one.exponent)

    def faster(self) -> list[str]:
        """The columns that grow faster than they may, by more than their errors and the tolerance.

        The last sizes are looked at by themselves, too: there, what is fixed no longer hides what
        grows. So few of them are allowed twice the tolerance.
        """
        said = []
        for column in self.columns:
            for last, tolerance in ((0, TOLERANCE), (LAST, 2 * TOLERANCE)):
                found = self.fit(column, last)
                may = self.allowed(column, last)
                if found.exponent - found.error > may.exponent + may.error + tolerance:
                    said.append(
                        f"{self.part}, {self.name}: {column} grow as "
                        f"{self.size}^{found.exponent:.2f} from {found.least:,} on, where "
                        f"{may.exponent:.2f} is allowed"
                    )
                    break
        return said

    def figures(self) -> dict[str, dict[str, float]]:
        """A row for every size, one with the exponents, and one with their errors."""
        rows = {
            f"{self.part}, {self.name}, {size:,}": dict(point)
            for size, point in self.points.items()
        }
        fits = {
            column: self.fit(column)
            for column in [*self.columns, *([self.counted] if self.counted else [])]
        }
        over = f"{self.part}, {self.name}, {min(self.points):,} to {max(self.points):,}"
        return rows | {
            f"{over}, exponents": {column: found.exponent for column, found in fits.items()},
            f"{over}, their errors": {column: found.error for column, found in fits.items()},
        }


def fit(sizes: Sequence[float], values: Sequence[float]) -> Fit:
    """The power of the sizes that fits the values best, by least squares of their logarithms.

    >>> round(fit([1, 10, 100], [3, 300, 30_000]).exponent, 6)
    2.0
    """
    x = np.log(np.asarray(sizes, dtype=float))
    y = np.log(np.maximum(np.asarray(values, dtype=float), 1e-9))
    across = x - x.mean()
    exponent = float(across @ y / (across @ across))
    left = y - y.mean() - exponent * across
    error = float(np.sqrt(left @ left / max(1, len(x) - 2) / (across @ across)))
    return Fit(exponent, error, min(sizes), max(sizes))


def draw(measured: Sequence[Growth]) -> Figure:
    """A panel for every part, both axes logarithmic, exponents in the legends."""
    from matplotlib.figure import Figure
    from matplotlib.ticker import NullFormatter

    parts = list(dict.fromkeys(each.part for each in measured))
    deep = -(-len(parts) // WIDTH)
    figure = Figure(figsize=(3.4 * min(WIDTH, len(parts)), 3.2 * deep), layout="constrained")
    panels = figure.subplots(deep, min(WIDTH, len(parts)), squeeze=False).flat
    for part, axes in zip(parts, panels, strict=False):
        lines = [each for each in measured if each.part == part]
        for each, colour in zip(lines, cycle(COLOURS), strict=False):
            values = [point[each.shown] for point in each.points.values()]
            label = f"{each.name}: {each.fit(each.shown).exponent:.2f}"
            axes.loglog(
                list(each.points), values, color=colour, marker="o", markersize=3, label=label
            )
        low, high = axes.get_ylim()
        # what is flat looks flat
        axes.set_ylim(10.0 ** np.floor(np.log10(low)), 10.0 ** np.ceil(np.log10(high)))
        for axis in (axes.xaxis, axes.yaxis):
            axis.set_minor_formatter(NullFormatter())
        finish(
            axes,
            lines[0].size,
            lines[0].shown,
            part if part != lines[0].size else "",
            min(6, len(lines)),
        )
    for axes in list(panels):
        axes.set_axis_off()
    return figure
