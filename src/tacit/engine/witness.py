"""Why an answer came: the best value of every variable, and the score of every atom."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import cast

import torch
from torch import Tensor

from tacit.engine.logic import Logic
from tacit.engine.messages import Messages
from tacit.query.plan import (
    Any,
    At,
    Complement,
    Condition,
    Edge,
    Everything,
    Intersect,
    Is,
    Loop,
    Node,
    Project,
    Relation,
    Row,
    Source,
    Target,
    Union,
)


@dataclass(frozen=True)
class ScoredAtom:
    """One atom `relation(subject, object)` by forward ids, as the engine valued it."""

    subject: int
    relation: int
    object: int
    score: float  # log-score
    observed: bool
    negated: bool = False


@dataclass(frozen=True)
class Step:
    """A part of the reason: an atom, or `and`, `or`, `not` of smaller parts, with its log-score."""

    kind: str  # "atom", "and", "or", "not" or "true"
    score: float
    parts: tuple[Step, ...] = ()
    atom: ScoredAtom | None = None
    values: tuple[tuple[int, int], ...] = ()  # variable -> entity, chosen here

    def atoms(self, negated: bool = False) -> Iterator[ScoredAtom]:
        """The atoms below, each marked if it stands under an odd number of negations."""
        if self.atom is not None:
            yield replace(self.atom, negated=negated)
        for part in self.parts:
            yield from part.atoms(negated ^ (self.kind == "not"))

    def substitution(self) -> dict[int, int]:
        """The entity of every bound variable."""
        found = dict(self.values)
        for part in self.parts:
            found |= part.substitution()
        return found

    def recomputed(self, logic: Logic) -> float:
        """The log-score from the atoms alone."""
        if self.kind == "atom":
            return self.score
        if self.kind == "true":
            return 0.0
        return combined(logic, self.kind, [part.recomputed(logic) for part in self.parts])


def combined(logic: Logic, kind: str, scores: list[float]) -> float:
    """The log-score of `and`, `or` or `not` of parts."""
    values = [torch.tensor(score) for score in scores]
    if kind == "not":
        return float(logic.negation(values[0]))
    return float(logic.all(values) if kind == "and" else logic.any(values))


class Explainer:
    """Walks a plan backwards from an answer of one query, choosing for each variable what the search chose."""

    def __init__(self, messages: Messages) -> None:
        self.messages = messages

    def witnesses(self, root: Node, answer: int, count: int = 1) -> list[Step]:
        """The best reasons for an answer, best first: alternatives differ in the variable next to the answer."""
        if count > 1 and isinstance(root, Project):
            return [self._through(self.messages, root, answer, s) for s in self._sources(root, answer, count)]
        if count > 1 and isinstance(root, Intersect | Union):
            return self._alternatives(root, answer, count)
        return [self._node(self.messages, root, answer)]

    def _alternatives(self, root: Intersect | Union, answer: int, count: int) -> list[Step]:
        """Reasons that vary the first part with a variable to vary, the others at their best."""
        best = [self._node(self.messages, cast(Node, part), answer) for part in root.parts]
        for i, part in enumerate(root.parts):
            if isinstance(part, Project):
                choices = self.witnesses(part, answer, count)
                rows = [[*best[:i], choice, *best[i + 1 :]] for choice in choices]
                return [self._combined("and" if isinstance(root, Intersect) else "or", row) for row in rows]
        return [self._combined("and" if isinstance(root, Intersect) else "or", best)]

    def _node(self, m: Messages, node: Node, t: int) -> Step:
        match node:
            case Row(slot, edge):
                return self._edge(m, edge, int(m.entities[0, slot]), t)
            case Project():
                return self._through(m, node, t, self._sources(node, t, 1, m)[0])
            case Intersect(parts):
                return self._combined("and", [self._node(m, cast(Node, part), t) for part in parts])
            case Union(parts):
                return self._combined("or", [self._node(m, cast(Node, part), t) for part in parts])
            case Complement(part):
                return self._combined("not", [self._node(m, cast(Node, part), t)])
            case At(part, slot):
                return self._node(m, part, int(m.entities[0, slot]))
            case Any(variable, part):
                best = int(m.full(m.value(part))[0].argmax())
                return _choosing(self._node(m, part, best), variable, best)
            case Loop(slot):
                return self._atom(m, int(m.relations[0, slot]), t, t)
            case Condition():
                return self._conditioned(m, node, t)
            case Everything() | Is():
                return Step("true", 0.0)
        raise TypeError(f"{node} stands for no set")

    def _edge(self, m: Messages, edge: Edge, s: int, t: int) -> Step:
        match edge:
            case Relation(slot, flip):
                return self._atom(m, int(m.relations[0, slot]) ^ int(flip), s, t)
            case Intersect(parts):
                return self._combined("and", [self._edge(m, part, s, t) for part in parts])
            case Union(parts):
                return self._combined("or", [self._edge(m, part, s, t) for part in parts])
            case Complement(part):
                return self._combined("not", [self._edge(m, part, s, t)])
            case Source(part):
                return self._node(m, part, s)
            case Target(part):
                return self._node(m, part, t)
        return self._node(m, cast(Node, edge), t)

    def _through(self, m: Messages, node: Project, t: int, s: int) -> Step:
        parts = [self._edge(m, node.edge, s, t)]
        if not isinstance(node.source, Everything):
            parts.insert(0, self._node(m, node.source, s))
        step = self._combined("and", parts) if len(parts) > 1 else parts[0]
        return _choosing(step, node.variable, s)

    def _sources(self, node: Project, t: int, count: int, m: Messages | None = None) -> list[int]:
        """The values of a projection's variable that reach `t` best, among those that the search kept."""
        m = m or self.messages
        source = m.full(m.value(node.source))
        values, ids, _ = m.hop(node.source).candidates(source)
        # A hop is worth at most its start: the search's choice is among the starts worth at least the value reached.
        reached = m.full(m.value(node))[0, t]
        order = values[0].argsort(descending=True)
        enough = int((values[0] >= reached - 1e-6 * reached.abs().clamp(min=1e-6)).sum())
        order = order[: max(enough, 64 if count > 1 else 1)]
        starts = ids[0, order]
        edges = self._pairs(m, node.edge, starts, t)
        through = m.logic.conjunction(values[0, order], edges)
        return [int(s) for s in starts[through.argsort(descending=True)[:count]]]

    def _pairs(self, m: Messages, edge: Edge, starts: Tensor, t: int) -> Tensor:
        """The values of an edge from many entities to one, `[S]`."""
        match edge:
            case Relation(slot, flip):
                relation = m.relations[0, slot] ^ int(flip)
                return m.atoms.of(starts, relation.expand(len(starts)), torch.full_like(starts, t))
            case Intersect(parts):
                return m.logic.all([self._pairs(m, part, starts, t) for part in parts])
            case Union(parts):
                return m.logic.any([self._pairs(m, part, starts, t) for part in parts])
            case Complement(part):
                return m.logic.negation(self._pairs(m, part, starts, t))
            case Source(part):
                return m.full(m.value(part))[0, starts]
            case Target(part):
                return m.full(m.value(part))[0, t].expand(len(starts))
        return m.full(m.value(cast(Node, edge)))[0, t].expand(len(starts))

    def _conditioned(self, m: Messages, node: Condition, t: int) -> Step:
        _, ids, _ = m.hop(node.candidates).candidates(m.full(m.remembered(node.candidates)))
        best, best_value = int(ids[0, 0]), float("-inf")
        step = max(1, m.memory // (64 * m.atoms.num_entities))
        for some in ids[0].split(step):
            inner = m.repeated(len(some), node.slot, some)
            values = inner.full(inner.value(node.body))[:, t]
            if float(values.max()) > best_value:
                best, best_value = int(some[values.argmax()]), float(values.max())
        inner = m.repeated(1, node.slot, torch.tensor([best], device=m.entities.device))
        inner.keep = True
        return _choosing(self._node(inner, node.body, t), node.variable, best)

    def _atom(self, m: Messages, relation: int, s: int, t: int) -> Step:
        head, r, tail = (torch.tensor([i], device=m.atoms.device) for i in (s, relation, t))
        score = float(m.atoms.of(head, r, tail))
        observed = m.atoms.facts is not None and bool(m.atoms.facts.contains(head, r, tail))
        subject, object_ = (t, s) if relation & 1 else (s, t)
        return Step("atom", score, atom=ScoredAtom(subject, relation & ~1, object_, score, observed))

    def _combined(self, kind: str, parts: list[Step]) -> Step:
        return Step(kind, combined(self.messages.logic, kind, [part.score for part in parts]), tuple(parts))


def _choosing(step: Step, variable: int, entity: int) -> Step:
    return replace(step, values=(*step.values, (variable, entity)))
