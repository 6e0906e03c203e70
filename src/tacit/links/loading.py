"""Models in run folders."""

from __future__ import annotations

from typing import Any

import torch
from torch import nn

from tacit.disk import MAPS
from tacit.distributed.shards import Shards
from tacit.errors import RunError, SettingsError
from tacit.fitting.parts import RunFiles
from tacit.links.embeddings import Embeddings
from tacit.links.factors import FactorModel
from tacit.links.models import MODELS, DistanceModel
from tacit.links.scorer import shards_of
from tacit.run.folder import CHECKPOINT, MODEL, ON_PREDICTOR, RunFolder
from tacit.settings import device_name


def make_model(
    name: str, num_entities: int, num_relations: int, rank: int, norm: int = 1, shards: Shards | None = None
) -> FactorModel:
    """A model by name, all zeros; where entities are shared out, with the rows of this process alone."""
    if name not in MODELS:
        raise SettingsError(f"unknown model '{name}'; the models are {', '.join(MODELS)}")
    kind = MODELS[name]
    rows = num_entities if shards is None else shards.size
    model = kind(rows, num_relations, rank, *([norm] if issubclass(kind, DistanceModel) else []))
    if shards is not None and shards.world > 1:
        model.num_entities = num_entities
        model.head_table.shards = model.tail_table.shards = shards
    return model


def make_like(model: FactorModel, num_entities: int, num_relations: int, rank: int | None = None) -> FactorModel:
    """A model of the same kind for other sizes, all zeros."""
    made_of = about(model)
    return make_model(made_of["model"], num_entities, num_relations, rank or model.rank, made_of["norm"])


def about(model: FactorModel) -> dict[str, Any]:
    """What a model is, beside its tables, as settings name it."""
    name = next(name for name, kind in MODELS.items() if kind is type(model))
    return {"model": name, "rank": model.rank, "norm": getattr(model, "norm", 1)}


def save_model(run: RunFolder, model: FactorModel) -> None:
    """Write a model as `model.safetensors`, with what is needed to make it again; in parts where it is shared out.

    An adapter, or one being trained, is of use with the weights it was made for alone, and goes with them. So does an
    encoder over the vectors of the link predictor. Evaluations of other weights are marked.
    """
    shards = shards_of(model)
    if shards.leads:
        run.drop("adapt")
        if run.settings.get("encode", {}).get("model") in ON_PREDICTOR:
            run.drop("encode")
        run.outdate("train")
    RunFiles(run, shards).write(MODEL, model.state_dict(), {name: str(value) for name, value in about(model).items()})


def load_model(run: RunFolder, device: str = "cpu", shards: Shards | None = None) -> FactorModel:
    """The trained model of a run, frozen; with `shards`, the rows of this process alone.

    On a CPU its tables stay in the file, which processes share. It is mapped so that who writes into a table gets a
    copy of its own: nothing can change the file.
    """
    if not run.has(MODEL):
        how = "its training has not finished; go on with resume" if run.has(CHECKPOINT) else "train it first"
        raise RunError(f"run '{run.path}' has no {MODEL}: {how}")
    described, on = run.settings["graph"], pick_device(device)
    with run.fits(MODEL, "train the run again"):
        entities, relations = int(described["entities"]), int(described["relations"])
        made_of, tables = RunFiles(run, shards or Shards(entities)).contents(MODEL)
        rank, norm = int(made_of["rank"]), int(made_of["norm"])
        with torch.device("meta"):
            model = make_model(made_of["model"], entities, relations, rank, norm, shards)
        mapped = MAPS and on.type == "cpu"  # padding is for a GPU's products
        if not mapped:
            model.to_empty(device=on)
        for name, table in tables.items():
            if table.dtype != torch.float32:
                raise ValueError(f"{name} is of {table.dtype}, not {torch.float32}")
        model.load_state_dict(tables, assign=mapped)
    for part in model.modules() if not mapped else ():
        if isinstance(part, Embeddings):  # what was read nobody has written to, as where it is mapped
            part.storage = nn.Parameter(part.storage.data)
    return model.requires_grad_(False).eval()


def pick_device(name: str) -> torch.device:
    """The device of a name; `auto` is the GPU where there is one."""
    if device_name(str(name)) == "auto":
        return torch.device("cuda" if torch.cuda.is_available() else "cpu")
    device = torch.device(name)
    gpus = torch.cuda.device_count()
    if device.type == "cuda" and (device.index or 0) >= gpus:
        there = f"the last GPU here is cuda:{gpus - 1}" if gpus else "no GPU is available here; use cpu or auto"
        raise SettingsError(f"device is '{name}' but {there}", "device")
    return device
