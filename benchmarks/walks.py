"""Questions that follow the facts of any graph: chains, stars, cycles, and frequent shapes."""

from __future__ import annotations

import numpy as np
import torch
from numpy.typing import NDArray

from tacit.engine.answers.execution import known_answers
from tacit.engine.engine import Engine
from tacit.query.formula import quoted

SHAPES = ("1p", "2p", "3p", "2i", "pni")
# known answers, where there are more to be predicted, and how often to try to have so few
FEW = 3
TRIES = 30


class Walks:
    """Draws questions as texts along facts, and of several the one with few known answers."""

    def __init__(self, engine: Engine, seed: int) -> None:
        self.engine = engine
        self.graph = engine.graph
        self.index = engine.graph.index()
        self.random = np.random.default_rng(seed)

    def questions(self, shape: str, count: int, atoms: int = 0) -> list[str]:
        """So many questions of a shape, or of a form with some atoms."""
        return [self._few(shape, atoms) for _ in range(count)]

    def _few(self, shape: str, atoms: int) -> str:
        """A question of few known answers, or of the fewest found."""
        drawn: dict[str, int] = {}
        for _ in range(TRIES):
            if min(drawn.values(), default=FEW + 1) <= FEW:
                break
            text = self.question(shape, atoms)
            question = self.engine.prepare(text)
            slots = (
                torch.tensor([ids], dtype=torch.long)
                for ids in (question.entities, question.relations)
            )
            drawn[text] = len(known_answers(self.engine.parts, question.compiled.plan, *slots)[0])
        return min(drawn, key=lambda text: drawn[text])

    def question(self, shape: str, atoms: int = 0) -> str:
        """A question of a shape such as `2p` or `pni`, or a `chain`, `star` or `cycle` of atoms."""
        match shape:
            case "1p" | "2p" | "3p":
                return self.question("chain", int(shape[0]))
            case "2i":
                return self.question("star", 2)
            case "pni":
                (first, path), (other, (last,)) = self.walk(2), self.walk(1)
                negated = _joined(
                    [self.atom(path[0], first, "?v1"), self.atom(path[1], "?v1", "?t")], 1
                )
                return f"?t : !({negated}) & {self.atom(last, other, '?t')}"
            case "chain":
                start, path = self.walk(atoms)
                ends = [start, *(f"?v{i}" for i in range(1, atoms)), "?t"]
                chain = [
                    self.atom(r, *pair) for r, *pair in zip(path, ends, ends[1:], strict=False)
                ]
                return f"?t : {_joined(chain, atoms - 1)}"
            case "star":
                return "?t : " + " & ".join(self.spokes(atoms))
        start, path = self.walk(atoms)  # to ?t, and from there around
        ends = ["?t", *(f"?v{i}" for i in range(1, atoms - 1)), "?t"]
        around = [self.atom(r, *pair) for r, *pair in zip(path[1:], ends, ends[1:], strict=False)]
        return f"?t : {_joined([self.atom(path[0], start, '?t'), *around], atoms - 2)}"

    def walk(self, length: int) -> tuple[str, list[int]]:
        """An entity, and the directed relations of a way that starts there."""
        start = here = int(self.graph.train[self.random.integers(len(self.graph.train)), 0])
        path = []
        for _ in range(length):
            path.append(int(self.random.choice(self.leaving(here))))
            here = int(self.random.choice(self.index.tails(here, path[-1])))
        return self.label(start), path

    def spokes(self, count: int) -> list[str]:
        """Atoms between one entity and as many others, with repetition where facts are too few."""
        facts: list[tuple[int, int]] = []
        for _ in range(TRIES):
            here = int(self.graph.train[self.random.integers(len(self.graph.train)), 2])
            others = [
                (r, int(tail))
                for r in self.leaving(here).tolist()
                for tail in self.index.tails(here, r)
            ]
            facts = max(facts, others, key=len)
            if len(facts) >= count:
                break
        chosen = self.random.choice(len(facts), count, replace=len(facts) < count)
        return [self.atom(facts[i][0], "?t", self.label(facts[i][1])) for i in chosen]

    def leaving(self, entity: int) -> NDArray[np.int64]:
        """The directed relations that lead from an entity."""
        many = self.index.num_relations
        first, last = np.searchsorted(self.index.keys, [entity * many, (entity + 1) * many])
        found: NDArray[np.int64] = self.index.keys[first:last] % many
        return found

    def label(self, entity: int) -> str:
        """An entity as a text names it."""
        return quoted(self.graph.entities[entity])

    def atom(self, relation: int, head: str, tail: str) -> str:
        """An atom over a directed relation, written forward."""
        ends = (tail, head) if relation & 1 else (head, tail)
        return f"{quoted(self.graph.relations[relation & ~1])}({', '.join(ends)})"


def _joined(atoms: list[str], variables: int) -> str:
    """Atoms that all hold, with some variables that exist."""
    bound = "".join(f"exists ?v{i} . " for i in range(1, variables + 1))
    return bound + " & ".join(atoms)
