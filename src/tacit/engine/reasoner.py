"""The contract of reasoners, which turn plans into scores, and some simple ones.

The search for answers by calibrated atoms is in `message_reasoner`.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property, reduce
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor

from tacit.distributed.shards import Shards
from tacit.engine.atoms.known_facts import AtomConstraints, KnownFacts
from tacit.engine.logic import ZERO
from tacit.engine.top_k import TopKRequest, TopKResult, best_answers
from tacit.errors import PlanError
from tacit.graph.fact_index import FactIndex
from tacit.graph.value_index import ValueIndex
from tacit.query.plans.fold import EvalContext, Fold
from tacit.query.plans.plan import Plan, Relation, Row, Step
from tacit.query.plans.symbolic import answers as symbolic_sets

if TYPE_CHECKING:
    from tacit.engine.parts import EngineParts
    from tacit.engine.search.proofs import Proof

_CPU_MEMORY = 2.0  # GB by default
_CUDA_MEMORY = 8.0
_BATCH = 256  # queries


def step_memory(memory: float | None, device: torch.device) -> int:
    """The bytes that a step may use on a device: the given GB, or a default."""
    if memory is None:
        memory = _CUDA_MEMORY if device.type == "cuda" else _CPU_MEMORY
    return int(memory * 1e9)


@dataclass(frozen=True, eq=False)
class Explanation:
    """The answers to one query, and a function that returns the best proofs of any of them.

    The first proof of a known answer is by facts alone, where one is worth what the answer is.
    """

    best: TopKResult
    proofs: Callable[[int, int, bool], list[Proof]]  # (answer, count, known) -> best first


class Reasoner(ABC):
    """Scores every entity as an answer, for a batch of queries of one structure.

    A reasoner must offer `scores`; the other methods have defaults.
    """

    num_entities: int
    exact = False  # whether nothing is ever dropped
    predicts = True  # whether it finds more than what facts imply
    # whether scores read as log-probabilities, which counts, yes or no and tuples need
    probabilities = False
    remedy = "set its `probabilities` where they are"  # advice in the error where they are not
    calibrated = False  # whether an engine's calibration and adapter shape its scores

    @cached_property
    def name(self) -> str:
        """The name of the reasoner, as it is printed."""
        return type(self).__name__

    @cached_property
    def config(self) -> dict[str, Any]:
        """The reasoner's own settings, as plain data that answers and results keep."""
        return {}

    def bind(self, parts: EngineParts) -> Reasoner:
        """Return the reasoner with the settings and facts of an engine; by default itself."""
        return self

    def forget(self) -> None:  # noqa: B027
        """Drop everything derived from weights that were written to unseen."""

    def unsupported_reason(self, plan: Plan) -> PlanError | None:
        """The reason why the reasoner cannot express a plan; None where it can."""
        return None

    def check(self, plan: Plan) -> None:
        """Raise a `PlanError` for a plan that the reasoner cannot express."""
        if (error := self.unsupported_reason(plan)) is not None:
            raise error

    def check_shapes(self, plans: Mapping[str, Plan]) -> None:
        """Raise a `PlanError` that names all shapes the reasoner cannot express."""
        wrong = {
            name: str(error)
            for name, plan in plans.items()
            if (error := self.unsupported_reason(plan)) is not None
        }
        if wrong:
            can = ",".join(name for name in plans if name not in wrong) or "none of them"
            why = "; ".join(dict.fromkeys(wrong.values()))
            raise PlanError(
                f"{self.name} cannot express {', '.join(wrong)} ({why}); shapes that it can: {can}"
            )

    @cached_property
    def shards(self) -> Shards:
        """The entities whose scores this process holds, as columns; by default all."""
        return Shards(self.num_entities)

    @abstractmethod
    def scores(self, plan: Plan, entities: Tensor, relations: Tensor) -> Tensor:
        """Score every entity for queries with `entities[B, E]` and `relations[B, R]`, `[B, N]`."""

    def ranking(self, plan: Plan, entities: Tensor, relations: Tensor) -> Tensor:
        """Score entities `[B, N]` for ranking only: same order, without ties by rounding."""
        return self.scores(plan, entities, relations)

    def ranked(self, plan: Plan, entities: Tensor, relations: Tensor) -> tuple[Tensor, Tensor]:
        """The scores, and values that order them; only a single atom has finer ones."""
        scores = self.scores(plan, entities, relations)
        if not isinstance(plan.root, Row):
            return scores, scores
        return scores, self.ranking(plan, entities, relations)

    def top(
        self, plan: Plan, entities: Tensor, relations: Tensor, requests: Sequence[TopKRequest]
    ) -> list[TopKResult]:
        """List the best answers to each query, by default by its scores.

        They are proven only where the scores are exact.
        """
        return self.listed(requests, *self.ranked(plan, entities, relations))

    def listed(
        self, requests: Sequence[TopKRequest], scores: Tensor, finer: Tensor
    ) -> list[TopKResult]:
        """List the best answers by scores and values that order them, `[B, N]`."""
        tables = zip(requests, scores.cpu(), finer.cpu(), strict=True)
        listed = [best_answers(self.shards, *each) for each in tables]
        return [replace(each, certified=True) for each in listed] if self.exact else listed

    def batch(self, plan: Plan) -> int:
        """How many queries of a plan to run at once."""
        return _BATCH

    def bounds(
        self, plan: Plan, entities: Tensor, relations: Tensor
    ) -> tuple[Tensor, Tensor] | None:
        """Bound every exact score from below and above, `[B, N]`; None where it cannot."""
        if not self.exact:
            return None
        scores = self.scores(plan, entities, relations)
        return scores, scores

    def explain(
        self, plan: Plan, entities: Tensor, relations: Tensor, request: TopKRequest
    ) -> Explanation | None:
        """Explain the best answers to one query by proofs; None without reasons."""
        return None

    def explaining(self, by_scores: bool = False) -> Reasoner:
        """Return the reasoner that explains the answers to one question.

        With `by_scores`, its reasons rest on no more than its scores do.
        """
        return self


class SymbolicReasoner(Reasoner):
    """The graph alone: log-score 0 for its answers, minus infinity for everything else."""

    exact = True
    predicts = False
    probabilities = True

    def __init__(
        self, index: FactIndex, num_entities: int, values: ValueIndex | None = None
    ) -> None:
        self.index = index
        self.num_entities = num_entities
        self.values = values

    def scores(self, plan: Plan, entities: Tensor, relations: Tensor) -> Tensor:
        """Score the entities that facts imply `0`, and all others `-inf`."""
        slots = entities.numpy(), relations.numpy()
        implied = symbolic_sets(plan, *slots, self.index, self.num_entities, self.values)
        out = torch.full((len(relations), self.num_entities), ZERO)
        out[torch.from_numpy(implied.rows).long(), torch.from_numpy(implied.ids).long()] = 0.0
        return out


class Exclusion(Reasoner):
    """The scores of another reasoner, with minus infinity for ruled-out answers."""

    def __init__(self, reasoner: Reasoner) -> None:
        self.reasoner = reasoner
        self.num_entities = reasoner.num_entities
        self.exact = reasoner.exact
        self.shards = reasoner.shards
        self.probabilities = reasoner.probabilities
        self.remedy = reasoner.remedy
        self.calibrated = reasoner.calibrated
        self.predicts = reasoner.predicts
        self.name = reasoner.name
        self.config = reasoner.config

    @abstractmethod
    def ruled_out(self, plan: Plan, entities: Tensor, relations: Tensor) -> Tensor:
        """The entities that are no answers, `[B, n]`, or `[B, 1]` for all or none."""

    def unsupported_reason(self, plan: Plan) -> PlanError | None:
        """The reason why the reasoner cannot express a plan; None where it can."""
        return self.reasoner.unsupported_reason(plan)

    def scores(self, plan: Plan, entities: Tensor, relations: Tensor) -> Tensor:
        """Log-scores `[B, N]`, minus infinity for ruled-out answers."""
        scores = self.reasoner.scores(plan, entities, relations)
        return _without(self.ruled_out(plan, entities, relations), scores)

    def ranking(self, plan: Plan, entities: Tensor, relations: Tensor) -> Tensor:
        """Values that order the entities, ruled-out ones last."""
        ranking = self.reasoner.ranking(plan, entities, relations)
        return _without(self.ruled_out(plan, entities, relations), ranking)

    def ranked(self, plan: Plan, entities: Tensor, relations: Tensor) -> tuple[Tensor, Tensor]:
        """The scores, and the values that order them."""
        out = self.ruled_out(plan, entities, relations)
        scores, finer = self.reasoner.ranked(plan, entities, relations)
        return _without(out, scores), _without(out, finer)

    def batch(self, plan: Plan) -> int:
        """How many queries of a plan to run at once: as many as the reasoner takes."""
        return self.reasoner.batch(plan)


class NewAnswers(Exclusion):
    """The answers of a reasoner that the facts of an index do not imply."""

    def __init__(
        self, reasoner: Reasoner, index: FactIndex, values: ValueIndex | None = None
    ) -> None:
        super().__init__(reasoner)
        self.index = index
        self.values = values

    def ruled_out(self, plan: Plan, entities: Tensor, relations: Tensor) -> Tensor:
        """The known answers."""
        slots = entities.cpu().numpy(), relations.cpu().numpy()
        known = symbolic_sets(plan, *slots, self.index, self.num_entities, self.values)
        local, columns = self.shards.inside(torch.from_numpy(known.ids).long())
        out = torch.zeros(len(relations), self.shards.stop - self.shards.start, dtype=torch.bool)
        out[torch.from_numpy(known.rows).long()[local], columns[local]] = True
        return out


class Loopless(Exclusion):
    """The answers of a whole-question reasoner without loops that never occur in training.

    An atom between an answer and an entity of the question is ruled out as in a search over atoms.
    The values of variables between them are not visible here, so nothing is ruled out through them.
    """

    def __init__(
        self, reasoner: Reasoner, possible: AtomConstraints, facts: KnownFacts | None
    ) -> None:
        super().__init__(reasoner)
        self.possible = possible
        self.facts = facts

    def ruled_out(self, plan: Plan, entities: Tensor, relations: Tensor) -> Tensor:
        """The answers that only a loop would allow."""
        device = self.possible.without_loops.device
        slots = entities.to(device).long(), relations.to(device).long()
        all_entities = torch.arange(self.num_entities, device=device)[None]
        return _RuledOut(self.possible, self.facts, *slots).of(
            plan.root, EvalContext(target=all_entities)
        )


def _without(out: Tensor, table: Tensor) -> Tensor:
    """Mask ruled-out entities in a table `[B, n]`; a copy, as reasoners may keep theirs."""
    return table.masked_fill(out.to(table.device), ZERO)


class _RuledOut(Fold[Tensor, Tensor]):
    """Whether steps surely do not hold, for each query and entity, `[B, N]` or `[B, 1]`.

    Ends are ids `[B or 1, n]`.
    """

    def __init__(
        self,
        possible: AtomConstraints,
        facts: KnownFacts | None,
        entities: Tensor,
        relations: Tensor,
    ) -> None:
        self.possible = possible
        self.facts = facts
        self.entities = entities
        self.relations = relations
        self.nothing = torch.zeros(len(relations), 1, dtype=torch.bool, device=entities.device)

    def entity(self, slot: int) -> Tensor:
        """The entities of a slot."""
        return self.entities[:, slot, None]

    def relation(self, step: Relation, place: EvalContext[Tensor]) -> Tensor:
        """Rule out loops of relations that have none, unless the loop is known."""
        relations = self.relations[:, step.slot, None] ^ int(step.flip)
        loops = (place.start == place.target) & self.possible.without_loops[relations]
        if self.facts is not None:
            at = loops.nonzero(as_tuple=True)
            looping = place.start.expand_as(loops)[at]
            loops[at] = ~self.facts.contains(looping, relations.expand_as(loops)[at], looping)
        return loops

    def all(self, parts: Sequence[Tensor]) -> Tensor:
        """Rule out the entities that any part rules out."""
        return reduce(torch.logical_or, parts)

    def any(self, parts: Sequence[Tensor]) -> Tensor:
        """Rule out the entities that every part rules out."""
        return reduce(torch.logical_and, parts)

    def negation(self, part: Tensor) -> Tensor:
        """Rule out nothing: no atom is certain."""
        return self.nothing

    def generic_visit(self, step: Step, place: EvalContext[Tensor]) -> Tensor:
        """Rule out nothing: a hop may start at any entity."""
        return self.nothing
