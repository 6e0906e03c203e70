"""The contract of everything that turns a plan into scores, and the reasoners that search with a link predictor."""

from __future__ import annotations

from typing import Protocol, runtime_checkable

import torch
from torch import Tensor

from tacit.engine.atoms import Atoms
from tacit.engine.logic import Logic
from tacit.engine.messages import Messages
from tacit.errors import SettingsError
from tacit.query.plan import Plan, Relation, Row

CPU_MEMORY, CUDA_MEMORY = 2.0, 8.0  # GB, where nothing else is asked for


@runtime_checkable
class Reasoner(Protocol):
    """Scores every entity as an answer, for a batch of queries of one structure."""

    num_entities: int

    def scores(self, plan: Plan, entities: Tensor, relations: Tensor) -> Tensor:
        """Log-scores `[B, N]` of queries whose slots hold `entities[B, E]` and `relations[B, R]`."""

    def ranking(self, plan: Plan, entities: Tensor, relations: Tensor) -> Tensor:
        """Values `[B, N]` that order the entities as the scores do, with no tie that rounding made."""


class MessageReasoner:
    """Exact search, or beam search with the `k` best candidates of every variable."""

    def __init__(self, atoms: Atoms, logic: Logic, k: int | None = None, memory: float | None = None) -> None:
        if k is not None and k < 1:
            raise SettingsError(f"the beam must keep at least 1 candidate, not {k}; for all of them search exactly")
        if memory is not None and not memory > 0:
            raise SettingsError(f"the memory budget must be a positive number of GB, not {memory}")
        self.atoms, self.logic, self.k = atoms, logic, k
        self.num_entities = atoms.num_entities
        self.device = atoms.device
        if memory is None:
            memory = CUDA_MEMORY if self.device.type == "cuda" else CPU_MEMORY
        self.memory = int(memory * 1e9)

    def scores(self, plan: Plan, entities: Tensor, relations: Tensor) -> Tensor:
        """Log-scores of every entity, `[B, N]`; batches that would not fit in memory are cut."""
        at_once = self.batch(plan)
        if len(relations) <= at_once:
            return self._some(plan, entities, relations)
        out = torch.empty(len(relations), self.num_entities, device=self.device)
        for i in range(0, len(relations), at_once):
            out[i : i + at_once] = self._some(plan, entities[i : i + at_once], relations[i : i + at_once])
        return out

    def ranking(self, plan: Plan, entities: Tensor, relations: Tensor) -> Tensor:
        """The scores; for a single atom the raw logits, known facts first, since calibration only rounds them."""
        match plan.root:
            case Row(slot, Relation(relation, flip)) if self.atoms.calibration.monotone:
                heads = entities[:, slot].to(self.device)
                ids = relations[:, relation].to(self.device) ^ int(flip)
                return self.atoms.ordering(heads, ids)
        return self.scores(plan, entities, relations)

    def bounds(self, plan: Plan, entities: Tensor, relations: Tensor) -> tuple[Tensor, Tensor]:
        """A lower and an upper bound of every exact score, `[B, N]` each."""
        twice = self.messages(entities.repeat(2, 1), relations.repeat(2, 1))
        twice.bounds = True
        lower, upper = twice.full(twice.value(plan.root)).chunk(2)
        return lower, upper

    def messages(self, entities: Tensor, relations: Tensor) -> Messages:
        """The evaluation of a batch, node by node."""
        entities, relations = entities.to(self.device).long(), relations.to(self.device).long()
        return Messages(self.atoms, self.logic, entities, relations, self.k, self.memory // 2)

    def batch(self, plan: Plan) -> int:
        """How many queries of a plan fit in memory at once: each live set is a row of N floats."""
        live = 4 + plan.num_relations
        return max(1, self.memory // (2 * live * 4 * self.num_entities))

    def _some(self, plan: Plan, entities: Tensor, relations: Tensor) -> Tensor:
        messages = self.messages(entities, relations)
        return messages.full(messages.value(plan.root))
