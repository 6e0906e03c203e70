"""BetaE's pickles, read without trusting them."""

from __future__ import annotations

import gc
import io
from pathlib import Path
from typing import Any

from tacit.errors import DataError
from tacit.graph.formats.pickle_trial import PlainData, rehearse


def load_pickle(path: str | Path) -> Any:
    """The plain data in a pickle; anything that could run code is refused before it does.

    What would crash, never end or take all memory is refused by `rehearse`, which says how much a pickle may take.
    """
    path = Path(path)
    try:
        data = path.read_bytes()
    except IsADirectoryError:
        raise DataError("is a folder where a pickle file is expected", path) from None
    except OSError as error:
        raise DataError(f"cannot be read ({error.strerror or error})", path) from None
    if reason := rehearse(data):
        raise DataError(
            f"is not a pickle of plain ints, strings, tuples, sets and dicts ({reason}); "
            "it was refused and nothing in it was executed",
            path,
        )
    collecting = gc.isenabled()
    gc.disable()  # plain data has no cycles, and looking for some takes as long as reading
    try:
        return PlainData(io.BytesIO(data)).load()
    finally:
        if collecting:
            gc.enable()
