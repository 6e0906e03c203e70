"""The rows of a table divided among processes, and their communication.

Processes exchange ids, sums and best values, never scores. This is the only module that imports
`torch.distributed`. With one process every operation is local.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import timedelta
from typing import TypeVar

import torch
from torch import Tensor
from torch import distributed as dist

from tacit.distributed.ties import best
from tacit.errors import LimitError, SettingsError

TIMEOUT = 60.0  # seconds that a rank waits for the others
# seconds while one reads or writes a graph alone; an ended rank is noticed at once
PATIENCE = 86_400.0
_patient: list[dist.ProcessGroup] = []  # a group of all ranks whose barrier takes a timeout
_T = TypeVar("_T")


class Shards:
    """The rows `start` to `stop` of a table, held by process `rank` of `world`.

    Every rank must call the same methods in the same order; every rank gets the same results. Ids
    are those of the whole table. A table may have padding below its rows.

    >>> shards = Shards(5)
    >>> shards.top(torch.tensor([[0.5, 0.9, 0.5, 0.1, 0.9]]), 3)
    (tensor([[0.9000, 0.9000, 0.5000]]), tensor([[1, 4, 0]]))
    """

    def __init__(self, total: int, rank: int = 0, world: int = 1) -> None:
        self.total = total
        self.rank = rank
        self.world = world
        self.lost = False  # whether another rank stopped answering, which ends the group
        self.start, self.stop = share(total, rank, world)

    def __repr__(self) -> str:
        return f"Shards({self.total}, rank={self.rank}, world={self.world})"

    @classmethod
    def joined(cls, total: int, timeout: float = TIMEOUT, device: str = "cpu") -> Shards:
        """The share of this process among those of `torchrun`, or all rows without it.

        The processes join on the first call; on a GPU they use nccl, elsewhere gloo.
        """
        if world_size() == 1:
            return cls(total)
        if not _met():
            meet(None, process_number(), world_size(), timeout, device)
        shards = cls(total, dist.get_rank(), dist.get_world_size())
        if not _patient:  # while all of them are here
            with _lost_ranks_reported(shards):
                _patient.append(dist.new_group(backend="gloo", timeout=timedelta(seconds=timeout)))
        return shards

    @property
    def size(self) -> int:
        """The number of rows that this process holds."""
        return self.stop - self.start

    @property
    def leads(self) -> bool:
        """Whether this process prints, and writes what all have in common."""
        return self.rank == 0

    def inside(self, ids: Tensor) -> tuple[Tensor, Tensor]:
        """Which ids `[B]` are held here, and a row for each `[B]`, 0 for the others."""
        is_local = (ids >= self.start) & (ids < self.stop)
        return is_local, torch.where(is_local, ids - self.start, 0)

    def rows(self, table: Tensor, ids: Tensor) -> Tensor:
        """The rows of ids from all processes, `[B] -> [B, D]`."""
        if self.world == 1:
            return table.index_select(0, ids)
        is_local, places = self.inside(ids)
        if not len(table):
            return self.sum(table.new_zeros(len(ids), table.shape[1]))
        return self.sum(table.index_select(0, places).mul_(is_local[:, None]))

    def log_total(self, part: Tensor) -> Tensor:
        """`log Σ exp` over one value of each rank, `[B] -> [B]`."""
        return part if self.world == 1 else self.gathered(part).logsumexp(0)

    def sum(self, part: Tensor) -> Tensor:
        """The sum over ranks; `part` is overwritten with it."""
        if self.world > 1:
            with _lost_ranks_reported(self):
                dist.all_reduce(part)
        return part

    def gathered(self, part: Tensor) -> Tensor:
        """The tensors of all ranks, `[·] -> [world, ·]`."""
        if self.world == 1:
            return part[None]
        parts = [torch.empty_like(part) for _ in range(self.world)]
        with _lost_ranks_reported(self):
            dist.all_gather(parts, part.contiguous())
        return torch.stack(parts)

    def top(self, values: Tensor, k: int) -> tuple[Tensor, Tensor]:
        """The k largest values of all columns with their ids, `[B, n] -> [B, k]`.

        Values fall, and ties are ordered by id. Fewer than k columns are all returned.
        """
        k = min(k, self.total)
        largest, ids = best(values, k)
        ids = ids + self.start
        if self.world == 1:
            return largest, ids
        missing = k - largest.shape[1]  # an id above all others marks an empty place
        largest = torch.nn.functional.pad(largest, (0, missing), value=-torch.inf)
        ids = torch.nn.functional.pad(ids, (0, missing), value=self.total)
        # [B, W k], ids rising among equal values
        every = self.gathered(largest).transpose(0, 1).flatten(1)
        numbers = self.gathered(ids).transpose(0, 1).flatten(1)
        # sorted by id, since padding equals a real -inf and may precede it
        numbers, by_id = torch.sort(numbers, dim=-1, stable=True)
        largest, places = best(every.gather(-1, by_id), k)
        return largest, numbers.gather(-1, places)

    def any(self, *flags: bool) -> tuple[bool, ...]:
        """For each flag, whether it is set on any rank."""
        highest = self.gathered(torch.tensor(flags, dtype=torch.int32)).amax(0)
        return tuple(map(bool, highest.tolist()))

    def broadcast(self, value: _T) -> _T:
        """The value of rank 0, which is pickled, on every rank."""
        if self.world == 1:
            return value
        values: list[_T] = [value]
        with _lost_ranks_reported(self):
            dist.broadcast_object_list(values, src=0, device=torch.device("cpu"))
        return values[0]

    def wait(self) -> None:
        """Wait until every rank is here, however long one of them works alone."""
        if self.world > 1:
            with _lost_ranks_reported(self):
                group = _patient[0] if _patient else None
                dist.monitored_barrier(group, timeout=timedelta(seconds=PATIENCE))


def share(total: int, rank: int, world: int) -> tuple[int, int]:
    """The first row of a rank, and the one behind its last.

    >>> [share(7, rank, 3) for rank in range(3)]
    [(0, 2), (2, 4), (4, 7)]
    """
    return total * rank // world, total * (rank + 1) // world


def meet(
    place: str | None, rank: int, world: int, timeout: float = TIMEOUT, device: str = "cpu"
) -> None:
    """Join the process group at `place`, the address of a shared file, or as `torchrun` says."""
    on_gpu = torch.device(device).type == "cuda"
    backend = "cpu:gloo,cuda:nccl" if on_gpu else "gloo"
    try:
        dist.init_process_group(
            backend,
            init_method=place,
            rank=rank,
            world_size=world,
            timeout=timedelta(seconds=timeout),
        )
    except (RuntimeError, ValueError) as error:
        raise LimitError(
            f"rank {rank} of {world} did not meet the others within {timeout:.0f} s ({error})"
        ) from None


def leave() -> None:
    """Leave the process group; without it some backends complain at the end of a process."""
    _patient.clear()
    if _met():
        dist.destroy_process_group()


def world_size() -> int:
    """The number of processes that `torchrun` started; 1 without it."""
    return dist.get_world_size() if _met() else _number("WORLD_SIZE", 1)


def process_number() -> int:
    """The number of this process; 0 without `torchrun`."""
    return dist.get_rank() if _met() else _number("RANK", 0)


def local_processes() -> int:
    """The number of processes on this machine."""
    return _number("LOCAL_WORLD_SIZE", 1)


def local_device(device: str) -> str:
    """The device of this process; several on one machine take a GPU each."""
    several = world_size() > 1 and device in ("auto", "cuda") and torch.cuda.is_available()
    return f"cuda:{_number('LOCAL_RANK', 0)}" if several else device


def _met() -> bool:
    return dist.is_available() and dist.is_initialized()  # some builds of torch come without


def _number(variable: str, default: int) -> int:
    value = os.environ.get(variable, str(default))
    if not value.isdecimal():
        raise SettingsError(f"the variable {variable} is '{value}'; torchrun sets it to a number")
    return int(value)


@contextmanager
def _lost_ranks_reported(shards: Shards) -> Iterator[None]:
    """Raise a `LimitError` where another rank does not answer."""
    try:
        yield
    except RuntimeError as error:
        shards.lost = True
        # gloo's message without its source location and advice
        reason = re.sub(r"^\[[^]]*\] ", "", str(error).strip().split("\n")[-1]).split(". ")[0][:200]
        raise LimitError(
            f"rank {shards.rank} of {shards.world} lost another, which ended or did not answer in "
            f"time ({reason}); start all of them again"
        ) from None
