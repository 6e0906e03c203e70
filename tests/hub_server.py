"""A stand-in of the Hugging Face Hub on this machine: what its library asks of it over HTTP.

Repositories live in memory. Files of tensors are large files, which are sent apart and fetched from
another address, as on the hub.
"""

from __future__ import annotations

import base64
import hashlib
import json
import re
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any
from urllib.parse import parse_qs, unquote, urlsplit

Files = dict[str, bytes]
WRITER = "token-of-me"
USER = "me"


@dataclass
class Repository:
    """The commits of a repository, and the names of some of them."""

    private: bool = False
    commits: dict[str, Files] = field(default_factory=dict)
    names: dict[str, str] = field(default_factory=dict)

    def commit(self, files: Files) -> str:
        content = repr(sorted(files.items())).encode() + str(len(self.commits)).encode()
        oid = hashlib.sha1(content).hexdigest()
        self.commits[oid] = files
        self.names["main"] = oid
        return oid

    def files(self) -> Files:
        """The files of main."""
        return self.commits[self.names["main"]]


@dataclass
class Hub:
    """All repositories, what was asked, and which files break off when they are fetched."""

    address: str = ""
    store: str = ""  # where large files are
    repositories: dict[str, Repository] = field(default_factory=dict)
    stored: dict[str, bytes] = field(default_factory=dict)  # large files by their SHA-256
    requests: list[str] = field(default_factory=list)
    broken: dict[str, int] = field(default_factory=dict)  # by file: how often it breaks off
    is_down: bool = False

    def fetched(self) -> list[str]:
        """The files whose content was asked for."""
        return [line.rpartition("/")[2] for line in self.requests if line.startswith("GET /cdn/")]


class Reply(Exception):  # noqa: N818
    """An answer of the hub, raised where it is known."""

    def __init__(
        self, status: int, body: bytes | Any = b"", headers: dict[str, str] | None = None
    ) -> None:
        self.status = status
        self.body = body if isinstance(body, bytes) else json.dumps(body).encode()
        self.headers = headers or {}


def no(what: str, status: int = 404) -> Reply:
    return Reply(status, {"error": what}, {"X-Error-Code": what, "X-Error-Message": what})


class Handler(BaseHTTPRequestHandler):
    """Answers the requests of `huggingface_hub`."""

    hub: Hub
    protocol_version = "HTTP/1.1"

    def log_message(self, *arguments: Any) -> None:
        pass

    def answer(self) -> None:
        length = int(self.headers.get("Content-Length") or 0)
        self.sent = self.rfile.read(length)
        if self.headers.get("Transfer-Encoding") == "chunked":
            while size := int(self.rfile.readline(), 16):
                self.sent += self.rfile.read(size)
                self.rfile.readline()
            self.rfile.readline()
        self.path_only = unquote(urlsplit(self.path).path)
        self.hub.requests.append(f"{self.command} {self.path_only}")
        try:
            if self.hub.is_down:
                raise no("Unavailable", 500)
            self.route()
            raise no("NoSuchRoute")
        except Reply as reply:
            self.send_response(reply.status)
            for name, value in {"Content-Length": str(len(reply.body)), **reply.headers}.items():
                self.send_header(name, value)
            self.end_headers()
            if self.command != "HEAD":
                self.wfile.write(reply.body)

    do_GET = do_HEAD = do_POST = do_PUT = answer  # noqa: N815

    @property
    def is_writer(self) -> bool:
        return self.headers.get("Authorization") == f"Bearer {WRITER}"

    def route(self) -> None:
        path = self.path_only
        if path == "/api/whoami-v2":
            raise Reply(200, {"name": USER}) if self.is_writer else no("Unauthorized", 401)
        if path == "/api/validate-yaml":
            raise Reply(200, {"errors": [], "warnings": []})
        if path == "/api/repos/create":
            self.create(json.loads(self.sent))
        if match := re.fullmatch(r"/cdn/(\w+)/(.+)", path):
            self.send_content(*match.groups())
        if match := re.fullmatch(r"/store/(\w+)", path):
            assert hashlib.sha256(self.sent).hexdigest() == match[1]
            self.hub.stored[match[1]] = self.sent
            raise Reply(200)
        if match := re.fullmatch(r"/([\w.-]+/[\w.-]+)\.git/info/lfs/objects/batch", path):
            self.repository(match[1], writes=True)
            self.batch(json.loads(self.sent))
        if match := re.fullmatch(r"/([\w.-]+/[\w.-]+)/resolve/([^/]+)/(.+)", path):
            self.resolve(*match.groups())
        if match := re.fullmatch(r"/api/models/([\w.-]+/[\w.-]+)(?:/([\w-]+)/(.+))?", path):
            self.model(*match.groups())

    def repository(self, name: str, writes: bool = False) -> Repository:
        found = self.hub.repositories.get(name)
        if found is None or (found.private and not self.is_writer):
            raise no("RepoNotFound", 404 if self.is_writer else 401)
        if writes and not (self.is_writer and name.startswith(f"{USER}/")):
            raise no("Forbidden", 403)
        return found

    def commit(self, repository: Repository, revision: str) -> tuple[str, Files]:
        oid = repository.names.get(revision, revision)
        if oid not in repository.commits:
            raise no("RevisionNotFound")
        return oid, repository.commits[oid]

    def create(self, asked: dict[str, Any]) -> None:
        name = f"{asked.get('organization') or USER}/{asked['name']}"
        if not self.is_writer:
            raise no("Unauthorized", 401)
        if not name.startswith(f"{USER}/"):
            raise no("Forbidden", 403)
        if name in self.hub.repositories:
            raise Reply(409, {"url": f"{self.hub.address}/{name}"})
        made = Repository(asked.get("visibility") == "private" or bool(asked.get("private")))
        made.commit({".gitattributes": b""})
        self.hub.repositories[name] = made
        raise Reply(200, {"url": f"{self.hub.address}/{name}"})

    def batch(self, asked: dict[str, Any]) -> None:
        objects = [
            {**each, "actions": {"upload": {"href": f"{self.hub.store}/store/{each['oid']}"}}}
            for each in asked["objects"]
        ]
        raise Reply(200, {"objects": objects, "transfer": "basic"})

    def model(self, name: str, what: str | None, rest: str | None) -> None:
        repository = self.repository(name, writes=what in ("preupload", "commit"))
        oid, files = self.commit(repository, rest or "main")
        if what in (None, "revision"):
            raise Reply(
                200, {"id": name, "sha": oid, "siblings": [{"rfilename": f} for f in files]}
            )
        if what in ("tree", "paths-info"):
            asked = parse_qs(self.sent.decode()).get("paths", [])
            chosen = files if what == "tree" else [file for file in asked if file in files]
            listed = [
                {"type": "file", "path": file, "size": len(files[file]), "oid": "0" * 40}
                for file in chosen
            ]
            raise Reply(200, listed)
        if what == "preupload":
            modes = [
                {
                    "path": file["path"],
                    "uploadMode": "lfs" if file["path"].endswith(".safetensors") else "regular",
                    "shouldIgnore": False,
                }
                for file in json.loads(self.sent)["files"]
            ]
            raise Reply(200, {"files": modes})
        if what == "commit":
            changed = dict(files)
            for line in map(json.loads, self.sent.splitlines()):
                value = line["value"]
                if line["key"] == "file":
                    changed[value["path"]] = base64.b64decode(value["content"])
                elif line["key"] == "lfsFile":
                    changed[value["path"]] = self.hub.stored[value["oid"]]
                elif line["key"] == "deletedFile":
                    del changed[value["path"]]
            oid = repository.commit(changed)
            url = f"{self.hub.address}/{name}/commit/{oid}"
            raise Reply(200, {"success": True, "commitOid": oid, "commitUrl": url})

    def resolve(self, name: str, revision: str, file: str) -> None:
        oid, files = self.commit(self.repository(name), revision)
        if file not in files:
            raise no("EntryNotFound")
        digest = hashlib.sha256(files[file]).hexdigest()
        self.hub.stored[digest] = files[file]
        headers = {"X-Repo-Commit": oid, "ETag": f'"{digest}"', "X-Linked-Etag": f'"{digest}"'}
        headers |= {"X-Linked-Size": str(len(files[file]))}
        headers |= {"Location": f"{self.hub.store}/cdn/{digest}/{file}"}
        raise Reply(302, b"", headers)

    def send_content(self, digest: str, file: str) -> None:
        content = self.hub.stored[digest]
        start = re.fullmatch(r"bytes=(\d+)-", self.headers.get("Range", ""))
        part = content[int(start[1]) :] if start else content
        if self.hub.broken.get(file, 0) > 0:  # the connection ends within the file
            self.hub.broken[file] -= 1
            self.send_response(206 if start else 200)
            self.send_header("Content-Length", str(len(part)))
            self.end_headers()
            if self.command != "HEAD":
                self.wfile.write(part[: len(part) // 2])
                self.wfile.flush()
                self.connection.close()
            self.close_connection = True
            raise BrokenPipeError
        total = f"bytes {len(content) - len(part)}-{len(content) - 1}/{len(content)}"
        raise Reply(206 if start else 200, part, {"Content-Range": total} if start else {})


class Server(ThreadingHTTPServer):
    """A server that says nothing of connections that it ended itself."""

    daemon_threads = True

    def handle_error(self, request: Any, client_address: Any) -> None:
        pass


@contextmanager
def running_hub() -> Iterator[Hub]:
    """Yield a hub that listens on this machine, and fetches large files from another port."""
    hub = Hub()
    handler = type("HubHandler", (Handler,), {"hub": hub})
    with Server(("127.0.0.1", 0), handler) as server, Server(("127.0.0.1", 0), handler) as store:
        hub.address, hub.store = (
            f"http://127.0.0.1:{each.server_address[1]}" for each in (server, store)
        )
        threads = [
            threading.Thread(target=each.serve_forever, args=(0.02,)) for each in (server, store)
        ]
        for thread in threads:
            thread.start()
        try:
            yield hub
        finally:
            for each in (server, store):
                each.shutdown()
            for thread in threads:
                thread.join()
