"""Training an encoder on a graph, with checkpoints to resume from."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch

from tacit.encode.encoder import Encoder
from tacit.encode.models import save_encoder
from tacit.encode.settings import EncodeSettings
from tacit.encode.training.encoder_training import EncoderTraining
from tacit.errors import DataError, SettingsError
from tacit.fitting.loop import Trainer, fit
from tacit.fitting.progress import Progress
from tacit.graph.graph import Graph
from tacit.links.models import pick_device
from tacit.links.precision import float32_products
from tacit.links.scorer import Scorer
from tacit.links.training.memory import clear_memory_errors
from tacit.query.sampling.queries import QuerySet, QuerySets, has_queries, without_queries
from tacit.query.sampling.query_folder import check_ids, queries_for
from tacit.run_folder.files import ENCODER, ENCODING
from tacit.run_folder.folder import RunFolder


@dataclass(frozen=True, eq=False)
class EncodeResult:
    """The encoder with its best weights; `trace` has an entry per validation."""

    encoder: Encoder
    settings: EncodeSettings
    trace: list[dict[str, Any]]
    summary: dict[str, Any]


def encode(
    graph: Graph,
    settings: EncodeSettings | None = None,
    *,
    queries: Mapping[str, QuerySet] | None = None,
    valid: Mapping[str, QuerySet] | None = None,
    scorer: Scorer | None = None,
    run: RunFolder | None = None,
    progress: Progress | bool = False,
    resume: bool = False,
) -> EncodeResult:
    """Train an encoder, and keep the weights that are best on the validation queries.

    The validation queries are `valid`, or sampled from the valid facts. It learns from `queries` by
    shape; queries of further shapes of the settings are drawn over the train facts. With a `run`,
    it traces validations, writes checkpoints, from which `resume` goes on, and saves the encoder in
    the end; the first step deletes an encoder of the run. Ctrl-C raises `KeyboardInterrupt` between
    two steps, after saving a checkpoint. LMPNN works on a `scorer`, which stays as it is.
    """
    settings = (settings or EncodeSettings()).with_derived(graph.num_entities)
    for query_sets in (queries or {}, valid or {}):
        check_ids(query_sets, graph)
    size = f"model {settings.model}, batch {settings.batch} and answers {settings.answers}"
    advice = "lower those numbers, `negatives`, `width`, `hidden` or `bases`"
    with (
        _lock_facts(run, graph),
        clear_memory_errors(size, advice),
        _isolate_generators(pick_device(settings.device)),
    ):
        training = EncoderTraining(graph, settings, queries, valid, scorer)

        def begin(trainer: Trainer) -> None:
            training.clock = lambda: trainer.share
            if run is not None:
                _claim(run, settings, resume)

        with float32_products(training.products):
            trainer = fit(training, settings, progress, run, ENCODING, resume=resume, begin=begin)
        encoder = training.module
        encoder.renew()
        summary = trainer.summary() | {
            "model": settings.model,
            "parameters": sum(parameter.numel() for parameter in encoder.parameters()),
            "learned_from": {
                name: "given" if name in training.queries else "drawn"
                for name in training.batches.shapes
            },
            "precision": training.precision,
            "seed": settings.seed,
        }
        if run is not None:
            save_encoder(run, encoder, settings, summary)
            run.remove(ENCODING)
    return EncodeResult(encoder, settings, trainer.state.history, summary)


def _claim(run: RunFolder, settings: EncodeSettings, resume: bool) -> None:
    """Delete the encoder that a new training replaces, and write the settings of a first one."""
    run.tidy()
    alone = "train" not in run.settings
    unfinished = "encode" in run.settings and not run.has(ENCODER)
    if not resume:
        run.drop("encode")
    if alone or unfinished:  # a killed training resumes by these
        run.write_settings("encode", settings.to_dict())


def training_queries(
    graph: Graph, settings: EncodeSettings, source: str | Path | QuerySets | None
) -> tuple[QuerySets, QuerySets | None]:
    """The queries to learn from, and the validation queries of the folder they are from.

    Of a folder these are the train queries of the shapes of the settings, and the valid queries of
    any shape.
    """
    if not isinstance(source, str | Path):
        query_sets = {} if source is None else source
        check_ids(query_sets, graph)
        if query_sets and settings.shapes and query_sets.keys().isdisjoint(settings.shapes):
            raise SettingsError(
                f"shapes names none of {', '.join(query_sets)}, of which queries are given; "
                "leave it out",
                "shapes",
            )
        return query_sets, None
    if not has_queries(source, "train"):
        raise without_queries(source, "train")
    train, valid = (
        queries_for(graph, source, split, shapes, absent_ok=True)
        if has_queries(source, split)
        else {}
        for split, shapes in (("train", settings.shapes), ("valid", None))
    )
    if not train:
        names = ", ".join(settings.shapes or ("any shape",))
        raise DataError(
            f"has no train queries of {names} to learn from; leave `queries` out, and they are "
            "drawn",
            source,
        )
    return train, valid or None


@contextmanager
def _lock_facts(run: RunFolder | None, graph: Graph) -> Iterator[None]:
    """Lock the facts of a run, alone where its only weights are those of the encoder."""
    if run is None:
        yield
        return
    with run.in_use(changes=not run.has_predictor):
        run.begin(graph)
        yield


@contextmanager
def _isolate_generators(device: torch.device) -> Iterator[None]:
    """Compute on a device, and restore the global generators that steps seed."""
    on_gpu = device.type == "cuda"
    on_device = torch.cuda.device(device) if on_gpu else nullcontext()
    with on_device, torch.random.fork_rng([torch.cuda.current_device()] if on_gpu else []):
        yield
