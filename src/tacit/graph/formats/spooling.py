"""What can be read once, kept in a file for as long as it is read: readers may look at a file twice."""

from __future__ import annotations

import shutil
import sys
import tempfile
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path
from typing import IO

from tacit.errors import DataError
from tacit.graph.formats.files import written


def standard_input(format: str) -> AbstractContextManager[Path]:
    """A file of all of standard input, with the extension of its format; errors speak of standard input."""
    return _spooled(sys.stdin.buffer, f"standard-input.{format.removeprefix('.')}", "standard input")


@contextmanager
def pipe(path: Path) -> Iterator[Path]:
    """A file of all that comes through a named pipe; errors speak of the pipe."""
    with path.open("rb") as file, _spooled(file, path.name, path) as copy:
        yield copy


@contextmanager
def _spooled(file: IO[bytes], name: str, shown: str | Path) -> Iterator[Path]:
    with tempfile.TemporaryDirectory(prefix="tacit-") as folder:
        path = Path(folder) / name
        with written(path), path.open("wb") as copy:
            shutil.copyfileobj(file, copy)
        try:
            yield path
        except DataError as error:
            if error.path != path:
                raise
            raise DataError(error.message, shown, error.line) from None
