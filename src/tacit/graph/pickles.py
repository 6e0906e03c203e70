"""BetaE's pickles, read without trusting them."""

from __future__ import annotations

import gc
import io
import pickle
from collections import defaultdict
from pathlib import Path
from typing import Any

from tacit.errors import DataError

_ALLOWED: dict[tuple[str, str], type] = {
    ("collections", "defaultdict"): defaultdict,
    ("builtins", "set"): set,
    ("builtins", "frozenset"): frozenset,
    ("__builtin__", "set"): set,
    ("__builtin__", "frozenset"): frozenset,
}


class _PlainData(pickle.Unpickler):
    """An unpickler that knows ints, strings, tuples, sets, dicts and defaultdicts, and can call nothing else."""

    def find_class(self, module: str, name: str) -> type:
        try:
            return _ALLOWED[module, name]
        except KeyError:
            raise pickle.UnpicklingError(f"it refers to {module}.{name}") from None

    def persistent_load(self, pid: Any) -> Any:
        raise pickle.UnpicklingError("it refers to objects outside the file")


def load_pickle(path: str | Path) -> Any:
    """The plain data in a pickle; anything that could run code is refused before it does."""
    path = Path(path)
    try:
        data = path.read_bytes()
    except IsADirectoryError:
        raise DataError("is a folder where a pickle file is expected", path) from None
    except OSError as error:
        raise DataError(f"cannot be read ({error.strerror or error})", path) from None
    collecting = gc.isenabled()
    gc.disable()  # plain data has no cycles, and looking for some takes as long as reading
    try:
        return _PlainData(io.BytesIO(data)).load()
    except Exception as error:  # a damaged pickle can raise nearly anything
        reason = str(error) or type(error).__name__
        raise DataError(
            f"is not a pickle of plain ints, strings, tuples, sets and dicts ({reason}); "
            "it was refused and nothing in it was executed",
            path,
        ) from None
    finally:
        if collecting:
            gc.enable()
