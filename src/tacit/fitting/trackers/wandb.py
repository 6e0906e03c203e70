"""Weights & Biases: a run of the project `tacit`, or of `WANDB_PROJECT`."""

from __future__ import annotations

import os

from tacit.fitting.progress import Event
from tacit.fitting.tracking import TrackedRun, Training, figures


def open_run(training: Training) -> TrackedRun:
    """Start a run, or go on in that of the resumed training; nobody is asked for a key."""
    import wandb

    online = wandb.setup().settings.mode in ("online", "shared")
    if online and wandb.api.api_key is None:
        raise RuntimeError("it has no API key; set WANDB_API_KEY, or WANDB_MODE=offline")
    run = wandb.init(
        project=os.environ.get("WANDB_PROJECT", "tacit"),
        name=f"{training.folder.name} {training.part}",
        id=training.id,
        resume="allow" if online and training.id is not None else None,
        config={**training.parameters},
        settings=wandb.Settings(console="off", silent=True),
    )
    # a resumed training may log steps once more, which W&B's own count of steps cannot take
    run.define_metric("*", step_metric="step")

    def log(event: Event) -> None:
        run.log({"step": event.done, **figures(event)})

    place = run.url if online else f"wandb sync {run.settings.sync_dir}"
    return TrackedRun(run.id, str(place), log, run.finish)
