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
from tacit.engine.search.scores import checked
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


class _Facts(NamedTuple):
    """Facts by ids, with log-scores."""

    triples: Tensor  # [M, 3], relations forward
    scores: Tensor  # [M]

    @classmethod
    def joined(cls, parts: Iterable[_Facts]) -> _Facts:
        triples, scores = zip(*parts, strict=True)
        return cls(torch.cat(triples), torch.cat(scores))

    def best(self, most: int | None) -> _Facts:
        """The best ones, best first; of equal ones by relation, head and tail."""
        order = torch.arange(len(self.scores), device=self.scores.device)
        for column in (2, 0, 1):  # stable, so that the last order counts most
            order = order[self.triples[order, column].argsort(stable=True)]
        order = order[self.scores[order].argsort(descending=True, stable=True)][:most]
        return _Facts(self.triples[order], self.scores[order])


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
        best, least = None, self.least
        what, total = ("entities", len(self.entities)) if self.entities else ("relations", len(self.relations))
        with counting(self.progress) as counts:
            tell = counts(what, total)
            for number, (heads, along) in enumerate(_tasks(self.engine, self.relations, self.entities)):
                with torch.no_grad():
                    facts = _missing(self.engine, heads, along, least, self.entities[:number], self.top)
                if self.top is None:
                    yield from _named(self.engine.graph, facts.best(None))
                else:
                    best = _Facts.joined([facts] if best is None else [best, facts]).best(self.top)
                    if len(best.scores) == self.top:  # whatever is worse than the last of them need not be looked at
                        least = max(least, float(best.scores[-1]))
                tell(number + 1)
        if best is not None:
            yield from _named(self.engine.graph, best)

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


def _missing(
    engine: Engine, heads: Tensor, relations: Tensor, least: float, done: list[int], top: int | None
) -> _Facts:
    """The facts of some directed rows that have at least a log-score and are not known; the `top` best of them, or all.

    Neither direction is worth more than 1, so a fact whose mean is to be `m` is worth at least `m²` in each of them.
    """
    atoms = engine.atoms
    if atoms.possible is not None:
        can = atoms.possible.starts(heads, relations)
        heads, relations = heads[can], relations[can]
    finished = torch.tensor(done, dtype=torch.long, device=heads.device)  # all facts about these have come
    kept, ahead = [_Facts(heads.new_zeros(0, 3), torch.zeros(0, device=heads.device))], list[tuple[Tensor, ...]]()
    rows = _rows_at_once(engine)
    for start in range(0, len(heads), rows):
        chunk, along = heads[start : start + rows], relations[start : start + rows]
        known = atoms.known(chunk, along)
        for block in atoms.blocks(chunk, along, atoms.num_entities):
            if known is not None:
                known.lift(block.scores, block.columns, -math.inf)
            row, column = (checked(block.scores, atoms.shards) >= 2.0 * least).nonzero().T
            tails = column + block.columns.start
            fresh = ~torch.isin(tails, finished) & ((along[row] % 2 == 0) | (chunk[row] != tails))  # a loop has one way
            picked = block.scores[row[fresh], column[fresh]]
            ahead.append((chunk[row[fresh]], along[row[fresh]], tails[fresh], picked))
        if start + rows >= len(heads) or sum(len(part[0]) for part in ahead) >= _PAIRS:
            kept.append(_from_both_ends(atoms, *map(torch.cat, zip(*ahead, strict=True)), rows=rows, least=least))
            ahead = []
            if top is not None:  # the others need not be held
                kept = [_Facts.joined(kept).best(top)]
                if len(kept[0].scores) == top:
                    least = max(least, float(kept[0].scores[-1]))
    return _Facts.joined(kept)


def _from_both_ends(
    atoms: Atoms, heads: Tensor, relations: Tensor, tails: Tensor, ahead: Tensor, *, rows: int, least: float
) -> _Facts:
    """Facts with the mean of their log-scores from both ends; those that have at least as much as asked for."""
    keys, place = torch.unique(tails * atoms.scorer.num_relations + (relations ^ 1), return_inverse=True)
    back = torch.empty_like(ahead)
    for start in range(0, len(keys), rows):
        key = keys[start : start + rows]
        here = ((place >= start) & (place < start + rows)).nonzero()[:, 0]
        ends, ways = key // atoms.scorer.num_relations, key % atoms.scorer.num_relations
        for block in atoms.blocks(ends, ways, atoms.num_entities):
            inside = here[(heads[here] >= block.columns.start) & (heads[here] < block.columns.stop)]
            back[inside] = block.scores[place[inside] - start, heads[inside] - block.columns.start]
    scores = (ahead + back) / 2.0
    good = scores >= least
    heads, relations, tails = heads[good], relations[good], tails[good]
    forward = relations % 2 == 0
    subjects, objects = torch.where(forward, heads, tails), torch.where(forward, tails, heads)
    return _Facts(torch.stack([subjects, relations & ~1, objects], dim=1), scores[good])


def _rows_at_once(engine: Engine) -> int:
    """How many rows of N scores to hold: they are written, calibrated, compared and cut."""
    device = engine.scorer.device
    memory = step_memory(engine.settings.memory, device)
    return max(1, min(_ROWS.get(device.type, 512), memory // (16 * engine.graph.num_entities)))


def _named(graph: Graph, facts: _Facts) -> Iterator[Prediction]:
    for (subject, relation, object), score in zip(facts.triples.tolist(), facts.scores.exp().tolist(), strict=True):
        yield Prediction(graph.entities[subject], graph.relations[relation], graph.entities[object], score)
