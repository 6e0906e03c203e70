"""A served run: a run folder exactly as it was when the service opened it.

A worker opens it as one process, or as a group of several that share the model's entities.
"""

from __future__ import annotations

import logging
import os
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol

from tacit.disk import reading, state
from tacit.errors import RunError, SettingsError
from tacit.graph.graph import Graph
from tacit.links.training.finished import notes_on_training
from tacit.loaded_run import engine_of, read_weights
from tacit.run.run import Run
from tacit.run_folder.files import ENGINE_FILES, SETTINGS
from tacit.run_folder.folder import RunFolder

if TYPE_CHECKING:
    from tacit.distributed.shards import Shards
    from tacit.engine.engine import Engine

log = logging.getLogger("tacit.server")
LOOPBACK = {"linux": "lo", "darwin": "lo0"}
# seconds that a process waits for the others to load their shares
TIMEOUT = 300.0
CHANGED = (
    "the run was changed on disk since the service opened it; restart the service, or let it "
    "reload (SIGHUP)"
)


@dataclass(frozen=True)
class ServiceGroup:
    """The rank of this process among those of a worker, and the place where they meet."""

    rank: int = 0
    world: int = 1
    place: str = ""

    def joined(self, entities: int, device: str) -> tuple[Shards, str]:
        """The share of this process, and its device, once all of them are here."""
        from tacit.distributed.shards import Shards, local_device, meet

        if self.world > entities:
            raise SettingsError(
                f"shards is {self.world}, but there are only {entities} entities to share", "shards"
            )
        # All processes are on this machine, so no traffic should leave it.
        if sys.platform in LOOPBACK:
            os.environ.setdefault("GLOO_SOCKET_IFNAME", LOOPBACK[sys.platform])
        os.environ |= {
            "RANK": str(self.rank),
            "WORLD_SIZE": str(self.world),
            "LOCAL_RANK": str(self.rank),
        }
        own = local_device(device)
        meet(self.place, self.rank, self.world, TIMEOUT, own if own.startswith("cuda") else "cpu")
        return Shards(entities, self.rank, self.world), own


ALONE = ServiceGroup()


class Served(Protocol):
    """A source of one graph and its engines, for the service and its workers."""

    def graph(self) -> Graph:
        """The graph."""

    def engine(self, group: ServiceGroup = ALONE) -> Engine:
        """The engine of a worker, or the share of it of one process of a group."""

    def renewed(self) -> Served:
        """The same as it stands now."""


@dataclass(frozen=True)
class ServedRun:
    """A run folder with the state of its files; reading it raises if they have changed.

    Otherwise a replaced worker would answer from other weights or facts than the rest.
    """

    path: Path
    device: str
    state: tuple[object, ...]
    settings: Mapping[str, Any]  # of the engine

    @classmethod
    def at(cls, path: str | Path, device: str = "auto", **settings: Any) -> ServedRun:
        """The run in a folder as it stands now; the settings are those of `open`."""
        with reading(Path(path)):
            return cls(Path(path), device, _state(Path(path)), settings)

    @classmethod
    def of(cls, run: Run) -> ServedRun:
        """A run that was opened, as its folder stands now."""
        loaded = run._loaded
        settings = loaded.engine_settings
        return cls.at(loaded.folder.path, loaded.device, adapted=loaded.adapted, **settings)

    def graph(self) -> Graph:
        """The graph the run was made for."""
        with self._unchanged(), reading(self.path):
            folder = RunFolder.open(self.path)
            for note in notes_on_training(folder):  # logged by the service alone
                log.warning("%s", note)
            return folder.graph()

    def engine(self, group: ServiceGroup = ALONE) -> Engine:
        """The engine of the run; each process of a group reads only its own rows of the weights."""
        from tacit.links.values.value_files import RunValues  # loads torch

        with self._unchanged():
            if group.world == 1:
                engine = Run(RunFolder.open(self.path), device=self.device, **self.settings).engine
                _ = engine.reasoner  # opens the index before a change of facts deletes it
                if isinstance(engine.parts.values, RunValues):
                    _ = engine.parts.values.fitted  # that no question waits for it
                return engine
            folder = RunFolder.open(self.path)
            shards, device = group.joined(int(folder.settings["graph"]["entities"]), self.device)
            settings = {"adapted": True, **self.settings}
            return engine_of(
                folder, read_weights(folder, device, shards), settings.pop("adapted"), settings
            )

    def renewed(self) -> ServedRun:
        """The run in the same folder as it stands now."""
        return ServedRun.at(self.path, self.device, **self.settings)

    @contextmanager
    def _unchanged(self) -> Iterator[None]:
        """Raise a `RunError` if the files have changed, also where reading them failed."""
        try:
            yield
        finally:
            if _state(self.path) != self.state:
                raise RunError(CHANGED) from None


def _state(path: Path) -> tuple[object, ...]:
    """The text of the settings, and the state of every file an engine is made of."""
    settings = (path / SETTINGS).read_bytes() if (path / SETTINGS).is_file() else b""
    return settings, *(state(path / name) for name in ENGINE_FILES)
