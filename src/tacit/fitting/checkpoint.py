"""Everything needed to go on with a training as if it had never stopped, in one file of a run."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn
from torch.optim import Optimizer

from tacit.disk import from_json
from tacit.errors import RunError
from tacit.fitting.parts import Parts
from tacit.folder import MODEL, RunFolder

FORMAT = "tacit checkpoint 3"
Weights = Mapping[str, Tensor]


@dataclass
class Position:
    """How far a training has come."""

    step: int = 0  # finished steps
    done: int = 0  # finished epochs, where they are what is counted
    loss: float = 0.0  # sum over the examples of the round under way
    examples: int = 0  # of the round under way
    seconds: float = 0.0
    best: float | None = None  # validation
    best_step: int = 0
    stale: int = 0  # validations since the best
    history: list[dict[str, Any]] = field(default_factory=list)  # one entry a round

    def is_possible(self) -> bool:
        """Whether counts are counts and measures are numbers, of which a loss may have become infinite or none."""
        counts = (self.step, self.done, self.examples, self.best_step, self.stale)
        measures = (self.loss, self.seconds, 0.0 if self.best is None else self.best)
        rounds = isinstance(self.history, list) and all(isinstance(one, dict) for one in self.history)
        whole = all(type(count) is int and 0 <= count < 2**63 for count in counts)
        return rounds and whole and all(type(measure) in (int, float) for measure in measures)


@dataclass(frozen=True, eq=False)
class Checkpoint:
    """A position with the tensors that belong to it, by group.

    The groups are `model` (the last weights), `best`, `optimizer` and `state`. That of a `complete` training lacks the
    weights that `model.safetensors` has: the best ones, or the last, or both where they are the same.
    """

    position: Position
    groups: Mapping[str, Weights]
    complete: bool = False

    def write(self, files: Parts, name: str, stamp: Mapping[str, str]) -> None:
        """Write the file; `stamp` says what the training was made of."""
        tensors = {f"{group}.{key}": tensor for group, held in self.groups.items() for key, tensor in held.items()}
        about = {"format": FORMAT, "position": json.dumps(asdict(self.position)), "stamp": json.dumps(dict(stamp))}
        tag = f"{self.position.step}{'-end' if self.complete else ''}"
        files.write(name, tensors, about | ({"complete": "yes"} if self.complete else {}), tag)

    @classmethod
    def read(cls, files: Parts, name: str, stamp: Mapping[str, str]) -> Checkpoint:
        """Read a file that was written with the same stamp."""
        run, path = files.run, files.run.path / name
        position, complete = about(run, name)
        try:
            made_with = dict(from_json(run.metadata(name)["stamp"]))
        except (KeyError, ValueError, TypeError):
            raise _no_checkpoint(path) from None
        for what, value in stamp.items():
            if made_with.get(what) != value:
                raise RunError(f"{path} was made with other {what}; give those, or start again without resume")
        groups: dict[str, dict[str, Tensor]] = {"model": {}, "best": {}, "optimizer": {}, "state": {}}
        for key, tensor in files.read(name).items():
            group, _, rest = key.partition(".")
            groups.setdefault(group, {})[rest] = tensor
        if complete:
            for group in ("model", "best") if position.best_step else ("model",):
                groups[group] = groups[group] or files.read(MODEL)
        return cls(position, groups, complete)


def about(run: RunFolder, name: str) -> tuple[Position, bool]:
    """The position of a checkpoint, and whether its training is complete."""
    told = run.metadata(name)
    try:
        if told["format"] != FORMAT:
            raise ValueError
        position = Position(**from_json(told["position"]))
        if not position.is_possible():
            raise ValueError
        return position, "complete" in told
    except (KeyError, ValueError, TypeError):
        raise _no_checkpoint(run.path / name) from None


def _no_checkpoint(path: Path) -> RunError:
    return RunError(f"{path} is no checkpoint of this version; delete it, then start from the beginning")


def optimizer_tensors(optimizer: Optimizer, module: nn.Module) -> dict[str, Tensor]:
    """The state of an optimizer, by the name of the parameter that it belongs to."""
    names: dict[Tensor, str] = {parameter: name for name, parameter in module.named_parameters()}
    states = ((names[parameter], state) for parameter, state in optimizer.state.items())
    return {f"{name}.{field}": torch.as_tensor(value) for name, state in states for field, value in state.items()}


def restore_optimizer(optimizer: Optimizer, module: nn.Module, tensors: Weights) -> None:
    """Put the state of an optimizer back; rows of padding, which no file holds, are 0."""
    parameters = dict(module.named_parameters())
    for key, tensor in tensors.items():
        name, _, field = key.rpartition(".")
        parameter = parameters[name]
        if tensor.dim() and tensor.shape[1:] not in ((), parameter.shape[1:]):
            raise ValueError(f"{key} is {tuple(tensor.shape)} beside a parameter of {tuple(parameter.shape)}")
        rows = len(parameter) if tensor.dim() else 0
        # A count of steps stays on the CPU, where optimizers expect it.
        restored = tensor.new_zeros((rows, *tensor.shape[1:]), device=parameter.device) if rows else tensor.clone()
        if rows:
            restored[: len(tensor)] = tensor
        optimizer.state[parameter][field] = restored
