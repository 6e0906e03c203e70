"""Train, valid and test splits without leakage between them."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from tacit.errors import SettingsError
from tacit.graph.attributes import Attributes
from tacit.graph.builder import counted
from tacit.graph.fact_index import Ints, paired
from tacit.graph.graph import Graph, Triples
from tacit.graph.statistics import redundancies


def split(graph: Graph, valid: float = 0.1, test: float = 0.1, seed: int = 0) -> Graph:
    """Draws splits of the same facts and values; `tacit.split` documents them."""
    for name, share in (("valid", valid), ("test", test)):
        if not isinstance(share, int | float):
            raise SettingsError(f"{name} is {share!r}; it must be a number", name)
    if not (valid >= 0 and test >= 0 and valid + test < 1):  # also refuses NaN
        raise SettingsError(
            f"valid {valid:g} and test {test:g} must be shares that leave something to train on"
        )
    if seed < 0:
        raise SettingsError(f"seed is {seed}; it must be 0 or more", "seed")
    facts = graph.facts()
    groups = _groups(graph)
    num_groups = int(groups.max()) + 1 if len(groups) else 0
    rng = np.random.default_rng(seed)
    free = np.ones(num_groups, dtype=bool)
    free[groups[_cover(facts, rng.permutation(len(facts)))]] = False
    sizes = np.bincount(groups, minlength=num_groups)
    held_out_order = rng.permutation(num_groups)
    held_out_order = held_out_order[free[held_out_order]]
    num_held_out = np.cumsum(sizes[held_out_order])
    part = np.zeros(num_groups, dtype=np.int8)
    part[held_out_order[num_held_out <= round((valid + test) * len(facts))]] = 1
    part[held_out_order[num_held_out <= round(test * len(facts))]] = 2
    rows = part[groups]
    train, middle, last = (np.ascontiguousarray(facts[rows == i]) for i in range(3))
    notes = tuple(
        f"{name}: {counted(size, 'fact')} where {target:,} were asked for; the others are needed "
        "to keep every entity in train or go together"
        for name, size, target in (
            ("valid", len(middle), round(valid * len(facts))),
            ("test", len(last), round(test * len(facts))),
        )
        if size < 0.9 * target
    )
    attributes = _split_values(graph, valid, test, seed)
    return replace(graph, train=train, valid=middle, test=last, notes=notes, attributes=attributes)


def _split_values(graph: Graph, valid: float, test: float, seed: int) -> Attributes:
    """Draws splits of the values, attribute by attribute; those of an entity stay together.

    An entity without facts keeps the values of an attribute in train, where others have facts.
    """
    rows = graph.attributes.rows.copy()
    rng = np.random.default_rng([seed, len(rows)])  # facts are drawn as they are without values
    has_facts = np.full(graph.num_entities, not len(graph.facts()))
    has_facts[graph.facts()[:, [0, 2]]] = True
    order = rng.permutation(len(rows))
    first = order[np.unique(rows["entity"][order], return_index=True)[1]]
    first = first[~has_facts[rows["entity"][first]]]
    rows["split"] = 0
    for attribute in range(len(graph.attributes.listed)):
        at = np.flatnonzero(rows["attribute"] == attribute)
        holders, of_row, sizes = np.unique(
            rows["entity"][at], return_inverse=True, return_counts=True
        )
        free = ~np.isin(holders, rows["entity"][first[rows["attribute"][first] == attribute]])
        drawn = rng.permutation(len(holders))
        drawn = drawn[free[drawn]]
        held_out = np.cumsum(sizes[drawn])
        part = np.zeros(len(holders), dtype=np.uint8)
        part[drawn[held_out <= round((valid + test) * len(at))]] = 1
        part[drawn[held_out <= round(test * len(at))]] = 2
        rows["split"][at] = part[of_row]
    return Attributes.of_sorted(graph.attributes.listed, rows, graph.attributes.readable)


def _groups(graph: Graph) -> Ints:
    """The group of each fact: its unordered pair of entities and kind of relation."""
    facts = graph.facts()
    kinds = np.arange(graph.num_relations)
    for relation, other in redundancies(graph):
        first, second = sorted((kinds[relation], kinds[other & ~1]))
        kinds[kinds == second] = first
    low = facts[:, [0, 2]].min(axis=1).astype(np.int64)
    high = facts[:, [0, 2]].max(axis=1)
    keys = paired(low * graph.num_entities + high, kinds[facts[:, 1]], graph.num_relations)
    groups: Ints = np.unique(keys, return_inverse=True)[1]
    return groups


def _cover(facts: Triples, order: Ints) -> Ints:
    """The first fact, in an order, of every entity and relation; these stay in train."""
    mixed = facts[order]
    _, entities = np.unique(mixed[:, [0, 2]], return_index=True)  # indexes of heads and tails
    _, relations = np.unique(mixed[:, 1], return_index=True)
    first: Ints = order[np.concatenate([entities // 2, relations])]
    return first
