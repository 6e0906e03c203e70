"""Boosted trees: what they learn, and beside a library that does the same."""

from __future__ import annotations

import numpy as np
import pytest

from tacit.links.values.boosting import BoostedTrees


def fit(features: np.ndarray, targets: np.ndarray, **options: object) -> BoostedTrees:
    settings = {"rounds": 80, "generator": np.random.default_rng(0), **options}
    return BoostedTrees.fit(features.astype(np.float32), targets, **settings)  # type: ignore[arg-type]


def test_a_step_and_a_missing_value_are_learned() -> None:
    draw = np.random.default_rng(1)
    x = draw.uniform(size=(600, 3))
    x[::5, 0] = np.nan
    y = np.where(np.isnan(x[:, 0]), -2.0, np.where(x[:, 0] > 0.5, 5.0, 1.0))
    trees = fit(x, y, rounds=200)
    for row, value in (([0.9, 0, 0], 5.0), ([0.1, 0, 0], 1.0), ([np.nan, 0, 0], -2.0)):
        assert trees.predict(np.array([row], dtype=np.float32))[0] == pytest.approx(value, abs=0.3)


def test_the_absolute_error_is_met_by_medians_and_the_squared_one_by_means() -> None:
    x = np.repeat([0.0, 1.0], 300)[:, None]
    y = np.tile([0.0, 0.0, 9.0], 200) + x[:, 0]
    ends = np.array([[0.0], [1.0]], dtype=np.float32)
    medians = fit(x, y, rounds=300).predict(ends)
    means = fit(x, y, rounds=300, absolute=False).predict(ends)
    assert medians == pytest.approx([0.0, 1.0], abs=0.2)
    assert means == pytest.approx([3.0, 4.0], abs=0.2)


@pytest.mark.parametrize("absolute", [True, False])
def test_trees_err_no_more_than_those_of_scikit_learn(absolute: bool) -> None:
    ensemble = pytest.importorskip("sklearn.ensemble")
    draw = np.random.default_rng(2)
    x = draw.normal(size=(1500, 12))
    x[draw.uniform(size=x.shape) < 0.2] = np.nan
    y = 3 * np.nan_to_num(x[:, 0]) + np.where(np.nan_to_num(x[:, 1]) > 0, 2, -2)
    y = y + draw.standard_t(2, len(x)) * 0.5
    library = ensemble.HistGradientBoostingRegressor(
        loss="absolute_error" if absolute else "squared_error",
        max_iter=150,
        max_depth=4,
        random_state=0,
    )
    models = (
        fit(x[:1000], y[:1000], rounds=150, absolute=absolute, share=0.5),
        library.fit(x[:1000], y[:1000]),
    )
    later = x[1000:].astype(np.float32)
    errors = [np.abs(model.predict(later) - y[1000:]).mean() for model in models]
    assert errors[0] < 1.15 * errors[1]


def test_nothing_to_learn_from_predicts_nothing() -> None:
    assert fit(np.ones((50, 2)), np.arange(50.0)).predict(np.ones((2, 2), np.float32)).tolist() == [
        0.0,
        0.0,
    ]
    assert fit(np.zeros((50, 0)), np.arange(50.0)).predict(np.zeros((1, 0), np.float32)) == [0.0]


def test_the_same_seed_gives_the_same_trees() -> None:
    draw = np.random.default_rng(3)
    x, y = draw.normal(size=(200, 30)), draw.normal(size=200)
    one, two = (fit(x, y).predict(x.astype(np.float32)) for _ in range(2))
    assert (one == two).all()
