"""What each of two processes does that fill one file of records; it loads no torch, so that they start at once."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np

from tacit.links.finders.records import Records

NUMBERS, BYTES = np.dtype("<i8"), 40_000


def fill(path: Path, own: int, start: Any, count: int) -> None:
    """Write numbers, many of them into places that the other process writes to as well, and read all on the way."""
    start.wait()
    records = Records(path, NUMBERS, BYTES, "numbers")  # both find no file, and one makes it
    keys = np.random.default_rng(own).permutation(count).astype(np.int64)
    for part in np.array_split(keys, 10):
        records.put(part, part * 7)
        values, there = records.get(keys)
        if not bool((values[there] == keys[there] * 7).all()):
            raise SystemExit(3)
