"""Encoders in run folders, beside a link predictor or alone."""

from __future__ import annotations

import json
import math

from tacit.disk import from_json
from tacit.encode.encoder import Encoder
from tacit.encode.models import make_encoder
from tacit.encode.settings import EncodeSettings
from tacit.errors import RunError
from tacit.graph.graph import Graph
from tacit.links.loading import pick_device
from tacit.links.scorer import Scorer
from tacit.run.folder import ENCODER, ENCODING, RunFolder


def save_encoder(run: RunFolder, encoder: Encoder, settings: EncodeSettings) -> None:
    """Write an encoder as `encoder.safetensors`, with the settled settings that it was made by."""
    run.write_tensors(ENCODER, encoder.state_dict(), {"settings": json.dumps(settings.to_dict())})


def load_encoder(
    run: RunFolder, graph: Graph, device: str = "cpu", scorer: Scorer | None = None
) -> tuple[Encoder, EncodeSettings]:
    """The encoder of a run, frozen, and the settings it was trained with; LMPNN works on the run's `scorer`."""
    if not run.has(ENCODER):
        how = "its training has not finished; go on with resume" if run.has(ENCODING) else "train an encoder first"
        raise RunError(f"run '{run.path}' has no {ENCODER}: {how}", command="encode")
    on = pick_device(device)
    with run.fits(ENCODER, "encode the run again"):
        about, tensors = run.contents(ENCODER)
        settings = EncodeSettings.of(from_json(about["settings"]))
        encoder = make_encoder(settings, graph, scorer)
        encoder.load_state_dict(tensors)
        if not all(math.isfinite(float(weight.detach().sum())) for weight in encoder.parameters()):
            raise ValueError("it has weights that are not finite numbers")
    encoder = encoder.to(on).requires_grad_(False).eval()
    encoder.renew()
    return encoder, settings
