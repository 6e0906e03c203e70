"""What the bodies of rules hold for, by joins over an index of facts."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Protocol

import numpy as np

from tacit.graph.fact_index import FactIndex, Integers, Ints, distinct
from tacit.links.rules.rule_set import NONE, WRITTEN, Rule, confidence_of

_PATHS = 2**20  # paths that are extended at a time, which bounds the memory
_FIRST, _MOST = 64, 2048  # entities x that are looked at together, at first and later


class Neighbours(Protocol):
    """The tails of many `(head, relation)` at once, as a `FactIndex` has them."""

    def counts(self, heads: Integers, relations: Integers) -> Ints:
        """The number of tails of each pair."""

    def neighbours(self, heads: Integers, relations: Integers) -> tuple[Ints, Integers]:
        """The tails of many pairs: arrays `(row, tail)`."""


def measured(index: FactIndex, rule: Rule) -> Rule:
    """A rule with its groundings and support counted over all facts, and their confidence.

    >>> facts = np.array([[0, 0, 1], [1, 1, 0], [0, 2, 1], [1, 3, 0], [2, 0, 1], [1, 1, 2]])
    >>> measured(FactIndex(facts, num_relations=4), Rule((0,), 2))[4:7]
    (1, 2, 0.1428571492433548)
    """
    support = groundings = 0
    for heads, tails in consequences(index, rule):
        groundings += len(heads)
        relations = np.full(len(heads), rule.relation)
        support += int(index.contains(heads, relations, tails).sum())
    confidence = float(confidence_of(np.array([support]), np.array([groundings]))[0])
    return rule._replace(
        support=support,
        groundings=groundings,
        confidence=confidence,
        flags=rule.flags | WRITTEN,
    )


def consequences(index: FactIndex, rule: Rule) -> Iterator[tuple[Ints, Ints]]:
    """Heads and tails of all that a rule implies, in blocks; each pair comes once, in order."""
    if rule.end != NONE:
        back = [relation ^ 1 for relation in reversed(rule.body)]
        ends = np.array([[rule.end]], dtype=np.int64)
        found = [block[:, -1] for block in walks(index, ends, back, rule.tail)]
        yield _implied(np.concatenate([_no_ids(), *found]), rule)
        return
    starts = distinct(index.heads[index.relations == rule.body[0]])
    starts = starts[starts != rule.tail]
    at = 0
    size = _FIRST
    while at < len(starts):
        block = starts[at : at + size]
        yield _pairs_from(index, rule, block)
        at += len(block)
        size = min(2 * size, _MOST)


def _pairs_from(index: FactIndex, rule: Rule, starts: Ints) -> tuple[Ints, Ints]:
    """The distinct pairs that a rule without constant end implies from some entities on."""
    walked = walks(index, starts[:, None], rule.body, rule.tail)
    if rule.tail != NONE:
        return _implied(np.concatenate([_no_ids(), *(block[:, 0] for block in walked)]), rule)
    size = 1 + int(index.all_tails.max(initial=0))
    keys = [distinct(block[:, 0] * size + block[:, -1]) for block in walked]
    heads, tails = np.divmod(distinct(np.concatenate([_no_ids(), *keys])), size)
    return heads, tails


def _implied(heads: Ints, rule: Rule) -> tuple[Ints, Ints]:
    heads = distinct(heads)
    return heads, np.full(len(heads), rule.tail, dtype=np.int64)


def _no_ids() -> Ints:
    return np.empty(0, dtype=np.int64)


def walks(
    index: Neighbours, paths: Ints, relations: Sequence[int], constant: int = NONE
) -> Iterator[Ints]:
    """Extend paths of distinct entities, `[n, k] -> [m, k + len(relations)]`, in blocks.

    No extension passes through the `constant`.
    """
    waiting = [(paths, 0)]
    while waiting:
        paths, done = waiting.pop()
        if done == len(relations):
            yield paths
            continue
        along = np.full(len(paths), relations[done])
        if len(paths) > 1 and int(index.counts(paths[:, -1], along).sum()) > _PATHS:
            middle = len(paths) // 2
            waiting += [(paths[middle:], done), (paths[:middle], done)]
            continue
        rows, nodes = index.neighbours(paths[:, -1], along)
        before = paths[rows]
        fresh = (before != nodes[:, None]).all(axis=1) & (nodes != constant)
        waiting.append((np.column_stack([before[fresh], nodes[fresh]]).astype(np.int64), done + 1))
