"""The strength of negation of each relation, chosen so that held-out queries rank best.

The value of a negation, `n(min(1, kx))`, is flat where it excludes, so nothing can be learned there
by small steps. But a query negates few relations: with the ranks of its answers at every strength
of a grid, the best one of each relation is a matter of counting. A relation that few queries negate
goes with all others: to its own queries come some `prior` ones that are like the mean of all. How
many, cross-validation says; where relations are no different, infinitely many.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from tacit.engine.ranking import reciprocal_ranks
from tacit.engine.reasoner import Reasoner
from tacit.graph.fact_index import Floats, Ints
from tacit.query.plans.plan import Complement, negated_relation, walk
from tacit.query.sampling.queries import QuerySet

FACTORS = (1.0, 2.0, 4.0, 8.0, 12.0, 20.0, 40.0, 0.5, 0.25)  # of equally good ones the first
PRIORS = (math.inf, 100.0, 30.0, 10.0, 3.0)
_FOLDS = 4


@dataclass(frozen=True)
class Strengths:
    """Factors of the strength of negation: one per relation, and one shared factor."""

    factors: Floats  # [R]
    shared: float
    prior: float
    gained: float  # MRR of the queries learned from, over that at factor 1

    def about(self) -> dict[str, Any]:
        """The summary of the factors."""
        prior = None if math.isinf(self.prior) else self.prior
        return {
            "strength_shared": self.shared,
            "strength_prior": prior,
            "strength_gain": round(self.gained, 5),
        }


def fitted_strengths(
    reasoner_at: Callable[[float], Reasoner], queries: Sequence[QuerySet], num_relations: int
) -> Strengths:
    """Fit the factors to the ranks of queries; `reasoner_at` is the search at a factor."""
    negating = [asked for asked in queries if asked.shape.plan.has(Complement) and len(asked)]
    ranked = [
        np.concatenate([reciprocal_ranks(reasoner_at(f), asked).numpy() for asked in negating])
        for f in FACTORS
    ]
    return best_strengths(
        np.stack(ranked), np.concatenate([negated(asked) for asked in negating]), num_relations
    )


def negated(queries: QuerySet) -> Ints:
    """The relation that each query negates, or -1 if it is no single one."""
    steps = [step for step in walk(queries.shape.plan.root) if isinstance(step, Complement)]
    about = negated_relation(steps[0]) if len(steps) == 1 else None
    if about is None:
        return np.full(len(queries), -1, dtype=np.int64)
    ids: Ints = queries.relations[:, about.slot].astype(np.int64) ^ int(about.flip)
    return ids


def best_strengths(ranked: Floats, about: Ints, num_relations: int) -> Strengths:
    """The best factors by `ranked[F, Q]`, the MRR of each query at each factor.

    `about` is the relation that each query negates.
    """
    folds = np.random.default_rng(0).permutation(len(about)) % _FOLDS
    gains = []
    for prior in PRIORS:
        gain = 0.0
        for fold in range(_FOLDS):
            shared, own = _best(
                ranked[:, folds != fold], about[folds != fold], num_relations, prior
            )
            gain += _total_mrr(ranked[:, folds == fold], about[folds == fold], shared, own)
        gains.append(gain)
    prior = PRIORS[int(np.argmax(gains))]
    shared, own = _best(ranked, about, num_relations, prior)
    gained = (_total_mrr(ranked, about, shared, own) - float(ranked[0].sum())) / max(1, len(about))
    return Strengths(np.array(FACTORS)[own], FACTORS[shared], prior, gained)


def _best(ranked: Floats, about: Ints, num_relations: int, prior: float) -> tuple[int, Ints]:
    """The indices of the best factors in the grid: the shared one, and one per relation."""
    mean = ranked.mean(1) if ranked.shape[1] else np.zeros(len(ranked))
    shared = int(mean.argmax())
    if math.isinf(prior):
        return shared, np.full(num_relations, shared)
    sums = np.zeros((num_relations, len(ranked)))
    np.add.at(sums, about[about >= 0], ranked.T[about >= 0])
    own: Ints = (sums + prior * mean).argmax(1)
    return shared, own


def _total_mrr(ranked: Floats, about: Ints, shared: int, own: Ints) -> float:
    """The summed MRR of the queries with factors at some indices of the grid."""
    places = np.where(about >= 0, own[about], shared)
    return float(ranked[places, np.arange(len(about))].sum())
