"""What the service allows, and whom it answers."""

from __future__ import annotations

from dataclasses import dataclass

from tacit.errors import SettingsError
from tacit.settings import Settings, setting

LOOPBACK = ("127.0.0.1", "localhost", "::1")


@dataclass(frozen=True)
class Limits(Settings):
    """How much one request, and all of them together, may ask for."""

    noun = "limit"

    body: int = setting(65_536, "Bytes of a request.", least=1)
    questions: int = setting(100, "Questions of a request.", least=1)
    atoms: int = setting(32, "Atoms of a question.", least=1)
    nesting: int = setting(32, "Levels of a question's formula.", least=1)
    k: int = setting(4_096, "Candidates kept for each variable.", least=1)
    top: int = setting(1_000, "Answers to a question.", least=1)
    offset: int = setting(100_000, "Answers to a question that are passed over.", least=0)
    paths: int = setting(5, "Reasons for an answer.", least=1)
    seconds: float = setting(10.0, "Seconds to answer a question; its worker is stopped after that.", above=0)
    queue: int = setting(512, "Questions that wait.", least=1)
    batch: int = setting(64, "Questions answered together.", least=1)
    # Few would wait longer than a second for company; a higher number is one of milliseconds.
    patience: float = setting(0.005, "Seconds a question waits for others like it.", least=0, most=1)
    receive: float = setting(10.0, "Seconds for a request to arrive in full.", above=0)
    connections: int = setting(1_000, "Connections at once.", least=1)


@dataclass(frozen=True)
class ServerSettings(Settings):
    """Everything the service is started with, beside what it answers questions about."""

    noun = "service"

    host: str = setting(
        "127.0.0.1",
        "The address to listen at; others than this machine's own let everyone in who can reach it.",
    )
    port: int = setting(8000, "The port; 0 takes a free one.", least=0, most=65_535)
    workers: int = setting(2, "Processes that answer questions.", least=1)
    shards: int = setting(
        1, "Processes that a worker consists of, each with a share of the model's entities.", least=1, most=1024
    )
    api_key: str | None = setting(None, "A key every request must bring; safer in TACIT_API_KEY.", secret=True)
    cors: tuple[str, ...] = setting((), "An origin whose pages may ask; repeat it.")
    trusted_hosts: tuple[str, ...] = setting((), "A further name the service is known by; repeat it.")
    limits: Limits = Limits()

    def check(self) -> None:
        """Raise a `SettingsError` for a key or an origin that cannot work."""
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
