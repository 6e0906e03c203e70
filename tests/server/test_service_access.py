"""Who may ask the service: names, keys and the log of requests."""

from __future__ import annotations

import json
import re
from collections import Counter
from datetime import datetime, timedelta
from pathlib import Path

import pytest

from served import running
from served_graphs import EUROPE
from tacit.errors import SettingsError
from tacit.server.app import create_app
from tacit.server.settings import ServerSettings

FRANCE = "?c : borders(France, ?c)"


def test_further_names_may_have_a_star_at_their_start_alone() -> None:
    settings = ServerSettings(workers=1, trusted_hosts=("*.example.org",))
    with running(EUROPE, settings) as service:
        assert (
            service.client.get("/health", headers={"host": "tacit.example.org"}).status_code == 200
        )
        elsewhere = [
            service.client.get(path, headers={"host": "192.0.2.7"})
            for path in ("/health", "/ready")
        ]
        assert [reply.status_code for reply in elsewhere] == [403, 200]
    with pytest.raises(SettingsError, match=r"a star must stand in front, as in \*\.example\.org"):
        ServerSettings(trusted_hosts=("tacit.*",))


def test_a_key_is_needed_where_one_is_set(tmp_path: Path) -> None:
    keys = tmp_path / "keys"
    written = tmp_path / "access.jsonl"
    keys.write_text("# who may ask\nann  open-door\n\nbare\n")
    settings = ServerSettings(
        workers=1,
        api_key="open sesame",
        api_key_file=str(keys),
        access_log=str(written),
        cors=("https://there.example",),
        trusted_hosts=("Tacit.Example.ORG",),
    )
    with running(EUROPE, settings) as service:
        assert service.client.get("/health").status_code == 200
        assert service.client.get("/", headers={"host": "tacit.example.org"}).status_code == 200
        refused = service.ask("?c : borders(Portugal, ?c)")
        wrong = service.client.get("/entities", headers={"x-api-key": "open"})
        assert (refused.status_code, wrong.status_code) == (401, 401)
        assert "open" not in refused.text + wrong.text
        assert "needs a key" in refused.text
        assert "this is no key of this service" in wrong.text
        for key in ("open sesame", "open-door", "bare"):
            for header in ({"x-api-key": key}, {"authorization": f"Bearer {key}"}):
                assert service.client.get("/entities", headers=header).status_code == 200
        for name in ("ann", "ann open-door", "#"):
            assert service.client.get("/entities", headers={"x-api-key": name}).status_code == 401
        service.client.get("/nowhere%0A%1B[2J?key=open-door", headers={"x-api-key": "bare"})
        headers = {"origin": "https://there.example", "access-control-request-method": "POST"}
        allowed = service.client.options("/ask", headers=headers).headers
        assert allowed["access-control-allow-origin"] == "https://there.example"
        other = service.client.options(
            "/ask", headers=headers | {"origin": "https://elsewhere.example"}
        ).headers
        assert "access-control-allow-origin" not in other
    text = written.read_text()
    assert not any(key in text for key in ("sesame", "open-door", "\x1b"))
    lines = [json.loads(line) for line in text.splitlines()]
    seen = Counter(
        (line["path"], line["status"], line["key"]) for line in lines
    )  # a line may come after the next reply
    assert seen == {
        ("/health", 200, None): 1, ("/", 200, None): 1, ("/ask", 401, None): 1,
        ("/entities", 401, None): 4, ("/entities", 200, "api_key"): 2, ("/entities", 200, "ann"): 2,
        ("/entities", 200, "line 4"): 2, ("/nowhere\n\x1b[2J", 404, "line 4"): 1,
    }  # fmt: skip
    assert all(line["client"] == "127.0.0.1" and 0 <= line["seconds"] < 10 for line in lines)
    assert [datetime.fromisoformat(line["time"]).utcoffset() for line in lines] == [
        timedelta(0)
    ] * len(lines)


@pytest.mark.parametrize(
    ("text", "words"),
    [
        (b"", "has no key"),
        (b"a b c\n", "line 1 is not a name and a key"),
        (b"a b\na c\n", "line 2 has the name 'a' once more"),
        ("ä b\n".encode(), "cannot be read (it is not ASCII)"),
        (None, "cannot be read (No such file or directory)"),
    ],
)
def test_a_file_that_holds_no_keys_is_refused(
    tmp_path: Path, text: bytes | None, words: str
) -> None:
    if text is not None:
        (tmp_path / "keys").write_bytes(text)
    with pytest.raises(SettingsError, match=re.escape(words)):
        create_app({"europe": EUROPE}, ServerSettings(api_key_file=str(tmp_path / "keys")))


def test_a_log_that_cannot_be_written_is_refused(tmp_path: Path) -> None:
    with pytest.raises(SettingsError, match="which cannot be written"):
        create_app({"europe": EUROPE}, ServerSettings(access_log=str(tmp_path / "no" / "log")))
