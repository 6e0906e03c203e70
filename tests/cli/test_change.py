"""`tacit add` and `tacit remove`."""

from __future__ import annotations

from pathlib import Path

from typer.testing import CliRunner

from ring_runs import GRAPH, SMALL, new_run
from tacit.cli import app
from tacit.links.training.link_training import train
from tacit.run.folder import RunFolder


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
    assert f"{run.path}: 2 facts added, 1 were there already; vectors for 1 entity, in " in said
    assert "known" in called("ask", str(run.path), "?x : next(n3, ?x)", "--top", "2")
    facts.write_text("twin\tn3\tnext^-1\nnobody\tn3\tnext\n")
    said = called("remove", str(run.path), str(facts), "--columns", "head,tail,relation")
    assert "1 fact removed, 1 were not there; what was learned of it stays learned" in said
    graph = RunFolder.open(run.path).graph()
    twin, follows = graph.entities.id("twin"), graph.relations.id("next")
    assert graph.index().tails(graph.entities.id("n3"), follows).tolist() == [graph.entities.id("n4")]
    assert graph.index().tails(twin, follows).tolist() == [graph.entities.id("n5")]
