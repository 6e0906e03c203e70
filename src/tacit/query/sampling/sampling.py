"""Samples queries of any shape from any graph, with their easy and hard answers."""

from __future__ import annotations

import sys
import zlib
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from tacit.errors import SettingsError
from tacit.graph.fact_index import Ints
from tacit.graph.graph import Graph
from tacit.query.plans.plan import Complement, Everything, NodeOrEdge, map_children, single_atom
from tacit.query.plans.sets import AnswerSets, Flags, Ids
from tacit.query.plans.symbolic import answers
from tacit.query.sampling.grounding import Grounding
from tacit.query.sampling.hardness import missing_links, most_links
from tacit.query.sampling.queries import GRAPHS, QuerySet
from tacit.query.sampling.settings import SampleSettings
from tacit.query.sampling.shapes import Shape

MAX_ANSWERS = 80  # as in BetaE's files for NELL995
_SPARE = "more than asked for"
# tries made at once
_FEWEST = 256
_MOST = 4096
# times the tries that a query may take: after so many without a query not seen before it ends
_IN_VAIN = 100


@dataclass(frozen=True)
class Sample:
    """Sampled queries, the number of tries, and the rejected tries by reason."""

    queries: QuerySet
    asked: int
    tries: int
    turned_down: dict[str, int] = field(default_factory=dict, hash=False)

    @property
    def complete(self) -> bool:
        """Whether as many queries were found as requested."""
        return len(self.queries) == self.asked

    @property
    def share(self) -> float:
        """The share of tries that were kept."""
        spare = self.turned_down.get(_SPARE, 0)
        return (len(self.queries) + spare) / max(1, self.tries)

    def __str__(self) -> str:
        reasons = sorted(self.turned_down.items(), key=lambda reason: -reason[1])
        why = ", ".join(f"{number:,} {reason}" for reason, number in reasons if number)
        return (
            f"{self.queries.name}: {len(self.queries):,} of {self.asked:,} queries in "
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
    `valid` or `test` is kept with 1 to `max_answers` (80) hard answers; where it has a negation,
    facts of the split must take away at least one easy answer, and at most `max_answers`. A query
    of `train` is kept with any answers, or at most `max_answers`; where it has a negation, that
    must take away at least one. Sampling ends early, with fewer queries than asked for, when more
    than a share `waste` of the tries would have to be turned down, or when they find nothing that
    was not drawn before; the sample says so. Branches that could change places are put in the order
    of their ids, so that a question occurs once; where `mirrored`, they stay as drawn and `a & b`
    is another query than `b & a`, as in BetaE's files.

    With `missing`, 2 or "2+", the hard answers are those that exactly, or at least, so many links
    must be predicted for beside the facts before the split (`hardness.py`); a query has 1 to
    `max_answers` of them. Its other hard answers are kept as easy ones, so that nobody is asked to
    find them, and they do not compete.
    """
    chosen = SampleSettings.of({**settings, "split": split, "count": count})
    if not len(graph.split(split)):
        raise SettingsError(
            f"the graph has no {split} facts to ask about; split some off", command="data split"
        )
    links = None if chosen.missing is None else links_wanted(chosen.missing, split)
    if links is not None and not can_miss(shape, links):
        raise SettingsError(
            f"missing is {chosen.missing}, but answers of {shape.name} miss at most "
            f"{most_links(shape.plan.root)}; choose other shapes",
            "missing",
        )
    most_answers = chosen.max_answers or (None if split == "train" else MAX_ANSWERS)
    search = _Search(graph, shape, split, most_answers, mirrored, links)
    # Each shape has a generator of its own, so that a sample does not depend on other shapes.
    random = np.random.default_rng([chosen.seed, zlib.crc32(shape.name.encode())])
    most = round(count / (1 - chosen.waste))
    batches: list[QuerySet] = []
    num_kept = tries = stale = 0
    patience = _IN_VAIN * round(1 / (1 - chosen.waste))  # a small graph has no more than it has
    while num_kept < count and tries < most and stale < patience:
        share = max(num_kept, 1) / max(tries, 1)
        size = int(min(max((count - num_kept) / share, _FEWEST), _MOST, most - tries))
        before = len(search.seen)
        good = search.attempt(size, random)
        stale = stale + size if len(search.seen) == before else 0
        chosen_queries = good[: count - num_kept]
        search.turn_down(_SPARE, len(good) - len(chosen_queries))
        batches.append(chosen_queries)
        num_kept = num_kept + len(chosen_queries)
        tries = tries + size
        if progress:
            progress(num_kept)
    return Sample(_joined(batches), count, tries, search.turned_down)


class _Search:
    """Tries to sample queries of one shape and split, and counts rejections by reason."""

    def __init__(
        self,
        graph: Graph,
        shape: Shape,
        split: str,
        max_answers: int | None,
        mirrored: bool,
        links: range | None,
    ) -> None:
        smaller, larger = GRAPHS[split]
        self.graph = graph
        self.split = split
        self.links = links
        self.shape = shape
        self.num_entities = graph.num_entities
        self.max_answers = max_answers
        self.mirrored = mirrored
        self.larger = graph.index(*larger)
        self.smaller = graph.index(*smaller) if smaller else None
        self.facts = graph.index(split)
        self.heads = np.flatnonzero(np.bincount(self.larger.heads))
        positive = without_negation(shape.plan.root)
        self.positive = None if positive == shape.plan.root else replace(shape.plan, root=positive)
        self.seen: set[bytes] = set()
        self.turned_down: dict[str, int] = {}

    def attempt(self, size: int, random: np.random.Generator) -> QuerySet:
        """The queries to keep among some tries."""
        entities, relations = self._draw(size, random)
        fresh = self._kept(self._fresh(entities, relations), "seen before")
        entities = entities[fresh]
        relations = relations[fresh]
        every = answers(self.shape.plan, entities, relations, self.larger, self.num_entities)
        easy, lost = self._easy_and_lost(entities, relations, every)
        query_set = QuerySet(self.shape, entities, relations, easy, every.minus(easy))
        hard = "an answer" if self.smaller is None else "a hard answer"
        good = self._kept(query_set.hard.counts > 0, f"without {hard}")
        if self.positive:
            good = good[self._kept(lost[good] > 0, "lost nothing to the negation")]
        if self.links is not None:
            query_set = self._missing(query_set, self.links)
            good = good[
                self._kept(
                    query_set.hard.counts[good] > 0, "without an answer that misses so many links"
                )
            ]
        if self.max_answers:
            most = (
                query_set.hard.counts
                if self.smaller is None
                else np.maximum(query_set.hard.counts, lost)
            )
            good = good[self._kept(most[good] <= self.max_answers, "with too many answers")]
        return query_set.subset(good)

    def _missing(self, queries: QuerySet, links: range) -> QuerySet:
        """The queries with only answers that miss that many links as hard, others easy."""
        costs = missing_links(queries, self.graph, self.split)
        size = self.num_entities
        mask = (costs >= links.start) & (costs < links.stop)
        known = np.union1d(queries.easy.keys(size), queries.hard.where(~mask).keys(size))
        easy = AnswerSets.of_keys(known, len(queries), size)
        return replace(queries, easy=easy, hard=queries.hard.where(mask))

    def _draw(self, size: int, random: np.random.Generator) -> tuple[Ids, Ids]:
        """Slots filled at random."""
        atom = single_atom(self.shape.plan.root)
        if atom is not None:
            # As in BetaE's files, every (entity, relation) of the split is equally likely.
            keys = self.facts.keys[random.integers(0, len(self.facts.keys), size)]
            entities, relations = np.divmod(keys[:, None], self.facts.num_relations)
            return entities.astype(np.int32), relations.astype(np.int32) ^ atom[1].flip
        targets = self.heads[random.integers(0, len(self.heads), size)]
        ground = Grounding(self.shape.plan, self.larger, self.num_entities, targets, random)
        drawn = ground.entities.copy(), ground.relations.copy()
        twice = ground.put_in_order()
        entities, relations = drawn if self.mirrored else (ground.entities, ground.relations)
        good = self._kept(ground.alive, "led nowhere")
        good = good[self._kept(~twice[good], "asked the same twice")]
        return entities[good], relations[good]

    def _easy_and_lost(
        self, entities: Ids, relations: Ids, every: AnswerSets
    ) -> tuple[AnswerSets, Ints]:
        """The easy answers, and how many answers the negation takes away."""
        if self.smaller is not None:
            easy = answers(self.shape.plan, entities, relations, self.smaller, self.num_entities)
            return easy, easy.minus(every).counts
        easy = AnswerSets.none(len(every))
        if self.positive is None:
            return easy, easy.counts
        without = answers(self.positive, entities, relations, self.larger, self.num_entities)
        return easy, without.minus(every).counts

    def _kept(self, mask: Flags, reason: str) -> Ints:
        """The rows a mask keeps; the others are counted under a reason."""
        self.turn_down(reason, int((~mask).sum()))
        return np.flatnonzero(mask)

    def turn_down(self, reason: str, number: int) -> None:
        """Counts tries turned down for a reason."""
        self.turned_down[reason] = self.turned_down.get(reason, 0) + number

    def _fresh(self, entities: Ids, relations: Ids) -> Flags:
        """Whether each query is seen for the first time."""
        rows = np.concatenate([entities, relations], axis=1)
        fresh = np.zeros(len(rows), dtype=bool)
        for i, row in enumerate(rows):
            key = row.tobytes()
            fresh[i] = key not in self.seen
            self.seen.add(key)
        return fresh


def links_wanted(missing: int | str, split: str = "test") -> range:
    """The range of missing links for a hard answer: 2 means two, "2+" two or more.

    >>> links_wanted(2), 7 in links_wanted("2+")
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


def _joined(sets: list[QuerySet]) -> QuerySet:
    """Concatenates sets of queries of one shape."""

    def together(parts: list[AnswerSets]) -> AnswerSets:
        counts = np.concatenate([[0], *(part.counts for part in parts)])
        return AnswerSets(np.cumsum(counts), np.concatenate([part.ids for part in parts]))

    return QuerySet(
        sets[0].shape,
        np.concatenate([drawn.entities for drawn in sets]),
        np.concatenate([drawn.relations for drawn in sets]),
        together([drawn.easy for drawn in sets]),
        together([drawn.hard for drawn in sets]),
    )
