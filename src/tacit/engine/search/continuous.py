"""Continuous search (CQD-CO): variables are free vectors, moved by gradients."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial

import torch
from torch import Tensor

from tacit.engine.atoms.atoms import Atoms
from tacit.engine.logic import Logic
from tacit.engine.reasoner import Reasoner
from tacit.errors import PlanError, SettingsError
from tacit.links.batches import in_batches
from tacit.links.scorer import VectorScorer
from tacit.query.plans.fold import EvalContext, Fold
from tacit.query.plans.plan import (
    Complement,
    Difference,
    Intersect,
    Plan,
    Project,
    Relation,
    Row,
    Unequal,
    Union,
    Within,
    has,
    walk,
)

_BATCH = 1024
_CONVERGED = 1e-6  # relative change of the objective between checks at which the search stops
_CHECK = 10


class ContinuousReasoner(Reasoner):
    """Maximises a query's score over vectors for its variables, then scores every entity.

    Adam moves the vectors; a penalty `reg · Σ|v|³` keeps them near the vectors of entities. A
    negated part may not have a variable of its own: its best value would differ for every target.
    """

    probabilities = calibrated = True
    name = "continuous search"

    def __init__(
        self,
        atoms: Atoms,
        logic: Logic,
        *,
        steps: int,
        step_size: float,
        reg: float,
    ) -> None:
        scorer = atoms.scorer
        calibration = atoms.calibration
        if not isinstance(scorer, VectorScorer):
            raise _refusal(
                "needs a model that scores vectors (complex, distmult or cp); use search beam or "
                "exact"
            )
        if not calibration.capabilities.pointwise:
            raise _refusal(
                f"scores vectors one by one, which {calibration.name} cannot; "
                "use calibration sigmoid",
                "calibration",
            )
        if not calibration.capabilities.shareable:
            raise _refusal(
                "scores vectors, no entities for this adapter to read; use an adapter on p, or "
                "search beam"
            )
        if atoms.possible is not None and atoms.possible.typed:
            raise _refusal(
                "scores vectors, which are of no kind; leave typed out, or use search beam", "typed"
            )
        # A conjunction of three atoms starts at 0, with a gradient of 0.
        if logic.norm == "lukasiewicz":
            raise _refusal(
                "climbs by gradients, and lukasiewicz has none where it starts; "
                "use logic product or godel",
                "logic",
            )
        self.atoms = atoms
        self.logic = logic
        self.scorer: VectorScorer = scorer
        self.steps = steps
        self.step_size = step_size
        self.reg = reg
        self.num_entities = atoms.num_entities
        self.shards = atoms.shards
        self.device = atoms.device

    def unsupported_reason(self, plan: Plan) -> PlanError | None:
        """The reason why vectors cannot answer a plan; None where they can."""
        for step in walk(plan.root):
            if isinstance(step, Unequal | Within | Difference):
                what = "inequality ('!=')" if isinstance(step, Unequal) else "comparison of values"
                return PlanError(
                    f"continuous search moves vectors, which no {what} tells apart; use beam or "
                    "exact search"
                )
            if not isinstance(step, Row | Relation | Project | Intersect | Union | Complement):
                return PlanError(
                    "continuous search answers trees that start at entities; a "
                    f"{type(step).__name__.lower()} step needs `search='beam'` or `search='exact'`"
                )
            if isinstance(step, Complement) and has(step, Project):
                return PlanError(
                    "continuous search cannot negate a part with a variable of its own ('not "
                    "exists'); use `search='beam'` or `search='exact'`"
                )
        return None

    def batch(self, plan: Plan) -> int:
        """How many queries to optimise at once."""
        return _BATCH

    def scores(self, plan: Plan, entities: Tensor, relations: Tensor) -> Tensor:
        """Log-scores of every entity, `[B, N]`."""
        self.check(plan)
        slots = (ids.to(self.device).long() for ids in (entities, relations))
        return in_batches(partial(self._search, plan), _BATCH, *slots)

    def ranking(self, plan: Plan, entities: Tensor, relations: Tensor) -> Tensor:
        """The scores; for a single atom the raw logits."""
        single = self.atoms.single(plan, entities, relations)
        return self.scores(plan, entities, relations) if single is None else single[0]

    def _search(self, plan: Plan, entities: Tensor, relations: Tensor) -> Tensor:
        vectors = Vectors(self, entities, relations)
        if plan.num_variables > 1:
            vectors.optimise(plan)
        with torch.no_grad():
            return vectors.of(plan.root).expand(len(relations), self.atoms.width)


class Vectors(Fold[Tensor, Tensor]):
    """Values a plan's steps: `[B, 1]` at a target vector per query, `[B, N]` at all entities.

    An end is the id of an entity (`[B]`) or a free vector (`[B, D]`).
    """

    def __init__(self, reasoner: ContinuousReasoner, entities: Tensor, relations: Tensor) -> None:
        self.reasoner = reasoner
        self.entities = entities
        self.relations = relations
        self.vectors: list[Tensor] = []

    def optimise(self, plan: Plan) -> None:
        """Move the vectors of each query until its objective converges, or the steps run out.

        All queries start from the same vectors and each stops by itself, so that answers do not
        depend on the batch.
        """
        r = self.reasoner
        batch = len(self.relations)
        size = r.scorer.entity_vectors(self.relations.new_zeros(1)).shape[1]
        starts = 1e-3 * torch.randn(
            plan.num_variables, 1, size, generator=torch.Generator().manual_seed(0)
        )
        self.vectors = [start.repeat(batch, 1).to(r.device).requires_grad_() for start in starts]
        converged = torch.zeros(batch, 1, dtype=torch.bool, device=r.device)
        previous = [vector.detach() for vector in self.vectors]
        last = torch.full((batch,), torch.inf, device=r.device)
        with torch.inference_mode(False), torch.enable_grad():
            adam = torch.optim.Adam(self.vectors, lr=r.step_size)
            for step in range(r.steps):
                loss = -self.of(plan.root, EvalContext(target=self.vectors[0]))[:, 0]  # [B]
                if r.reg:
                    loss = loss + r.reg * sum(penalty(r.scorer, v) for v in self.vectors)
                adam.zero_grad()
                loss.sum().backward()
                adam.step()
                if step % _CHECK == 0:
                    previous = _frozen_where_converged(self.vectors, previous, converged)
                    value = loss.detach()
                    converged |= ((last - value).abs() <= _CONVERGED * value.abs().clamp(min=1.0))[
                        :, None
                    ]
                    if bool(converged.all()):  # reading it waits for a GPU
                        break
                    last = value
        self.vectors = _frozen_where_converged(self.vectors, previous, converged)

    def entity(self, slot: int) -> Tensor:
        return self.entities[:, slot]

    def relation(self, step: Relation, place: EvalContext[Tensor]) -> Tensor:
        source = place.start
        target = place.target
        relations = self.relations[:, step.slot] ^ int(step.flip)
        r = self.reasoner
        if target is None and source.ndim == 1:
            return r.atoms.rows(source, relations)
        if source.ndim == 1:
            with torch.no_grad():
                source = r.scorer.entity_vectors(source)
        if target is None:
            logits = r.scorer.score_all(source, relations)
        else:
            logits = r.scorer.score_vectors(source, relations, target)[:, None]
        return r.atoms.capped(r.atoms.calibration(logits, relations, relations))

    def project(self, step: Project, place: EvalContext[Tensor]) -> Tensor:
        middle = self.vectors[step.variable]
        start = self.of(step.source, EvalContext(target=middle))
        return self.reasoner.logic.conjunction(
            self.of(step.edge, EvalContext(middle, place.target)), start
        )

    def all(self, parts: Sequence[Tensor]) -> Tensor:
        return self.reasoner.logic.all(parts)

    def any(self, parts: Sequence[Tensor]) -> Tensor:
        return self.reasoner.logic.any(parts)

    def negation(self, part: Tensor) -> Tensor:
        return self.reasoner.logic.negation(part)


def _refusal(why: str, setting: str = "search") -> SettingsError:
    return SettingsError(f"continuous search {why}", setting)


def penalty(scorer: VectorScorer, vectors: Tensor) -> Tensor:
    """`Σ|v|³` over the real or complex numbers of each vector, `[B, D] -> [B]`."""
    # The root of zero has no gradient.
    return scorer.vector_squares(vectors).clamp(min=1e-12).pow(1.5).sum(dim=1)


def _frozen_where_converged(
    vectors: Sequence[Tensor], previous: Sequence[Tensor], converged: Tensor
) -> list[Tensor]:
    """The vectors, with the earlier ones of queries that have converged, `[B, 1]`."""
    return [
        torch.where(converged, old, vector.detach())
        for old, vector in zip(previous, vectors, strict=True)
    ]
