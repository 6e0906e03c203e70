"""The progress of a link predictor's training, read without torch."""

from __future__ import annotations

import shlex

from tacit.errors import RunError, TacitError
from tacit.fitting.checkpoint import read_state
from tacit.links.settings import TrainSettings
from tacit.run_folder.files import CHECKPOINT, ENCODER, ENCODING, MODEL, RULES
from tacit.run_folder.folder import RunFolder, is_of_rules


def is_complete(run: RunFolder, settings: TrainSettings | None = None) -> bool:
    """Whether the training of a run has finished, and with these `settings` would not go on."""
    if not run.has(MODEL):
        return run.has_predictor
    if not run.has(CHECKPOINT):
        if settings is not None and "train" not in run.results():
            raise RunError(
                f"run '{run.path}' holds a model that was not trained there; train in another "
                "folder"
            )
        planned = run.settings["train"].get("epochs")
        if settings is not None and planned and settings.epochs > planned:
            raise RunError(
                f"run '{run.path}' has no {CHECKPOINT} to go on from; train anew with "
                f"`force=True`, or leave `epochs` at {planned}"
            )
        return True
    state, complete, _ = read_state(run, CHECKPOINT)
    return complete and (
        settings is None or state.done >= settings.epochs or state.stale >= settings.patience
    )


def unfinished(run: RunFolder) -> str:
    """A note on a training that was stopped, with the command to resume it, or ""."""
    try:
        if not (run.has(MODEL) and run.has(CHECKPOINT)):
            return ""
        state, complete, _ = read_state(run, CHECKPOINT)
    except TacitError:  # a checkpoint that cannot be read keeps nobody from using the run
        return ""
    if complete:
        return ""
    path = shlex.quote(str(run.path))
    epochs = run.settings["train"].get("epochs")
    stopped = f"the training of run '{run.path}' stopped after epoch {state.done} of {epochs}"
    return f"{stopped}; go on with: tacit train {path} --out {path} --resume"


def notes_on_training(run: RunFolder) -> list[str]:
    """The notes on trainings of a run that were stopped, or whose weights are missing."""
    return list(filter(None, (unfinished(run), without_predictor(run), unfinished_encoder(run))))


def without_predictor(run: RunFolder) -> str:
    """A note on an encoder that answers since a run's link predictor is missing, or ""."""
    if run.has_predictor or "train" not in run.settings or not run.has(ENCODER):
        return ""
    missing = RULES if is_of_rules(run) else MODEL
    return (
        f"run '{run.path}' has no {missing}, and its encoder answers instead; go on with the "
        "training of its link predictor, or train the run again"
    )


def unfinished_encoder(run: RunFolder) -> str:
    """A note on an encoder beside a link predictor whose training was stopped, or ""."""
    if not (run.has_predictor and run.has(ENCODING)):
        return ""
    return (
        f"the training of an encoder of run '{run.path}' has not finished; repeat its command with "
        f"--resume, or drop it with: tacit encode {shlex.quote(str(run.path))} --drop"
    )
