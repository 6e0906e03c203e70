"""Atomic writes of files and sets of files, locks, and mapped arrays."""

from __future__ import annotations

import errno
import json
import math
import os
import shutil
import time
import tomllib
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, ExitStack, contextmanager, nullcontext, suppress
from hashlib import sha256
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tacit.errors import LimitError, RunError, TacitError

if TYPE_CHECKING:
    from numpy.typing import NDArray

TEMPORARY = ".tacit-"  # prefix of the names of files that are being written
# whether mapped files can be replaced, which Windows forbids
MAPS = os.name != "nt"
# in a folder whose files are exchanged: the draft, the decided change, and the lock
DRAFT = TEMPORARY + "draft"
CHANGE = TEMPORARY + "change"
LOCK = TEMPORARY + "lock"
_GONE = "gone.txt"  # of a change: the names of the files to delete
# limits of TOML: characters, and dots of a key
_LONGEST = 1 << 20
_MOST_DOTS = 64
_BLOCK = 1 << 16
_BLOCKS = 256
_ALIGNED = 64  # bytes of a line of memory


@contextmanager
def written(path: Path, kind: type[TacitError] = RunError) -> Iterator[None]:
    """Turn an `OSError` while `path` is written into an error of a `kind` or a `LimitError`."""
    try:
        yield
    except OSError as error:
        if error.errno in (errno.ENOSPC, errno.EDQUOT, errno.EFBIG):
            raise LimitError(
                f"the disk is full: {path} was not written and what was there is whole; make "
                "room, then go on"
            ) from None
        raise kind(f"{path} cannot be written ({error.strerror or error})") from None


@contextmanager
def replacing(path: Path, kind: type[TacitError] = RunError) -> Iterator[Path]:
    """Yield a temporary file that replaces `path` atomically once it is written.

    Readers see the old file or the new one. A device is written directly. Failures are errors of a
    `kind`.
    """
    with written(path, kind):
        if is_device(path):
            yield path
            return
        temporary = path.with_name(f"{TEMPORARY}{os.urandom(4).hex()}-{path.name}")
        try:
            temporary.touch()
            mode = temporary.stat().st_mode
            with _locked_while_written(temporary):
                yield temporary
            with _locked_while_written(temporary):  # a writer may have replaced the file by another
                temporary.chmod(mode)  # which may be private
                _sync(temporary, os.O_RDWR)  # Windows syncs no file that is open for reading alone
                temporary.replace(path)
            _sync_folder(path.parent)
        finally:
            remove(temporary)


@contextmanager
def _locked_while_written(path: Path) -> Iterator[None]:
    """Lock a file while it is written; one that a killed writer left behind has no lock."""
    with ExitStack() as stack:
        if MAPS:  # Windows deletes no file that is open
            with suppress(OSError):
                stack.enter_context(locked(path, shared=True))
        yield


def remove(path: Path) -> None:
    """Delete a file, if it is there."""
    with written(path):
        try:
            path.unlink(missing_ok=True)
        except OSError:
            # a read-only file system also refuses to delete a missing file
            if path.exists():
                raise


def is_device(path: Path) -> bool:
    """Whether a path is a device or a pipe, such as `/dev/null`, and cannot be replaced."""
    parent = path.parent.resolve()
    if not path.exists() or parent == Path("/dev") or parent.parts[1:2] == ("proc",):
        return path.exists()
    if path.is_symlink():  # to `/dev/stdout`, which may be a file
        return is_device(parent / path.readlink())
    return not (path.is_file() or path.is_dir())


@contextmanager
def exchanging(
    folder: Path,
    exchanged: Callable[[str], bool] = lambda name: False,
    held: AbstractContextManager[None] | None = None,
) -> Iterator[Path]:
    """Yield a folder whose files replace those in `folder` together, even in a crash.

    Renaming that folder decides. If what follows is cut short, `finish_exchange` completes it
    before anyone reads. Files that are `exchanged` by their names are deleted if nothing replaces
    them; if nothing was written, nothing changes. A second writer waits for the first. A context is
    `held` from then on until all files are in place.
    """
    draft = folder / DRAFT
    with written(folder), locked(folder / LOCK), held or nullcontext():
        finish_exchange(folder)
        shutil.rmtree(draft, ignore_errors=True)
        draft.mkdir()
        try:
            yield draft
            # locks are not exchanged, since another process may hold or await the folder's
            for lock in draft.glob(f"{LOCK}*"):
                lock.unlink()
            new = {file.name for file in draft.iterdir()}
            if not new:
                return
            present = {
                file.name for file in folder.iterdir() if not file.name.startswith(TEMPORARY)
            }
            gone = filter(exchanged, sorted(present - new))
            (draft / _GONE).write_text("\n".join(gone), encoding="utf-8")
            for file in draft.iterdir():
                _sync(file, os.O_RDWR)
            _sync_folder(draft)
            with locked(folder):  # nobody reads meanwhile
                draft.rename(folder / CHANGE)
                _finish(folder)
        finally:
            shutil.rmtree(draft, ignore_errors=True)


def finish_exchange(folder: Path) -> None:
    """Finish a decided exchange of files that was interrupted."""
    if (folder / CHANGE).is_dir():
        try:
            with locked(folder):
                _finish(folder)
        except OSError as error:
            reason = error.strerror or error
            raise RunError(
                f"a change of '{folder}' was cut short and cannot be finished here ({reason})"
            ) from None


@contextmanager
def reading(folder: Path) -> Iterator[None]:
    """Keep the files of a folder, if it exists, from being exchanged while they are read."""
    finish_exchange(folder)
    with locked(folder, shared=True) if folder.is_dir() else nullcontext():
        yield


@contextmanager
def locked(path: Path, shared: bool = False, wait: bool = True) -> Iterator[None]:
    """Hold a lock on a folder or file, which the system releases when the process dies.

    Without `wait`, a held lock is a `BlockingIOError`. Windows locks only files, and shares no
    lock.
    """
    if path.is_dir() and not MAPS:
        yield
        return
    handle = os.open(path, os.O_RDONLY if path.is_dir() else os.O_RDWR | os.O_CREAT, 0o666)
    try:
        # some file systems cannot lock folders; there, stamps reveal mixed files
        with suppress(OSError) if path.is_dir() else nullcontext():
            if MAPS:
                import fcntl

                kind = fcntl.LOCK_SH if shared else fcntl.LOCK_EX
                fcntl.flock(handle, kind if wait else kind | fcntl.LOCK_NB)
            else:
                _lock_on_windows(handle, wait)
        yield
    finally:
        os.close(handle)


def _lock_on_windows(handle: int, wait: bool) -> None:
    """Lock a file on Windows; the system's own wait ends after ten seconds."""
    import msvcrt

    while True:
        try:
            # mypy knows this module on Windows alone
            msvcrt.locking(handle, msvcrt.LK_NBLCK, 1)  # type: ignore[attr-defined]
            return
        except OSError:
            if not wait:
                raise BlockingIOError(errno.EAGAIN, "another process holds the lock") from None
        time.sleep(0.05)


def _finish(folder: Path) -> None:
    """Move the files of a decided change into place; this can be repeated."""
    change = folder / CHANGE
    if not change.is_dir():  # another process was faster
        return
    with suppress(FileNotFoundError):  # all but the folder itself was done
        for name in (change / _GONE).read_text(encoding="utf-8").splitlines():
            (folder / name).unlink(missing_ok=True)
    for file in [file for file in change.iterdir() if file.name != _GONE]:
        file.replace(folder / file.name)
    _sync_folder(folder)
    (change / _GONE).unlink(missing_ok=True)
    change.rmdir()


def write_text(path: Path, text: str) -> None:
    """Write a text as UTF-8, whole or not at all."""
    data = text.encode("utf-8")
    with replacing(path) as target:
        target.write_bytes(data)


def write_array(path: Path, array: NDArray[Any]) -> None:
    """Write an array as a `.npy` file, whole or not at all."""
    import numpy as np

    # given a name, numpy would add an ending
    with replacing(path) as target, target.open("wb") as file:
        np.save(file, array, allow_pickle=False)


def mapped_array(path: Path) -> NDArray[Any]:
    """Map the array of a `.npy` file, copy-on-write.

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
    """Parse a JSON text; nesting too deep is a `ValueError`, as other mistakes are.

    >>> from_json('{"a": [1]}')
    {'a': [1]}
    """
    try:
        return json.loads(text)
    except RecursionError:
        raise ValueError("it nests too deep") from None


def to_toml(tables: Mapping[str, Mapping[str, Any]]) -> str:
    """Write tables of plain values as TOML, without values of None.

    >>> print(to_toml({"train": {"rank": 100, "model": "complex", "memory": None}}), end="")
    [train]
    rank = 100
    model = "complex"
    """
    import tomli_w  # local, since reading a run does not need it

    return tomli_w.dumps(
        {
            table: {name: value for name, value in values.items() if value is not None}
            for table, values in tables.items()
        }
    )


def from_toml(text: str) -> dict[str, dict[str, Any]]:
    """Parse tables of TOML; content that would be slow or unprintable is a `ValueError`."""
    if len(text) > _LONGEST:
        raise ValueError(f"it is longer than {_LONGEST >> 20} MB")
    if any(
        key.count(".") > _MOST_DOTS
        for line in text.split("\n")
        for key in line.split("=")[:-1] or [line]
    ):
        raise ValueError(f"a key has more than {_MOST_DOTS} dots")
    settings = tomllib.loads(text)
    for name, table in settings.items():
        if not isinstance(table, dict):
            raise ValueError(f"'{name[:40]}' is no table")
    pending: list[Any] = list(settings.values())
    while pending:
        value = pending.pop()
        if isinstance(value, int) and not -(2**63) <= value < 2**63:
            raise ValueError("it holds a number of more than 64 bits")
        if isinstance(value, dict):
            pending += value.values()
        elif isinstance(value, list):
            pending += value
    return settings


def digest(path: Path, size: int | None = None) -> str:
    """A short hash of a file, or of a sample of blocks if it is larger than 16 MB.

    The sample is the size and 256 blocks of 64 kB spread over the file: a file that was cut,
    replaced or rewritten differs, but a few bytes changed in place within a large one need not.
    With a `size`, only so many bytes at the start count.
    """
    size = path.stat().st_size if size is None else size
    hashed = sha256()
    hashed.update(str(size).encode())
    with path.open("rb") as file:
        for number in range(_BLOCKS):
            if size > _BLOCK * _BLOCKS:
                file.seek((size - _BLOCK) * number // (_BLOCKS - 1))
            hashed.update(file.read(min(_BLOCK, size - file.tell())))
    return hashed.hexdigest()[:32]


def state(path: Path) -> tuple[int, int, int] | None:
    """The size, time and inode of a file, which identify its version; None if it is missing."""
    try:
        stat = path.stat()
    except OSError:
        return None
    return stat.st_size, stat.st_mtime_ns, stat.st_ino


def exists(path: str | Path) -> bool:
    """Whether there is a file or folder; an impossible path is none."""
    try:
        return Path(path).exists()
    except OSError:
        return False


def _sync_folder(folder: Path) -> None:
    # Windows opens no folders; it keeps a renaming without being asked
    with suppress(PermissionError):
        _sync(folder, os.O_RDONLY)


def _sync(path: Path, flags: int) -> None:
    handle = os.open(path, flags)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)


def padding(shapes: Mapping[str, Sequence[int]], metadata: Mapping[str, str]) -> str:
    """The padding of a safetensors header that aligns the tensors for mapping.

    >>> len(padding({"a": (2, 3)}, {"model": "complex"}))
    15
    """
    header: dict[str, Any] = {"__metadata__": {**metadata, "padding": ""}}
    start = 0
    for name, shape in sorted(shapes.items()):
        end = start + 4 * math.prod(shape)
        header[name] = {"dtype": "F32", "shape": list(shape), "data_offsets": [start, end]}
        start = end
    written = json.dumps(header, ensure_ascii=False, separators=(",", ":")).encode()
    return " " * (-(8 + len(written)) % _ALIGNED)  # its length comes first
