"""Reads files in blocks of whole lines, packed or not, and writes them atomically.

A file is read block by block, so that a large one needs no memory. A packed file may unpack to
16 MB and a multiple of its size: 100 times for gzip, 250 for bzip2, 500 for xz. That is twice what
sorted facts of a single relation come to; a file that unpacks to more is made to fill the memory.
"""

from __future__ import annotations

import bz2
import gzip
import io
import lzma
import os
import shutil
import tempfile
import zlib
from collections.abc import Iterable, Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from pathlib import Path
from typing import IO, Any

from tacit.disk import replacing, written
from tacit.errors import DataError

# bytes; large enough for numpy to pay off, small enough for its fields to stay in the cache
BLOCK = 1 << 16
LONGEST_LINE = 1 << 24  # bytes
# the bytes that a packed file may unpack to, and those for each of its own bytes
UNPACKED = 1 << 24
UNPACKED_A_BYTE = {".gz": 100, ".bz2": 250, ".xz": 500}
BOM = b"\xef\xbb\xbf"
# the functions that open a packed file, by its extension
PACKINGS: dict[str, Any] = {".gz": gzip.open, ".bz2": bz2.open, ".xz": lzma.open}


class _Unpacking(io.RawIOBase):
    """The content of a packed file, within a limit relative to the part of it that was read."""

    def __init__(self, raw: IO[bytes], path: Path) -> None:
        self._raw = raw
        self._path = path
        self._unpacked = 0
        self._file = PACKINGS[path.suffix](raw, "rb")

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Any) -> int:
        data = self._file.read1(len(buffer))
        self._unpacked += len(data)
        times = UNPACKED_A_BYTE[self._path.suffix]
        if self._unpacked > UNPACKED + times * self._raw.tell():
            raise DataError(
                f"unpacks to more than {times} times its size, more than files of facts do; if it "
                "is meant to, unpack it first",
                self._path,
            )
        buffer[: len(data)] = data
        return len(data)


def unpacked(path: Path) -> Path:
    """The path without the extension of a packing."""
    return path.with_suffix("") if path.suffix in PACKINGS else path


def extension(path: Path) -> str:
    """The extension of the format, without that of a packing."""
    return unpacked(path).suffix.lower()


@contextmanager
def open_file(path: Path) -> Iterator[IO[bytes]]:
    """Opens a file for reading bytes, unpacking it; problems become a `DataError`."""
    packing = PACKINGS.get(path.suffix)
    try:
        with path.open("rb") as raw:
            yield io.BufferedReader(_Unpacking(raw, path), BLOCK) if packing else raw
    except FileNotFoundError:
        raise DataError("no such file", path) from None
    except IsADirectoryError:
        raise DataError("is a folder where a file is expected", path) from None
    except (OSError, EOFError, zlib.error, lzma.LZMAError) as error:
        problem = f"cannot be read ({getattr(error, 'strerror', None) or error})"
        # an error of the packing has no number
        if packing and getattr(error, "errno", None) is None:
            problem = f"is not a whole {path.suffix} file ({error}); unpack it, or fetch it again"
        raise DataError(problem, path) from None


def blocks(path: Path) -> Iterator[tuple[int, bytes]]:
    """The file in blocks of whole lines, each with the number of its first line.

    A byte order mark is dropped.
    """
    line = 1
    partial = b""
    with open_file(path) as file:
        while chunk := file.read(BLOCK):
            cut = chunk.rfind(b"\n") + 1
            if not cut:
                partial += chunk
                if len(partial) > LONGEST_LINE:
                    raise DataError(
                        f"is longer than {LONGEST_LINE >> 20} MB; is this a text file?", path, line
                    )
                continue
            block = partial + chunk[:cut]
            partial = chunk[cut:]
            yield line, block.removeprefix(BOM) if line == 1 else block
            line += block.count(b"\n")
    if partial:
        yield line, (partial.removeprefix(BOM) if line == 1 else partial) + b"\n"


def plain_blocks(path: Path) -> Iterator[tuple[int, bytes]]:
    """The blocks of a file, with `\\n` for `\\r\\n`."""
    return (
        (line, block.replace(b"\r\n", b"\n") if b"\r" in block else block)
        for line, block in blocks(path)
    )


def decode_block(block: bytes, line: int, path: Path) -> str:
    """Decodes a block; a byte that is not UTF-8 is an error that names its line."""
    try:
        return block.decode()
    except UnicodeDecodeError as error:
        at = line + block.count(b"\n", 0, error.start)
        byte = block[error.start]
        raise DataError(
            f"is not UTF-8 (byte 0x{byte:02x}); save the file as UTF-8", path, at
        ) from None


def lines(path: Path) -> Iterator[tuple[int, str]]:
    """The lines of a file as text, with their numbers."""
    for line, block in plain_blocks(path):
        yield from enumerate(decode_block(block, line, path)[:-1].split("\n"), start=line)


@contextmanager
def atomic_file(path: Path) -> Iterator[IO[bytes]]:
    """A file that appears under its name once written without error; packed by suffix."""
    with written(path, DataError):
        path.parent.mkdir(parents=True, exist_ok=True)
    with (
        replacing(path, DataError) as target,
        target.open("wb") as raw,
        _packing_writer(raw, path.suffix) as file,
    ):
        yield file


def _packing_writer(raw: IO[bytes], suffix: str) -> AbstractContextManager[Any]:
    """A writer that packs into another file, as the suffix says."""
    if suffix == ".gz":  # without a time, so that equal facts give equal files
        return gzip.GzipFile(filename="", mode="wb", fileobj=raw, mtime=0)
    writer: AbstractContextManager[Any] = (
        PACKINGS[suffix](raw, "wb") if suffix in PACKINGS else nullcontext(raw)
    )
    return writer


@contextmanager
def atomic_folder(path: Path, stale: Iterable[str] = ()) -> Iterator[Path]:
    """A folder to fill, whose files replace those at `path` once all are written.

    The `stale` files of an existing folder are deleted.
    """
    with written(path, DataError):
        if path.exists() and not path.is_dir():
            raise DataError("is a file where a folder is to be written", path)
        path.parent.mkdir(parents=True, exist_ok=True)
        draft = path.parent / f".{path.name}.{os.urandom(4).hex()}"
        draft.mkdir()
        try:
            yield draft
            if path.exists():
                for name in stale:
                    (path / name).unlink(missing_ok=True)
                for file in draft.iterdir():
                    file.replace(path / file.name)
            else:
                draft.replace(path)
        finally:
            shutil.rmtree(draft, ignore_errors=True)


@contextmanager
def spool(file: IO[bytes], name: str, shown: str | Path) -> Iterator[Path]:
    """A temporary copy of a stream, since readers may read twice; errors name `shown`."""
    with tempfile.TemporaryDirectory(prefix="tacit-") as folder:
        path = Path(folder) / name
        with written(path, DataError), path.open("wb") as copy:
            shutil.copyfileobj(file, copy)
        try:
            yield path
        except DataError as error:
            if error.path != path:
                raise
            raise DataError(error.message, shown, error.line) from None
