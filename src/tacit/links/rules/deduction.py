"""Deductions: what follows from facts by rules that hold without exception."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass

import numpy as np

from tacit.errors import LimitError
from tacit.graph.fact_index import FactIndex, Integers, Ints
from tacit.links.rules.consequences import consequences, walks
from tacit.links.rules.editing import first_forms
from tacit.links.rules.rule_set import NONE, WRITTEN, Rule, RuleSet

MOST_DEDUCED = 10  # times the facts that rules may add
MOST_ROUNDS = 1000  # deductions that may rest on one another
_FEW = 1000  # triples that rules may add to any graph


@dataclass(frozen=True, eq=False)
class Deductions:
    """Facts with all that follows from them, and the rule that each deduced one follows by."""

    index: FactIndex  # facts and deductions
    deduced: FactIndex  # deductions alone
    rules: Ints  # [len(deduced)] ids
    order: Ints  # [len(deduced)] how many deductions came before each

    def rule_of(self, head: int, relation: int, tail: int) -> int | None:
        """The id of the rule that a triple follows by; None for a fact, and for all else."""
        at = self._place(head, relation, tail)
        return None if at is None else int(self.rules[at])

    def order_of(self, head: int, relation: int, tail: int) -> int:
        """How many deductions came before a triple, which rests on earlier ones; -1 for a fact."""
        at = self._place(head, relation, tail)
        return -1 if at is None else int(self.order[at])

    def _place(self, head: int, relation: int, tail: int) -> int | None:
        starts, ends = self.deduced.spans(np.array([head]), np.array([relation]))
        start, end = int(starts[0]), int(ends[0])
        at = start + int(np.searchsorted(self.deduced.all_tails[start:end], tail))
        found = at < end and self.deduced.all_tails[at] == tail
        return at if found else None


def hard_rules(rules: RuleSet) -> Ints:
    """The ids of the rules that a person wrote with confidence 1 and did not switch off.

    Of a rule and its mirror image there is one.
    """
    hard = ((rules.flags & WRITTEN) != 0) & (rules.confidence >= 1) & rules.active
    return first_forms(rules, np.flatnonzero(hard))


def hard_forms(rules: RuleSet) -> set[tuple[object, ...]]:
    """What the hard rules say."""
    return {rules[place][:4] for place in hard_rules(rules).tolist()}


def deduce(
    index: FactIndex, rules: RuleSet, name: Callable[[int], str] = "rule {}".format
) -> Deductions | None:
    """Add what follows from facts by the hard rules until nothing more does.

    It is None where there are no such rules. A `LimitError` says by its `name` which rule would add
    too much.
    """
    hard = hard_rules(rules).tolist()
    if not hard:
        return None
    limit = max(_FEW, MOST_DEDUCED * len(index))
    closure = _Closure(index)
    seen = dict.fromkeys(hard, NONE)  # how many deductions each rule has been applied to
    for _ in range(MOST_ROUNDS):
        unseen = [place for place in hard if seen[place] != len(closure.rows)]
        for place in unseen:
            before, seen[place] = seen[place], len(closure.rows)
            closure.add(_new_rows(closure, rules[place], place, before), limit, name)
        if not unseen:
            return closure.deductions()
    raise LimitError(
        f"deductions by {name(int(closure.rows[-1, 3]))} rest on one another more than "
        f"{MOST_ROUNDS:,} times; give the rule a confidence below 1, or switch it off"
    )


class _Closure:
    """Facts, and the deductions from them so far."""

    def __init__(self, index: FactIndex) -> None:
        self.index = index
        self.rows: Ints = _no_rows()  # head, relation, tail and rule of each deduction
        self.deduced = FactIndex(self.rows[:, :3], index.num_relations)

    def counts(self, heads: Integers, relations: Integers) -> Ints:
        """The number of tails of each pair, those of both kinds."""
        return self.index.counts(heads, relations) + self.deduced.counts(heads, relations)

    def neighbours(self, heads: Integers, relations: Integers) -> tuple[Ints, Integers]:
        """The tails of many pairs: facts, then deductions."""
        rows, tails = self.index.neighbours(heads, relations)
        more_rows, more_tails = self.deduced.neighbours(heads, relations)
        return np.concatenate([rows, more_rows]), np.concatenate([tails, more_tails])

    def is_new(self, rows: Ints) -> Ints:
        """The rows whose triples are neither facts nor deduced before."""
        heads, relations, tails = rows[:, :3].T
        known = self.index.contains(heads, relations, tails)
        return rows[~known & ~self.deduced.contains(heads, relations, tails)]

    def add(self, blocks: Iterator[Ints], limit: int, name: Callable[[int], str]) -> None:
        """Add the rows of one rule; a `LimitError` if there would be more than the limit."""
        added = _no_rows()
        for block in blocks:
            added = _distinct_rows(np.concatenate([added, self.is_new(block)]))
            if len(self.rows) + len(added) > limit:
                raise LimitError(
                    f"{name(int(added[0, 3]))} has confidence 1 and would add more than "
                    f"{limit // 2:,} facts to {len(self.index) // 2:,}; give the rule a confidence "
                    "below 1, or switch it off"
                )
        if len(added):
            self.rows = np.concatenate([self.rows, added])
            self.deduced = FactIndex(self.rows[:, :3], self.index.num_relations)

    def deductions(self) -> Deductions:
        """What was deduced, beside all that is known."""
        facts = np.repeat(self.index.keys, np.diff(self.index.offsets))
        heads, relations = np.divmod(facts, self.index.num_relations)
        both = np.concatenate(
            [np.column_stack([heads, relations, self.index.all_tails]), self.rows[:, :3]]
        )
        order = np.lexsort(self.rows[:, 2::-1].T)  # as an index sorts its triples
        return Deductions(
            FactIndex(both, self.index.num_relations), self.deduced, self.rows[order, 3], order
        )


def _new_rows(closure: _Closure, rule: Rule, place: int, before: int) -> Iterator[Ints]:
    """What a rule implies by the deductions after the first `before`; by all facts if NONE."""
    pairs = consequences(closure.index, rule) if before == NONE else iter(())
    for heads, tails in pairs:
        yield _both_ways(heads, tails, rule.relation, place)
    fresh = closure.rows[max(before, 0) :]
    for at, relation in enumerate(rule.body):
        steps = fresh[fresh[:, 1] == relation][:, [0, 2]]
        for heads, tails in _around(closure, rule, at, steps):
            yield _both_ways(heads, tails, rule.relation, place)


def _around(closure: _Closure, rule: Rule, at: int, steps: Ints) -> Iterator[tuple[Ints, Ints]]:
    """What a rule implies by paths whose step `at` is one of some `[n, 2]`."""
    constant = NONE if rule.tail == rule.end else rule.tail
    steps = steps[(steps[:, 0] != steps[:, 1]) & (steps != constant).all(axis=1)]
    back = [relation ^ 1 for relation in reversed(rule.body[:at])]
    for onward in walks(closure, steps, rule.body[at + 1 :], constant):
        if rule.end != NONE:
            onward = onward[onward[:, -1] == rule.end]
        for path in walks(closure, onward[:, ::-1], back, constant):
            ends = path[:, 0] if rule.tail == NONE else np.full(len(path), rule.tail)
            yield path[:, -1], ends


def _both_ways(heads: Ints, tails: Ints, relation: int, place: int) -> Ints:
    """Triples and their inverses, with the rule that they follow by."""
    forward = np.column_stack(
        [heads, np.full_like(heads, relation), tails, np.full_like(heads, place)]
    )
    inverse = forward[:, [2, 1, 0, 3]]
    inverse[:, 1] ^= 1
    return np.concatenate([forward, inverse])


def _distinct_rows(rows: Ints) -> Ints:
    """The first row of each triple."""
    order = np.lexsort(rows[:, 2::-1].T)
    rows = rows[order]
    first = np.ones(len(rows), dtype=bool)
    first[1:] = (rows[1:, :3] != rows[:-1, :3]).any(axis=1)
    return rows[first]


def _no_rows() -> Ints:
    return np.empty((0, 4), dtype=np.int64)
