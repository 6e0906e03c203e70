"""Saved runs: the files of a run and a list of their checksums, in one archive.

An archive is a zip of stored files, so that nothing in it can be larger than the archive itself.
"""

from __future__ import annotations

import json
import stat
from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager, suppress
from dataclasses import dataclass
from hashlib import file_digest, sha256
from pathlib import Path
from typing import IO, Self
from zipfile import ZIP_STORED, ZipFile, ZipInfo

from tacit import disk
from tacit.errors import RunError, TacitError
from tacit.run_folder.files import FORMAT, SETTINGS, is_saved_file

MANIFEST = "tacit.json"
SUFFIX = ".tacit"
_NO_DATE = (1980, 1, 1, 0, 0, 0)  # the first that a zip can hold
_MODE = stat.S_IFREG | 0o644
_LONGEST = 1 << 20  # bytes of a manifest
_BLOCK = 1 << 20
_UPDATE = "update with: pip install --upgrade tacit-kg"

# opens a file of a saved run by its name
OpenFile = Callable[[str], AbstractContextManager[IO[bytes]]]


@dataclass(frozen=True)
class Manifest:
    """The files of a saved run: of each the size and the SHA-256."""

    files: Mapping[str, tuple[int, str]]

    @classmethod
    def of(cls, folder: Path) -> Self:
        """The manifest of the run in a folder."""
        return cls({name: _checksum(folder / name) for name in saved_names(folder)})

    @classmethod
    def parse(cls, data: bytes, source: str) -> Self:
        """Read a manifest, which strangers may have written."""
        try:
            if len(data) > _LONGEST:
                raise ValueError("it is longer than 1 MB")
            content = disk.from_json(data)
            written_in = content["format"]
            if written_in != FORMAT:
                newer = type(written_in) is int and written_in > FORMAT
                raise RunError(
                    f"{source} is in format {written_in!r:.40} of runs, and this version of Tacit "
                    f"reads {FORMAT}; {_UPDATE if newer else 'train and save the run again'}"
                )
            files = {name: (size, digest) for name, (size, digest) in content["files"].items()}
        except (ValueError, TypeError, LookupError, AttributeError) as error:
            raise RunError(f"{source} is no saved run: {MANIFEST} is damaged ({error})") from None
        for name, (size, digest) in files.items():
            if not is_saved_file(name):
                raise RunError(f"{source} holds {name!r:.80}, which is no file of a saved run")
            if type(size) is not int or size < 0 or type(digest) is not str:
                raise RunError(f"{source} is no saved run: {MANIFEST} is damaged at {name}")
        if SETTINGS not in files:
            raise RunError(f"{source} is no saved run: it has no {SETTINGS}")
        return cls(files)

    def to_bytes(self) -> bytes:
        """The manifest as it is written; equal runs have equal ones."""
        content = {"format": FORMAT, "files": self.files}
        return (json.dumps(content, indent=1, sort_keys=True) + "\n").encode()

    @property
    def checksum(self) -> str:
        """A short hash of all content."""
        return sha256(self.to_bytes()).hexdigest()[:24]


def is_archive_name(path: str | Path) -> bool:
    """Whether a path has the name of an archive, `*.tacit`."""
    return Path(path).suffix.lower() == SUFFIX


def saved_names(folder: Path) -> list[str]:
    """The files of the run in a folder that it is shared with, in order."""
    return sorted(path.name for path in folder.iterdir() if is_saved_file(path.name))


def write_archive(folder: Path, out: Path) -> None:
    """Write the run in a folder to an archive, whose bytes depend on its files alone."""
    files = {}
    with disk.reading(folder), disk.replacing(out) as target, ZipFile(target, "w") as archive:
        for name in saved_names(folder):
            size = (folder / name).stat().st_size
            with (
                (folder / name).open("rb") as source,
                archive.open(_entry(name, size), "w") as member,
            ):
                files[name] = _copied(source, member)
        data = Manifest(files).to_bytes()
        archive.writestr(_entry(MANIFEST, len(data)), data)


@contextmanager
def opened_archive(path: Path) -> Iterator[tuple[Manifest, OpenFile]]:
    """Yield the manifest of an archive and what opens its files, once its list is checked."""
    with _reading_archive(path), ZipFile(path) as archive:
        entries = archive.infolist()
        sizes = {entry.filename: entry.file_size for entry in entries}
        for entry in entries:
            kind = stat.S_IFMT(entry.external_attr >> 16)
            packed = entry.compress_type != ZIP_STORED or entry.compress_size != entry.file_size
            if packed or entry.flag_bits & 1 or kind not in (0, stat.S_IFREG):
                raise RunError(
                    f"{path} holds {entry.filename!r:.80}, which is packed, encrypted or a link; "
                    "the files of a saved run are plain"
                )
        total = sum(sizes.values())
        if len(sizes) != len(entries) or total > path.stat().st_size:
            raise RunError(f"{path} is no saved run: its files overlap or are named twice")
        if sizes.get(MANIFEST, _LONGEST + 1) > _LONGEST:
            raise RunError(f"{path} is no saved run: it has no {MANIFEST} of at most 1 MB")
        manifest = Manifest.parse(archive.read(MANIFEST), str(path))
        if sizes != {MANIFEST: sizes[MANIFEST]} | {n: s for n, (s, _) in manifest.files.items()}:
            raise RunError(f"{path} is damaged: its files are not those of its {MANIFEST}")
        yield manifest, archive.open


@contextmanager
def _reading_archive(path: Path) -> Iterator[None]:
    """Turn what damaged zips raise, which can be nearly anything, into a `RunError`."""
    try:
        yield
    except (TacitError, KeyboardInterrupt, MemoryError):
        raise
    except Exception as error:
        raise RunError(
            f"{path} is truncated, damaged or no saved run ({error!s:.100}); get it once more"
        ) from None


def unpack(manifest: Manifest, open_file: OpenFile, folder: Path, source: str) -> None:
    """Write the files of a saved run to a folder, each checked; what is there already stays.

    The settings come last: a folder without them is no run.
    """
    for name in sorted(manifest.files, key=lambda name: (name == SETTINGS, name)):
        path = folder / name
        with suppress(OSError):  # of an unpacking that was interrupted
            if _checksum(path) == manifest.files[name]:
                continue
        with open_file(name) as content, disk.replacing(path) as target:
            with target.open("wb") as file:
                found = _copied(content, file)
            if found != manifest.files[name]:
                raise RunError(
                    f"{source} is damaged: {name} is not the file that its {MANIFEST} names; get "
                    "it once more from whoever saved it"
                )


def _entry(name: str, size: int) -> ZipInfo:
    """The entry of a file, the same on every system and at any time."""
    entry = ZipInfo(name, _NO_DATE)
    entry.create_system = 3  # which says how the mode is to be read
    entry.external_attr = _MODE << 16
    entry.file_size = size
    return entry


def _copied(source: IO[bytes], target: IO[bytes]) -> tuple[int, str]:
    """Copy a stream; the size and the SHA-256 of what it held."""
    hashed = sha256()
    size = 0
    while block := source.read(_BLOCK):
        target.write(block)
        hashed.update(block)
        size += len(block)
    return size, hashed.hexdigest()


def _checksum(path: Path) -> tuple[int, str]:
    """The size and the SHA-256 of a file."""
    with path.open("rb") as file:
        digest = file_digest(file, "sha256").hexdigest()
        return file.tell(), digest
