"""Fixed-size records in a file that several processes fill and read without locks.

The file is a table of buckets. A record has its key and a checksum, so that a record that is being
written, or that a crash cut short, fails its checksum and counts as absent. The size of the file is
fixed; in a full bucket a record is overwritten.
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
# the golden ratio, by which neighbouring keys fall into distant buckets
_SPREAD = np.uint64(0x9E3779B97F4A7C15)


class Records:
    """Values of one `kind` by key, in at most `bytes_` of a file marked with a `stamp`.

    A file with another stamp or size is replaced. If no file can be made, nothing is stored.
    Records of other `terms` may share the file and count as absent.
    """

    def __init__(
        self, path: Path, kind: np.dtype[Any], bytes_: int, stamp: str, terms: str = ""
    ) -> None:
        self._made_of = (path, kind, bytes_, stamp, terms)
        self._terms = int.from_bytes(sha256(terms.encode()).digest()[:7], "little")
        self.kind = np.dtype([("key", "<i8"), ("terms", "<i8"), ("check", "<u4"), ("value", kind)])
        self.buckets = max(1, bytes_ // (_WAYS * self.kind.itemsize))
        header = {"tacit": "records", "stamp": stamp, "kind": str(kind), "buckets": self.buckets}
        self._head = json.dumps(header).encode().ljust(_HEAD)
        self._size = _HEAD + self.buckets * _WAYS * self.kind.itemsize
        self._file: int | None = None
        self._table: NDArray[Any] = np.zeros((1, _WAYS), self.kind)
        # a run may lie where one may only read, or on a disk that is full
        with suppress(OSError, TacitError):
            self._open(path)

    def __reduce__(self) -> tuple[Any, ...]:
        return Records, self._made_of

    def get(self, keys: Ints) -> tuple[NDArray[Any], NDArray[np.bool_]]:
        """The values of keys, and which of them are present, `[B]` each."""
        values = np.zeros(len(keys), self.kind["value"])
        present = np.zeros(len(keys), dtype=bool)
        # [B, ways], copied: what is checked is what is returned
        near = self._table[self._bucket(keys)]
        for i, way in np.argwhere(
            (near["key"] == keys[:, None] + 1) & (near["terms"] == self._terms)
        ):
            record = near[i, way]
            if record["check"] == _checksum(record):
                values[i], present[i] = record["value"], True
        return values, present

    def put(self, keys: Ints, values: NDArray[Any]) -> None:
        """Store the values of keys, unless the disk is full."""
        if self._file is None:
            return
        buckets = self._bucket(keys)
        for key, bucket, value in zip(keys.tolist(), buckets.tolist(), values, strict=True):
            stored = zip(
                self._table[bucket]["key"].tolist(),
                self._table[bucket]["terms"].tolist(),
                strict=True,
            )
            mine = ((0, 0), (key + 1, self._terms))  # 0 is an empty place
            way = next(
                (i for i, other in enumerate(stored) if other in mine),
                zlib.crc32(b"%d" % key) % _WAYS,
            )
            record = np.zeros((), self.kind)
            record["key"], record["terms"], record["value"] = key + 1, self._terms, value
            record["check"] = _checksum(record)
            try:
                _write_at(
                    self._file,
                    record.tobytes(),
                    _HEAD + (bucket * _WAYS + way) * self.kind.itemsize,
                )
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
            # who has the former one open goes on with it
            with replacing(path) as target, target.open("wb") as file:
                file.write(self._head)
                file.truncate(self._size)  # takes no room until it is written to
        if os.access(path, os.W_OK):
            self._file = os.open(path, os.O_RDWR | getattr(os, "O_BINARY", 0))
            weakref.finalize(self, os.close, self._file)
        self._table = np.memmap(path, self.kind, "r", _HEAD, (self.buckets, _WAYS))

    def _whole(self, path: Path) -> bool:
        """Whether the file has the expected header and size."""
        try:
            with path.open("rb") as file:
                return file.read(_HEAD) == self._head and path.stat().st_size == self._size
        except FileNotFoundError:
            return False


def _checksum(record: Any) -> int:
    """The checksum of a record's other fields."""
    return zlib.crc32(
        record["value"].tobytes(), zlib.crc32(record["key"].tobytes() + record["terms"].tobytes())
    )


def _write_at(handle: int, data: bytes, place: int) -> None:
    if hasattr(os, "pwrite"):
        os.pwrite(handle, data, place)
    else:  # Windows
        os.lseek(handle, place, os.SEEK_SET)
        os.write(handle, data)
