"""The facts that a graph is most probably missing."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

import torch
from torch import Tensor

from tacit.engine.atoms.atoms import Atoms
from tacit.engine.engine import Engine
from tacit.engine.reasoner import step_memory
from tacit.engine.search.exact_and_beam import checked
from tacit.errors import SettingsError
from tacit.fitting.progress import Progress, counting
from tacit.graph.formats.writing import write_scored
from tacit.graph.graph import Graph
from tacit.links.scorer import shards_of

if TYPE_CHECKING:
    import pandas as pd

_PAIRS = 2**20  # candidates whose other direction is scored at a time
_ROWS = {"cpu": 512, "cuda": 8192}  # scored at a time, where there is memory


class Prediction(NamedTuple):
    """A fact that the graph does not have, by labels, and its score in [0, 1]."""

    subject: str
    relation: str
    object: str
    score: float


class _Best:
    """The facts that were looked at so far and have at least a log-score: the `top` best of them, or all."""

    def __init__(self, least: float, top: int | None, device: torch.device) -> None:
        self.least, self.top = least, top
        self.triples = torch.zeros(0, 3, dtype=torch.long, device=device)  # [M, 3], relations forward
        self.scores = torch.zeros(0, device=device)  # [M]

    def add(self, triples: Tensor, scores: Tensor) -> None:
        """Look at more facts: whatever is worse than the last of the `top` best need not be looked at any more."""
        good = scores >= self.least
        self.triples, self.scores = torch.cat([self.triples, triples[good]]), torch.cat([self.scores, scores[good]])
        if self.top is not None:
            self.sort()
            if len(self.scores) == self.top:
                self.least = max(self.least, float(self.scores[-1]))

    def sort(self) -> None:
        """Bring the best first; of equal ones by relation, head and tail."""
        order = torch.arange(len(self.scores), device=self.scores.device)
        for column in (2, 0, 1):  # stable, so that the last order counts most
            order = order[self.triples[order, column].argsort(stable=True)]
        order = order[self.scores[order].argsort(descending=True, stable=True)][: self.top]
        self.triples, self.scores = self.triples[order], self.scores[order]

    def named(self, graph: Graph) -> Iterator[Prediction]:
        """The facts by labels, best first."""
        self.sort()
        for (subject, relation, object), score in zip(self.triples.tolist(), self.scores.exp().tolist(), strict=True):
            yield Prediction(graph.entities[subject], graph.relations[relation], graph.entities[object], score)


class Completion:
    """The facts that an engine's observed facts lack, of at least a score: of some relations, about some entities.

    A fact is scored from both of its ends, as an answer to `r(s, ?)` and to `r(?, o)`; its score is the geometric mean
    of the two. From one end alone every entity has a best answer, one that no fact of the relation fits as well; but
    that entity is nobody's best answer. They are looked for while one iterates: without `top` they come relation by
    relation or entity by entity, the best of each first; with `top`, the best of all come at the end.
    """

    def __init__(
        self,
        engine: Engine,
        relations: Iterable[str] = (),
        entities: Iterable[str] = (),
        *,
        min_score: float = 0.5,
        top: int | None = None,
        progress: Progress | bool = False,
    ) -> None:
        if not 0.0 < min_score <= 1.0:
            raise SettingsError(f"min_score is {min_score}; it must be above 0 and at most 1", "min_score")
        if top is not None and top < 1:
            raise SettingsError(f"top must be at least 1, not {top}", "top")
        if shards_of(engine.scorer).world > 1:
            raise SettingsError("a graph is completed by one process that holds the whole run; open it without shards")
        graph = engine.graph
        every = range(0, graph.num_relations, 2)
        self.engine, self.least, self.top, self.progress = engine, math.log(min_score), top, progress
        self.relations = sorted({graph.relations.id(name) & ~1 for name in relations}) or list(every)
        self.entities = sorted({graph.entities.id(name) for name in entities})

    def __iter__(self) -> Iterator[Prediction]:
        graph, device = self.engine.graph, self.engine.scorer.device
        what, total = ("entities", len(self.entities)) if self.entities else ("relations", len(self.relations))
        best = _Best(self.least, self.top, device)
        with counting(self.progress) as counts:
            tell = counts(what, total)
            for number, (heads, along) in enumerate(_tasks(self.engine, self.relations, self.entities)):
                with torch.no_grad():
                    _look(self.engine, heads, along, self.entities[:number], best)
                if self.top is None:
                    yield from best.named(graph)
                    best = _Best(self.least, None, device)
                tell(number + 1)
        yield from best.named(graph)

    def write(self, path: str | Path) -> int:
        """Write the facts as they are found to a `.tsv`, `.csv`, `.jsonl`, `.parquet`, `.nt` or `.ttl` file."""
        return write_scored(path, self, self.engine.graph.prefixes)

    def to_pandas(self) -> pd.DataFrame:
        """One row per fact."""
        import pandas as pd

        return pd.DataFrame(list(self), columns=list(Prediction._fields))


def _tasks(engine: Engine, relations: list[int], entities: list[int]) -> Iterator[tuple[Tensor, Tensor]]:
    """The directed rows to score, `heads[B]` and `relations[B]`: those of an entity, or of a relation, at a time."""
    graph, device = engine.graph, engine.scorer.device
    directed = torch.tensor([way for relation in relations for way in (relation, relation ^ 1)], device=device)
    for entity in entities:
        yield torch.full_like(directed, entity), directed
    everyone = torch.arange(graph.num_entities, device=device)
    for relation in relations if not entities else ():
        yield everyone, torch.full_like(everyone, relation)


def _look(engine: Engine, heads: Tensor, relations: Tensor, done: list[int], best: _Best) -> None:
    """Look at the facts of some directed rows that are not known, and not about entities that are done with.

    Neither direction is worth more than 1, so a fact whose mean is to be `m` is worth at least `m²` in each of them.
    """
    atoms, ahead = engine.atoms, list[tuple[Tensor, ...]]()
    if atoms.possible is not None:
        can = atoms.possible.starts(heads, relations)
        heads, relations = heads[can], relations[can]
    finished = torch.tensor(done, dtype=torch.long, device=heads.device)
    rows = _rows_at_once(engine)
    for start in range(0, len(heads), rows):
        chunk, along = heads[start : start + rows], relations[start : start + rows]
        (block,), known = atoms.blocks(chunk, along, atoms.num_entities), atoms.known(chunk, along)
        if known is not None:
            known.lift(block.scores, block.columns, -math.inf)
        row, tails = (checked(block.scores, atoms.shards) >= 2.0 * best.least).nonzero().T
        fresh = ~torch.isin(tails, finished) & ((along[row] % 2 == 0) | (chunk[row] != tails))  # a loop has one way
        row, tails = row[fresh], tails[fresh]
        ahead.append((chunk[row], along[row], tails, block.scores[row, tails]))
        if start + rows >= len(heads) or sum(len(part[0]) for part in ahead) >= _PAIRS:
            from_, ways, to, scores = map(torch.cat, zip(*ahead, strict=True))
            forward = ways % 2 == 0
            ends = torch.where(forward, from_, to), torch.where(forward, to, from_)
            triples = torch.stack([ends[0], ways & ~1, ends[1]], dim=1)
            best.add(triples, (scores + _by_rows(atoms, to, ways ^ 1, from_, rows)) / 2.0)
            ahead = []


def _by_rows(atoms: Atoms, heads: Tensor, relations: Tensor, tails: Tensor, rows: int) -> Tensor:
    """Log-scores of single atoms, `[B]`, so many rows at a time: they share most, and each is scored once."""
    keys, place = torch.unique(heads * atoms.scorer.num_relations + relations, return_inverse=True)
    scores = torch.empty(len(heads), device=heads.device)
    for start in range(0, len(keys), rows):
        key = keys[start : start + rows]
        here = ((place >= start) & (place < start + rows)).nonzero()[:, 0]
        ends, ways = key // atoms.scorer.num_relations, key % atoms.scorer.num_relations
        (block,) = atoms.blocks(ends, ways, atoms.num_entities)
        scores[here] = block.scores[place[here] - start, tails[here]]
    return scores


def _rows_at_once(engine: Engine) -> int:
    """How many rows of N scores to hold: they are written, calibrated, compared and cut."""
    device = engine.scorer.device
    memory = step_memory(engine.settings.memory, device)
    return max(1, min(_ROWS.get(device.type, 512), memory // (16 * engine.graph.num_entities)))
