"""The rules of a run on disk: read back as they were, or refused with the name of the file."""

from __future__ import annotations

from dataclasses import fields
from pathlib import Path

import numpy as np
import pytest
import torch
from torch import Tensor

from rule_runs import cities, rule_run
from tacit.errors import RunError
from tacit.graph.graph import Graph
from tacit.links.models import make_model, save_model
from tacit.links.rules.rule_files import load_rules, save_rules
from tacit.links.rules.rule_set import Rule, RuleSet
from tacit.links.settings import TrainSettings
from tacit.run_folder.files import ENGINE_FILES, MODEL, RULES, is_run_file
from tacit.run_folder.folder import RunFolder

SOME = RuleSet.of(
    [
        Rule((0,), 2, support=5, groundings=6, confidence=5 / 11),
        Rule((2, 1), 0, support=3, groundings=9, confidence=3 / 14, flags=4),
        Rule((0,), 2, end=4, tail=7, support=2, groundings=3, confidence=0.25),
        Rule((1, 3, 0), 1, tail=11, support=2, groundings=5, confidence=0.2, flags=3),
    ]
)


@pytest.fixture
def run(tmp_path: Path) -> RunFolder:
    return RunFolder.create(tmp_path / "run", cities(), {"model": "rules"})


def test_rules_and_weights_are_read_back(run: RunFolder) -> None:
    save_rules(run, SOME, {"prior": torch.tensor([0.5, 0.25]), "bias": torch.tensor(3)})
    rules, weights = load_rules(RunFolder.open(run.path))
    assert [rules[place] for place in range(4)] == [SOME[place] for place in range(4)]
    for field in fields(RuleSet):
        assert getattr(rules, field.name).dtype == getattr(SOME, field.name).dtype
    assert weights.keys() == {"prior", "bias"}
    assert weights["prior"].tolist() == [0.5, 0.25]


def test_a_run_may_have_no_rule(run: RunFolder) -> None:
    save_rules(run, RuleSet.of([]))
    assert len(load_rules(run)[0]) == 0


def test_rules_belong_to_the_files_of_a_run_and_of_its_engine() -> None:
    assert is_run_file(RULES)
    assert RULES in ENGINE_FILES


def changed(name: str, place: int, value: float) -> dict[str, Tensor]:
    tensors = {key: tensor.clone() for key, tensor in SOME.to_tensors().items()}
    tensors[name][place] = value
    return tensors


@pytest.mark.parametrize(
    ("name", "place", "value"),
    [
        ("body", 0, 4),  # there are 4 relation ids, and 12 entities
        ("body", 1, -2),
        ("body", 2, -1),
        ("relation", 0, 4),
        ("relation", 0, -1),
        ("end", 2, 12),
        ("end", 0, 3),  # of a closed rule
        ("tail", 3, 12),
        ("support", 0, -1),
        ("groundings", 0, -1),
        ("confidence", 0, float("nan")),
        ("confidence", 0, 1.5),
        ("flags", 0, 8),
    ],
)
def test_impossible_rules_are_refused(run: RunFolder, name: str, place: int, value: float) -> None:
    run.write_tensors(RULES, SOME.to_tensors())
    assert len(load_rules(run)[0]) == 4
    run.write_tensors(RULES, changed(name, place, value))
    with pytest.raises(RunError, match=rf"{RULES} is damaged or does not fit the run"):
        load_rules(run)


def test_a_hole_in_a_body_is_refused(run: RunFolder) -> None:
    tensors = SOME.to_tensors()
    tensors["body"] = torch.from_numpy(np.array([[0, -1, 1]] * 4, dtype=np.int32))
    run.write_tensors(RULES, tensors)
    with pytest.raises(RunError, match="impossible length"):
        load_rules(run)


def test_tensors_of_another_kind_are_refused(run: RunFolder) -> None:
    good = SOME.to_tensors()
    for bad, says in (
        ({**good, "relation": good["relation"].long()}, "relation holds"),
        ({**good, "end": good["end"][:3]}, "end holds"),
        ({**good, "more": torch.zeros(2)}, "unknown tensor more"),
        ({**good, "weight.a": torch.tensor([torch.inf])}, "not finite"),
        ({name: tensor for name, tensor in good.items() if name != "flags"}, "flags"),
    ):
        run.write_tensors(RULES, bad)
        with pytest.raises(RunError, match=says):
            load_rules(run)


def test_a_cut_or_foreign_or_missing_file_is_refused(run: RunFolder, tmp_path: Path) -> None:
    with pytest.raises(RunError, match=f"has no {RULES}; its training has not finished"):
        load_rules(run)
    save_rules(run, SOME)
    whole = (run.path / RULES).read_bytes()
    (run.path / RULES).write_bytes(whole[:-10])
    with pytest.raises(RunError, match="truncated or no safetensors file"):
        load_rules(run)
    other = RunFolder.create(tmp_path / "other", Graph.of([("a", "r", "b")]), {"model": "rules"})
    (other.path / RULES).write_bytes(whole)
    with pytest.raises(RunError, match="was trained on another vocabulary"):
        load_rules(other)


def test_rules_beside_a_model_are_a_part_of_their_own(run: RunFolder, tmp_path: Path) -> None:
    settings = TrainSettings(rank=2, model="distmult", device="cpu").to_dict()
    mixed = RunFolder.create(tmp_path / "mixed", cities(), settings)
    save_model(mixed, make_model("distmult", 12, 4, 2))
    save_rules(mixed, SOME)
    mixed.write_settings("rules", {"length": 2})
    files = mixed.weight_files()
    assert [name for name, _ in files["train"]] == [MODEL]
    assert [name for name, _ in files["rules"]] == [RULES]
    mixed.check_weights(files)
    save_rules(mixed, SOME.take(np.array([0])))
    with pytest.raises(RunError, match=r"weights of run .* were changed"):
        mixed.check_weights(files)
    assert mixed.drop("rules") is True
    assert "rules" not in mixed.settings
    assert (mixed.has(RULES), mixed.has(MODEL), mixed.has_predictor) == (False, True, True)
    assert mixed.drop("rules") is False


def test_other_rules_outdate_evaluations_that_used_them(tmp_path: Path) -> None:
    """Those of a run of rules used them whatever the setting says, which is of mixtures."""
    opened = rule_run(tmp_path / "run")
    folder = opened.folder
    folder.write_results(
        {
            "eval": [
                {"settings": {"search": search, "rules": used}}
                for search, used in (("beam", True), ("symbolic", True), ("beam", False))
            ]
        }
    )
    save_rules(folder, load_rules(folder)[0])
    assert ["outdated" in each for each in folder.results()["eval"]] == [True, False, True]
