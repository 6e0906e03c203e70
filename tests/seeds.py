"""Seeds of random examples that hypothesis does not draw."""

from __future__ import annotations

import os


def seeds(count: int) -> range:
    """As many seeds, from `FIRST_SEED` on: the same in every run, but for `make nightly`."""
    first = int(os.environ.get("FIRST_SEED", "0"))
    return range(first, first + count)
