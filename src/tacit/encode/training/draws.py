"""Queries to learn from, drawn on the device without a look at any value on the host.

They are of one of two kinds. *Given* ones come from a query set: a query at random, and one of its answers. Others are
drawn backwards over the train facts, as `query/sampling/grounding.py` does on arrays: an answer first, then a fact that
leads to it, and so on down to the entity slots. What is negated is filled from a sibling of the answer, an entity that
the same last fact's source and relation lead to, and thereby takes something away; where the answer itself would be
taken away, or a walk comes to an end too early, the query counts nothing.
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
from tacit.query.plans.fold import End, Place, Value, Visitor
from tacit.query.plans.plan import Complement, Everything, Intersect, Node, Plan, Project, Relation, Row, Step, Union
from tacit.query.sampling.queries import QuerySet
from tacit.query.sampling.shapes import SHAPES

TRIES = 4  # for each query; the first that counts is taken
FOLLOWED = 128  # facts into an entity that are looked through for what is negated; with more a query does not count
ALONE = 5**-0.5  # the weight of a query of one answer, (4 + answers)^-½
PATH, NEGATED = 2 / 3, 0.2  # the share of chains, and that of negation among the rest, as in BetaE
LEAST = 1e-9  # the share of a kind that is nothing beside others, and yet all where it is alone
Way = tuple[Tensor, Tensor]  # the sources and relations of the facts that lead to some entities
Reached = tuple[Tensor, Tensor | None]  # entities, and the relations by which a walk has come to them


class Given:
    """Queries of a set, each with some answers drawn evenly; the more answers a query has, the less it counts."""

    def __init__(self, queries: QuerySet, count: int, device: torch.device, answers: int = 1) -> None:
        answered = queries.subset(np.flatnonzero(queries.hard.counts))
        if not len(answered):
            raise TrainingError(f"no {queries.name} query has an answer to learn from")
        self.plan, self.count, self.device, self.answers = queries.shape.plan, count, device, answers
        columns = (answered.entities, answered.relations, answered.hard.offsets, answered.hard.ids)
        self.entities, self.relations, self.offsets, self.ids = (
            torch.from_numpy(np.ascontiguousarray(column)).to(device) for column in columns
        )

    def __call__(self) -> Drawn:
        """Other queries each time, they and their answers with replacement."""
        rows = torch.randint(len(self.entities), (self.count,), device=self.device)
        first = self.offsets[rows]
        sizes = self.offsets[rows + 1] - first
        answers = torch.stack([self.ids[_among(first, sizes)].long() for _ in range(self.answers)], 1)
        return Drawn(self.plan, self.entities[rows].long(), self.relations[rows].long(), answers, (4.0 + sizes).rsqrt())

    def shares(self, num_entities: int) -> Tensor:
        """How often each entity is the answer, `[N]`, on the CPU: all queries count alike, and all answers of one."""
        sizes = self.offsets.diff().cpu()
        each = (1 / sizes.double()).repeat_interleave(sizes)
        return torch.bincount(self.ids.cpu().long(), each, num_entities) / len(sizes)


class DeviceFacts:
    """The facts of an index on a device, sorted: the keys (entity, relation) of each entity, the tails of each key.

    A fact is one number, by the place of its key and its tail: by the key itself it would not fit into 64 bits where
    many entities meet many relations. Nothing on the device is of the size of all entities.
    """

    def __init__(self, index: FactIndex, num_entities: int, device: torch.device) -> None:
        if not len(index):
            raise TrainingError("there are no train facts to draw queries from")
        self.num_entities, self.num_relations = num_entities, index.num_relations
        tails, sizes = index.all_tails.astype(np.int64), np.diff(index.offsets)
        facts = np.repeat(np.arange(len(index.keys)), sizes) * num_entities + tails
        arrays = (index.keys, index.offsets, tails, np.repeat(index.relations, sizes), facts)
        self.keys, self.offsets, self.tails, self.relations, self.facts = (
            torch.from_numpy(np.ascontiguousarray(array)).to(device) for array in arrays
        )

    @cached_property
    def shares(self) -> Tensor:
        """How many of the facts lead to each entity, as a share of all, `[N]`."""
        return torch.bincount(self.tails.cpu(), minlength=self.num_entities).double() / len(self.tails)

    def leading(self, targets: Tensor, came_by: Tensor | None) -> tuple[Way, Tensor]:
        """A fact that leads to each target, all alike: its source and relation, and whether there is one.

        A walk does not go back by the relation it came by.
        """
        first, last = (
            self.offsets[torch.searchsorted(self.keys, ends * self.num_relations)] for ends in (targets, targets + 1)
        )
        back, many = (last, last - last) if came_by is None else self.span(targets, came_by)
        number = last - first - many
        at = _among(first, number)
        at = (at + torch.where(at >= back, many, 0)).clamp(max=len(self.tails) - 1)
        return (self.tails[at], self.relations[at] ^ 1), number > 0

    def sibling(self, way: Way) -> tuple[Tensor, Tensor]:
        """An entity that relations lead to from their sources, `[n]`, and whether there is one."""
        first, number = self.span(*way)
        return self.tails[_among(first, number).clamp(max=len(self.tails) - 1)], number > 0

    def span(self, heads: Tensor, relations: Tensor) -> tuple[Tensor, Tensor]:
        """Where the tails of each key begin, and how many there are."""
        at, there = self._key(heads, relations)
        first = self.offsets[at]
        return first, torch.where(there, self.offsets[at + 1] - first, 0)

    def holds(self, heads: Tensor, relations: Tensor, tails: Tensor) -> Tensor:
        """Whether each is a fact."""
        at, there = self._key(heads, relations)
        wanted = at * self.num_entities + tails
        return there & (self.facts[torch.searchsorted(self.facts, wanted).clamp(max=len(self.facts) - 1)] == wanted)

    def _key(self, heads: Tensor, relations: Tensor) -> tuple[Tensor, Tensor]:
        """The place of each key among all, and whether it is there."""
        wanted = heads * self.num_relations + relations
        at = torch.searchsorted(self.keys, wanted).clamp(max=len(self.keys) - 1)
        return at, self.keys[at] == wanted


class Online:
    """Queries of a plan drawn backwards over facts, each with the answer it was drawn from and others it leads to."""

    def __init__(self, plan: Plan, count: int, facts: DeviceFacts, answers: int = 1) -> None:
        self.plan, self.count, self.facts, self.answers = plan, count, facts, answers

    def __call__(self) -> Drawn:
        """Other queries each time; of a few tries at each, the first that counts."""
        tails = self.facts.tails
        targets = tails[torch.randint(len(tails), (self.count * TRIES,), device=tails.device)]
        filling = _Filling(self.facts, {}, {}, torch.ones_like(targets, dtype=torch.bool))
        filling.of(self.plan.root, Place(target=(targets, None)))
        alive = filling.alive.view(self.count, TRIES)
        chosen = alive.to(torch.uint8).argmax(1) + torch.arange(self.count, device=alive.device) * TRIES
        entities, relations = (
            {slot: column[chosen] for slot, column in slots.items()} for slots in (filling.entities, filling.relations)
        )
        answers = [targets[chosen]]
        for _ in range(self.answers - 1):  # as a rule others than those that the slots were filled from
            ends, sure = _Following(self.facts, entities, relations).of(self.plan.root)
            answers.append(torch.where(sure, ends, answers[0]))
        sizes = (entities, self.plan.num_entities), (relations, self.plan.num_relations)
        sources, along = (torch.stack([slots[i] for i in range(size)], 1) for slots, size in sizes)
        return Drawn(self.plan, sources, along, torch.stack(answers, 1), filling.alive[chosen] * ALONE)

    def shares(self, num_entities: int) -> Tensor:
        """About as facts lead to entities; answers whose walks end early are fewer."""
        return self.facts.shares


@dataclass(eq=False)
class _Walk(Visitor[End, Value]):
    """Walks the plan of queries, by what stands in their slots."""

    facts: DeviceFacts
    entities: dict[int, Tensor]
    relations: dict[int, Tensor]

    def along(self, step: Row | Project) -> Tensor:
        """The relations that a step follows."""
        edge = cast(Relation, step.edge)  # since it was filled
        return self.relations[edge.slot] ^ int(edge.flip)


@dataclass(eq=False)
class _Filling(_Walk[Reached, Way | None]):
    """Fills steps so that their sets hold the entities met; the facts by which they lead to them."""

    alive: Tensor  # which queries are answered by the entities met

    def row(self, step: Row, place: Place[Reached]) -> Way:
        way = self._hop(step, place)
        self.entities[step.slot] = way[0]
        return way

    def project(self, step: Project, place: Place[Reached]) -> Way:
        way = self._hop(step, place)
        self.of(step.source, Place(target=way))
        return way

    def intersect(self, step: Intersect[Node] | Union[Node], place: Place[Reached]) -> Way | None:
        """What is negated is filled last, from siblings by the first way."""
        targets, _ = place.end
        ways = [self.of(part, Place(target=(targets, None))) for part in step.parts if not isinstance(part, Complement)]
        way_in = next(iter(ways), None)
        for part in step.parts:
            if isinstance(part, Complement):
                self._exclude(part, targets, way_in)
        return way_in

    union = intersect

    def complement(self, step: Complement[Node], place: Place[Reached]) -> None:
        self._exclude(step, place.end[0], None)

    def everything(self, step: Everything, place: Place[Reached]) -> None:
        pass

    def otherwise(self, step: Step, place: Place[Reached]) -> NoReturn:
        raise PlanError(f"queries with {type(step).__name__} cannot be drawn on a device; give them")

    def _hop(self, step: Row | Project, place: Place[Reached]) -> Way:
        if not isinstance(step.edge, Relation):
            self.otherwise(step, place)
        way, there = self.facts.leading(*place.end)
        self.alive = self.alive & there
        self.relations[step.edge.slot] = way[1] ^ int(step.edge.flip)
        return way

    def _exclude(self, step: Complement[Node], targets: Tensor, way: Way | None) -> None:
        """Fill what is negated from siblings of the targets, which themselves must not be in its set."""
        if way is None:
            siblings = torch.randint(self.facts.num_entities, targets.shape, device=targets.device)
        else:
            siblings, _ = self.facts.sibling(way)
        self.of(step.part, Place(target=(siblings, None)))
        _, possible = _Membership(self.facts, self.entities, self.relations).of(step.part, Place(target=targets))
        self.alive = self.alive & ~possible


class _Following(_Walk[None, tuple[Tensor, Tensor]]):
    """An entity in the set of a step that is filled, and whether it surely is."""

    def row(self, step: Row, place: Place[None]) -> tuple[Tensor, Tensor]:
        return self.facts.sibling((self.entities[step.slot], self.along(step)))

    def project(self, step: Project, place: Place[None]) -> tuple[Tensor, Tensor]:
        starts, sure = self.of(step.source)
        ends, there = self.facts.sibling((starts, self.along(step)))
        return ends, sure & there

    def intersect(self, step: Intersect[Node], place: Place[None]) -> tuple[Tensor, Tensor]:
        first, inside = _first(step.parts), _Membership(self.facts, self.entities, self.relations)
        ends, sure = self.of(first)
        for part in step.parts:
            sure = sure if part is first else sure & inside.of(part, Place(target=ends))[0]
        return ends, sure

    def union(self, step: Union[Node], place: Place[None]) -> tuple[Tensor, Tensor]:
        return self.of(_first(step.parts))

    def otherwise(self, step: Step, place: Place[None]) -> tuple[Tensor, Tensor]:
        nowhere = torch.zeros_like(next(iter(self.relations.values())))
        return nowhere, nowhere.bool()


class _Membership(_Walk[Tensor, Tensor]):
    """Whether targets `[n, ...]` surely are, and may be, in the set of a step that is filled, `[2, n, ...]`."""

    def row(self, step: Row, place: Place[Tensor]) -> Tensor:
        source, along = (_beside(column, place.end) for column in (self.entities[step.slot], self.along(step)))
        held = self.facts.holds(source, along, place.end)
        return held.expand(2, *held.shape)

    def project(self, step: Project, place: Place[Tensor]) -> Tensor:
        targets, tails = place.end, self.facts.tails
        first, many = self.facts.span(targets, _beside(self.along(step), targets) ^ 1)
        steps = torch.arange(FOLLOWED, device=targets.device)
        at = (first[..., None] + steps).clamp(max=len(tails) - 1)
        low, high = (self.of(step.source, Place(target=tails[at])) & (steps < many[..., None])).any(-1)
        return torch.stack((low, high | (many > FOLLOWED)))

    def intersect(self, step: Intersect[Node], place: Place[Tensor]) -> Tensor:
        return torch.stack([self.of(part, place) for part in step.parts]).all(0)

    def union(self, step: Union[Node], place: Place[Tensor]) -> Tensor:
        return torch.stack([self.of(part, place) for part in step.parts]).any(0)

    def complement(self, step: Complement[Node], place: Place[Tensor]) -> Tensor:
        return ~self.of(step.part, place).flip(0)

    def everything(self, step: Everything, place: Place[Tensor]) -> Tensor:
        return torch.ones(2, *place.end.shape, dtype=torch.bool, device=place.end.device)


def _first(parts: Sequence[Node]) -> Node:
    """The first part that can be followed, if any can."""
    return next((part for part in parts if not isinstance(part, Complement)), parts[0])


def counts(plans: Mapping[str, Plan], batch: int, negated: float = NEGATED) -> dict[str, int]:
    """How many queries of each shape a batch has: chains ⅔ of it, of the rest a share with negation, at least one each.

    >>> counts({name: SHAPES[name].plan for name in ("1p", "2p", "2i", "2in")}, 30)
    {'1p': 10, '2p': 10, '2i': 8, '2in': 2}
    """

    def kind(plan: Plan) -> str:
        return "negative" if plan.has(Complement) else "other" if plan.has(Intersect, Union) else "path"

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
    """The plans of shapes by name: those of given queries, else the usual ones, whatever encoding a name asks for."""
    return {
        name: queries[name].shape.plan if name in queries else SHAPES[name.removesuffix("-DM")].plan for name in shapes
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
    """What draws the queries of some steps: of shapes that are given from there, of all others over the facts."""
    plans = plans_of(shapes, queries)
    sizes = {name: steps * size for name, size in counts(plans, batch, negated).items()}
    given = {name: Given(queries[name], sizes[name], device, answers) for name in plans if name in queries}
    facts = None if len(given) == len(plans) else DeviceFacts(index, num_entities, device)
    return [
        given[name] if facts is None or name in given else Online(plan, sizes[name], facts, answers)
        for name, plan in plans.items()
    ]


def _among(first: Tensor, number: Tensor) -> Tensor:
    """One of so many places from a first one on, evenly; `first` where there is none."""
    drawn = (torch.rand(first.shape, device=first.device) * number).long()
    return first + torch.minimum(drawn, number - 1).clamp(min=0)


def _beside(column: Tensor, like: Tensor) -> Tensor:
    """A column of queries beside entities `[n, ...]`."""
    return column.view(-1, *(1,) * (like.dim() - 1)).expand_as(like)
