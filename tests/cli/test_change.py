"""`tacit add` and `tacit remove`."""

from __future__ import annotations

from pathlib import Path

import pytest
from typer.testing import CliRunner

from ring_runs import GRAPH, SMALL, new_run
from tacit.cli import app, facts
from tacit.links.training.link_training import train
from tacit.run_folder.folder import RunFolder


def called(*arguments: str) -> str:
    result = CliRunner().invoke(app, list(arguments), catch_exceptions=False)
    assert result.exit_code == 0
    return result.output


def test_facts_are_added_asked_and_removed(tmp_path: Path) -> None:
    run = new_run(tmp_path / "run")
    train(GRAPH, SMALL, run, progress=False)
    facts = tmp_path / "facts.tsv"
    facts.write_text("n3\tnext\ttwin\ntwin\tnext\tn5\nn0\tnext\tn1\nn0\tnext\tn1\n")
    said = called("add", str(run.path), str(facts))
    assert "note: train: 1 duplicate fact dropped" in said
    assert f"{run.path}: 2 facts added, 1 was there already; 1 new entity: twin, in " in said
    assert "known" in called("ask", str(run.path), "?x : next(n3, ?x)", "--top", "2")
    facts.write_text("twin\tn3\tnext^-1\nnobody\tn3\tnext\n")
    said = called("remove", str(run.path), str(facts), "--columns", "head,tail,relation")
    assert (
        "1 fact removed, 1 was not there (nobody next n3: no entity 'nobody'); what was learned of "
        "it stays learned" in said
    )
    graph = RunFolder.open(run.path).graph()
    twin = graph.entities.id("twin")
    follows = graph.relations.id("next")
    assert graph.index().tails(graph.entities.id("n3"), follows).tolist() == [
        graph.entities.id("n4")
    ]
    assert graph.index().tails(twin, follows).tolist() == [graph.entities.id("n5")]


def test_misspelt_names_need_a_flag_or_a_yes(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    run = new_run(tmp_path / "run")
    train(GRAPH, SMALL, run, progress=False)
    typo = tmp_path / "typo.tsv"
    known = set(RunFolder.open(run.path).graph().relations)
    typo.write_text("n3\tnxt\tn5\nnew one\tnext\tn5\n")

    def ended(*arguments: str, answer: str = "") -> tuple[int, str]:
        result = CliRunner().invoke(app, ["add", str(run.path), *arguments], input=answer)
        return result.exit_code, f"{result.output}{result.exception or ''}"

    code, said = ended(str(typo))
    assert code != 0
    assert "1 new relation: 'nxt' (did you mean 'next'?)" in said
    assert "with --new" in said
    code, said = ended(str(typo), "--dry-run")
    assert code == 0
    summary = (
        "2 facts would be added; 1 new entity: new one; 1 new relation: nxt; nothing was written"
    )
    assert f"{run.path}: {summary}\n" in said
    assert "1 new relation: 'nxt' (did you mean 'next'?)\n" in said
    assert said.endswith("to add these as they are, give --new\n")
    assert "to add these" not in ended(str(typo), "--dry-run", "--new")[1]
    monkeypatch.setattr(facts, "_is_attended", lambda: True)
    code, said = ended(str(typo), answer="n\n")
    assert (code, "nothing was added" in said) == (1, True)
    assert set(RunFolder.open(run.path).graph().relations) == known
    code, said = ended(str(typo), answer="y\n")
    assert (code, "2 facts added" in said) == (0, True)
    typo.write_text("N3\tnext\tn5\n")
    code, said = ended(str(typo), "--new")
    assert (code, "'N3' ('n3')" in said, "with --force" in said) == (1, True, True)
    code, said = ended(str(typo), answer="y\n")  # a yes is not enough
    assert (code, "with --force" in said) == (1, True)
    assert ended(str(typo), "--force")[0] == 0
    assert set(RunFolder.open(run.path).graph().relations) == known | {"nxt", "nxt^-1"}


def test_a_removal_is_tried_first(tmp_path: Path) -> None:
    run = new_run(tmp_path / "run")
    train(GRAPH, SMALL, run, progress=False)
    (tmp_path / "facts.tsv").write_text("n0\tnext\tn1\n")
    said = called("remove", str(run.path), str(tmp_path / "facts.tsv"), "--dry-run")
    assert (
        "1 fact would be removed; what was learned of it stays learned; nothing was written" in said
    )
    assert len(RunFolder.open(run.path).graph().facts()) == len(GRAPH.facts())
