"""The recipe of the documents that tunes settings, run as it stands on a small graph."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

import tacit
from documents import blocks
from source_tree import ROOT

optuna = pytest.importorskip("optuna")


class Pruner(optuna.pruners.BasePruner):  # type: ignore[misc]
    """Gives the second trial up at its first validation."""

    def prune(self, study: Any, trial: Any) -> bool:
        return bool(trial.number == 1)


def test_the_recipe_tunes_and_prunes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    ring = [(f"e{i}", "next", f"e{(i + 1) % 9}") for i in range(9)]
    facts = tmp_path / "world"  # a path goes before the data set of that name
    facts.mkdir()
    for name, rows in (("train", ring), ("valid", [("e0", "next", "e2")]), ("test", [])):
        (facts / f"{name}.tsv").write_text("".join("\t".join(row) + "\n" for row in rows))
    (recipe,) = (
        block.text for block in blocks(ROOT / "docs" / "training.md") if "optuna" in block.text
    )
    made: list[Any] = []

    def create_study(**options: Any) -> Any:
        sampler = optuna.samplers.RandomSampler(seed=0)
        made.append(optuna.study.create_study(pruner=Pruner(), sampler=sampler, **options))
        return made[0]

    monkeypatch.setattr(optuna, "create_study", create_study)
    exec(compile(recipe, "recipe", "exec"), {"tacit": tacit})
    (study,) = made
    assert [trial.state.name for trial in study.trials] == ["COMPLETE", "PRUNED", "COMPLETE"]
    for trial in (study.trials[0], study.trials[2]):
        run = tacit.open(f"runs/trial-{trial.number}")
        assert trial.value == run.results["train"]["valid_mrr"]
        chosen = {name: run.settings["train"][name] for name in ("rank", "reg")}
        assert chosen == trial.params
    assert study.best_value == max(study.trials[0].value, study.trials[2].value)
