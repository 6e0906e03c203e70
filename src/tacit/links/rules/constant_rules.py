"""Rules whose head ends in a constant: `p(x, c) => r(x, d)`, and `p(x, z) => r(x, d)` for any z."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from tacit.graph.fact_index import Ints, spread, within
from tacit.links.rules.loopless_facts import LooplessFacts, chunks, counted
from tacit.links.rules.rule_set import NONE, PRIOR

LEAST_SUPPORT = 2
LEAST_CONFIDENCE = 0.02


class Constant(NamedTuple):
    """Rules for one relation, as columns."""

    body: Ints  # a relation
    end: Ints  # NONE where anything may stand there
    tail: Ints
    support: Ints
    groundings: Ints


class ConstantMiner:
    """Features of entities, `p(x, c)` and `p(x, z)` for any z, and the heads that they occur with.

    A feature `p(x, c)` has the place of the key (c, p^-1) in the index as its id, since the tails
    of that key are all such x; then come those of a relation and anything.
    """

    def __init__(self, facts: LooplessFacts) -> None:
        self.facts = facts
        index = facts.index
        self.sizes = np.diff(index.offsets)
        # the feature of each fact: the key of its inverse
        inverse = index.all_tails.astype(np.int64) * facts.num_relations + (facts.relations ^ 1)
        feature = np.searchsorted(index.keys, inverse)
        frequent = np.flatnonzero(self.sizes[feature] >= LEAST_SUPPORT)
        entities = np.concatenate([facts.heads_of(frequent), index.heads])
        features = np.concatenate([feature[frequent], len(index.keys) + index.relations])
        order = np.argsort(entities, kind="stable")
        self.features = features[order]
        self.starts = np.searchsorted(entities[order], np.arange(facts.num_entities + 1))
        # facts `p(x, d)` with no other p(x, z), which count for no other z than d
        self.single = self.sizes[facts.keys] == 1
        self.singles = np.bincount(feature[self.single], minlength=len(index.keys))
        self.sources = np.bincount(index.relations, minlength=facts.num_relations)

    def rules(self, relation: int) -> Constant:
        """The rules with enough support and confidence for a relation."""
        index = self.facts.index
        of_tails = np.flatnonzero((index.relations == relation ^ 1) & (self.sizes >= LEAST_SUPPORT))
        degrees = np.diff(self.starts)
        row, place = spread(index.offsets[of_tails], index.offsets[of_tails + 1])
        entities = index.all_tails[place]
        costs = np.bincount(row, weights=degrees[entities], minlength=len(of_tails))
        found = []
        width = len(index.keys) + self.facts.num_relations
        for part in chunks(costs.astype(np.int64)):
            span = slice(*np.searchsorted(row, [part.start, part.stop]))
            at, place = spread(self.starts[entities[span]], self.starts[entities[span] + 1])
            keys, support = counted(row[span][at] * width + self.features[place])
            few = support >= LEAST_SUPPORT
            tails, features = np.divmod(keys[few], width)
            found.append(self._confident(relation, index.heads[of_tails[tails]], features, support[few]))
        if not found:
            return Constant(*(np.zeros(0, dtype=np.int64) for _ in Constant._fields))
        return Constant(*(np.concatenate(column) for column in zip(*found, strict=True)))

    def _confident(self, relation: int, tails: Ints, features: Ints, support: Ints) -> Constant:
        """The rules for some heads from features that occur with them."""
        index = self.facts.index
        any_end = features >= len(index.keys)
        body = np.where(any_end, features - len(index.keys), 0)
        places = features[~any_end]
        body[~any_end] = index.relations[places] ^ 1
        end = np.full(len(features), NONE)
        end[~any_end] = index.heads[places]
        groundings = np.where(any_end, self.sources[body], 0)
        groundings[~any_end] = self.sizes[places]
        own = (body == relation) & (end == tails)
        # d itself is taken away below where it is among x
        near = ~own & (any_end | (support >= LEAST_CONFIDENCE * (groundings - 1 + PRIOR)))
        columns = Constant(body, end, tails, support, groundings)
        rules = Constant(*(column[near] for column in columns))
        constant = rules.end != NONE
        less = np.zeros(len(rules.body), dtype=np.int64)
        less[constant] = index.contains(
            rules.tail[constant], rules.body[constant], rules.end[constant]
        )
        less[~constant] = self._not_through(rules.tail[~constant], rules.body[~constant])
        fewer = np.zeros(len(rules.body), dtype=np.int64)
        fewer[~constant] = self._only_own(relation, rules.tail[~constant], rules.body[~constant])
        rules = rules._replace(
            support=rules.support - fewer, groundings=rules.groundings - less
        )
        enough = rules.support >= LEAST_CONFIDENCE * (rules.groundings + PRIOR)
        enough &= rules.support >= LEAST_SUPPORT
        return Constant(*(column[enough] for column in rules))

    def _not_through(self, tails: Ints, body: Ints) -> Ints:
        """How many x have p(x, z) for no z but d, or are d itself."""
        index = self.facts.index
        own = index.counts(tails, body) > 0
        keys = tails * self.facts.num_relations + (body ^ 1)
        at = np.minimum(np.searchsorted(index.keys, keys), len(index.keys) - 1)
        return own + np.where(index.keys[at] == keys, self.singles[at], 0)

    def _only_own(self, relation: int, tails: Ints, body: Ints) -> Ints:
        """How many facts r(x, d) have p(x, d), but p(x, z) for no other z."""
        size = self.facts.num_relations
        pairs = self.facts.pairs
        places = self.facts.facts_of(relation)
        there = pairs.of_fact[places]
        row, at = spread(pairs.offsets[there], pairs.offsets[there + 1])
        lonely = self.single[pairs.facts[at]]
        own = self.facts.index.all_tails[places][row[lonely]].astype(np.int64)
        keys, counts = counted(own * size + pairs.relations[at[lonely]])
        wanted = tails * size + body
        at = np.searchsorted(keys, wanted)
        hit = within(wanted, keys)
        found = np.zeros(len(tails), dtype=np.int64)
        found[hit] = counts[at[hit]]
        return found
