"""Values of attributes in runs: known and predicted, after changes, and at the command line."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

import tacit
from tacit.cli import app
from tacit.errors import SettingsError, TacitError
from tacit.graph.graph import Graph
from tacit.run_folder.files import VALUES
from value_graphs import places, write_places

GRAPH = places(160)


@pytest.fixture(autouse=True)
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("TACIT_CACHE", str(tmp_path / "cache"))
    return tmp_path / "cache"


@pytest.fixture(scope="module")
def trained(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("values") / "run"
    tacit.train(GRAPH, folder, model="rules", progress=False)
    return folder


@pytest.fixture
def run(trained: Path) -> tacit.Run:
    return tacit.open(trained)


def entity_of(split: str, attribute: int = 0) -> tuple[str, float]:
    entities, values = GRAPH.attributes.column(attribute, split)
    return GRAPH.entities[int(entities[0])], float(values[0])


def command(*words: object) -> Any:
    return CliRunner().invoke(app, [str(word) for word in words])


def test_known_values_are_told_as_they_are(run: tacit.Run) -> None:
    entity, value = entity_of("train")
    found = run.value(entity, "latitude")
    assert found is not None
    assert found.known
    assert found.value == value
    assert (found.interval, found.presence, found.evidence) == (None, 1.0, ())


def test_missing_values_are_predicted_with_their_evidence(trained: Path) -> None:
    run = tacit.open(trained, observed="train")
    hidden, true = entity_of("test")
    found = run.value(hidden, "latitude")
    assert found is not None
    assert not found.known
    assert isinstance(found.interval, tuple)
    assert isinstance(found.value, float)
    low, high = found.interval
    assert isinstance(low, float)
    assert isinstance(high, float)
    assert low < found.value < high
    assert abs(found.value - true) < 15
    wider = run.value(hidden, "latitude", level=0.99)
    assert wider is not None
    assert wider.interval is not None
    assert wider.interval[0] < low  # type: ignore[operator]
    assert high < wider.interval[1]  # type: ignore[operator]
    assert found.evidence
    assert found.presence > 0.7
    assert "latitude of t" in str(found.evidence[0])
    assert "by near" in str(found.evidence[0])
    plain = json.loads(json.dumps(found.to_dict()))
    assert plain["entity"] == hidden
    assert plain["evidence"][0]["share"] > 0
    # and the same value in answers
    asked = run.ask(f"?t, ?n : near({hidden}, ?t) & ?n = latitude({hidden})", top=1)
    assert str(found) in str(asked)


def test_wrong_names_and_levels_say_what_would_work(run: tacit.Run) -> None:
    entity, _ = entity_of("train")
    for names, problem in (
        (("Nowhere", "latitude"), "unknown entity"),
        ((entity, "lattitude"), "did you mean 'latitude'"),
    ):
        with pytest.raises(TacitError, match=problem):
            run.value(*names)
    for level in (0, 1, 80, -0.5, True):
        with pytest.raises(SettingsError, match="level"):
            run.value(entity, "latitude", level=level)


def test_missing_values_are_listed_with_the_surest_first(trained: Path, tmp_path: Path) -> None:
    run = tacit.open(trained, observed="train")
    found = list(run.complete_values("latitude"))
    known = {GRAPH.entities[int(e)] for e in GRAPH.attributes.column(0, "train")[0]}
    assert found
    assert not {each.entity for each in found} & known
    assert all(each.entity.startswith("t") and each.presence >= 0.5 for each in found)
    widths = [each.high - each.low for each in found]  # type: ignore[operator]
    assert widths == pytest.approx(sorted(widths))
    some = run.complete_values("latitude", top=3)
    assert list(some) == found[:3]
    assert some.more
    of_one = list(run.complete_values(entities=[found[0].entity]))
    assert {each.entity for each in of_one} == {found[0].entity}
    run.complete_values("latitude").write(tmp_path / "values.jsonl")
    lines = (tmp_path / "values.jsonl").read_text().splitlines()
    assert [json.loads(line)["entity"] for line in lines] == [each.entity for each in found]
    assert list(run.complete_values("latitude").to_pandas()["entity"]) == [e.entity for e in found]
    with pytest.raises(SettingsError, match="must end in"):
        run.complete_values().write(tmp_path / "values.ttl")
    with pytest.raises(SettingsError, match="min_presence"):
        run.complete_values(min_presence=2.0)


def test_training_learns_them_and_goes_on_where_they_are_missing(trained: Path) -> None:
    assert (trained / VALUES).is_file()
    before = tacit.open(trained, observed="train").value(entity_of("test")[0], "latitude")
    (trained / VALUES).unlink()
    tacit.train(GRAPH, trained, model="rules", resume=True, progress=False)
    assert (trained / VALUES).is_file()
    assert tacit.open(trained, observed="train").value(entity_of("test")[0], "latitude") == before


def test_changed_facts_are_learned_again_at_the_first_use(tmp_path: Path) -> None:
    run = tacit.train(GRAPH, tmp_path / "run", model="rules", progress=False)
    north = max(zip(*GRAPH.attributes.column(0, "train"), strict=True), key=lambda pair: pair[1])
    town = GRAPH.entities[int(north[0])]
    run.add([("nova", "near", town), (town, "near", "nova"), ("nova", "speaks", "l1")], new=True)
    assert not (tmp_path / "run" / VALUES).is_file()
    found = run.value("nova", "latitude")
    assert found is not None
    assert isinstance(found.value, float)
    assert found.value == pytest.approx(north[1], abs=12)
    assert (tmp_path / "run" / VALUES).is_file()


def test_facts_without_a_run_predict_values(tmp_path: Path) -> None:
    table = tmp_path / "places.tsv"
    write_places(str(table), GRAPH)
    run = tacit.open(table)
    assert {each.name for each in run.graph.attributes.listed} == {"latitude", "people"}
    missing = next(iter(run.complete_values("latitude")))
    assert run.value(missing.entity, "latitude").value == missing.median  # type: ignore[union-attr]
    assert [*tmp_path.rglob(VALUES)]  # kept for the next time


def test_graphs_without_values_say_so(tmp_path: Path) -> None:
    run = tacit.train(
        Graph.of([("a", "r", "b"), ("b", "r", "c")]), tmp_path / "r", model="rules", progress=False
    )
    with pytest.raises(SettingsError, match="no values of attributes"):
        run.complete_values()
    with pytest.raises(SettingsError, match="no values of attributes"):
        run.evaluate_values()
    assert not (tmp_path / "r" / VALUES).is_file()


def test_evaluations_are_kept_and_printed(trained: Path, tmp_path: Path) -> None:
    run = tacit.open(trained)
    evaluation = run.evaluate_values()
    latitude = evaluation.figures["latitude"]
    assert latitude.mae < 0.5 * min(latitude.median_mae, 30.0)
    assert run.results["eval_values"] == [json.loads(json.dumps(evaluation.to_json()))]
    done = command("eval", trained, "--attributes", "--json", tmp_path / "out.json")
    assert done.exit_code == 0, done.output
    assert "latitude" in done.output
    assert "80 %" in done.output
    assert json.loads((tmp_path / "out.json").read_text()) == evaluation.to_json()
    refused = command("eval", trained, "--attributes", "--shapes", "2p")
    assert refused.exit_code == 1
    assert "--shapes belongs to queries" in str(refused.exception)


def test_the_command_lists_missing_values(trained: Path, tmp_path: Path) -> None:
    done = command("complete", trained, "--attributes", "--top", 3)
    assert done.exit_code == 0, done.output
    assert done.output.count("presence") == 3
    one = command("complete", trained, "--attribute", "people", "--out", tmp_path / "v.tsv")
    assert one.exit_code == 0
    assert "predicted value" in one.output
    rows = [line.split("\t") for line in (tmp_path / "v.tsv").read_text().splitlines()]
    assert rows[0][:3] == ["entity", "attribute", "median"]
    assert {r[1] for r in rows[1:]} == {"people"}
    for words, problem in (
        (("--attributes", "--relation", "near"), "--relation belongs to facts"),
        (("--attribute", "peple"), "did you mean 'people'"),
    ):
        refused = command("complete", trained, *words)
        assert refused.exit_code == 1
        assert problem in str(refused.exception)
