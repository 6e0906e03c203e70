"""A folder with locks for the processes that write to it."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import AbstractContextManager, ExitStack, contextmanager, suppress
from pathlib import Path

from tacit import disk
from tacit.errors import RunError

IN_USE = disk.LOCK + "-in-use"  # held while work depends on the content of a folder


class LockedFolder:
    """The files of a run and their locks, which the system releases when a process dies."""

    def __init__(self, path: str | Path) -> None:
        self.path = Path(path)

    def has(self, name: str) -> bool:
        """Whether the run has a file."""
        return (self.path / name).is_file()

    def remove(self, name: str) -> None:
        """Delete a file of the run, if it is there."""
        disk.remove(self.path / name)

    def tidy(self) -> None:
        """Delete the temporary files of killed writers, and leave those that others write."""
        for path in self.path.glob(disk.TEMPORARY + "*"):
            if path.is_file() and not path.name.startswith(disk.LOCK):
                with suppress(OSError):  # who writes it holds its lock
                    with disk.locked(path, wait=False):
                        pass
                    disk.remove(path)

    @contextmanager
    def locked(self, shared: bool = False) -> Iterator[None]:
        """Hold the lock for changes of the run, so that reads and writes are consistent."""
        with disk.written(self.path), disk.locked(self.path / disk.LOCK, shared=shared):
            yield

    def in_use(self, changes: bool = False) -> AbstractContextManager[None]:
        """Keep other processes from changing facts or weights while they are used.

        Work that `changes` them needs exclusive access. A `RunError` says that another process
        holds the lock.
        """
        return self._locked_at_once(IN_USE, shared=not changes)

    def training(self, part: str) -> AbstractContextManager[None]:
        """Keep other processes from training or dropping the same part, such as `adapt`."""
        return self._locked_at_once(f"{disk.LOCK}-{part}", shared=False)

    @contextmanager
    def _locked_at_once(self, name: str, shared: bool) -> Iterator[None]:
        with ExitStack() as stack:
            with disk.written(self.path):
                try:
                    stack.enter_context(disk.locked(self.path / name, shared=shared, wait=False))
                except BlockingIOError:
                    raise RunError(
                        f"run '{self.path}' is in use: at this moment it is being trained, "
                        "adapted, indexed or changed; wait until that is over, or stop it"
                    ) from None
            yield
