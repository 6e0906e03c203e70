"""Runs as one file: what is in it, how it is unpacked, and what of it is only read."""

from __future__ import annotations

import hashlib
import json
import os
import shutil
import signal
import zipfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import tacit
from rank_processes import in_processes
from rule_runs import CAPITALS, LINKS, rule_run
from tacit.cli.serve import opened_runs
from tacit.errors import RunError, SettingsError
from tacit.graph.stored import TRIE
from tacit.run_folder import saved
from tacit.run_folder.files import CHECKPOINT, FORMAT, MODEL, RESULTS, RULES, SETTINGS
from tacit.run_folder.run_cache import SAVED_PREFIX, is_unpacked, shrink_cache
from tacit.run_folder.saved import MANIFEST

ASKED = "?k : capital_of(c5, ?k)"
FACTS = [*LINKS, *CAPITALS]


@pytest.fixture(autouse=True)
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("TACIT_CACHE", str(tmp_path / "cache"))
    return tmp_path / "cache"


@pytest.fixture
def run(tmp_path: Path) -> tacit.Run:
    return rule_run(tmp_path / "run")


@pytest.fixture
def file(run: tacit.Run, tmp_path: Path) -> Path:
    return run.save(tmp_path / "run.tacit")


def trained(path: Path, **settings: Any) -> tacit.Run:
    return tacit.train(FACTS, path, rank=4, epochs=1, progress=False, **settings)


def test_a_saved_run_answers_as_the_run_does(tmp_path: Path) -> None:
    run = trained(tmp_path / "run")
    opened = tacit.open(run.save(str(tmp_path / "file.tacit")))
    for question in (ASKED, "?a : city_in(?a, k3)", "?a : city_in(?a, ?k) & !capital_of(?a, ?k)"):
        assert opened.ask(question).to_dict()["answers"] == run.ask(question).to_dict()["answers"]
    assert opened.settings == run.settings
    assert opened.results == run.results
    assert tacit.load(tmp_path / "file.tacit").num_entities == 12


def test_a_file_is_a_zip_of_plain_files_with_their_checksums(tmp_path: Path) -> None:
    run = trained(tmp_path / "run")
    (tmp_path / "run" / "notes.txt").write_text("mine")
    with zipfile.ZipFile(run.save(tmp_path / "file.tacit")) as archive:
        contents = {name: archive.read(name) for name in archive.namelist()}
        assert {entry.compress_type for entry in archive.infolist()} == {zipfile.ZIP_STORED}
    manifest = json.loads(contents.pop(MANIFEST))
    assert manifest["format"] == FORMAT
    assert {MODEL, RULES, SETTINGS, RESULTS} <= set(contents)
    assert CHECKPOINT in {path.name for path in (tmp_path / "run").iterdir()}
    assert not {CHECKPOINT, "notes.txt"} & set(contents)
    for name, content in contents.items():
        assert content == (tmp_path / "run" / name).read_bytes()
        assert manifest["files"][name] == [len(content), hashlib.sha256(content).hexdigest()]


def test_equal_runs_are_equal_files(run: tacit.Run, tmp_path: Path, file: Path) -> None:
    shutil.copytree(tmp_path / "run", tmp_path / "copy", copy_function=shutil.copyfile)
    (tmp_path / "copy" / SETTINGS).chmod(0o600)
    copy = tacit.open(tmp_path / "copy").save(tmp_path / "copy.tacit")
    again = tacit.open(file).save(tmp_path / "again.tacit")
    assert file.read_bytes() == copy.read_bytes() == again.read_bytes()


CHANGES: dict[str, Callable[[tacit.Run], object]] = {
    "add": lambda run: run.add([("c6", "city_in", "k0")]),
    "remove": lambda run: run.remove([LINKS[0]]),
    "adapt": lambda run: run.adapt(),
    "drop adapter": lambda run: run.drop_adapter(),
    "encode": lambda run: run.encode(model="gqe"),
    "drop encoder": lambda run: run.drop_encoder(),
    "index": lambda run: run.index(),
    "switch": lambda run: run.switch_rules(off=[0]),
    "add rule": lambda run: run.add_rule("city_in(?x, ?y) => capital_of(?x, ?y)"),
    "drop rule": lambda run: run.drop_rule(0),
}


@pytest.mark.parametrize("change", CHANGES)
def test_a_saved_run_is_only_read(file: Path, change: str) -> None:
    run = tacit.open(file)
    before = file.read_bytes()
    with pytest.raises(RunError, match="a saved run is only read; save it as a folder") as error:
        CHANGES[change](run)
    assert error.value.command == "save FILE RUN"
    assert run.save(file.with_name("after.tacit")).read_bytes() == before


def test_an_evaluation_of_it_is_not_kept(tmp_path: Path) -> None:
    splits = tmp_path / "facts"
    splits.mkdir()
    for name, facts in (("train", FACTS), ("valid", []), ("test", [("c5", "capital_of", "k5")])):
        (splits / f"{name}.tsv").write_text("".join("\t".join(fact) + "\n" for fact in facts))
    trained_run = tacit.train(splits, tmp_path / "run", model="rules", progress=False)
    opened = tacit.open(trained_run.save(tmp_path / "file.tacit"))
    evaluation = opened.evaluate()
    assert "only read" in evaluation.unstored_reason
    assert evaluation.to_json()["mrr"] == trained_run.evaluate().to_json()["mrr"]
    assert "eval" not in opened.results
    assert "eval" in trained_run.results


def test_saved_as_a_folder_it_can_be_changed(file: Path, tmp_path: Path) -> None:
    folder = tacit.open(file).save(tmp_path / "mine")
    mine = tacit.open(folder)
    mine.add([("c5", "capital_of", "k5")])
    assert mine.ask(ASKED)[0].known
    assert not tacit.open(file).ask(ASKED)[0].known
    with pytest.raises(RunError, match="holds a run"):
        tacit.open(file).save(folder)
    tacit.open(file).save(folder, force=True)
    assert not tacit.open(folder).ask(ASKED)[0].known


def test_what_is_there_is_not_replaced_unasked(run: tacit.Run, tmp_path: Path) -> None:
    (tmp_path / "a.tacit").write_text("mine")
    with pytest.raises(RunError, match=r"exists already; .* replace it by `force=True`"):
        run.save(tmp_path / "a.tacit")
    assert (tmp_path / "a.tacit").read_text() == "mine"
    run.save(tmp_path / "a.tacit", force=True)
    assert tacit.open(tmp_path / "a.tacit").ask(ASKED).entities == run.ask(ASKED).entities
    (tmp_path / "b.tacit").mkdir()
    with pytest.raises(RunError, match="exists already"):
        run.save(tmp_path / "b.tacit", force=True)
    with pytest.raises(RunError, match="is the run itself"):
        run.save(tmp_path / "run" / ".." / "run", force=True)
    with pytest.raises(RunError, match="cannot be written"):
        run.save(tmp_path / "nowhere" / "a.tacit")
    with pytest.raises(SettingsError, match="push_to_hub"):
        run.save("hf://me/mine")
    assert run.ask(ASKED).entities


def test_a_trie_is_not_shared_and_not_missed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    pytest.importorskip("marisa_trie")
    monkeypatch.setattr("tacit.graph.labels.spelling.LARGE", 5)
    run = rule_run(tmp_path / "run")
    assert (tmp_path / "run" / TRIE).exists()
    opened = tacit.open(run.save(tmp_path / "file.tacit"))
    assert not (opened.folder.path / TRIE).exists()
    assert opened.ask(ASKED).to_dict() == run.ask(ASKED).to_dict()
    assert opened.entities("c") == run.entities("c")


def test_a_stopped_training_is_not_shared(tmp_path: Path) -> None:
    def interrupt(event: Any) -> None:
        if event.what == "round":
            os.kill(os.getpid(), signal.SIGINT)

    with pytest.raises(KeyboardInterrupt):
        tacit.train(FACTS, tmp_path / "run", rank=4, epochs=500, progress=interrupt)
    with pytest.raises(
        RunError, match=r"stopped after epoch \d+ of 500; go on .* when it is whole"
    ):
        tacit.open(tmp_path / "run").save(tmp_path / "a.tacit")
    run = rule_run(tmp_path / "other")
    (tmp_path / "other" / RULES).unlink()
    with pytest.raises(RunError, match="has no weights to share; train it first"):
        run.save(tmp_path / "a.tacit")
    assert not (tmp_path / "a.tacit").exists()


def test_it_is_unpacked_once_under_its_checksum(
    file: Path, cache: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    first = tacit.open(file)
    assert is_unpacked(first.folder)
    other = file.rename(file.with_name("other.tacit"))
    monkeypatch.setattr(saved, "unpack", None)  # nothing is unpacked again
    assert tacit.open(other).folder.path == first.folder.path
    assert [path.name for path in cache.iterdir()] == [first.folder.path.name]


def _open(number: int, file: Path) -> tuple[str, ...]:
    return tuple(tacit.open(file).ask(ASKED).entities)


def test_processes_unpack_it_together(file: Path, tmp_path: Path, run: tacit.Run) -> None:
    assert (
        in_processes(3, tmp_path / "results", _open, file) == [tuple(run.ask(ASKED).entities)] * 3
    )


def test_an_interrupted_unpacking_goes_on(
    file: Path, cache: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    copied = saved._copied
    names: list[str] = []

    def stopped(source: Any, target: Any) -> tuple[int, str]:
        names.append(source.name)
        if len(names) == 4:
            target.write(b"half")
            raise KeyboardInterrupt
        return copied(source, target)

    monkeypatch.setattr(saved, "_copied", stopped)
    with pytest.raises(KeyboardInterrupt):
        tacit.open(file)
    (folder,) = cache.iterdir()
    assert not (folder / SETTINGS).exists()
    assert tacit.open(file).ask(ASKED).entities
    assert len(set(names)) == len(names) - 1  # the file that was cut short, alone, is read again


def test_the_cache_of_saved_runs_is_bounded(tmp_path: Path, cache: Path) -> None:
    for number in range(3):
        run = tacit.train([*FACTS, ("a", "r", f"b{number}")], tmp_path / f"run{number}",
                          model="rules", progress=False)  # fmt: skip
        tacit.open(run.save(tmp_path / f"{number}.tacit"))
    shrink_cache(SAVED_PREFIX, runs=1)
    assert len([*cache.iterdir()]) == 1
    assert tacit.open(tmp_path / "0.tacit").ask(ASKED).entities


def test_a_served_run_stays_in_the_cache(file: Path, tmp_path: Path) -> None:
    other = tacit.train([*FACTS, ("a", "r", "b")], tmp_path / "o", model="rules", progress=False)
    with opened_runs([str(file)], {}, {}) as runs:
        assert list(runs) == ["run"]
        os.utime(runs["run"].folder.path, (0, 0))
        newer = tacit.open(other.save(tmp_path / "other.tacit")).folder.path
        shrink_cache(SAVED_PREFIX, runs=1)
        assert runs["run"].folder.path.exists()
    shrink_cache(SAVED_PREFIX, runs=1)
    assert (runs["run"].folder.path.exists(), newer.exists()) == (False, True)


def test_a_cache_that_cannot_be_written_is_named(
    file: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "taken").write_text("")
    monkeypatch.setenv("TACIT_CACHE", str(tmp_path / "taken"))
    with pytest.raises(RunError, match="set TACIT_CACHE to a folder that can be written"):
        tacit.open(file)
