"""Queries to learn from, drawn on the device without a look at any value on the host.

There are two kinds. *Given* queries come from a query set: a random query, and one of its answers.
*Online* queries are drawn backwards over the train facts, as `query/sampling/grounding.py` does on
arrays: an answer first, then a fact that leads to it, and so on down to the entity slots. A negated
part is filled from a sibling of the answer, an entity that the last fact's source and relation lead
to as well, so that the negation excludes something. A query weighs nothing if its negation excludes
the answer, or if a walk ends too early.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import NoReturn, cast

import numpy as np
import torch
from torch import Tensor

from tacit.encode.encoder import Drawn
from tacit.errors import PlanError, TrainingError
from tacit.graph.fact_index import FactIndex
from tacit.query.plans.fold import End, EvalContext, Value, Visitor
from tacit.query.plans.plan import (
    Complement,
    Everything,
    Intersect,
    Node,
    Plan,
    Project,
    Relation,
    Row,
    Step,
    Union,
)
from tacit.query.sampling.queries import QuerySet
from tacit.query.sampling.shapes import SHAPES

TRIES = 4  # for each query; the first valid one is taken
# facts into an entity that membership tests read; with more a query is invalid
FOLLOWED = 128
ALONE = 5**-0.5  # the weight of a query of one answer, (4 + answers)^-½
# the share of chains, and that of negation among the rest, as in BetaE
PATH = 2 / 3
NEGATED = 0.2
LEAST = 1e-9  # the least share of a kind, negligible unless it is the only kind
Hop = tuple[Tensor, Tensor]  # sources and relations of facts
# entities, and the relations by which a walk came to them
Targets = tuple[Tensor, Tensor | None]


class Given:
    """Queries of a set with random answers; a query with more answers weighs less."""

    def __init__(
        self, queries: QuerySet, count: int, device: torch.device, answers: int = 1
    ) -> None:
        answered = queries.subset(np.flatnonzero(queries.hard.counts))
        if not len(answered):
            raise TrainingError(
                f"no {queries.name} query has an answer to learn from; give other `shapes` or "
                "`queries`"
            )
        self.plan = queries.shape.plan
        self.count = count
        self.device = device
        self.answers = answers
        columns = (answered.entities, answered.relations, answered.hard.offsets, answered.hard.ids)
        self.entities, self.relations, self.offsets, self.ids = (
            torch.from_numpy(np.ascontiguousarray(column)).to(device) for column in columns
        )

    def __call__(self) -> Drawn:
        """Other queries each time, they and their answers with replacement."""
        rows = torch.randint(len(self.entities), (self.count,), device=self.device)
        first = self.offsets[rows]
        sizes = self.offsets[rows + 1] - first
        answers = torch.stack(
            [self.ids[_random_place(first, sizes)].long() for _ in range(self.answers)], 1
        )
        return Drawn(
            self.plan,
            self.entities[rows].long(),
            self.relations[rows].long(),
            answers,
            (4.0 + sizes).rsqrt(),
        )

    def shares(self, num_entities: int) -> Tensor:
        """The share of draws in which each entity is the answer, `[N]`, on the CPU.

        All queries are equally likely, and all answers of a query.
        """
        sizes = self.offsets.diff().cpu()
        each = (1 / sizes.double()).repeat_interleave(sizes)
        return torch.bincount(self.ids.cpu().long(), each, num_entities) / len(sizes)


class DeviceFacts:
    """Sorted facts on a device: the keys (entity, relation), and the tails of each key.

    A fact is one number, by the place of its key and its tail: by the key itself it would not fit
    into 64 bits where many entities meet many relations. Nothing on the device is of the size of
    all entities.
    """

    def __init__(self, index: FactIndex, num_entities: int, device: torch.device) -> None:
        if not len(index):
            raise TrainingError("there are no train facts to draw queries from")
        self.num_entities = num_entities
        self.num_relations = index.num_relations
        tails = index.all_tails.astype(np.int64)
        sizes = np.diff(index.offsets)
        facts = np.repeat(np.arange(len(index.keys)), sizes) * num_entities + tails
        arrays = (index.keys, index.offsets, tails, np.repeat(index.relations, sizes), facts)
        self.keys, self.offsets, self.tails, self.relations, self.facts = (
            torch.from_numpy(np.ascontiguousarray(array)).to(device) for array in arrays
        )

    @cached_property
    def shares(self) -> Tensor:
        """The share of the facts that lead to each entity, `[N]`."""
        return torch.bincount(self.tails.cpu(), minlength=self.num_entities).double() / len(
            self.tails
        )

    def leading(self, targets: Tensor, came_by: Tensor | None) -> tuple[Hop, Tensor]:
        """A random fact that leads to each target: its source and relation, and if it exists.

        A walk does not go back by the relation it came by.
        """
        first, last = (
            self.offsets[torch.searchsorted(self.keys, ends * self.num_relations)]
            for ends in (targets, targets + 1)
        )
        back, many = (last, last - last) if came_by is None else self.span(targets, came_by)
        number = last - first - many
        at = _random_place(first, number)
        at = (at + torch.where(at >= back, many, 0)).clamp(max=len(self.tails) - 1)
        return (self.tails[at], self.relations[at] ^ 1), number > 0

    def sibling(self, hop: Hop) -> tuple[Tensor, Tensor]:
        """A random tail of each source and relation, `[n]`, and whether one exists."""
        first, number = self.span(*hop)
        return self.tails[_random_place(first, number).clamp(max=len(self.tails) - 1)], number > 0

    def span(self, heads: Tensor, relations: Tensor) -> tuple[Tensor, Tensor]:
        """The offset and the number of the tails of each key."""
        at, exists = self._key(heads, relations)
        first = self.offsets[at]
        return first, torch.where(exists, self.offsets[at + 1] - first, 0)

    def holds(self, heads: Tensor, relations: Tensor, tails: Tensor) -> Tensor:
        """Whether each is a fact."""
        at, exists = self._key(heads, relations)
        fact_ids = at * self.num_entities + tails
        return exists & (
            self.facts[torch.searchsorted(self.facts, fact_ids).clamp(max=len(self.facts) - 1)]
            == fact_ids
        )

    def _key(self, heads: Tensor, relations: Tensor) -> tuple[Tensor, Tensor]:
        """The position of each key, and whether it exists."""
        keys = heads * self.num_relations + relations
        at = torch.searchsorted(self.keys, keys).clamp(max=len(self.keys) - 1)
        return at, self.keys[at] == keys


class Online:
    """Queries of a plan drawn backwards over facts, each with answers it leads to."""

    def __init__(self, plan: Plan, count: int, facts: DeviceFacts, answers: int = 1) -> None:
        self.plan = plan
        self.count = count
        self.facts = facts
        self.answers = answers

    def __call__(self) -> Drawn:
        """Other queries each time; of a few tries at each, the first that counts."""
        tails = self.facts.tails
        targets = tails[torch.randint(len(tails), (self.count * TRIES,), device=tails.device)]
        filling = _SlotFiller(self.facts, {}, {}, torch.ones_like(targets, dtype=torch.bool))
        filling.of(self.plan.root, EvalContext(target=(targets, None)))
        alive = filling.alive.view(self.count, TRIES)
        chosen = (
            alive.to(torch.uint8).argmax(1) + torch.arange(self.count, device=alive.device) * TRIES
        )
        entities, relations = (
            {slot: column[chosen] for slot, column in slots.items()}
            for slots in (filling.entities, filling.relations)
        )
        answers = [targets[chosen]]
        # Further answers usually differ from the one that filled the slots.
        for _ in range(self.answers - 1):
            ends, sure = _RandomMember(self.facts, entities, relations).of(self.plan.root)
            answers.append(torch.where(sure, ends, answers[0]))
        sizes = (entities, self.plan.num_entities), (relations, self.plan.num_relations)
        sources, along = (torch.stack([slots[i] for i in range(size)], 1) for slots, size in sizes)
        return Drawn(
            self.plan, sources, along, torch.stack(answers, 1), filling.alive[chosen] * ALONE
        )

    def shares(self, num_entities: int) -> Tensor:
        """About as facts lead to entities; answers whose walks end early are fewer."""
        return self.facts.shares


@dataclass(eq=False)
class _Walk(Visitor[End, Value]):
    """Walks the plan of queries by the ids in their slots."""

    facts: DeviceFacts
    entities: dict[int, Tensor]
    relations: dict[int, Tensor]

    def along(self, step: Row | Project) -> Tensor:
        """The relations that a step follows."""
        edge = cast(Relation, step.edge)  # the filler refuses other edges
        return self.relations[edge.slot] ^ int(edge.flip)


@dataclass(eq=False)
class _SlotFiller(_Walk[Targets, Hop | None]):
    """Fills steps so that their sets hold the targets; values are the facts that lead there."""

    alive: Tensor  # which queries are answered by the entities met

    def row(self, step: Row, place: EvalContext[Targets]) -> Hop:
        hop = self._hop(step, place)
        self.entities[step.slot] = hop[0]
        return hop

    def project(self, step: Project, place: EvalContext[Targets]) -> Hop:
        hop = self._hop(step, place)
        self.of(step.source, EvalContext(target=hop))
        return hop

    def intersect(
        self, step: Intersect[Node] | Union[Node], place: EvalContext[Targets]
    ) -> Hop | None:
        """Negated parts are filled last, from siblings by the first hop."""
        targets, _ = place.end
        hops = [
            self.of(part, EvalContext(target=(targets, None)))
            for part in step.parts
            if not isinstance(part, Complement)
        ]
        first_hop = next(iter(hops), None)
        for part in step.parts:
            if isinstance(part, Complement):
                self._exclude(part, targets, first_hop)
        return first_hop

    union = intersect

    def complement(self, step: Complement[Node], place: EvalContext[Targets]) -> None:
        self._exclude(step, place.end[0], None)

    def everything(self, step: Everything, place: EvalContext[Targets]) -> None:
        pass

    def generic_visit(self, step: Step, place: EvalContext[Targets]) -> NoReturn:
        raise PlanError(
            f"queries with {type(step).__name__} cannot be drawn on a device; give `queries`"
        )

    def _hop(self, step: Row | Project, place: EvalContext[Targets]) -> Hop:
        if not isinstance(step.edge, Relation):
            self.generic_visit(step, place)
        hop, exists = self.facts.leading(*place.end)
        self.alive = self.alive & exists
        self.relations[step.edge.slot] = hop[1] ^ int(step.edge.flip)
        return hop

    def _exclude(self, step: Complement[Node], targets: Tensor, hop: Hop | None) -> None:
        """Fill a negated part from siblings of the targets, and drop targets in its set."""
        if hop is None:
            siblings = torch.randint(self.facts.num_entities, targets.shape, device=targets.device)
        else:
            siblings, _ = self.facts.sibling(hop)
        self.of(step.part, EvalContext(target=(siblings, None)))
        _, possible = _Membership(self.facts, self.entities, self.relations).of(
            step.part, EvalContext(target=targets)
        )
        self.alive = self.alive & ~possible


class _RandomMember(_Walk[None, tuple[Tensor, Tensor]]):
    """A random entity of the set of a filled step, and whether it surely is one."""

    def row(self, step: Row, place: EvalContext[None]) -> tuple[Tensor, Tensor]:
        return self.facts.sibling((self.entities[step.slot], self.along(step)))

    def project(self, step: Project, place: EvalContext[None]) -> tuple[Tensor, Tensor]:
        starts, sure = self.of(step.source)
        ends, exists = self.facts.sibling((starts, self.along(step)))
        return ends, sure & exists

    def intersect(self, step: Intersect[Node], place: EvalContext[None]) -> tuple[Tensor, Tensor]:
        first = _first(step.parts)
        inside = _Membership(self.facts, self.entities, self.relations)
        ends, sure = self.of(first)
        for part in step.parts:
            sure = sure if part is first else sure & inside.of(part, EvalContext(target=ends))[0]
        return ends, sure

    def union(self, step: Union[Node], place: EvalContext[None]) -> tuple[Tensor, Tensor]:
        return self.of(_first(step.parts))

    def generic_visit(self, step: Step, place: EvalContext[None]) -> tuple[Tensor, Tensor]:
        nowhere = torch.zeros_like(next(iter(self.relations.values())))
        return nowhere, nowhere.bool()


class _Membership(_Walk[Tensor, Tensor]):
    """Whether targets `[n, ...]` surely are, and may be, in a set, `[2, n, ...]`."""

    def row(self, step: Row, place: EvalContext[Tensor]) -> Tensor:
        source, along = (
            _expand_like(column, place.end)
            for column in (self.entities[step.slot], self.along(step))
        )
        held = self.facts.holds(source, along, place.end)
        return held.expand(2, *held.shape)

    def project(self, step: Project, place: EvalContext[Tensor]) -> Tensor:
        targets = place.end
        tails = self.facts.tails
        first, many = self.facts.span(targets, _expand_like(self.along(step), targets) ^ 1)
        steps = torch.arange(FOLLOWED, device=targets.device)
        at = (first[..., None] + steps).clamp(max=len(tails) - 1)
        low, high = (
            self.of(step.source, EvalContext(target=tails[at])) & (steps < many[..., None])
        ).any(-1)
        return torch.stack((low, high | (many > FOLLOWED)))

    def intersect(self, step: Intersect[Node], place: EvalContext[Tensor]) -> Tensor:
        return torch.stack([self.of(part, place) for part in step.parts]).all(0)

    def union(self, step: Union[Node], place: EvalContext[Tensor]) -> Tensor:
        return torch.stack([self.of(part, place) for part in step.parts]).any(0)

    def complement(self, step: Complement[Node], place: EvalContext[Tensor]) -> Tensor:
        return ~self.of(step.part, place).flip(0)

    def everything(self, step: Everything, place: EvalContext[Tensor]) -> Tensor:
        return torch.ones(2, *place.end.shape, dtype=torch.bool, device=place.end.device)


def _first(parts: Sequence[Node]) -> Node:
    """The first part that can be followed, if any can."""
    return next((part for part in parts if not isinstance(part, Complement)), parts[0])


def counts(plans: Mapping[str, Plan], batch: int, negated: float = NEGATED) -> dict[str, int]:
    """The number of queries of each shape in a batch, at least one each.

    Chains are ⅔ of it, and `negated` is the share of negation among the rest.

    >>> counts({name: SHAPES[name].plan for name in ("1p", "2p", "2i", "2in")}, 30)
    {'1p': 10, '2p': 10, '2i': 8, '2in': 2}
    """

    def kind(plan: Plan) -> str:
        if plan.has(Complement):
            return "negative"
        return "other" if plan.has(Intersect, Union) else "path"

    kinds = {name: kind(plan) for name, plan in plans.items()}
    negated = min(max(negated, LEAST), 1 - LEAST)
    shares = {"path": PATH, "other": (1 - PATH) * (1 - negated), "negative": (1 - PATH) * negated}
    number = {each: list(kinds.values()).count(each) for each in shares}
    total = sum(shares[each] for each in shares if number[each])
    exact = {name: batch * shares[each] / total / number[each] for name, each in kinds.items()}
    ends = np.round(np.cumsum(list(exact.values()))).astype(int)
    sizes = np.maximum(1, np.diff(ends, prepend=0))
    return dict(zip(plans, sizes.tolist(), strict=True))


def plans_of(shapes: Iterable[str], queries: Mapping[str, QuerySet]) -> dict[str, Plan]:
    """The plans of shapes by name: of the given queries, else of the usual shapes."""
    return {
        name: queries[name].shape.plan if name in queries else SHAPES[name.removesuffix("-DM")].plan
        for name in shapes
    }


def draws(
    shapes: Iterable[str],
    queries: Mapping[str, QuerySet],
    index: FactIndex,
    num_entities: int,
    batch: int,
    steps: int,
    device: torch.device,
    negated: float = NEGATED,
    answers: int = 1,
) -> list[Given | Online]:
    """The samplers of a block of queries: from given sets, or over the facts."""
    plans = plans_of(shapes, queries)
    sizes = {name: steps * size for name, size in counts(plans, batch, negated).items()}
    samplers = {
        name: Given(queries[name], sizes[name], device, answers)
        for name in plans
        if name in queries
    }
    facts = None if len(samplers) == len(plans) else DeviceFacts(index, num_entities, device)
    return [
        samplers[name]
        if facts is None or name in samplers
        else Online(plan, sizes[name], facts, answers)
        for name, plan in plans.items()
    ]


def _random_place(first: Tensor, number: Tensor) -> Tensor:
    """A random one of `number` positions from `first` on; `first` where there are none."""
    drawn = (torch.rand(first.shape, device=first.device) * number).long()
    return first + torch.minimum(drawn, number - 1).clamp(min=0)


def _expand_like(column: Tensor, like: Tensor) -> Tensor:
    """A column of queries beside entities `[n, ...]`."""
    return column.view(-1, *(1,) * (like.dim() - 1)).expand_as(like)
