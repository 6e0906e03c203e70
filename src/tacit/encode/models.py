"""Encoders by name, and in run folders, beside a link predictor or alone."""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Mapping
from typing import Any

from tacit.disk import from_json
from tacit.encode.encoder import Encoder
from tacit.encode.networks.gnnqe import GNNQE
from tacit.encode.networks.lmpnn import LMPNN
from tacit.encode.networks.ultra import Ultra
from tacit.encode.settings import EncodeSettings
from tacit.encode.spaces.beta import BetaE
from tacit.encode.spaces.cones import ConE
from tacit.encode.spaces.fuzzy import FuzzQE
from tacit.encode.spaces.translations import GQE, Query2Box
from tacit.errors import RunError
from tacit.graph.graph import Graph
from tacit.links.models import pick_device
from tacit.links.scorer import Scorer
from tacit.run_folder.files import ENCODER, ENCODING, SETTINGS
from tacit.run_folder.folder import RunFolder

EMBEDDINGS: dict[str, Callable[[int, int, EncodeSettings], Encoder]] = {
    "gqe": GQE, "q2b": Query2Box, "betae": BetaE, "cone": ConE, "fuzzqe": FuzzQE,
}  # fmt: skip
# networks over the train facts
NETWORKS = {"gnnqe": GNNQE, "ultra": Ultra}


def make_encoder(settings: EncodeSettings, graph: Graph, scorer: Scorer | None = None) -> Encoder:
    """An encoder for a graph; `reset` draws its weights. LMPNN works on a `scorer`."""
    sizes = graph.num_entities, graph.num_relations
    if settings.model in EMBEDDINGS:
        return EMBEDDINGS[settings.model](*sizes, settings)
    if settings.model in NETWORKS:
        return NETWORKS[settings.model](*sizes, settings, graph.triples("train"))
    return LMPNN(*sizes, settings, scorer)


def save_encoder(
    run: RunFolder, encoder: Encoder, settings: EncodeSettings, summary: Mapping[str, Any]
) -> None:
    """Write an encoder with its settings and the summary of its training, together.

    The checkpoint of the training is deleted with it.
    """
    with run.rewrite(ENCODING) as draft:
        draft.write_tensors(
            ENCODER, encoder.state_dict(), {"settings": json.dumps(settings.to_dict())}
        )
        draft.write_settings("encode", settings.to_dict())
        with draft.changed_results() as results:
            results["encode"] = dict(summary)


def load_encoder(
    run: RunFolder, graph: Graph, device: str = "cpu", scorer: Scorer | None = None
) -> tuple[Encoder, EncodeSettings]:
    """The frozen encoder of a run, and its settings; LMPNN works on the run's `scorer`."""
    if not run.has(ENCODER):
        hint = (
            "its training has not finished; go on with `resume=True`"
            if run.has(ENCODING)
            else "train an encoder first"
        )
        raise RunError(f"run '{run.path}' has no {ENCODER}: {hint}", command="encode")
    with run.fits(ENCODER, "drop it, or encode the run again with force"):
        metadata, tensors = run.contents(ENCODER)
        settings = EncodeSettings.of(from_json(metadata["settings"]))
        _check_table(run.settings.get("encode"), settings)
        encoder = make_encoder(settings, graph, scorer)
        encoder.load_state_dict(tensors)
        if not all(math.isfinite(float(weight.detach().sum())) for weight in encoder.parameters()):
            raise ValueError("it has weights that are not finite numbers")
    encoder = encoder.to(pick_device(device)).requires_grad_(False).eval()
    encoder.renew()
    return encoder, settings


def _check_table(table: Mapping[str, Any] | None, settings: EncodeSettings) -> None:
    """Raise a `ValueError` unless a run's table has the settings of its encoder."""
    if table is None:
        raise ValueError(f"the table [encode] of {SETTINGS} is gone")
    # a training that goes on may have written a larger number of steps
    if EncodeSettings.of(table).resume_signature() != settings.resume_signature():
        raise ValueError(f"the table [encode] of {SETTINGS} has other settings")
