"""A run whose model knows a ring by turning."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import torch

import tacit
from tacit.adapt.adapter import Adapter, save_adapter
from tacit.adapt.settings import AdaptSettings
from tacit.graph.graph import Graph
from tacit.links.models import make_model, save_model
from tacit.run_folder.folder import RunFolder

# A ring of eight with steps of one and of two; valid and test hold one fact each.
RING = [(f"e{i}", "next", f"e{(i + 1) % 8}") for i in range(8)]
SKIP = [(f"e{i}", "skip", f"e{(i + 2) % 8}") for i in range(8)]
GRAPH = Graph.of(RING[:7] + SKIP[:7], valid=SKIP[7:], test=RING[7:], name="ring")


def turning_run(path: Path) -> Path:
    """A run whose model knows the ring: `i` is a turn by `i/8`, `next` by 1/8, `skip` by 2/8."""
    folder = RunFolder.create(path, GRAPH, {"model": "complex", "rank": 1})
    model = make_model("complex", 8, 4, 1)
    angles = torch.arange(8) * torch.pi / 4
    turns = torch.tensor([1.0, -1.0, 2.0, -2.0]) * torch.pi / 4
    entities, relations = (4 * torch.stack((a.cos(), a.sin()), 1) for a in (angles, turns))
    model.load_state_dict({"entities.weight": entities, "relations.weight": relations})
    save_model(folder, model)
    return folder.path


def with_adapter(path: Path, **settings: Any) -> AdaptSettings:
    """Give a run an adapter that changes nothing yet."""
    folder = RunFolder.open(path)
    chosen = AdaptSettings(**settings)
    save_adapter(folder, Adapter(tacit.open(path, adapted=False).engine.scorer, "p"), chosen)
    folder.write_settings("adapt", chosen.to_dict())
    folder.write_results({**folder.results(), "adapt": {"steps": 1}})
    return chosen
