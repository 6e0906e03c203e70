"""The memory that training needs, and the memory that is free."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import torch

from tacit.distributed.shards import local_processes
from tacit.errors import LimitError
from tacit.links.factors import MULTIPLE
from tacit.links.models import MODELS
from tacit.links.settings import TrainSettings

GB = 1e9


def table_bytes(
    settings: TrainSettings, num_entities: int, num_relations: int, holds_best: bool
) -> int:
    """The bytes of all tables, their gradients, optimizer state and best weights."""
    kind = MODELS[settings.model]
    rows = -(-num_entities // MULTIPLE) * MULTIPLE * kind.tables
    of_relations = num_relations * kind.relation_width * settings.rank
    numbers = rows * kind.entity_width * settings.rank + of_relations
    states = {"adagrad": numbers, "rowwise": rows + of_relations, "adam": 2 * numbers}[
        settings.optimizer
    ]
    return 4 * (numbers * (1 + (not settings.negatives) + holds_best) + states)


def score_budget(settings: TrainSettings, tables: int, device: torch.device) -> float:
    """The bytes that scores may take, or a `LimitError` if training cannot fit."""
    free = free_bytes(device)
    needed = 4 * settings.batch * (settings.negatives or MULTIPLE)
    if tables + needed > free:
        helps = table_advice(settings) if tables > free else score_advice(settings)
        raise LimitError(
            f"model {settings.model} of rank {settings.rank} with batch {settings.batch} needs at "
            f"least {(tables + needed) / GB:.1f} GB on {device} and {free / GB:.1f} GB are free; "
            f"{helps}"
        )
    budget = settings.memory * GB if settings.memory is not None else (free - tables) / 2
    if budget < needed:
        lower = "`batch` or `negatives`" if settings.negatives else "`batch`"
        raise LimitError(
            f"`memory={settings.memory}` GB, and a batch needs {needed / GB:.3g} GB; raise it or "
            f"lower {lower}"
        )
    return budget


def table_advice(settings: TrainSettings) -> str:
    """Advice for smaller tables, gradients and optimizer state."""
    advice = ["lower `rank`"]
    if not settings.negatives and settings.optimizer != "adam":
        advice.append("use `negatives`")
    if settings.optimizer != "rowwise":
        advice.append("use `optimizer='rowwise'`")
    return " or ".join(advice)


def score_advice(settings: TrainSettings) -> str:
    """Advice for smaller scores of a batch."""
    if settings.negatives:
        return "lower `rank`, `batch` or `negatives`"
    return "lower `rank` or `batch`, or use `negatives`"


def speed_advice(settings: TrainSettings) -> str:
    """Advice for faster settings, in words that Python and the command line share."""
    if settings.negatives:
        return "a smaller rank, fewer negatives or fewer epochs would be faster"
    if settings.optimizer == "adam":
        return "a smaller rank, or the optimizer adagrad with negatives, would be faster"
    return "a smaller rank, or negatives instead of all entities, would be faster"


def free_bytes(device: torch.device) -> float:
    """The free memory of a device for this process; infinite if unknown."""
    if device.type == "cuda":
        return float(torch.cuda.mem_get_info(device)[0])
    return min(_from_meminfo(), _from_cgroup()) / local_processes()


@contextmanager
def clear_memory_errors(size: str, advice: str) -> Iterator[None]:
    """Turn a failed allocation into a `LimitError` with advice."""
    try:
        yield
    except (MemoryError, RuntimeError, TypeError) as error:
        messages = (
            "can't allocate memory",
            "Storage size calculation overflowed",
            "Overflow when unpacking long",
        )
        if isinstance(error, MemoryError | torch.OutOfMemoryError) or any(
            words in str(error) for words in messages
        ):
            raise LimitError(f"out of memory at {size}; {advice}") from None
        raise


def _from_meminfo() -> float:
    try:
        lines = Path("/proc/meminfo").read_text().splitlines()
        return next(
            1024.0 * int(line.split()[1]) for line in lines if line.startswith("MemAvailable")
        )
    except (OSError, StopIteration):
        pass
    try:  # not all of it is free, but more than this is impossible
        return float(os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE"))
    except (ValueError, OSError, AttributeError):
        return float("inf")


def _from_cgroup(folder: Path = Path("/sys/fs/cgroup")) -> float:
    """The memory that a container may still use, counting file caches as free."""
    try:
        limit, used = (
            int((folder / name).read_text()) for name in ("memory.max", "memory.current")
        )
        lines = (folder / "memory.stat").read_text().splitlines()
        cached = sum(int(line.split()[1]) for line in lines if line.startswith("inactive_file "))
    except (OSError, ValueError):  # "max" where there is no limit
        return float("inf")
    return float(limit - used + cached)
