"""The weights of a run, read together, and the engine over them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import TYPE_CHECKING, Any

from tacit.disk import reading
from tacit.engine.settings import EngineSettings
from tacit.errors import RunError
from tacit.fitting.gradients import with_gradients
from tacit.run_folder.files import ADAPTER, ENCODER, MODEL, RULES
from tacit.run_folder.folder import RunFolder, is_of_rules

# Imports of torch are local.
if TYPE_CHECKING:
    from tacit.distributed.shards import Shards
    from tacit.encode.encoder import Encoder
    from tacit.engine.atoms.mixture import RuleMixture
    from tacit.engine.engine import Engine
    from tacit.links.rules.rule_scorer import RuleScorer
    from tacit.links.run_retrievers import RunRetrievers
    from tacit.links.scorer import Scorer


@dataclass(frozen=True, eq=False)
class LoadedWeights:
    """The trained models of a run: its link predictor or encoder scores, and its encoder."""

    scorer: Scorer
    retrievers: RunRetrievers
    encoder: Encoder | None = None
    rules: RuleScorer | None = None  # those beside the link predictor of a mixed run
    mixture: RuleMixture | None = None  # of the link predictor and these rules
    # why the encoder cannot be used, beside a link predictor
    encoder_error: RunError | None = None
    # the states of the weight files when they were read, by part
    files: Mapping[str, list[Any]] = field(default_factory=dict)

    @property
    def rule_scorer(self) -> RuleScorer | None:
        """The rules of the run, alone or beside its link predictor."""
        from tacit.links.rules.rule_scorer import RuleScorer

        return self.scorer if isinstance(self.scorer, RuleScorer) else self.rules

    def check_unwritten(self, *parts: str) -> None:
        """Raise a `RunError` if weights of some parts in memory are others than on disk."""
        models = {"train": self.scorer, "rules": self.rules, "encode": self.encoder}
        for part in parts:
            self.retrievers.check_unwritten(models[part])


@dataclass(frozen=True, eq=False)
class LoadedRun:
    """A run folder as it was opened; its content is read at the first use and kept.

    A reader therefore has all of a changed run from before the change, or all of it from after.
    """

    folder: RunFolder
    device: str
    adapted: bool
    engine_settings: dict[str, Any]
    preloaded: LoadedWeights | None = None  # weights that are in memory already

    @cached_property
    @with_gradients
    def weights(self) -> LoadedWeights:
        """The trained models on the requested device."""
        from tacit.links.models import pick_device

        if self.preloaded is not None:
            return self.preloaded
        device = str(pick_device(self.device))
        with reading(self.folder.path):  # one snapshot of facts and weights
            self.folder.graph()
            return read_weights(self.folder, device)

    @cached_property
    @with_gradients
    def engine(self) -> Engine:
        """The engine over the weights."""
        with reading(self.folder.path):
            return engine_of(self.folder, self.weights, self.adapted, self.engine_settings)

    @property
    def is_read(self) -> bool:
        """Whether the engine, and with it the run, is in memory."""
        return "engine" in vars(self)

    @property
    def weights_in_memory(self) -> LoadedWeights | None:
        """The weights, if the run has been read."""
        return self.weights if self.is_read else None

    @property
    def notes(self) -> tuple[str, ...]:
        """The limitations of the run's answers, one per line."""
        from tacit.links.training.finished import notes_on_training

        lines = notes_on_training(self.folder)
        if self.is_read and self.weights.encoder_error is not None:
            lines.append(f"its encoder cannot be asked: {self.weights.encoder_error}")
        return tuple(lines)


def read_weights(folder: RunFolder, device: str, shards: Shards | None = None) -> LoadedWeights:
    """Read the weights of a run.

    With `shards`, only the rows of this process are read, and only of the link predictor.
    """
    from tacit.links.run_retrievers import RunRetrievers

    # before the weights, so that a later change shows
    retrievers = RunRetrievers(folder)
    files = folder.weight_files()
    # an encoder, maybe still in training
    encoder_only = not folder.has_predictor and "train" not in folder.settings
    if encoder_only and shards is not None:
        raise RunError(
            f"run '{folder.path}' holds an encoder alone, which processes cannot share out; leave "
            "`shards` out"
        )
    reads_encoder = shards is None and (encoder_only or folder.has(ENCODER))
    scorer = None
    read: dict[str, Any] = {"retrievers": retrievers, "files": files}
    if folder.has_predictor or not reads_encoder:
        scorer, read["rules"], read["mixture"] = _read_predictor(folder, device, shards)
        retrievers.watch(scorer)
    if scorer is not None and not reads_encoder:
        return LoadedWeights(scorer, **read)
    from tacit.encode.models import load_encoder

    try:
        encoder, _ = load_encoder(folder, folder.graph(), device, scorer)
    except RunError as error:
        if scorer is None:
            raise
        return LoadedWeights(scorer, **read, encoder_error=error)
    retrievers.watch(encoder)
    predictor = encoder.scorer() if scorer is None else scorer
    return LoadedWeights(predictor, **read, encoder=encoder)


def _read_predictor(
    folder: RunFolder, device: str, shards: Shards | None
) -> tuple[Scorer, RuleScorer | None, RuleMixture | None]:
    """The link predictor of a run, and the rules beside it with their mixture.

    Rules alone are the link predictor.
    """
    from tacit.engine.atoms.mixture import RuleMixture
    from tacit.links.models import load_model
    from tacit.links.rules.rule_files import load_rules, rule_scorer

    graph = folder.graph()
    if not is_of_rules(folder):
        model = load_model(folder, device, shards)
        if not folder.has(RULES):
            return model, None, None
        content, weights = load_rules(folder)
        rules = rule_scorer(content, graph, device)
        with folder.fits(RULES, "train the run again"):
            return model, rules, RuleMixture.from_tensors(rules, weights) if weights else None
    if shards is not None:
        raise RunError(
            f"run '{folder.path}' holds rules, which processes cannot share out; leave `shards` out"
        )
    return rule_scorer(load_rules(folder)[0], graph, device), None, None


def engine_of(
    folder: RunFolder, weights: LoadedWeights, adapted: bool, settings: Mapping[str, Any]
) -> Engine:
    """The engine of a run, with its adapter if `adapted` and without a preset.

    A run without a link predictor answers by its encoder by default, and one of rules by their
    confidences.
    """
    from tacit.engine.engine import Engine
    from tacit.links.values.value_files import RunValues

    graph = folder.graph()
    scorer = weights.scorer
    defaults = {}
    if not (settings.get("preset") or folder.has(MODEL)):
        # confidences are probabilities already
        defaults = {"calibration": "sigmoid"} if folder.has_predictor else {"search": "encoder"}
    encoder = (
        weights.encoder_error
        if weights.encoder is None
        else weights.encoder.reasoner(trained=describe_encoder(folder))
    )
    parts: dict[str, Any] = {
        "retrievers": weights.retrievers,
        "encoder": encoder,
        "rules": weights.mixture,
        "values": RunValues(folder, graph) if len(graph.attributes) else None,
    }
    config = EngineSettings.of({**defaults, **settings})
    config.check_explicit(settings)
    if not adapted or config.preset or not folder.has(ADAPTER):
        return Engine(graph, scorer, config, **parts)
    from tacit.adapt.adapter import load_adapter
    from tacit.adapt.calibrated import Adapted
    from tacit.engine.atoms.calibration import calibration
    from tacit.engine.atoms.mixture import mixed

    adapter, trained_for = load_adapter(folder, scorer)
    # the engine sets the observed facts that it counts
    rules = weights.mixture if trained_for.rules else None
    adapted_calibration = Adapted(mixed(calibration(trained_for.calibration), rules), adapter)
    unadapted = {name: getattr(config, name) for name in trained_for.engine}
    adapted_calibration.unadapted_defaults = unadapted
    config = EngineSettings.of({**defaults, **trained_for.engine})
    engine = Engine(graph, scorer, config, adapter=adapted_calibration, **parts)
    return engine.with_settings(**settings)


def describe_encoder(folder: RunFolder) -> str:
    """The training of a run's encoder, in one line."""
    settings = folder.settings.get("encode", {})
    summary = folder.results().get("encode")
    model = settings.get("model")
    figures = summary if isinstance(summary, dict) else {}
    if "imported" in figures:
        return f"{model}, imported from {figures['imported']}"
    parts = [str(model), f"recipe {settings.get('recipe')}"]
    seconds = figures.get("seconds")
    if isinstance(seconds, int | float):
        parts += [f"{figures.get('steps')} steps", f"{seconds / 60:.1f} minutes"]
    return ", ".join(parts)


def describe_adapter(adapter: Mapping[str, Any]) -> str | None:
    """The training of an adapter, in one line."""
    names = ("condition", "layers", "loss", "shapes", "held_out", "observed", "seed")
    values = {name: adapter[name] for name in names if name in adapter}
    parts = (f"{name} {'+'.join(v) if isinstance(v, list) else v}" for name, v in values.items())
    return ", ".join(parts) or None
