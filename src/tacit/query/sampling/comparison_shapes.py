"""Shapes with a comparison, whose attributes and ranges are those of a graph."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

import numpy as np

from tacit.errors import SettingsError
from tacit.graph.graph import Graph
from tacit.query.comparison import Value
from tacit.query.formula import Not, Query, Variable
from tacit.query.sampling.shapes import STRUCTURES, Shape, template

# a comparison beside: one hop, two hops, and one hop where it must not hold
COMPARISON_SHAPES = {"2ia": "1p", "pa": "2p", "ina": "1p"}
_TARGET = Variable("t")  # of `template`
LEAST_VALUES = 8  # of an attribute in training, to take a range from


def take_comparison_shapes(names: str | Iterable[str] | None) -> tuple[list[str], list[str]]:
    """The names of shapes with a comparison among some names, and the others."""
    words = names.replace(".", ",").split(",") if isinstance(names, str) and names else names or ()
    stripped = [word.strip() if isinstance(word, str) else word for word in words]
    own = [word for word in stripped if word in COMPARISON_SHAPES]
    return own, [word for word in stripped if word not in COMPARISON_SHAPES]


def check_unwritten(name: str, options: Mapping[str, object]) -> None:
    """Raises a `SettingsError` for options that questions with comparisons cannot have."""
    for option, value in options.items():
        if value is not None:
            raise SettingsError(
                f"{option} is given, and questions with comparisons, as of {name}, are neither "
                "written as BetaE tuples nor counted by missing links; sample them in Python "
                "without it",
                option,
            )


def comparison_shapes(graph: Graph, names: Iterable[str]) -> dict[str, Shape]:
    """Shapes with each attribute above and below the median of its training values.

    A plan holds its comparison, so that each is a shape of its own, such as `2ia population > 5`.
    """
    shapes = {}
    for name in names:
        for attribute, listed in enumerate(graph.attributes.listed):
            rows = graph.attributes.rows
            rows = rows[(rows["attribute"] == attribute) & (rows["split"] == 0)]
            if len(rows) < LEAST_VALUES:
                continue
            middle = np.argsort(rows["value"], kind="stable")[len(rows) // 2]
            median = graph.attributes.quantity(rows[middle])
            value = Value(listed.name, _TARGET)
            for compared in (value > median, value <= median):
                query = template(STRUCTURES[COMPARISON_SHAPES[name]])
                part = Not(compared) if name == "ina" else compared
                title = f"{name} {compared}".replace(f"({_TARGET})", "")
                shapes[title] = Shape.of(title, Query(_TARGET, query.formula & part))
    return shapes
