"""Training an encoder on a graph, in a way that can be stopped at any moment and gone on with."""

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
from tacit.fitting.loop import Fitting, fit
from tacit.fitting.progress import Progress
from tacit.graph.graph import Graph
from tacit.links.loading import pick_device
from tacit.links.precision import float32_products
from tacit.links.scorer import Scorer
from tacit.links.training.memory import clear_memory_errors
from tacit.query.sampling.queries import QuerySet, QuerySets, has_queries
from tacit.query.sampling.query_folder import check_ids, queries_for
from tacit.run.folder import ENCODER, ENCODING, RunFolder


@dataclass(frozen=True, eq=False)
class EncodeResult:
    """The encoder with its best weights, and what happened on the way: one entry of `trace` per validation."""

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
    """Train an encoder; the best weights on `valid`, or on queries sampled from the valid facts, are kept.

    It learns from `queries` by shape; shapes that are asked for and not among them are drawn over the train facts, and
    so are all where none are given. With a `run`, validations are traced, checkpoints are written, from which `resume`
    goes on, and the encoder is saved there in the end; one that is there goes when the first step is taken. Ctrl-C
    raises `KeyboardInterrupt` between two steps, after saving a checkpoint. LMPNN works on a `scorer`, which stays as
    it is.
    """
    settings = (settings or EncodeSettings()).settled(graph.num_entities)
    if run is not None:
        run.begin(graph)
    for given in (queries or {}, valid or {}):
        check_ids(given, graph)
    size = f"model {settings.model}, batch {settings.batch} and answers {settings.answers}"
    advice = "lower those numbers, negatives, width, hidden or bases"

    def begin(fitting: Fitting) -> None:
        training.clock = lambda: fitting.share
        if run is None:
            return
        run.tidy()
        made_for_it = "train" not in run.settings or ("encode" in run.settings and not run.has(ENCODER))
        if not resume:
            run.drop("encode")
        if made_for_it:  # by these a training that is killed goes on
            run.write_settings("encode", settings.to_dict())

    with clear_memory_errors(size, advice), _apart(pick_device(settings.device)):
        training = EncoderTraining(graph, settings, queries, valid, scorer)
        with float32_products(training.products):
            fitting = fit(training, settings, progress, run, ENCODING, resume=resume, begin=begin)
    training.module.renew()
    summary = fitting.summary() | {
        "model": settings.model,
        "parameters": sum(parameter.numel() for parameter in training.module.parameters()),
        "learned_from": {name: "given" if name in training.queries else "drawn" for name in training.shapes},
        "precision": training.precision,
        "seed": settings.seed,
    }
    if run is not None:
        save_encoder(run, training.module, settings)
        run.write_settings("encode", settings.to_dict())
        with run.changed_results() as results:
            results["encode"] = summary
        run.remove(ENCODING)
    return EncodeResult(training.module, settings, fitting.at.history, summary)


def given_queries(
    graph: Graph, settings: EncodeSettings, source: str | Path | QuerySets | None
) -> tuple[QuerySets, QuerySets | None]:
    """The queries to learn from, of query sets or of a folder, and those of the folder to validate with.

    Of a folder it takes the train queries of the shapes to learn from that it has, and the valid ones of any shape.
    """
    if not isinstance(source, str | Path):
        given = {} if source is None else source
        check_ids(given, graph)
        if given and settings.shapes and given.keys().isdisjoint(settings.shapes):
            raise SettingsError(f"queries are of {', '.join(given)}, and shapes names none of them", "shapes")
        return given, None
    learned, valid = (
        queries_for(graph, source, split, shapes, absent_ok=True) if has_queries(source, split) else {}
        for split, shapes in (("train", settings.shapes), ("valid", None))
    )
    if not learned:
        wanted = ", ".join(settings.shapes or ("any shape",))
        raise DataError(f"has no train queries of {wanted} to learn from; leave it out, and they are drawn", source)
    return learned, valid or None


@contextmanager
def _apart(device: torch.device) -> Iterator[None]:
    """Compute on a device, and put the generators that steps seed back as they were: others may draw from them."""
    on_gpu = device.type == "cuda"
    apart = torch.cuda.device(device) if on_gpu else nullcontext()
    with apart, torch.random.fork_rng([torch.cuda.current_device()] if on_gpu else []):
        yield
