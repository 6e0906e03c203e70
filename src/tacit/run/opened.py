"""What a run is asked by: its weights, read together, and the engine over them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any

from tacit.disk import reading
from tacit.engine.settings import EngineSettings
from tacit.errors import RunError
from tacit.run.folder import ADAPTER, ENCODER, MODEL, RunFolder

# What needs torch is imported where it is used.
if TYPE_CHECKING:
    from tacit.distributed.shards import Shards
    from tacit.encode.encoder import Encoder
    from tacit.engine.engine import Engine
    from tacit.links.finders.finders import Finders
    from tacit.links.scorer import Scorer


@dataclass(frozen=True, eq=False)
class RunWeights:
    """What was trained in a run: a link predictor, or what an encoder predicts of single links, and the encoder."""

    scorer: Scorer
    finders: Finders
    encoder: Encoder | None = None


@dataclass(frozen=True, eq=False)
class Opened:
    """A run folder as somebody opened it: what it holds is read when it is first needed, and stays as it was read.

    So who asks while a run is changed has all of it from before, or all of it from after.
    """

    folder: RunFolder
    device: str
    adapted: bool
    settings: dict[str, Any]
    read: RunWeights | None = None  # before

    @cached_property
    def weights(self) -> RunWeights:
        """What was trained, on the device that was asked for."""
        from tacit.links.loading import pick_device

        if self.read is not None:
            return self.read
        device = str(pick_device(self.device))
        with reading(self.folder.path):  # facts and weights of one moment
            self.folder.graph()
            return read_weights(self.folder, device)

    @cached_property
    def engine(self) -> Engine:
        """The engine over the weights."""
        with reading(self.folder.path):
            return engine_of(self.folder, self.weights, self.adapted, self.settings)


def read_weights(folder: RunFolder, device: str, shards: Shards | None = None) -> RunWeights:
    """The weights of a run; with `shards`, the rows of this process alone, of the link predictor alone."""
    from tacit.links.finders.finders import Finders
    from tacit.links.loading import load_model

    finders = Finders(folder)  # before the weights are read
    alone = not folder.has(MODEL) and "train" not in folder.settings  # an encoder, or one whose training goes on
    if alone and shards is not None:
        raise RunError(f"run '{folder.path}' holds an encoder alone, which processes cannot share out; give no shards")
    if shards is not None or not (alone or folder.has(ENCODER)):
        return RunWeights(load_model(folder, device, shards), finders)
    from tacit.encode.models import load_encoder

    scorer = load_model(folder, device) if folder.has(MODEL) else None
    encoder, _ = load_encoder(folder, folder.graph(), device, scorer)
    return RunWeights(encoder.scorer() if scorer is None else scorer, finders, encoder)


def engine_of(folder: RunFolder, weights: RunWeights, adapted: bool, settings: Mapping[str, Any]) -> Engine:
    """The engine of a run, with the adapter where it has one and it is wanted; a preset has none.

    A run without a link predictor is asked by its encoder where nothing else is said.
    """
    from tacit.engine.engine import Engine

    graph, scorer = folder.graph(), weights.scorer
    usual = {} if folder.has(MODEL) or settings.get("preset") else {"search": "encoder"}
    encoder = None if weights.encoder is None else weights.encoder.reasoner(trained=trained(folder))
    shared: dict[str, Any] = {"finders": weights.finders, "encoder": encoder}
    chosen = EngineSettings.of({**usual, **settings})
    chosen.check_given(settings)
    if not adapted or chosen.preset or not folder.has(ADAPTER):
        return Engine(graph, scorer, chosen, **shared)
    from tacit.adapt.adapter import load_adapter
    from tacit.adapt.calibrated import Adapted
    from tacit.engine.atoms.calibration import calibration

    adapter, learned = load_adapter(folder, scorer)
    calibrated = Adapted(calibration(learned.calibration), adapter)  # the engine has it count what is observed
    calibrated.instead = {name: getattr(chosen, name) for name in learned.engine}
    own = EngineSettings.of({**usual, **learned.engine})
    return Engine(graph, scorer, own, adapter=calibrated, **shared).using(**settings)


def trained(folder: RunFolder) -> str:
    """How the encoder of a run was trained, in a line."""
    settings, measured = folder.settings.get("encode", {}), folder.results().get("encode")
    model, figures = settings.get("model"), measured if isinstance(measured, dict) else {}
    if "imported" in figures:
        return f"{model}, imported from {figures['imported']}"
    told, seconds = [str(model), f"recipe {settings.get('recipe')}"], figures.get("seconds")
    if isinstance(seconds, int | float):
        told += [f"{figures.get('steps')} steps", f"{seconds / 60:.1f} minutes"]
    return ", ".join(told)


def described(adapter: Mapping[str, Any]) -> str | None:
    """How an adapter was trained, in a line."""
    names = ("learn", "condition", "layers", "loss", "shapes", "held_out", "observed", "seed")
    values = {name: adapter[name] for name in names if name in adapter}
    return ", ".join(f"{name} {'+'.join(v) if isinstance(v, list) else v}" for name, v in values.items()) or None
