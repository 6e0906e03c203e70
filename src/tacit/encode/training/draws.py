"""Queries to learn from, drawn on the device without a look at any value on the host.

*Given* queries come from a query set: a random query, and one of its answers. *Online* queries are
drawn backwards over the train facts, as `query/sampling/grounding.py` does on arrays. A query
weighs nothing if its negation excludes the answer, or if a walk ends too early. `Batches` draws
those of each step, and the entities to compare with.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from tacit.encode.encoder import Drawn
from tacit.encode.settings import EncodeSettings
from tacit.encode.training.slot_filling import DeviceFacts, SlotFilling, random_place
from tacit.errors import TrainingError
from tacit.fitting.task import seed_of
from tacit.graph.fact_index import FactIndex
from tacit.graph.graph import Graph
from tacit.query.plans.plan import Complement, Intersect, Plan, Union
from tacit.query.sampling.queries import QuerySet
from tacit.query.sampling.shapes import SHAPES

# steps whose queries are drawn together, since a draw takes many small operations
BLOCK = 16
TRIES = 4  # for each query; the first valid one is taken
ALONE = 5**-0.5  # the weight of a query of one answer, (4 + answers)^-½
# the share of chains, and that of negation among the rest, as in BetaE
PATH = 2 / 3
NEGATED = 0.2
LEAST = 1e-9  # the least share of a kind, negligible unless it is the only kind


class GivenQueries:
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
        self.answers = answers
        columns = (answered.entities, answered.relations, answered.hard.offsets, answered.hard.ids)
        self.entities, self.relations, self.offsets, self.ids = (
            torch.from_numpy(np.ascontiguousarray(column)).to(device).long() for column in columns
        )

    def __call__(self) -> Drawn:
        """Draw queries, and answers of each, with replacement."""
        rows = torch.randint(len(self.entities), (self.count,), device=self.ids.device)
        first = self.offsets[rows]
        sizes = self.offsets[rows + 1] - first
        answers = [self.ids[random_place(first, sizes)] for _ in range(self.answers)]
        return Drawn(
            self.plan,
            self.entities[rows],
            self.relations[rows],
            torch.stack(answers, 1),
            (4.0 + sizes).rsqrt(),
        )

    def shares(self, num_entities: int) -> Tensor:
        """The share of draws in which each entity is the answer, `[N]`, on the CPU.

        All queries are equally likely, and all answers of a query.
        """
        sizes = self.offsets.diff().cpu()
        each = (1 / sizes.double()).repeat_interleave(sizes)
        return torch.bincount(self.ids.cpu(), each, num_entities) / len(sizes)


@dataclass(eq=False)
class OnlineQueries:
    """Queries of a plan drawn backwards over facts, each with answers it leads to."""

    plan: Plan
    count: int
    facts: DeviceFacts
    answers: int = 1

    def __call__(self) -> Drawn:
        """Draw queries; of a few tries at each, take the first that is answered."""
        tails = self.facts.tails
        targets = tails[torch.randint(len(tails), (self.count * TRIES,), device=tails.device)]
        tries = SlotFilling(self.facts, torch.ones_like(targets, dtype=torch.bool))
        tries.fill(self.plan.root, targets)
        first_alive = tries.alive.view(self.count, TRIES).to(torch.uint8).argmax(1)
        rows = first_alive + torch.arange(self.count, device=tails.device) * TRIES
        queries = tries.at(rows)
        answers = [targets[rows]]
        # Further answers usually differ from the one that filled the slots.
        for _ in range(self.answers - 1):
            ends, sure = queries.random_member(self.plan.root)
            answers.append(torch.where(sure, ends, answers[0]))
        return Drawn(
            self.plan,
            torch.stack([queries.entities[slot] for slot in range(self.plan.num_entities)], 1),
            torch.stack([queries.relations[slot] for slot in range(self.plan.num_relations)], 1),
            torch.stack(answers, 1),
            queries.alive * ALONE,
        )

    def shares(self, num_entities: int) -> Tensor:
        """About the share of facts that lead to each entity: fewer walks reach some of them."""
        tails = self.facts.tails.cpu()
        return torch.bincount(tails, minlength=num_entities).double() / len(tails)


class Batches:
    """Draws what each step learns from, by the seed and the number of the step alone.

    The queries of a block of steps are written to where those of the block before lie, so that a
    recorded step finds them.
    """

    def __init__(
        self,
        graph: Graph,
        settings: EncodeSettings,
        shapes: tuple[str, ...],
        queries: Mapping[str, QuerySet],
        device: torch.device,
    ) -> None:
        self.settings = settings
        self.shapes = shapes
        self.num_entities = graph.num_entities
        self.device = device
        self.samplers = draws(
            shapes, queries, graph.index("train"), graph.num_entities, settings.batch, BLOCK,
            device, settings.negated, settings.answers,
        )  # fmt: skip
        # the shared negatives of a step that answer other queries
        self.num_likely = round(settings.likely * settings.negatives)
        self.log_frequencies = self._log_frequencies()
        self._block = -1
        self._queries = list[Drawn]()  # of the block
        self._place = torch.zeros(1, dtype=torch.long, device=device)  # of the step in its block

    def draw(self, number: int) -> None:
        """Draw for a step, and set its random seed."""
        block, place = divmod(number, BLOCK)
        if block != self._block:
            self._seed(block, 0)
            queries = [sampler() for sampler in self.samplers]
            if not self._queries:
                if not any(bool(drawn.weights.any()) for drawn in queries):
                    raise TrainingError(
                        f"no {' or '.join(self.shapes)} query with an answer could be drawn from "
                        "the train facts; learn from other `shapes`, or from `queries` of your own"
                    )
                self._queries = queries
            for previous, drawn in zip(self._queries, queries, strict=True):
                for target, column in zip(previous.columns, drawn.columns, strict=True):
                    target.copy_(column)
            self._block = block
        self._place.fill_(place)
        self._seed(block, 1 + place)

    def _seed(self, *numbers: int) -> None:
        seed = seed_of(self.settings.seed, *numbers)
        torch.default_generator.manual_seed(seed)
        if self.device.type == "cuda":
            torch.cuda.default_generators[torch.cuda.current_device()].manual_seed(seed)

    def queries(self) -> list[Drawn]:
        """The queries of a step."""
        return [
            Drawn(
                drawn.plan,
                *(
                    column.unflatten(0, (BLOCK, -1)).index_select(0, self._place)[0]
                    for column in drawn.columns
                ),
            )
            for drawn in self._queries
        ]

    def negatives(self, answers: Tensor) -> Tensor:
        """Entities to compare with, by an answer `[n]` to each query of a batch.

        `[n, K]` where they are private; else `[K]`, or all entities where there are no more. Some
        of the shared ones are *likely*: they answer other queries, so they are of the kinds that
        questions are about, and the hardest to tell from right answers.
        """
        count = self.settings.negatives
        many = self.num_entities
        if self.settings.private:
            return torch.randint(many, (len(answers), count), device=self.device)
        if count >= many:
            return torch.arange(many, device=self.device)
        places = torch.randint(len(answers), (self.num_likely,), device=self.device)
        anywhere = torch.randint(many, (count - self.num_likely,), device=self.device)
        return torch.cat((answers[places], anywhere))

    def _log_frequencies(self) -> Tensor | None:
        """The logs of how often each entity is to be drawn among the negatives of a step, `[N]`.

        None where nothing is to be corrected: the loss is no softmax, all entities are compared,
        or all are equally likely to be drawn.
        """
        settings = self.settings
        many = self.num_entities
        compares_all = settings.negatives >= many
        if settings.loss != "softmax" or settings.private or compares_all or not self.num_likely:
            return None
        answers = torch.stack([each.count * each.shares(many) for each in self.samplers]).sum(0)
        likely = self.num_likely * answers / answers.sum()
        uniform = (settings.negatives - self.num_likely) / many
        return (uniform + likely).log().float().to(self.device)


def counts(plans: Mapping[str, Plan], batch: int, negated: float = NEGATED) -> dict[str, int]:
    """The number of queries of each shape in a batch, at least one each.

    Chains are ⅔ of it, and `negated` is the share of negation among the rest.

    >>> counts({name: SHAPES[name].plan for name in ("1p", "2p", "2i", "2in")}, 30)
    {'1p': 10, '2p': 10, '2i': 8, '2in': 2}
    """
    negated = min(max(negated, LEAST), 1 - LEAST)
    shares = {"path": PATH, "other": (1 - PATH) * (1 - negated), "negative": (1 - PATH) * negated}
    kinds = [_kind(plan) for plan in plans.values()]
    total = sum(share for kind, share in shares.items() if kind in kinds)
    exact = [batch * shares[kind] / total / kinds.count(kind) for kind in kinds]
    sizes = np.diff(np.round(np.cumsum(exact)).astype(int), prepend=0)
    return dict(zip(plans, np.maximum(1, sizes).tolist(), strict=True))


def _kind(plan: Plan) -> str:
    if plan.has(Complement):
        return "negative"
    return "other" if plan.has(Intersect, Union) else "path"


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
) -> list[GivenQueries | OnlineQueries]:
    """The samplers of a block of queries: from given sets, or over the facts."""
    plans = plans_of(shapes, queries)
    sizes = {name: steps * size for name, size in counts(plans, batch, negated).items()}
    facts = DeviceFacts(index, num_entities, device) if plans.keys() - queries.keys() else None
    return [
        GivenQueries(queries[name], sizes[name], device, answers)
        if facts is None or name in queries
        else OnlineQueries(plan, sizes[name], facts, answers)
        for name, plan in plans.items()
    ]
