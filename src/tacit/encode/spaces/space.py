"""The contract of query embeddings: states of questions, and operators on them."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Sequence

import torch
from torch import Tensor

from tacit.encode.spaces.matching import Matching, Slots
from tacit.encode.spaces.schedule import Operation, schedule_of
from tacit.errors import PlanError
from tacit.query.plans.plan import Plan

LACKS = {
    "union": "union of its own",
    "complement": "complement (Complement); ask without negation, or another model",
    "everything": "state of all entities (Everything); every variable needs an atom to an entity",
}


class Space(Matching):
    """A space of questions: a state is a row of numbers, and operators map states.

    A model is these functions and nothing else. How plans become batches of operators is the
    schedule's business, how logits become a loss that of the losses.
    """

    width: int  # numbers of a state, W
    unions = False  # whether it has a union of its own; else the branches of a union are kept apart

    @abstractmethod
    def anchor(self, entities: Tensor) -> Tensor:
        """The states of entities, `[n] -> [n, W]`."""

    @abstractmethod
    def project(self, states: Tensor, relations: Tensor) -> Tensor:
        """The projection of states by relations, `[n, W] x [n] -> [n, W]`."""

    @abstractmethod
    def intersect(self, states: Tensor) -> Tensor:
        """The intersection of k states, `[n, k, W] -> [n, W]`."""

    def union(self, states: Tensor) -> Tensor:
        """The union of k states, `[n, k, W] -> [n, W]`; only where `unions`."""
        raise self.lacks("union")

    def complement(self, states: Tensor) -> Tensor:
        """The complement of a state, `[n, W] -> [n, W]`."""
        raise self.lacks("complement")

    def everything(self) -> Tensor:
        """The state of all entities, `[W]`."""
        raise self.lacks("everything")

    def lacks(self, operator: str) -> PlanError:
        """The error for a question that needs an operator which the model does not have."""
        return PlanError(f"{self.name} has no {LACKS[operator]}")

    def check(self, plan: Plan) -> None:
        """Raise a `PlanError` that names the first step for which there is no operator."""
        kinds = {operation.kind for operation in schedule_of((plan,), self.unions).operations}
        for kind in sorted(kinds):
            if getattr(type(self), kind) is getattr(Space, kind):
                raise self.lacks(kind)

    def states(self, queries: Sequence[Slots]) -> list[list[Tensor]]:
        schedule = schedule_of(tuple(plan for plan, _, _ in queries), self.unions)
        values: dict[int, Tensor] = {}
        for step in schedule.steps:
            operations = [schedule.operations[number] for number in step]
            columns = zip(*(each.inputs for each in operations), strict=True)
            inputs = [torch.cat([values[number] for number in column]) for column in columns]
            sizes = [len(queries[each.plan][2]) for each in operations]
            states = self._step(operations, inputs, queries, sum(sizes))
            values.update(zip(step, states.split(sizes), strict=True))
        return [[values[branch] for branch in branches] for branches in schedule.outputs]

    def _step(
        self,
        operations: Sequence[Operation],
        inputs: list[Tensor],
        queries: Sequence[Slots],
        size: int,
    ) -> Tensor:
        """The states of a step: one call of an operator for all of its operations."""
        match operations[0].kind:
            case "anchor":
                ids = [queries[each.plan][1][:, each.slot] for each in operations]
                return self.anchor(torch.cat(ids))
            case "everything":
                return self.everything().expand(size, -1)
            case "project":
                relations = [
                    queries[each.plan][2][:, each.slot] ^ int(each.flip) for each in operations
                ]
                return self.project(inputs[0], torch.cat(relations))
            case "complement":
                return self.complement(inputs[0])
            case "union":
                return self.union(torch.stack(inputs, 1))
        return self.intersect(torch.stack(inputs, 1))
