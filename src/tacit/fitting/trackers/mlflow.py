"""MLflow: a run of the experiment `tacit`, or of `MLFLOW_EXPERIMENT_NAME`."""

from __future__ import annotations

import os
import time

from tacit.fitting.progress import Event
from tacit.fitting.tracking import TrackedRun, Training, figures

_STATES = {0: "FINISHED", 130: "KILLED"}


def open_run(training: Training) -> TrackedRun:
    """Make a run where `MLFLOW_TRACKING_URI` says, or go on in that of the resumed training.

    Parameters of MLflow cannot change: those that a resumed training has changed are tags.
    """
    from mlflow.entities import Metric, Param, RunTag
    from mlflow.exceptions import MlflowException
    from mlflow.tracking import MlflowClient

    client = MlflowClient()
    parameters = {name: str(value) for name, value in training.parameters.items()}
    known = None
    if training.id is not None:
        try:
            known = client.get_run(training.id).data.params
        except MlflowException as error:
            if error.error_code != "RESOURCE_DOES_NOT_EXIST":
                raise
    if known is None or training.id is None:
        name = os.environ.get("MLFLOW_EXPERIMENT_NAME", "tacit")
        found = client.get_experiment_by_name(name)
        experiment = client.create_experiment(name) if found is None else found.experiment_id
        title = f"{training.folder.name} {training.part}"
        id = str(client.create_run(experiment, run_name=title).info.run_id)
        client.log_batch(id, params=[Param(*each) for each in parameters.items()])
    else:
        id = training.id
        client.update_run(id, status="RUNNING")
        changed = {key: value for key, value in parameters.items() if known.get(key) != value}
        client.log_batch(id, tags=[RunTag(f"resumed.{key}", changed[key]) for key in changed])

    def log(event: Event) -> None:
        now = int(time.time() * 1000)
        values = figures(event).items()
        client.log_batch(id, [Metric(name, value, now, event.done) for name, value in values])

    def close(code: int) -> None:
        client.set_terminated(id, _STATES.get(code, "FAILED"))

    return TrackedRun(id, f"run {id} at {client.tracking_uri}", log, close)
