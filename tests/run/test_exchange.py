"""Files exchanged together are all old or all new, whenever a process is killed."""

from __future__ import annotations

import os
import shutil
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from unittest.mock import patch

import pytest

from tacit.disk import DRAFT, LOCK, exchanging, finish_exchange, is_device, reading, replacing
from tacit.errors import RunError
from tacit.graph.formats.files import atomic_file
from tacit.graph.formats.writing import INTEGER, write_table

OLD = {"a": "old", "b": "old", "gone": "old"}
NEW = {"a": "new", "b": "new", "c": "new"}


@contextmanager
def images(folder: Path, into: Path) -> Iterator[list[Path]]:
    """Copies of a folder from before each operation that renames a file in it."""
    copies: list[Path] = []

    def keep() -> None:
        copies.append(into / str(len(copies)))
        shutil.copytree(folder, copies[-1])

    def watched(name: str):  # type: ignore[no-untyped-def]
        original = getattr(Path, name)

        def call(self: Path, *arguments: object, **more: object) -> object:
            # what is not decided is thrown away, however much of it there is
            if self.parent.name != DRAFT:
                keep()
            return original(self, *arguments, **more)

        return patch.object(Path, name, call)

    with (
        watched("rename"),
        watched("replace"),
        watched("unlink"),
        watched("rmdir"),
        watched("mkdir"),
    ):
        yield copies
    keep()


def written(folder: Path) -> dict[str, str]:
    return {
        file.name: file.read_text()
        for file in folder.iterdir()
        if file.is_file() and file.name != LOCK
    }


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    folder = tmp_path / "folder"
    folder.mkdir()
    for name, text in OLD.items():
        (folder / name).write_text(text)
    return folder


def exchange(folder: Path) -> None:
    with exchanging(folder, "gone".__eq__) as draft:
        for name, text in NEW.items():
            (draft / name).write_text(text)


def test_a_crash_at_any_moment_leaves_all_old_or_all_new(folder: Path, tmp_path: Path) -> None:
    with images(folder, tmp_path / "images") as copies:
        exchange(folder)
    assert written(folder) == NEW
    seen = []
    for image in copies:
        # who makes up for a crash may crash as well
        with images(image, tmp_path / f"again-{image.name}") as again:
            finish_exchange(image)
        assert written(image) in (OLD, NEW)
        seen.append(written(image) == NEW)
        for second in again:
            finish_exchange(second)
            assert written(second) == written(image)
    assert seen == sorted(seen)
    assert True in seen[:-1]
    assert False in seen


def test_what_raises_or_writes_nothing_changes_nothing(folder: Path) -> None:
    with pytest.raises(KeyError), exchanging(folder, "gone".__eq__) as draft:
        raise KeyError((draft / "a").write_text("half"))
    with exchanging(folder, "gone".__eq__):
        pass
    assert written(folder) == OLD
    assert not (folder / DRAFT).exists()


def test_one_exchange_waits_for_another_and_readers_for_the_moment_of_change(folder: Path) -> None:
    for name in "ab":
        (folder / name).write_text("0")

    def count() -> None:
        with exchanging(folder) as draft:
            (draft / "a").write_text(str(int((folder / "a").read_text()) + 1))
            (draft / "b").write_text((draft / "a").read_text())

    def read_repeatedly() -> None:
        while writers[-1].is_alive():
            with reading(folder):
                seen.append((folder / "a").read_text() == (folder / "b").read_text())

    seen: list[bool] = []
    writers = [threading.Thread(target=count, daemon=True) for _ in range(8)]
    reader = threading.Thread(target=read_repeatedly, daemon=True)
    for thread in (*writers, reader):
        thread.start()
    for thread in (*writers, reader):
        thread.join()
    assert (folder / "a").read_text() == "8"
    assert seen
    assert all(seen)


def test_a_folder_that_cannot_be_written_is_an_error_of_ours(tmp_path: Path) -> None:
    with pytest.raises(RunError, match="cannot be written"), exchanging(tmp_path / "absent"):
        pass


def by_write(path: Path) -> None:
    with replacing(path) as target:
        target.write_bytes(b"new")


def by_file(path: Path) -> None:
    with atomic_file(path) as file:
        file.write(b"new")


def by_parquet(path: Path) -> None:
    pytest.importorskip("duckdb")
    write_table(path, {"a": INTEGER}, [(1,)], ".parquet")


@pytest.mark.skipif(os.name == "nt", reason="devices are no files there")
@pytest.mark.parametrize("write", [by_write, by_file, by_parquet])
def test_devices_and_pipes_are_written_to_and_stay(
    tmp_path: Path, write: Callable[[Path], None]
) -> None:
    null = tmp_path / "null"
    pipe = tmp_path / "pipe"
    got = list[bytes]()
    null.symlink_to(os.devnull)  # replacing the device itself would break the machine
    write(null)
    os.mkfifo(pipe)
    reader = threading.Thread(target=lambda: got.append(pipe.read_bytes()), daemon=True)
    reader.start()
    write(pipe)
    reader.join(10)
    assert got[0][:4] in (b"new", b"PAR1")
    assert (null.is_symlink(), pipe.is_fifo(), {file.name for file in tmp_path.iterdir()}) == (
        True,
        True,
        {"null", "pipe"},
    )
    assert all(is_device(Path(name)) for name in ("/dev/null", "/dev/stdout"))
    with (tmp_path / "shown").open("wb") as shown:  # as stdout may be
        (tmp_path / "there").symlink_to(f"/dev/fd/{shown.fileno()}")
        write(tmp_path / "there")
    assert (tmp_path / "there").is_symlink()
    assert (tmp_path / "shown").read_bytes()
    assert not any(is_device(path) for path in (tmp_path, tmp_path / "file", Path(__file__)))
