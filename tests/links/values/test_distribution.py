"""Distributions of values: probabilities, intervals and differences."""

from __future__ import annotations

import itertools

import numpy as np
import pytest

from tacit.links.values.distribution import Errors, ValueDistribution, differing


def distribution(
    logarithmic: bool = False, whole: bool = False, seed: int = 0
) -> ValueDistribution:
    draw = np.random.default_rng(seed)
    return ValueDistribution(
        draw.uniform(3, 6, 5).astype(np.float32),
        draw.uniform(0.5, 2, 5).astype(np.float32),
        np.array([1, 0.5, 0.9, 0.2, 0], dtype=np.float32),
        Errors.of(draw.normal(size=4000)),
        logarithmic,
        whole,
        0.0 if logarithmic else -np.inf,
    )


def test_errors_have_the_shares_of_conformal_prediction() -> None:
    """Of 9 errors, a tenth is left to what is above each, and to what is beyond the last."""
    errors = Errors.of(np.arange(9.0))
    assert errors.chance(np.arange(9.0)) == pytest.approx(np.arange(1, 10) / 10)
    assert errors.chance(np.array([3.5])) == pytest.approx(0.45)
    assert errors.quantile([0.1, 0.5, 0.9]) == pytest.approx([0, 4, 8])
    far = errors.chance(np.array([-1e9, -5.0, 13.0, 1e9]))
    assert far[0] == 0
    assert 0 < far[1] < 0.1
    assert 0.9 < far[2] < 1
    assert far[3] == 1


@pytest.mark.parametrize("logarithmic", [False, True])
def test_the_probabilities_of_parts_add_up_to_the_presence(logarithmic: bool) -> None:
    found = distribution(logarithmic)
    cuts = [-np.inf, 0.0, 2.0, 5.0, 100.0, np.inf]
    parts = [
        found.within(slice(None), low, np.nextafter(high, -np.inf) if high < np.inf else high)
        for low, high in itertools.pairwise(cuts)
    ]
    assert np.sum(parts, axis=0) == pytest.approx(found.presence, abs=1e-6)
    if logarithmic:
        assert (parts[0] == 0).all()  # nobody has fewer than no inhabitants


@pytest.mark.parametrize("logarithmic", [False, True])
def test_quantiles_are_those_of_the_probabilities(logarithmic: bool) -> None:
    found = distribution(logarithmic)
    quantiles = found.quantiles(slice(None), [0.1, 0.5, 0.9])
    for entity in range(4):
        for chance, value in zip((0.1, 0.5, 0.9), quantiles[entity], strict=True):
            below = found.within(entity, -np.inf, value) / found.presence[entity]
            assert below == pytest.approx(chance, abs=2e-3)


def test_a_whole_number_is_met_with_a_probability() -> None:
    found = distribution(whole=True)
    total = sum(found.within(0, float(number), float(number)) for number in range(-20, 40))
    assert total == pytest.approx(1.0, abs=1e-3)
    assert found.within(0, 4.2, 4.8) == 0


def test_differences_are_those_of_drawn_values() -> None:
    left, right = distribution(seed=1), distribution(seed=2)
    draw = np.random.default_rng(0)

    def drawn(found: ValueDistribution, entity: int) -> np.ndarray:
        values: np.ndarray = found.quantiles(entity, draw.uniform(size=20_000))
        values[draw.uniform(size=20_000) > found.presence[entity]] = np.nan
        return values

    for one in range(4):
        for other in range(4):
            gaps = drawn(left, one) - drawn(right, other)
            for low, high in ((-np.inf, 0.0), (-1.0, 2.5), (1.0, np.inf)):
                share = ((gaps >= low) & (gaps <= high)).mean()
                found = differing(left, right, one, other, low, high)
                assert found == pytest.approx(share, abs=0.02)
                turned = differing(right, left, other, one, -high, -low)
                assert found == pytest.approx(float(turned), abs=1e-9)
