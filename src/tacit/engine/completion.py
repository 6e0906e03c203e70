"""The facts that a graph is most probably missing."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator
from contextlib import suppress
from functools import partial
from itertools import islice
from pathlib import Path
from threading import Event
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
import torch
from torch import Tensor

from tacit.disk import is_device, written
from tacit.engine.answers.evidence_finder import EvidenceFinder
from tacit.engine.atoms.atoms import Atoms
from tacit.engine.engine import Engine
from tacit.engine.logic import check_numbers
from tacit.engine.questions import check_number
from tacit.engine.reasoner import step_memory
from tacit.errors import DataError, SettingsError
from tacit.fitting.interruption import Stopped, stop_on_signals
from tacit.fitting.progress import Progress, counting
from tacit.graph.builder import counted
from tacit.graph.formats.frames import Library, make_frame
from tacit.graph.formats.writing import NUMBER, TEXT, check_format, data_frame, write_scored
from tacit.graph.graph import Graph
from tacit.links.scorer import shards_of

if TYPE_CHECKING:
    import pandas as pd

_PAIRS = 2**20  # candidates whose other direction is scored at a time
_PROMPT = 2**22  # scores that take less than a second, so that Ctrl-C works promptly
_FEWEST = 32  # rows at a time nevertheless
_ROWS = {"cpu": 512, "cuda": 8192}  # scored at a time, where there is memory


class Prediction(NamedTuple):
    """A fact that the graph does not have, by labels, and its score in [0, 1]."""

    subject: str
    relation: str
    object: str
    score: float


class ExplainedPrediction(NamedTuple):
    """The same, with the best rule that speaks for it in words, or else similar known facts."""

    subject: str
    relation: str
    object: str
    score: float
    because: str


class _BestFacts:
    """The best facts so far that reach a log-score: `top` of them, or all."""

    def __init__(self, least: float, top: int | None, device: torch.device) -> None:
        self.least = least
        self.top = top
        # [M, 3], relations forward
        self.triples = torch.zeros(0, 3, dtype=torch.long, device=device)
        self.scores = torch.zeros(0, device=device)  # [M]

    def add(self, triples: Tensor, scores: Tensor) -> None:
        """Add facts; with `top`, later ones must beat the last of the best."""
        enough = scores >= self.least
        self.triples = torch.cat([self.triples, triples[enough]])
        self.scores = torch.cat([self.scores, scores[enough]])
        if self.top is not None:
            self.sort()
            if len(self.scores) == self.top:
                self.least = max(self.least, float(self.scores[-1]))

    def sort(self) -> None:
        """Sort by falling score; equal facts by relation, head and tail."""
        heads, relations, tails = self.triples.T.cpu().numpy()
        keys = tails, heads, relations, -self.scores.cpu().numpy()  # the last counts most
        order = torch.from_numpy(np.lexsort(keys)[: self.top]).to(self.scores.device)
        self.triples = self.triples[order]
        self.scores = self.scores[order]

    def predictions(self, graph: Graph) -> Iterator[Prediction]:
        """Yield the facts by labels, best first."""
        self.sort()
        entities = graph.entities
        scores = self.scores.exp().tolist()
        for (subject, relation, object), score in zip(self.triples.tolist(), scores, strict=True):
            yield Prediction(entities[subject], graph.relations[relation], entities[object], score)


class Completion:
    """The facts that an engine's observed facts lack, by relations, entities and least score.

    A fact is scored from both of its ends, as an answer to `r(s, ?)` and to `r(?, o)`; its score is
    the geometric mean of the two. From one end alone every entity has a best answer, even if it
    fits badly; that bad answer is not best from its own end. The search runs as one iterates:
    without `top` facts come relation by relation or entity by entity, the best of each first; with
    `top`, the best of all come at the end.
    """

    def __init__(
        self,
        engine: Engine,
        relations: Iterable[str] = (),
        entities: Iterable[str] = (),
        *,
        min_score: float = 0.5,
        top: int | None = None,
        explain: bool = False,
        progress: Progress | bool = False,
    ) -> None:
        if not isinstance(min_score, int | float) or not 0.0 < min_score <= 1.0:
            raise SettingsError(
                f"min_score is {min_score!r}; it must be a number above 0 and at most 1",
                "min_score",
            )
        if top is not None:
            check_number("top", top, 1)
        if shards_of(engine.scorer).world > 1:
            raise SettingsError(
                "a graph is completed by one process that holds the whole run; open it without "
                "`shards`"
            )
        for name, labels in (("relations", relations), ("entities", entities)):
            if not isinstance(labels, Iterable):
                raise SettingsError(f"{name} is {labels!r}; it must be labels", name)
        graph = engine.graph
        self.engine = engine
        self.least = math.log(min_score)
        self.top = top
        self.progress = progress
        self.relations = sorted({graph.relations.id(name) & ~1 for name in relations})
        self.relations = self.relations or list(range(0, graph.num_relations, 2))
        self.entities = sorted({graph.entities.id(name) for name in entities})
        self.more = False
        self.form = ExplainedPrediction if explain else Prediction

    def __repr__(self) -> str:
        return (
            f"Completion({self.engine.graph.name}, scores of at least {math.exp(self.least):g}: "
            "iterate over it, or call `to_pandas()` or `write(path)`)"
        )

    def __iter__(self) -> Iterator[Prediction | ExplainedPrediction]:
        return self.until(Event())

    def until(self, stop: Event) -> Iterator[Prediction | ExplainedPrediction]:
        """Yield the facts; once `stop` is set, those found by then.

        A `stop` set too late to leave anything out is cleared.
        """
        graph = self.engine.graph
        explained = partial(_explained, EvidenceFinder(self.engine.parts), self.form)
        device = self.engine.scorer.device
        most = None if self.top is None else self.top + 1  # one more shows that there are others
        best = _BestFacts(self.least, most, device)
        with counting(self.progress) as counts, suppress(Stopped):
            report = counts(
                "entities" if self.entities else "relations", len(self.entities or self.relations)
            )
            for number, (heads, relations) in enumerate(self._rows()):
                with torch.no_grad():
                    _add_rows(best, self.engine, heads, relations, self.entities[:number], stop)
                if self.top is None:
                    yield from map(explained, best.predictions(graph))
                    best = _BestFacts(self.least, None, device)
                report(number + 1)
            stop.clear()
        yield from map(explained, islice(best.predictions(graph), self.top))
        self.more = self.top is not None and len(best.scores) > self.top

    def _rows(self) -> Iterator[tuple[Tensor, Tensor]]:
        """Yield directed rows to score, `heads[B]` and `relations[B]`.

        They come by entity, or by relation where no entities are given.
        """
        device = self.engine.scorer.device
        directions = torch.tensor(
            [direction for r in self.relations for direction in (r, r ^ 1)], device=device
        )
        for entity in self.entities:
            yield torch.full_like(directions, entity), directions
        if not self.entities:
            heads = torch.arange(self.engine.graph.num_entities, device=device)
            for relation in self.relations:
                yield heads, torch.full_like(heads, relation)

    def write(self, path: str | Path) -> int:
        """Write the facts as they come to a file: a table, JSON lines or RDF by its extension.

        Extensions are `.tsv`, `.csv`, `.jsonl`, `.parquet`, `.nt` and `.ttl`. Ctrl-C leaves that
        file as it was, and writes the facts found so far to a file beside it whose name begins with
        `partial-`.
        """
        path = Path(path)
        prefixes = self.engine.graph.prefixes
        check_format(path)
        if path.is_dir():
            raise DataError("is a folder; give the name of a file", path)
        draft = path if is_device(path) else path.with_name(f"partial-{path.name}")
        with stop_on_signals() as stop:
            count = write_scored(draft, self.until(stop), prefixes, self.form._fields)
        if stop.is_set():
            raise Stopped(f"interrupted; {counted(count, 'fact')} found so far: {draft}")
        if draft != path:
            with written(path, DataError):
                draft.replace(path)
        return count

    def to_pandas(self) -> pd.DataFrame:
        """One row per fact."""
        return data_frame(self, self.form._fields)

    def to_frame(self, library: Library = "pandas") -> Any:
        """One row per fact, as a frame of `pandas`, `polars` or `pyarrow`."""
        columns = dict.fromkeys(self.form._fields, TEXT) | {"score": NUMBER}
        return make_frame(columns, self, library)


def _explained(
    finder: EvidenceFinder, form: type[Prediction | ExplainedPrediction], fact: Prediction
) -> Prediction | ExplainedPrediction:
    """A fact with what speaks for it, where the form has a place for that."""
    if form is Prediction:
        return fact
    entities = finder.parts.graph.entities
    ids = entities.id(fact.subject), finder.parts.graph.relations.id(fact.relation)
    found = finder.of_prediction(*ids, entities.id(fact.object))
    return ExplainedPrediction(*fact, next(found.lines(), ""))


def _add_rows(
    best: _BestFacts,
    engine: Engine,
    heads: Tensor,
    relations: Tensor,
    finished: list[int],
    stop: Event,
) -> None:
    """Score directed rows and add their unknown facts to the best.

    Facts about `finished` entities are skipped. It raises `Stopped` between two chunks of rows.
    Neither direction scores more than 1, so a fact of mean `m` scores at least `m²` in each of
    them.
    """
    atoms = engine.atoms
    pending = list[tuple[Tensor, ...]]()  # scored in one direction
    if atoms.possible is not None:
        possible = atoms.possible.starts(heads, relations)
        heads = heads[possible]
        relations = relations[possible]
    skipped = torch.tensor(finished, dtype=torch.long, device=heads.device)
    rows = _rows_at_once(engine)
    for start in range(0, len(heads), rows):
        if stop.is_set():
            raise Stopped
        chunk = heads[start : start + rows]
        directed = relations[start : start + rows]
        (block,) = atoms.blocks(chunk, directed, atoms.num_entities)
        known = atoms.known(chunk, directed)
        if known is not None:
            known.lift(block.scores, block.columns, -math.inf)
        row, tails = (check_numbers(block.scores, atoms.shards) >= 2.0 * best.least).nonzero().T
        # a loop is the same fact in both directions
        new = ~torch.isin(tails, skipped) & ((directed[row] % 2 == 0) | (chunk[row] != tails))
        row = row[new]
        tails = tails[new]
        pending.append((chunk[row], directed[row], tails, block.scores[row, tails]))
        if start + rows >= len(heads) or sum(len(part[0]) for part in pending) >= _PAIRS:
            starts, along, ends, scores = map(torch.cat, zip(*pending, strict=True))
            forward = along % 2 == 0
            subjects = torch.where(forward, starts, ends)
            objects = torch.where(forward, ends, starts)
            triples = torch.stack([subjects, along & ~1, objects], dim=1)
            backward_scores = _score_atoms(atoms, ends, along ^ 1, starts, rows, stop)
            best.add(triples, (scores + backward_scores) / 2.0)
            pending = []
            if stop.is_set():
                raise Stopped


def _score_atoms(
    atoms: Atoms, heads: Tensor, relations: Tensor, tails: Tensor, rows: int, stop: Event
) -> Tensor:
    """Log-scores of single atoms, `[B]`; each distinct row is scored once, `rows` at a time.

    Atoms not scored before `stop` have minus infinity.
    """
    keys, place = torch.unique(heads * atoms.scorer.num_relations + relations, return_inverse=True)
    scores = torch.full((len(heads),), -math.inf, device=heads.device)
    for start in range(0, len(keys), rows):
        if stop.is_set():
            break
        key = keys[start : start + rows]
        inside = ((place >= start) & (place < start + rows)).nonzero()[:, 0]
        (block,) = atoms.blocks(
            key // atoms.scorer.num_relations,
            key % atoms.scorer.num_relations,
            atoms.num_entities,
        )
        scores[inside] = block.scores[place[inside] - start, tails[inside]]
    return scores


def _rows_at_once(engine: Engine) -> int:
    """How many rows of N scores to hold: they are written, calibrated, compared and cut."""
    device = engine.scorer.device
    memory = step_memory(engine.settings.memory, device)
    at_once = _ROWS.get(device.type, 512), memory // (16 * engine.graph.num_entities)
    return max(1, min(*at_once, max(_FEWEST, _PROMPT // engine.graph.num_entities)))
