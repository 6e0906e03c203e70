"""The queries that an adapter learns from: their sources, batches and literals."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from operator import itemgetter
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from tacit.adapt.settings import AdaptSettings
from tacit.engine.atoms.atoms import Atoms
from tacit.engine.atoms.known_facts import KnownTails
from tacit.engine.logic import Logic
from tacit.errors import DataError
from tacit.graph.fact_index import Ints
from tacit.graph.graph import Graph
from tacit.query.plans.plan import Complement, Plan, Relation, conjuncts, single_atom
from tacit.query.sampling.queries import QuerySet, QuerySets, has_queries, without_queries
from tacit.query.sampling.query_folder import queries_for
from tacit.query.sampling.sampling import sample
from tacit.query.sampling.shapes import SHAPES

# an entity slot, a relation slot, and whether their atom is negated
Literal = tuple[int, Relation, bool]
QuerySource = str | Path | QuerySets | None


def training_queries(
    graph: Graph, settings: AdaptSettings, source: QuerySource = None, count: int = 5000
) -> QuerySets:
    """The queries to learn from, with their answers: query sets, or those of a folder.

    Missing shapes of a folder are sampled.
    """
    if not (source is None or isinstance(source, str | Path)):
        return source  # checked where it is learned from
    split = "valid" if settings.with_derived(len(graph.valid) > 0).held_out else "train"
    if source and split == "valid" and not has_queries(source, split):
        if not has_queries(source, "train"):
            raise without_queries(source, split)
        raise DataError(
            "has no valid-queries.pkl, but train queries; learn from those by `held_out=False`",
            source,
        )
    return _queries_for(graph, source, split, settings.shapes, count, settings.seed)


def validation_queries(
    graph: Graph, settings: AdaptSettings, source: QuerySource = None
) -> QuerySets | None:
    """Queries for validation; None if they must be split off the training queries."""
    if not (source is None or isinstance(source, str | Path)) or not len(graph.valid):
        return None
    if settings.with_derived(1).held_out:
        return None
    folder = source if source is not None and has_queries(source, "valid") else None
    return _queries_for(
        graph, folder, "valid", settings.shapes, settings.validate_queries, settings.seed + 1
    )


def set_apart(
    queries: QuerySets, limit: int, random: np.random.Generator
) -> tuple[dict[str, QuerySet], dict[str, QuerySet]]:
    """Split queries for training and validation: a tenth of each set, at most `limit`.

    A question that a file lists twice, with its branches swapped, stays on one side.
    """
    training = {}
    validation = {}
    for name, query_set in queries.items():
        order = random.permutation(len(query_set))
        valid, train = np.split(order, [min(limit, len(query_set) // 10)])
        question = _question(query_set)
        train = train[~np.isin(question[train], question[valid])]
        validation[name] = query_set.subset(np.sort(valid))
        training[name] = query_set.subset(np.sort(train))
    return training, validation


def _question(queries: QuerySet) -> NDArray[np.int64]:
    """A number for each query, equal for the same ids in any order with the same answers."""
    columns: list[NDArray[Any]] = [np.sort(queries.entities, 1), np.sort(queries.relations, 1)]
    columns += [
        np.bincount(answers.rows, weights, len(queries))[:, None]
        for answers in (queries.easy, queries.hard)
        for weights in (np.ones(len(answers.ids)), answers.ids)
    ]
    numbers: NDArray[np.int64] = np.unique(np.hstack(columns), axis=0, return_inverse=True)[
        1
    ].reshape(-1)
    return numbers


def _queries_for(
    graph: Graph,
    folder: str | Path | None,
    split: str,
    shapes: Sequence[str],
    count: int,
    seed: int,
) -> dict[str, QuerySet]:
    """Queries of a folder, and sampled ones of its missing shapes."""
    queries = {} if folder is None else queries_for(graph, folder, split, shapes, absent_ok=True)
    for name in shapes:
        if name not in queries:
            sampled = sample(graph, SHAPES[name], split, count, seed=seed).queries
            if len(sampled):
                queries[name] = sampled
    return {name: queries[name] for name in shapes if name in queries}


@dataclass(frozen=True, eq=False)
class Batch:
    """Some queries, each with the answer that the loss targets."""

    queries: QuerySet
    targets: NDArray[np.int64]  # [Q]

    def __len__(self) -> int:
        return len(self.targets)

    def parts(self, size: int) -> list[Batch]:
        """The batch cut into parts of at most `size` queries."""
        return [
            Batch(self.queries[start : start + size], self.targets[start : start + size])
            for start in range(0, len(self), size)
        ]

    def slots(self, device: torch.device) -> list[Tensor]:
        """Entities, relations and targets as tensors."""
        return _tensors(device, self.queries.entities, self.queries.relations, self.targets)

    def excluded(self, masked: bool, device: torch.device) -> KnownTails:
        """The entities left out of the loss: the target or, if masked, all answers."""
        rows = np.arange(len(self))
        ids = self.targets
        if masked:
            answers = self.queries.easy, self.queries.hard
            rows = np.concatenate([each.rows for each in answers])
            ids = np.concatenate([each.ids for each in answers])
        return KnownTails(*_tensors(device, rows, ids))

    def negatives(self, num_entities: int, random: np.random.Generator) -> Ints:
        """A random entity per query that is none of its answers."""
        easy = self.queries.easy.keys(num_entities)
        hard = self.queries.hard.keys(num_entities)
        answers = np.concatenate([easy, hard])
        negatives = np.empty(len(self), dtype=np.int64)
        open_rows = np.arange(len(self))
        while len(open_rows):
            negatives[open_rows] = random.integers(0, num_entities, len(open_rows))
            keys = open_rows * num_entities + negatives[open_rows]
            open_rows = open_rows[np.isin(keys, answers)]
        return negatives


def _tensors(device: torch.device, *columns: NDArray[np.integer]) -> list[Tensor]:
    return [torch.from_numpy(column.astype(np.int64)).to(device) for column in columns]


class Batches:
    """Draws queries with hard answers and non-answers, each once per epoch."""

    def __init__(self, queries: QuerySet, num_entities: int, random: np.random.Generator) -> None:
        counts = queries.hard.counts
        self.queries = queries.subset(
            np.flatnonzero((counts > 0) & (counts + queries.easy.counts < num_entities))
        )
        self._random = random
        self.order = np.empty(0, dtype=np.int64)  # the queries still to come

    def __len__(self) -> int:
        return len(self.queries)

    def draw(self, size: int) -> Batch:
        """The next queries, each with one of its hard answers."""
        if len(self.order) < size:
            rounds = range(-((len(self.order) - size) // len(self)))
            orders = [self._random.permutation(len(self)) for _ in rounds]
            self.order = np.concatenate([self.order, *orders])
        queries = self.queries.subset(self.order[:size])
        self.order = self.order[size:]
        answers = queries.hard
        places = (self._random.random(size) * answers.counts).astype(np.int64)
        targets = answers.ids[answers.offsets[:-1] + places]
        return Batch(queries, targets.astype(np.int64))


def literals(plan: Plan) -> list[Literal] | None:
    """The literals of a plan that only intersects literals, positive ones first, or None."""
    atoms = []
    for part in conjuncts(plan.root):
        affirmed = part.part if isinstance(part, Complement) else part
        atom = single_atom(affirmed)
        if atom is None:
            return None
        atoms.append((*atom, affirmed is not part))
    return sorted(atoms, key=itemgetter(2))


class Conjunctions:
    """The queries of a batch as literals: keys of rows, known tails and excluded entities."""

    def __init__(self, batch: Batch, masked: bool, atoms: Atoms) -> None:
        parts = literals(batch.queries.shape.plan) or ()
        entities, relations, self.targets = batch.slots(torch.device("cpu"))
        heads = torch.cat([entities[:, slot] for slot, _, _ in parts])  # [A · Q]
        ids = torch.cat(
            [relations[:, relation.slot] ^ int(relation.flip) for _, relation, _ in parts]
        )
        self.keys: Ints = (heads * atoms.scorer.num_relations + ids).numpy()
        self.shape = len(parts), len(batch)
        self.positive = sum(not negated for _, _, negated in parts)
        self.excluded = batch.excluded(masked, atoms.device)
        self.known: tuple[Tensor, Tensor] | None = None  # rows and tails, in no order
        self._fixed: Tensor | None = None  # [A, Q], atoms of the targets that are known
        self.observed = atoms.observed
        if atoms.facts is not None:
            self.known = atoms.facts.tails(heads.to(atoms.device), ids.to(atoms.device))
            targets = self.targets.repeat(len(parts))
            known = atoms.facts.index.contains(*(each.numpy() for each in (heads, ids, targets)))
            self._fixed = torch.from_numpy(known).view(self.shape).to(atoms.device)

    def combine(self, scores: Tensor, logic: Logic) -> Tensor:
        """`log S` at the targets from the log-scores of their atoms, `[A, Q] -> [Q]`."""
        if self._fixed is not None:
            scores = scores.masked_fill(self._fixed, self.observed)
        negated = [logic.negation(score) for score in scores[self.positive :]]
        return logic.all([*scores[: self.positive], *negated])
