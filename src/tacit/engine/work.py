"""How much work questions are, and the threads that they get for it, in a forked process too."""

from __future__ import annotations

import os
from collections.abc import Iterable
from contextlib import AbstractContextManager
from functools import cache

import torch

from tacit.distributed.threads import nobody_at_work, threads_for
from tacit.query.plans.plan import Condition, Plan, Project

_FEW = 2**15  # scores that one thread has nearly as soon as two
_TRIED = 64  # candidates of a hop, at least


def threads_to_answer(plans: Iterable[Plan], num_entities: int) -> AbstractContextManager[None]:
    """Compute on as many threads as the answers to queries of some plans are worth, and as cores are free."""
    rows = sum(plan.num_relations * (_TRIED if plan.has(Project, Condition) else 1) for plan in plans)
    return threads_for(rows * num_entities, _FEW)


@cache
def survive_forks() -> None:
    """Let a forked process compute on its one thread: those of its parent are gone, and OpenMP would wait for them."""
    if hasattr(os, "register_at_fork"):
        os.register_at_fork(after_in_child=_alone)


def _alone() -> None:
    nobody_at_work()
    torch.set_num_threads(1)
