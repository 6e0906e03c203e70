"""Files that are never half-written, alone or many together, arrays that stay in theirs, and what is said where they
cannot be.
"""

from __future__ import annotations

import errno
import json
import math
import os
import shutil
import tomllib
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, nullcontext, suppress
from hashlib import sha256
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tacit.errors import LimitError, RunError, TacitError

if TYPE_CHECKING:
    from numpy.typing import NDArray

TEMPORARY = ".tacit-"  # how the names of files begin that are being written
# Windows lets nobody replace a file that is mapped, and a run may be trained again while others have it open.
MAPS = os.name != "nt"
# Of a folder whose files are exchanged: what is being written, what is decided, and who may do so.
DRAFT, CHANGE, LOCK = TEMPORARY + "draft", TEMPORARY + "change", TEMPORARY + "lock"
_GONE = "gone.txt"  # of a change: the names of files that nothing takes the place of
_LONGEST, _MOST_DOTS = 1 << 20, 64  # of TOML: characters, and dots of a key
_BLOCK, _BLOCKS = 1 << 16, 256
_ALIGNED = 64  # bytes of a line of memory


@contextmanager
def written(path: Path, kind: type[TacitError] = RunError) -> Iterator[None]:
    """Turn what the system says while `path` is written into an error of a `kind`, or of a disk that is full."""
    try:
        yield
    except OSError as error:
        if error.errno in (errno.ENOSPC, errno.EDQUOT, errno.EFBIG):
            full = f"the disk is full: {path} was not written and what was there is whole; make room, then go on"
            raise LimitError(full) from None
        raise kind(f"{path} cannot be written ({error.strerror or error})") from None


@contextmanager
def replacing(path: Path, kind: type[TacitError] = RunError) -> Iterator[Path]:
    """Where to write a file that takes the place of `path` once it is whole and forced to disk: readers see the old
    file or the new one. A device is written as it is; what goes wrong is an error of a `kind`.
    """
    with written(path, kind):
        if is_device(path):
            yield path
            return
        temporary = path.with_name(f"{TEMPORARY}{os.urandom(4).hex()}-{path.name}")
        try:
            temporary.touch()
            mode = temporary.stat().st_mode
            yield temporary
            temporary.chmod(mode)  # a writer that makes the file anew may have kept it private
            _sync(temporary, os.O_RDWR)  # Windows syncs no file that is open for reading alone
            temporary.replace(path)
            _sync_folder(path.parent)
        finally:
            remove(temporary)


def remove(path: Path) -> None:
    """Delete a file, if it is there."""
    with written(path):
        try:
            path.unlink(missing_ok=True)
        except OSError:
            if path.exists():  # a file system to be read alone refuses to delete what is not there, too
                raise


def is_device(path: Path) -> bool:
    """Whether a path is a device or a pipe, such as `/dev/null` and `/dev/stdout`: no file may take its place."""
    parent = path.parent.resolve()
    if not path.exists() or parent == Path("/dev") or parent.parts[1:2] == ("proc",):
        return path.exists()
    if path.is_symlink():  # to `/dev/stdout`, which may be a file
        return is_device(parent / path.readlink())
    return not (path.is_file() or path.is_dir())


@contextmanager
def exchanging(folder: Path, exchanged: Callable[[str], bool] = lambda name: False) -> Iterator[Path]:
    """A folder to write files to that take the places of those in `folder` together; a crash leaves all old or all new.

    Renaming that folder decides. If what follows is cut short, `finish_exchange` makes up for it before anyone reads.
    Files that are `exchanged` by their names go where nothing takes their place; where nothing was written, nothing
    changes. Who comes second waits for the first.
    """
    draft = folder / DRAFT
    with written(folder), locked(folder / LOCK):
        finish_exchange(folder)
        shutil.rmtree(draft, ignore_errors=True)
        draft.mkdir()
        try:
            yield draft
            kept = {file.name for file in draft.iterdir()}
            if not kept:
                return
            there = {file.name for file in folder.iterdir() if not file.name.startswith(TEMPORARY)}
            gone = filter(exchanged, sorted(there - kept))
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
    """Finish an exchange of files that was decided and cut short."""
    if (folder / CHANGE).is_dir():
        try:
            with locked(folder):
                _finish(folder)
        except OSError as error:
            reason = error.strerror or error
            raise RunError(f"a change of '{folder}' was cut short and cannot be finished here ({reason})") from None


@contextmanager
def reading(folder: Path) -> Iterator[None]:
    """See the files of a folder, where there is one, as they are between two exchanges."""
    finish_exchange(folder)
    with locked(folder, shared=True) if folder.is_dir() else nullcontext():
        yield


@contextmanager
def locked(path: Path, shared: bool = False) -> Iterator[None]:
    """Hold a lock on a folder, or on a file that is made for it, once nobody else does; the system lets go of it where
    a process dies. Windows locks files alone.
    """
    if path.is_dir() and not MAPS:
        yield
        return
    handle = os.open(path, os.O_RDONLY if path.is_dir() else os.O_RDWR | os.O_CREAT, 0o666)
    try:
        # Some file systems lock no folders; what a reader finds mixed there is refused by its stamps.
        with suppress(OSError) if path.is_dir() else nullcontext():
            if MAPS:
                import fcntl

                fcntl.flock(handle, fcntl.LOCK_SH if shared else fcntl.LOCK_EX)
            else:
                import msvcrt

                msvcrt.locking(handle, msvcrt.LK_LOCK, 1)  # type: ignore[attr-defined]  # elsewhere it has nothing
        yield
    finally:
        os.close(handle)


def _finish(folder: Path) -> None:
    """Put the files of a decided change into their places; what was done before is not done again."""
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

    with replacing(path) as target, target.open("wb") as file:  # by a name numpy would add its own ending
        np.save(file, array, allow_pickle=False)


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


def to_toml(tables: Mapping[str, Mapping[str, Any]]) -> str:
    """Tables of plain values as TOML; a value of None is left out.

    >>> print(to_toml({"train": {"rank": 100, "model": "complex", "memory": None}}), end="")
    [train]
    rank = 100
    model = "complex"
    """
    import tomli_w  # only here: whoever reads a run need not wait for it

    return tomli_w.dumps(
        {table: {k: v for k, v in values.items() if v is not None} for table, values in tables.items()}
    )


def from_toml(text: str) -> dict[str, dict[str, Any]]:
    """Tables of TOML; what no settings have, and takes its reader minutes or cannot be printed, is a `ValueError`."""
    if len(text) > _LONGEST:
        raise ValueError(f"it is longer than {_LONGEST >> 20} MB")
    if any(key.count(".") > _MOST_DOTS for line in text.split("\n") for key in line.split("=")[:-1] or [line]):
        raise ValueError(f"a key has more than {_MOST_DOTS} dots")
    settings = tomllib.loads(text)
    for name, table in settings.items():
        if not isinstance(table, dict):
            raise ValueError(f"'{name[:40]}' is no table")
    left: list[Any] = list(settings.values())
    while left:
        value = left.pop()
        if isinstance(value, int) and not -(2**63) <= value < 2**63:
            raise ValueError("it holds a number of more than 64 bits")
        left += value.values() if isinstance(value, dict) else value if isinstance(value, list) else ()
    return settings


def digest(path: Path, size: int | None = None) -> str:
    """A short hash of a file: of all of it up to 16 MB, else of its size and of 256 blocks of 64 kB spread over it.

    A file that was cut, exchanged or written anew differs; a few bytes changed in place within a large one need not.
    With a `size` it is that of as many bytes at the start.
    """
    size, hashed = path.stat().st_size if size is None else size, sha256()
    hashed.update(str(size).encode())
    with path.open("rb") as file:
        for number in range(_BLOCKS):
            if size > _BLOCK * _BLOCKS:
                file.seek((size - _BLOCK) * number // (_BLOCKS - 1))
            hashed.update(file.read(min(_BLOCK, size - file.tell())))
    return hashed.hexdigest()[:32]


def state(path: Path) -> tuple[int, int, int] | None:
    """What tells a file from another in its place: its size, time and number; None where there is none."""
    try:
        stat = path.stat()
    except OSError:
        return None
    return stat.st_size, stat.st_mtime_ns, stat.st_ino


def exists(path: str | Path) -> bool:
    """Whether there is a file or folder; a name that no path can have is none."""
    try:
        return Path(path).exists()
    except OSError:
        return False


def _sync_folder(folder: Path) -> None:
    with suppress(PermissionError):  # Windows opens no folders; it keeps a renaming without being asked
        _sync(folder, os.O_RDONLY)


def _sync(path: Path, flags: int) -> None:
    handle = os.open(path, flags)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)


def padding(shapes: Mapping[str, Sequence[int]], metadata: Mapping[str, str]) -> str:
    """What fills the header of a safetensors file of floats, so that what is mapped of it can be read at once.

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
