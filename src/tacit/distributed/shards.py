"""The rows of a table, divided among processes, and what these tell each other: ids, sums, best values, never scores.

This is the only module that imports `torch.distributed`. With one process every operation is the plain one.
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
_T = TypeVar("_T")


class Shards:
    """The share `start` to `stop` of a table's rows that this process, number `rank` of `world`, holds.

    Every rank must call the same methods in the same order; every rank gets the same results. Ids are those of the
    whole table. A table may have padding below its rows.

    >>> shards = Shards(5)
    >>> shards.top(torch.tensor([[0.5, 0.9, 0.5, 0.1, 0.9]]), 3)
    (tensor([[0.9000, 0.9000, 0.5000]]), tensor([[1, 4, 0]]))
    """

    def __init__(self, total: int, rank: int = 0, world: int = 1) -> None:
        self.total, self.rank, self.world = total, rank, world
        self.lost = False  # whether another rank did not answer: from then on nobody does
        self.start, self.stop = share(total, rank, world)

    def __repr__(self) -> str:
        return f"Shards({self.total}, rank={self.rank}, world={self.world})"

    @classmethod
    def joined(cls, total: int, timeout: float = TIMEOUT, device: str = "cpu") -> Shards:
        """The share of this process among those that `torchrun` started; all rows where it started only one, or none.

        They meet on the first call; on a GPU they speak nccl, elsewhere gloo.
        """
        if world_size() == 1:
            return cls(total)
        if not _met():
            meet(None, process_number(), world_size(), timeout, device)
        return cls(total, dist.get_rank(), dist.get_world_size())

    @property
    def size(self) -> int:
        """How many rows this process holds."""
        return self.stop - self.start

    @property
    def leads(self) -> bool:
        """Whether this is the one process that prints, and writes what all have in common."""
        return self.rank == 0

    def inside(self, ids: Tensor) -> tuple[Tensor, Tensor]:
        """Which ids are held here, and a row for each: its own, or 0 where it is held elsewhere; `[B]` and `[B]`."""
        held = (ids >= self.start) & (ids < self.stop)
        return held, torch.where(held, ids - self.start, 0)

    def rows(self, table: Tensor, ids: Tensor) -> Tensor:
        """The rows of ids, whoever holds them, `[B] -> [B, D]`."""
        if self.world == 1:
            return table.index_select(0, ids)
        held, places = self.inside(ids)
        if not len(table):
            return self.sum(table.new_zeros(len(ids), table.shape[1]))
        return self.sum(table.index_select(0, places).mul_(held[:, None]))

    def log_total(self, part: Tensor) -> Tensor:
        """`log Σ exp` over one value of each rank, `[B] -> [B]`."""
        return part if self.world == 1 else self.gathered(part).logsumexp(0)

    def sum(self, part: Tensor) -> Tensor:
        """The sum over ranks; `part` is overwritten with it."""
        if self.world > 1:
            with _answered(self):
                dist.all_reduce(part)
        return part

    def gathered(self, part: Tensor) -> Tensor:
        """The tensors of all ranks, `[·] -> [world, ·]`."""
        if self.world == 1:
            return part[None]
        parts = [torch.empty_like(part) for _ in range(self.world)]
        with _answered(self):
            dist.all_gather(parts, part.contiguous())
        return torch.stack(parts)

    def top(self, values: Tensor, k: int) -> tuple[Tensor, Tensor]:
        """The k largest values of all ranks' columns with their ids, `[B, n] -> [B, k]`: falling, ties by id.

        Where there are fewer than k columns in all, all of them.
        """
        k = min(k, self.total)
        kept, ids = best(values, k)
        ids = ids + self.start
        if self.world == 1:
            return kept, ids
        missing = k - kept.shape[1]  # an id behind all others marks a place that nobody takes
        kept = torch.nn.functional.pad(kept, (0, missing), value=-torch.inf)
        ids = torch.nn.functional.pad(ids, (0, missing), value=self.total)
        every = self.gathered(kept).transpose(0, 1).flatten(1)  # [B, W k], ids rising among equal values
        numbers = self.gathered(ids).transpose(0, 1).flatten(1)
        # An absent value and -inf are equal, and the absent one may stand before a real one of the next rank.
        numbers, by_id = torch.sort(numbers, dim=-1, stable=True)
        kept, places = best(every.gather(-1, by_id), k)
        return kept, numbers.gather(-1, places)

    def any(self, *wishes: bool) -> tuple[bool, ...]:
        """For each wish, whether any rank has it."""
        asked = self.gathered(torch.tensor(wishes, dtype=torch.int32))
        return tuple(bool(wish) for wish in asked.amax(0).tolist())

    def broadcast(self, value: _T) -> _T:
        """The value of rank 0, any that can be pickled, on every rank."""
        if self.world == 1:
            return value
        values: list[_T] = [value]
        with _answered(self):
            dist.broadcast_object_list(values, src=0, device=torch.device("cpu"))
        return values[0]

    def wait(self) -> None:
        """Go on when every rank is here."""
        self.any(False)


def share(total: int, rank: int, world: int) -> tuple[int, int]:
    """The first row of a rank, and the one behind its last.

    >>> [share(7, rank, 3) for rank in range(3)]
    [(0, 2), (2, 4), (4, 7)]
    """
    return total * rank // world, total * (rank + 1) // world


def meet(place: str | None, rank: int, world: int, timeout: float = TIMEOUT, device: str = "cpu") -> None:
    """Meet the other ranks at a place, the address of a file they share; None is where `torchrun` says."""
    on_gpu = torch.device(device).type == "cuda"
    backend = "cpu:gloo,cuda:nccl" if on_gpu else "gloo"
    try:
        dist.init_process_group(
            backend, init_method=place, rank=rank, world_size=world, timeout=timedelta(seconds=timeout)
        )
    except (RuntimeError, ValueError) as error:
        raise LimitError(f"rank {rank} of {world} did not meet the others within {timeout:.0f} s ({error})") from None


def leave() -> None:
    """Take leave of the other ranks; without it some backends complain at the end of a process."""
    if _met():
        dist.destroy_process_group()


def world_size() -> int:
    """How many processes `torchrun` started; 1 without it."""
    return dist.get_world_size() if _met() else _number("WORLD_SIZE", 1)


def process_number() -> int:
    """Which of them this is; 0 without `torchrun`."""
    return dist.get_rank() if _met() else _number("RANK", 0)


def local_processes() -> int:
    """How many of them are on this machine."""
    return _number("LOCAL_WORLD_SIZE", 1)


def local_device(device: str) -> str:
    """The device of this process: of several on one machine, each takes the GPU of its own number."""
    several = world_size() > 1 and device in ("auto", "cuda") and torch.cuda.is_available()
    return f"cuda:{_number('LOCAL_RANK', 0)}" if several else device


def _met() -> bool:
    return dist.is_available() and dist.is_initialized()  # some builds of torch come without


def _number(variable: str, default: int) -> int:
    given = os.environ.get(variable, str(default))
    if not given.isdecimal():
        raise SettingsError(f"the variable {variable} is '{given}'; torchrun sets it to a number")
    return int(given)


@contextmanager
def _answered(shards: Shards) -> Iterator[None]:
    try:
        yield
    except RuntimeError as error:
        shards.lost = True
        # Of what gloo says, without the place in its source and advice on where to look.
        reason = re.sub(r"^\[[^]]*\] ", "", str(error).strip().split("\n")[-1]).split(". ")[0][:200]
        raise LimitError(
            f"rank {shards.rank} of {shards.world} lost another, which ended or did not answer in time ({reason}); "
            "start all of them again"
        ) from None
