"""A graph whose rules and scores can be worked out by hand, and a run of them."""

from __future__ import annotations

from pathlib import Path

import tacit
from tacit.graph.graph import Graph

# Of six cities in a country, five are its capital: 5 / (6 + 5) by the only rule of `capital_of`,
# and a prediction of 1 is worth a known fact.
LINKS = [(f"c{i}", "city_in", f"k{i}") for i in range(6)]
CAPITALS = [(f"c{i}", "capital_of", f"k{i}") for i in range(5)]
SCORE = 5 / 11 * (1 - 2**-10)


def cities() -> Graph:
    """Six cities in six countries, five of which are capitals."""
    return Graph.of([*LINKS, *CAPITALS], name="cities")


def rule_run(path: Path) -> tacit.Run:
    """A run of the rules of cities."""
    return tacit.train(cities(), path, model="rules", progress=False)


def write_cities(path: Path) -> Path:
    """The facts of cities as a file."""
    path.write_text("".join("\t".join(fact) + "\n" for fact in (*LINKS, *CAPITALS)))
    return path
