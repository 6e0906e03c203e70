"""Batches of queries with one right answer each, and those that only intersect literals."""

from __future__ import annotations

from dataclasses import dataclass
from operator import itemgetter

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from tacit.engine.atoms.atoms import Atoms
from tacit.engine.atoms.known_facts import KnownTails
from tacit.engine.logic import Logic
from tacit.graph.fact_index import Ints
from tacit.query.plans.plan import Complement, Plan, Relation, conjuncts, single_atom
from tacit.query.sampling.queries import QuerySet

# an entity slot, a relation slot, and whether their atom is negated
Literal = tuple[int, Relation, bool]


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

    def slots(self, device: torch.device) -> tuple[Tensor, Tensor, Tensor]:
        """Entities, relations and targets as tensors."""
        queries = self.queries
        entities, relations, targets = _tensors(
            device, queries.entities, queries.relations, self.targets
        )
        return entities, relations, targets

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

    def combined(self, scores: Tensor, logic: Logic) -> Tensor:
        """`log S` at the targets from the log-scores of their atoms, `[A, Q] -> [Q]`."""
        if self._fixed is not None:
            scores = scores.masked_fill(self._fixed, self.observed)
        negated = [logic.negation(score) for score in scores[self.positive :]]
        return logic.all([*scores[: self.positive], *negated])
