"""Settings and limits of the service."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from tacit.errors import LimitError, SettingsError
from tacit.settings import Settings, setting

LOOPBACK = ("127.0.0.1", "localhost", "::1")


@dataclass(frozen=True)
class RequestLimits:
    """Limits of one request and of what it asks for."""

    body: int = setting(65_536, "Bytes of a request.", least=1)
    questions: int = setting(100, "Questions of a request.", least=1)
    atoms: int = setting(32, "Atoms of a question.", least=1)
    nesting: int = setting(32, "Levels of a question's formula.", least=1)
    k: int = setting(4_096, "Candidates kept for each variable.", least=1)
    top: int = setting(1_000, "Answers to a question.", least=1)
    offset: int = setting(100_000, "Answers to a question that are passed over.", least=0)
    paths: int = setting(5, "Reasons for an answer.", least=1)
    seconds: float = setting(
        10.0, "Seconds to answer a question; its worker is stopped after that.", above=0
    )


@dataclass(frozen=True)
class Limits(Settings, RequestLimits):
    """Limits of one request, and of all together."""

    noun = "limit"

    queue: int = setting(512, "Questions that wait.", least=1)
    batch: int = setting(64, "Questions answered together.", least=1)
    # Above a second, milliseconds were probably meant.
    patience: float = setting(
        0.005, "Seconds a question waits for others like it.", least=0, most=1
    )
    receive: float = setting(10.0, "Seconds for a request to arrive in full.", above=0)
    connections: int = setting(
        1_000, "Connections at once; the one that waits longest makes room.", least=1
    )
    per_client: int = setting(64, "Requests of one address at once.", least=1)
    rate: float = setting(0.0, "Requests a second of one address; 0 does not count them.", least=0)

    def allow(self, name: str, value: int, subject: str = "") -> None:
        """Raise a `LimitError` for a value above its limit; `subject` describes it."""
        if value > (limit := getattr(self, name)):
            raise LimitError(
                f"{subject or f'{name} is {value}'}, this service allows at most {limit}"
            )


@dataclass(frozen=True)
class AccessSettings:
    """The address and processes of the service, and who may ask it."""

    host: str = setting(
        "127.0.0.1",
        "The address to listen at; others than this machine's own let everyone in who can reach "
        "it.",
    )
    port: int = setting(8000, "The port; 0 takes a free one.", least=0, most=65_535)
    workers: int = setting(2, "Processes that answer questions, for each run.", least=1)
    shards: int = setting(
        1,
        "Processes that a worker consists of, each with a share of the model's entities.",
        least=1,
        most=1024,
    )
    api_key: str | None = setting(
        None, "A key every request must bring; safer in TACIT_API_KEY.", secret=True
    )
    api_key_file: str | None = setting(
        None, "A file of further keys: one a line, behind a name for the access log."
    )
    cors: tuple[str, ...] = setting((), "An origin whose pages may ask; repeat it.")
    trusted_hosts: tuple[str, ...] = setting(
        (), "A further name the service is known by; repeat it."
    )
    write: bool = setting(
        False, "Let agents change facts at /mcp; whoever has the key then may do so."
    )
    trusted_proxies: tuple[str, ...] = setting(
        (), "An address whose X-Forwarded-For says who asks; repeat it."
    )

    @property
    def hosts(self) -> frozenset[str] | None:
        """The names of the service that a request may use; None allows any.

        On loopback they are a fixed few, elsewhere any.

        Without this, a page that points its own domain name at 127.0.0.1 could read the answers.
        """
        trusted = frozenset(host.lower() for host in self.trusted_hosts)
        return trusted.union(LOOPBACK) if self.host in LOOPBACK else trusted or None

    def keys(self) -> dict[str, str]:
        """The keys by their names, read from the file now; empty if no key is needed."""
        keys = {} if self.api_key is None else {"api_key": self.api_key}
        return keys if self.api_key_file is None else _read_keys(Path(self.api_key_file), keys)


@dataclass(frozen=True)
class ServerSettings(Settings, AccessSettings):
    """The settings that the service is started with."""

    noun = "service"

    access_log: str | None = setting(
        None, "A file for a line of JSON per request; - is standard error."
    )
    grace: int = setting(
        5, "Seconds for what is in flight when the service is told to stop.", least=0
    )
    limits: Limits = Limits()

    def check(self) -> None:
        """Raise a `SettingsError` for an invalid key, origin, host or limits."""
        if not isinstance(self.limits, Limits):
            raise SettingsError(
                f"limits is {self.limits!r}; it must be limits of the service", "limits"
            )
        key = self.api_key
        if self.write and key is None and self.api_key_file is None:
            raise SettingsError(
                "write lets agents change facts, and nothing says who may; set `api_key` or "
                "`api_key_file`",
                "write",
            )
        if key is not None and not (
            key == key.strip() != "" and key.isascii() and key.isprintable()
        ):
            # A header could not carry it.
            words = "must be ASCII without outer spaces and line breaks, and not empty"
            raise SettingsError(f"api_key {words}; leave it out to need none", "api_key")
        for origin in self.cors:
            if origin != "*" and not origin.startswith(("http://", "https://")):
                raise SettingsError(
                    f"cors is '{origin}'; it must be '*' or start with http:// or https://", "cors"
                )
        for host in self.trusted_hosts:
            if "*" in host.removeprefix("*."):  # else Starlette's assertion fails later
                raise SettingsError(
                    f"trusted_hosts is '{host}'; a star must stand in front, as in *.example.org",
                    "trusted_hosts",
                )


def _read_keys(path: Path, keys: dict[str, str]) -> dict[str, str]:
    """Add the keys of a file to others: `NAME KEY` or `KEY` a line; `#` starts a comment."""
    try:
        lines = path.read_text(encoding="ascii").splitlines()
    except (OSError, UnicodeError) as error:
        why = getattr(error, "strerror", None) or "it is not ASCII"
        raise SettingsError(
            f"api_key_file is '{path}', which cannot be read ({why})", "api_key_file"
        ) from None
    before = len(keys)
    for number, line in enumerate(lines, start=1):
        words = line.split()
        if not words or words[0].startswith("#"):
            continue
        name = words[0] if len(words) > 1 else f"line {number}"
        if len(words) > 2 or name in keys:
            problem = (
                f"has the name '{name}' once more" if name in keys else "is not a name and a key"
            )
            raise SettingsError(
                f"api_key_file is '{path}', whose line {number} {problem}; it must be NAME KEY, or "
                "KEY",
                "api_key_file",
            )
        keys[name] = words[-1]
    if len(keys) == before:
        raise SettingsError(
            f"api_key_file is '{path}', which has no key; write one a line", "api_key_file"
        )
    return keys
