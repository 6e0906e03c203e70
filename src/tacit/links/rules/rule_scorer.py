"""Rules as a link predictor: the tails that they imply, and what each of them rests on."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from tacit.graph.fact_index import FactIndex, Integers, Ints
from tacit.links.rules.rule_set import NONE, Rule, RuleSet

FLOOR = -20.0  # the logit of an atom that no rule speaks for
SHARES = (1.0, 0.5, 0.25)  # what the best rules of an atom count for, in falling order
_HIGHEST = 0.999  # the largest confidence of a prediction


class Entries(NamedTuple):
    """The tails of some rows that rules speak for, sorted by row, then by tail."""

    rows: Ints
    tails: Ints
    scores: NDArray[np.float32]  # probabilities


class Firing(NamedTuple):
    """A rule that speaks for an atom, and paths of entities from x to the end of its body."""

    id: int
    rule: Rule
    paths: list[tuple[int, ...]]  # the first few, each from x on
    total: int  # how many there are


@dataclass(frozen=True, eq=False)
class RuleScorer:
    """The rules of a graph as a scorer: log-odds of `1 - Π (1 - share · confidence)`.

    The product is over the three best rules that speak for an atom. Bodies are looked up in
    `index`. An atom that no rule speaks for has the logit `FLOOR`.
    """

    rules: RuleSet
    index: FactIndex
    num_entities: int
    device: torch.device = field(default_factory=lambda: torch.device("cpu"))

    @property
    def num_relations(self) -> int:
        """The number of relation ids, inverses included."""
        return self.index.num_relations

    def logits(self, heads: Tensor, relations: Tensor, out: Tensor | None = None) -> Tensor:
        """Log-odds of every tail, `[B] x [B] -> [B, N]`."""
        if out is None:
            out = torch.empty(len(heads), self.num_entities, device=self.device)
        out.fill_(FLOOR)
        found = self.entries(heads.cpu().numpy(), relations.cpu().numpy())
        places = (torch.from_numpy(each).to(out.device) for each in found[:2])
        out[tuple(places)] = torch.logit(torch.from_numpy(found.scores)).to(out.device)
        return out

    def logits_of(self, heads: Tensor, relations: Tensor, tails: Tensor) -> Tensor:
        """Log-odds of single atoms, `[B] x [B] x [B] -> [B]`."""
        rows = self.logits(heads, relations)
        return rows.gather(1, tails[:, None].to(rows.device))[:, 0]

    def entries(self, heads: Integers, relations: Integers) -> Entries:
        """The tails that rules speak for in rows `relation(head, ·)`, and their scores."""
        found = []
        for row, (head, relation) in enumerate(
            zip(heads.tolist(), relations.tolist(), strict=True)
        ):
            confidences: dict[int, list[float]] = {}
            for place in np.flatnonzero(
                (self.rules.relation == relation) & self.rules.active
            ).tolist():
                rule = self.rules[place]
                for tail in {
                    path[-1] if rule.tail == NONE else rule.tail for path in self._paths(rule, head)
                }:
                    confidences.setdefault(tail, []).append(rule.confidence)
            found += [
                (row, tail, combined(sorted(confidences[tail], reverse=True)))
                for tail in sorted(confidences)
            ]
        columns = zip(*found, strict=True) if found else [()] * 3
        kinds = (np.int64, np.int64, np.float32)
        return Entries(*(np.array(c, k) for c, k in zip(columns, kinds, strict=True)))

    def firings(
        self, head: int, relation: int, tail: int, top: int = 3, paths: int = 3
    ) -> list[Firing]:
        """The best rules that speak for an atom, with some of the paths that they rest on."""
        found = []
        places = np.flatnonzero((self.rules.relation == relation) & self.rules.active)
        for place in places[np.argsort(-self.rules.confidence[places], kind="stable")].tolist():
            rule = self.rules[place]
            if rule.tail not in (NONE, tail):
                continue
            grounded = [
                path for path in self._paths(rule, head) if rule.tail != NONE or path[-1] == tail
            ]
            if grounded:
                found.append(Firing(place, rule, grounded[:paths], len(grounded)))
            if len(found) == top:
                break
        return found

    def _paths(self, rule: Rule, head: int) -> list[tuple[int, ...]]:
        """The groundings of a body from an entity on, in rising order."""
        if head == rule.tail or head == rule.end:
            return []
        paths: list[tuple[int, ...]] = [(head,)]
        for place, relation in enumerate(rule.body):
            last = place == len(rule.body) - 1
            paths = [
                (*path, int(node))
                for path in paths
                for node in self.index.tails(path[-1], relation)
                if node not in path
                and (
                    node == rule.end
                    if last and rule.end != NONE
                    else node not in (rule.tail, rule.end)
                )
            ]
        return paths


def combined(confidences: list[float]) -> float:
    """`1 - Π (1 - share · confidence)` of confidences in falling order."""
    rest = 1.0
    for share, confidence in zip(SHARES, confidences, strict=False):
        rest *= 1.0 - share * confidence
    return min(1.0 - rest, _HIGHEST)
