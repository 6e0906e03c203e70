"""Files that are never half-written, and what is said where they cannot be."""

from __future__ import annotations

import errno
import os
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

from tacit.errors import LimitError, RunError

TEMPORARY = ".tacit-"  # how the names of files begin that are being written


def atomic_write(path: Path, write: Callable[[str], object]) -> None:
    """Write a file beside its place, force it to disk and rename it: readers see the old file or the whole new one."""
    temporary = path.with_name(f"{TEMPORARY}{os.getpid()}-{path.name}")
    try:
        temporary.touch()
        mode = temporary.stat().st_mode
        write(str(temporary))
        temporary.chmod(mode)  # a writer that makes the file anew may have kept it private
        _sync(temporary, os.O_RDWR)  # Windows syncs no file that is open for reading alone
        temporary.replace(path)
        with suppress(PermissionError):  # Windows opens no folders; it keeps a renaming without being asked
            _sync(path.parent, os.O_RDONLY)
    except OSError as error:
        raise write_error(path, error) from None
    finally:
        temporary.unlink(missing_ok=True)


def exists(path: str | Path) -> bool:
    """Whether there is a file or folder; a name that no path can have is none."""
    try:
        return Path(path).exists()
    except OSError:
        return False


def write_error(path: Path, error: OSError) -> RunError | LimitError:
    """One of our errors for what the system says while `path` is written."""
    if error.errno in (errno.ENOSPC, errno.EDQUOT):
        return LimitError(
            f"the disk is full: {path} was not written and what was there is whole; make room, then resume"
        )
    return RunError(f"{path} cannot be written ({error.strerror or error})")


def _sync(path: Path, flags: int) -> None:
    handle = os.open(path, flags)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)
