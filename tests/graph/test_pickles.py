"""Pickles are read without trusting them."""

from __future__ import annotations

import os
import pickle
import signal
import struct
import sys
from collections import OrderedDict, defaultdict
from pathlib import Path
from typing import Any

import pytest

from tacit.errors import DataError
from tacit.graph.formats import pickles
from tacit.graph.formats.pickles import load_pickle


class Calls:
    """Pickles as a call, which a trusting reader would make."""

    def __init__(self, function: Any, *arguments: Any) -> None:
        self.call = (function, arguments)

    def __reduce__(self) -> Any:
        return self.call


def hostile(mark: Path) -> dict[str, bytes]:
    """Pickles that would create the file `mark` if anything in them were executed."""
    touch = f"touch {mark}"
    evil = f"open({str(mark)!r}, 'w').close()"
    return {
        "os.system": pickle.dumps(Calls(os.system, touch)),
        "eval": pickle.dumps(Calls(eval, evil)),
        "exec": pickle.dumps(Calls(exec, evil)),
        "nested in a dict": pickle.dumps({0: "Oslo", 1: Calls(os.system, touch)}),
        "nested reduce": pickle.dumps(Calls(tuple, [Calls(eval, evil)])),
        "an attribute of something plain": pickle.dumps(Calls(getattr, "", "format")),
        "inside a defaultdict": pickle.dumps(
            defaultdict(set, {(0, (1,)): {Calls(os.system, touch)}})
        ),
        "as the factory of a defaultdict": b"ccollections\ndefaultdict\n(cos\nsystem\ntR.",
        "a dotted name under an allowed module": (
            b"\x80\x04\x8c\x0bcollections\x8c\x12defaultdict.__init__\x93."
        ),
        "by module walking": b"\x80\x04\x8c\x0bcollections\x8c\x10_sys.modules.get\x93.",
        "old protocol": f"cos\nsystem\n(S'{touch}'\ntR.".encode(),
        "instance opcode": f"(S'{touch}'\nios\nsystem\n.".encode(),
        "object opcode": f"(cos\nsystem\nS'{touch}'\no.".encode(),
        "extension registry": b"\x80\x02\x82\x01.",
        "persistent id": b"Pelsewhere\n.",
    }


@pytest.mark.parametrize("kind", hostile(Path("mark")))
def test_hostile_pickles_are_refused_and_nothing_runs(tmp_path: Path, kind: str) -> None:
    mark = tmp_path / "executed"
    path = tmp_path / "id2ent.pkl"
    path.write_bytes(hostile(mark)[kind])
    with pytest.raises(
        DataError, match=r"id2ent\.pkl: is not a pickle of plain .* nothing in it was executed"
    ):
        load_pickle(path)
    assert not mark.exists()


def growing() -> dict[str, tuple[bytes, str]]:
    """Small pickles that call nothing, and would hang, crash or fill the memory.

    `2` doubles the top of the stack, `\\x85` and `\\x86` make tuples of one and two, `r` and `p`
    choose a place in the memo, `h` takes from it, `R` calls, `s` and `a` fill dicts and lists.
    """
    start = b"\x80\x04"
    factory = b"ccollections\ndefaultdict\n\x94"
    numbers = b"](" + b"".join(b"J" + struct.pack("<i", i) for i in range(1000, 31_000)) + b"e\x940"
    return {
        "a key of 2**100 parts": (start + b"})" + b"2\x86" * 100 + b"K\x01s.", "processor time"),
        "a key of 200,000 levels": (
            start + b"})" + b"\x85" * 200_000 + b"K\x01s.",
            "nests so deep",
        ),
        "tables of 100,000 levels": (
            start + factory + b"h\x00)RK\x00" * 100_000 + b"h\x00)R" + b"s" * 100_000 + b".",
            "nests so deep",
        ),
        "a memo of 2**31 places": (start + b"]r\xff\xff\xff\x7f.", "memory"),
        "a memo of 10**11 places": (start + b"]p99999999999\n.", "memory"),
        "30,000 copies of a list": (
            start + numbers + b"cbuiltins\nfrozenset\n\x940]" + b"h\x01h\x00\x85Ra" * 30_000 + b".",
            "memory",
        ),
        "a terabyte of bytes": (start + b"\x8e" + struct.pack("<Q", 1 << 40) + b".", "memory"),
        "64 GB to be filled": (b"\x80\x05\x96" + struct.pack("<Q", 1 << 36) + b".", "memory"),
        "a number of 200,000 digits": (b"I" + b"9" * 200_000 + b"\n.", "int"),
    }


@pytest.mark.skipif(
    sys.platform == "win32", reason="memory and processor time have no limits there"
)
@pytest.mark.parametrize("kind", growing())
def test_pickles_that_would_not_end_are_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, kind: str
) -> None:
    content, reason = growing()[kind]
    monkeypatch.setattr(pickles, "SECONDS", 0.3)
    monkeypatch.setattr(pickles, "BYTES", 1 << 26)
    (tmp_path / "x.pkl").write_bytes(content)
    with pytest.raises(DataError, match=rf"x\.pkl: is not a pickle of plain .*{reason}"):
        load_pickle(tmp_path / "x.pkl")


@pytest.mark.parametrize(
    "content", [b"", b"text", b"\x80\x04", pickle.dumps([1, 2])[:-3], b"\x80\x7f.", b"(" * 9]
)
def test_damaged_pickles_are_errors_of_ours(tmp_path: Path, content: bytes) -> None:
    (tmp_path / "x.pkl").write_bytes(content)
    with pytest.raises(DataError, match=r"x\.pkl"):
        load_pickle(tmp_path / "x.pkl")


def test_other_classes_are_refused(tmp_path: Path) -> None:
    (tmp_path / "x.pkl").write_bytes(pickle.dumps(OrderedDict(a=1)))
    with pytest.raises(DataError, match=r"refers to collections\.OrderedDict"):
        load_pickle(tmp_path / "x.pkl")


def test_missing_files_and_folders_are_named(tmp_path: Path) -> None:
    with pytest.raises(DataError, match=r"x\.pkl: no such file"):
        load_pickle(tmp_path / "x.pkl")
    with pytest.raises(DataError, match="is a folder where a file is expected"):
        load_pickle(tmp_path)


@pytest.mark.parametrize("protocol", range(pickle.HIGHEST_PROTOCOL + 1))
def test_what_betae_ships_is_read(tmp_path: Path, protocol: int) -> None:
    queries = defaultdict(set, {("e", ("r", "r")): {(3, (0, 5)), (7, (1, -2))}})
    data = {
        "queries": queries,
        "ids": {0: "Zürich"},
        "frozen": frozenset({1}),
        "numbers": [1, 2**40, -1],
    }
    (tmp_path / "x.pkl").write_bytes(pickle.dumps(data, protocol=protocol))
    back = load_pickle(tmp_path / "x.pkl")
    assert back == data
    assert back["queries"]["absent"] == set()


def test_a_large_pickle_can_be_interrupted(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Python heeds signals between the chunks of a file; one call in C would read on to its end."""
    path = tmp_path / "large.pkl"
    path.write_bytes(pickle.dumps({(i, (i + 1,)): {i, i + 2} for i in range(100_000)}))
    monkeypatch.setattr(pickles, "rehearse", lambda data: "")
    chunks: list[int] = []

    class Interrupted(pickles._Interruptible):
        """Bytes whose reader is interrupted at the third chunk."""

        def readinto(self, buffer: Any) -> int:
            chunks.append(len(buffer))
            if len(chunks) == 3:
                signal.raise_signal(signal.SIGINT)
            return super().readinto(buffer)

    monkeypatch.setattr(pickles, "_Interruptible", Interrupted)
    with pytest.raises(KeyboardInterrupt):
        load_pickle(path)
    assert len(chunks) == 3
    assert sum(chunks) < path.stat().st_size / 2
