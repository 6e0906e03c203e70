"""Figures of predicted values, worked out by hand."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest

from tacit.errors import DataError, SettingsError
from tacit.evaluate.value_evaluation import evaluate_values, store_values
from tacit.graph.graph import Graph
from tacit.links.values.distribution import Errors, ValueDistribution
from tacit.links.values.fitted_values import FittedAttribute, FittedValues
from tacit.links.values.walk_model import WalkModel
from tacit.run_folder.folder import RunFolder
from value_graphs import with_values


@pytest.fixture
def graph() -> Graph:
    """Training values 1, 2, 9 of a, b, c; test values 4, 10 of d, e; e is next to a and c."""
    facts = [("a", "near", "b"), ("e", "near", "a"), ("c", "near", "e"), ("d", "likes", "d")]
    held = {"a": 1.0, "b": 2.0, "c": 9.0}
    size = {name: (value, "train") for name, value in held.items()}
    size |= {"d": (4.0, "test"), "e": (10.0, "test")}
    return with_values(facts, {"size": size})


def fitted(graph: Graph, locations: dict[str, float]) -> FittedValues:
    """Medians by entity, with 80 % intervals of one on both sides."""
    found = np.zeros(graph.num_entities, dtype=np.float32)
    for name, value in locations.items():
        found[graph.entities.id(name)] = value
    one = np.ones_like(found)
    errors = Errors(np.array([-1.0, 0.0, 1.0]), np.array([0.1, 0.5, 0.9]))
    distribution = ValueDistribution(found, one, one, errors, False, False, -np.inf)
    none = np.zeros(0)
    walks = WalkModel(none.astype(int), none, none, none, 2.0, 1.0, 9.0)
    return FittedValues(
        graph.attributes, (FittedAttribute(distribution, walks),), graph.num_entities
    )


def test_figures_are_those_of_their_definitions(graph: Graph) -> None:
    found = evaluate_values(graph, fitted(graph, {"d": 4.2, "e": 7.0})).figures["size"]
    assert found.values == 2
    assert found.mae == pytest.approx((0.2 + 3.0) / 2)
    assert found.rmse == pytest.approx(np.sqrt((0.04 + 9.0) / 2))
    assert found.r2 == pytest.approx(1 - (0.04 + 9.0) / 18)  # the mean is 7
    assert found.coverage == 0.5
    assert found.close == 0.5  # 0.2 is within a tenth of 4, and 3 is not within a tenth of 10
    assert found.median_mae == pytest.approx((2 + 8) / 2)  # the median is 2
    # d has no neighbour, whose values would count; those of e are 1 and 9
    assert found.neighbours_mae == pytest.approx((2 + 5) / 2)


def test_known_entities_and_unlearned_attributes_are_left_out(graph: Graph) -> None:
    values = fitted(graph, {})
    with pytest.raises(DataError, match="no valid values"):
        evaluate_values(graph, values, "valid")
    with pytest.raises(SettingsError, match="valid and test"):
        evaluate_values(graph, values, "train")
    unlearned = FittedValues(graph.attributes, (None,), graph.num_entities)
    with pytest.raises(DataError, match="no test values"):
        evaluate_values(graph, unlearned)


def test_results_are_kept_once_for_each_split(graph: Graph, tmp_path: Path) -> None:
    folder = RunFolder.create(tmp_path / "run", graph, {"model": "complex"})
    evaluation = evaluate_values(graph, fitted(graph, {"d": 4.0}))
    for _ in range(2):
        assert not store_values(folder, evaluation).unstored_reason
    (stored,) = folder.results()["eval_values"]
    assert stored == json.loads(json.dumps(evaluation.to_json()))
    evaluation.write(tmp_path / "figures.json")
    assert json.loads((tmp_path / "figures.json").read_text()) == stored
    lines = evaluation.lines()
    assert lines[0].split()[:3] == ["attribute", "values", "MAE"]
    assert "size" in lines[1]
