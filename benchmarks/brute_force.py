"""Exact answers by the definition of a question, where all pairs of entities can be scored.

A hop is `out[t] = max_s source[s] · edge(s, t)` over all N x N edges of a relation. Scoring them
takes longest by far, and is done once for all questions that have a hop over the same relation.
Nothing here is the engine's: products of ComplEx, calibrations, known facts and connectives are
written out, the latter in 64 bits.
"""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Sequence

import torch
from torch import Tensor

from tacit.engine.questions import BoundQuery
from tacit.graph.graph import Graph
from tacit.links.models import ComplEx
from tacit.query.formula import And, Atom, Entity, Exists, Formula, Not, Or, Variable

CALIBRATIONS = ("softmax-count", "sigmoid")
# what a known fact is worth; a prediction is worth so much less than its chance
KNOWN = math.log(1.0 - 2.0**-10)
MOST = math.log(1.0 - 2.0**-10)  # of a share that was multiplied
_ROWS = 16  # scored at a time: what is computed from them stays in cache


class BruteForce:
    """Log-scores `[C, N]` of all entities for tree-shaped questions, a row per calibration."""

    def __init__(self, graph: Graph, model: ComplEx) -> None:
        # [N, 2D]
        self.model = model
        self.vectors = model.keys().detach()
        self.tails = defaultdict[tuple[int, int], list[int]](list)
        self.looping = set[int]()
        for head, relation, tail in graph.triples("train").tolist():
            self.tails[head, relation].append(tail)
            if head == tail:
                self.looping.add(relation)
        self.passes = 0  # over all pairs of entities
        self._reached: dict[tuple[int, Exists], Tensor] = {}  # by question and what is bound in it

    def values(self, questions: Sequence[BoundQuery]) -> list[Tensor]:
        """Log-scores `[C, N]` of each question; hops over one relation are taken together."""
        self._reached.clear()
        while True:
            waiting = defaultdict[int, list[tuple[int, Exists]]](list)
            for place, question in enumerate(questions):
                bound = self._next(place, question.query.formula)
                if bound is not None:
                    waiting[_relation(question, _left(bound)[1])].append((place, bound))
            if not waiting:
                return [
                    self._value(place, questions[place], questions[place].query.formula)
                    for place in range(len(questions))
                ]
            for relation, hops in waiting.items():
                sources = [self._source(place, questions[place], bound) for place, bound in hops]
                self._reached |= zip(
                    hops, self._followed(torch.stack(sources), relation), strict=True
                )

    def listed(self, question: BoundQuery, values: Tensor, top: int) -> dict[int, float]:
        """The best entities by log-scores `[N]`, ties by id; known ones score as their facts."""
        first = torch.tensor(sorted(self.first(question)), dtype=torch.long)
        values = values.index_put(
            (first,), values[first].clamp(min=KNOWN * len(question.relations))
        )
        others = values.index_fill(0, first, -math.inf)
        last = others.topk(min(top, len(others))).values[-1]
        known_ids = set(first.tolist())
        ids = {*known_ids, *((others >= last) & (others > -math.inf)).nonzero()[:, 0].tolist()}
        order = sorted(ids, key=lambda i: (i not in known_ids, -float(values[i]), i))
        return {i: float(values[i]) for i in order[:top]}

    def first(self, question: BoundQuery) -> set[int]:
        """The known answers that come first; with negation there are none, as they may not hold."""
        return set() if "!" in str(question.query) else self.known(question)

    def known(self, question: BoundQuery, formula: Formula | None = None) -> set[int]:
        """The entities that the known facts alone imply."""
        match formula or question.query.formula:
            case Atom(_, Entity(name)) as atom:
                return set(self.tails.get((_entity(question, name), _relation(question, atom)), ()))
            case And(parts):
                return set.intersection(*(self.known(question, part) for part in parts))
            case Or(parts):
                return set.union(*(self.known(question, part) for part in parts))
            case Exists() as bound:
                inside, atom = _left(bound)
                sources = set.intersection(*(self.known(question, part) for part in inside))
                return {
                    tail
                    for head in sources
                    for tail in self.tails.get((head, _relation(question, atom)), ())
                }
        raise TypeError(f"nothing is known of {formula}")

    def _next(self, place: int, formula: Formula) -> Exists | None:
        """The next hop to take for a formula, from the inside out; None after the last."""
        match formula:
            case And(parts) | Or(parts):
                return next(filter(None, (self._next(place, part) for part in parts)), None)
            case Not(part):
                return self._next(place, part)
            case Exists(_, part) if (place, formula) not in self._reached:
                return self._next(place, part) or formula
        return None

    def _value(self, place: int, question: BoundQuery, formula: Formula) -> Tensor:
        match formula:
            case Atom(_, Entity(name)) as atom:
                head = torch.tensor([_entity(question, name)])
                return self.rows(head, _relation(question, atom))[:, 0].double()
            case And(parts):
                return torch.stack([self._value(place, question, part) for part in parts]).sum(
                    dim=0
                )
            case Or(parts):
                against = [_not(self._value(place, question, part)) for part in parts]
                return _not(torch.stack(against).sum(dim=0))
            case Not(part):
                return _not(self._value(place, question, part))
            case Exists():
                return self._reached[place, formula].double()
        raise TypeError(f"{formula} is not of a tree form")

    def _source(self, place: int, question: BoundQuery, bound: Exists) -> Tensor:
        return (
            torch.stack([self._value(place, question, part) for part in _left(bound)[0]])
            .sum(dim=0)
            .float()
        )

    def _followed(self, sources: Tensor, relation: int) -> Tensor:
        """Takes a hop over all edges of a relation, `[Q, C, N] -> [Q, C, N]`."""
        self.passes += 1
        out = torch.full_like(sources, -math.inf)
        for heads in torch.arange(sources.shape[2]).split(_ROWS):
            rows = self.rows(heads, relation)
            room = torch.empty_like(rows[0])
            for source, reached in zip(sources, out, strict=True):
                for edges, values, best in zip(rows, source[:, heads, None], reached, strict=True):
                    torch.maximum(best, torch.add(edges, values, out=room).amax(dim=0), out=best)
        return out

    def rows(self, heads: Tensor, relation: int) -> Tensor:
        """The log-scores of all edges of a relation from some heads, `[C, P, N]`."""
        (a, b), (c, d) = (
            self.vectors[heads].chunk(2, 1),
            self.model.relations(torch.tensor([relation])).chunk(2, 1),
        )
        logits = torch.cat([a * c - b * d, a * d + b * c], dim=1) @ self.vectors.T
        places = torch.arange(len(heads))
        known = [self.tails.get((head, relation), []) for head in heads.tolist()]
        if relation not in self.looping:
            logits[places, heads] = -math.inf
        counts = torch.tensor([max(1, len(tails)) for tails in known])
        rows = logits.new_empty(len(CALIBRATIONS), *logits.shape)
        torch.add(logits, (counts.log() - logits.logsumexp(dim=1))[:, None], out=rows[0]).clamp_(
            max=MOST
        )
        torch.neg(logits, out=rows[1]).exp_().add_(1.0).log_().neg_()  # log 1 / (1 + e^-x)
        rows += KNOWN
        facts = [(place, tail) for place, tails in enumerate(known) for tail in tails]
        if facts:
            at, tails = torch.tensor(facts).T
            rows[:, at, tails] = KNOWN
        return rows


def hops(question: BoundQuery, formula: Formula | None = None) -> list[int]:
    """The relations by which the bound variables of a question are left, from the inside out."""
    match formula or question.query.formula:
        case And(parts) | Or(parts):
            return [relation for part in parts for relation in hops(question, part)]
        case Not(part):
            return hops(question, part)
        case Exists(_, part) as bound:
            return [*hops(question, part), _relation(question, _left(bound)[1])]
    return []


def _left(bound: Exists) -> tuple[list[Formula], Atom]:
    """The parts that a bound variable's value comes from, and the atom by which it is left."""
    parts = bound.part.parts if isinstance(bound.part, And) else (bound.part,)
    (atom,) = (
        part for part in parts if isinstance(part, Atom) and isinstance(part.subject, Variable)
    )
    return [part for part in parts if part is not atom], atom


def _entity(question: BoundQuery, name: str) -> int:
    return question.entities[question.compiled.entities.index(name)]


def _relation(question: BoundQuery, atom: Atom) -> int:
    return question.relations[question.compiled.relations.index(str(atom.relation))]


def _not(values: Tensor) -> Tensor:
    """`log (1 - e^x)`."""
    return torch.log1p(-values.exp())
