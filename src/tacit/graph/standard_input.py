"""Standard input as a file of facts."""

from __future__ import annotations

import shutil
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from tacit.errors import DataError
from tacit.graph.files import written


@contextmanager
def standard_input(format: str) -> Iterator[Path]:
    """All of standard input in a file that goes when it was read; readers may read a file twice."""
    with tempfile.TemporaryDirectory(prefix="tacit-") as folder:
        path = Path(folder) / f"standard-input.{format.removeprefix('.')}"
        with written(path), path.open("wb") as file:
            shutil.copyfileobj(sys.stdin.buffer, file)
        try:
            yield path
        except DataError as error:
            if error.path != path:
                raise
            raise DataError(error.message, "standard input", error.line) from None
