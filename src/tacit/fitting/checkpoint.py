"""How far a training has come, and everything needed to go on as if it had never stopped, in one file of a run.

Who only looks how far a training has come need not load torch.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tacit.disk import from_json
from tacit.errors import RunError
from tacit.run.folder import ADAPTATION, MODEL, RunFolder

if TYPE_CHECKING:
    from torch import Tensor, nn
    from torch.optim import Optimizer

    from tacit.fitting.parts import RunFiles
    from tacit.fitting.task import Weights

FORMAT = "tacit checkpoint 3"


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
        rounds = isinstance(self.history, list) and all(isinstance(line, dict) for line in self.history)
        whole = all(type(count) is int and 0 <= count < 2**63 for count in counts)
        return rounds and whole and all(type(measure) in (int, float) for measure in measures)


def about(run: RunFolder, name: str) -> tuple[Position, bool, dict[str, Any]]:
    """The position of a checkpoint, whether its training is complete, and what that was made of."""
    told = run.metadata(name)
    try:
        position, stamp = Position(**from_json(told["position"])), dict(from_json(told["stamp"]))
        if told["format"] != FORMAT or not position.is_possible():
            raise ValueError
    except (KeyError, ValueError, TypeError):
        raise RunError(f"{run.path / name} is no checkpoint of this version; {anew(name)}") from None
    return position, "complete" in told, stamp


def anew(name: str) -> str:
    """How to start again where there is a checkpoint that is of no use: an adaptation stands in nobody's way."""
    return f"start again {'without resume' if name == ADAPTATION else 'with force'}"


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
        position, complete, made_with = about(run, name)
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
    named = module.named_parameters()
    states = {name: optimizer.state[parameter] for name, parameter in named if parameter in optimizer.state}
    return {f"{name}.{field}": tensor for name, state in states.items() for field, tensor in state.items()}


def restore_optimizer(optimizer: Optimizer, module: nn.Module, tensors: Weights) -> None:
    """Put the state of an optimizer back; rows of padding, which no file holds, are 0."""
    parameters = dict(module.named_parameters())
    on_device = any(optimizer.defaults.get(how) for how in ("fused", "capturable"))  # also counts of steps, for torch
    for key, tensor in tensors.items():
        name, _, field = key.rpartition(".")
        parameter = parameters[name]
        if tensor.dim() and tensor.shape[1:] not in ((), parameter.shape[1:]):
            raise ValueError(f"{key} is {tuple(tensor.shape)} beside a parameter of {tuple(parameter.shape)}")
        device = parameter.device if on_device or field != "step" else "cpu"
        if tensor.dim():
            restored = tensor.new_zeros((len(parameter), *tensor.shape[1:]), device=device)
            restored[: len(tensor)] = tensor
        else:
            restored = tensor.to(device, copy=True)
        optimizer.state[parameter][field] = restored
