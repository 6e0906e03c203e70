"""Continuous search (CQD-CO): variables are free vectors, moved by gradient until the question holds best."""

from __future__ import annotations

import torch
from torch import Tensor

from tacit.engine.atoms import Atoms
from tacit.engine.logic import Logic
from tacit.errors import PlanError, SettingsError
from tacit.links.factors import FactorModel
from tacit.links.scorer import VectorScorer
from tacit.query.plan import Complement, Edge, Intersect, Node, Plan, Project, Relation, Row, Union

_BATCH = 1024
_SETTLED = 1e-6  # relative change of the objective between checks at which the search stops
_CHECK = 10


class ContinuousReasoner:
    """Maximises the score of a query over vectors for all its variables, then scores every entity as the target.

    Adam moves the vectors; a penalty `reg · Σ|v|³` keeps them near where entities live. A negated part may hold no
    variable of its own: the best value of that one would have to be found anew for every target.
    """

    def __init__(
        self,
        atoms: Atoms,
        logic: Logic,
        *,
        steps: int = 1000,
        step_size: float = 0.1,
        reg: float = 0.0,
        seed: int = 0,
    ) -> None:
        if not isinstance(atoms.scorer, VectorScorer):
            raise SettingsError(
                "continuous search needs a model that scores vectors (complex, distmult or cp); "
                "use --search beam or exact with this one"
            )
        if not atoms.calibration.pointwise:
            raise SettingsError(
                f"continuous search scores vectors one by one, which {atoms.calibration.name} cannot; "
                "use --calibration sigmoid"
            )
        if atoms.calibration.reads_entities:
            raise SettingsError(
                "continuous search scores vectors, which are no entities that this adapter could read; "
                "use an adapter on p, or --search beam"
            )
        if steps < 1 or not step_size > 0 or reg < 0:
            raise SettingsError(f"steps, step size and penalty must be positive, not {steps}, {step_size}, {reg}")
        self.atoms, self.logic = atoms, logic
        self.scorer: VectorScorer = atoms.scorer
        self.steps, self.step_size, self.reg, self.seed = steps, step_size, reg, seed
        self.num_entities, self.device = atoms.num_entities, atoms.device

    def scores(self, plan: Plan, entities: Tensor, relations: Tensor) -> Tensor:
        """Log-scores of every entity, `[B, N]`."""
        check(plan.root)
        parts = []
        for start in range(0, max(1, len(relations)), _BATCH):
            slots = (ids[start : start + _BATCH].to(self.device).long() for ids in (entities, relations))
            parts.append(self._some(plan, *slots))
        return torch.cat(parts)

    def ranking(self, plan: Plan, entities: Tensor, relations: Tensor) -> Tensor:
        """The scores; for a single atom the raw logits."""
        match plan.root:
            case Row(slot, Relation(relation, flip)) if self.atoms.calibration.monotone:
                heads = entities[:, slot].to(self.device).long()
                return self.atoms.ordering(heads, relations[:, relation].to(self.device).long() ^ int(flip))
        return self.scores(plan, entities, relations)

    def _some(self, plan: Plan, entities: Tensor, relations: Tensor) -> Tensor:
        search = _Search(self, entities, relations)
        if plan.num_variables > 1:
            search.optimise(plan)
        with torch.no_grad():
            return search.every(plan.root).expand(len(relations), self.num_entities)


class _Search:
    """One batch of queries, and the vectors of their variables."""

    def __init__(self, reasoner: ContinuousReasoner, entities: Tensor, relations: Tensor) -> None:
        self.reasoner, self.entities, self.relations = reasoner, entities, relations
        self.vectors: list[Tensor] = []

    def optimise(self, plan: Plan) -> None:
        """Move the vectors until the objective settles or the steps run out."""
        r = self.reasoner
        size = r.scorer.entity_vectors(self.relations.new_zeros(1)).shape[1]
        random = torch.Generator().manual_seed(r.seed)
        for _ in range(plan.num_variables):
            start = 1e-3 * torch.randn(len(self.relations), size, generator=random)
            self.vectors.append(start.to(r.device).requires_grad_())
        with torch.enable_grad():
            adam = torch.optim.Adam(self.vectors, lr=r.step_size)
            last = float("inf")
            for step in range(r.steps):
                loss = -self.one(plan.root, self.vectors[0]).sum()
                if r.reg:
                    loss = loss + r.reg * sum(penalty(r.scorer, v) for v in self.vectors)
                adam.zero_grad()
                loss.backward()
                adam.step()
                if step % _CHECK == 0:  # reading the loss makes a GPU wait
                    value = float(loss.detach())
                    if abs(last - value) <= _SETTLED * max(1.0, abs(value)):
                        break
                    last = value

    def one(self, node: Node, target: Tensor) -> Tensor:
        """The log-score of a node at one vector a query, `[B]`."""
        match node:
            case Row(slot, edge):
                with torch.no_grad():
                    start = self.reasoner.scorer.entity_vectors(self.entities[:, slot])
                return self._edge(edge, start, target)
            case Project(variable, source, edge):
                middle = self.vectors[variable]
                return self.reasoner.logic.conjunction(self.one(source, middle), self._edge(edge, middle, target))
            case Intersect(parts):
                return self.reasoner.logic.all([self.one(part, target) for part in parts])  # type: ignore[arg-type]
            case Union(parts):
                return self.reasoner.logic.any([self.one(part, target) for part in parts])  # type: ignore[arg-type]
            case Complement(part):
                return self.reasoner.logic.negation(self.one(part, target))  # type: ignore[arg-type]
        raise TypeError(f"{node} cannot be scored at a vector")

    def every(self, node: Node) -> Tensor:
        """The log-score of a node at every entity, `[B, N]`, with the bound variables where they are."""
        match node:
            case Row(slot, edge):
                return self._rows(edge, self.entities[:, slot])
            case Project(variable, source, edge):
                middle = self.vectors[variable]
                here = self.one(source, middle)[:, None]
                return self.reasoner.logic.conjunction(self._rows(edge, middle), here)
            case Intersect(parts):
                return self.reasoner.logic.all([self.every(part) for part in parts])  # type: ignore[arg-type]
            case Union(parts):
                return self.reasoner.logic.any([self.every(part) for part in parts])  # type: ignore[arg-type]
            case Complement(part):
                return self.reasoner.logic.negation(self.every(part))  # type: ignore[arg-type]
        raise TypeError(f"{node} cannot be scored at every entity")

    def _edge(self, edge: Edge, start: Tensor, end: Tensor) -> Tensor:
        match edge:
            case Relation(slot, flip):
                relations = self.relations[:, slot] ^ int(flip)
                logits = self.reasoner.scorer.score_vectors(start, relations, end)
                scores: Tensor = self.reasoner.atoms.calibration(logits[:, None], relations, relations)
                return scores[:, 0]
            case Intersect(parts):
                return self.reasoner.logic.all([self._edge(part, start, end) for part in parts])
            case Union(parts):
                return self.reasoner.logic.any([self._edge(part, start, end) for part in parts])
            case Complement(part):
                return self.reasoner.logic.negation(self._edge(part, start, end))
        raise TypeError(f"{edge} is no edge between vectors")

    def _rows(self, edge: Edge, start: Tensor) -> Tensor:
        """The values of an edge to every entity, from entities (`[B]` ids) or from vectors (`[B, D]`)."""
        match edge:
            case Relation(slot, flip):
                relations = self.relations[:, slot] ^ int(flip)
                if start.ndim == 1:
                    return self.reasoner.atoms.rows(start, relations)
                logits = self.reasoner.scorer.score_all(start, relations)
                rows: Tensor = self.reasoner.atoms.calibration(logits, relations, relations)
                return rows
            case Intersect(parts):
                return self.reasoner.logic.all([self._rows(part, start) for part in parts])
            case Union(parts):
                return self.reasoner.logic.any([self._rows(part, start) for part in parts])
            case Complement(part):
                return self.reasoner.logic.negation(self._rows(part, start))
        raise TypeError(f"{edge} is no edge between vectors")


def check(node: Edge, negated: bool = False) -> None:
    """Refuse plans that vectors cannot answer."""
    match node:
        case Row(_, edge):
            check(edge, negated)
        case Project(_, source, edge):
            if negated:
                raise PlanError(
                    "continuous search cannot negate a part with a variable of its own ('not exists'); "
                    "use beam or exact search"
                )
            check(source, negated)
            check(edge, negated)
        case Intersect(parts) | Union(parts):
            for part in parts:
                check(part, negated)
        case Complement(part):
            check(part, True)
        case Relation():
            pass
        case _:
            raise PlanError(
                f"continuous search answers trees that start at entities; a {type(node).__name__.lower()} step needs "
                "beam or exact search"
            )


def penalty(scorer: VectorScorer, vectors: Tensor) -> Tensor:
    """`Σ|v|³` over the numbers of some vectors, complex ones where the model's are."""
    squares = scorer.squares(vectors, vectors, vectors)[0] if isinstance(scorer, FactorModel) else vectors.square()
    return squares.clamp(min=1e-12).pow(1.5).sum()  # the root of zero has no gradient
