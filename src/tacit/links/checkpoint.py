"""Everything needed to go on with a training as if it had never stopped."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any

from torch import Tensor, nn
from torch.optim import Optimizer

from tacit.errors import RunError
from tacit.folder import CHECKPOINT, RunFolder
from tacit.links.factors import FactorModel
from tacit.links.settings import FREE_ON_RESUME, TrainSettings

KIND = "tacit training checkpoint 1"


@dataclass
class Position:
    """How far training has come. Batches and draws depend on seed, epoch and step alone: no generator is saved."""

    epoch: int = 0  # finished epochs
    step: int = 0  # finished steps of the epoch under way
    loss: float = 0.0  # sum over the facts of the epoch under way
    mrr: float | None = None  # the last validation
    best_mrr: float | None = None
    best_epoch: int = 0
    stale: int = 0  # validations since the best
    seconds: float = 0.0


def save_checkpoint(
    run: RunFolder,
    settings: TrainSettings,
    model: FactorModel,
    optimizer: Optimizer,
    best: dict[str, Tensor] | None,
    position: Position,
) -> None:
    """Write weights, optimizer state, best weights and position as one file."""
    about = {"kind": KIND, "position": json.dumps(asdict(position)), "settings": _stamp(settings)}
    run.write_tensors(CHECKPOINT, packed(model, optimizer, best or {}), about)


def load_checkpoint(
    run: RunFolder, settings: TrainSettings, model: FactorModel, optimizer: Optimizer
) -> tuple[Position, dict[str, Tensor] | None]:
    """Restore model and optimizer; the position and the best weights are returned."""
    path = run.path / CHECKPOINT
    about = run.metadata(CHECKPOINT)
    if about.get("kind") != KIND:
        raise RunError(f"{path} is no training checkpoint; delete it, then --resume starts from the beginning")
    if about.get("settings") != _stamp(settings):
        raise RunError(f"{path} was made with other settings than {run.path / 'settings.toml'}; train with --force")
    tensors = run.tensors(CHECKPOINT)
    try:
        best = unpack(tensors, model, optimizer)
        position = Position(**json.loads(about["position"]))
    except (KeyError, ValueError, TypeError, RuntimeError) as error:
        reason = " ".join(str(error).split())
        raise RunError(f"{path} does not fit the run ({reason}); delete it and train again") from None
    return position, best or None


def packed(model: nn.Module, optimizer: Optimizer, best: Mapping[str, Tensor]) -> dict[str, Tensor]:
    """Weights, optimizer state and best weights as tensors of one file."""
    tensors = {f"model.{name}": tensor for name, tensor in model.state_dict().items()}
    tensors |= {f"best.{name}": tensor for name, tensor in best.items()}
    for number, state in optimizer.state_dict()["state"].items():
        tensors |= {f"optimizer.{number}.{name}": value for name, value in state.items()}
    return tensors


def unpack(tensors: Mapping[str, Tensor], model: nn.Module, optimizer: Optimizer) -> dict[str, Tensor]:
    """Put packed weights and optimizer state back; the best weights are returned, where the model is."""
    state: dict[int, dict[str, Any]] = {}
    parts: dict[str, dict[str, Tensor]] = {"model": {}, "best": {}}
    for key, tensor in tensors.items():
        part, name = key.split(".", 1)
        if part == "optimizer":
            number, name = name.split(".", 1)
            state.setdefault(int(number), {})[name] = tensor
        else:
            parts[part][name] = tensor
    model.load_state_dict(parts["model"])
    optimizer.load_state_dict({"state": state, "param_groups": optimizer.state_dict()["param_groups"]})
    device = next(model.parameters()).device
    return {name: tensor.to(device) for name, tensor in parts["best"].items()}


def _stamp(settings: TrainSettings) -> str:
    fixed = {name: value for name, value in settings.to_dict().items() if name not in FREE_ON_RESUME}
    return json.dumps(fixed, sort_keys=True)
