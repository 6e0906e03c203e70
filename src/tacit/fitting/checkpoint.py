"""Everything needed to go on with a training as if it had never stopped, in one file of a run."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from typing import Any

import torch
from torch import Tensor
from torch.optim import Optimizer

from tacit.errors import RunError
from tacit.folder import MODEL, RunFolder

FORMAT = "tacit checkpoint 2"
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


@dataclass(frozen=True, eq=False)
class Checkpoint:
    """A position with the tensors that belong to it, by group.

    The groups are `model` (the last weights), `best`, `optimizer` and `state`. That of a `complete` training lacks the
    weights that `model.safetensors` has: the best ones, or the last, or both where they are the same.
    """

    position: Position
    groups: Mapping[str, Weights]
    complete: bool = False

    def write(self, run: RunFolder, name: str, stamp: Mapping[str, str]) -> None:
        """Write the file; `stamp` says what the training was made of."""
        tensors = {f"{group}.{key}": tensor for group, held in self.groups.items() for key, tensor in held.items()}
        about = {"format": FORMAT, "position": json.dumps(asdict(self.position)), "stamp": json.dumps(dict(stamp))}
        run.write_tensors(name, tensors, about | ({"complete": "yes"} if self.complete else {}))

    @classmethod
    def read(cls, run: RunFolder, name: str, stamp: Mapping[str, str]) -> Checkpoint:
        """Read a file that was written with the same stamp."""
        path = run.path / name
        position, complete = about(run, name)
        made_with = json.loads(run.metadata(name)["stamp"])
        for what, value in stamp.items():
            if made_with.get(what) != value:
                raise RunError(f"{path} was made with other {what}; give those, or start again without resume")
        groups: dict[str, dict[str, Tensor]] = {"model": {}, "best": {}, "optimizer": {}, "state": {}}
        for key, tensor in run.tensors(name).items():
            group, _, rest = key.partition(".")
            groups.setdefault(group, {})[rest] = tensor
        if complete:
            for group in ("model", "best") if position.best_step else ("model",):
                groups[group] = groups[group] or run.tensors(MODEL)
        return cls(position, groups, complete)


def about(run: RunFolder, name: str) -> tuple[Position, bool]:
    """The position of a checkpoint, and whether its training is complete."""
    told = run.metadata(name)
    try:
        if told["format"] != FORMAT:
            raise ValueError
        return Position(**json.loads(told["position"])), "complete" in told
    except (KeyError, ValueError, TypeError):
        path = run.path / name
        raise RunError(f"{path} is no checkpoint of this version; delete it, then start from the beginning") from None


def optimizer_tensors(optimizer: Optimizer) -> dict[str, Tensor]:
    """The state of an optimizer, tensor by tensor."""
    states = optimizer.state_dict()["state"].items()
    return {f"{number}.{name}": torch.as_tensor(value) for number, state in states for name, value in state.items()}


def restore_optimizer(optimizer: Optimizer, tensors: Weights) -> None:
    """Put the state of an optimizer back."""
    state: dict[int, dict[str, Tensor]] = {}
    for key, tensor in tensors.items():
        number, _, name = key.partition(".")
        state.setdefault(int(number), {})[name] = tensor
    optimizer.load_state_dict({"state": state, "param_groups": optimizer.state_dict()["param_groups"]})
