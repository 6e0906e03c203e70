"""What is written to a run folder at once, on full disks, and by several threads and processes."""

from __future__ import annotations

import errno
import os
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from pathlib import Path

import pytest
import torch

from tacit.disk import LOCK, TEMPORARY, replacing, write_text
from tacit.errors import LimitError, RunError
from tacit.graph.graph import Graph
from tacit.run_folder.files import ADAPTER, MODEL, RESULTS
from tacit.run_folder.folder import RunFolder

GRAPH = Graph.of(
    [("a", "r", "b"), ("b\\n", "r", "line\nbreak"), ("\u2028é", "s", "a")],
    [("a", "s", "b")],
    [("b", "r", "a")],
    "five",
)


@pytest.fixture
def run(tmp_path: Path) -> RunFolder:
    return RunFolder.create(
        tmp_path / "run", GRAPH, {"rank": 3, "lr": 0.1, "model": 'a "b"', "memory": None}
    )


def test_results_that_threads_write_at_once_are_all_kept(tmp_path: Path) -> None:
    run = RunFolder.create(tmp_path / "run", GRAPH, {})

    def measure(number: int) -> None:
        with RunFolder.open(run.path).changed_results() as results:
            time.sleep(0.01)
            results[f"figure {number}"] = number

    with ThreadPoolExecutor(8) as threads:
        list(threads.map(measure, range(8)))
    run.tidy()
    measure(8)  # where nobody has left the lock to
    assert {name for name in run.results() if name != "versions"} == {
        f"figure {number}" for number in range(9)
    }


def test_tidying_leaves_what_others_are_writing(tmp_path: Path) -> None:
    """A file that a process killed while writing has left behind goes, one under way stays."""
    run = RunFolder.create(tmp_path / "run", GRAPH, {})
    left = run.path / f"{TEMPORARY}0123abcd-model.safetensors"
    left.touch()
    for replaces_file in (False, True):  # some writers make the file they are given anew
        with replacing(run.path / "codes.npy") as target:
            target.write_bytes(b"half")
            run.tidy()
            target.write_bytes(b"whole")
            if replaces_file:
                target.rename(target.with_suffix(".moved"))
                target.with_suffix(".moved").rename(target)
        assert (run.path / "codes.npy").read_bytes() == b"whole"
    assert not left.exists()


def test_half_written_tensors_go_once_nobody_writes_any(tmp_path: Path) -> None:
    """A killed process leaves them under the name that safetensors gave them."""
    run = RunFolder.create(tmp_path / "run", GRAPH, {})
    left = run.path / ".tmpaB3xY9"
    foreign = run.path / ".tmp-of-somebody"
    for path in (left, foreign):
        path.touch()
    with ThreadPoolExecutor(1) as threads:
        with run.lock_graph():  # as whoever writes tensors
            tidied = threads.submit(run.tidy)
            time.sleep(0.1)
            there = left.exists()
        tidied.result(10)
    assert (there, left.exists(), foreign.exists()) == (True, False, True)
    left.touch()
    foreign.unlink()
    RunFolder.create(run.path, GRAPH, {}, force=True)
    assert not left.exists()


def test_a_run_is_written_where_folders_cannot_be_opened(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As on Windows, which also forces no file to disk that is open for reading alone."""
    opened = os.open

    def windows(path: str | Path, flags: int, *more: int) -> int:
        if Path(path).is_dir():
            raise PermissionError(errno.EACCES, "Permission denied")
        if Path(path).is_file() and not flags & (os.O_WRONLY | os.O_RDWR):
            raise OSError(errno.EBADF, "Bad file descriptor")
        return opened(path, flags, *more)

    monkeypatch.setattr("os.open", windows)
    run = RunFolder.create(tmp_path / "run", GRAPH, {})
    run.write_results({"a": 1})
    monkeypatch.undo()
    assert RunFolder.open(run.path).results()["a"] == 1


def test_a_full_disk_keeps_what_was_there(run: RunFolder, monkeypatch: pytest.MonkeyPatch) -> None:
    run.write_tensors(MODEL, {"table": torch.ones(2)})

    def full(*_: object) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr("os.fsync", full)
    with pytest.raises(LimitError, match="disk is full"):
        run.write_tensors(MODEL, {"table": torch.zeros(2)})
    with pytest.raises(LimitError, match="disk is full"):
        run.write_results({})
    monkeypatch.undo()
    assert torch.equal(run.tensors(MODEL)["table"], torch.ones(2))
    assert not [
        path
        for path in run.path.iterdir()
        if path.name.startswith(".") and not path.name.startswith(LOCK)
    ]


def test_a_full_disk_under_the_tensor_writer(
    run: RunFolder, monkeypatch: pytest.MonkeyPatch
) -> None:
    from safetensors import SafetensorError

    def full(*_: object) -> None:
        raise SafetensorError(
            "Error while serializing: I/O error: No space left on device (os error 28)"
        )

    monkeypatch.setattr("safetensors.torch.save_file", full)
    with pytest.raises(LimitError, match="disk is full"):
        run.write_tensors(MODEL, {"table": torch.zeros(2)})


def test_a_file_system_to_be_read_alone(run: RunFolder, monkeypatch: pytest.MonkeyPatch) -> None:
    def refused(path: Path, missing_ok: bool = False) -> None:  # whether the file is there or not
        raise OSError(errno.EROFS, "Read-only file system", str(path))

    run.write_results({})
    for name in ("touch", "unlink"):
        monkeypatch.setattr(Path, name, refused)
    run.remove(MODEL)  # which it has not
    for change in (
        lambda: run.write_results({}),
        lambda: run.remove(RESULTS),
        lambda: RunFolder.create(run.path, GRAPH, {}, force=True),
    ):
        with pytest.raises(RunError, match=r"cannot be written \(Read-only file system\)"):
            change()


def test_threads_that_write_a_file_at_once_leave_one_of_theirs(run: RunFolder) -> None:
    path = run.path / RESULTS
    other = threading.Thread(target=write_text, args=(path, "short"), daemon=True)
    with replacing(path) as target, target.open("w") as file:
        file.write("a long text, ")
        file.flush()
        other.start()
        other.join()
        assert path.read_text() == "short"
        file.write("and its end")
    assert path.read_text() == "a long text, and its end"


def test_settings_that_threads_write_at_once_are_all_kept(
    run: RunFolder, monkeypatch: pytest.MonkeyPatch
) -> None:
    def slowly(path: Path, text: str) -> None:  # between what was read and what is written
        time.sleep(0.01)
        write_text(path, text)

    monkeypatch.setattr("tacit.disk.write_text", slowly)
    with ThreadPoolExecutor(8) as threads:
        list(
            threads.map(
                lambda n: RunFolder.open(run.path).write_settings(f"table{n}", {"n": n}), range(8)
            )
        )
    assert {name: run.settings[name] for name in run.settings if name.startswith("table")} == {
        f"table{n}": {"n": n} for n in range(8)
    }
    assert run.settings["train"]["rank"] == 3


def test_files_that_are_rewritten_together_are_all_old_or_all_new(run: RunFolder) -> None:
    with suppress(KeyError), run.rewrite() as draft:
        draft.write_tensors(ADAPTER, {"table": torch.zeros(1)})
        draft.write_settings("adapt", {"steps": 1})
        raise KeyError
    assert not run.has(ADAPTER)
    assert "adapt" not in run.settings
    with run.rewrite() as draft:
        draft.write_tensors(ADAPTER, {"table": torch.ones(1)})
        draft.write_settings("adapt", {"steps": 1})
    assert torch.equal(run.tensors(ADAPTER)["table"], torch.ones(1))
    assert (run.settings["adapt"], run.settings["train"]["rank"]) == ({"steps": 1}, 3)
