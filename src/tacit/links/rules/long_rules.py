"""Closed rules of three atoms, `p(x, u), q(u, z), s(z, y) => r(x, y)`, as far as work allows.

There are too many bodies to try them all. Those that lead from head to tail of some facts drawn at
random are counted, the most promising first, until a number of joined pairs is reached. It follows
from the seconds in the settings by a constant, so that other machines find the same rules.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import numpy as np

from tacit.graph.fact_index import Floats, Ints, distinct, spread
from tacit.links.rules.closed_rules import Bodies, Closed, bodies, bodies_along, confident
from tacit.links.rules.loopless_facts import LooplessFacts, chunks, counted, summed

PAIRS_PER_SECOND = 10_000_000  # joined on 2 cores
SHARE_OF_SEARCH = 0.3  # of the work, to find bodies
NEIGHBOURS = 40  # of an end of a fact, at most
MOST_PATHS = 2**16  # that a body is counted from, at most
BODY_COST = 2000  # pairs that could be joined while a body without any is counted


class Candidate(NamedTuple):
    """Bodies of three atoms for some relations, as columns."""

    body: Ints  # (p · R + q) · R + s
    relation: Ints
    rank: Ints  # among those of the relation


def triple_atoms(
    facts: LooplessFacts,
    seconds: float,
    most: int,
    random: np.random.Generator,
    tell: Callable[[int], None],
) -> Closed:
    """Rules of three atoms for forward relations."""
    size = facts.num_relations
    work = int(seconds * PAIRS_PER_SECOND)
    known = bodies(facts)
    lookups = int(SHARE_OF_SEARCH * work / max(1, size // 2))
    found = [
        candidates(facts, known, relation, lookups, most, random) for relation in range(0, size, 2)
    ]
    body = np.concatenate([each.body for each in found])
    rank = np.concatenate([each.rank for each in found])
    canonical = np.minimum(body, mirrored(body, size))
    # in turns, the best of every relation first
    order = np.argsort(rank, kind="stable")
    unique, first = np.unique(canonical[order], return_index=True)
    queue = unique[np.argsort(first)]
    left = work - int(SHARE_OF_SEARCH * work)
    rules: list[Closed] = []
    for done, code in enumerate(queue.tolist()):
        rule, cost = counted_body(facts, code, random)
        rules.append(rule)
        left -= cost
        if done % 100 == 0:
            tell(done)
        if left < 0:
            break
    tell(len(queue))
    if not rules:
        nothing = np.zeros(0, dtype=np.int64)
        return Closed(nothing, nothing, nothing, nothing, nothing.astype(bool))
    return confident(Closed(*(np.concatenate(column) for column in zip(*rules, strict=True))))


def mirrored(codes: Ints, size: int) -> Ints:
    """The bodies read backwards."""
    rest, third = np.divmod(codes, size)
    first, second = np.divmod(rest, size)
    backwards: Ints = ((third ^ 1) * size + (second ^ 1)) * size + (first ^ 1)
    return backwards


def candidates(
    facts: LooplessFacts,
    known: Bodies,
    relation: int,
    lookups: int,
    most: int,
    random: np.random.Generator,
) -> Candidate:
    """The most promising bodies of three atoms that lead along drawn facts of a relation."""
    size = facts.num_relations
    places = random.permutation(facts.facts_of(relation))
    pairs = facts.pairs
    degrees = np.minimum(np.diff(pairs.starts), NEIGHBOURS)
    heads, tails = facts.heads_of(places), facts.index.all_tails[places].astype(np.int64)
    costs = degrees[heads] * degrees[tails]
    few = max(1, int(np.searchsorted(np.cumsum(costs), lookups)))
    heads, tails, costs = heads[:few], tails[:few], costs[:few]
    found: list[tuple[Ints, Ints]] = [(np.zeros(0, dtype=np.int64),) * 2]
    for part in chunks(costs, 2**62 // size**3):  # rows and codes share 64 bits
        found += _bodies_between(facts, heads[part], tails[part], random)
    codes, hits = summed(*(np.concatenate(column) for column in zip(*found, strict=True)))
    codes, hits = codes[hits >= 2], hits[hits >= 2]
    support = hits * (len(places) / few)
    promise = support / (_expected_paths(facts, known, codes) + 5)
    order = np.lexsort((codes, -promise))[:most]
    return Candidate(codes[order], np.full(len(order), relation), np.arange(len(order)))


def _expected_paths(facts: LooplessFacts, known: Bodies, codes: Ints) -> Floats:
    """The number of paths of bodies, were their two halves independent."""
    size = facts.num_relations
    left, right = codes // size, codes % size**2
    middle = np.bincount(facts.relations, minlength=size)[right // size]
    paths = [known.paths[np.searchsorted(known.codes, half)] for half in (left, right)]
    return paths[0].astype(float) * paths[1] / middle


def _bodies_between(
    facts: LooplessFacts, heads: Ints, tails: Ints, random: np.random.Generator
) -> list[tuple[Ints, Ints]]:
    """The bodies of three atoms between ends, and between how many of these."""
    pairs = facts.pairs
    first, of_first = _drawn(pairs.starts, heads, random)
    last, of_last = _drawn(pairs.starts, tails, random)
    starts = np.searchsorted(of_last, np.arange(len(heads) + 1))
    at, place = spread(starts[of_first], starts[of_first + 1])
    row, first, last = of_first[at], first[at], last[place]
    u, z = pairs.second[first], pairs.second[last]
    middle, hit = pairs.places(u, z)
    hit &= (u != tails[row]) & (z != heads[row])
    return [*bodies_along(facts, row[hit], (first[hit], middle[hit], pairs.reverse[last[hit]]))]


def _drawn(starts: Ints, entities: Ints, random: np.random.Generator) -> tuple[Ints, Ints]:
    """Pairs that begin at entities, not too many of each, and of which entity they are."""
    low, high = starts[entities], starts[entities + 1]
    row, place = spread(low, np.minimum(high, low + NEIGHBOURS))
    many = (high - low)[row] > NEIGHBOURS
    draws = random.random(int(many.sum())) * (high - low)[row[many]]
    place[many] = low[row[many]] + draws.astype(np.int64)
    return place, row


def counted_body(
    facts: LooplessFacts, code: int, random: np.random.Generator
) -> tuple[Closed, int]:
    """The rules of a body for forward relations, its reversal's among them, and the work."""
    size = facts.num_relations
    pair_keys, share, work = _distinct_pairs(facts, code, random)
    pairs = facts.pairs
    at, hit = pairs.found(pair_keys)
    at = at[hit]
    _, place = spread(pairs.offsets[at], pairs.offsets[at + 1])
    relation, support = counted(pairs.relations[place].astype(np.int64))
    backwards = mirrored(np.array([code]), size)[0]
    if backwards == code:  # both readings are the same rule
        forward = relation % 2 == 0
        relation, support = relation[forward], support[forward]
    body = np.where(relation % 2 == 0, code, backwards)
    groundings = np.full(len(body), round(len(pair_keys) * share))
    support = np.round(support * share).astype(np.int64)
    sampled = np.full(len(body), share > 1)
    return confident(Closed(body, relation & ~1, support, groundings, sampled)), work


def _distinct_pairs(
    facts: LooplessFacts, code: int, random: np.random.Generator
) -> tuple[Ints, float, int]:
    """Distinct pairs (x, y) of a body, by code; all x per x that were followed; and the work."""
    size = facts.num_relations
    index = facts.index
    rest, third = divmod(code, size)
    first, second = divmod(rest, size)
    places = facts.facts_of(first)
    heads, firsts = facts.heads_of(places), index.all_tails[places].astype(np.int64)
    starts = np.flatnonzero(np.diff(heads, prepend=-1, append=-1))  # of each x
    low, high = index.spans(firsts, np.full(len(firsts), second))
    order = random.permutation(len(starts) - 1)
    order = _affordable(order, np.add.reduceat(high - low, starts[:-1]))
    _, fact = spread(starts[order], starts[order + 1])
    which = np.repeat(np.arange(len(order)), starts[order + 1] - starts[order])
    row, place = spread(low[fact], high[fact])
    x, u, z, which = heads[fact][row], firsts[fact][row], index.all_tails[place], which[row]
    apart = z != x
    x, u, z, which = x[apart], u[apart], z[apart], which[apart]
    low, high = index.spans(z, np.full(len(z), third))
    few = len(_affordable(np.arange(len(order)), np.bincount(which, high - low, len(order))))
    stop = np.searchsorted(which, few)
    row, place = spread(low[:stop], high[:stop])
    y = index.all_tails[place]
    apart = (y != x[row]) & (y != u[row])
    pair_keys = distinct(x[row[apart]] * facts.num_entities + y[apart])
    work = BODY_COST + len(fact) + len(z) + len(y)
    return pair_keys, (len(starts) - 1) / max(1, few), work


def _affordable(order: Ints, costs: Ints) -> Ints:
    """The first of some x whose paths are few enough."""
    return order[: np.searchsorted(np.cumsum(costs[order]), MOST_PATHS, side="right")]
