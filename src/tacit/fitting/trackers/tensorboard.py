"""TensorBoard: scalars and settings as event files in the folder `tensorboard` of the run."""

from __future__ import annotations

import os
import shlex
import time

from tacit.fitting.progress import Event
from tacit.fitting.tracking import TrackedRun, Training, figures

_SIMPLE = (bool, int, float, str)


def open_run(training: Training) -> TrackedRun:
    """Write events to a folder of the training, or on to that of the resumed one."""
    from torch.utils.tensorboard import FileWriter
    from torch.utils.tensorboard.summary import hparams, scalar

    began = f"{time.strftime('%Y%m%d-%H%M%S')}-{os.urandom(2).hex()}"
    id = training.id or f"{training.part}-{began}"
    folder = training.folder / "tensorboard" / id
    writer = FileWriter(str(folder))
    parameters = {
        name: value if isinstance(value, _SIMPLE) else str(value)
        for name, value in training.parameters.items()
    }
    for summary in hparams(parameters, {"valid_mrr": 0.0, "loss": 0.0}):  # the names alone count
        writer.add_summary(summary)
    writer.flush()

    def log(event: Event) -> None:
        for name, value in figures(event).items():
            writer.add_summary(scalar(name, value), event.done)
        writer.flush()

    place = f"tensorboard --logdir {shlex.quote(str(training.folder))}"
    return TrackedRun(id, place, log, lambda code: writer.close())
