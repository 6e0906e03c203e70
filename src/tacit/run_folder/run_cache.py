"""The runs in the user's cache: made by the first process that needs one, dropped when unused."""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path

from tacit import disk
from tacit.errors import RunError, TacitError
from tacit.run_folder.files import SETTINGS
from tacit.run_folder.folder import RunFolder
from tacit.run_folder.saved import Manifest, OpenFile, unpack

SAVED_PREFIX = "saved-"  # of the folders of saved runs
DOWNLOAD_PREFIX = f"{SAVED_PREFIX}file-"
MOST_RUNS = 20
MOST_BYTES = 2 * 10**9
MOST_SAVED_BYTES = 20 * 10**9
_WRITING = f"{disk.LOCK}-mining"


def cache_folder() -> Path:
    """The cache folder: `TACIT_CACHE`, or `tacit` in the user's cache folder."""
    if "TACIT_CACHE" in os.environ:
        return Path(os.environ["TACIT_CACHE"])
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "tacit"


def unpacked_run(manifest: Manifest, open_file: OpenFile, source: str) -> RunFolder:
    """The run of a saved one in the cache, unpacked by the first process that opens it.

    It is found again by its checksum, whatever the name it was saved by.
    """
    path = cache_folder() / f"{SAVED_PREFIX}{manifest.checksum}"
    if not (path / SETTINGS).is_file():
        try:
            with sole_writer(path):
                unpack(manifest, open_file, path, source)
        except RunError as error:
            if os.access(path, os.W_OK):
                raise
            raise RunError(f"{error}; set TACIT_CACHE to a folder that can be written") from None
        shrink_cache(SAVED_PREFIX, size=MOST_SAVED_BYTES)
    with suppress(OSError):  # so that it counts as used
        os.utime(path)
    return RunFolder.open(path)


def is_unpacked(folder: RunFolder) -> bool:
    """Whether a run is one that was saved, unpacked in the cache."""
    in_cache = folder.path.parent.resolve() == cache_folder().resolve()
    return in_cache and folder.path.name.startswith(SAVED_PREFIX)


def check_not_saved(folder: RunFolder) -> None:
    """Raise a `RunError` for a saved run, which is only read."""
    if is_unpacked(folder):
        raise RunError(
            "a saved run is only read; save it as a folder, and change that",
            command="save FILE RUN",
        )


@contextmanager
def sole_writer(path: Path) -> Iterator[None]:
    """Keep other processes from making the same run, or deleting it meanwhile."""
    with disk.written(path):
        path.mkdir(parents=True, exist_ok=True)
        lock = disk.locked(path / _WRITING)
        lock.__enter__()
    try:
        yield
    finally:
        lock.__exit__(None, None, None)


def shrink_cache(prefix: str, runs: int = MOST_RUNS, size: int = MOST_BYTES) -> None:
    """Delete the runs of a kind that were used longest ago, beyond a number and a size.

    The last one used stays, and so do those in use.
    """
    total = 0
    newest = sorted(cache_folder().glob(f"{prefix}*"), key=_last_use, reverse=True)
    for place, path in enumerate(newest):
        total += sum(state[0] for file in path.glob("*") if (state := disk.state(file)))
        if place and (place >= runs or total > size):
            with suppress(OSError, TacitError), ExitStack() as stack:
                stack.enter_context(disk.locked(path / _WRITING, wait=False))
                stack.enter_context(RunFolder(path).in_use(changes=True))
                shutil.rmtree(path, ignore_errors=True)


def _last_use(path: Path) -> float:
    try:
        return path.stat().st_mtime
    except OSError:  # another process deleted it
        return 0.0
