"""Graphs whose entities have values that their neighbours tell something of."""

from __future__ import annotations

import numpy as np

from tacit.graph.attributes import Attribute, Attributes
from tacit.graph.graph import SPLITS, Graph
from tacit.graph.quantities import Quantity

Triples = list[tuple[str, str, str]]


def with_values(facts: Triples, values: dict[str, dict[str, tuple[float, str]]]) -> Graph:
    """A graph with the values of attributes, by attribute and entity, each with its split."""
    graph = Graph.of(facts, name="places")
    rows = [
        (graph.entities.id(entity), number, Quantity(value), SPLITS.index(split))
        for number, held in enumerate(values.values())
        for entity, (value, split) in held.items()
    ]
    attributes = Attributes.of([Attribute(name) for name in values], rows)
    return Graph(
        graph.entities, graph.relations, graph.train, name=graph.name, attributes=attributes
    )


def places(
    number: int = 300, seed: int = 0, shares: tuple[float, ...] = (0.6, 0.15, 0.15)
) -> Graph:
    """Towns at a latitude, next to the nearest ones and in a district, and languages without.

    The people of a town are many orders of magnitude apart, and more where it has more districts.
    """
    draw = np.random.default_rng(seed)
    at = draw.uniform(-60, 60, number)
    facts: Triples = []
    for town in range(number):
        near = np.argsort(np.abs(at - at[town]))[1:4]
        facts += [(f"t{town}", "near", f"t{other}") for other in near]
        facts.append((f"t{town}", "in", f"d{int(at[town] // 10)}"))
        facts.append((f"t{town}", "speaks", f"l{draw.integers(12)}"))
        size = draw.integers(1, 4)
        facts.append((f"t{town}", "is", f"size{size}"))
        at_size = 10 ** (2.0 * size + draw.normal(0, 0.3))
        facts.append((f"t{town}", "people", f"{at_size}"))
    people = {head: float(tail) for head, relation, tail in facts if relation == "people"}
    facts = [fact for fact in facts if fact[1] != "people"]
    draws = draw.uniform(size=(2, number))
    values: dict[str, dict[str, tuple[float, str]]] = {"latitude": {}, "people": {}}
    for town in range(number):
        for row, (name, value) in enumerate(
            (("latitude", float(at[town])), ("people", people[f"t{town}"]))
        ):
            place = int(np.searchsorted(np.cumsum(shares), draws[row, town]))
            if place < len(SPLITS):
                values[name][f"t{town}"] = value, SPLITS[place]
    return with_values(facts, values)


def write_places(path: str, graph: Graph) -> None:
    """The training facts and values of such a graph as a table."""
    attributes = graph.attributes
    with open(path, "w", encoding="utf-8") as file:  # noqa: PTH123
        for head, relation, tail in graph.train:
            labels = graph.entities[head], graph.relations[relation], graph.entities[tail]
            file.write("\t".join(labels) + "\n")
        for row in attributes.rows:
            listed = attributes.listed[row["attribute"]]
            file.write(f"{graph.entities[row['entity']]}\t{listed.name}\t{float(row['value'])!r}\n")
