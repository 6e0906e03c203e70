"""Checkpoints: the state of a training in one file, from which it resumes exactly.

Reading the progress of a training does not import torch.
"""

from __future__ import annotations

import json
import time
from collections import defaultdict
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tacit.disk import from_json
from tacit.errors import RunError
from tacit.run_folder.files import ADAPTATION, BEST, CHECKPOINT, ENCODING, MODEL
from tacit.run_folder.folder import RunFolder

if TYPE_CHECKING:
    from torch import Tensor, nn
    from torch.optim import Optimizer

    from tacit.fitting.task import Task, Weights
    from tacit.fitting.tensor_files import RunFiles

FORMAT = "tacit checkpoint 3"
# the command that continues from each file
COMMANDS = {CHECKPOINT: "train", ADAPTATION: "adapt", ENCODING: "encode"}


@dataclass
class TrainerState:
    """The progress of a training."""

    step: int = 0  # finished steps
    done: int = 0  # finished units of the schedule
    loss: float = 0.0  # sum over the examples of the current round
    examples: int = 0  # of the current round
    seconds: float = 0.0
    best: float | None = None  # best validation MRR
    best_step: int = 0
    stale: int = 0  # validations since the best
    history: list[dict[str, Any]] = field(default_factory=list)  # one entry per round

    def is_possible(self) -> bool:
        """Whether counts are valid integers and measures are numbers, maybe infinite ones."""
        counts = (self.step, self.done, self.examples, self.best_step, self.stale)
        measures = (self.loss, self.seconds, 0.0 if self.best is None else self.best)
        return (
            isinstance(self.history, list)
            and all(isinstance(line, dict) for line in self.history)
            and all(type(count) is int and 0 <= count < 2**63 for count in counts)
            and all(type(measure) in (int, float) for measure in measures)
        )


def read_state(run: RunFolder, name: str) -> tuple[TrainerState, bool, dict[str, Any]]:
    """The state in a checkpoint, whether its training is complete, and its stamp."""
    metadata = run.metadata(name)
    try:
        state = TrainerState(**from_json(metadata["position"]))
        stamp = dict(from_json(metadata["stamp"]))
        if metadata["format"] != FORMAT or not state.is_possible():
            raise ValueError
    except (KeyError, ValueError, TypeError):
        raise _unusable(name, f"{run.path / name} is no checkpoint of this version") from None
    return state, "complete" in metadata, stamp


def restart_hint(name: str) -> str:
    """The advice for an unusable checkpoint; an adaptation restarts without `force`."""
    return f"start again {'without `resume=True`' if name == ADAPTATION else 'with `force=True`'}"


def _unusable(name: str, problem: str, remedy: str = "") -> RunError:
    return RunError(f"{problem}; {remedy or restart_hint(name)}", command=COMMANDS.get(name))


@dataclass(frozen=True, eq=False)
class Checkpoint:
    """A training state with its tensors, by group.

    The groups are `model` (the last weights), `best`, `optimizer` and `state`. The checkpoint of a
    `complete` training omits the weights that `model.safetensors` has: the best ones, the last
    ones, or both where they are the same.
    """

    state: TrainerState
    groups: Mapping[str, Weights]
    complete: bool


class CheckpointStore:
    """Keeps the checkpoint of a training, and its best weights, in a run or in memory.

    Without a run there is no checkpoint, and the best weights are in memory. The `stamp` identifies
    the settings and data of the training: a checkpoint with another one is refused.
    """

    def __init__(
        self,
        files: RunFiles | None,
        name: str,
        stamp: Mapping[str, str],
        best_in_run: bool = False,
    ) -> None:
        self.files = files
        self.name = name
        self.stamp = stamp
        self.best: Weights = {}  # where they are in memory
        self.best_files = files if best_in_run else None
        self._step = -1  # of the last checkpoint
        self._saved = time.monotonic()

    @property
    def exists(self) -> bool:
        """Whether the run has a checkpoint."""
        return self.files is not None and self.files.run.has(self.name)

    def is_older(self, seconds: float) -> bool:
        """Whether the last checkpoint is older than so many seconds."""
        return time.monotonic() - self._saved >= seconds

    def lacks(self, step: int) -> bool:
        """Whether there is a run, and its last checkpoint is not of this step."""
        return self.files is not None and self._step != step

    def read(self) -> Checkpoint | None:
        """The checkpoint of the run, if there is one."""
        if self.files is None or not self.exists:
            return None
        run = self.files.run
        path = run.path / self.name
        state, complete, stored = read_state(run, self.name)
        for what, value in self.stamp.items():
            if stored.get(what) != value:
                raise _other_stamp(path, what, stored.get(what), value)
        if complete and not run.has(MODEL):
            problem = f"{path} is of a complete training, and {MODEL} with its weights is gone"
            raise _unusable(self.name, problem)
        groups: dict[str, dict[str, Tensor]] = defaultdict(dict)
        for key, tensor in self.files.contents(self.name)[1].items():
            group, _, parameter = key.partition(".")
            groups[group][parameter] = tensor
        if complete:
            for group in ("model", "best") if state.best_step else ("model",):
                groups[group] = groups[group] or self.files.contents(MODEL)[1]
        return Checkpoint(state, groups, complete)

    def restore(self, task: Task) -> Checkpoint | None:
        """Restore a task from the checkpoint of the run, if there is one."""
        checkpoint = self.read()
        if checkpoint is None or self.files is None:
            return None
        groups = checkpoint.groups
        state = checkpoint.state
        with self.files.run.fits(self.name, restart_hint(self.name)):
            task.module.load_state_dict(groups["model"])
            restore_optimizer(task.optimizer, task.module, groups["optimizer"])
            task.restore(groups["state"])
        best_file = BEST.format(step=state.best_step)
        in_run = self.best_files is not None and self.files.run.has(best_file)
        if state.best is not None and not in_run:
            if not groups["best"]:
                raise _unusable(self.name, f"the run has no {best_file}, the best weights so far")
            device = next(task.module.parameters()).device
            best = {name: tensor.to(device) for name, tensor in groups["best"].items()}
            self.keep_best(state.best_step, best)
        self._step = -1 if checkpoint.complete else state.step
        return checkpoint

    def write(self, state: TrainerState, task: Task) -> None:
        """Write a checkpoint of a task under way."""
        self._write(state, task, task.module.state_dict(), self.best)
        self._remove_best_except(state.best_step)
        self._step = state.step
        self._saved = time.monotonic()

    def close(
        self, state: TrainerState, task: Task, last: Weights, best: Weights, best_step: int
    ) -> None:
        """Write the checkpoint of a complete training, without the weights that the run has.

        `best` are the best weights of the state, which it holds if those of the run are of a later
        `best_step`.
        """
        is_same = state.best_step == best_step
        self._write(state, task, last, {} if is_same else best, complete=True)
        self._remove_best_except(None if is_same else state.best_step)

    def _write(
        self, state: TrainerState, task: Task, last: Weights, best: Weights, complete: bool = False
    ) -> None:
        if self.files is None:
            return
        groups: dict[str, Weights] = {
            "model": last,
            "best": best,
            "optimizer": optimizer_tensors(task.optimizer, task.module),
            "state": task.state(),
        }
        tensors = {
            f"{group}.{key}": tensor
            for group, named in groups.items()
            for key, tensor in named.items()
        }
        metadata = {
            "format": FORMAT,
            "position": json.dumps(asdict(state)),
            "stamp": json.dumps(dict(self.stamp)),
        }
        if complete:
            metadata["complete"] = "yes"
        tag = f"{state.step}{'-end' if complete else ''}"
        self.files.write(self.name, tensors, metadata, tag)

    def keep_best(self, step: int, weights: Weights) -> None:
        """Keep the weights of a step as the best ones."""
        if self.best_files is None:
            self.best = {name: tensor.clone() for name, tensor in weights.items()}
        else:
            self.best_files.write(BEST.format(step=step), weights, {})

    def best_weights(self, step: int) -> Weights:
        """The best weights, of the step that has them."""
        if self.best_files is None:
            return self.best
        return self.best_files.contents(BEST.format(step=step))[1]

    def _remove_best_except(self, step: int | None) -> None:
        """Delete the files of best weights, except those of one step."""
        if self.best_files is not None and self.best_files.shards.leads:
            run = self.best_files.run
            for path in run.path.glob(BEST.format(step="*")):
                # also of a part, such as best-36-00001-of-00002.safetensors
                if path.name.split("-")[1].split(".")[0] != str(step):
                    run.remove(path.name)


def _other_stamp(path: Path, what: str, stored: Any, current: str) -> RunError:
    """The error for a checkpoint with another stamp, with the settings that differ."""
    problem = f"{path} was made with other {what}"
    remedy = f"give those, or {restart_hint(path.name)}"
    with suppress(ValueError, TypeError):
        old, new = (
            dict(from_json(values)) if what == "settings" else {} for values in (stored, current)
        )
        values = [(name, old.get(name, "unset"), new.get(name, "unset")) for name in old | new]
        differing = [
            f"{name} {first}, not {second}" for name, first, second in values if first != second
        ]
        if differing:
            problem += f" ({'; '.join(differing)})"
        if old.keys() != new.keys():  # settings of another version
            remedy = ""
    return _unusable(path.name, problem, remedy)


def optimizer_tensors(optimizer: Optimizer, module: nn.Module) -> dict[str, Tensor]:
    """The state of an optimizer, by parameter name."""
    return {
        f"{name}.{field}": tensor
        for name, parameter in module.named_parameters()
        for field, tensor in optimizer.state.get(parameter, {}).items()
    }


def restore_optimizer(optimizer: Optimizer, module: nn.Module, tensors: Weights) -> None:
    """Restore the state of an optimizer; padding rows, which no file holds, become 0."""
    parameters = dict(module.named_parameters())
    # torch keeps the step counts of these optimizers on the device
    on_device = optimizer.defaults.get("fused") or optimizer.defaults.get("capturable")
    for key, tensor in tensors.items():
        name, _, field = key.rpartition(".")
        parameter = parameters[name]
        if tensor.dim() and tensor.shape[1:] not in ((), parameter.shape[1:]):
            raise ValueError(
                f"{key} is {tuple(tensor.shape)} beside a parameter of {tuple(parameter.shape)}"
            )
        device = parameter.device if on_device or field != "step" else "cpu"
        if tensor.dim():
            restored = tensor.new_zeros((len(parameter), *tensor.shape[1:]), device=device)
            restored[: len(tensor)] = tensor
        else:
            restored = tensor.to(device, copy=True)
        optimizer.state[parameter][field] = restored
