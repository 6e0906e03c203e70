"""Closed rules of one or two atoms: `p(x, y) => r(x, y)` and `p(x, z), q(z, y) => r(x, y)`.

A rule read backwards is one for the inverse relation with the same counts, so that only half of
them are counted: those for forward relations, and bodies that come before their own reversal.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import NamedTuple

import numpy as np

from tacit.graph.fact_index import Flags, Ints, distinct, spread
from tacit.links.rules.loopless_facts import LooplessFacts, chunks, counted, summed
from tacit.links.rules.rule_set import PRIOR

LEAST_SUPPORT = 2
LEAST_CONFIDENCE = 0.01
MOST_PAIRS = 2**24  # paths that the groundings of a body are counted from; beyond, from a sample


class Bodies(NamedTuple):
    """Bodies `p(x, z), q(z, y)` by code `p · R + q`, and what is known of their groundings."""

    codes: Ints  # sorted
    paths: Ints  # the number of groundings of x, z and y
    least: Ints  # distinct pairs (x, y) at least

    def plausible(self, codes: Ints, support: Ints) -> Flags:
        """Whether a rule with a body and support may reach the least confidence."""
        least = self.least[np.searchsorted(self.codes, codes)]
        return (support >= LEAST_SUPPORT) & (least * LEAST_CONFIDENCE <= support)


class Closed(NamedTuple):
    """Closed rules of forward relations, as columns."""

    body: Ints  # a relation, or the code of two
    relation: Ints
    support: Ints
    groundings: Ints
    sampled: Flags


def single_atoms(facts: LooplessFacts) -> Closed:
    """All rules of one atom for forward relations."""
    size = facts.num_relations
    pairs = facts.pairs
    codes: list[Ints] = []
    counts: list[Ints] = []
    widths = np.diff(pairs.offsets)
    for part in chunks(widths**2):
        low, high = pairs.offsets[part.start], pairs.offsets[part.stop]
        of = np.repeat(np.arange(part.start, part.stop), widths[part])
        row, place = spread(pairs.offsets[of], pairs.offsets[of + 1])
        body = pairs.relations[low:high].astype(np.int64)[row]
        head = pairs.relations[place]
        forward = (body != head) & (head % 2 == 0)
        found = counted(body[forward] * size + head[forward])
        codes.append(found[0])
        counts.append(found[1])
    code, support = summed(np.concatenate([*codes, []]).astype(np.int64), np.concatenate([*counts, []]))
    body, relation = np.divmod(code, size)
    groundings = np.bincount(facts.relations, minlength=size)[body]
    return confident(Closed(body, relation, support, groundings, np.zeros(len(code), dtype=bool)))


def confident(rules: Closed) -> Closed:
    """The rules with enough support and confidence."""
    enough = rules.support >= LEAST_CONFIDENCE * (rules.groundings + PRIOR)
    enough &= rules.support >= LEAST_SUPPORT
    return Closed(*(column[enough] for column in rules))


def bodies(facts: LooplessFacts) -> Bodies:
    """All bodies of two atoms that hold somewhere."""
    index = facts.index
    size = index.num_relations
    tails = np.diff(index.offsets)
    keys = np.searchsorted(index.keys, np.arange(facts.num_entities + 1) * size)
    relations = index.relations
    starts, ends = keys[index.heads], keys[index.heads + 1]
    found: list[tuple[Ints, Ints, Ints]] = []
    for part in chunks(ends - starts):
        row, there = spread(starts[part], ends[part])
        row += part.start
        codes = (relations[row] ^ 1) * size + relations[there]
        paths = tails[row] * tails[there]
        order = np.argsort(codes, kind="stable")
        codes = codes[order]
        first = np.flatnonzero(np.diff(codes, prepend=-1))
        # no more of the pairs through one z than the smaller of its sides have x = y
        least = paths - np.minimum(tails[row], tails[there])
        found.append(
            (
                codes[first],
                np.add.reduceat(paths[order], first),
                np.maximum.reduceat(least[order], first),
            )
        )
    if not found:
        return Bodies(*(np.zeros(0, dtype=np.int64) for _ in range(3)))
    columns = [np.concatenate(column) for column in zip(*found, strict=True)]
    codes, paths = summed(columns[0], columns[1])
    least = np.zeros(len(codes), dtype=np.int64)
    np.maximum.at(least, np.searchsorted(codes, columns[0]), columns[2])
    return Bodies(codes, paths, least)


def supports(facts: LooplessFacts, places: Ints) -> tuple[Ints, Ints]:
    """The bodies of two atoms that lead from head to tail of some facts, and of how many."""
    pairs = facts.pairs
    size = facts.num_relations
    widths = np.diff(pairs.offsets)
    found: list[tuple[Ints, Ints]] = []
    for row, out, onwards in _triangles(facts, places):
        ways = widths[out] * widths[onwards]
        ends = np.cumsum(np.append(0, ways))
        stops = np.searchsorted(row, np.arange(row[-1] + 2)) if len(row) else np.zeros(1, np.int64)
        for part in chunks(np.diff(ends[stops])):  # those of one fact together
            span = slice(stops[part.start], stops[part.stop])
            of, way = spread(np.zeros(span.stop - span.start, dtype=np.int64), ways[span])
            of += span.start
            first, second = np.divmod(way, widths[onwards[of]])
            body = pairs.relations[pairs.offsets[out[of]] + first].astype(np.int64) * size
            body += pairs.relations[pairs.offsets[onwards[of]] + second]
            found.append(counted(distinct(row[of] * size**2 + body) % size**2))
    if not found:
        return np.zeros(0, dtype=np.int64), np.zeros(0, dtype=np.int64)
    return summed(*(np.concatenate(column) for column in zip(*found, strict=True)))


def _triangles(facts: LooplessFacts, places: Ints) -> Iterator[tuple[Ints, Ints, Ints]]:
    """Chunks of all z between the ends of facts: the fact's row, the pairs (x, z) and (z, y)."""
    pairs = facts.pairs
    first, second = facts.heads_of(places), facts.index.all_tails[places].astype(np.int64)
    degrees = np.diff(pairs.starts)
    # the neighbours of the end that has fewer are looked up at the other
    turned = degrees[second] < degrees[first]
    near, far = np.where(turned, second, first), np.where(turned, first, second)
    for part in chunks(degrees[near]):
        row, beside = spread(pairs.starts[near[part]], pairs.starts[near[part] + 1])
        keys = far[part][row] * facts.num_entities + pairs.second[beside]
        at = np.minimum(np.searchsorted(pairs.codes, keys), len(pairs.codes) - 1)
        hit = pairs.codes[at] == keys
        row, beside, at = row[hit], beside[hit], at[hit]
        back = turned[part][row]
        yield row, np.where(back, at, beside), pairs.reverse[np.where(back, beside, at)]


def mirrored(codes: Ints, size: int) -> Ints:
    """The bodies read backwards."""
    first, second = np.divmod(codes, size)
    return (second ^ 1) * size + (first ^ 1)


def groundings(
    facts: LooplessFacts, known: Bodies, wanted: Ints, random: np.random.Generator
) -> tuple[Ints, Flags]:
    """The numbers of distinct pairs (x, y) that bodies hold for, and which are estimates."""
    size = facts.num_relations
    counts = np.zeros(len(wanted), dtype=np.int64)
    sampled = known.paths[np.searchsorted(known.codes, wanted)] > MOST_PAIRS
    first, second = np.divmod(wanted, size)
    starts = np.searchsorted(first, np.arange(size + 1))
    for relation in np.flatnonzero(np.diff(starts)).tolist():
        span = np.arange(starts[relation], starts[relation + 1])
        exact = span[~sampled[span]]
        if len(exact):
            counts[exact] = _reached(facts, relation, second[exact], None)
        for place in span[sampled[span]].tolist():
            counts[place] = _reached(facts, relation, second[[place]], random)[0]
    return counts, sampled


def _reached(
    facts: LooplessFacts, relation: int, onwards: Ints, random: np.random.Generator | None
) -> Ints:
    """The numbers of distinct pairs (x, y) of bodies that begin alike, maybe estimated."""
    places = facts.facts_of(relation)
    heads, middles = facts.heads_of(places), facts.index.all_tails[places]
    rank = np.full(facts.num_relations, -1)
    rank[onwards] = np.arange(len(onwards))
    # the facts that lead on from each z
    between, which = np.unique(middles, return_inverse=True)
    row, place = spread(facts.starts[between], facts.starts[between + 1])
    kind = rank[facts.relations[place]]
    row, kind, ends = row[kind >= 0], kind[kind >= 0], facts.index.all_tails[place[kind >= 0]]
    starts = np.searchsorted(row, np.arange(len(between) + 1))
    firsts = np.flatnonzero(np.diff(heads, prepend=-1, append=-1))  # of each x
    ways = np.add.reduceat(np.diff(starts)[which], firsts[:-1])
    order = np.arange(len(ways))
    if random is not None:
        order = random.permutation(order)
        order = order[: max(1, int(np.searchsorted(np.cumsum(ways[order]), MOST_PAIRS)))]
    counts = np.zeros(len(onwards), dtype=np.int64)
    for part in chunks(ways[order]):
        chosen = order[part]
        x, fact = spread(firsts[chosen], firsts[chosen + 1])
        row, place = spread(starts[which[fact]], starts[which[fact] + 1])
        keys = (kind[place] * len(chosen) + x[row]) * facts.num_entities + ends[place]
        keys = keys[ends[place] != heads[fact][row]]
        counts += np.bincount(
            distinct(keys) // (len(chosen) * facts.num_entities), minlength=len(onwards)
        )
    return counts if random is None else np.round(counts * (len(ways) / len(order))).astype(np.int64)


def double_atoms(
    facts: LooplessFacts, random: np.random.Generator, tell: Callable[[int], None]
) -> Closed:
    """All rules of two atoms for forward relations."""
    size = facts.num_relations
    known = bodies(facts)
    found: list[tuple[Ints, Ints, Ints]] = []
    for relation in range(0, size, 2):
        codes, support = supports(facts, facts.facts_of(relation))
        few = known.plausible(codes, support)
        found.append((codes[few], np.full(few.sum(), relation), support[few]))
        tell(relation // 2 + 1)
    codes, relations, support = (
        np.concatenate(column).astype(np.int64) for column in zip(*found, strict=True)
    )
    wanted = np.minimum(codes, mirrored(codes, size))
    counted_bodies = distinct(wanted)
    number, estimated = groundings(facts, known, counted_bodies, random)
    at = np.searchsorted(counted_bodies, wanted)
    number = np.maximum(number[at], support)
    return confident(Closed(codes, relations, support, number, estimated[at]))
