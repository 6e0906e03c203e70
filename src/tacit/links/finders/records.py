"""Records of one size in a file that several processes fill and read at once: each is found whole, or not at all.

The file is a table of buckets. A record says its key and carries a checksum of itself, so nobody needs a lock: a record
that another process is writing, or that a crash cut short, fails its checksum and counts as absent. The size of the
file is fixed when it is made; where a bucket is full, a record gives way.
"""

from __future__ import annotations

import errno
import json
import os
import weakref
import zlib
from contextlib import suppress
from hashlib import sha256
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tacit.disk import replacing
from tacit.errors import TacitError
from tacit.graph.fact_index import Ints

_HEAD = 1024  # bytes that say what a file holds
_WAYS = 4  # records in a bucket
_SPREAD = np.uint64(0x9E3779B97F4A7C15)  # the golden ratio, by which neighbouring keys fall into distant buckets


class Records:
    """Values by key, each of one `kind`, in at most so many `bytes_` of a file that `stamp` says the meaning of.

    A file with another stamp or of another size is made anew, never believed. Where none can be made, nothing is kept.
    Records of other `terms` may lie in the same file, and are as good as absent.
    """

    def __init__(self, path: Path, kind: np.dtype[Any], bytes_: int, stamp: str, terms: str = "") -> None:
        self._made_of = (path, kind, bytes_, stamp, terms)
        self._terms = int.from_bytes(sha256(terms.encode()).digest()[:7], "little")
        self.kind = np.dtype([("key", "<i8"), ("terms", "<i8"), ("check", "<u4"), ("value", kind)])
        self.buckets = max(1, bytes_ // (_WAYS * self.kind.itemsize))
        said = {"tacit": "records", "stamp": stamp, "kind": str(kind), "buckets": self.buckets}
        self._head = json.dumps(said).encode().ljust(_HEAD)
        self._size = _HEAD + self.buckets * _WAYS * self.kind.itemsize
        self._file: int | None = None
        self._table: NDArray[Any] = np.zeros((1, _WAYS), self.kind)
        with suppress(OSError, TacitError):  # a run may lie where one may only read, or on a disk that is full
            self._open(path)

    def __reduce__(self) -> tuple[Any, ...]:
        return Records, self._made_of

    def get(self, keys: Ints) -> tuple[NDArray[Any], NDArray[np.bool_]]:
        """The values of keys, and which of them are there, `[B]` each."""
        values, there = np.zeros(len(keys), self.kind["value"]), np.zeros(len(keys), dtype=bool)
        near = self._table[self._bucket(keys)]  # [B, ways], copied: what is checked is what is returned
        for i, way in np.argwhere((near["key"] == keys[:, None] + 1) & (near["terms"] == self._terms)):
            record = near[i, way]
            if record["check"] == _checksum(record):
                values[i], there[i] = record["value"], True
        return values, there

    def put(self, keys: Ints, values: NDArray[Any]) -> None:
        """Keep the values of keys; where the disk takes no more, they are not kept."""
        if self._file is None:
            return
        buckets = self._bucket(keys)
        for key, bucket, value in zip(keys.tolist(), buckets.tolist(), values, strict=True):
            taken = zip(self._table[bucket]["key"].tolist(), self._table[bucket]["terms"].tolist(), strict=True)
            mine = ((0, 0), (key + 1, self._terms))  # 0 is an empty place
            way = next((i for i, other in enumerate(taken) if other in mine), zlib.crc32(b"%d" % key) % _WAYS)
            record = np.zeros((), self.kind)
            record["key"], record["terms"], record["value"] = key + 1, self._terms, value
            record["check"] = _checksum(record)
            try:
                _write_at(self._file, record.tobytes(), _HEAD + (bucket * _WAYS + way) * self.kind.itemsize)
            except OSError as error:
                if error.errno not in (errno.ENOSPC, errno.EDQUOT, errno.EIO):
                    raise
                return

    def _bucket(self, keys: Ints) -> Ints:
        spread = (keys ^ self._terms).astype(np.uint64) * _SPREAD
        buckets: Ints = ((spread >> np.uint64(20)) % np.uint64(len(self._table))).astype(np.int64)
        return buckets

    def _open(self, path: Path) -> None:
        if not self._whole(path):
            with replacing(path) as target, target.open("wb") as file:  # who has the former one open goes on with it
                file.write(self._head)
                file.truncate(self._size)  # takes no room until it is written to
        if os.access(path, os.W_OK):
            self._file = os.open(path, os.O_RDWR | getattr(os, "O_BINARY", 0))
            weakref.finalize(self, os.close, self._file)
        self._table = np.memmap(path, self.kind, "r", _HEAD, (self.buckets, _WAYS))

    def _whole(self, path: Path) -> bool:
        """Whether the file is what would be made now, of the size it was made with."""
        try:
            with path.open("rb") as file:
                return file.read(_HEAD) == self._head and path.stat().st_size == self._size
        except FileNotFoundError:
            return False


def _checksum(record: Any) -> int:
    """Of a record, its checksum aside."""
    return zlib.crc32(record["value"].tobytes(), zlib.crc32(record["key"].tobytes() + record["terms"].tobytes()))


def _write_at(handle: int, data: bytes, place: int) -> None:
    if hasattr(os, "pwrite"):
        os.pwrite(handle, data, place)
    else:  # Windows
        os.lseek(handle, place, os.SEEK_SET)
        os.write(handle, data)
