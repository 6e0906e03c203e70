"""Validation of a link predictor by questions, while it is trained.

Multi-hop questions and intersections go on improving after the ranks of single facts are flat, so
facts alone would stop a training too early and choose the wrong weights.
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
from tacit.query.plans.sets import AnswerSets
from tacit.query.sampling.queries import QuerySet, QuerySets
from tacit.query.sampling.sampling import sample
from tacit.query.sampling.shapes import SHAPES
from tacit.run_folder.files import QUESTIONS
from tacit.run_folder.folder import RunFolder

VALIDATED = ("1p", "2p", "3p", "2i", "3i", "pi", "ip")
CANDIDATES = 32  # of a variable, at most
SHARE = 0.1  # of the work between two validations
COST = 2.0  # of a row that is calibrated, searched and ranked, in products alone
FEWEST = 10  # questions of a shape, however small the graph
WASTE = 0.99  # shapes that are hard to find are given up early
_COLUMNS = ("entities", "relations", "easy.offsets", "easy.ids", "hard.offsets", "hard.ids")


def validation(
    graph: Graph,
    settings: TrainSettings,
    run: RunFolder | None = None,
    shards: Shards | None = None,
) -> Validate | None:
    """The validation by questions, or None if the settings ask for facts or there are none."""
    if settings.validate_on == "facts" or not len(graph.valid):
        return None
    return QuestionValidation(graph, settings, run, shards)


class QuestionValidation:
    """Answers questions that need a validation fact, with training facts known.

    The questions are drawn from train and valid facts at the first use, by the first process, and
    stored with the `run`.
    """

    def __init__(
        self,
        graph: Graph,
        settings: TrainSettings,
        run: RunFolder | None = None,
        shards: Shards | None = None,
    ) -> None:
        self.graph = graph
        self.settings = settings
        self.run = run
        self.shards = shards or Shards(graph.num_entities)

    def __call__(self, model: Scorer) -> dict[str, float]:
        """The mean reciprocal rank of each shape."""
        # a new engine, since it may copy the weights, which change between validations
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
            return self._sample()
        if self.shards.leads and not self.run.has(QUESTIONS):
            write_questions(self.run, self._sample())
        self.shards.wait()
        return read_questions(self.run)

    def _sample(self) -> dict[str, QuerySet]:
        most = affordable(self.graph, self.settings)
        questions = {}
        for name in VALIDATED:
            shape = SHAPES[name]
            # questions without variables are cheap, and more of them reduce the noise
            count = most if shape.plan.has(Project) else self.settings.validate_questions
            seed = self.settings.seed
            queries = sample(self.graph, shape, "valid", count, seed=seed, waste=WASTE).queries
            if len(queries):
                questions[name] = queries
        return questions


def affordable(graph: Graph, settings: TrainSettings) -> int:
    """The number of questions of each shape, within a tenth of the training's work.

    Work is counted in rows, an entity and relation scored against all entities. A step computes
    three products for each fact and direction, with negatives over those alone.
    """
    compared = min(1.0, settings.negatives / graph.num_entities) if settings.negatives else 1.0
    learned = 3 * 2 * len(graph.train) * settings.validate_every * compared
    one_of_each = sum(rows(SHAPES[name].plan, graph.num_entities) for name in VALIDATED)
    return max(
        FEWEST, min(settings.validate_questions, int(SHARE * learned / (COST * one_of_each)))
    )


def rows(plan: Plan, num_entities: int) -> int:
    """The rows that a question needs: one per entity, and one per candidate of a variable.

    >>> [rows(SHAPES[name].plan, 1000) for name in ("1p", "2i", "2p", "3p")]
    [1, 2, 33, 65]
    """
    costs = {Row: 1, Project: candidates(num_entities)}
    return sum(costs.get(type(step), 0) for step in walk(plan.root))


def candidates(num_entities: int) -> int:
    """The candidates of a variable: few, and fewer than all entities."""
    return max(1, min(CANDIDATES, num_entities // 2))


def write_questions(run: RunFolder, questions: QuerySets) -> None:
    """Store questions with a run."""
    columns = {
        f"{name}.{column}": torch.from_numpy(attrgetter(column)(queries))
        for name, queries in questions.items()
        for column in _COLUMNS
    }
    run.write_tensors(QUESTIONS, columns)


def read_questions(run: RunFolder) -> dict[str, QuerySet]:
    """Read the stored questions of a run."""
    tensors = {name: tensor.numpy() for name, tensor in run.tensors(QUESTIONS).items()}
    questions = {}
    for name in VALIDATED:
        if f"{name}.entities" in tensors:
            entities, relations, *answers = (tensors[f"{name}.{column}"] for column in _COLUMNS)
            easy, hard = AnswerSets(*answers[:2]), AnswerSets(*answers[2:])
            questions[name] = QuerySet(SHAPES[name], entities, relations, easy, hard)
    return questions
