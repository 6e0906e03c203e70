"""What the service allows, and whom it answers."""

from __future__ import annotations

from dataclasses import asdict, dataclass, field, fields
from typing import Any

from tacit.errors import SettingsError

LOOPBACK = ("127.0.0.1", "localhost", "::1")


@dataclass(frozen=True)
class Limits:
    """How much one request, and all of them together, may ask for."""

    body: int = 65_536  # bytes of a request
    atoms: int = 32  # of a question
    nesting: int = 32  # levels of a question's formula
    k: int = 4_096  # candidates kept for each variable
    top: int = 1_000  # answers returned
    paths: int = 5  # reasons per answer
    seconds: float = 10.0  # to answer one batch; its worker is stopped after that
    queue: int = 512  # questions that wait
    batch: int = 64  # questions answered together
    patience: float = 0.005  # seconds a question waits for others like it
    receive: float = 10.0  # seconds for a request to arrive in full
    connections: int = 1_000

    def __post_init__(self) -> None:
        for name, value in self.to_dict().items():
            least = 0 if name == "patience" else 1
            if not (value >= least or (isinstance(value, float) and value > 0)):
                raise SettingsError(
                    f"the limit '{name}' is {value}; it must be {'at least 1' if least else 'positive'}"
                )

    def to_dict(self) -> dict[str, Any]:
        """Plain data, as `/health` shows it."""
        return asdict(self)


@dataclass(frozen=True)
class ServerSettings:
    """Everything the service is started with, beside what it answers questions about."""

    host: str = "127.0.0.1"
    port: int = 8000
    workers: int = 2
    api_key: str | None = field(default=None, repr=False)
    cors: tuple[str, ...] = ()  # origins whose pages may ask
    trusted_hosts: tuple[str, ...] = ()  # further names the service is known by
    limits: Limits = field(default_factory=Limits)

    def __post_init__(self) -> None:
        if self.workers < 1:
            raise SettingsError(f"the service needs at least 1 worker, not {self.workers}")
        if self.api_key is not None and not (self.api_key.isascii() and self.api_key.strip()):
            raise SettingsError("the API key must be ASCII and not empty; leave it out to need none")
        for origin in self.cors:
            if origin != "*" and not origin.startswith(("http://", "https://")):
                raise SettingsError(f"the CORS origin '{origin}' must be '*' or start with http:// or https://")

    @property
    def hosts(self) -> frozenset[str] | None:
        """The names a request may use for the service: on loopback a fixed few, elsewhere any (None).

        Without this, a page that points its own domain name at 127.0.0.1 could read the answers.
        """
        if self.host not in LOOPBACK:
            return frozenset(self.trusted_hosts) or None
        return frozenset((*LOOPBACK, *self.trusted_hosts))


LIMITS = tuple(limit.name for limit in fields(Limits))
