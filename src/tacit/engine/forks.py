"""What a process needs to know before it forks."""

from __future__ import annotations

import os
from functools import cache

import torch

from tacit.distributed.threads import nobody_at_work


@cache
def survive_forks() -> None:
    """Let a forked process compute on its one thread: those of its parent are gone, and OpenMP would wait for them."""
    if hasattr(os, "register_at_fork"):
        os.register_at_fork(after_in_child=_alone)


def _alone() -> None:
    nobody_at_work()
    torch.set_num_threads(1)
