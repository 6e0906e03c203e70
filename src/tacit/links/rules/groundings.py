"""The paths of entities that a rule rests on for one atom."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import islice
from typing import NamedTuple

import numpy as np

from tacit.graph.fact_index import FactIndex, Ints, spread, within
from tacit.links.rules.rule_joins import in_parts
from tacit.links.rules.rule_set import NONE, Rule

_FEW = 4096  # paths that are looked at together
_PARTS = 4  # of the paths of a rule that are looked at, where groundings are among them


class Groundings(NamedTuple):
    """The first paths from a head through the body of a rule, in rising order."""

    paths: list[tuple[int, ...]]
    total: int  # how many paths there are; at least so many where it is not exact
    exact: bool = True


def groundings(index: FactIndex, rule: Rule, head: int, tail: int, count: int) -> Groundings:
    """Find the first paths by which a rule speaks for the atom of a head and a tail.

    A path of three steps to a known end is followed from the side where fewer begin.
    """
    end = rule.end if rule.tail != NONE else tail
    if head in (end, rule.tail) or rule.tail not in (NONE, tail):
        return Groundings([], 0)
    if (
        end != NONE
        and len(rule.body) > 1
        and (paths := _few_paths(index, rule, head, end)) is not None
    ):
        return Groundings(list(map(tuple, paths[:count].tolist())), len(paths))
    walk = _walk(index, rule.body, np.array([[head]]), rule.tail, end)
    if len(rule.body) == 3 and end != NONE:
        inverse = [relation ^ 1 for relation in reversed(rule.body)]
        if _starts(index, inverse, end) < _starts(index, rule.body, head):
            mirrored = _walk(index, inverse, np.array([[end]]), rule.tail, head)
            parts = list(islice(mirrored, _PARTS + 1))
            if len(parts) <= _PARTS:
                parts.append(np.zeros((0, 4), dtype=np.int64))
                paths = np.concatenate(parts)[:, ::-1]
                paths = paths[np.lexsort(paths.T[::-1])]
                return Groundings(list(map(tuple, paths[:count].tolist())), len(paths))
    found = list[tuple[int, ...]]()
    total = 0
    for number, paths in enumerate(walk):
        if number >= _PARTS and total:
            return Groundings(found, total, exact=False)
        found += map(tuple, paths[: count - len(found)].tolist())
        total += len(paths)
    return Groundings(found, total)


def _few_paths(index: FactIndex, rule: Rule, head: int, end: int) -> Ints | None:
    """All paths of two or three steps between two ends; None where many have to be looked at.

    The last entity before the end comes from the end's own facts: one look-up less to follow.
    """
    first, *middle, last = rule.body
    near = index.tails(head, first)
    far = index.tails(end, last ^ 1)
    if not len(near) or not len(far):
        return np.empty((0, len(rule.body) + 1), dtype=np.int64)
    if middle:
        starts, ends = index.spans(near, np.full(len(near), middle[0]))
        if int((ends - starts).sum()) > _FEW:
            return None
        origins, places = spread(starts, ends)
        inner = np.column_stack([near[origins], index.all_tails[places]])
        inner = inner[(inner[:, 0] != inner[:, 1]) & within(inner[:, 1], far)]
    else:
        inner = near[within(near, far)][:, None]
    for outside in (head, end, rule.tail) if len(inner) else ():
        inner = inner[(inner != outside).all(axis=1)]
    paths: Ints = np.full((len(inner), len(rule.body) + 1), head, dtype=np.int64)
    paths[:, 1:-1] = inner
    paths[:, -1] = end
    return paths


def _starts(index: FactIndex, body: Sequence[int], head: int) -> int:
    """How many paths the first two steps of a body have."""
    tails = index.tails(head, body[0])
    return int(index.counts(tails, np.full(len(tails), body[1])).sum())


def _walk(
    index: FactIndex, body: Sequence[int], paths: Ints, constant: int, end: int
) -> Iterator[Ints]:
    """Yield the paths that continue some by a body to its end, part by part in rising order.

    Their entities are distinct, and none before the end is a constant of the rule.
    """
    if not body:
        yield paths
        return
    relation, *rest = body
    if not rest and end != NONE:
        ends = np.full(len(paths), end)
        closed = index.contains(paths[:, -1], np.full(len(paths), relation), ends)
        yield np.column_stack([paths, ends])[closed]
        return
    spans = index.spans(paths[:, -1], np.full(len(paths), relation))
    for origins, places in in_parts(*spans):
        tails = index.all_tails[places].astype(np.int64)
        longer = np.column_stack([paths[origins], tails])
        apart = (tails != constant) & (tails != end)
        apart &= (longer[:, :-1] != tails[:, None]).all(axis=1)
        yield from _walk(index, rest, longer[apart], constant, end)
