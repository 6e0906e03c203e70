"""Closed rules of one or two atoms: `p(x, y) => r(x, y)` and `p(x, z), q(z, y) => r(x, y)`.

A rule read backwards is one for the inverse relation with the same counts, so that only half of
them are counted: those for forward relations, and bodies that come before their own reversal.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

import numpy as np

from tacit.graph.fact_index import Flags, Ints, distinct, spread
from tacit.links.rules.loopless_facts import LooplessFacts, chunks, counted, summed
from tacit.links.rules.rule_set import PRIOR

LEAST_SUPPORT = 2
LEAST_CONFIDENCE = 0.001  # what is improbable still orders the tails that nothing else speaks for
MOST_LOOKUPS = 2**26  # of neighbours, to find the bodies for a relation; beyond, from a sample
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
    found: list[tuple[Ints, Ints]] = [(np.zeros(0, dtype=np.int64),) * 2]
    widths = np.diff(pairs.offsets)
    for part in chunks(widths**2):
        low, high = pairs.offsets[part.start], pairs.offsets[part.stop]
        of = np.repeat(np.arange(part.start, part.stop), widths[part])
        row, place = spread(pairs.offsets[of], pairs.offsets[of + 1])
        body = pairs.relations[low:high].astype(np.int64)[row]
        head = pairs.relations[place]
        forward = (body != head) & (head % 2 == 0)
        found.append(counted(body[forward] * size + head[forward]))
    code, support = summed(*(np.concatenate(column) for column in zip(*found, strict=True)))
    body, relation = np.divmod(code, size)
    groundings = np.bincount(facts.relations, minlength=size)[body]
    return confident(Closed(body, relation, support, groundings, np.zeros(len(code), dtype=bool)))


def confident(rules: Closed) -> Closed:
    """The rules with enough support and confidence."""
    enough = rules.support >= LEAST_CONFIDENCE * (rules.groundings + PRIOR)
    enough &= rules.support >= LEAST_SUPPORT
    columns: list[Any] = [column[enough] for column in rules]
    return Closed(*columns)


def bodies(facts: LooplessFacts) -> Bodies:
    """All bodies of two atoms that hold somewhere."""
    index = facts.index
    size = index.num_relations
    relations = facts.key_relations
    tails = np.diff(index.offsets)
    keys = np.searchsorted(index.keys, np.arange(facts.num_entities + 1) * size)
    found: list[tuple[Ints, Ints, Ints]] = []
    for inverse in range(size):
        inwards = facts.keys_of(inverse)  # (z, p^-1), whose tails are the x of p(x, z)
        middles = index.keys[inwards] // size
        row, outwards = spread(keys[middles], keys[middles + 1])
        into, out = tails[inwards[row]], tails[outwards]
        paths = np.bincount(relations[outwards], weights=into * out, minlength=size)
        least = np.zeros(size, dtype=np.int64)
        # of the pairs through one z no more than the smaller of its sides have x = y
        np.maximum.at(least, relations[outwards], into * out - np.minimum(into, out))
        onwards = np.flatnonzero(paths)
        found.append(
            ((inverse ^ 1) * size + onwards, paths[onwards].astype(np.int64), least[onwards])
        )
    codes, paths, least = (np.concatenate(column) for column in zip(*found, strict=True))
    rising = np.argsort(codes)
    return Bodies(codes[rising], paths[rising], least[rising])


def supports(
    facts: LooplessFacts, relation: int, random: np.random.Generator
) -> tuple[Ints, Ints, bool]:
    """The bodies of two atoms that lead along facts of a relation, along how many, if exactly."""
    places = facts.facts_of(relation)
    pairs = facts.pairs
    degrees = np.diff(pairs.starts)
    first, second = facts.heads_of(places), facts.index.all_tails[places].astype(np.int64)
    # the neighbours of the end that has fewer are looked up at the other
    turned = degrees[second] < degrees[first]
    near, far = np.where(turned, second, first), np.where(turned, first, second)
    order = np.arange(len(places))
    if degrees[near].sum() > MOST_LOOKUPS:
        order = random.permutation(order)
        order = order[: max(1, int(np.searchsorted(np.cumsum(degrees[near[order]]), MOST_LOOKUPS)))]
        near, far, turned = near[order], far[order], turned[order]
    found: list[tuple[Ints, Ints]] = [(np.zeros(0, dtype=np.int64),) * 2]
    for part in chunks(degrees[near]):
        row, beside = spread(pairs.starts[near[part]], pairs.starts[near[part] + 1])
        at, hit = pairs.places(far[part][row], pairs.second[beside])
        row, beside, at = row[hit], beside[hit], at[hit]
        back = turned[part][row]
        out, onwards = np.where(back, at, beside), pairs.reverse[np.where(back, beside, at)]
        found += bodies_along(facts, row, (out, onwards))
    codes, support = summed(*(np.concatenate(column) for column in zip(*found, strict=True)))
    share = len(places) / max(1, len(order))
    return codes, np.round(support * share).astype(np.int64), len(order) == len(places)


def bodies_along(
    facts: LooplessFacts, row: Ints, steps: tuple[Ints, ...]
) -> Iterator[tuple[Ints, Ints]]:
    """The bodies along paths of pairs, and in how many rows each occurs; rows are sorted."""
    pairs = facts.pairs
    size = facts.num_relations
    codes = size ** len(steps)
    widths = np.diff(pairs.offsets)
    ways = np.prod([widths[step] for step in steps], axis=0, dtype=np.int64)
    stops = np.flatnonzero(np.diff(row, prepend=-1, append=-1))
    for part in chunks(np.add.reduceat(ways, stops[:-1]) if len(row) else ways):
        start, stop = stops[part.start], stops[part.stop]  # those of one row together
        of, combination = spread(np.zeros(stop - start, dtype=np.int64), ways[start:stop])
        of += start
        body = np.zeros(len(of), dtype=np.int64)
        for step in steps:
            combination, atom = np.divmod(combination, widths[step[of]])
            body = body * size + pairs.relations[pairs.offsets[step[of]] + atom]
        yield counted(distinct((row[of] - row[start]) * codes + body) % codes)


def mirrored(codes: Ints, size: int) -> Ints:
    """The bodies read backwards."""
    first, second = np.divmod(codes, size)
    return (second ^ 1) * size + (first ^ 1)


def groundings(
    facts: LooplessFacts, known: Bodies, codes: Ints, random: np.random.Generator
) -> tuple[Ints, Flags]:
    """The numbers of distinct pairs (x, y) that bodies hold for, and which are estimates."""
    size = facts.num_relations
    counts = np.zeros(len(codes), dtype=np.int64)
    sampled = known.paths[np.searchsorted(known.codes, codes)] > MOST_PAIRS
    first, second = np.divmod(codes, size)
    starts = np.searchsorted(first, np.arange(size + 1))
    for relation in np.flatnonzero(np.diff(starts)).tolist():
        span = np.arange(starts[relation], starts[relation + 1])
        exact = span[~sampled[span]]
        if len(exact):
            counts[exact] = _count_pairs(facts, relation, second[exact], None)
        for place in span[sampled[span]].tolist():
            counts[place] = _count_pairs(facts, relation, second[[place]], random)[0]
    return counts, sampled


def _count_pairs(
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
    return (
        counts if random is None else np.round(counts * (len(ways) / len(order))).astype(np.int64)
    )


def double_atoms(
    facts: LooplessFacts, random: np.random.Generator, tell: Callable[[int], None]
) -> Closed:
    """All rules of two atoms for forward relations."""
    size = facts.num_relations
    known = bodies(facts)
    found: list[tuple[Any, ...]] = []
    for relation in range(0, size, 2):
        codes, support, exact = supports(facts, relation, random)
        few = known.plausible(codes, support)
        columns = (codes, np.full(len(few), relation), support, np.full(len(few), not exact))
        found.append(tuple(column[few] for column in columns))
        tell(relation // 2 + 1)
    codes, relations, support, sampled = (
        np.concatenate(column) for column in zip(*found, strict=True)
    )
    canonical = np.minimum(codes, mirrored(codes, size))
    counted_bodies = distinct(canonical)
    number, estimated = groundings(facts, known, counted_bodies, random)
    at = np.searchsorted(counted_bodies, canonical)
    number = np.maximum(number[at], support)
    return confident(Closed(codes, relations, support, number, sampled | estimated[at]))
