"""The training task of an encoder: its steps, losses, batches and validations."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping
from contextlib import nullcontext

import numpy as np
import torch
from torch import Tensor
from torch.optim import Adam, AdamW

from tacit.encode.encoder import Encoder
from tacit.encode.models import make_encoder
from tacit.encode.settings import TRAINED, EncodeSettings
from tacit.encode.training.batches import BLOCK, Batches
from tacit.encode.training.draws import draws, plans_of
from tacit.engine.ranking import mean_reciprocal_ranks, with_hard_answers
from tacit.errors import PlanError, TrainingError
from tacit.fitting.interruption import breakable
from tacit.fitting.task import Task, TrainingSchedule, Weights
from tacit.graph.graph import Graph
from tacit.links.models import pick_device
from tacit.links.scorer import Scorer
from tacit.query.plans.plan import Plan
from tacit.query.sampling.queries import QuerySet, checksum
from tacit.query.sampling.sampling import sample
from tacit.query.sampling.shapes import SHAPES

WASTE = 0.99  # the share of failed draws after which a shape is given up
WARM = 3  # steps before one is recorded
AHEAD = 32  # steps queued on a GPU between synchronisations, for the clock's sake


class EncoderTraining(Task):
    """A step draws and learns from queries; a validation ranks hard answers of others.

    On a GPU a step is recorded once and replayed: nothing in it waits for the host, and its queries
    lie where those before it lay.
    """

    faster = "fewer steps, minutes or a smaller batch would be faster"

    def __init__(
        self,
        graph: Graph,
        settings: EncodeSettings,
        queries: Mapping[str, QuerySet] | None = None,
        valid: Mapping[str, QuerySet] | None = None,
        scorer: Scorer | None = None,
    ) -> None:
        self.settings = settings
        self.device = pick_device(settings.device)
        encoder = make_encoder(settings, graph, scorer)
        encoder.reset(torch.Generator().manual_seed(settings.seed))
        self.module: Encoder = encoder.to(self.device)
        self.module.narrow = self.precision == "bf16"
        self.remedy = self._remedy()
        self.queries = {
            name: query_set.share(settings.share, settings.seed)
            for name, query_set in (queries or {}).items()
        }
        self.shapes = self._shapes()
        self.num_entities = graph.num_entities
        samplers = draws(
            self.shapes, self.queries, graph.index("train"), graph.num_entities, settings.batch,
            BLOCK, self.device, settings.negated, settings.answers,
        )  # fmt: skip
        self.batches = Batches(samplers, settings, graph.num_entities, self.device)
        self.valid = self._valid(graph, valid)
        self.optimizer = self._optimizer()
        self.clock: Callable[[], float] = lambda: 0.0  # the share of the time that is over
        self._loss = torch.zeros((), device=self.device)
        self._graph: torch.cuda.CUDAGraph | None = None
        self._steps = 0  # in this process
        self._prepare_step(0)  # errors of drawing must precede changes of a run

    @property
    def precision(self) -> str:
        """Of products, while it learns."""
        settings = self.settings
        if settings.precision != "auto":
            return settings.precision
        if self.device.type != "cuda":
            return "float32"
        return "bf16" if settings.recipe == "lean" and self.module.narrows else "tf32"

    @property
    def products(self) -> str:
        """The precision of all products but those of networks that learn."""
        return "tf32" if self.precision == "bf16" else self.precision

    @property
    def flops(self) -> float:
        """Roughly the operations of a step: distances to negatives, or layers over entities."""
        settings = self.settings
        many = self.num_entities
        if settings.loss == "sets":
            return 200.0 * settings.batch * many * settings.layers * settings.width**2
        # LMPNN has the width of its link predictor.
        width = settings.width or self.module.get_buffer("entities").shape[1]
        return 30.0 * settings.batch * (min(settings.negatives, many) + settings.answers) * width

    def schedule(self) -> TrainingSchedule:
        """Steps, or minutes of them, validated a few times on the way."""
        settings = self.settings
        between = max(1, round(settings.validate_every * settings.steps))
        return TrainingSchedule(
            name="encode", unit="step", units=settings.steps, steps_per_unit=1, round=between,
            validate_every=between, patience=settings.steps, examples="queries",
            checkpoint_seconds=settings.checkpoint_seconds,
            seconds=settings.minutes and 60 * settings.minutes,
            parts=max(1, round(1 / settings.validate_every)),
        )  # fmt: skip

    def step(self, number: int) -> tuple[Tensor, int]:
        """Learn from other queries, at the learning rate of the time."""
        with breakable():
            self._prepare_step(number)
        self._steps += 1
        if self.device.type != "cuda" or not self.module.captured:
            self._optimize()
        elif self._steps <= WARM:
            # CUDA graphs need warm-up steps on another stream.
            stream = torch.cuda.Stream(self.device)
            stream.wait_stream(torch.cuda.current_stream(self.device))
            with torch.cuda.stream(stream):
                self._optimize()
            torch.cuda.current_stream(self.device).wait_stream(stream)
        else:
            if self._graph is None:
                self._graph = torch.cuda.CUDAGraph()
                with torch.cuda.graph(self._graph):
                    self._optimize()
            self._graph.replay()
        if self.device.type == "cuda" and self._steps % AHEAD == 0:
            torch.cuda.synchronize(self.device)
        return self._loss, self.settings.batch

    def _prepare_step(self, number: int) -> None:
        """Set the learning rate, the queries and the random seed of a step."""
        settings = self.settings
        share = max(number / settings.steps, self.clock())
        rate = settings.lr * decay_factor(settings.decay, share)
        for group in self.optimizer.param_groups:
            if isinstance(group["lr"], Tensor):
                group["lr"].fill_(rate)
            else:
                group["lr"] = rate
        if not self.batches.draw(number):
            raise TrainingError(
                f"no {' or '.join(self.shapes)} query with an answer could be drawn from the train "
                "facts; learn from other `shapes`, or from `queries` of your own"
            )

    def _optimize(self) -> None:
        """Take an optimizer step on the weighted mean loss of the batch."""
        self.module.train()
        self.optimizer.zero_grad(set_to_none=False)  # gradients of rows are added in place
        # No break on a GPU, whose step may be being recorded.
        with breakable() if self.device.type == "cpu" else nullcontext():
            batch = self.batches.queries()
            negatives = self.batches.negatives(torch.cat([drawn.answers[:, 0] for drawn in batch]))
            frequencies = self.batches.log_frequencies
            often = None if frequencies is None else frequencies[negatives]
            loss = self.module.loss(batch, negatives, often)
            loss = loss / torch.cat([drawn.weights for drawn in batch]).sum().clamp(min=1e-6)
            loss.backward()
        self.optimizer.step()
        self._loss.copy_(loss.detach() * self.settings.batch)

    def _remedy(self) -> str:
        """Advice against exploding numbers, by the settings in use."""
        settings = self.settings
        high = {
            "lr": settings.lr,
            "weight_decay": settings.weight_decay,
            "margin": getattr(self.module, "margin", 0.0),
        }
        advice = [f"lower `{name}` (it is {value:g})" for name, value in high.items() if value]
        if hasattr(self.module, "temperature"):
            advice.append(f"raise `temperature` (it is {settings.temperature:g})")
        if self.precision != "float32":
            advice.append("use `precision='float32'`")
        return ", or ".join(advice)

    def validate(self) -> dict[str, float]:
        """The mean reciprocal rank of each shape."""
        self.module.eval()
        self.module.renew()
        return mean_reciprocal_ranks(self.module.reasoner(), self.valid)

    def restore(self, state: Weights) -> None:
        """Forget the recorded step, which must be captured again."""
        self._graph = None
        self._steps = 0

    def checksums(self) -> dict[str, str]:
        """Checksums of the queries to learn from and to validate with, and of the module's."""
        queries = {"queries": checksum(self.queries), "validation queries": checksum(self.valid)}
        return queries | self.module.checksums()

    def _optimizer(self) -> Adam:
        decay = self.settings.weight_decay
        on_gpu = self.device.type == "cuda"
        rate = self.settings.lr
        return (AdamW if decay else Adam)(
            self.module.parameters(),
            lr=torch.tensor(rate, device=self.device) if on_gpu else rate,
            weight_decay=decay,
            fused=True,
            capturable=on_gpu,
        )

    def _shapes(self) -> tuple[str, ...]:
        """The shapes to learn from: the chosen ones, else all that the encoder can learn."""
        chosen = self.settings.shapes
        plans = plans_of(chosen or self.queries or TRAINED, self.queries)
        check = self.module.check_learning
        if chosen is not None:
            for plan in plans.values():
                check(plan)
            return chosen
        shapes = tuple(name for name, plan in plans.items() if _passes(check, plan))
        if not shapes:
            raise TrainingError(
                f"model {self.settings.model} can learn from none of the shapes "
                f"{', '.join(plans)}; give other `shapes`"
            )
        return shapes

    def _valid(self, graph: Graph, valid: Mapping[str, QuerySet] | None) -> dict[str, QuerySet]:
        """The queries to validate with, of shapes that the encoder can express."""
        most = self.settings.validate_queries
        seed = self.settings.seed
        plans = plans_of(SHAPES if valid is None else valid, valid or {})
        shapes = [name for name, plan in plans.items() if _passes(self.module.check, plan)]
        if valid is None:
            return sampled(graph, shapes, most, seed)
        return with_hard_answers(
            {name: valid[name] for name in shapes}, most, np.random.default_rng(seed)
        )


def sampled(graph: Graph, shapes: Iterable[str], most: int, seed: int) -> dict[str, QuerySet]:
    """Queries to validate with, from the valid facts; none where there are no such facts."""
    drawn = {
        name: sample(graph, SHAPES[name], "valid", most, seed=seed, waste=WASTE).queries
        for name in (shapes if len(graph.valid) else ())
    }
    return {name: queries for name, queries in drawn.items() if len(queries)}


def decay_factor(decay: str, share: float) -> float:
    """The factor of the learning rate when a share of the training is done.

    >>> decay_factor("cosine", 0.5), decay_factor("none", 1.0)
    (0.5, 1.0)
    >>> decay_factor("steps", 0.5), decay_factor("steps", 0.8)
    (0.2, 0.04)
    """
    if decay == "cosine":
        return round(0.5 * (1 + math.cos(math.pi * min(1.0, share))), 12)
    return 1.0 if decay == "none" or share < 0.5 else 0.2 if share < 0.75 else 0.04


def _passes(check: Callable[[Plan], None], plan: Plan) -> bool:
    """Whether a check lets a plan through."""
    try:
        check(plan)
    except PlanError:
        return False
    return True
