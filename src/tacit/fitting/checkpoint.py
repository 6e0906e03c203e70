"""Everything needed to go on with a training as if it had never stopped, in one file of a run."""

from __future__ import annotations

import json
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn
from torch.optim import Optimizer

from tacit.disk import from_json
from tacit.errors import RunError
from tacit.fitting.parts import RunFiles
from tacit.fitting.position import FORMAT, Position, about, anew, no_checkpoint
from tacit.run.folder import MODEL

Weights = Mapping[str, Tensor]


@dataclass(frozen=True, eq=False)
class Checkpoint:
    """A position with the tensors that belong to it, by group.

    The groups are `model` (the last weights), `best`, `optimizer` and `state`. That of a `complete` training lacks the
    weights that `model.safetensors` has: the best ones, or the last, or both where they are the same.
    """

    position: Position
    groups: Mapping[str, Weights]
    complete: bool = False

    def write(self, files: RunFiles, name: str, stamp: Mapping[str, str]) -> None:
        """Write the file; `stamp` says what the training was made of."""
        tensors = {f"{group}.{key}": tensor for group, held in self.groups.items() for key, tensor in held.items()}
        told = {"format": FORMAT, "position": json.dumps(asdict(self.position)), "stamp": json.dumps(dict(stamp))}
        tag = f"{self.position.step}{'-end' if self.complete else ''}"
        files.write(name, tensors, told | ({"complete": "yes"} if self.complete else {}), tag)

    @classmethod
    def read(cls, files: RunFiles, name: str, stamp: Mapping[str, str]) -> Checkpoint:
        """Read a file that was written with the same stamp."""
        run, path = files.run, files.run.path / name
        position, complete = about(run, name)
        try:
            made_with = dict(from_json(run.metadata(name)["stamp"]))
        except (KeyError, ValueError, TypeError):
            raise no_checkpoint(path) from None
        for what, value in stamp.items():
            if made_with.get(what) != value:
                raise _other(path, what, made_with.get(what), value)
        if complete and not run.has(MODEL):
            raise RunError(f"{path} is of a complete training, and {MODEL} with its weights is gone; {anew(name)}")
        groups: dict[str, dict[str, Tensor]] = {"model": {}, "best": {}, "optimizer": {}, "state": {}}
        for key, tensor in files.contents(name)[1].items():
            group, _, rest = key.partition(".")
            groups.setdefault(group, {})[rest] = tensor
        if complete:
            for group in ("model", "best") if position.best_step else ("model",):
                groups[group] = groups[group] or files.contents(MODEL)[1]
        return cls(position, groups, complete)


def _other(path: Path, what: str, before: Any, now: str) -> RunError:
    """What to raise of a checkpoint with another stamp; of settings it tells which differ, where that can be told."""
    told, remedy = "", f"give those, or {anew(path.name)}"
    with suppress(ValueError, TypeError):
        there, here = (dict(from_json(values)) if what == "settings" else {} for values in (before, now))
        pairs = {name: (there.get(name, "unset"), here.get(name, "unset")) for name in there | here}
        differing = [f"{name} {was}, not {given}" for name, (was, given) in pairs.items() if was != given]
        told = f" ({'; '.join(differing)})" if differing else ""
        if there.keys() != here.keys():  # those of another version, which nobody can give
            remedy = anew(path.name)
    return RunError(f"{path} was made with other {what}{told}; {remedy}")


def optimizer_tensors(optimizer: Optimizer, module: nn.Module) -> dict[str, Tensor]:
    """The state of an optimizer, by the name of the parameter that it belongs to."""
    names: dict[Tensor, str] = {parameter: name for name, parameter in module.named_parameters()}
    states = ((names[parameter], state) for parameter, state in optimizer.state.items())
    return {f"{name}.{field}": torch.as_tensor(value) for name, state in states for field, value in state.items()}


def restore_optimizer(optimizer: Optimizer, module: nn.Module, tensors: Weights) -> None:
    """Put the state of an optimizer back; rows of padding, which no file holds, are 0."""
    parameters = dict(module.named_parameters())
    on_device = any(optimizer.defaults.get(how) for how in ("fused", "capturable"))  # also counts of steps, for torch
    for key, tensor in tensors.items():
        name, _, field = key.rpartition(".")
        parameter = parameters[name]
        if tensor.dim() and tensor.shape[1:] not in ((), parameter.shape[1:]):
            raise ValueError(f"{key} is {tuple(tensor.shape)} beside a parameter of {tuple(parameter.shape)}")
        device = parameter.device if on_device or field != "step" else torch.device("cpu")
        if tensor.dim():
            restored = tensor.new_zeros((len(parameter), *tensor.shape[1:]), device=device)
            restored[: len(tensor)] = tensor
        else:
            restored = tensor.to(device, copy=True)
        optimizer.state[parameter][field] = restored
