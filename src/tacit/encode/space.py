"""The contract of query embeddings: spaces whose points stand for questions, and operators on them."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Sequence

import torch
from torch import Tensor

from tacit.encode.encoder import Drawn, Encoder
from tacit.encode.losses import LOSSES
from tacit.encode.schedule import Schedule, schedule_of
from tacit.encode.settings import EncodeSettings
from tacit.errors import PlanError
from tacit.query.plan import Plan

Slots = tuple[Plan, Tensor, Tensor]  # a plan with the entities [n, E] and the relations [n, R] of its queries


class Space(Encoder):
    """Where questions live: a state is one row of numbers, and operators map states to states, row by row.

    A model is these functions and nothing else. How plans become batches of operators is the schedule's business, how
    logits become a loss that of the losses.
    """

    name: str  # as it is printed
    width: int  # numbers of a state, W
    unions = False  # whether it has a union of its own; else the branches of a union are kept apart

    def __init__(self, num_entities: int, num_relations: int, settings: EncodeSettings) -> None:
        super().__init__()
        self.num_entities, self.num_relations, self.settings = num_entities, num_relations, settings

    @abstractmethod
    def anchor(self, entities: Tensor) -> Tensor:
        """The states of entities, `[n] -> [n, W]`."""

    @abstractmethod
    def project(self, states: Tensor, relations: Tensor) -> Tensor:
        """Where relations lead, `[n, W] x [n] -> [n, W]`."""

    @abstractmethod
    def intersect(self, states: Tensor) -> Tensor:
        """What k states have in common, `[n, k, W] -> [n, W]`."""

    def union(self, states: Tensor) -> Tensor:
        """What any of k states holds, `[n, k, W] -> [n, W]`; only where `unions`."""
        raise self.lacks("union")

    def complement(self, states: Tensor) -> Tensor:
        """What a state leaves out, `[n, W] -> [n, W]`."""
        raise self.lacks("complement")

    def everything(self) -> Tensor:
        """The state of all entities, `[W]`."""
        raise self.lacks("everything")

    @abstractmethod
    def match(self, states: Tensor, entities: Tensor | None = None) -> Tensor:
        """Logits of some entities, or of all, for each state, `[n, W] x [m] -> [n, m]`."""

    @abstractmethod
    def match_of(self, states: Tensor, entities: Tensor) -> Tensor:
        """Logits of one entity for each state, `[n, W] x [n] -> [n]`."""

    def lacks(self, operator: str) -> PlanError:
        """The error for a question that needs an operator which the model does not have."""
        reasons = {
            "union": "has no union of its own",
            "complement": "has no complement (Complement); ask without negation, or another model",
            "everything": "has no state of all entities (Everything); every variable needs an atom to an entity",
        }
        return PlanError(f"{self.name} {reasons[operator]}")

    def check(self, plan: Plan) -> None:
        """Raise a `PlanError` that names the first step for which there is no operator."""
        for kind in sorted(schedule_of((plan,), self.unions).kinds):
            if getattr(type(self), kind) is getattr(Space, kind):
                raise self.lacks(kind)

    def logits(self, plan: Plan, entities: Tensor, relations: Tensor) -> Tensor:
        """Raw scores of every entity, `[B, E] x [B, R] -> [B, N]`; of branches the best counts."""
        branches = self.states([(plan, entities, relations)])[0]
        return _best(self.match(torch.cat(branches)), [branches])

    def logits_of(self, plan: Plan, entities: Tensor, relations: Tensor, answers: Tensor) -> Tensor:
        """Raw scores of single answers, `[B, E] x [B, R] x [B] -> [B]`."""
        branches = self.states([(plan, entities, relations)])[0]
        return _best(self.match_of(torch.cat(branches), answers.repeat(len(branches))), [branches])

    def loss(self, batch: Sequence[Drawn], negatives: Tensor) -> Tensor:
        """The loss by the settings, summed over the queries by weight."""
        outputs = self.states([(drawn.plan, drawn.entities, drawn.relations) for drawn in batch])
        states = torch.cat([branch for branches in outputs for branch in branches])
        answers = torch.cat([drawn.answers for drawn in batch])
        right = _best(self.match_of(states, _repeated(answers, outputs)), outputs)
        if negatives.dim() == 1:
            wrong = self.match(states, negatives)
        else:  # a row of its own for each query
            own = _repeated(negatives, outputs)
            each = states.repeat_interleave(own.shape[1], 0)
            wrong = self.match_of(each, own.flatten()).view_as(own)
        # The answer of a query is no wrong one, whoever drew it.
        wrong = _best(wrong, outputs).masked_fill(negatives == answers[:, None], -torch.inf)
        loss = LOSSES[self.settings.loss](right, wrong, self.settings.adversarial)
        return (loss * torch.cat([drawn.weights for drawn in batch])).sum()

    def states(self, queries: Sequence[Slots]) -> list[list[Tensor]]:
        """The states of the branches of queries of any mix of plans, `[n, W]` each."""
        schedule = schedule_of(tuple(plan for plan, _, _ in queries), self.unions)
        values: dict[int, Tensor] = {}
        for step in schedule.steps:
            states = self._states_of(schedule, step, values, queries)
            sizes = [len(queries[schedule.operations[number].plan][2]) for number in step]
            values.update(zip(step, states.split(sizes), strict=True))
        return [[values[branch] for branch in branches] for branches in schedule.outputs]

    def _states_of(
        self, schedule: Schedule, step: tuple[int, ...], values: dict[int, Tensor], queries: Sequence[Slots]
    ) -> Tensor:
        """The states of a step: one call of an operator for all of its operations."""
        operations = [schedule.operations[number] for number in step]
        kind, arity = operations[0].kind, len(operations[0].inputs)
        inputs = [torch.cat([values[operation.inputs[i]] for operation in operations]) for i in range(arity)]
        match kind:
            case "anchor":
                return self.anchor(torch.cat([queries[each.plan][1][:, each.slot] for each in operations]))
            case "everything":
                return self.everything().expand(sum(len(queries[each.plan][2]) for each in operations), -1)
            case "project":
                relations = [queries[each.plan][2][:, each.slot] ^ int(each.flip) for each in operations]
                return self.project(inputs[0], torch.cat(relations))
            case "complement":
                return self.complement(inputs[0])
            case "union":
                return self.union(torch.stack(inputs, 1))
        return self.intersect(torch.stack(inputs, 1))


def _repeated(rows: Tensor, outputs: Sequence[Sequence[Tensor]]) -> Tensor:
    """Rows of queries as rows of their branches."""
    if all(len(branches) == 1 for branches in outputs):
        return rows
    parts = rows.split([len(branches[0]) for branches in outputs])
    return torch.cat([part for part, branches in zip(parts, outputs, strict=True) for _ in branches])


def _best(values: Tensor, outputs: Sequence[Sequence[Tensor]]) -> Tensor:
    """The best of the branches of each query."""
    if all(len(branches) == 1 for branches in outputs):
        return values
    parts = values.split([len(branches) * len(branches[0]) for branches in outputs])
    return torch.cat(
        [
            part.unflatten(0, (len(branches), -1)).amax(0) if len(part) else part
            for part, branches in zip(parts, outputs, strict=True)
        ]
    )
