"""Graphs by name, folder or file."""

from __future__ import annotations

import gzip
from pathlib import Path

import pytest

from tacit.errors import DataError
from tacit.graph import datasets
from tacit.graph.builder import Builder
from tacit.graph.datasets import load
from tacit.graph.formats.files import lines
from tacit.graph.settings import ReadSettings


def write(folder: Path, **parts: str) -> None:
    for part, text in parts.items():
        (folder / f"{part}.txt").write_text(text)


def test_a_folder_has_three_parts_with_shared_ids(tmp_path: Path) -> None:
    folder = tmp_path / "abc"
    folder.mkdir()
    write(folder, train="a\tr\tb\nb\tr\tc\n", valid="c\tr\ta\n", test="a\tr\tc\n")
    graph = load(str(folder))
    assert graph.name == "abc"
    assert graph.entities.labels == ["a", "b", "c"]
    assert graph.facts().tolist() == [[0, 0, 1], [1, 0, 2], [2, 0, 0], [0, 0, 2]]
    assert graph.notes == ()


def test_formats_may_be_mixed_in_a_folder(tmp_path: Path) -> None:
    write(tmp_path, train="a\tr\tb\n")
    (tmp_path / "valid.csv").write_text("b,r,a\n")
    (tmp_path / "test.tsv").write_text("a\tr\ta\n")
    assert load(tmp_path).facts().tolist() == [[0, 0, 1], [1, 0, 0], [0, 0, 0]]


def test_capital_letters_make_no_other_splits_and_hidden_files_no_facts(tmp_path: Path) -> None:
    for name in ("Train.tsv", "VALID.TSV", "test.Txt"):
        (tmp_path / name).write_text(f"a\tr\t{name}\n")
    graph = load(tmp_path)
    assert [len(graph.split(split)) for split in ("train", "valid", "test")] == [1, 1, 1]
    for name in ("VALID.TSV", "test.Txt"):
        (tmp_path / name).unlink()
    (tmp_path / "Train.tsv").rename(tmp_path / "facts.tsv")
    # what another system leaves beside a file
    (tmp_path / "._facts.tsv").write_bytes(b"\0\x05\x16\x07")
    assert len(load(tmp_path).train) == 1


def test_duplicates_are_dropped_and_counted_once(tmp_path: Path) -> None:
    write(
        tmp_path,
        train="a\tr\tb\nb\tr\tc\na\tr\tb\na\tr\tb\n",
        valid="c\tr\ta\na\tr\tb\nc\tr\ta\n",
        test="a\tr\tc\nc\tr\ta\nb\tr\tc\n",
    )
    graph = load(tmp_path)
    assert graph.train.tolist() == [[0, 0, 1], [1, 0, 2]]
    assert graph.valid.tolist() == [[2, 0, 0]]
    assert graph.test.tolist() == [[0, 0, 2]]
    assert graph.notes == (
        "train: 2 duplicate facts dropped",
        "valid: 1 duplicate fact dropped",
        "valid: 1 fact dropped that train has too",
        "test: 2 facts dropped that train or valid has too",
    )


def test_facts_about_the_unseen_are_kept_but_not_evaluated(tmp_path: Path) -> None:
    write(
        tmp_path, train="a\tr\tb\n", valid="b\tr\ta\nb\ts\ta\n", test="b\tr\tb\nz\tr\ta\na\tr\ty\n"
    )
    graph = load(tmp_path)
    assert len(graph.valid) == 2
    assert len(graph.test) == 3
    assert graph.evaluable("valid").tolist() == [[1, 0, 0]]
    assert graph.evaluable("test").tolist() == [[1, 0, 1]]
    assert graph.notes == (
        "valid: 1 fact that nothing is learned about: it names entities or relations not in train",
        "test: 2 facts that nothing is learned about: they name entities or relations not in train",
    )


def test_what_is_not_there_is_named(tmp_path: Path) -> None:
    with pytest.raises(
        DataError, match=r"wrold: no such file or folder, nor a data set \(there is world\)"
    ):
        load("wrold")
    with pytest.raises(
        DataError, match=r"has no train or valid or test file; expected train, valid and test"
    ):
        load(tmp_path)
    write(tmp_path, train="a\tr\tb\n", test="b\tr\ta\n")
    with pytest.raises(DataError, match="has no valid file"):
        load(tmp_path)


def test_a_part_that_is_there_twice_or_is_a_folder_is_named(tmp_path: Path) -> None:
    write(tmp_path, train="a\tr\tb\n", valid="b\tr\ta\n", test="a\tr\ta\n")
    (tmp_path / "valid.tsv").write_text("b\tr\tb\n")
    with pytest.raises(DataError, match=r"has both valid\.tsv and valid\.txt"):
        load(tmp_path)
    (tmp_path / "valid.tsv").unlink()
    (tmp_path / "valid.txt").unlink()
    (tmp_path / "valid.txt").mkdir()
    with pytest.raises(DataError, match=r"valid\.txt: is a folder where a file is expected"):
        load(tmp_path)


@pytest.mark.parametrize("name", ["graph.xlsx", "graph", "graph.json.gz"])
def test_an_unknown_extension_is_named_with_those_that_work(tmp_path: Path, name: str) -> None:
    (tmp_path / name).write_text("a\tr\tb\n")
    with pytest.raises(
        DataError, match=r"unknown extension '.*'; Tacit reads .*\.tsv.* and folders"
    ):
        load(tmp_path / name)


def test_an_unreadable_file_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "loop.tsv").symlink_to(tmp_path / "loop.tsv")
    with pytest.raises(DataError, match=r"loop\.tsv"):
        load(tmp_path / "loop.tsv")
    with pytest.raises(DataError, match="cannot be read"):
        load("x" * 5000)

    def refuse(folder: Path) -> None:
        raise PermissionError(13, "Permission denied")

    monkeypatch.setattr(Path, "iterdir", refuse)  # as of a folder of somebody else
    with pytest.raises(DataError, match=r"cannot be read \(Permission denied\)"):
        load(tmp_path)


def test_a_format_is_a_reader_and_an_extension(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def read_arrows(path: Path, split: str, builder: Builder, reading: ReadSettings) -> None:
        """Adds facts such as `France --borders--> Spain`, one a line."""
        for number, line in lines(path):
            fields = line.replace("-->", "--").split("--")
            if len(fields) != 3:
                raise DataError("is no arrow", path, number)
            builder.add(split, [field.strip() for field in fields])

    monkeypatch.setitem(datasets.FORMATS, ".arrows", read_arrows)
    (tmp_path / "europe.arrows").write_text("France --borders--> Spain\nParis --in--> France\n")
    graph = load(tmp_path / "europe.arrows")
    assert graph.name == "europe"
    assert graph.entities.labels == ["France", "Spain", "Paris"]
    assert graph.train.tolist() == [[0, 0, 1], [2, 2, 0]]
    (tmp_path / "asia.tsv").write_text("Oman\tborders\tYemen\n")
    assert load(tmp_path).num_entities == 5  # files of facts beside each other
    folder = tmp_path / "splits"
    folder.mkdir()
    (folder / "train.arrows.gz").write_bytes(gzip.compress(b"a --r--> b\n"))
    (folder / "valid.tsv").write_text("b\tr\ta\n")
    (folder / "test.arrows").write_text("a --r--> a\n")
    assert load(folder).facts().tolist() == [[0, 0, 1], [1, 0, 0], [0, 0, 0]]
    (tmp_path / "bad.arrows").write_text("a --r--> b\na\n")
    with pytest.raises(DataError, match=r"bad\.arrows, line 2: is no arrow"):
        load(tmp_path / "bad.arrows")
