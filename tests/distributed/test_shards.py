"""What ranks tell each other is what one process would compute."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from rank_processes import on_ranks
from tacit.distributed.shards import Shards, local_device, share
from tacit.errors import SettingsError

SIZES = (11, 2, 64)  # rows; two of them leave a third rank without any


def by_sorting(values: torch.Tensor, k: int) -> tuple[torch.Tensor, torch.Tensor]:
    """The best k of each row by Python's own order of (-value, id)."""
    chosen = [sorted(range(len(row)), key=lambda i: (-row[i], i))[:k] for row in values.tolist()]
    ids = torch.tensor(chosen).reshape(len(values), -1)
    return values.gather(1, ids), ids


def cases() -> list[tuple[torch.Tensor, torch.Tensor, torch.Tensor]]:
    """Tables, ids and scores with many ties, -inf among them; the same in every process."""
    draw = torch.Generator().manual_seed(5)
    made = []
    for size in SIZES:
        scores = torch.randint(0, 4, (7, size), generator=draw).double()
        scores[scores == 3] = -torch.inf
        ids = torch.randint(0, size, (9,), generator=draw)
        made.append((torch.randn(size, 3, generator=draw).double(), ids, scores))
    return made


def work(rank: int, world: int) -> list[dict[str, Any]]:
    found = []
    for table, ids, scores in cases():
        shards = Shards.joined(len(table))
        own = slice(shards.start, shards.stop)
        padded = torch.cat([table[own], torch.full((2, 3), 99.0).double()])
        found.append(
            {
                "span": (shards.start, shards.stop, shards.rank, shards.world),
                "rows": shards.rows(padded, ids),
                "log_sum": shards.log_total(scores[:, own].logsumexp(-1)),
                "top": [shards.top(scores[:, own], k) for k in (1, 3, 100)],
                "any": shards.any(rank == 1, False, True),
                "told": shards.broadcast({"from": rank}),
                "gathered": shards.gathered(torch.tensor([rank, 7])),
            }
        )
        shards.wait()
    return found


@pytest.mark.skipif(sys.platform != "linux", reason="processes meet over the device lo")
@pytest.mark.parametrize("world", [2, 3])
def test_ranks_find_what_one_process_finds(world: int, tmp_path: Path) -> None:
    found = on_ranks(world, tmp_path, work)
    for rank, of_rank in enumerate(found):
        for (table, ids, scores), got in zip(cases(), of_rank, strict=True):
            assert got["span"] == (*share(len(table), rank, world), rank, world)
            assert torch.equal(got["rows"], table[ids])
            torch.testing.assert_close(got["log_sum"], scores.logsumexp(-1))
            for k, (values, numbers) in zip((1, 3, 100), got["top"], strict=True):
                expected = by_sorting(scores, k)
                assert torch.equal(values, expected[0])
                assert torch.equal(numbers, expected[1])
            assert got["any"] == (True, False, True)
            assert got["told"] == {"from": 0}
            assert got["gathered"].tolist() == [[number, 7] for number in range(world)]


def test_one_process_needs_no_others() -> None:
    table, ids, scores = cases()[0]
    shards = Shards.joined(len(table))
    assert (shards.start, shards.stop, shards.world, shards.leads) == (0, 11, 1, True)
    assert torch.equal(shards.rows(table, ids), table[ids])
    assert torch.equal(shards.top(scores, 4)[1], by_sorting(scores, 4)[1])
    assert (shards.any(False, True), shards.broadcast("x")) == ((False, True), "x")


@given(st.integers(0, 50), st.integers(1, 7))
def test_shares_are_even_and_leave_nothing_out(total: int, world: int) -> None:
    spans = [share(total, rank, world) for rank in range(world)]
    assert [row for start, stop in spans for row in range(start, stop)] == list(range(total))
    sizes = [stop - start for start, stop in spans]
    assert max(sizes) - min(sizes) <= 1


def test_variables_of_torchrun_are_numbers(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("WORLD_SIZE", "two")
    with pytest.raises(SettingsError, match="WORLD_SIZE is 'two'"):
        Shards.joined(5)
    monkeypatch.setenv("WORLD_SIZE", "1")
    assert local_device("cuda:3") == "cuda:3"
