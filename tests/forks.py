"""Keeps processes that tests fork from holding the pipes of a worker of pytest-xdist.

The process that started the worker learns that it has died when its pipes are closed: a forked
process that hangs would keep it waiting for ever.
"""

import os
from pathlib import Path

_OPEN = Path("/proc/self/fd")  # of Linux alone


def _pipes() -> list[int]:
    """The open pipes of this process, without its standard streams."""
    if "PYTEST_XDIST_WORKER" not in os.environ or not _OPEN.is_dir():
        return []
    files = {int(entry.name): entry for entry in _OPEN.iterdir() if entry.is_symlink()}
    return [
        number
        for number, entry in files.items()
        if number > 2 and str(entry.readlink()).startswith(("pipe:", "socket:"))
    ]


PIPES = _pipes()  # before any test opens some of its own


def _leave_pipes() -> None:
    """Put nothing in the place of each, since its number may be closed once more."""
    for number in PIPES:
        nothing = os.open(os.devnull, os.O_RDWR)
        os.dup2(nothing, number, inheritable=False)
        os.close(nothing)


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_leave_pipes)
