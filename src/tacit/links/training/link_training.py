"""The training of a link predictor on a graph, which can be stopped and resumed."""

from __future__ import annotations

from contextlib import nullcontext

import torch
from torch import Tensor

from tacit.distributed.shards import Shards, local_device
from tacit.errors import SettingsError, TrainingError
from tacit.fitting.loop import Trainer, fit
from tacit.fitting.progress import Progress
from tacit.fitting.task import Task, TrainingSchedule, seed_of
from tacit.graph.graph import Graph
from tacit.links.factors import FactorModel
from tacit.links.models import load_model, make_model, pick_device, save_model
from tacit.links.precision import float32_products
from tacit.links.settings import TrainSettings
from tacit.links.training.fact_validation import Validate, Validation
from tacit.links.training.finished import is_complete
from tacit.links.training.memory import (
    clear_memory_errors,
    score_advice,
    score_budget,
    speed_advice,
    table_bytes,
)
from tacit.links.training.step import TrainStep
from tacit.run_folder.files import CHECKPOINT
from tacit.run_folder.folder import RunFolder

OF_FACTS = "validation facts, asked in both directions"
OF_QUESTIONS = "the shapes of questions that need a validation fact"
# of scores, at a time
VALIDATION_ROWS = 1000
VALIDATION_BYTES = 64e6


def train(
    graph: Graph,
    settings: TrainSettings | None = None,
    run: RunFolder | None = None,
    progress: Progress | bool = True,
    resume: bool = False,
    validate: Validate | None = None,
) -> FactorModel:
    """Train a model on the train facts of a graph, and return its best weights.

    Facts are learned in both directions. The metrics of `validate` select the best weights; the
    default is the MRR of the valid facts. With a `run`, progress is traced, checkpoints are written
    and the model is saved there; `resume` continues from the last checkpoint, also that of a
    complete run if there are more epochs to do. Ctrl-C raises `KeyboardInterrupt` between two
    steps, after saving. `progress` receives the events of the training; True shows them on standard
    error.

    Processes that `torchrun` started share the entities out among them, and need the same run
    folder; the model that each returns has its own rows.
    """
    settings = (settings or TrainSettings()).with_derived(len(graph.train), graph.num_entities)
    if not len(graph.train):
        raise TrainingError(f"{graph.name} has no train facts to learn from")
    shards = joined_shards(graph, settings)
    if run is not None:
        run.begin(graph)
        complete = resume and is_complete(run, settings)
        shards.wait()  # before one of them changes what the others look at
        if complete:
            return load_model(run, local_device(settings.device), shards)
    with run.in_use(changes=True) if run is not None and shards.leads else nullcontext():
        return _trained(graph, settings, run, progress, resume, validate, shards)


def _trained(
    graph: Graph,
    settings: TrainSettings,
    run: RunFolder | None,
    progress: Progress | bool,
    resume: bool,
    validate: Validate | None,
    shards: Shards,
) -> FactorModel:
    """Train a model while the run is locked."""
    if run is not None:
        run.check_unchanged()

    def begin(trainer: Trainer) -> None:
        if run is not None and shards.leads:
            run.tidy()
            if resume:
                run.write_settings("train", settings.to_dict())

    def keep(trainer: Trainer, complete: bool) -> None:
        if run is not None:
            # that of a training that was stopped can be used before going on
            save_model(run, training.module)
            if complete and shards.leads:
                with run.changed_results() as results:
                    results["train"] = trainer.summary() | {
                        "precision": training.precision,
                        "seed": settings.seed,
                        "ties": "realistic",
                    }

    advice = score_advice(settings) + ("" if settings.negatives else ", or set `memory`")
    with clear_memory_errors(f"rank {settings.rank} and batch {settings.batch}", advice):
        training = Training(graph, settings, validate, shards=shards, holds_best=run is None)
        with float32_products(training.precision):
            fit(
                training,
                settings,
                progress,
                run,
                CHECKPOINT,
                resume=resume,
                shards=shards,
                begin=begin,
                keep=keep,
            )
        return training.module


class FactBatches:
    """The train facts of each step, in both directions and a random order for each epoch."""

    def __init__(self, facts: Tensor, batch: int, seed: int) -> None:
        self.facts = facts  # [M, 3]
        self.batch = batch
        self.seed = seed
        self._epoch = -1
        self._ids: tuple[Tensor, ...] = ()  # of each step of the epoch

    @property
    def steps(self) -> int:
        """The number of steps of an epoch."""
        return -(-2 * len(self.facts) // self.batch)

    def of_step(self, epoch: int, step: int) -> Tensor:
        """The facts of a step of an epoch, `[B, 3]`."""
        if self._epoch != epoch:
            number = 2 * len(self.facts)
            # the same order in half the memory
            dtype = torch.int32 if number < 2**31 else torch.int64
            order = torch.randperm(number, generator=_generator(self.seed, epoch, 0), dtype=dtype)
            self._ids = torch.split(order.to(self.facts.device), self.batch)
            self._epoch = epoch
        return self.triples(self._ids[step])

    def triples(self, ids: Tensor) -> Tensor:
        """Facts in either direction, `[B] -> [B, 3]`: 2i is fact i, and 2i + 1 its inverse."""
        heads, relations, tails = self.facts.index_select(0, ids >> 1).unbind(1)
        inverse = (ids & 1).to(heads.dtype)
        turned = inverse.bool()
        return torch.stack(
            (heads.where(~turned, tails), relations ^ inverse, tails.where(~turned, heads)), 1
        )


class Training(Task):
    """The training task of a link predictor: batches of facts, validated by held-out ones.

    `validate` replaces the validation by other metrics.
    """

    name = "epoch"
    unit = "epoch"
    examples = "facts"
    module: FactorModel

    def __init__(
        self,
        graph: Graph,
        settings: TrainSettings,
        validate: Validate | None = None,
        *,
        shards: Shards | None = None,
        holds_best: bool = True,
    ) -> None:
        self.settings = settings = settings.with_derived(len(graph.train), graph.num_entities)
        self.shards = shards or Shards(graph.num_entities)
        device = pick_device(local_device(settings.device))
        self.precision = settings.precision
        if self.precision == "auto":
            self.precision = "tf32" if device.type == "cuda" else "float32"
        has_valid = len(graph.valid) > 0
        tables = table_bytes(
            settings, self.shards.size, graph.num_relations, has_valid and holds_best
        )
        budget = score_budget(settings, tables, device)
        sizes = graph.num_entities, graph.num_relations, settings.rank, settings.norm
        model = make_model(settings.model, *sizes, self.shards)
        model.reset(settings.init, torch.Generator().manual_seed(settings.seed))
        self.module = model.to(device)
        self.update = TrainStep(self.module, settings, budget, self.precision)
        self.optimizer = self.update.optimizer
        # more rows at a time are no faster there, and scores should not outgrow the tables
        if device.type == "cpu":
            budget = min(budget, max(VALIDATION_BYTES, tables / 10))
        rows = self.shards.broadcast(
            int(min(VALIDATION_ROWS, max(1, budget // (8 * self.shards.size))))
        )
        if validate is None and has_valid:
            validate = Validation(graph, settings.validate_facts, settings.seed, rows, self.shards)
        self.validation = validate
        # torch shares no others
        facts = graph.train if graph.train.flags.writeable else graph.train.copy()
        self.facts = FactBatches(torch.from_numpy(facts).to(device), settings.batch, settings.seed)

    @property
    def measured(self) -> str:  # type: ignore[override]
        """What its validation MRR is the mean of."""
        of_facts = isinstance(self.validation, Validation)
        return f"filtered, the mean over {OF_FACTS if of_facts else OF_QUESTIONS}"

    @property
    def faster(self) -> str:  # type: ignore[override]
        """Advice for a training that takes long."""
        return speed_advice(self.settings)

    @property
    def remedy(self) -> str:  # type: ignore[override]
        """Advice against numbers that explode."""
        settings = self.settings
        tried = f"`lr` (it is {settings.lr}), `init` ({settings.init}) or `reg` ({settings.reg})"
        return f"lower {tried}, or use `precision='float32'`"

    @property
    def steps(self) -> int:
        """The number of steps of an epoch."""
        return self.facts.steps

    @property
    def flops(self) -> float:
        """The floating-point operations of the three products of a step."""
        compared = (self.settings.negatives or self.module.num_entities) / self.shards.world
        return 6.0 * self.settings.batch * compared * self.module.tail_table.width

    def schedule(self) -> TrainingSchedule:
        """Epochs, some of which end with a validation."""
        settings = self.settings
        return TrainingSchedule(
            units=settings.epochs,
            steps_per_unit=self.steps,
            round=1,
            validate_every=settings.validate_every,
            patience=settings.patience,
            checkpoint_seconds=settings.checkpoint_seconds,
        )

    def step(self, number: int) -> tuple[Tensor, int]:
        """Learn from the next facts, in an order that depends on seed and epoch alone."""
        epoch, step = divmod(number, self.steps)
        triples = self.facts.of_step(epoch, step)
        rank = (self.shards.rank,) if self.shards.rank else ()
        loss = self.update(triples, _generator(self.settings.seed, epoch, 1 + step, *rank))
        return loss * len(triples), len(triples)

    def validate(self) -> dict[str, float]:
        """The mean reciprocal rank of each shape; held-out facts are `1p`."""
        return {} if self.validation is None else self.validation(self.module)

    def release(self) -> None:
        """Free gradients and buffers."""
        super().release()
        self.update.full = None


def _generator(*numbers: int) -> torch.Generator:
    """The generator of one draw, seeded by integers.

    For an epoch, 0 stands for its order and 1 + step for the negatives of a step, followed by the
    rank beyond 0.
    """
    return torch.Generator().manual_seed(seed_of(*numbers))


def meet_others(device: str) -> None:
    """Join the processes that train together, before each takes its own time to read a graph."""
    Shards.joined(0, device=str(pick_device(local_device(device))))


def joined_shards(graph: Graph, settings: TrainSettings) -> Shards:
    """The entities of this process among those that train together."""
    shards = Shards.joined(
        graph.num_entities, device=str(pick_device(local_device(settings.device)))
    )
    if shards.world > graph.num_entities:
        raise SettingsError(
            f"{shards.world} processes cannot share {graph.num_entities} entities; start fewer"
        )
    if 0 < settings.negatives < shards.world:
        raise SettingsError(
            f"negatives is {settings.negatives} and each of {shards.world} processes draws its "
            f"own; it must be at least {shards.world}",
            "negatives",
        )
    return shards
