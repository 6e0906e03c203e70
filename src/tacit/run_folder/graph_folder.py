"""A folder with a graph and the settings of what is trained on it, replaced whole."""

from __future__ import annotations

import shlex
import shutil
from collections.abc import Iterator
from contextlib import AbstractContextManager, ExitStack, contextmanager, suppress
from functools import cached_property
from pathlib import Path
from typing import Any, Self

from tacit import disk
from tacit.errors import RunError, SettingsError
from tacit.graph.graph import SPLITS, Graph
from tacit.graph.stored import Fingerprint, fingerprint, read_graph, write_graph
from tacit.run_folder.files import (
    COMMAND_FILES,
    FORMAT,
    REPAIRS,
    RESULTS,
    SETTINGS,
    TRACE,
    TRAINED_TABLES,
    SettingsTable,
    is_half_written,
    is_run_file,
)

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
        """The text of a file of the run; other bytes than UTF-8 are a `ValueError`."""
        path = self.path / name
        try:
            return path.read_bytes().decode("utf-8")
        except FileNotFoundError:
            raise RunError(f"run '{self.path}' has no {name}; train the run again") from None
        except OSError as error:
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
        """Delete the temporary files of killed writers, but not those of running ones."""
        for path in self.path.glob(disk.TEMPORARY + "*"):
            if path.is_file() and not path.name.startswith(disk.LOCK):
                with suppress(OSError):  # who writes it holds its lock
                    with disk.locked(path, wait=False):
                        pass
                    disk.remove(path)
        with self.locked():  # shared by those who write tensors
            for path in self.path.iterdir():
                if is_half_written(path.name):
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


class GraphFolder(LockedFolder):
    """The graph of a run, its tables of settings, and the fingerprint that both are known by.

    `settings.toml` is written last when a run is created: a folder without it is no run.
    """

    # the state of the settings file when it was read, and its tables
    _read_settings: tuple[object, dict[str, dict[str, Any]]] = "", {}

    @classmethod
    def create(
        cls,
        path: str | Path,
        graph: Graph,
        settings: SettingsTable,
        force: bool = False,
        *,
        table: str = "train",
        resumable: bool = True,
    ) -> Self:
        """Create a run folder for a graph, with `settings` as one `table`.

        `force` replaces an existing run. `resumable` says that the caller could resume an existing
        run, and only changes the advice of the error.
        """
        run = cls(path)
        run.make_empty(force, resumable)
        written = write_graph(graph, run.path)
        described = {"format": FORMAT, **written.pop("graph"), **fingerprint(graph)._asdict()}
        tables = {"graph": described, table: settings, **written}
        disk.write_text(run.path / SETTINGS, disk.to_toml(tables))
        _ = run.fingerprint
        return run

    def check_free(self, force: bool = False, resumable: bool = True) -> None:
        """Raise a `RunError` unless `create` would put a run into the folder."""
        path = self.path
        if str(path).encode("utf-8", "replace").decode() != str(path):
            raise RunError(
                f"'{path}' is not UTF-8, as the name of a run folder must be; choose another"
            )
        if path.is_file():
            raise RunError(f"'{path}' is a file; a run needs a folder; choose another name")
        if not path.is_dir():
            return
        disk.finish_exchange(path)
        with disk.written(path):
            names = {entry.name for entry in path.iterdir()}
        if SETTINGS in names and not names.isdisjoint(COMMAND_FILES) and not force:
            go_on = "go on with it by `resume=True`, " if resumable else ""
            raise RunError(
                f"'{path}' holds a run; {go_on}replace it by `force=True`, or choose another folder"
            )
        if SETTINGS not in names and not all(map(is_run_file, names)):
            raise RunError(
                f"folder '{path}' is not empty and holds no run; choose an empty or a new one"
            )

    def make_empty(self, force: bool, resumable: bool) -> None:
        """Create a folder without a run; only files of runs are deleted."""
        path = self.path
        self.check_free(force, resumable)
        with disk.written(path):
            path.mkdir(parents=True, exist_ok=True)
        shutil.rmtree(path / disk.DRAFT, ignore_errors=True)
        names = {entry.name for entry in path.iterdir()}
        run_files = set(filter(is_run_file, names))
        with ExitStack() as stack:
            if SETTINGS in names:
                for part in TRAINED_TABLES:
                    stack.enter_context(self.training(part))
                stack.enter_context(self.in_use(changes=True))
            for name in sorted(run_files, key=lambda name: name != SETTINGS):  # the mark goes first
                if not name.startswith(disk.LOCK):  # others may hold a lock, or wait for it
                    self.remove(name)

    @classmethod
    def open(cls, path: str | Path) -> Self:
        """Open the run in a folder, and check that its settings can be read."""
        run = cls(path)
        problem = f"there is no run '{path!s:.200}'"
        if disk.exists(path):
            disk.finish_exchange(run.path)
            if run.has(SETTINGS):
                run._stored_fingerprint()
                return run
            problem = f"'{path}' is no run: it has no {SETTINGS}"
        raise RunError(f"{problem}; train one on a graph first", command="train")

    @contextmanager
    def exchange(self) -> Iterator[tuple[Self, Path]]:
        """Yield the run and an empty folder whose files replace those of the run atomically.

        All files of the run except the trace are exchanged; foreign files stay. One change waits
        for another, and a `RunError` says that the run is in use. Nobody can use it before all
        files are in place.
        """
        in_use = self.in_use(changes=True)
        with disk.exchanging(self.path, _is_exchanged, in_use) as draft:
            yield self.open(self.path), draft

    @contextmanager
    def rewrite(self, *obsolete: str) -> Iterator[Self]:
        """Yield a draft folder whose files replace those of the run atomically.

        It starts with the settings and results of the run. Files that are then `obsolete` are
        deleted with the others.
        """
        with disk.exchanging(self.path, obsolete.__contains__) as draft:
            self.check_unchanged()
            for name in (SETTINGS, RESULTS):
                if self.has(name):
                    shutil.copyfile(self.path / name, draft / name)
            yield type(self)(draft)

    @property
    def settings(self) -> dict[str, dict[str, Any]]:
        """The tables of `settings.toml`: `graph`, `train`, `encode` and those of other commands.

        The file is read again only after it was replaced.
        """
        if (state := disk.state(self.path / SETTINGS)) != self._read_settings[0]:
            with self.fits(SETTINGS, "train the run again"):
                settings = disk.from_toml(self.read_text(SETTINGS))
                if "graph" not in settings or settings.keys().isdisjoint(TRAINED_TABLES):
                    raise ValueError("it lacks the tables [graph] and [train] or [encode]")
            self._read_settings = state, settings
        return {name: dict(table) for name, table in self._read_settings[1].items()}

    def write_settings(self, table: str, values: SettingsTable | None) -> None:
        """Replace or remove one table of `settings.toml`, under the run's lock."""
        with self.locked():
            self._read_settings = "", {}  # two successive files can share time stamp and inode
            tables: dict[str, SettingsTable] = {**self.settings, table: values or {}}
            if not values:
                del tables[table]
            disk.write_text(self.path / SETTINGS, disk.to_toml(tables))

    @cached_property
    def fingerprint(self) -> Fingerprint:
        """The fingerprint of the graph at the first access; later changes do not affect it."""
        return self._stored_fingerprint()

    def _stored_fingerprint(self) -> Fingerprint:
        """The fingerprint that `settings.toml` holds at this moment."""
        table = self.settings["graph"]
        if (written_in := table.get("format", 1)) != FORMAT:
            raise RunError(
                f"run '{self.path}' was written by another version of Tacit, in format "
                f"{written_in} and not {FORMAT}; train the run again"
            )
        if "labels" not in table or "facts" not in table:
            raise RunError(
                f"{self.path / SETTINGS} does not say which labels and facts it is for; train the "
                "run again"
            )
        for name in ("entities", "relations", *SPLITS):
            if type(table.get(name)) is not int or not 0 <= table[name] < 2**31:
                raise RunError(
                    f"{self.path / SETTINGS} says that {name} is {table.get(name)!r:.40}; it must "
                    "be a whole number; train the run again"
                )
        return Fingerprint(str(table["labels"]), str(table["facts"]))

    def graph(self) -> Graph:
        """The graph of the run, with the facts of all splits; it is read once."""
        return self._graph

    @cached_property
    def _graph(self) -> Graph:
        _ = self.fingerprint  # refuses other formats
        return read_graph(self.path, self.settings)

    def check(self, graph: Graph) -> None:
        """Raise a `RunError` unless a graph has the run's labels and facts."""
        if (actual := fingerprint(graph)) != self.fingerprint:
            raise RunError(
                f"run '{self.path}' was trained on {self._difference(actual.labels)} than "
                f"{graph.name} has now; give the graph as it was, or train a run in another folder"
            )

    def _difference(self, labels: str) -> str:
        """The difference of another fingerprint, with these `labels`, in words."""
        return "other facts" if labels == self.fingerprint.labels else "another vocabulary"

    def check_unchanged(self) -> None:
        """Raise a `RunError` if the run's graph changed since the run was opened."""
        if self._stored_fingerprint() != self.fingerprint:
            raise RunError(
                f"the facts of run '{self.path}' were changed since it was opened; open it again"
            )

    @contextmanager
    def lock_graph(self) -> Iterator[None]:
        """Lock the graph while data derived from it are written.

        A `RunError` says that the graph has changed since the run was opened.
        """
        with self.locked(shared=True):
            self.check_unchanged()
            yield


def _is_exchanged(name: str) -> bool:
    """Whether a change of the facts replaces a file of the run, or deletes it."""
    return is_run_file(name) and name != TRACE
