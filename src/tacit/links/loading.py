"""Creating, saving and loading models in run folders."""

from __future__ import annotations

from typing import Any

import torch
from torch import nn

from tacit.disk import MAPS
from tacit.distributed.shards import Shards
from tacit.errors import RunError, SettingsError
from tacit.fitting.tensor_files import RunFiles
from tacit.links.embeddings import Embeddings
from tacit.links.factors import FactorModel
from tacit.links.models import MODELS, DistanceModel
from tacit.links.scorer import shards_of
from tacit.run_folder.files import CHECKPOINT, MODEL, ON_PREDICTOR
from tacit.run_folder.folder import RunFolder
from tacit.settings import device_name


def make_model(
    name: str,
    num_entities: int,
    num_relations: int,
    rank: int,
    norm: int = 1,
    shards: Shards | None = None,
) -> FactorModel:
    """Create a model by name, all zeros; with `shards`, only the rows of this process."""
    if name not in MODELS:
        raise SettingsError(f"unknown model '{name}'; the models are {', '.join(MODELS)}")
    kind = MODELS[name]
    rows = num_entities if shards is None else shards.size
    model = kind(rows, num_relations, rank, *([norm] if issubclass(kind, DistanceModel) else []))
    if shards is not None and shards.world > 1:
        model.num_entities = num_entities
        model.head_table.shards = model.tail_table.shards = shards
    return model


def make_like(
    model: FactorModel, num_entities: int, num_relations: int, rank: int | None = None
) -> FactorModel:
    """Create a model of the same kind for other sizes, all zeros."""
    made_of = about(model)
    return make_model(
        made_of["model"], num_entities, num_relations, rank or model.rank, made_of["norm"]
    )


def about(model: FactorModel) -> dict[str, Any]:
    """The name, rank and norm of a model, as settings name them."""
    name = next(name for name, kind in MODELS.items() if kind is type(model))
    return {"model": name, "rank": model.rank, "norm": getattr(model, "norm", 1)}


def save_model(run: RunFolder, model: FactorModel) -> None:
    """Write a model to `model.safetensors`, in parts if its rows are shared out.

    Adapters, and encoders over the vectors of the link predictor, only fit the old weights and are
    deleted. Evaluations of the old weights are marked as outdated.
    """
    shards = shards_of(model)
    if shards.leads:
        run.drop("adapt")
        if run.settings.get("encode", {}).get("model") in ON_PREDICTOR:
            run.drop("encode")
        run.outdate("train")
    RunFiles(run, shards).write(
        MODEL, model.state_dict(), {name: str(value) for name, value in about(model).items()}
    )


def load_model(run: RunFolder, device: str = "cpu", shards: Shards | None = None) -> FactorModel:
    """Load the trained model of a run, frozen; with `shards`, the rows of this process.

    On a CPU the tables are mapped from the file, so that processes share them. The mapping is
    copy-on-write: a write to a table never changes the file.
    """
    if not run.has(MODEL):
        how = (
            "its training has not finished; go on with `resume=True`"
            if run.has(CHECKPOINT)
            else "train it first"
        )
        raise RunError(f"run '{run.path}' has no {MODEL}: {how}", command="train")
    described = run.settings["graph"]
    on = pick_device(device)
    with run.fits(MODEL, "train the run again"):
        entities = int(described["entities"])
        relations = int(described["relations"])
        made_of, tables = RunFiles(run, shards or Shards(entities)).contents(MODEL)
        rank = int(made_of["rank"])
        norm = int(made_of["norm"])
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
        # new parameters have no writes counted, like mapped ones
        if isinstance(part, Embeddings):
            part.storage = nn.Parameter(part.storage.data)
    return model.requires_grad_(False).eval()


def pick_device(name: str) -> torch.device:
    """The device of a name; `auto` is the GPU if there is one."""
    if device_name(str(name)) == "auto":
        return torch.device("cuda" if torch.cuda.is_available() else "cpu")
    device = torch.device(name)
    gpus = torch.cuda.device_count()
    if device.type == "cuda" and (device.index or 0) >= gpus:
        available = (
            f"the last GPU here is cuda:{gpus - 1}"
            if gpus
            else "no GPU is available here; use cpu or auto"
        )
        raise SettingsError(f"device is '{name}' but {available}", "device")
    return device
