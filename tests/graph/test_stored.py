"""Graphs in run files: mapping, checks, and reading without optional packages."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from tacit.disk import digest
from tacit.errors import DataError, RunError
from tacit.graph.fact_index import FactIndex
from tacit.graph.graph import SPLITS, Graph, no_triples
from tacit.graph.labels.vocabulary import LabelTrie, Vocabulary
from tacit.graph.stored import FACTS, FOLDED, KEYS, NAMES, TAILS, TRIE, TRIE_IDS, WORDS
from tacit.run_folder.files import SETTINGS
from tacit.run_folder.folder import RunFolder

LABELS = ["New York", "\u2028é", "b\\n", "line\nbreak", " tab\t", "y-ork", "Québec"]
GRAPH = Graph.of(
    [(a, "r", b) for a in LABELS for b in LABELS[::2] if a != b],
    [("b\\n", "s", "y-ork")],
    [("y-ork", "s", "b\\n")],
).named({"y-ork": ["Eboracum", "Jorvik"], "r": ["near"]})


@pytest.fixture
def few_are_many(monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("marisa_trie")
    monkeypatch.setattr("tacit.graph.labels.spelling.LARGE", 5)


def same(graph: Graph, other: Graph) -> bool:
    return (
        (graph.entities, graph.relations, graph.name)
        == (other.entities, other.relations, other.name)
        and (graph.entities.names, graph.relations.names)
        == (other.entities.names, other.relations.names)
        and all(np.array_equal(graph.split(split), other.split(split)) for split in SPLITS)
    )


def test_a_run_opens_without_sorting_its_facts(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    RunFolder.create(tmp_path / "run", GRAPH, {})
    monkeypatch.setattr(FactIndex, "__init__", lambda *_: pytest.fail("sorted"))
    graph = RunFolder.open(tmp_path / "run").graph()
    monkeypatch.undo()
    assert same(graph, GRAPH)
    index = graph.index()
    fresh = FactIndex(GRAPH.triples(), GRAPH.num_relations)
    for name in ("keys", "offsets", "all_tails"):
        assert np.array_equal(getattr(index, name), getattr(fresh, name))
        assert getattr(index, name).dtype == getattr(fresh, name).dtype
    assert np.array_equal(graph.index("valid").all_tails, GRAPH.index("valid").all_tails)


def test_who_writes_into_facts_changes_no_file(tmp_path: Path) -> None:
    run = RunFolder.create(tmp_path / "run", GRAPH, {})
    graph = run.graph()
    graph.train[:] = 0
    graph.index().all_tails[:] = 0
    assert same(RunFolder.open(run.path).graph(), GRAPH)


def test_a_run_without_facts_opens(tmp_path: Path) -> None:
    empty = replace(GRAPH, train=no_triples(), valid=no_triples(), test=no_triples())
    RunFolder.create(tmp_path / "run", empty, {})
    graph = RunFolder.open(tmp_path / "run").graph()
    assert same(graph, empty)
    assert len(graph.index()) == 0


@pytest.mark.parametrize("fact", [(0, 0, 7), (0, 4, 1), (-1, 0, 1)])
def test_ids_without_labels_are_refused_before_they_are_written(
    tmp_path: Path, fact: tuple[int, int, int]
) -> None:
    with pytest.raises(DataError, match="ids without labels"):
        RunFolder.create(
            tmp_path / "run", replace(GRAPH, valid=np.array([fact], dtype=np.int32)), {}
        )


@pytest.mark.usefixtures("few_are_many")
def test_many_labels_open_as_a_trie_and_few_as_a_list(tmp_path: Path) -> None:
    RunFolder.create(tmp_path / "run", GRAPH, {})
    graph = RunFolder.open(tmp_path / "run").graph()
    assert isinstance(graph.entities.labels, LabelTrie)
    assert isinstance(graph.relations.labels, list)
    assert same(graph, GRAPH)
    assert same(graph.named({"y-ork": ["Eoforwic"]}), GRAPH.named({"y-ork": ["Eoforwic"]}))
    for typed in ("york", "y", "ebo", "quebec", "q"):
        assert graph.entities.complete(typed) == GRAPH.entities.complete(typed)
        assert graph.entities.nearest(typed) == GRAPH.entities.nearest(typed)
    again = RunFolder.create(tmp_path / "again", graph, {})
    assert again.settings["graph"] == RunFolder.open(tmp_path / "run").settings["graph"]


@pytest.mark.usefixtures("few_are_many")
def test_a_trie_is_not_needed_to_open_a_run_that_has_one(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    RunFolder.create(tmp_path / "run", GRAPH, {})
    monkeypatch.setattr("tacit.graph.stored.find_spec", lambda _: None)
    graph = RunFolder.open(tmp_path / "run").graph()
    assert isinstance(graph.entities.labels, list)
    assert same(graph, GRAPH)
    assert graph.entities.complete("ebo") == ["Eboracum"]
    monkeypatch.setattr("tacit.graph.labels.vocabulary.find_spec", lambda _: None)
    RunFolder.create(tmp_path / "other", GRAPH, {})
    assert not (tmp_path / "other" / TRIE).exists()
    assert same(RunFolder.open(tmp_path / "other").graph(), GRAPH)


@pytest.mark.usefixtures("few_are_many")
def test_names_may_be_changed_and_are_completed_as_they_are(tmp_path: Path) -> None:
    run = RunFolder.create(tmp_path / "run", GRAPH, {})
    (run.path / NAMES).write_text("New York\tBig Apple\ny-ork\tJorvik\n", encoding="utf-8")
    entities = RunFolder.open(run.path).graph().entities
    assert entities.complete("app") == ["Big Apple"]
    assert entities.complete("ebo") == []
    (run.path / NAMES).unlink()
    assert RunFolder.open(run.path).graph().entities.complete("jor") == []


def test_names_may_be_written_by_any_editor(tmp_path: Path) -> None:
    run = RunFolder.create(tmp_path / "run", GRAPH, {})
    (run.path / NAMES).write_bytes("\ufeffNew York\tBig Apple\r\n\r\ny-ork\tJorvik".encode())
    assert RunFolder.open(run.path).graph().entities.names == {
        "New York": ("Big Apple",),
        "y-ork": ("Jorvik",),
    }
    (run.path / NAMES).write_text("r\tclose\n")
    assert RunFolder.open(run.path).graph().relations.names == {
        "r": ("close",),
        "r^-1": ("close^-1",),
    }
    (run.path / NAMES).write_text("r\tclose\nr^-1\tclose to\n")
    renamed = RunFolder.open(run.path).graph()
    assert renamed.relations.names == {"r": ("close",), "r^-1": ("close to",)}
    assert same(RunFolder.create(tmp_path / "again", renamed, {}).graph(), renamed)
    (run.path / NAMES).write_text("New York\tBig Apple\ny-ork Jorvik\n")
    with pytest.raises(
        DataError, match=r"names.tsv, line 2: has no name; expected a label, a tab and its name"
    ):
        RunFolder.open(run.path).graph()
    marked = Graph.of([("\ufeffa", "r", "b")]).named({"\ufeffa": ["Anna"]})
    assert same(RunFolder.create(tmp_path / "marked", marked, {}).graph(), marked)


@pytest.mark.usefixtures("few_are_many")
@pytest.mark.parametrize(
    "name", [FACTS, KEYS, TAILS, TRIE, TRIE_IDS, WORDS, FOLDED, "relations.txt"]
)
def test_a_file_that_is_cut_changed_or_gone_is_named(tmp_path: Path, name: str) -> None:
    run = RunFolder.create(tmp_path / "run", GRAPH, {})
    path = run.path / name
    whole = path.read_bytes()
    for content in (whole[:-1], whole[:-1] + bytes([whole[-1] ^ 1]), whole + b"\0", b""):
        path.write_bytes(content)
        with pytest.raises(
            RunError, match=rf"not those the run was made with \({name} was changed\)"
        ):
            RunFolder.open(run.path).graph()
    path.unlink()
    if name in (TRIE, TRIE_IDS):  # the text is read in their place
        assert same(RunFolder.open(run.path).graph(), GRAPH)
        return
    with pytest.raises(RunError, match=f"has no {name}; train the run again"):
        RunFolder.open(run.path).graph()


def test_a_run_of_an_earlier_version_is_to_be_trained_again(tmp_path: Path) -> None:
    run = RunFolder.create(tmp_path / "run", GRAPH, {})
    settings = (run.path / SETTINGS).read_text(encoding="utf-8")
    (run.path / SETTINGS).write_text(settings.replace("format = 2\n", ""), encoding="utf-8")
    (run.path / "facts.npz").write_bytes(b"PK")
    with pytest.raises(RunError, match=r"another version of Tacit, .* train the run again"):
        RunFolder.open(run.path)
    RunFolder.create(run.path, GRAPH, {}, force=True)
    assert same(RunFolder.open(run.path).graph(), GRAPH)
    assert not (run.path / "facts.npz").exists()


def test_a_digest_tells_large_files_apart(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tacit.disk._BLOCK", 8)
    monkeypatch.setattr("tacit.disk._BLOCKS", 16)
    content = np.random.default_rng(0).bytes(1000)
    path = tmp_path / "file"

    def digest_of(changed: bytes) -> str:
        path.write_bytes(changed)
        return digest(path)

    assert digest_of(content) == digest_of(content)
    assert (
        len(
            {
                digest_of(content),
                digest_of(content[:-1]),
                digest_of(content[1:]),
                digest_of(content[::-1]),
                digest_of(content + b"x"),
            }
        )
        == 5
    )
    ends = [bytes([content[0] ^ 1]) + content[1:], content[:-1] + bytes([content[-1] ^ 1])]
    assert digest_of(content) not in map(digest_of, ends)
    small = content[:128]  # of as much as is read, every byte counts
    assert all(
        digest_of(small[:i] + bytes([small[i] ^ 1]) + small[i + 1 :]) != digest_of(small)
        for i in range(128)
    )


def test_a_vocabulary_keeps_its_kind(tmp_path: Path) -> None:
    RunFolder.create(tmp_path / "run", GRAPH, {})
    entities: Vocabulary = RunFolder.open(tmp_path / "run").graph().entities
    assert repr(entities) == f"Vocabulary({len(LABELS)} entity labels)"
