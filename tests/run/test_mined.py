"""Facts without a run are predicted by rules, which are mined once and kept in the cache."""

from __future__ import annotations

import os
import tempfile
import time
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import tacit
from rank_processes import in_processes
from rule_runs import CAPITALS, LINKS, SCORE, cities, write_cities
from tacit.disk import DRAFT
from tacit.errors import DataError, RunError, SettingsError
from tacit.fitting.progress import Event
from tacit.links.rules import rule_files
from tacit.links.rules.rule_files import load_rules
from tacit.links.rules.settings import RuleSettings
from tacit.run import mined
from tacit.run.changes import add_facts
from tacit.run.mined import PREFIX, cached_path, is_cached, run_of_rules
from tacit.run_folder.files import RULES, SETTINGS
from tacit.run_folder.folder import RunFolder
from tacit.run_folder.run_cache import MOST_RUNS, shrink_cache

ASKED = "?k : capital_of(c5, ?k)"


@pytest.fixture(autouse=True)
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("TACIT_CACHE", str(tmp_path / "cache"))
    return tmp_path / "cache"


@pytest.fixture
def minings(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """The numbers of rules that were mined, one for each time."""
    found: list[int] = []
    mine = rule_files.mine

    def counted(*arguments: Any, **named: Any) -> Any:
        rules = mine(*arguments, **named)
        found.append(len(rules))
        return rules

    monkeypatch.setattr(rule_files, "mine", counted)
    return found


def notes_of(source: Any, **options: Any) -> tuple[tacit.Run, list[str]]:
    """The run of a source, and what was said while it was opened."""
    events: list[Event] = []
    run = tacit.open(source, progress=events.append, **options)
    return run, [event.note for event in events if event.note]


def test_facts_are_predicted_by_rules_that_are_mined_once(
    tmp_path: Path, cache: Path, minings: list[int]
) -> None:
    path = write_cities(tmp_path / "cities.tsv")
    run, (note,) = notes_of(path)
    (answer, *_) = run.ask(ASKED)
    assert (answer.entity, answer.known) == ("k5", False)
    assert answer.score == pytest.approx(SCORE, abs=1e-6)
    assert note.startswith(f"mined {minings[0]} rules from cities to predict by, in ")
    assert note.endswith(f"they are kept in {cache}")
    again, (note,) = notes_of(str(path))
    assert note == f"{minings[0]} rules of cities to predict by, from the cache"
    assert again.ask(ASKED).entities == run.ask(ASKED).entities
    assert len(minings) == 1


def test_every_kind_of_facts_is_opened(tmp_path: Path) -> None:
    rows = [*LINKS, *CAPITALS]
    folder = tmp_path / "files"
    folder.mkdir()
    write_cities(folder / "first.tsv")
    for source in (cities(), rows, np.array(rows), folder, write_cities(tmp_path / "facts.tsv")):
        scored = tacit.open(source).score("c5", "capital_of", "k5")
        assert scored.score == pytest.approx(SCORE, abs=1e-6)


def test_options_of_reading_are_those_of_facts(tmp_path: Path) -> None:
    path = tmp_path / "turned.csv"
    rows = [(t, h, r) for h, r, t in (*LINKS, *CAPITALS)]
    path.write_text("".join(",".join(row) + "\n" for row in rows))
    run = tacit.open(path, columns="2,3,1")
    assert run.score("c5", "capital_of", "k5").score == pytest.approx(SCORE, abs=1e-6)
    trained = tacit.train(cities(), tmp_path / "run", model="rules", progress=False)
    with pytest.raises(SettingsError, match="columns says how facts are read, and those of a run"):
        tacit.open(trained.folder.path, columns="2,3,1")


def test_other_facts_names_settings_or_versions_have_other_rules(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    graph, settings = cities(), RuleSettings()
    paths = {cached_path(graph, settings)}
    assert paths == {cached_path(cities(), RuleSettings())}
    fewer = tacit.load([*LINKS, *CAPITALS[:4]])
    paths |= {cached_path(fewer, settings), cached_path(graph, RuleSettings(length=1))}
    named = tacit.load([*LINKS, *CAPITALS])
    paths.add(cached_path(named, settings))  # which answers show
    for name in ("MINER", "__version__", "FORMAT"):
        with monkeypatch.context() as patch:
            patch.setattr(mined, name, "other")
            paths.add(cached_path(graph, settings))
    assert len(paths) == 7


def damage_rules(path: Path) -> None:
    (path / RULES).write_bytes((path / RULES).read_bytes()[:-5])


def damage_settings(path: Path) -> None:
    (path / SETTINGS).write_text("[graph")


def damage_facts(path: Path) -> None:
    (path / "facts.npy").write_bytes(b"")


def lose_rules(path: Path) -> None:  # as a process that is killed while it writes
    (path / RULES).unlink()


@pytest.mark.parametrize("damage", [damage_rules, damage_settings, damage_facts, lose_rules])
def test_a_damaged_entry_is_mined_again(damage: Any, minings: list[int]) -> None:
    path = run_of_rules(cities()).path
    damage(path)
    assert tacit.open(cities()).score("c5", "capital_of", "k5").score > 0.4
    assert len(minings) == 2
    tacit.open(cities())
    assert len(minings) == 2


@pytest.mark.skipif(os.name == "nt", reason="Windows has no such folder")
@pytest.mark.parametrize("blocked", ["a file", "a folder in its place", "no room"])
def test_a_cache_that_cannot_be_written_is_no_error(
    blocked: str, cache: Path, monkeypatch: pytest.MonkeyPatch, minings: list[int]
) -> None:
    if blocked == "a file":
        cache.write_text("")
    elif blocked == "a folder in its place":
        path = cached_path(cities(), RuleSettings())
        path.mkdir(parents=True)
        (path / "mine.txt").write_text("not of a run")
    else:
        write = rule_files.save_rules

        def save(run: RunFolder, *arguments: Any) -> None:
            if run.path.parent == cache:
                raise RunError("no room")
            write(run, *arguments)

        monkeypatch.setattr(rule_files, "save_rules", save)
    run, (note,) = notes_of(cities())
    assert run.score("c5", "capital_of", "k5").score == pytest.approx(SCORE, abs=1e-6)
    assert "; they are not kept: " in note
    assert len(minings) == 1  # rules that cannot be kept are not mined again for another folder
    assert is_cached(run.folder)
    assert run.folder.path.parent != cache
    own = Path(tempfile.gettempdir()) / "mine" / run.folder.path.name
    assert not is_cached(RunFolder(own))
    if blocked == "a folder in its place":
        assert (path / "mine.txt").read_text() == "not of a run"


def _open(number: int) -> tuple[int, float]:
    """How often a process mined, and the score that it got."""
    minings = []
    mine = rule_files.mine

    def slow(*arguments: Any, **named: Any) -> Any:
        minings.append(number)
        time.sleep(0.5)  # until the others wait
        return mine(*arguments, **named)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(rule_files, "mine", slow)
        score = tacit.open(cities()).score("c5", "capital_of", "k5").score
        return len(minings), score


def test_processes_mine_once_for_all(tmp_path: Path) -> None:
    results = in_processes(3, tmp_path / "results", _open)
    assert sum(count for count, _ in results) == 1
    assert [score for _, score in results] == pytest.approx([SCORE] * 3, abs=1e-6)


def test_the_cache_is_bounded_and_forgets_what_was_used_longest_ago(cache: Path) -> None:
    for number in range(4):
        run_of_rules(tacit.load([*LINKS, ("a", "r", f"b{number}")]))
    paths = sorted(cache.iterdir(), key=lambda path: path.stat().st_mtime_ns)
    for age, path in enumerate(reversed(paths)):
        os.utime(path, (1e9 - age, 1e9 - age))
    with RunFolder(paths[0]).in_use():  # as a service is
        shrink_cache(PREFIX, runs=2)
        assert {path for path in paths if path.exists()} == {paths[0], *paths[2:]}
    shrink_cache(PREFIX, runs=2)
    assert {path for path in paths if path.exists()} == set(paths[2:])
    shrink_cache(PREFIX, size=1)
    assert {path for path in paths if path.exists()} == {paths[3]}  # the last one used stays
    assert 2 <= MOST_RUNS <= 100


def test_use_makes_an_entry_the_newest() -> None:
    path = run_of_rules(cities()).path
    os.utime(path, (1, 1))
    run_of_rules(cities())
    assert path.stat().st_mtime > 1e9


def test_a_cached_run_is_not_changed_by_what_belongs_into_a_run(tmp_path: Path) -> None:
    run = tacit.open(cities())
    before = {file.name for file in run.folder.path.iterdir()}
    for attempt in (
        lambda: run.add([("c6", "city_in", "k6")]),
        lambda: add_facts(run.folder.path, [("c6", "city_in", "k6")]),
        lambda: run.remove([LINKS[0]]),
        lambda: run.adapt(count=1),
        lambda: run.encode(),
    ):
        with pytest.raises(RunError, match="the rules of cities are in Tacit's"):
            attempt()
    assert {file.name for file in run.folder.path.iterdir()} - before <= {DRAFT}
    with pytest.raises(RunError, match="an index is one of vectors"):
        run.index()


def test_what_holds_neither_a_run_nor_facts_is_refused_as_before(tmp_path: Path) -> None:
    (tmp_path / "empty").mkdir()
    (tmp_path / "runs").mkdir()
    tacit.train(cities(), tmp_path / "runs" / "a", model="rules", progress=False)
    for name, error, says in (
        ("missing.tsv", RunError, "there is no run"),
        ("empty", RunError, "no run but an empty folder"),
        ("runs", RunError, "a folder of runs; name one of them"),
    ):
        with pytest.raises(error, match=says):
            tacit.open(tmp_path / name)
    (tmp_path / "text.tsv").write_text("just words\n")
    with pytest.raises(DataError):
        tacit.open(tmp_path / "text.tsv")
    with pytest.raises(RunError, match="is no run but a file"):
        tacit.compare(write_cities(tmp_path / "facts.tsv"))


def test_predictions_of_facts_are_counted_completed_and_explained() -> None:
    run = tacit.open([*LINKS, *CAPITALS])
    assert run.count(ASKED).known == 0
    assert run.count(ASKED).expected == pytest.approx(SCORE, abs=1e-3)
    assert [(fact.subject, fact.object) for fact in run.complete("capital_of", min_score=0.3)] == [
        ("c5", "k5")
    ]
    (answer, *_) = run.explain(ASKED)
    assert [atom.observed for atom in answer.witnesses[0].tree.atoms()] == [False]
    assert loaded_rules(run) == len(load_rules(run.folder)[0])
    assert run.ask("?c : city_in(?c, k5)", top=1).entities == ["c5"]


def loaded_rules(run: tacit.Run) -> int:
    rules: Any = run.engine.scorer
    return len(rules.rules)
