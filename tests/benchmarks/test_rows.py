"""The rows of the tables: what they share is trained once, and every setting they name exists."""

from __future__ import annotations

import argparse
import inspect
import json
from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import Any

import pytest

import encoder_rows
import reproduce
import tiny
from tacit.adapt.settings import AdaptSettings
from tacit.encode.settings import EncodeSettings
from tacit.engine.settings import EngineSettings
from tacit.evaluate.protocol import evaluate
from tacit.links.rules.settings import RuleSettings
from tacit.links.settings import TrainSettings
from tacit.query.sampling.queries import with_answers, write_queries
from tacit.query.sampling.sampling import sample
from tacit.query.sampling.shapes import SHAPES, parse_shapes

PATHS = sorted(reproduce.ROWS.glob("*/*.toml"))
each_row = pytest.mark.parametrize(
    "path", PATHS, ids=lambda path: f"{path.parent.name}/{path.stem}"
)
# train, valid, entities
SIZES = {"NELL995": (114_213, 14_324, 63_361), "FB15k-237": (272_115, 17_526, 14_505)}


def figures_of(path: Path) -> Path:
    return reproduce.ROWS.parent / "results" / path.parent.name / f"{path.stem}.json"


@each_row
def test_the_settings_of_a_row_exist(path: Path) -> None:
    row = reproduce.read_row(path)
    facts, valid_facts, entities = SIZES[row["folder"]]
    assert {"encode", "train", "rules"} & set(row)
    RuleSettings.of(row.get("rules", {}))
    TrainSettings.of(row.get("train", {})).with_derived(facts, entities)
    EngineSettings.of(row.get("engine", {}))
    EncodeSettings.of(row.get("encode", {})).with_derived(entities)
    if "adapt" in row:
        AdaptSettings.of({**reproduce.SIGMOID, **row["adapt"]}).with_derived(valid_facts)
    split = row["queries"].get("split", "test")
    assert "encode" in row or split not in EngineSettings.of(row["engine"]).observed
    assert set(row.get("evaluate", {})) <= set(inspect.signature(evaluate).parameters)


@pytest.fixture(scope="module")
def table_of(tmp_path_factory: pytest.TempPathFactory) -> Callable[[str], reproduce.Table]:
    """The tiny graph of a data set, with all that rows of it have trained and sampled so far."""
    folder = tiny.write_data(tmp_path_factory.mktemp("tables"))
    arguments = argparse.Namespace(device="cpu", seed=0, tiny=True, limit=None, rank=None)
    return cache(lambda name: reproduce.Table(folder / name, arguments))


@each_row
def test_a_row_runs(path: Path, table_of: Callable[[str], reproduce.Table]) -> None:
    row = reproduce.read_row(path, tiny=True)
    report = table_of(row["folder"]).run(row)
    shapes = (
        ["1p"]
        if row["queries"].get("one_hop")
        else parse_shapes(row["queries"].get("shapes", "all"))
    )
    assert set(report["mrr"]) | set(report.get("refused", ())) == set(shapes)
    assert all(0 < mrr <= 1 for mrr in report["mrr"].values())
    assert ("adapt" in row) == ("adapt" in report["pipeline_seconds"])
    assert ("encode" in row) == ("encode" in report["pipeline_seconds"])


@pytest.mark.parametrize(
    "path",
    [path for path in PATHS if figures_of(path).exists()],
    ids=lambda path: f"{path.parent.name}/{path.stem}",
)
def test_a_row_has_the_settings_of_its_published_figures(path: Path) -> None:
    row = reproduce.read_row(path)
    recorded = json.loads(figures_of(path).read_text())["settings"]
    recorded.pop("minutes", None)  # an argument of the command
    for name, settings in recorded.items():
        if name == "engine":  # what a search does not use is not recorded
            assert {
                key: row["engine"][key] for key in row.get(name, {}) if key in settings
            }.items() <= settings.items()
        elif isinstance(settings, dict):
            assert settings.items() <= row[name].items()
        else:
            assert settings == row[name]
    assert {name for name in row if name != "engine"} <= set(recorded)


@pytest.mark.parametrize(("graph", "predictors"), [("nell995", 2), ("fb15k237", 2)])
def test_few_predictors_serve_all_tables_of_a_graph(graph: str, predictors: int) -> None:
    rows = [reproduce.read_row(path) for path in PATHS if path.parent.name.startswith(graph)]
    trained = [json.dumps(row["train"], sort_keys=True) for row in rows if "train" in row]
    assert len(set(trained)) == predictors < len(trained)


def test_a_row_takes_over_all_but_what_it_goes_without() -> None:
    systems = reproduce.ROWS / "nell995-systems"
    row = reproduce.read_row(systems / "lmpnn.toml")
    like = reproduce.read_row(reproduce.ROWS / "nell995/cqd-beam.toml")
    assert row["train"] == like["train"]
    assert "engine" in like
    assert "engine" not in row
    assert {"like", "without"}.isdisjoint(row)


def test_a_predictor_is_trained_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    trained = []
    original = reproduce.train

    def train(*arguments: Any, **named: Any) -> Any:
        trained.append(arguments)
        return original(*arguments, **named)

    monkeypatch.setattr(reproduce, "train", train)
    data = str(tiny.write_data(tmp_path / "data"))
    rows = "cqd-beam,link-prediction,link-prediction-relations"
    reproduce.main(
        ["fb15k237", "--tiny", "--data", data, "--out", str(tmp_path / "out"), "--rows", rows]
    )
    assert len(list((tmp_path / "out").rglob("*.json"))) == 3
    assert len(trained) == 2  # with and without the loss that predicts relations


@pytest.fixture(scope="module")
def data(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tiny.write_data(tmp_path_factory.mktemp("data"))


def test_an_encoder_that_is_cut_short_or_fails_or_does_not_fit_is_told(
    data: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    shrunk = reproduce.SHRUNK["encode"] | {"steps": None}
    monkeypatch.setitem(
        reproduce.SHRUNK, "encode", {k: v for k, v in shrunk.items() if k != "minutes"}
    )
    tables = ["nell995-systems", "nell995-systems-paper"]
    options = ["--tiny", "--data", str(data), "--out", str(tmp_path), "--rows", "gqe=0.002"]
    reproduce.main([*tables, *options])
    lean, paper = (
        json.loads((tmp_path / table / "gqe.json").read_text())["encoding"] for table in tables
    )
    assert lean["cut"] == "0.002 of 8 minutes"
    assert paper["cut"] == f"{paper['steps']:,} of 1,350,000 steps"
    assert (lean["recipe"], paper["recipe"]) == ("lean", "paper")
    assert set(lean["drawn"]) == {"1p", "2p", "3p"}  # the tiny data set has 2i and 3i alone
    assert lean["given"] == {"2i": tiny.QUERIES, "3i": tiny.QUERIES}

    with pytest.raises(SystemExit, match=r"left out: gqe needs 30 s, and -?\d+ are left"):
        reproduce.main([*tables[:1], *options, "--budget", "5"])
    monkeypatch.setattr(reproduce, "encode", lambda *arguments, **named: 1 / 0)
    with pytest.raises(SystemExit, match="left out: gqe failed: division by zero"):
        reproduce.main([*tables[:1], *options])


def test_a_share_of_given_queries_leaves_1p_whole_and_samples_what_the_folder_lacks(
    data: Path,
) -> None:
    folder = data / "FB15k-237"
    graph = tiny.graph()
    drawn = {name: sample(graph, SHAPES[name], "train", 40).queries for name in ("1p", "2p")}
    write_queries(folder.with_name("more"), "train", list(drawn.values()))
    for name, count in (("1p", len(drawn["1p"])), ("2p", round(len(drawn["2p"]) * 0.2))):
        settings = EncodeSettings(shapes="1p,2p,2in", share=0.2)
        found = encoder_rows.given_queries(graph, folder.with_name("more"), settings)
        assert len(found[name]) == count
        exact = with_answers(found[name], graph, "train")
        assert exact.hard.to_sets() == found[name].hard.to_sets()
    assert set(found) == {"1p", "2p", "2in"}
    assert len(found["2in"]) == 1  # a tenth of a fifth of 40
