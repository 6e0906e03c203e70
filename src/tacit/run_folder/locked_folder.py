"""A folder with the files of a run, and locks for the processes that write them."""

from __future__ import annotations

import shlex
from collections.abc import Iterator
from contextlib import AbstractContextManager, ExitStack, contextmanager, suppress
from pathlib import Path

from tacit import disk
from tacit.errors import RunError, SettingsError
from tacit.run_folder.files import REPAIRS

IN_USE = disk.LOCK + "-in-use"  # held while work depends on the content of a folder
# what reading a damaged file can raise
_DAMAGE = (KeyError, ValueError, TypeError, OverflowError, RuntimeError, SettingsError)


class LockedFolder:
    """The files of a run and their locks, which the system releases when a process dies."""

    def __init__(self, path: str | Path) -> None:
        self.path = Path(path)

    def __repr__(self) -> str:
        return f"{type(self).__name__}({str(self.path)!r})"

    def has(self, name: str) -> bool:
        """Whether the run has a file."""
        return (self.path / name).is_file()

    def read_text(self, name: str) -> str:
        """The text of a file of the run."""
        path = self.path / name
        try:
            return path.read_bytes().decode("utf-8")
        except FileNotFoundError:
            raise RunError(f"run '{self.path}' has no {name}; train the run again") from None
        except (OSError, UnicodeDecodeError) as error:
            raise RunError(f"{path} cannot be read ({error})") from None

    @contextmanager
    def fits(self, name: str, advice: str) -> Iterator[None]:
        """Turn errors from the content of a file into a `RunError` with advice."""
        try:
            yield
        except _DAMAGE as error:
            reason = " ".join(str(error).split())[:200]
            problem = f"{self.path / name} is damaged or does not fit the run ({reason})"
            raise RunError(f"{problem}; {advice}", command=self.repair(name)) from None

    def repair(self, name: str) -> str | None:
        """The command that deletes an optional part of the run."""
        return REPAIRS[name].format(shlex.quote(str(self.path))) if name in REPAIRS else None

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
