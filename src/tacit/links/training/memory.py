"""How much memory training takes, and how much there is."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import torch

from tacit.distributed.shards import local_processes
from tacit.errors import LimitError
from tacit.links.embeddings import MULTIPLE
from tacit.links.models import MODELS
from tacit.links.settings import TrainSettings

GB = 1e9
ADVICE = "lower rank or batch, set memory, or use negatives"


def table_bytes(settings: TrainSettings, num_entities: int, num_relations: int, holds_best: bool) -> int:
    """The bytes of all tables with their gradients, optimizer state and, where it holds them, the best weights."""
    kind = MODELS[settings.model]
    rows = -(-num_entities // MULTIPLE) * MULTIPLE * kind.tables
    of_relations = num_relations * kind.relation_width * settings.rank
    numbers = rows * kind.entity_width * settings.rank + of_relations
    states = {"adagrad": numbers, "rowwise": rows + of_relations, "adam": 2 * numbers}[settings.optimizer]
    return 4 * (numbers * (1 + (not settings.negatives) + holds_best) + states)


def score_budget(settings: TrainSettings, tables: int, device: torch.device) -> float:
    """The bytes scores may take; an error where not even the tables and a few columns of scores fit."""
    free = free_bytes(device)
    least = 4 * settings.batch * (settings.negatives or MULTIPLE)
    if tables + least > free:
        raise LimitError(
            f"model {settings.model} of rank {settings.rank} with batch {settings.batch} needs at least "
            f"{(tables + least) / GB:.1f} GB on {device} and {free / GB:.1f} GB are free; {ADVICE}"
        )
    wanted = settings.memory * GB if settings.memory is not None else (free - tables) / 2
    if wanted < least:
        raise LimitError(f"memory is {settings.memory} GB and a batch needs {least / GB:.3f}; raise it or lower batch")
    return wanted


def free_bytes(device: torch.device) -> float:
    """The memory that a device has free for this process; unbounded where the platform does not say."""
    if device.type == "cuda":
        return float(torch.cuda.mem_get_info(device)[0])
    return min(_from_meminfo(), _from_cgroup()) / local_processes()


@contextmanager
def clear_memory_errors(size: str, advice: str = ADVICE) -> Iterator[None]:
    """Turn an allocation that failed into a `LimitError` with advice."""
    try:
        yield
    except (MemoryError, RuntimeError, TypeError) as error:
        said = ("can't allocate memory", "Storage size calculation overflowed", "Overflow when unpacking long")
        if isinstance(error, MemoryError | torch.OutOfMemoryError) or any(words in str(error) for words in said):
            raise LimitError(f"out of memory at {size}; {advice}") from None
        raise


def _from_meminfo() -> float:
    try:
        lines = Path("/proc/meminfo").read_text().splitlines()
        return next(1024.0 * int(line.split()[1]) for line in lines if line.startswith("MemAvailable"))
    except (OSError, StopIteration):
        pass
    try:  # not all of it is free, but more than this is impossible
        return float(os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE"))
    except (ValueError, OSError, AttributeError):
        return float("inf")


def _from_cgroup(folder: Path = Path("/sys/fs/cgroup")) -> float:
    """What a container may still take; files that were read lie in its memory as well, and give way."""
    try:
        limit, used = (int((folder / name).read_text()) for name in ("memory.max", "memory.current"))
        lines = (folder / "memory.stat").read_text().splitlines()
        cached = sum(int(line.split()[1]) for line in lines if line.startswith("inactive_file "))
    except (OSError, ValueError):  # "max" where there is no limit
        return float("inf")
    return float(limit - used + cached)
