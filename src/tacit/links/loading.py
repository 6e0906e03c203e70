"""Models in run folders."""

from __future__ import annotations

import torch

from tacit.errors import RunError, SettingsError
from tacit.folder import ADAPTER, CHECKPOINT, MODEL, RunFolder
from tacit.links.factors import FactorModel
from tacit.links.models import MODELS, RotatE, TransE


def make_model(name: str, num_entities: int, num_relations: int, rank: int, norm: int = 1) -> FactorModel:
    """A model by name, all zeros."""
    if name not in MODELS:
        raise SettingsError(f"unknown model '{name}'; the models are {', '.join(MODELS)}")
    kind = MODELS[name]
    if issubclass(kind, TransE | RotatE):
        return kind(num_entities, num_relations, rank, norm)
    return kind(num_entities, num_relations, rank)


def save_model(run: RunFolder, model: FactorModel) -> None:
    """Write a model as `model.safetensors`, with what is needed to make it again.

    An adapter is of use with the weights it was trained on alone, and goes with them.
    """
    name = next(name for name, kind in MODELS.items() if kind is type(model))
    about = {"model": name, "rank": str(model.rank), "norm": str(getattr(model, "norm", 1))}
    run.remove(ADAPTER)
    run.write_tensors(MODEL, model.state_dict(), about)


def is_complete(run: RunFolder) -> bool:
    """Whether the training of a run has finished."""
    return run.has(MODEL) and not run.has(CHECKPOINT)


def load_model(run: RunFolder, device: str = "cpu") -> FactorModel:
    """The trained model of a run, frozen."""
    if not run.has(MODEL):
        how = "its training has not finished; go on with --resume" if run.has(CHECKPOINT) else "train it first"
        raise RunError(f"run '{run.path}' has no {MODEL}: {how}")
    about, described = run.metadata(MODEL), run.settings["graph"]
    try:
        rank, norm = int(about["rank"]), int(about["norm"])
        model = make_model(about["model"], int(described["entities"]), int(described["relations"]), rank, norm)
        model.load_state_dict(run.tensors(MODEL))
    except (KeyError, ValueError, RuntimeError, SettingsError) as error:
        reason = " ".join(str(error).split())
        raise RunError(f"{run.path / MODEL} does not fit the run ({reason}); train the run again") from None
    return model.requires_grad_(False).eval().to(pick_device(device))


def pick_device(name: str) -> torch.device:
    """The device of a name; `auto` is the GPU where there is one."""
    if name == "auto":
        return torch.device("cuda" if torch.cuda.is_available() else "cpu")
    try:
        device = torch.device(name)
    except RuntimeError:
        raise SettingsError(f"device is '{name}'; it must be auto, cpu, cuda or cuda:N") from None
    if device.type == "cuda" and not torch.cuda.is_available():
        raise SettingsError(f"device is '{name}' but no GPU is available here; use cpu or auto")
    return device
