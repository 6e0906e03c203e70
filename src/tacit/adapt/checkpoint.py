"""Everything needed to go on with an adaptation as if it had never stopped."""

from __future__ import annotations

import json
import zlib
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn
from torch.optim import Optimizer

from tacit.adapt.batches import Batches
from tacit.adapt.settings import AdaptSettings
from tacit.errors import RunError
from tacit.folder import ADAPTATION, RunFolder
from tacit.links.checkpoint import packed, unpack
from tacit.query.queries import QuerySet

KIND = "tacit adaptation checkpoint 1"
FREE_ON_RESUME = ("steps", "patience", "device", "memory")  # none of these changes what a step does


@dataclass
class Progress:
    """How far an adaptation has come."""

    step: int = 0  # finished steps
    loss: float = 0.0  # sum since the last validation
    seconds: float = 0.0
    best_mrr: float = -1.0
    best_step: int = 0
    stale: int = 0  # validations since the best
    trace: list[dict[str, Any]] = field(default_factory=list)


def save_progress(
    run: RunFolder,
    settings: AdaptSettings,
    progress: Progress,
    trained: nn.Module,
    optimizer: Optimizer,
    best: Mapping[str, Tensor],
    batches: Mapping[str, Batches],
    random: np.random.Generator,
) -> None:
    """Write weights, optimizer state, best weights, the order of the queries and the source of draws as one file."""
    tensors = packed(trained, optimizer, best)
    tensors |= {f"order.{name}": torch.from_numpy(one.order) for name, one in batches.items()}
    about = {
        "kind": KIND,
        "settings": _stamp(settings),
        "queries": _fingerprint(batches),
        "progress": json.dumps(asdict(progress)),
        "random": json.dumps(random.bit_generator.state),
    }
    run.write_tensors(ADAPTATION, tensors, about)


def load_progress(
    run: RunFolder,
    settings: AdaptSettings,
    trained: nn.Module,
    optimizer: Optimizer,
    batches: Mapping[str, Batches],
    random: np.random.Generator,
) -> tuple[Progress, dict[str, Tensor]]:
    """Put everything back where it was; the progress and the best weights are returned."""
    path, about = run.path / ADAPTATION, run.metadata(ADAPTATION)
    if about.get("kind") != KIND:
        raise RunError(f"{path} is no checkpoint of an adaptation; delete it, then adapt again")
    if about.get("settings") != _stamp(settings) or about.get("queries") != _fingerprint(batches):
        raise RunError(f"{path} was made with other settings or queries; give those, or adapt without --resume")
    tensors = run.tensors(ADAPTATION)
    try:
        for name, one in batches.items():
            one.order = tensors.pop(f"order.{name}").numpy()
        best = unpack(tensors, trained, optimizer)
        random.bit_generator.state = json.loads(about["random"])
        progress = Progress(**json.loads(about["progress"]))
    except (KeyError, ValueError, TypeError, RuntimeError) as error:
        reason = " ".join(str(error).split())
        raise RunError(f"{path} does not fit the run ({reason}); delete it, then adapt again") from None
    return progress, best


def _stamp(settings: AdaptSettings) -> str:
    fixed = {name: value for name, value in settings.to_dict().items() if name not in FREE_ON_RESUME}
    return json.dumps(fixed, sort_keys=True)


def _fingerprint(batches: Mapping[str, Batches]) -> str:
    return json.dumps({name: _checksum(one.queries) for name, one in batches.items()})


def _checksum(queries: QuerySet) -> int:
    checksum = 0
    for ids in (queries.entities, queries.relations, queries.hard.offsets, queries.hard.ids, queries.easy.ids):
        checksum = zlib.crc32(np.ascontiguousarray(ids, dtype=np.int64).tobytes(), checksum)
    return checksum
