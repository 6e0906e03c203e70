"""Models stay in their files: no copy on a CPU, and nobody can write into them."""

from __future__ import annotations

import sys
from pathlib import Path

import numpy as np
import pytest
import torch

from tacit.graph.graph import Graph, directed
from tacit.graph.labels.vocabulary import Vocabulary
from tacit.links.models import MODELS, load_model, make_model, save_model
from tacit.run_folder.files import MODEL
from tacit.run_folder.folder import RunFolder


def run_of(path: Path, name: str, size: int, rank: int) -> RunFolder:
    facts = np.array([[0, 0, 1]], dtype=np.int32)
    run = RunFolder.create(path, Graph(Vocabulary(map(str, range(size))), directed("r"), facts), {})
    model = make_model(name, size, 2, rank)
    model.reset(0.5, torch.Generator().manual_seed(0))
    save_model(run, model)
    return run


@pytest.mark.parametrize("name", MODELS)
def test_a_mapped_model_scores_as_the_one_that_was_saved(tmp_path: Path, name: str) -> None:
    run = run_of(tmp_path, name, 11, 4)
    saved = make_model(name, 11, 2, 4).requires_grad_(False)
    saved.load_state_dict(run.tensors(MODEL))
    loaded = load_model(run)
    assert not any(parameter.requires_grad for parameter in loaded.parameters())
    heads = torch.arange(11)
    relations = torch.arange(11) % 2
    assert torch.equal(loaded.logits(heads, relations), saved.logits(heads, relations))
    assert loaded.state_dict().keys() == saved.state_dict().keys()


def test_where_files_are_not_mapped_tables_are_padded_with_zeros(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As on a GPU and on Windows: a table made empty must have no row left unset."""
    run = run_of(tmp_path, "complex", 11, 4)
    monkeypatch.setattr("tacit.links.models.MAPS", False)
    monkeypatch.setattr(
        "torch.empty_like",
        lambda like, **options: torch.full(like.shape, torch.nan, dtype=like.dtype),
    )
    copied = load_model(run).entities
    monkeypatch.undo()
    assert copied.storage.shape == (128, 8)
    assert torch.equal(copied.weight, load_model(run).entities.weight)
    assert not copied.storage[11:].any()


def test_who_trains_a_mapped_model_changes_no_file(tmp_path: Path) -> None:
    run = run_of(tmp_path, "complex", 11, 4)
    before = (run.path / MODEL).read_bytes()
    loaded = load_model(run)
    other = load_model(run)
    weights = other.entities.weight.clone()
    loaded.requires_grad_(True)
    optimizer = torch.optim.Adagrad(loaded.parameters(), lr=0.1)
    loaded.logits_of(*torch.tensor([[0, 1], [0, 1], [2, 3]])).sum().backward()
    optimizer.step()
    loaded.entities.weight.data += 1
    assert (run.path / MODEL).read_bytes() == before
    assert torch.equal(other.entities.weight, weights)
    assert torch.equal(load_model(run).entities.weight, weights)
    assert not torch.equal(loaded.entities.weight, weights)


def test_a_model_that_is_replaced_goes_on_scoring(tmp_path: Path) -> None:
    run = run_of(tmp_path, "distmult", 11, 4)
    loaded = load_model(run)
    weights = loaded.entities.weight.clone()
    save_model(run, make_model("distmult", 11, 2, 4))
    assert torch.equal(loaded.entities.weight, weights)
    assert not load_model(run).entities.weight.any()


@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="needs /proc")
def test_opening_a_model_takes_no_memory_of_its_size(tmp_path: Path) -> None:
    run = run_of(tmp_path, "complex", 50_000, 50)  # 20 MB
    before = private_dirty()
    loaded = load_model(run)
    assert loaded.logits(torch.tensor([0]), torch.tensor([0])).isfinite().all()
    assert private_dirty() - before < 2e6


def private_dirty() -> int:
    lines = Path("/proc/self/smaps_rollup").read_text().splitlines()
    return next(1024 * int(line.split()[1]) for line in lines if line.startswith("Private_Dirty"))
