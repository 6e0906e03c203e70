"""Saved runs that are damaged, or made to do harm, are refused."""

from __future__ import annotations

import hashlib
import json
import random
import stat
import struct
import zipfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import tacit
from rule_runs import rule_run
from tacit.errors import RunError, TacitError
from tacit.run_folder import saved
from tacit.run_folder.files import CHECKPOINT, FORMAT, RULES, SETTINGS
from tacit.run_folder.saved import MANIFEST


@pytest.fixture(autouse=True)
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("TACIT_CACHE", str(tmp_path / "cache"))
    return tmp_path / "cache"


@pytest.fixture
def run(tmp_path: Path) -> tacit.Run:
    return rule_run(tmp_path / "run")


@pytest.fixture
def file(run: tacit.Run, tmp_path: Path) -> Path:
    return run.save(tmp_path / "run.tacit")


def rezip(file: Path, change: Callable[[dict[str, bytes], zipfile.ZipFile], None]) -> None:
    """Write a file of Tacit's anew, with other content and a manifest that fits it."""
    with zipfile.ZipFile(file) as archive:
        contents = {name: archive.read(name) for name in archive.namelist()}
    with zipfile.ZipFile(file, "w") as archive:
        change(contents, archive)
        for name, content in contents.items():
            archive.writestr(name, content)


def list_files(contents: dict[str, bytes], **other: Any) -> None:
    """Put a manifest of the contents in."""
    files = {
        name: [len(content), hashlib.sha256(content).hexdigest()]
        for name, content in contents.items()
        if name != MANIFEST
    }
    contents[MANIFEST] = json.dumps({"format": FORMAT, "files": files, **other}).encode()


def named(name: str) -> Callable[[dict[str, bytes], zipfile.ZipFile], None]:
    def change(contents: dict[str, bytes], archive: zipfile.ZipFile) -> None:
        contents[name] = b"x"
        list_files(contents)

    return change


def link(contents: dict[str, bytes], archive: zipfile.ZipFile) -> None:
    contents.pop(RULES)
    entry = zipfile.ZipInfo(RULES)
    entry.create_system = 3
    entry.external_attr = (stat.S_IFLNK | 0o777) << 16
    archive.writestr(entry, "/etc/passwd")


def deflated(contents: dict[str, bytes], archive: zipfile.ZipFile) -> None:
    contents["trace.jsonl"] = b" " * 10_000_000
    list_files(contents)
    archive.writestr("trace.jsonl", contents.pop("trace.jsonl"), zipfile.ZIP_DEFLATED)


def twice(contents: dict[str, bytes], archive: zipfile.ZipFile) -> None:
    archive.writestr(SETTINGS, "x")
    with pytest.warns(UserWarning, match="Duplicate"):
        archive.writestr(SETTINGS, contents.pop(SETTINGS))


def unlisted(contents: dict[str, bytes], archive: zipfile.ZipFile) -> None:
    contents["trace.jsonl"] = b"{}\n"


def absent(contents: dict[str, bytes], archive: zipfile.ZipFile) -> None:
    contents.pop(RULES)


def tampered(contents: dict[str, bytes], archive: zipfile.ZipFile) -> None:
    contents[RULES] = contents[RULES][:-1] + bytes([contents[RULES][-1] ^ 1])


def manifest(content: bytes) -> Callable[[dict[str, bytes], zipfile.ZipFile], None]:
    def change(contents: dict[str, bytes], archive: zipfile.ZipFile) -> None:
        contents[MANIFEST] = content

    return change


def relisted(**other: Any) -> Callable[[dict[str, bytes], zipfile.ZipFile], None]:
    return lambda contents, archive: list_files(contents, **other)


HOSTILE = {
    "absolute": (named("/tmp/evil"), "'/tmp/evil', which is no file of a saved run"),
    "above": (named("../model.safetensors"), "which is no file of a saved run"),
    "backslash": (named("..\\model.safetensors"), "which is no file of a saved run"),
    "pickle": (named("model.pt"), "which is no file of a saved run"),
    "index": (named("index.faiss"), "which is no file of a saved run"),
    "trie": (named("entities.marisa"), "which is no file of a saved run"),
    "checkpoint": (named(CHECKPOINT), "which is no file of a saved run"),
    "part": (named("model-../x-of-2.safetensors"), "which is no file of a saved run"),
    "link": (link, "packed, encrypted or a link"),
    "bomb": (deflated, "packed, encrypted or a link"),
    "twice": (twice, "named twice"),
    "unlisted": (unlisted, "its files are not those of its tacit.json"),
    "absent": (absent, "its files are not those of its tacit.json"),
    "tampered": (tampered, f"{RULES} is not the file that its tacit.json names"),
    "no JSON": (manifest(b"\xff"), "tacit.json is damaged"),
    "deep": (manifest(b"[" * 100_000), "tacit.json is damaged"),
    "a list": (manifest(b"[]"), "tacit.json is damaged"),
    "no files": (manifest(b'{"format": 2, "files": {"model.safetensors": 3}}'), "is damaged"),
    "no settings": (manifest(b'{"format": 2, "files": {}}'), "it has no settings.toml"),
    "sizes": (manifest(b'{"format": 2, "files": {"settings.toml": [true, ""]}}'), "is damaged at"),
    "long": (manifest(b" " * 2_000_000), "of at most 1 MB"),
    "newer": (relisted(format=FORMAT + 1), "update with: pip install --upgrade tacit-kg"),
    "older": (relisted(format=1), "train and save the run again"),
    "odd": (relisted(format="x" * 5000), "train and save the run again"),
}


@pytest.mark.parametrize("case", HOSTILE)
def test_what_no_run_is_made_of_is_refused(file: Path, cache: Path, case: str) -> None:
    change, says = HOSTILE[case]
    rezip(file, change)
    with pytest.raises(RunError) as error:
        tacit.open(file)
    assert says in str(error.value)
    assert str(file) in str(error.value)
    assert not [*cache.glob("*/settings.toml")]


def test_files_that_share_their_bytes_are_refused(file: Path) -> None:
    """Two entries of a list that name one stored file, as bombs of overlapping files have."""
    data = bytearray(file.read_bytes())
    places = [place for place in range(len(data)) if data[place : place + 4] == b"PK\x01\x02"]
    sizes = [struct.unpack_from("<I", data, place + 24)[0] for place in places]
    largest = max(range(len(places)), key=lambda number: sizes[number])
    offset = struct.unpack_from("<I", data, places[largest] + 42)[0]
    for place in places:
        struct.pack_into("<II", data, place + 20, sizes[largest], sizes[largest])
        struct.pack_into("<I", data, place + 42, offset)
    file.write_bytes(data)
    with pytest.raises(RunError, match=r"overlap|damaged"):
        tacit.open(file)


def test_a_truncated_file_is_refused(file: Path) -> None:
    data = file.read_bytes()
    for length in (0, 1, 30, len(data) // 2, len(data) - 30, len(data) - 1):
        file.write_bytes(data[:length])
        with pytest.raises(RunError, match="is truncated, damaged or no saved run"):
            tacit.open(file)
    file.write_text("head\trelation\ttail\n")
    with pytest.raises(RunError, match="is truncated, damaged or no saved run"):
        tacit.open(file)


def test_damage_is_refused_or_changes_nothing(
    file: Path, run: tacit.Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    data = file.read_bytes()
    names = saved.saved_names(run.folder.path)
    expected = [(run.folder.path / name).read_bytes() for name in names]
    draws = random.Random(0)
    messages = []
    for number in range(150):
        monkeypatch.setenv("TACIT_CACHE", str(tmp_path / f"cache{number}"))
        damaged = bytearray(data)
        damaged[draws.randrange(len(data))] ^= 1 << draws.randrange(8)
        file.write_bytes(damaged)
        try:
            folder = tacit.open(file).folder.path
        except TacitError as error:
            messages.append(str(error))
        else:
            assert [(folder / name).read_bytes() for name in names] == expected
    assert 100 < len(messages) < 150  # dates, for one, mean nothing
    assert all(str(file) in message for message in messages)
