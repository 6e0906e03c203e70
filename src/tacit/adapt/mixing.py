"""How much rules count beside a link predictor, chosen by validation facts.

A share for each relation is chosen by few facts, and would follow their noise. So the gain of a
relation counts beside the mean gain of all facts, as if `SHRINKAGE` facts more had been asked.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace

import numpy as np
import torch
from torch import Tensor

from tacit.engine.atoms.mixture import LARGEST_SHARE, RuleMixture
from tacit.engine.engine import Engine
from tacit.fitting.progress import Progress, counting
from tacit.graph.fact_index import FactIndex, Floats, Ints
from tacit.graph.graph import Graph
from tacit.links.rules.rule_scorer import RuleScorer
from tacit.links.scorer import Scorer

SHARES = (
    0.0,
    0.01,
    0.02,
    0.05,
    0.1,
    0.15,
    0.2,
    0.3,
    0.4,
    0.5,
    0.6,
    0.7,
    0.8,
    0.9,
    0.95,
    LARGEST_SHARE,
)
FEW = (0.0, 0.25, 0.5, 1.0, 2.0, 4.0, 8.0)
SHRINKAGE = 100.0
MOST = 4000  # facts that are ranked, each in one direction
_ROWS = 128  # at a time
_LISTED = 256  # ranks beyond which no rank is told from another
# without validation facts
USUAL_SHARE = 0.2
USUAL_FEW = 1.0
USUAL_ODDS = (1.0, 0.0)
_NEWTON = 20  # steps
_RIDGE = 1.0  # against few facts
_LEAST_SCALE = 0.05  # which keeps the order


@dataclass(frozen=True, eq=False)
class ShareGains:
    """The reciprocal rank of validation facts for every share of the rules in `SHARES`."""

    degrees: Floats  # training facts of the heads, [n]
    ranks: Floats  # reciprocal ones, [n, shares]

    @property
    def error(self) -> float:
        """The standard error of the largest gain, which a share of 1 has to exceed."""
        best = self.ranks[:, self.ranks.mean(axis=0).argmax()]
        return float((best - self.ranks[:, 0]).std() / len(best) ** 0.5)

    def at(self, few: float) -> Floats:
        """The gains where heads of few facts have larger shares, interpolated.

        A share costs its part of the error, so that what hardly matters stays small.
        """
        grid = np.array(SHARES)
        columns = []
        for share in SHARES:
            shares = np.full(len(self.degrees), share)
            if few:
                shares = shares + (1.0 - share) * few / (few + self.degrees)
            shares = shares.clip(max=grid[-1])
            left = np.searchsorted(grid, shares, side="right").clip(1, len(grid) - 1) - 1
            weight = (shares - grid[left]) / (grid[left + 1] - grid[left])
            rows = np.arange(len(shares))
            before, after = self.ranks[rows, left], self.ranks[rows, left + 1]
            columns.append(before + weight * (after - before) - self.error * shares)
        return np.stack(columns, axis=1)


def fit_mixture(
    graph: Graph,
    scorer: Scorer,
    rules: RuleScorer,
    *,
    seed: int = 0,
    progress: Progress | bool = False,
) -> RuleMixture:
    """The mixture of a link predictor and rules that ranks validation facts best.

    Without validation facts its shares are usual ones.
    """
    usual = usual_mixture(rules)
    facts = held_out_facts(graph, seed)
    if not len(facts) or not len(rules.rules):
        return usual
    mixture = RuleMixture(rules, usual.shares, 0.0, *fit_odds(graph, rules, facts))
    with counting(progress) as counts:
        gains = share_gains(graph, scorer, mixture, facts, counts("facts to mix by", len(facts)))
    tables = [gains.at(few) for few in FEW]
    best = int(np.argmax([table.mean(axis=0).max() for table in tables]))
    shares = shrunk_shares(facts[:, 1], tables[best], graph.num_relations)
    return replace(mixture, shares=torch.from_numpy(shares).float(), few=FEW[best])


def usual_mixture(rules: RuleScorer) -> RuleMixture:
    """The mixture of rules without validation facts."""
    shares = torch.full((rules.num_relations,), USUAL_SHARE)
    return RuleMixture(rules, shares, USUAL_FEW, *USUAL_ODDS)


def held_out_facts(graph: Graph, seed: int = 0) -> Ints:
    """Some validation facts, asked in either direction, `[n, 3]`; one relation side by side."""
    heads, relations, tails = facts = graph.valid.astype(np.int64).T
    either = np.concatenate([facts.T, np.stack([tails, relations ^ 1, heads], axis=1)])
    chosen = either[np.random.default_rng(seed).permutation(len(either))[:MOST]]
    ordered: Ints = chosen[np.lexsort(chosen.T[:2])]
    return ordered


def fit_odds(graph: Graph, rules: RuleScorer, facts: Ints) -> tuple[float, float]:
    """Scale and shift of the log-odds of rules, by their likelihood in the rows of some facts.

    Of what a rule implies, most that is true is known already: the rest of it holds less often than
    its confidence says.
    """
    rows = np.unique(facts[:, :2], axis=0)
    found = rules.entries(*rows.T)
    heads, relations = rows[found.rows].T
    unknown = ~graph.index("train").contains(heads, relations, found.tails)
    true = graph.index("valid").contains(heads, relations, found.tails)[unknown]
    scores = found.scores[unknown].astype(np.float64).clip(1e-6, 1.0 - 1e-6)
    if not true.any():
        return USUAL_ODDS
    inputs = np.stack([np.log(scores / (1.0 - scores)), np.ones_like(scores)], axis=1)
    weights = np.array(USUAL_ODDS)
    for _ in range(_NEWTON):
        chances = 1.0 / (1.0 + np.exp(-inputs @ weights))
        slope = inputs.T @ (true - chances) - _RIDGE * (weights - USUAL_ODDS)
        curvature = (inputs * (chances * (1.0 - chances))[:, None]).T @ inputs
        weights = weights + np.linalg.solve(curvature + _RIDGE * np.eye(2), slope)
    return max(float(weights[0]), _LEAST_SCALE), float(weights[1])


def shrunk_shares(relations: Ints, gains: Floats, num_relations: int) -> Floats:
    """The share of each relation with the largest gain, shrunk to a common one, `[R]`."""
    sums = np.zeros((num_relations, gains.shape[1]))
    np.add.at(sums, relations, gains)
    best = (sums + SHRINKAGE * gains.mean(axis=0)).argmax(axis=1)
    shares: Floats = np.array(SHARES)[best]
    return shares


@torch.no_grad()
def share_gains(
    graph: Graph,
    scorer: Scorer,
    mixture: RuleMixture,
    facts: Ints,
    progress: Callable[[int], None] = lambda done: None,
) -> ShareGains:
    """Rank held-out facts for every share of the rules.

    Other known answers are left out, as in the filtered protocol.
    """
    # loops and counts as the run is asked, and nothing known
    atoms = Engine(graph, scorer, observed="none").atoms
    known = graph.index("train", "valid")
    parts = [np.zeros((0, len(SHARES)))]
    for start in range(0, len(facts), _ROWS):
        rows = facts[start : start + _ROWS]
        columns = (torch.from_numpy(rows[:, column]).to(atoms.device) for column in (0, 1))
        chances = atoms.rows(*columns).exp_().cpu()
        parts.append(_reciprocal_ranks(rows, chances, mixture, known))
        progress(start + len(rows))
    degrees = mixture.degrees.cpu().numpy()
    return ShareGains(degrees[facts[:, 0]], np.concatenate(parts))


def _reciprocal_ranks(
    facts: Ints, chances: Tensor, mixture: RuleMixture, known: FactIndex
) -> Floats:
    """The reciprocal rank of each tail among all but the known ones, `[B, shares]`.

    Of tails that no rule speaks for, only the best are looked at.
    """
    heads, relations, tails = facts.T
    every = np.arange(len(facts))
    own = chances[every, tails].double().numpy()
    found = mixture.scorer.entries(heads, relations)
    implied = mixture.chances(torch.from_numpy(found.scores)).numpy()
    by_rules = np.zeros(len(facts))
    of_tail = found.tails == tails[found.rows]
    by_rules[found.rows[of_tail]] = implied[of_tail]
    chances[every, tails] = -1.0
    rows, others = known.neighbours(heads, relations)
    chances[rows, others.astype(np.int64)] = -1.0
    beside = chances[found.rows, found.tails].double().numpy()
    rivals = beside >= 0.0  # neither known nor the tail
    places = found.rows[rivals]
    beside = beside[rivals]
    rules_say = implied[rivals]
    chances[found.rows, found.tails] = -1.0
    best = chances.topk(min(_LISTED, chances.shape[1]), dim=1).values.double().numpy()
    best[best < 0.0] = -np.inf
    out = np.empty((len(facts), len(SHARES)))
    for column, share in enumerate(SHARES):
        score = (1.0 - share) * own + share * by_rules
        unruled = (1.0 - share) * best
        ruled = (1.0 - share) * beside + share * rules_say
        above = (unruled > score[:, None]).sum(axis=1) + np.bincount(
            places, ruled > score[places], len(facts)
        )
        ties = (unruled == score[:, None]).sum(axis=1) + np.bincount(
            places, ruled == score[places], len(facts)
        )
        out[:, column] = 1.0 / (1.0 + above + ties / 2.0)
    return out
