"""Runs a function in several processes, or as ranks over gloo, and returns all results."""

from __future__ import annotations

import os
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch

from tacit.distributed.shards import leave, meet
from tacit.server.workers.fork_server import context

LIMIT = 200.0  # seconds, below the limit of a test


def in_processes(count: int, folder: Path, work: Callable[..., Any], *arguments: Any) -> list[Any]:
    """The results of `work(number, *arguments)` in processes; None where one was killed."""
    folder.mkdir(parents=True, exist_ok=True)
    processes = [
        context().Process(target=_entry, args=(number, folder, dict(os.environ), work, arguments))
        for number in range(count)
    ]
    for process in processes:
        process.start()
    end = time.monotonic() + LIMIT
    for process in processes:
        process.join(max(0.0, end - time.monotonic()))
    if alive := [process for process in processes if process.is_alive()]:
        for process in alive:
            process.kill()
        raise TimeoutError(f"{len(alive)} of {count} processes work for more than {LIMIT} s")
    assert not [process.exitcode for process in processes if (process.exitcode or 0) > 0]
    files = [folder / f"result-{number}" for number in range(count)]
    return [torch.load(file, weights_only=False) if file.exists() else None for file in files]


def on_ranks(
    world: int, folder: Path, work: Callable[..., Any], *arguments: Any, timeout: float = 20.0
) -> list[Any]:
    """The results of `work(rank, world, *arguments)` on ranks; None where one was killed."""
    return in_processes(
        world, folder, _rank, world, f"file://{folder}/meeting", timeout, work, arguments
    )


def _entry(
    number: int, folder: Path, environ: dict[str, str], work: Callable[..., Any], arguments: Any
) -> None:
    os.environ |= environ  # the server's are those of when it was started
    torch.set_num_threads(1)
    torch.save(work(number, *arguments), folder / f"result-{number}")


def _rank(
    rank: int, world: int, meeting: str, timeout: float, work: Callable[..., Any], arguments: Any
) -> Any:
    os.environ["GLOO_SOCKET_IFNAME"] = "lo"
    meet(meeting, rank, world, timeout)
    found = work(rank, world, *arguments)
    leave()
    return found
