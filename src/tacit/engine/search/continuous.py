"""Continuous search (CQD-CO): variables are free vectors, moved by gradient until the question holds best."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor

from tacit.engine.atoms.atoms import Atoms
from tacit.engine.logic import Logic
from tacit.engine.reasoner import Reasoner
from tacit.errors import PlanError, SettingsError
from tacit.links.scorer import VectorScorer
from tacit.query.plans.fold import Fold, Place
from tacit.query.plans.plan import Complement, Intersect, Plan, Project, Relation, Row, Step, Union, has, walk

_BATCH = 1024
_SETTLED = 1e-6  # relative change of the objective between checks at which the search stops
_CHECK = 10


class ContinuousReasoner(Reasoner):
    """Maximises the score of a query over vectors for all its variables, then scores every entity as the target.

    Adam moves the vectors; a penalty `reg · Σ|v|³` keeps them near where entities live. A negated part may hold no
    variable of its own: the best value of that one would have to be found anew for every target.
    """

    probabilities = calibrated = True
    name = "continuous search"

    def __init__(
        self, atoms: Atoms, logic: Logic, *, steps: int = 1000, step_size: float = 0.1, reg: float = 0.0
    ) -> None:
        scorer, calibration = atoms.scorer, atoms.calibration
        if not isinstance(scorer, VectorScorer):
            raise _refused("needs a model that scores vectors (complex, distmult or cp); use search beam or exact")
        if not calibration.pointwise:
            why = f"scores vectors one by one, which {calibration.name} cannot; use calibration sigmoid"
            raise _refused(why, "calibration")
        if not calibration.shareable:
            raise _refused("scores vectors, no entities for this adapter to read; use an adapter on p, or search beam")
        if atoms.possible is not None and atoms.possible.typed:
            raise _refused("scores vectors, which are of no kind; leave typed out, or use search beam", "typed")
        if logic.norm == "lukasiewicz":  # whose value of three atoms is 0 at the start, and as flat all around
            why = "climbs by gradients, and lukasiewicz has none where it starts; use logic product or godel"
            raise _refused(why, "logic")
        self.atoms, self.logic = atoms, logic
        self.scorer: VectorScorer = scorer
        self.steps, self.step_size, self.reg = steps, step_size, reg
        self.num_entities, self.shards, self.device = atoms.num_entities, atoms.shards, atoms.device

    def refusal(self, plan: Plan) -> PlanError | None:
        """That vectors cannot answer a plan."""
        for step in walk(plan.root):
            if not isinstance(step, Row | Relation | Project | Intersect | Union | Complement):
                return PlanError(
                    f"continuous search answers trees that start at entities; a {type(step).__name__.lower()} step "
                    "needs beam or exact search"
                )
            if isinstance(step, Complement) and has(step, Project):
                return PlanError(
                    "continuous search cannot negate a part with a variable of its own ('not exists'); "
                    "use beam or exact search"
                )
        return None

    def batch(self, plan: Plan) -> int:
        """How many queries to move at once."""
        return _BATCH

    def scores(self, plan: Plan, entities: Tensor, relations: Tensor) -> Tensor:
        """Log-scores of every entity, `[B, N]`."""
        self.check(plan)
        parts = zip(entities.split(_BATCH), relations.split(_BATCH), strict=True)
        return torch.cat([self._searched(plan, *(ids.to(self.device).long() for ids in part)) for part in parts])

    def ranking(self, plan: Plan, entities: Tensor, relations: Tensor) -> Tensor:
        """The scores; for a single atom the raw logits."""
        single = self.atoms.single(plan, entities, relations)
        return self.scores(plan, entities, relations) if single is None else single[0]

    def _searched(self, plan: Plan, entities: Tensor, relations: Tensor) -> Tensor:
        vectors = Vectors(self, entities, relations)
        if plan.num_variables > 1:
            vectors.optimise(plan)
        with torch.no_grad():
            return vectors.of(plan.root).expand(len(relations), self.atoms.width)


class Vectors(Fold[Tensor, Tensor]):
    """Values the steps of a plan at vectors: `[B, 1]` at one target vector a query, `[B, N]` at every entity.

    An end is the id of an entity (`[B]`) or a free vector (`[B, D]`).
    """

    def __init__(self, reasoner: ContinuousReasoner, entities: Tensor, relations: Tensor) -> None:
        self.reasoner, self.entities, self.relations = reasoner, entities, relations
        self.vectors: list[Tensor] = []

    def optimise(self, plan: Plan) -> None:
        """Move the vectors of each query until its objective settles, or the steps run out.

        All queries start alike and each stops by itself, so that its answers do not depend on those it is asked with.
        """
        r, batch = self.reasoner, len(self.relations)
        size = r.scorer.entity_vectors(self.relations.new_zeros(1)).shape[1]
        starts = 1e-3 * torch.randn(plan.num_variables, 1, size, generator=torch.Generator().manual_seed(0))
        self.vectors = [start.repeat(batch, 1).to(r.device).requires_grad_() for start in starts]
        settled = torch.zeros(batch, 1, dtype=torch.bool, device=r.device)
        kept, last = [vector.detach() for vector in self.vectors], torch.full((batch,), torch.inf, device=r.device)
        with torch.enable_grad():
            adam = torch.optim.Adam(self.vectors, lr=r.step_size)
            for step in range(r.steps):
                loss = -self.of(plan.root, Place(target=self.vectors[0]))[:, 0]  # [B]
                if r.reg:
                    loss = loss + r.reg * sum(penalty(r.scorer, v) for v in self.vectors)
                adam.zero_grad()
                loss.sum().backward()
                adam.step()
                if step % _CHECK == 0:
                    kept, value = _left(self.vectors, kept, settled), loss.detach()
                    settled |= ((last - value).abs() <= _SETTLED * value.abs().clamp(min=1.0))[:, None]
                    if bool(settled.all()):  # reading it makes a GPU wait
                        break
                    last = value
        self.vectors = _left(self.vectors, kept, settled)

    def entity(self, slot: int) -> Tensor:
        return self.entities[:, slot]

    def relation(self, step: Relation, place: Place[Tensor]) -> Tensor:
        source, target = place.start, place.target
        relations, r = self.relations[:, step.slot] ^ int(step.flip), self.reasoner
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

    def project(self, step: Project, place: Place[Tensor]) -> Tensor:
        middle = self.vectors[step.variable]
        here = self.of(step.source, Place(target=middle))
        return self.reasoner.logic.conjunction(self.of(step.edge, Place(middle, place.target)), here)

    def all(self, parts: Sequence[Tensor], place: Place[Tensor]) -> Tensor:
        return self.reasoner.logic.all(parts)

    def any(self, parts: Sequence[Tensor], place: Place[Tensor]) -> Tensor:
        return self.reasoner.logic.any(parts)

    def negation(self, step: Complement[Step], part: Tensor, place: Place[Tensor]) -> Tensor:
        return self.reasoner.logic.negation(part, self.reasoner.atoms.strength(step, self.relations))


def _refused(why: str, setting: str = "search") -> SettingsError:
    return SettingsError(f"continuous search {why}", setting)


def penalty(scorer: VectorScorer, vectors: Tensor) -> Tensor:
    """`Σ|v|³` over the numbers of each of some vectors, complex ones where the model's are, `[B, D] -> [B]`."""
    return scorer.vector_squares(vectors).clamp(min=1e-12).pow(1.5).sum(dim=1)  # the root of zero has no gradient


def _left(vectors: Sequence[Tensor], kept: Sequence[Tensor], settled: Tensor) -> list[Tensor]:
    """The vectors, as they were kept for queries that have settled, `[B, 1]`."""
    return [torch.where(settled, old, vector.detach()) for old, vector in zip(kept, vectors, strict=True)]
