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
    """What `work(rank, world, *arguments)` returns on each of so many ranks; None of one that was killed."""
    folder.mkdir(parents=True, exist_ok=True)
    context = _context()
    given = [(rank, world, str(folder), timeout, work, arguments) for rank in range(world)]
    processes = [context.Process(target=_entry, args=of_rank) for of_rank in given]
    for process in processes:
        process.start()
    for process in processes:
        process.join()
    assert not [process.exitcode for process in processes if (process.exitcode or 0) > 0]
    files = [folder / f"result-{rank}" for rank in range(world)]
    return [torch.load(file, weights_only=False) if file.exists() else None for file in files]


def _context() -> Any:
    """A server that has everything loaded starts a process at once; loading torch anew takes seconds."""
    if "forkserver" not in mp.get_all_start_methods():
        return mp.get_context("spawn")
    context = mp.get_context("forkserver")
    context.set_forkserver_preload(["tacit.server.answering", "tacit.server.served_run", "hypothesis"])
    return context


def _entry(rank: int, world: int, folder: str, timeout: float, work: Callable[..., Any], arguments: Any) -> None:
    os.environ["GLOO_SOCKET_IFNAME"] = "lo"
    torch.set_num_threads(1)
    meet(f"file://{folder}/meeting", rank, world, timeout)
    torch.save(work(rank, world, *arguments), Path(folder) / f"result-{rank}")
    leave()
