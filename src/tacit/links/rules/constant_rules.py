"""Rules whose head ends in a constant: `p(x, c) => r(x, d)`, and `p(x, z) => r(x, d)` for any z."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from tacit.graph.fact_index import Flags, Ints, spread, within
from tacit.links.rules.loopless_facts import LooplessFacts, chunks, counted
from tacit.links.rules.rule_set import NONE, PRIOR, confidence_of

LEAST_SUPPORT = 2
LEAST_CONFIDENCE = 0.02
LEAST_OF_ANY = 0.001  # of `p(x, z)`, whose rules say which tails are frequent
MOST_FEATURES = 2**13  # of an entity; of one with more, so many drawn ones
TAILS = 20  # d that a body `p(x, c)` implies for a relation, at most
TAILS_OF_ANY = 50  # and a body `p(x, z)`
BODIES = 50  # bodies `p(x, c)` that imply a head, at most


class Constant(NamedTuple):
    """Rules for one relation, as columns."""

    body: Ints  # a relation
    end: Ints  # NONE where anything may stand there
    tail: Ints
    support: Ints
    groundings: Ints
    sampled: Flags


class ConstantMiner:
    """Features of entities, `p(x, c)` and `p(x, z)` for any z, and the heads that they occur with.

    A feature `p(x, c)` has the place of the key (c, p^-1) in the index as its id, since the tails
    of that key are all such x; then come those of a relation and anything.
    """

    def __init__(self, facts: LooplessFacts, random: np.random.Generator) -> None:
        self.facts = facts
        index = facts.index
        self.sizes = np.diff(index.offsets)
        # the feature of each fact: the key of its inverse, which is one of the facts
        inverse = index.all_tails.astype(np.int64) * facts.num_relations + (facts.relations ^ 1)
        feature = np.empty(len(inverse), dtype=np.int64)
        feature[np.argsort(inverse)] = facts.keys
        frequent = np.flatnonzero(self.sizes[feature] >= LEAST_SUPPORT)
        entities = np.concatenate([facts.heads_of(frequent), index.heads])
        features = np.concatenate([feature[frequent], len(index.keys) + index.relations])
        order = np.argsort(entities, kind="stable")
        degrees = np.bincount(entities, minlength=facts.num_entities)
        self.hubs = degrees > MOST_FEATURES  # those of whose features only some are counted
        if self.hubs.any():
            order = order[self._drawn(entities[order], degrees, random)]
        self.features = features[order]
        self.starts = np.searchsorted(entities[order], np.arange(facts.num_entities + 1))
        # facts `p(x, d)` with no other p(x, z), which count for no other z than d
        self.single = self.sizes[facts.keys] == 1
        self.singles = np.bincount(feature[self.single], minlength=len(index.keys))
        self.sources = np.bincount(facts.key_relations, minlength=facts.num_relations)

    def _drawn(self, entities: Ints, degrees: Ints, random: np.random.Generator) -> Ints:
        """The places of all features of most entities, and of some features of hubs."""
        places = [np.flatnonzero(~self.hubs[entities])]
        for hub in np.flatnonzero(self.hubs).tolist():
            start = np.searchsorted(entities, hub)
            places.append(start + random.permutation(degrees[hub])[:MOST_FEATURES])
        return np.sort(np.concatenate(places))

    def rules(self, relation: int) -> Constant:
        """The rules with enough support and confidence for a relation."""
        index = self.facts.index
        of_tails = self.facts.keys_of(relation ^ 1)  # (d, r^-1), whose tails are the x of r(x, d)
        of_tails = of_tails[self.sizes[of_tails] >= LEAST_SUPPORT]
        degrees = np.diff(self.starts)
        row, place = spread(index.offsets[of_tails], index.offsets[of_tails + 1])
        entities = index.all_tails[place]
        costs = np.bincount(row, weights=degrees[entities], minlength=len(of_tails))
        sampled = np.bincount(row, weights=self.hubs[entities], minlength=len(of_tails)) > 0
        found = []
        width = len(index.keys) + self.facts.num_relations
        for part in chunks(costs.astype(np.int64)):
            span = slice(*np.searchsorted(row, [part.start, part.stop]))
            at, place = spread(self.starts[entities[span]], self.starts[entities[span] + 1])
            keys, support = counted(row[span][at] * width + self.features[place])
            few = support >= LEAST_SUPPORT
            tails, features = np.divmod(keys[few], width)
            heads = index.keys[of_tails[tails]] // self.facts.num_relations
            rules = self._rules(features, heads, support[few], sampled[tails])
            rules = self._counted(relation, rules)
            rules = self._better_than_any_end(rules)
            found.append(_best(rules, rules.tail, BODIES, None))
        if not found:
            nothing = np.zeros(0, dtype=np.int64)
            return Constant(nothing, nothing, nothing, nothing, nothing, nothing > 0)
        columns: list[Any] = [np.concatenate(column) for column in zip(*found, strict=True)]
        rules = Constant(*columns)
        features = rules.body * (self.facts.num_entities + 1) + rules.end + 1
        return _best(rules, features, TAILS, TAILS_OF_ANY)

    def _rules(self, features: Ints, tails: Ints, support: Ints, sampled: Flags) -> Constant:
        """The rules from features for heads that they occur with, x, z and d not told apart."""
        index = self.facts.index
        constant = features < len(index.keys)
        keys = features[constant]
        body = features - len(index.keys)
        end = np.full(len(features), NONE)
        groundings = self.sources[body * ~constant]
        body[constant] = self.facts.key_relations[keys] ^ 1
        end[constant] = index.keys[keys] // self.facts.num_relations
        groundings[constant] = self.sizes[keys]
        return Constant(body, end, tails, support, groundings, sampled)

    def _counted(self, relation: int, rules: Constant) -> Constant:
        """The rules of enough support and confidence with x, z and d distinct."""
        constant = rules.end != NONE
        own = (rules.body == relation) & (rules.end == rules.tail)
        # d itself is taken away below where it is among x
        near = rules.support >= LEAST_CONFIDENCE * (rules.groundings - 1 + PRIOR)
        rules = _chosen(rules, ~own & (near | ~constant))
        constant = rules.end != NONE
        body, tail = rules.body[constant], rules.tail[constant]
        less = np.zeros(len(rules.body), dtype=np.int64)
        less[constant] = self.facts.index.contains(tail, body, rules.end[constant])
        body, tail = rules.body[~constant], rules.tail[~constant]
        less[~constant] = self._not_through(tail, body)
        fewer = np.zeros(len(rules.body), dtype=np.int64)
        fewer[~constant] = self._only_own(relation, tail, body)
        support = np.maximum(rules.support - fewer, 0)
        rules = rules._replace(support=support, groundings=rules.groundings - less)
        least = np.where(constant, LEAST_CONFIDENCE, LEAST_OF_ANY)
        enough = rules.support >= least * (rules.groundings + PRIOR)
        return _chosen(rules, enough & (rules.support >= LEAST_SUPPORT))

    def _better_than_any_end(self, rules: Constant) -> Constant:
        """The rules without those that say no more with a constant than with anything there."""
        keys = rules.body * self.facts.num_entities + rules.tail
        general = np.flatnonzero(rules.end == NONE)
        general = general[np.argsort(keys[general])]
        general = np.append(general, -1)
        at = np.searchsorted(keys[general[:-1]], keys)
        other = general[at]
        same = (keys[other] == keys) & (other >= 0) & (rules.end != NONE)
        # by products, which are exact
        better = rules.support * (rules.groundings[other] + PRIOR) > rules.support[other] * (
            rules.groundings + PRIOR
        )
        return _chosen(rules, better | ~same)

    def _not_through(self, tails: Ints, body: Ints) -> Ints:
        """How many x have p(x, z) for no z but d, or are d itself."""
        index = self.facts.index
        own = (index.counts(tails, body) > 0).astype(np.int64)
        keys = tails * self.facts.num_relations + (body ^ 1)
        at = np.minimum(np.searchsorted(index.keys, keys), len(index.keys) - 1)
        through: Ints = own + self.singles[at] * (index.keys[at] == keys)
        return through

    def _only_own(self, relation: int, tails: Ints, body: Ints) -> Ints:
        """How many facts r(x, d) have p(x, d), but p(x, z) for no other z."""
        size = self.facts.num_relations
        pairs = self.facts.pairs
        places = self.facts.facts_of(relation)
        of_facts = pairs.of_fact[places]
        row, at = spread(pairs.offsets[of_facts], pairs.offsets[of_facts + 1])
        lonely = self.single[pairs.facts[at]]
        own = self.facts.index.all_tails[places][row[lonely]].astype(np.int64)
        keys, counts = counted(own * size + pairs.relations[at[lonely]])
        pair_keys = tails * size + body
        at = np.searchsorted(keys, pair_keys)
        hit = within(pair_keys, keys)
        found = np.zeros(len(tails), dtype=np.int64)
        found[hit] = counts[at[hit]]
        return found


def _best(rules: Constant, groups: Ints, most: int, most_of_any: int | None) -> Constant:
    """The best rules with a constant in each group, and of those with anything there."""
    confidence = confidence_of(rules.support, rules.groundings)
    order = np.lexsort((rules.tail, rules.end, rules.body, -rules.support, -confidence, groups))
    constant = rules.end[order] != NONE
    chosen = []
    for kind, limit in ((order[constant], most), (order[~constant], most_of_any)):
        rank = np.arange(len(kind)) - np.searchsorted(groups[kind], groups[kind])
        chosen.append(kind if limit is None else kind[rank < limit])
    return _chosen(rules, np.concatenate(chosen))


def _chosen(rules: Constant, places: Ints | Flags) -> Constant:
    """Some of the rules."""
    columns: list[Any] = [column[places] for column in rules]
    return Constant(*columns)
