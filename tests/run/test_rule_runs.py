"""Runs whose link predictor is rules: trained, opened, changed and measured like others."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

import tacit
from rule_runs import CAPITALS, LINKS, SCORE, cities, rule_run
from tacit.adapt.adapter import Adapter, save_adapter
from tacit.adapt.settings import AdaptSettings
from tacit.disk import state
from tacit.engine.presets import PRESETS
from tacit.errors import RunError, SettingsError
from tacit.graph.graph import Graph
from tacit.links.models import load_model
from tacit.links.rules import rule_files
from tacit.links.rules.mining import mine
from tacit.links.rules.rule_files import load_rules
from tacit.links.rules.rule_set import RuleSet
from tacit.links.training.finished import is_complete
from tacit.run_folder.files import MODEL, RULES, SETTINGS
from tacit.run_folder.folder import RunFolder


@pytest.fixture(scope="module")
def trained(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return rule_run(tmp_path_factory.mktemp("runs") / "cities").folder.path


@pytest.fixture
def path(trained: Path, tmp_path: Path) -> Path:
    return Path(shutil.copytree(trained, tmp_path / "run"))


def no_mining(*arguments: Any, **named: Any) -> RuleSet:
    raise AssertionError("rules were mined again")


def splits() -> Graph:
    """Cities with a held-out capital to validate with and one to test with."""
    return Graph.of([*LINKS, *CAPITALS[:3]], CAPITALS[3:4], CAPITALS[4:], "cities")


def test_a_run_holds_the_mined_rules_and_no_vectors(path: Path) -> None:
    folder = RunFolder.open(path)
    rules, weights = load_rules(folder)
    mined = mine(cities())
    assert len(rules) == len(mined) > 0
    assert [rules[place] for place in range(len(rules))] == [mined[n] for n in range(len(mined))]
    assert weights == {}
    assert not folder.has(MODEL)
    assert folder.settings["train"]["model"] == "rules"
    assert folder.results()["train"]["rules"] == len(rules)
    assert is_complete(folder)
    with pytest.raises(RunError, match="predicts by rules, which have no vectors"):
        load_model(folder)


def test_atoms_score_the_confidence_of_their_rule(path: Path) -> None:
    run = tacit.open(path)
    assert run.score("c5", "capital_of", "k5").score == pytest.approx(SCORE, abs=1e-6)
    assert run.score("c5", "capital_of", "k4").score < 1e-6
    (first, *_) = run.ask("?k : capital_of(c5, ?k)")
    assert (first.entity, first.known) == ("k5", False)
    assert run.count("?k : capital_of(c5, ?k)").expected == pytest.approx(SCORE, abs=1e-4)


def test_confidences_are_probabilities_unless_settings_say_otherwise(path: Path) -> None:
    for settings, calibration in (
        ({}, "sigmoid"),
        ({"k": 8}, "sigmoid"),
        ({"calibration": "softmax-count"}, "softmax-count"),
        ({"preset": "qto"}, PRESETS["qto"].settings["calibration"]),
    ):
        assert tacit.open(path, **settings).engine.config["calibration"] == calibration


def test_settings_of_the_other_kind_are_refused(tmp_path: Path) -> None:
    for settings, says in (
        ({"model": "rules", "rank": 8}, "rank is a setting of models with vectors"),
        ({"model": "rules", "device": "cpu"}, "device is a setting of models with vectors"),
        ({"model": "rules", "lenght": 1}, "did you mean 'length'"),
        ({"model": "complex", "rules": False, "length": 1}, "length says how rules are mined"),
        ({"rules": False, "length": 1}, "length says how rules are mined"),
    ):
        with pytest.raises(SettingsError, match=says):
            tacit.train(cities(), tmp_path / "run", progress=False, **settings)
    assert not (tmp_path / "run").exists()


def test_a_run_is_replaced_by_force_and_complete_where_it_is_resumed(
    path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with pytest.raises(RunError, match="holds a run; go on with it by `resume=True`"):
        rule_run(path)
    before = state(path / RULES)
    with monkeypatch.context() as patch:
        patch.setattr(rule_files, "mine", no_mining)
        again = tacit.train(cities(), path, model="rules", resume=True, progress=False)
        with pytest.raises(SettingsError, match="length is 1, and the run has 3"):
            tacit.train(cities(), path, model="rules", length=1, resume=True)
        with pytest.raises(RunError, match="was trained on other facts"):
            tacit.train(splits(), path, model="rules", resume=True)
        with pytest.raises(RunError, match="holds rules, which are mined again"):
            tacit.train(cities(), path, rank=2, resume=True, progress=False)
    assert again.score("c5", "capital_of", "k5").score == pytest.approx(SCORE, abs=1e-6)
    assert state(path / RULES) == before
    shorter = tacit.train(cities(), path, model="rules", length=1, force=True, progress=False)
    assert shorter.settings["train"]["length"] == 1


def test_a_run_of_vectors_does_not_go_on_with_rules(tmp_path: Path) -> None:
    settings: dict[str, Any] = {"rank": 2, "epochs": 1, "device": "cpu", "progress": False}
    tacit.train(cities(), tmp_path / "run", **settings)
    with pytest.raises(RunError, match="does not predict by rules alone"):
        tacit.train(cities(), tmp_path / "run", model="rules", resume=True)
    run = tacit.train(cities(), tmp_path / "run", model="rules", force=True, progress=False)
    assert not run.folder.has(MODEL)
    tacit.train(cities(), tmp_path / "run", force=True, rules=False, **settings)
    assert not run.folder.has(RULES)


def test_an_interrupted_mining_leaves_what_was_there(
    path: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def interrupt(*arguments: Any, **named: Any) -> RuleSet:
        raise KeyboardInterrupt

    monkeypatch.setattr(rule_files, "mine", interrupt)
    before = {file.name: file.read_bytes() for file in path.iterdir()}
    for out, force in ((tmp_path / "new", False), (path, True)):
        with pytest.raises(KeyboardInterrupt):
            tacit.train(cities(), out, model="rules", force=force, progress=False)
    assert not (tmp_path / "new").exists()
    assert {file.name: file.read_bytes() for file in path.iterdir()} == before


def test_a_run_without_its_rules_is_unfinished_and_can_be_resumed(path: Path) -> None:
    (path / RULES).unlink()
    assert not is_complete(RunFolder.open(path))
    with pytest.raises(RunError, match="its training has not finished"):
        tacit.open(path)
    with pytest.raises(RunError, match="has not finished"):
        tacit.Run(RunFolder.open(path)).add([("c6", "city_in", "k6")])
    run = tacit.train(cities(), path, model="rules", resume=True, progress=False)
    assert run.score("c5", "capital_of", "k5").score == pytest.approx(SCORE, abs=1e-6)


def test_rules_look_at_added_and_removed_facts_at_once(path: Path) -> None:
    run = tacit.open(path)
    before = load_rules(run.folder)[0]
    change = run.add([("c6", "city_in", "k6"), ("ann", "mayor_of", "c6")], new=True)
    assert (change.added, change.entities, change.relations) == (2, 3, 1)
    for now in (run, tacit.open(path)):
        assert now.score("c6", "capital_of", "k6").score == pytest.approx(SCORE, abs=1e-6)
        assert now.score("c5", "capital_of", "k5").score == pytest.approx(SCORE, abs=1e-6)
        assert now.score("ann", "mayor_of", "c6").known
        assert now.score("ann", "mayor_of", "c5").score < 1e-6  # no rule is about it
    after = load_rules(run.folder)[0]
    for name in ("body", "relation", "support", "confidence"):
        assert np.array_equal(getattr(before, name), getattr(after, name))
    run.remove([("c5", "city_in", "k5")])
    assert run.score("c5", "capital_of", "k5").score < 1e-6
    assert not run.score("c5", "city_in", "k5").known


def test_weights_of_a_mixture_survive_a_change_of_facts(tmp_path: Path) -> None:
    settings: dict[str, Any] = {"rank": 2, "epochs": 1, "device": "cpu", "progress": False}
    run = tacit.train(cities(), tmp_path / "run", rules=False, **settings)
    weights = {
        "shares": torch.tensor([0.25, 0.5, 0.75, 0.125]),
        "numbers": torch.tensor([1.5, 0.5, -0.25], dtype=torch.float64),
    }
    rule_files.save_rules(run.folder, mine(cities()), weights)
    run.folder.write_settings("rules", {"length": 2})
    changed = tacit.open(run.folder.path, device="cpu")
    assert changed.weights.rules is not None
    changed.add([("c6", "city_in", "k6")])
    rules, stored = load_rules(changed.folder)
    assert {name: each.tolist() for name, each in stored.items()} == {
        name: each.tolist() for name, each in weights.items()
    }
    assert changed.settings["rules"] == {"length": 2}
    assert changed.weights.rules is not None
    assert changed.weights.rules.num_entities == 14
    assert len(changed.weights.rules.rules) == len(rules)


def test_an_adapter_of_a_rule_run_stays_through_new_relations(tmp_path: Path) -> None:
    run = tacit.train(splits(), tmp_path / "run", model="rules", progress=False)
    options: dict[str, Any] = {"count": 10, "steps": 2, "shapes": "1p,2i", "device": "cpu"}
    run.adapt(calibration="sigmoid", **options)
    adapter = Adapter(run.engine.scorer, "p")
    with torch.no_grad():
        adapter.first["p"][:, 1] = torch.arange(4.0)
    save_adapter(run.folder, adapter, AdaptSettings(condition="p", calibration="sigmoid"))
    run = tacit.open(run.folder.path)
    before = run.score("c5", "capital_of", "k5").score
    assert run.engine.adapter is not None
    run.add([("ann", "mayor_of", "c5")], new=True)
    assert run.engine.adapter is not None
    assert run.score("c5", "capital_of", "k5").score == pytest.approx(before, abs=1e-6)


def test_a_rule_run_is_evaluated_compared_and_completed(tmp_path: Path) -> None:
    run = tacit.train(splits(), tmp_path / "run", model="rules", progress=False)
    # 3 of 6 pairs hold: the held-out ones are first, the tails that no rule speaks for behind them
    assert run.evaluate().mrr["1p"] == pytest.approx(1.0)
    compared = tacit.compare(tmp_path / "run", _queries(run))
    (row,) = compared.rows
    assert (row.what, row.model) == ("predictor", "RuleScorer")
    assert row.parameters == len(load_rules(run.folder)[0])
    missing = {(fact.subject, fact.object) for fact in run.complete("capital_of", min_score=0.2)}
    assert missing == {("c5", "k5")}
    assert "rules" in run.report(tmp_path / "report.md").read_text()


def _queries(run: tacit.Run) -> Any:
    drawn = run.sample(shapes="1p", split="test", count=2)
    return {name: each.queries for name, each in drawn.items()}


def test_what_needs_vectors_says_so(path: Path, tmp_path: Path) -> None:
    run = tacit.open(path)
    with pytest.raises(RunError, match="predicts by rules; an index is one of vectors"):
        run.index()
    with pytest.raises(SettingsError, match="entities needs their vectors"):
        run.adapt(condition="spo", count=2, steps=1, shapes="1p", device="cpu")
    for source, out in ((path, None), (path, tmp_path / "other")):
        with pytest.raises(RunError, match="predicts by rules, which have no vectors"):
            tacit.train_encoder(source, out, model="lmpnn", progress=False, device="cpu")
    with pytest.raises(SettingsError, match="vectors"):
        run.engine.with_settings(search="continuous").ask("?k : capital_of(c5, ?k)")


def test_an_encoder_beside_rules(path: Path) -> None:
    run = tacit.open(path)
    run.encode(model="gqe", width=4, steps=1, shapes="1p", device="cpu", validate_queries=1)
    opened = tacit.open(path)
    assert opened.score("c5", "capital_of", "k5").score == pytest.approx(SCORE, abs=1e-6)
    assert opened.engine.with_settings(search="encoder").parts.encoder_reasoner is not None
    opened.drop_encoder()
    assert (path / SETTINGS).is_file()
    assert tacit.open(path).score("c5", "capital_of", "k5").score > 0.4
