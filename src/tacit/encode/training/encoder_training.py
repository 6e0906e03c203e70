"""The training task of an encoder: its steps, losses, batches and validations."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping
from contextlib import nullcontext

import numpy as np
import torch
from torch import Tensor
from torch.optim import AdamW

from tacit.encode.encoder import Encoder
from tacit.encode.models import make_encoder
from tacit.encode.settings import TRAINED, EncodeSettings
from tacit.encode.training.draws import Batches, plans_of
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
    """Learns from the queries that it draws for a step, and validates by ranks of hard answers.

    On a GPU a step is recorded once and replayed: nothing in it waits for the host, and its queries
    are written to where those of the step before lie.
    """

    name = "encode"
    unit = "step"
    examples = "queries"
    faster = "fewer steps, minutes or a smaller batch would be faster"

    def __init__(
        self,
        graph: Graph,
        settings: EncodeSettings,
        queries: Mapping[str, QuerySet] | None = None,
        valid: Mapping[str, QuerySet] | None = None,
        scorer: Scorer | None = None,
    ) -> None:
        device = pick_device(settings.device)
        on_gpu = device.type == "cuda"
        encoder = make_encoder(settings, graph, scorer)
        encoder.reset(torch.Generator().manual_seed(settings.seed))
        self.settings = settings
        self.module: Encoder = encoder.to(device)
        self.module.in_bfloat16 = self.precision == "bf16"
        self.remedy = self._remedy()
        self.queries = {
            name: query_set.share(settings.share, settings.seed)
            for name, query_set in (queries or {}).items()
        }
        shapes = learnable_shapes(encoder, settings, self.queries)
        self.batches = Batches(graph, settings, shapes, self.queries, device)
        self.valid = validation_queries(encoder, settings, graph, valid)
        self.optimizer = AdamW(
            self.module.parameters(),
            lr=torch.tensor(settings.lr, device=device) if on_gpu else settings.lr,
            weight_decay=settings.weight_decay,
            fused=True,
            capturable=on_gpu,
        )
        self.clock: Callable[[], float] = lambda: 0.0  # the share of the time that is over
        self._recorded = RecordedStep(self._optimize)
        self._prepare_step(0)  # errors of drawing must precede changes of a run

    def step(self, number: int) -> tuple[Tensor, int]:
        """Learn from the queries of a step, at its learning rate."""
        with breakable():
            self._prepare_step(number)
        on_gpu = self.module.device.type == "cuda"
        loss = self._recorded() if on_gpu and self.module.captured else self._optimize()
        if on_gpu and number % AHEAD == 0:
            torch.cuda.synchronize(self.module.device)
        return loss, self.settings.batch

    def _prepare_step(self, number: int) -> None:
        """Set the learning rate, the queries and the random seed of a step."""
        settings = self.settings
        share = max(number / settings.steps, self.clock())
        rate = settings.lr * decay_factor(settings.decay, share)
        for group in self.optimizer.param_groups:
            lr = group["lr"]
            group["lr"] = lr.fill_(rate) if isinstance(lr, Tensor) else rate
        self.batches.draw(number)

    def _optimize(self) -> Tensor:
        """Take an optimizer step on the weighted mean loss of the batch; return its sum."""
        self.module.train()
        self.optimizer.zero_grad(set_to_none=False)  # gradients of rows are added in place
        # No break on a GPU, whose step may be being recorded.
        with breakable() if self.module.device.type == "cpu" else nullcontext():
            batch = self.batches.queries()
            answers = torch.cat([drawn.answers[:, 0] for drawn in batch])  # [B]
            weights = torch.cat([drawn.weights for drawn in batch])  # [B]
            negatives = self.batches.negatives(answers)  # [K] or [B, K]
            log_frequencies = self.batches.log_frequencies  # [N], where losses correct for it
            if log_frequencies is not None:
                log_frequencies = log_frequencies[negatives]
            loss = self.module.loss(batch, negatives, log_frequencies)
            loss = loss / weights.sum().clamp(min=1e-6)
            loss.backward()
        self.optimizer.step()
        return loss.detach() * self.settings.batch

    def restore(self, state: Weights) -> None:
        """Forget the recorded step; on a GPU the next steps record another."""
        self._recorded = RecordedStep(self._optimize)

    def validate(self) -> dict[str, float]:
        """The mean reciprocal rank of each shape."""
        self.module.eval()
        self.module.renew()
        return mean_reciprocal_ranks(self.module.reasoner(), self.valid)

    def schedule(self) -> TrainingSchedule:
        """Steps, or minutes of them, validated a few times on the way."""
        settings = self.settings
        between = max(1, round(settings.validate_every * settings.steps))
        return TrainingSchedule(
            units=settings.steps, steps_per_unit=1, round=between,
            validate_every=between, patience=settings.steps,
            checkpoint_seconds=settings.checkpoint_seconds,
            seconds=settings.minutes and 60 * settings.minutes,
            parts=max(1, round(1 / settings.validate_every)),
        )  # fmt: skip

    def checksums(self) -> dict[str, str]:
        """Checksums of the queries to learn from and to validate with, and of the module's."""
        queries = {"queries": checksum(self.queries), "validation queries": checksum(self.valid)}
        return queries | self.module.checksums()

    @property
    def precision(self) -> str:
        """The precision of products while it learns."""
        settings = self.settings
        if settings.precision != "auto":
            return settings.precision
        if self.module.device.type != "cuda":
            return "float32"
        return "bf16" if settings.recipe == "lean" and self.module.lean_in_bfloat16 else "tf32"

    @property
    def products(self) -> str:
        """The precision of all products but those of networks that learn."""
        return "tf32" if self.precision == "bf16" else self.precision

    @property
    def flops(self) -> float:
        """Roughly the operations of a step: distances to negatives, or layers over entities."""
        settings = self.settings
        many = self.module.num_entities
        if settings.loss == "sets":
            return 200.0 * settings.batch * many * settings.layers * settings.width**2
        # LMPNN has the width of its link predictor.
        width = settings.width or self.module.get_buffer("keys").shape[1]
        return 30.0 * settings.batch * (min(settings.negatives, many) + settings.answers) * width

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


class RecordedStep:
    """A step that a GPU records once as a CUDA graph, and replays from then on."""

    def __init__(self, step: Callable[[], Tensor]) -> None:
        self.step = step
        self.warm = 0  # runs so far that were not recorded
        self.graph: torch.cuda.CUDAGraph | None = None

    def __call__(self) -> Tensor:
        """The loss of one more step."""
        if self.warm < WARM:
            self.warm += 1
            # CUDA graphs need warm-up steps on another stream.
            stream = torch.cuda.Stream()
            stream.wait_stream(torch.cuda.current_stream())
            with torch.cuda.stream(stream):
                loss = self.step()
            torch.cuda.current_stream().wait_stream(stream)
            return loss
        if self.graph is None:
            self.graph = torch.cuda.CUDAGraph()
            with torch.cuda.graph(self.graph):
                self.loss = self.step()
        self.graph.replay()
        return self.loss


def learnable_shapes(
    encoder: Encoder, settings: EncodeSettings, queries: Mapping[str, QuerySet]
) -> tuple[str, ...]:
    """The shapes to learn from: those of the settings, else all that the encoder can learn."""
    plans = plans_of(settings.shapes or queries or TRAINED, queries)
    if settings.shapes is not None:
        for plan in plans.values():
            encoder.check_learning(plan)
        return settings.shapes
    shapes = tuple(name for name, plan in plans.items() if _passes(encoder.check_learning, plan))
    if not shapes:
        raise TrainingError(
            f"model {settings.model} can learn from none of the shapes {', '.join(plans)}; give "
            "other `shapes`"
        )
    return shapes


def validation_queries(
    encoder: Encoder, settings: EncodeSettings, graph: Graph, valid: Mapping[str, QuerySet] | None
) -> dict[str, QuerySet]:
    """The queries to validate with, of shapes that the encoder can express."""
    most = settings.validate_queries
    plans = plans_of(SHAPES if valid is None else valid, valid or {})
    shapes = [name for name, plan in plans.items() if _passes(encoder.check, plan)]
    if valid is None:
        return sample_validation(graph, shapes, most, settings.seed)
    return with_hard_answers(
        {name: valid[name] for name in shapes}, most, np.random.default_rng(settings.seed)
    )


def sample_validation(
    graph: Graph, shapes: Iterable[str], most: int, seed: int
) -> dict[str, QuerySet]:
    """Queries to validate with, from the valid facts; none where there are no such facts."""
    if not len(graph.valid):
        return {}
    samples = {
        name: sample(graph, SHAPES[name], "valid", most, seed=seed, waste=WASTE).queries
        for name in shapes
    }
    return {name: queries for name, queries in samples.items() if len(queries)}


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
