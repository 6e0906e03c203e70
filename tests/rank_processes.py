"""Starts a function in several processes that meet over gloo, and hands back what each returned."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch
from torch import multiprocessing as mp

from tacit.distributed.shards import leave, meet


def on_ranks(world: int, folder: Path, work: Callable[..., Any], *arguments: Any, timeout: float = 20.0) -> list[Any]:
    """What `work(rank, world, *arguments)` returns on each of so many ranks."""
    folder.mkdir(parents=True, exist_ok=True)
    mp.spawn(_entry, (world, str(folder), timeout, work, arguments), nprocs=world)
    return [torch.load(folder / f"result-{rank}", weights_only=False) for rank in range(world)]


def _entry(rank: int, world: int, folder: str, timeout: float, work: Callable[..., Any], arguments: Any) -> None:
    os.environ["GLOO_SOCKET_IFNAME"] = "lo"
    torch.set_num_threads(1)
    meet(f"file://{folder}/meeting", rank, world, timeout)
    torch.save(work(rank, world, *arguments), Path(folder) / f"result-{rank}")
    leave()
