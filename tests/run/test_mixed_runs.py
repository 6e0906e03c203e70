"""Runs of an embedding with rules beside it: trained, resumed, asked, adapted and changed."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
import torch
from typer.testing import CliRunner

import tacit
from tacit.cli import app
from tacit.disk import from_toml, to_toml
from tacit.errors import SettingsError
from tacit.links.rules import rule_files
from tacit.run import mixed_training
from tacit.run.run import Run
from tacit.run_folder.files import RULES
from tacit.run_folder.folder import RunFolder

TINY: dict[str, Any] = {
    "rank": 4,
    "epochs": 2,
    "validate_on": "facts",
    "device": "cpu",
    "progress": False,
}


def facts(count: int = 24) -> list[tuple[str, str, str]]:
    """Cities in countries in continents, and which continent each city is in."""
    rows = []
    for city in range(count):
        country, continent = city % 8, city % 8 % 2
        rows.append((f"city{city}", "in_country", f"country{country}"))
        rows.append((f"city{city}", "on_continent", f"continent{continent}"))
    return rows + [(f"country{c}", "part_of", f"continent{c % 2}") for c in range(8)]


@pytest.fixture
def graph(tmp_path: Path) -> Path:
    """The facts as a folder, with two of each kind of city held out."""
    rows = facts()
    folder = tmp_path / "graph"
    folder.mkdir()
    valid = [row for row in rows if row[0] in ("city3", "city4") and row[1] == "on_continent"]
    test = [row for row in rows if row[0] in ("city5", "city6") and row[1] == "on_continent"]
    train = [row for row in rows if row not in valid + test]
    for name, part in (("train", train), ("valid", valid), ("test", test)):
        (folder / f"{name}.txt").write_text("".join("\t".join(row) + "\n" for row in part))
    return folder


def test_training_mines_rules_and_mixes_them_in(graph: Path, tmp_path: Path) -> None:
    run = tacit.train(graph, tmp_path / "run", **TINY)
    assert run.engine.config["rules"] is True
    mixture = run.weights.mixture
    assert mixture is not None
    assert run.weights.rules is mixture.scorer
    assert run.engine.parts.rule_scorer is mixture.scorer
    assert run.settings["train"]["rules"] is True
    assert run.settings["rules"]["length"] == 3
    assert run.results["rules"]["rules"] == len(mixture.scorer.rules) > 0
    again = tacit.open(tmp_path / "run", device="cpu")
    question = "?c : on_continent(city5, ?c)"
    assert again.ask(question).entities[0] == run.ask(question).entities[0] == "continent1"
    # 2 epochs teach the vectors little
    scores = [run.evaluate(split="test", rules=rules).mrr["1p"] for rules in (True, False)]
    assert scores[0] > scores[1]


def test_without_rules_a_run_is_what_it_was(graph: Path, tmp_path: Path) -> None:
    mixed = tacit.train(graph, tmp_path / "mixed", **TINY)
    plain = tacit.train(graph, tmp_path / "plain", rules=False, **TINY)
    assert not plain.folder.has(RULES)
    assert plain.weights.mixture is None
    assert plain.engine.config["rules"] is False
    heads, relations = torch.arange(10), torch.zeros(10, dtype=torch.long)
    alone = mixed.engine.with_settings(rules=False).atoms.rows(heads, relations)
    assert torch.equal(alone, plain.engine.atoms.rows(heads, relations))
    with pytest.raises(SettingsError, match=r"^length says how rules are mined"):
        tacit.train(graph, tmp_path / "other", rules=False, length=1, **TINY)
    short = tacit.train(graph, tmp_path / "short", length=1, **TINY)
    assert short.settings["rules"]["length"] == 1


def test_a_training_stopped_before_its_rules_goes_on_with_them(
    graph: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def stop(*arguments: Any, **options: Any) -> None:
        raise KeyboardInterrupt

    out = tmp_path / "run"
    with monkeypatch.context() as patch:
        patch.setattr("tacit.links.rules.mining.mine", stop)
        with pytest.raises(KeyboardInterrupt):
            tacit.train(graph, out, **TINY)
    stopped = tacit.open(out, device="cpu")
    assert stopped.engine.config["rules"] is False
    resumed = tacit.train(graph, out, resume=True, progress=False)
    whole = tacit.train(graph, tmp_path / "whole", **TINY)
    assert resumed.weights.mixture is not None
    assert whole.weights.mixture is not None
    for name, tensor in whole.weights.mixture.to_tensors().items():
        assert torch.equal(tensor, resumed.weights.mixture.to_tensors()[name])


def test_rules_are_fitted_again_to_weights_trained_further(graph: Path, tmp_path: Path) -> None:
    out = tmp_path / "run"
    tacit.train(graph, out, **TINY)
    before = (out / RULES).stat().st_mtime_ns
    tacit.train(graph, out, resume=True, progress=False)
    assert (out / RULES).stat().st_mtime_ns == before
    longer = tacit.train(graph, out, resume=True, epochs=4, progress=False)
    assert longer.results["rules"]["epochs"] == 4
    assert (out / RULES).stat().st_mtime_ns != before


def test_a_run_of_an_earlier_version_gets_rules_when_they_are_asked_for(
    graph: Path, tmp_path: Path
) -> None:
    out = tmp_path / "run"
    tacit.train(graph, out, rules=False, **TINY)
    settings = from_toml((out / "settings.toml").read_text())
    del settings["train"]["rules"]
    (out / "settings.toml").write_text(to_toml(settings))
    assert not tacit.train(graph, out, resume=True, progress=False).folder.has(RULES)
    asked = tacit.train(graph, out, resume=True, rules=True, progress=False)
    assert asked.engine.config["rules"] is True
    assert tacit.train(graph, out, resume=True, progress=False).folder.has(RULES)
    without = tacit.train(graph, out, resume=True, rules=False, progress=False)
    assert without.engine.config["rules"] is False
    assert not without.folder.has(RULES)


def test_own_rules_outlast_mined_ones(graph: Path, tmp_path: Path) -> None:
    out = tmp_path / "run"
    plain = tacit.train(graph, out, rules=False, **TINY)
    own = "in_country(?x, ?z) & part_of(?z, ?y) => on_continent(?x, ?y)"
    plain.add_rule(own, confidence=0.9)

    def written(run: Run) -> list[tuple[str, float]]:
        return [(rule.formula, round(rule.confidence, 3)) for rule in run.rules() if rule.written]

    for number in (0, 1):  # without mined rules, then after them
        resumed = tacit.train(graph, out, resume=True, rules=False, progress=False)
        assert written(resumed) == [(own, 0.9)]
        assert len(resumed.rules()) == 1, number
        assert resumed.ask("?y : on_continent(city5, ?y)")[0].score > 0.89
        assert "rules" not in resumed.settings
        mixed = tacit.train(graph, out, resume=True, rules=True, progress=False)
        assert written(mixed) == [(own, 0.9)]
        same = [rule for rule in mixed.rules() if rule.formula == own and not rule.written]
        assert [rule.off for rule in same] == [True]
        assert len(mixed.rules()) > 5


@pytest.mark.parametrize("step", ["save_rules", "write_settings"])
def test_no_step_of_dropping_mined_rules_loses_own_ones(
    step: str, graph: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The drop is killed before a step, and repeated."""
    run = tacit.train(graph, tmp_path / "run", **TINY)
    own = run.add_rule("in_country(?x, ?y) => on_continent(?x, ?y)", confidence=0.9).formula

    def killed(*arguments: object) -> None:
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        if step == "save_rules":
            patch.setattr(rule_files, step, killed)
        else:
            patch.setattr(RunFolder, step, killed)
        with pytest.raises(KeyboardInterrupt):
            mixed_training._drop_mined(run.graph, run.folder)
    assert own in [rule.formula for rule in tacit.open(tmp_path / "run").rules() if rule.written]
    again = tacit.train(graph, tmp_path / "run", resume=True, rules=False, progress=False)
    assert [rule.formula for rule in again.rules()] == [own]
    assert "rules" not in again.settings


def test_a_graph_without_validation_facts_has_usual_shares(tmp_path: Path) -> None:
    notes = []
    given = {**TINY, "progress": lambda event: notes.append(event.note)}
    run = tacit.train(facts(), tmp_path / "run", **given)
    assert run.weights.mixture is not None
    assert float(run.weights.mixture.shares.mean()) == pytest.approx(0.2)
    assert any("no validation facts to fit the share of rules to" in str(note) for note in notes)


def adapted(run: Run, **settings: Any) -> dict[str, Any]:
    return run.adapt(count=20, steps=4, validate_every=2, **settings)


def test_an_adapter_works_on_what_it_was_trained_on(
    graph: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    verdict = {"kept": True, "verdict": "kept for the test"}
    monkeypatch.setattr("tacit.adapt.adaptation._verdict", lambda *arguments: verdict)
    run = tacit.train(graph, tmp_path / "run", **TINY)
    options: dict[str, Any] = {"shapes": "2i", "held_out": False, "observed": "none"}
    for choice, kept in ((None, True), (False, False)):
        adapted(run, **options, **({} if choice is None else {"rules": choice}))
        assert run.settings["adapt"]["rules"] is kept
        for opened in (run, tacit.open(tmp_path / "run", device="cpu")):
            assert opened.engine.config["adapted"] is True
            assert opened.engine.config["rules"] is kept
            unadapted = opened.engine.with_settings(adapted=False)
            assert unadapted.config["rules"] is True
            with pytest.raises(SettingsError, match=r"^rules are (not )?used, and the adapter"):
                opened.engine.with_settings(rules=not kept)
    with pytest.raises(SettingsError, match=r"^rules is True, and no rules are mixed into sigmoid"):
        run.adapt(calibration="sigmoid", rules=True)
    plain = tacit.train(graph, tmp_path / "plain", rules=False, **TINY)
    with pytest.raises(SettingsError, match=r"^rules is True, and there are none beside"):
        plain.adapt(count=20, rules=True)


def test_new_entities_are_scored_by_rules_at_once(graph: Path, tmp_path: Path) -> None:
    out = tmp_path / "run"
    shares = tacit.train(graph, out, **TINY).weights.mixture
    assert shares is not None
    run = tacit.open(out, device="cpu")
    run.add([("Lima", "in_country", "country3")])
    run = tacit.open(out, device="cpu")
    mixture = run.weights.mixture
    assert mixture is not None
    assert mixture.scorer.num_entities == run.graph.num_entities
    assert torch.equal(mixture.shares, shares.shares)
    head = run.graph.entities.labels.index("Lima")
    assert int(mixture.degrees[head]) == 1
    tails = run.engine.parts.rule_scorer.entries(  # type: ignore[union-attr]
        torch.tensor([head]).numpy(),
        torch.tensor([run.graph.relations.labels.index("on_continent")]).numpy(),
    ).tails
    assert run.graph.entities.labels.index("continent1") in tails.tolist()
    assert "Lima" in run.ask("?x : on_continent(?x, continent1)", top=40).entities


def test_the_command_line_leaves_rules_out_and_says_so(graph: Path, tmp_path: Path) -> None:
    runner = CliRunner()
    flags = ["--rank", "4", "--epochs", "2", "--device", "cpu", "--validate-on", "facts"]
    out = str(tmp_path / "run")
    done = runner.invoke(app, ["train", str(graph), "--out", out, *flags])
    assert done.exit_code == 0, done.output
    assert "rules mined" in done.output
    answers = tmp_path / "results.json"
    for extra, used in (([], True), (["--no-rules"], False)):
        arguments = ["eval", out, "--split", "test", "--json", str(answers), *extra]
        done = runner.invoke(app, arguments)
        assert done.exit_code == 0, done.output
        assert json.loads(answers.read_text())["settings"]["rules"] is used
    plain = str(tmp_path / "plain")
    done = runner.invoke(app, ["train", str(graph), "--out", plain, "--no-rules", *flags])
    assert done.exit_code == 0, done.output
    assert not (tmp_path / "plain" / RULES).exists()


def test_several_processes_leave_rules_out_with_a_note(graph: Path, tmp_path: Path) -> None:
    run = tacit.train(graph, tmp_path / "run", rules=False, **TINY)
    notes = []
    settings = mixed_training.TrainSettings.stored(run.settings["train"]).changed(rules=True)
    mixed_training.complete_rules(
        run.graph, run.folder, settings, {}, False, lambda event: notes.append(event.note)
    )
    assert not run.folder.has(RULES)
    assert "several processes" in notes[0]
    assert tacit.train(graph, tmp_path / "run", resume=True, progress=False).folder.has(RULES)
