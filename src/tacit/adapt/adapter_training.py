"""The training of an adapter on complex queries, with the link predictor frozen."""

from __future__ import annotations

import json
import math
import statistics

import numpy as np
import torch
from torch import Tensor, nn

from tacit.adapt.adapter import Adapter
from tacit.adapt.calibrated import Adapted
from tacit.adapt.query_loss import QueryLoss
from tacit.adapt.settings import AdaptSettings
from tacit.adapt.training_queries import Batches, set_apart
from tacit.engine.atoms.atoms import Atoms
from tacit.engine.atoms.calibration import calibration
from tacit.engine.atoms.known_facts import KnownFacts
from tacit.engine.atoms.mixture import RuleMixture, mixed
from tacit.engine.logic import Logic
from tacit.engine.ranking import mean_reciprocal_ranks, with_hard_answers
from tacit.engine.search.message_reasoner import MessageReasoner
from tacit.errors import TrainingError
from tacit.fitting.interruption import breakable
from tacit.fitting.task import Task, TrainingSchedule, Weights
from tacit.graph.graph import Graph
from tacit.links.scorer import BilinearScorer, Scorer
from tacit.query.sampling.queries import QuerySets, checksum

PRECISION = "tf32"  # of products on a GPU


class AdapterTraining(Task):
    """The training task of an adapter: a step is a batch of queries of all shapes.

    A validation ranks the answers of other queries.
    """

    name = "adapt"
    unit = "step"
    examples = "queries"
    faster = "fewer steps, a smaller batch or fewer shapes would be faster"

    def __init__(
        self,
        graph: Graph,
        scorer: Scorer,
        queries: QuerySets,
        settings: AdaptSettings,
        valid: QuerySets | None = None,
        rules: RuleMixture | None = None,
    ) -> None:
        self.settings = settings
        self.remedy = f"lower `lr` (it is {settings.lr})"
        self.random = random = np.random.default_rng(settings.seed)
        adapter = Adapter(scorer, settings.condition, settings.layers, seed=settings.seed)
        self.module: nn.Module = adapter
        facts = None
        if settings.observed:
            facts = KnownFacts(graph.index(*settings.observed), scorer.device)
        counted = facts or KnownFacts(graph.index("train"), scorer.device)
        unadapted = mixed(calibration(settings.calibration, counted), rules)
        self.calibration = Adapted(unadapted, adapter)
        atoms = Atoms(scorer, self.calibration, facts, precision=PRECISION)
        logic = Logic(settings.logic, settings.negation, settings.strength)
        self.reasoner = MessageReasoner(atoms, logic, settings.k, settings.memory)
        queries = {
            name: query_set.share(settings.share, settings.seed)
            for name, query_set in queries.items()
        }
        # facts observed in comparisons: with training facts, training queries would be known
        learns_from_train = valid is not None or settings.held_out
        self.observable = ("train",) if learns_from_train else settings.observed
        if valid is None:
            queries, valid = set_apart(queries, settings.validate_queries, random)
        self.valid = with_hard_answers(valid, settings.validate_queries, random)
        batches = {
            name: Batches(query_set, graph.num_entities, random)
            for name, query_set in queries.items()
        }
        self.batches = {name: each for name, each in batches.items() if len(each)}
        if not self.batches:
            raise TrainingError(
                f"no query of {', '.join(queries) or 'any shape'} has an answer to learn from; "
                "give other `shapes` or `queries`"
            )
        self.loss = QueryLoss(self.reasoner, settings.loss, bool(settings.held_out), random)
        self.optimizer = torch.optim.Adagrad(self.module.parameters(), lr=settings.lr)

    @property
    def flops(self) -> float:
        """The approximate operations of a step: a row of products per atom of its queries."""
        scorer = self.reasoner.atoms.scorer
        if not isinstance(scorer, BilinearScorer):
            return math.inf
        entities, width = scorer.keys().shape
        atoms = statistics.fmean(each.queries.shape.num_relations for each in self.batches.values())
        return 2.0 * entities * width * atoms * self.settings.batch

    def schedule(self) -> TrainingSchedule:
        """Steps, with a validation before the first and after every few."""
        settings = self.settings
        return TrainingSchedule(
            units=settings.steps,
            steps_per_unit=1,
            round=settings.validate_every,
            validate_every=settings.validate_every,
            patience=settings.patience,
            validate_first=True,
            checkpoint_seconds=30.0,
        )

    def step(self, number: int = 0) -> tuple[Tensor, int]:
        """Learn from the next queries."""
        self.module.train()
        self.optimizer.zero_grad(set_to_none=True)
        with breakable():
            loss = self.accumulate()
        self.optimizer.step()
        return loss, self.settings.batch

    def accumulate(self) -> Tensor:
        """Accumulate the gradient of a batch, part by part; return its loss."""
        total = torch.zeros((), dtype=torch.float64, device=self.reasoner.device)
        shares = np.array_split(np.arange(self.settings.batch), len(self.batches))
        drawn = (
            queries.draw(len(share))
            for queries, share in zip(self.batches.values(), shares, strict=True)
            if len(share)
        )
        for part in self.loss.parts(drawn):
            loss = self.loss(part)
            (loss / self.settings.batch).backward()
            total += loss.detach()
        return total

    def validate(self) -> dict[str, float]:
        """The mean reciprocal rank of each shape."""
        self.module.eval()
        return mean_reciprocal_ranks(self.reasoner, self.valid)

    def state(self) -> dict[str, Tensor]:
        """The order of the queries to come, and the state of the random generator."""
        source = json.dumps(self.random.bit_generator.state).encode()
        orders = {name: torch.from_numpy(each.order.copy()) for name, each in self.batches.items()}
        return {**orders, "random": torch.frombuffer(bytearray(source), dtype=torch.uint8)}

    def restore(self, state: Weights) -> None:
        """Restore the order of the queries and the random generator."""
        for name, each in self.batches.items():
            each.order = state[name].numpy()
        self.random.bit_generator.state = json.loads(state["random"].numpy().tobytes())

    def checksums(self) -> dict[str, str]:
        """A checksum of the queries."""
        return {"queries": checksum({name: each.queries for name, each in self.batches.items()})}
