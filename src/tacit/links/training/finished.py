"""Whether a link predictor is trained to its end: to look at it needs no torch."""

from __future__ import annotations

from tacit.errors import RunError
from tacit.fitting.checkpoint import about
from tacit.links.settings import TrainSettings
from tacit.run.folder import CHECKPOINT, MODEL, RunFolder


def is_complete(run: RunFolder, settings: TrainSettings | None = None) -> bool:
    """Whether the training of a run has finished, and with these `settings` would not go on."""
    if not run.has(MODEL):
        return False
    if not run.has(CHECKPOINT):
        if settings is not None and "train" not in run.results():
            raise RunError(f"run '{run.path}' holds a model that was not trained there; train in another folder")
        planned = run.settings["train"].get("epochs")
        if settings is not None and planned and settings.epochs > planned:
            raise RunError(f"run '{run.path}' has no {CHECKPOINT} to go on from; train anew, or for {planned} epochs")
        return True
    position, complete, _ = about(run, CHECKPOINT)
    return complete and (settings is None or position.done >= settings.epochs or position.stale >= settings.patience)
