"""Samples queries of any shape from any graph, with their easy and hard answers."""

from __future__ import annotations

import sys
import zlib
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any

import numpy as np

from tacit.errors import SettingsError
from tacit.graph.fact_index import Flags, Ids, Ints
from tacit.graph.graph import SPLITS, Graph
from tacit.query.plans.plan import (
    Complement,
    Difference,
    Everything,
    NodeOrEdge,
    Plan,
    Within,
    map_children,
    single_atom,
)
from tacit.query.plans.sets import AnswerSets
from tacit.query.plans.symbolic import answers
from tacit.query.sampling.grounding import Grounding
from tacit.query.sampling.hardness import missing_links, most_links
from tacit.query.sampling.queries import GRAPHS, QuerySet
from tacit.query.sampling.settings import SampleSettings
from tacit.query.sampling.shapes import Shape

MAX_ANSWERS = 80  # as in BetaE's files for NELL995
_SPARE = "more than asked for"
# tries of a batch
_FEWEST = 256
_MOST = 4096
_PATIENCE = 100  # times the tries that a query may take, before sampling ends without a new one


@dataclass(frozen=True)
class Sample:
    """Sampled queries, the number of tries, and the rejected tries by reason."""

    queries: QuerySet
    requested: int
    tries: int
    rejected: dict[str, int] = field(default_factory=dict, hash=False)

    @property
    def complete(self) -> bool:
        """Whether it has as many queries as were requested."""
        return len(self.queries) == self.requested

    @property
    def share(self) -> float:
        """The share of tries that gave a query."""
        spare = self.rejected.get(_SPARE, 0)
        return (len(self.queries) + spare) / max(1, self.tries)

    def __str__(self) -> str:
        reasons = sorted(self.rejected.items(), key=lambda reason: -reason[1])
        why = ", ".join(f"{number:,} {reason}" for reason, number in reasons if number)
        return (
            f"{self.queries.name}: {len(self.queries):,} of {self.requested:,} queries in "
            f"{self.tries:,} tries ({self.share:.1%} good{'; ' + why if why else ''})"
        )


def sample(
    graph: Graph,
    shape: Shape,
    split: str = "train",
    count: int = 1000,
    *,
    mirrored: bool = False,
    progress: Callable[[int], None] | None = None,
    **settings: Any,
) -> Sample:
    """Samples distinct queries of a shape that facts of a split answer.

    All settings are those of `SampleSettings`.

    Slots are filled backwards from a random entity over the facts up to the split. A query of
    `valid` or `test` has 1 to `max_answers` (80) hard answers; if it has a negation, facts of the
    split take away 1 to `max_answers` easy answers. A query of `train` has any number of answers,
    or at most `max_answers`; if it has a negation, that takes away at least one. Sampling ends
    early, with fewer queries, when more than a share `waste` of the tries would be rejected, or
    when they give no new query; the sample says so. Interchangeable branches are put in the order
    of their ids, so that a question occurs once; where `mirrored`, `a & b` is another query than
    `b & a`, as in BetaE's files.

    With `missing`, 2 or "2+", a query has 1 to `max_answers` hard answers that exactly, or at
    least, so many links must be predicted for beside the facts before the split (`hardness.py`).
    Its other hard answers count as easy ones, so that they are not ranked and do not compete.
    """
    options = SampleSettings.of({**settings, "split": split, "count": count})
    values = any(graph.attributes.rows["split"] == SPLITS.index(split))
    if not len(graph.split(split)) and not (values and shape.plan.has(Within, Difference)):
        raise SettingsError(
            f"the graph has no {split} facts to ask about; split some off", command="data split"
        )
    links = None if options.missing is None else missing_range(options.missing, split)
    if links is not None and not can_miss(shape, links):
        raise SettingsError(
            f"missing is {options.missing}, but answers of {shape.name} miss at most "
            f"{most_links(shape.plan.root)}; choose other shapes",
            "missing",
        )
    max_answers = options.max_answers or (None if split == "train" else MAX_ANSWERS)
    # Each shape has a generator of its own, so that a sample does not depend on other shapes.
    random = np.random.default_rng([options.seed, zlib.crc32(shape.name.encode())])
    sampler = _Sampler(shape, graph, split, max_answers, links, mirrored, random)
    most = round(count / (1 - options.waste))
    patience = _PATIENCE * round(1 / (1 - options.waste))
    batches: list[QuerySet] = []
    num_found = tries = stale = 0
    while num_found < count and tries < most and stale < patience:
        share = max(num_found, 1) / max(tries, 1)
        size = int(min(max((count - num_found) / share, _FEWEST), _MOST, most - tries))
        num_keys = len(sampler.keys)
        accepted = sampler.attempt(size)
        stale = stale + size if len(sampler.keys) == num_keys else 0
        batches.append(accepted[: count - num_found])
        sampler.rejected[_SPARE] += len(accepted) - len(batches[-1])
        num_found += len(batches[-1])
        tries += size
        if progress:
            progress(num_found)
    return Sample(_concatenated(batches), count, tries, dict(sampler.rejected))


@dataclass(eq=False)
class _Sampler:
    """Draws queries of one shape and split, and counts the rejected tries by reason."""

    shape: Shape
    graph: Graph
    split: str
    max_answers: int | None
    links: range | None
    mirrored: bool
    random: np.random.Generator
    keys: set[bytes] = field(default_factory=set)
    rejected: Counter[str] = field(default_factory=Counter)

    def attempt(self, size: int) -> QuerySet:
        """The accepted queries among some tries."""
        entities, relations = self._draw(size)
        unseen = self._accept(self._unseen(entities, relations), "seen before")
        entities = entities[unseen]
        relations = relations[unseen]

        def answers_of(plan: Plan, splits: Sequence[str]) -> AnswerSets:
            index, values = self.graph.index(*splits), self.graph.values(*splits)
            return answers(plan, entities, relations, index, self.graph.num_entities, values)

        plan = self.shape.plan
        negated = plan.has(Complement)
        smaller, larger = GRAPHS[self.split]
        both = answers_of(plan, larger)
        easy = answers_of(plan, smaller) if smaller else AnswerSets.none(len(both))
        positive = easy  # the answers some of which the negation must take away
        if negated and not smaller:
            positive = answers_of(replace(plan, root=without_negation(plan.root)), larger)
        retracted = positive.minus(both).counts
        queries = QuerySet(self.shape, entities, relations, easy, both.minus(easy))
        hard = "a hard answer" if smaller else "an answer"
        rows = self._accept(queries.hard.counts > 0, f"without {hard}")
        if negated:
            rows = rows[self._accept(retracted[rows] > 0, "lost nothing to the negation")]
        if self.links is not None:
            queries = self._by_missing(queries, self.links)
            reason = "without an answer that misses so many links"
            rows = rows[self._accept(queries.hard.counts[rows] > 0, reason)]
        if self.max_answers:
            counts = queries.hard.counts
            most = np.maximum(counts, retracted) if smaller else counts
            rows = rows[self._accept(most[rows] <= self.max_answers, "with too many answers")]
        return queries.subset(rows)

    def _by_missing(self, queries: QuerySet, links: range) -> QuerySet:
        """The same queries; hard answers that miss another number of links become easy."""
        costs = missing_links(queries, self.graph, self.split)
        size = self.graph.num_entities
        mask = (costs >= links.start) & (costs < links.stop)
        easy = np.union1d(queries.easy.keys(size), queries.hard.where(~mask).keys(size))
        return replace(
            queries,
            easy=AnswerSets.of_keys(easy, len(queries), size),
            hard=queries.hard.where(mask),
        )

    def _draw(self, size: int) -> tuple[Ids, Ids]:
        """Slots filled at random."""
        atom = single_atom(self.shape.plan.root)
        if atom is not None:
            # As in BetaE's files, every (entity, relation) of the split is equally likely.
            facts = self.graph.index(self.split)
            keys = facts.keys[self.random.integers(0, len(facts.keys), size)]
            entities, relations = np.divmod(keys[:, None], facts.num_relations)
            return entities.astype(np.int32), relations.astype(np.int32) ^ atom[1].flip
        targets = self._heads[self.random.integers(0, len(self._heads), size)]
        index = self.graph.index(*GRAPHS[self.split][1])
        values = self.graph.values(*GRAPHS[self.split][1])
        plan = self.shape.plan
        ground = Grounding(plan, index, self.graph.num_entities, targets, self.random, values)
        unordered = ground.entities.copy(), ground.relations.copy()
        repeated = ground.put_in_order(self.shape.plan.root)
        entities, relations = unordered if self.mirrored else (ground.entities, ground.relations)
        rows = self._accept(ground.alive, "led nowhere")
        rows = rows[self._accept(~repeated[rows], "asked the same twice")]
        return entities[rows], relations[rows]

    @cached_property
    def _heads(self) -> Ints:
        """The entities with facts, which may be answers."""
        return np.flatnonzero(np.bincount(self.graph.index(*GRAPHS[self.split][1]).heads))

    def _accept(self, mask: Flags, reason: str) -> Ints:
        """The rows that a mask accepts; the others are counted under a reason."""
        self.rejected[reason] += int((~mask).sum())
        return np.flatnonzero(mask)

    def _unseen(self, entities: Ids, relations: Ids) -> Flags:
        """Whether each query comes for the first time."""
        unseen = np.zeros(len(entities), dtype=bool)
        for i, row in enumerate(np.concatenate([entities, relations], axis=1)):
            key = row.tobytes()
            unseen[i] = key not in self.keys
            self.keys.add(key)
        return unseen


def missing_range(missing: int | str, split: str = "test") -> range:
    """The range of missing links for a hard answer: 2 means two, "2+" two or more.

    >>> missing_range(2), 7 in missing_range("2+")
    (range(2, 3), True)
    """
    number = str(missing).removesuffix("+")
    if not GRAPHS[split][0]:
        raise SettingsError(
            f"missing is {missing}, but nothing is known before the {split} facts; give valid or "
            "test",
            "missing",
        )
    return range(int(number), sys.maxsize if str(missing).endswith("+") else int(number) + 1)


def can_miss(shape: Shape, links: range) -> bool:
    """Whether questions of a shape may have answers with that many missing links."""
    return most_links(shape.plan.root) >= links.start


def without_negation(step: NodeOrEdge) -> NodeOrEdge:
    """The same step with every negation replaced by everything."""
    return Everything() if isinstance(step, Complement) else map_children(step, without_negation)


def _concatenated(sets: Sequence[QuerySet]) -> QuerySet:
    """Sets of queries of one shape, in one set."""

    def joint(parts: Sequence[AnswerSets]) -> AnswerSets:
        counts = np.concatenate([part.counts for part in parts])
        return AnswerSets.of_counts(counts, np.concatenate([part.ids for part in parts]))

    return QuerySet(
        sets[0].shape,
        np.concatenate([each.entities for each in sets]),
        np.concatenate([each.relations for each in sets]),
        joint([each.easy for each in sets]),
        joint([each.hard for each in sets]),
    )
