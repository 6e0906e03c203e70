"""The processes that are one worker together, where a model's entities are shared out over them."""

from __future__ import annotations

import os
import sys
from dataclasses import dataclass
from typing import TYPE_CHECKING

from tacit.errors import SettingsError

if TYPE_CHECKING:
    from tacit.distributed.shards import Shards

LOOPBACK = {"linux": "lo", "darwin": "lo0"}
TIMEOUT = 300.0  # seconds that a process waits for the others: as long as one may take to load its share
BEAT = TIMEOUT / 5  # seconds without a question after which they are told to wait on


@dataclass(frozen=True)
class ServiceGroup:
    """How many processes there are, which of them this is, and where they meet; one alone meets nobody."""

    rank: int = 0
    world: int = 1
    place: str = ""

    def joined(self, entities: int, device: str) -> tuple[Shards, str]:
        """The share of this process, and its device, once all of them are here."""
        from tacit.distributed.shards import Shards, local_device, meet

        if self.world == 1:
            return Shards(entities), device
        if self.world > entities:
            raise SettingsError(f"shards is {self.world}, but there are only {entities} entities to share", "shards")
        # They are on one machine and none of anybody else's business: nothing is to leave it.
        if sys.platform in LOOPBACK:
            os.environ.setdefault("GLOO_SOCKET_IFNAME", LOOPBACK[sys.platform])
        os.environ |= {"RANK": str(self.rank), "WORLD_SIZE": str(self.world), "LOCAL_RANK": str(self.rank)}
        own = local_device(device)
        meet(self.place, self.rank, self.world, TIMEOUT, own if own.startswith("cuda") else "cpu")
        return Shards(entities, self.rank, self.world), own


ALONE = ServiceGroup()
