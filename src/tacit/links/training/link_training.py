"""Training a link predictor on a graph, in a way that can be stopped at any moment and gone on with."""

from __future__ import annotations

import torch
from torch import Tensor

from tacit.distributed.shards import Shards, local_device
from tacit.errors import SettingsError, TrainingError
from tacit.fitting.loop import Fitting, fit
from tacit.fitting.progress import Progress
from tacit.fitting.task import Task, Timetable, seed_of
from tacit.graph.graph import Graph
from tacit.links.factors import FactorModel
from tacit.links.loading import load_model, make_model, pick_device, save_model
from tacit.links.precision import float32_products
from tacit.links.settings import TrainSettings
from tacit.links.training.fact_validation import Validate, Validation
from tacit.links.training.finished import is_complete
from tacit.links.training.memory import clear_memory_errors, score_budget, table_bytes
from tacit.links.training.step import TrainStep
from tacit.run.folder import CHECKPOINT, RunFolder

VALIDATION_ROWS, VALIDATION_BYTES = 1000, 64e6  # of scores, at a time


def train(
    graph: Graph,
    settings: TrainSettings | None = None,
    run: RunFolder | None = None,
    progress: Progress | bool = True,
    resume: bool = False,
    validate: Validate | None = None,
) -> FactorModel:
    """Train a model on the train facts of a graph, both directions; the best weights on validation are kept.

    What `validate` finds decides which are best; without it, those that rank the valid facts best.
    With a `run`, progress is traced, checkpoints are written and the model is saved there; `resume` goes on from the
    last checkpoint, also that of a complete run where there are more epochs to do. Ctrl-C raises `KeyboardInterrupt`
    between two steps, after saving. `progress` is told about the training; True shows it on standard error.

    Processes that `torchrun` started share the entities out among them, and need the same run folder; the model that
    each returns has its own rows.
    """
    settings = (settings or TrainSettings()).settled(len(graph.train), graph.num_entities)
    if not len(graph.train):
        raise TrainingError(f"{graph.name} has no train facts to learn from")
    shards = joined_shards(graph, settings)
    if run is not None:
        run.begin(graph)
        complete = resume and is_complete(run, settings)
        shards.wait()  # before one of them changes what the others look at
        if complete:
            return load_model(run, local_device(settings.device), shards)

    def begin(fitting: Fitting) -> None:
        if run is not None and shards.leads:
            run.tidy()
            if resume:
                run.write_settings("train", settings.to_dict())

    def keep(fitting: Fitting) -> None:
        if run is not None:
            save_model(run, training.model)  # that of a training that was stopped can be used before going on
            if fitting.over and shards.leads:
                about = {"precision": training.precision, "seed": settings.seed, "ties": "realistic"}
                with run.changed_results() as results:
                    results["train"] = fitting.summary() | about

    with clear_memory_errors(f"rank {settings.rank} and batch {settings.batch}"):
        training = Training(graph, settings, validate, shards=shards, holds_best=run is None)
        with float32_products(training.precision):
            fit(training, settings, progress, run, CHECKPOINT, resume=resume, shards=shards, begin=begin, keep=keep)
        return training.model


class Training(Task):
    """The training of a link predictor: a step is a batch of facts, a validation what is handed in, or the ranks of
    facts held out.
    """

    faster = "a smaller rank, or negatives instead of all entities, would be faster"

    def __init__(
        self,
        graph: Graph,
        settings: TrainSettings,
        validate: Validate | None = None,
        *,
        shards: Shards | None = None,
        holds_best: bool = True,
    ) -> None:
        self.settings = settings = settings.settled(len(graph.train), graph.num_entities)
        self.shards = shards or Shards(graph.num_entities)
        device = pick_device(local_device(settings.device))
        self.precision = settings.precision
        if self.precision == "auto":
            self.precision = "tf32" if device.type == "cuda" else "float32"
        has_valid = len(graph.valid) > 0
        tables = table_bytes(settings, self.shards.size, graph.num_relations, has_valid and holds_best)
        budget = score_budget(settings, tables, device)
        sizes = graph.num_entities, graph.num_relations, settings.rank, settings.norm
        model = make_model(settings.model, *sizes, self.shards)
        model.reset(settings.init, torch.Generator().manual_seed(settings.seed))
        self.module = self.model = model.to(device)
        self.update = TrainStep(self.model, settings, budget, self.precision)
        self.optimizer = self.update.optimizer
        if device.type == "cpu":  # more rows at a time are no faster there, and scores should not outgrow the tables
            budget = min(budget, max(VALIDATION_BYTES, tables / 10))
        rows = self.shards.broadcast(int(min(VALIDATION_ROWS, max(1, budget // (8 * self.shards.size)))))
        if validate is None and has_valid:
            validate = Validation(graph, settings.validate_facts, settings.seed, rows, self.shards)
        self.validation = validate
        facts = graph.train if graph.train.flags.writeable else graph.train.copy()  # torch shares no others
        self.facts = torch.from_numpy(facts).to(device)  # [M, 3]
        self.steps = -(-2 * len(self.facts) // settings.batch)  # of an epoch, both directions
        self._batches: tuple[int, tuple[Tensor, ...]] = -1, ()  # an epoch, and the facts of its steps
        tried = f"lr (it is {settings.lr}), init ({settings.init}) or reg ({settings.reg})"
        self.remedy = f"lower {tried}, or use precision float32"

    @property
    def flops(self) -> float:
        """The floating-point operations of the three products of a step."""
        compared = (self.settings.negatives or self.model.num_entities) / self.shards.world
        return 6.0 * self.settings.batch * compared * self.model.tail_table.width

    def schedule(self) -> Timetable:
        """Epochs, each told, some validated."""
        settings = self.settings
        return Timetable(
            name="epoch",
            unit="epoch",
            units=settings.epochs,
            steps_per_unit=self.steps,
            round=1,
            validate_every=settings.validate_every,
            patience=settings.patience,
            examples="facts",
            checkpoint_seconds=settings.checkpoint_seconds,
        )

    def step(self, number: int) -> tuple[Tensor, int]:
        """Learn from the next facts, in an order that depends on seed and epoch alone."""
        epoch, place = divmod(number, self.steps)
        if self._batches[0] != epoch:
            many = 2 * len(self.facts)
            kind = torch.int32 if many < 2**31 else torch.int64  # the same order in half the memory
            order = torch.randperm(many, generator=_generator(self.settings.seed, epoch, 0), dtype=kind)
            self._batches = epoch, torch.split(order.to(self.model.device), self.settings.batch)
        ids = self._batches[1][place]
        own = (self.shards.rank,) if self.shards.rank else ()
        loss = self.update(self.triples(ids), _generator(self.settings.seed, epoch, 1 + place, *own))
        return loss * len(ids), len(ids)

    def triples(self, ids: Tensor) -> Tensor:
        """Some of the train facts, `[B] -> [B, 3]`: that of 2i is fact i, that of 2i + 1 its inverse."""
        heads, relations, tails = self.facts.index_select(0, ids >> 1).unbind(1)
        inverse = (ids & 1).to(heads.dtype)
        turned = inverse.bool()
        return torch.stack((heads.where(~turned, tails), relations ^ inverse, tails.where(~turned, heads)), 1)

    def validate(self) -> dict[str, float]:
        """The mean reciprocal rank of each shape of questions; that of facts held out is that of `1p`."""
        return {} if self.validation is None else self.validation(self.model)

    def release(self) -> None:
        """Let go of gradients and buffers."""
        super().release()
        self.update.full = None


def _generator(*numbers: int) -> torch.Generator:
    """The source of one draw: 0 of an epoch for its order, 1 + step for the negatives of a step, by rank beyond 0."""
    return torch.Generator().manual_seed(seed_of(*numbers))


def joined_shards(graph: Graph, settings: TrainSettings) -> Shards:
    """The entities of this process among those that train together."""
    shards = Shards.joined(graph.num_entities, device=str(pick_device(local_device(settings.device))))
    if shards.world > graph.num_entities:
        raise SettingsError(f"{shards.world} processes cannot share {graph.num_entities} entities; start fewer")
    if 0 < settings.negatives < shards.world:
        raise SettingsError(
            f"negatives is {settings.negatives} and each of {shards.world} processes draws its own; "
            f"it must be at least {shards.world}",
            "negatives",
        )
    return shards
