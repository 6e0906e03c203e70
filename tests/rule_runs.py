"""Graphs whose rules and scores can be worked out by hand, and runs of them."""

from __future__ import annotations

from pathlib import Path

import torch

import tacit
from tacit.graph.graph import Graph
from tacit.links.models import make_model, save_model
from tacit.links.rules.rule_files import save_rules
from tacit.links.rules.rule_set import NONE, Rule, RuleSet
from tacit.run.run import Run
from tacit.run_folder.folder import RunFolder

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


BORDERS, SPEAKS, CONTINENT = 0, 2, 4
FACTS = [
    ("Portugal", "borders", "Spain"),
    ("Spain", "borders", "France"),
    ("France", "borders", "Belgium"),
    ("Belgium", "borders", "Luxembourg"),
    ("Portugal", "speaks", "Portuguese"),
    ("France", "speaks", "French"),
    ("Belgium", "speaks", "French"),
    ("Portugal", "in_continent", "Europe"),
    ("Spain", "in_continent", "Europe"),
    ("France", "in_continent", "Europe"),
]
GRAPH = Graph.of(FACTS, valid=[("Luxembourg", "speaks", "French")], name="neighbours")
MINED = [
    Rule((BORDERS, CONTINENT), CONTINENT, support=2, groundings=3, confidence=0.25),
    Rule((CONTINENT ^ 1, BORDERS ^ 1), CONTINENT ^ 1, support=2, groundings=3, confidence=0.25),
    Rule((SPEAKS,), CONTINENT, NONE, GRAPH.entities.id("Europe"), 2, 3, 0.5),
]


def of_rules(path: Path, graph: Graph = GRAPH, rules: list[Rule] = MINED) -> Run:
    """A run whose link predictor are a few rules."""
    folder = RunFolder.create(path, graph, {"model": "rules"})
    save_rules(folder, RuleSet.of(rules))
    return Run(RunFolder.open(path), device="cpu")


def of_vectors(path: Path) -> Run:
    """A run of random weights without rules."""
    folder = RunFolder.create(path, GRAPH, {"model": "complex", "rank": 2})
    torch.manual_seed(0)
    save_model(folder, make_model("complex", GRAPH.num_entities, GRAPH.num_relations, 2))
    return Run(RunFolder.open(path), device="cpu")
