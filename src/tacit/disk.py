"""Files that are never half-written, arrays that stay in theirs, and what is said where they cannot be."""

from __future__ import annotations

import errno
import json
import os
from collections.abc import Callable
from contextlib import suppress
from hashlib import sha256
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tacit.errors import LimitError, RunError

if TYPE_CHECKING:
    from numpy.typing import NDArray

TEMPORARY = ".tacit-"  # how the names of files begin that are being written
# Windows lets nobody replace a file that is mapped, and a run may be trained again while others have it open.
MAPS = os.name != "nt"
_BLOCK, _BLOCKS = 1 << 16, 256


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


def write_array(path: Path, array: NDArray[Any]) -> None:
    """Write an array as a `.npy` file, whole or not at all."""
    import numpy as np

    def write(target: str) -> None:
        with Path(target).open("wb") as file:  # by a name numpy would add its own ending
            np.save(file, array, allow_pickle=False)

    atomic_write(path, write)


def mapped_array(path: Path) -> NDArray[Any]:
    """The array of a `.npy` file, read as it is used and shared by processes; who writes into it has an own copy.

    A file that holds something else, or less than it says, is a `ValueError`.
    """
    import numpy as np
    from numpy.lib import format as npy  # np.load would open zips and pickles, too

    try:
        if MAPS:
            return np.asarray(npy.open_memmap(path, mode="c"))
        with path.open("rb") as file:
            return np.asarray(npy.read_array(file, allow_pickle=False))
    except OSError:
        raise
    except Exception as error:  # a damaged header can raise nearly anything
        raise ValueError(f"{path.name} is no array of numbers ({error!r:.100})") from None


def from_json(text: str | bytes) -> Any:
    """The value of a JSON text; nesting too deep is a `ValueError` as any other mistake is.

    >>> from_json('{"a": [1]}')
    {'a': [1]}
    """
    try:
        return json.loads(text)
    except RecursionError:
        raise ValueError("it nests too deep") from None


def digest(path: Path, size: int | None = None) -> str:
    """A short hash of a file: of all of it up to 16 MB, else of its size and of 256 blocks of 64 kB spread over it.

    A file that was cut, exchanged or written anew differs; a few bytes changed in place within a large one need not.
    With a `size` it is that of as many bytes at the start.
    """
    size, found = path.stat().st_size if size is None else size, sha256()
    found.update(str(size).encode())
    with path.open("rb") as file:
        for number in range(_BLOCKS):
            if size > _BLOCK * _BLOCKS:
                file.seek((size - _BLOCK) * number // (_BLOCKS - 1))
            found.update(file.read(min(_BLOCK, size - file.tell())))
    return found.hexdigest()[:32]


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
