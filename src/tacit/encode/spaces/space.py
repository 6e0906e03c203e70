"""Encoders by states: questions become states, which are matched with those of entities.

`Matching` learns from any states, `Space` makes them by operators. A loss takes logits `right [n,
A]` and `wrong [n, K]`, and returns one number a query, `[n]`, the mean over its right answers.
Wrong answers are weighted by a softmax of `adversarial` times their logits, which has no gradient;
with 0 all weigh the same. A wrong logit of `-inf` is masked.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Sequence
from functools import reduce

import torch
from torch import Tensor
from torch.nn.functional import logsigmoid, softplus

from tacit.encode.encoder import Drawn, Encoder, Slots
from tacit.encode.settings import EncodeSettings
from tacit.encode.spaces.schedule import Operation, schedule_of
from tacit.errors import PlanError
from tacit.query.plans.plan import Plan

LACKS = {
    "union": "union of its own",
    "complement": "complement (Complement); ask without negation, or another model",
    "everything": "state of all entities (Everything); every variable needs an atom to an entity",
}


class Matching(Encoder):
    """An encoder with a state for each branch of a question; the best match is its score.

    Subclasses define how states are made and matched.
    """

    def __init__(self, num_entities: int, num_relations: int, settings: EncodeSettings) -> None:
        super().__init__()
        self.num_entities = num_entities
        self.num_relations = num_relations
        self.settings = settings

    @abstractmethod
    def states(self, queries: Sequence[Slots]) -> list[list[Tensor]]:
        """The states of the branches of queries of any mix of plans, `[n, W]` each."""

    @abstractmethod
    def match(self, states: Tensor, entities: Tensor | None = None) -> Tensor:
        """Logits of some entities, or of all, for each state, `[n, W] x [m] -> [n, m]`."""

    def match_of(self, states: Tensor, entities: Tensor) -> Tensor:
        """Logits of each state's own entities, `[n, W] x [n, m] -> [n, m]`."""
        return self.match(states, entities)

    def logits(self, plan: Plan, entities: Tensor, relations: Tensor) -> Tensor:
        """Raw scores of every entity, `[B, E] x [B, R] -> [B, N]`; of branches the best counts."""
        branches = self.states([Slots(plan, entities, relations)])[0]
        return _best(self.match(torch.cat(branches)), [branches])

    def logits_of(self, plan: Plan, entities: Tensor, relations: Tensor, answers: Tensor) -> Tensor:
        """Raw scores of single answers, `[B, E] x [B, R] x [B] -> [B]`."""
        branches = self.states([Slots(plan, entities, relations)])[0]
        own = answers.repeat(len(branches))[:, None]
        return _best(self.match_of(torch.cat(branches), own), [branches])[:, 0]

    def loss(
        self, batch: Sequence[Drawn], negatives: Tensor, log_frequencies: Tensor | None = None
    ) -> Tensor:
        """The loss by the settings, summed over the queries by weight."""
        with torch.autocast(self.device.type, torch.bfloat16, enabled=self.in_bfloat16):
            outputs = self.states(batch)
        states = torch.cat([branch for branches in outputs for branch in branches])
        states = states.float() if self.in_bfloat16 else states
        most = max(drawn.answers.shape[1] for drawn in batch)
        answers = torch.cat([drawn.answers.expand(-1, most) for drawn in batch])  # [n, A]
        right = _best(self.match_of(states, _repeated(answers, outputs)), outputs)
        if negatives.dim() == 1:
            wrong = self.match(states, negatives)
            wrong = wrong if log_frequencies is None else wrong - log_frequencies
        else:  # a row for each query
            wrong = self.match_of(states, _repeated(negatives, outputs))
        known = reduce(
            torch.logical_or, (negatives == column[:, None] for column in answers.unbind(1))
        )  # [n, K]
        wrong = _best(wrong, outputs).masked_fill(known, -torch.inf)
        losses = LOSSES[self.settings.loss](right, wrong, self.settings.adversarial)
        return (losses * torch.cat([drawn.weights for drawn in batch])).sum()


class Space(Matching):
    """A space of questions: a state is a row of numbers, and operators map states.

    A model is these functions and nothing else. The schedule turns plans into batches of operators,
    `Matching` turns states into logits and losses.
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
        raise NotImplementedError

    def complement(self, states: Tensor) -> Tensor:
        """The complement of a state, `[n, W] -> [n, W]`."""
        raise NotImplementedError

    def everything(self) -> Tensor:
        """The state of all entities, `[W]`."""
        raise NotImplementedError

    def check(self, plan: Plan) -> None:
        """Raise a `PlanError` that names the first step for which there is no operator."""
        kinds = {operation.kind for operation in schedule_of((plan,), self.unions).operations}
        for kind in sorted(kinds):
            if getattr(type(self), kind) is getattr(Space, kind):
                raise PlanError(f"{self.name} has no {LACKS[kind]}")

    def states(self, queries: Sequence[Slots]) -> list[list[Tensor]]:
        schedule = schedule_of(tuple(slots.plan for slots in queries), self.unions)
        values: dict[int, Tensor] = {}
        for step in schedule.steps:
            operations = [schedule.operations[number] for number in step]
            columns = zip(*(each.inputs for each in operations), strict=True)
            inputs = [torch.cat([values[number] for number in column]) for column in columns]
            sizes = [len(queries[each.plan].relations) for each in operations]
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
                ids = [queries[each.plan].entities[:, each.slot] for each in operations]
                return self.anchor(torch.cat(ids))
            case "everything":
                return self.everything().expand(size, -1)
            case "project":
                ids = [
                    queries[each.plan].relations[:, each.slot] ^ int(each.flip)
                    for each in operations
                ]
                return self.project(inputs[0], torch.cat(ids))
            case "complement":
                return self.complement(inputs[0])
            case "union":
                return self.union(torch.stack(inputs, 1))
        return self.intersect(torch.stack(inputs, 1))


def _repeated(rows: Tensor, outputs: Sequence[Sequence[Tensor]]) -> Tensor:
    """Rows of queries as rows of their branches."""
    parts = rows.split([len(branches[0]) for branches in outputs])
    return torch.cat(
        [part for part, branches in zip(parts, outputs, strict=True) for _ in branches]
    )


def _best(values: Tensor, outputs: Sequence[Sequence[Tensor]]) -> Tensor:
    """The best of the branches of each query."""
    if all(len(branches) == 1 for branches in outputs):
        return values
    sizes = [(len(branches), len(branches[0])) for branches in outputs]
    parts = values.split([number * queries for number, queries in sizes])
    return torch.cat(
        [part.unflatten(0, size).amax(0) for part, size in zip(parts, sizes, strict=True)]
    )


def margin(right: Tensor, wrong: Tensor, adversarial: float) -> Tensor:
    """`-½ log σ(right) - ½ Σ_j a_j log σ(-wrong_j)` (RotatE's loss).

    Logits are a margin minus a distance.
    """
    return -0.5 * (
        logsigmoid(right).mean(1) + (_shares(wrong, adversarial) * logsigmoid(-wrong)).sum(1)
    )


def ranking(right: Tensor, wrong: Tensor, adversarial: float) -> Tensor:
    """`-Σ_j a_j log σ(right - wrong_j)`: a right answer above each wrong one (FuzzQE)."""
    above = logsigmoid(right[:, :, None] - wrong[:, None]).mean(1)
    return -(_shares(wrong, adversarial) * above).sum(1)


def softmax(right: Tensor, wrong: Tensor, adversarial: float) -> Tensor:
    """`-log` of the share of a right answer in a softmax of it and all wrong ones.

    The softmax weights the wrong ones by itself. Where all wrong ones are masked, their gradients
    are NaN, and masked as well.
    """
    return softplus(torch.logsumexp(wrong, 1, keepdim=True) - right).mean(1)


def _shares(wrong: Tensor, adversarial: float) -> Tensor:
    """The weights of wrong answers, `[n, K]`."""
    if not adversarial:
        return torch.full_like(wrong, 1 / wrong.shape[1])
    return torch.softmax(adversarial * wrong.detach(), 1).nan_to_num(0.0)  # where none is wrong


LOSSES = {"margin": margin, "ranking": ranking, "softmax": softmax}
