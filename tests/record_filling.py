"""The work of two processes that fill one file of records; it loads no torch."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np

from tacit.links.finders.records import Records

NUMBERS = np.dtype("<i8")
BYTES = 40_000


def fill(path: Path, own: int, start: Any, count: int) -> None:
    """Write numbers, many where the other process writes too, and read all on the way."""
    start.wait()
    records = Records(path, NUMBERS, BYTES, "numbers")  # both find no file, and one makes it
    keys = np.random.default_rng(own).permutation(count).astype(np.int64)
    for part in np.array_split(keys, 10):
        records.put(part, part * 7)
        values, there = records.get(keys)
        if not bool((values[there] == keys[there] * 7).all()):
            raise SystemExit(3)
