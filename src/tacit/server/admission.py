"""Admission of requests: keys, origins, host names, and limits per address."""

from __future__ import annotations

import hmac
import ipaddress
import json
import re
from collections import Counter
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from datetime import UTC, datetime
from functools import lru_cache
from time import monotonic
from typing import TYPE_CHECKING

from starlette.datastructures import Headers

from tacit.server.settings import ServerSettings
from tacit.server.workers.jobs import Reply, failure

if TYPE_CHECKING:
    from starlette.types import Scope

# open to everybody, like /static/
OPEN = ("/", "/health", "/ready", "/openapi.json")
REMEMBERED = 4096  # addresses
LOGGED = 200  # characters of a path


class RequestHead:
    """A request as it arrives, before its body."""

    def __init__(self, scope: Scope, keys: Mapping[str, str]) -> None:
        self.method = scope["method"]
        self.path = scope["path"]
        self.headers = Headers(scope=scope)
        self.client: str = (scope.get("client") or ("",))[0]
        self.is_guarded = self.path not in OPEN and not self.path.startswith("/static/")
        scheme, _, bearer = self.headers.get("authorization", "").partition(" ")
        sent_key = self.headers.get("x-api-key") or (
            bearer.strip() if scheme.lower() == "bearer" else ""
        )
        self.has_key = bool(sent_key)
        # Every key is compared, so that the time tells nothing about them.
        self.key: str | None = None
        for name, key in keys.items():
            if hmac.compare_digest(sent_key.encode("latin-1"), key.encode()):
                self.key = self.key or name

    @property
    def length(self) -> int:
        """The declared length of the body, in bytes."""
        declared = self.headers.get("content-length", "0")
        # Twenty digits are more than any limit.
        return int(declared[:20]) if declared.isdecimal() else 0

    def line(self, status: int, seconds: float) -> str:
        """The line of the access log, as JSON, so that no client can end it."""
        entry = {
            "time": datetime.now(UTC).isoformat(timespec="milliseconds"),
            "client": self.client,
            "key": self.key,
            "method": self.method,
            "path": self.path[:LOGGED],
            "status": status,
            "seconds": round(seconds, 6),
        }
        return json.dumps(entry)


class Admission:
    """Refuses requests that break the rules, and counts those of each address."""

    def __init__(self, settings: ServerSettings) -> None:
        self.keys = settings.keys()
        self.cors = settings.cors
        self.limits = settings.limits
        self.hosts = settings.hosts
        self._inside: Counter[str] = Counter()
        # by address, the time of its next request at the highest rate
        self._due: dict[str, float] = {}

    @contextmanager
    def admit(self, head: RequestHead) -> Iterator[Reply | None]:
        """The refusal of a request, or None; the request is counted inside the context."""
        refusal = (self._refusal(head) if head.is_guarded else None) or self._host_refusal(head)
        if refusal is not None or not head.is_guarded:
            yield refusal
            return
        client = network(head.client)
        self._inside[client] += 1
        try:
            yield None
        finally:
            self._inside[client] -= 1
            if not self._inside[client]:
                del self._inside[client]

    def _host_refusal(self, head: RequestHead) -> Reply | None:
        """The refusal of a request that calls the service by none of its names.

        Load balancers ask whether it is ready by addresses, which change, and the answer tells
        nothing else.
        """
        if self.hosts is None or head.path == "/ready":
            return None
        name = re.sub(r":\d+$", "", head.headers.get("host", "").lower())
        own = (f"[{host}]" if ":" in host else host for host in self.hosts)
        if any(name == host or (host.startswith("*.") and name.endswith(host[1:])) for host in own):
            return None
        known = ", ".join(sorted(self.hosts))
        return failure(
            403, f"this service goes by {known} alone; its setting trusted_hosts adds names"
        )

    def _refusal(self, head: RequestHead) -> Reply | None:
        if self.keys and head.key is None:
            problem = (
                "this is no key of this service" if head.has_key else "this service needs a key"
            )
            return failure(
                401, f"{problem}; send one as 'Authorization: Bearer KEY' or 'X-API-Key'"
            )
        allowed = "*" in self.cors or head.headers.get("origin") in self.cors
        if head.headers.get("sec-fetch-site") == "cross-site" and not allowed:
            return failure(
                403,
                "a page of another site asks, which the setting cors of this service does not name",
            )
        client = network(head.client)
        if self._inside[client] >= self.limits.per_client:
            most = f"{self.limits.per_client} questions of yours, as many as one address may have,"
            return failure(429, f"{most} have no reply yet; ask again later")
        if self.limits.rate and not self._in_time(client):
            return failure(
                429, f"one address may ask {self.limits.rate:g} times a second; ask again later"
            )
        return None

    def _in_time(self, client: str) -> bool:
        """Whether an address keeps to its rate, in bursts of up to a second's requests."""
        now = monotonic()
        each = 1 / self.limits.rate
        due = max(now, self._due.get(client, 0.0))
        if due - now > max(0.0, 1.0 - each) + 1e-6:
            return False
        self._due[client] = due + each
        if len(self._due) > REMEMBERED:
            self._due = {client: due for client, due in self._due.items() if due > now}
        return True


@lru_cache(REMEMBERED)
def network(client: str) -> str:
    """The address that requests are counted by: of IPv6, the subscriber's network of 2^64.

    >>> network("192.0.2.7"), network("::ffff:192.0.2.7")
    ('192.0.2.7', '192.0.2.7')
    >>> network("2001:db8::1:7") == network("2001:db8::2")
    True
    """
    try:
        address = ipaddress.ip_address(client)
    except ValueError:
        return client
    if isinstance(address, ipaddress.IPv6Address):
        if address.ipv4_mapped is not None:
            return str(address.ipv4_mapped)
        return str(ipaddress.ip_network((address, 64), strict=False))
    return client
