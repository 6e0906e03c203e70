"""Queries that intersect atoms and negated atoms, as lists of literals."""

from __future__ import annotations

from operator import itemgetter

import torch
from torch import Tensor

from tacit.adapt.query_batches import Batch
from tacit.engine.atoms.atoms import Atoms
from tacit.engine.logic import Logic
from tacit.graph.fact_index import Ints
from tacit.query.plans.plan import Complement, Plan, Relation, conjuncts, single_atom

# an entity slot, a relation slot, and whether their atom is negated
Literal = tuple[int, Relation, bool]


def literals(plan: Plan) -> list[Literal] | None:
    """The literals of a plan that only intersects literals, positive ones first, or None."""
    listed = []
    for part in conjuncts(plan.root):
        affirmed = part.part if isinstance(part, Complement) else part
        atom = single_atom(affirmed)
        if atom is None:
            return None
        listed.append((*atom, affirmed is not part))
    return sorted(listed, key=itemgetter(2))


class Conjunctions:
    """The queries of a batch as literals: keys of rows, known tails and excluded entities."""

    def __init__(self, batch: Batch, masked: bool, atoms: Atoms) -> None:
        listed = literals(batch.queries.shape.plan) or ()
        entities, relations, self.targets = batch.slots(torch.device("cpu"))
        heads = torch.cat([entities[:, slot] for slot, _, _ in listed])  # [A · Q]
        ids = torch.cat(
            [relations[:, relation.slot] ^ int(relation.flip) for _, relation, _ in listed]
        )
        self.keys: Ints = (heads * atoms.scorer.num_relations + ids).numpy()
        self.shape = len(listed), len(batch)
        self.positive = sum(not negated for _, _, negated in listed)
        self.excluded = batch.excluded(masked, atoms.device)
        self.known: tuple[Tensor, Tensor] | None = None  # rows and tails, in no order
        self._fixed: Tensor | None = None  # [A, Q], atoms of the targets that are known
        self.observed = atoms.observed
        if atoms.facts is not None:
            self.known = atoms.facts.tails(heads.to(atoms.device), ids.to(atoms.device))
            targets = self.targets.repeat(len(listed))
            known = atoms.facts.index.contains(*(each.numpy() for each in (heads, ids, targets)))
            self._fixed = torch.from_numpy(known).view(self.shape).to(atoms.device)

    def combined(self, scores: Tensor, logic: Logic) -> Tensor:
        """`log S` at the targets from the log-scores of their atoms, `[A, Q] -> [Q]`."""
        if self._fixed is not None:
            scores = scores.masked_fill(self._fixed, self.observed)
        negated = [logic.negation(score) for score in scores[self.positive :]]
        return logic.all([*scores[: self.positive], *negated])
