"""How well a link predictor answers questions while it is trained.

Multi-hop questions and intersections go on improving after the ranks of single facts are flat, so facts alone would
stop a training too early and choose the wrong weights.
"""

from __future__ import annotations

from functools import cached_property
from operator import attrgetter

import torch

from tacit.distributed.shards import Shards
from tacit.engine.engine import Engine
from tacit.engine.ranking import mean_reciprocal_ranks
from tacit.graph.graph import Graph
from tacit.links.scorer import Scorer
from tacit.links.settings import TrainSettings
from tacit.links.training.fact_validation import Validate
from tacit.query.plans.plan import Plan, Project, Row, walk
from tacit.query.sampling.queries import AnswerSets, QuerySet, QuerySets
from tacit.query.sampling.sampling import sample
from tacit.query.sampling.shapes import SHAPES
from tacit.run.folder import QUESTIONS, RunFolder

ASKED = ("1p", "2p", "3p", "2i", "3i", "pi", "ip")
CANDIDATES = 32  # of a variable, at most
SHARE = 0.1  # of the work between two validations
COST = 2.0  # of a row that is calibrated, searched and ranked, in products alone
FEWEST = 10  # questions of a shape, however small the graph
WASTE = 0.99  # shapes that are hard to find are given up early
_COLUMNS = ("entities", "relations", "easy.offsets", "easy.ids", "hard.offsets", "hard.ids")


def validation(
    graph: Graph, settings: TrainSettings, run: RunFolder | None = None, shards: Shards | None = None
) -> Validate | None:
    """What a training is validated with by its settings; None where that is the ranks of facts, or nothing."""
    if settings.validate_on == "facts" or not len(graph.valid):
        return None
    return QuestionValidation(graph, settings, run, shards)


class QuestionValidation:
    """Answers questions that need a validation fact, as a run is asked: with the training facts known.

    They are drawn from train and valid facts when they are first needed, and kept with the `run`; where processes share
    the entities out, by the first of them.
    """

    def __init__(
        self, graph: Graph, settings: TrainSettings, run: RunFolder | None = None, shards: Shards | None = None
    ) -> None:
        self.graph, self.settings, self.run, self.shards = graph, settings, run, shards or Shards(graph.num_entities)

    def __call__(self, model: Scorer) -> dict[str, float]:
        """The mean reciprocal rank of each shape."""
        # An engine may hold a copy of the weights, which change from one validation to the next.
        engine = Engine(
            self.graph,
            model,
            observed="train",
            k=candidates(self.graph.num_entities),
            memory=self.settings.memory,
            precision="tf32",  # on a GPU
        )
        return mean_reciprocal_ranks(engine.reasoner, self.questions)

    @cached_property
    def questions(self) -> dict[str, QuerySet]:
        """The questions by shape; a shape of which the graph has none is left out."""
        if self.run is None:
            return self._drawn()
        if self.shards.leads and not self.run.has(QUESTIONS):
            write_questions(self.run, self._drawn())
        self.shards.wait()
        return read_questions(self.run)

    def _drawn(self) -> dict[str, QuerySet]:
        most, seed = affordable(self.graph, self.settings), self.settings.seed
        drawn = {}
        for name in ASKED:
            # Those without a variable between cost next to nothing, and more of them are less a matter of luck.
            count = most if SHAPES[name].plan.has(Project) else self.settings.validate_questions
            drawn[name] = sample(self.graph, SHAPES[name], "valid", count, seed=seed, waste=WASTE).queries
        return {name: queries for name, queries in drawn.items() if len(queries)}


def affordable(graph: Graph, settings: TrainSettings) -> int:
    """How many questions of each shape to ask: as many as a tenth of the work between two validations pays for.

    Work is counted in rows, an entity and relation scored against all entities. A step computes three products for each
    fact and direction, with negatives over those alone.
    """
    compared = min(1.0, settings.negatives / graph.num_entities) if settings.negatives else 1.0
    learned = 3 * 2 * len(graph.train) * settings.validate_every * compared
    one_of_each = sum(rows(SHAPES[name].plan, graph.num_entities) for name in ASKED)
    return max(FEWEST, min(settings.validate_questions, int(SHARE * learned / (COST * one_of_each))))


def rows(plan: Plan, num_entities: int) -> int:
    """The rows that a question takes: one from an entity, and one from each candidate of a variable.

    >>> [rows(SHAPES[name].plan, 1000) for name in ("1p", "2i", "2p", "3p")]
    [1, 2, 33, 65]
    """
    k = candidates(num_entities)
    return sum(1 if isinstance(step, Row) else k if isinstance(step, Project) else 0 for step in walk(plan.root))


def candidates(num_entities: int) -> int:
    """The candidates of a variable that are kept: few, and never all of a graph, which an engine searches otherwise."""
    return max(1, min(CANDIDATES, num_entities // 2))


def write_questions(run: RunFolder, questions: QuerySets) -> None:
    """Keep questions with a run."""
    columns = {
        f"{name}.{column}": torch.from_numpy(attrgetter(column)(queries))
        for name, queries in questions.items()
        for column in _COLUMNS
    }
    run.write_tensors(QUESTIONS, columns)


def read_questions(run: RunFolder) -> dict[str, QuerySet]:
    """The questions that were kept with a run."""
    held = {name: tensor.numpy() for name, tensor in run.tensors(QUESTIONS).items()}
    questions = {}
    for name in ASKED:
        if f"{name}.entities" in held:
            entities, relations, *answers = (held[f"{name}.{column}"] for column in _COLUMNS)
            questions[name] = QuerySet(
                SHAPES[name], entities, relations, AnswerSets(*answers[:2]), AnswerSets(*answers[2:])
            )
    return questions
