"""The largest values of rows against a sort."""

from __future__ import annotations

import numpy as np
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from tacit.distributed.ties import best


def sorted_best(row: list[float], k: int) -> list[tuple[float, int]]:
    """The definition: larger values first, of equal ones the first."""
    return sorted(zip(row, range(len(row)), strict=True), key=lambda pair: (-pair[0], pair[1]))[:k]


@given(st.data())
@settings(max_examples=200, deadline=None)
def test_the_best_are_those_of_a_sort_by_value_and_place(data: st.DataObject) -> None:
    value = st.sampled_from([float("-inf"), -2.0, -1.0, 0.0, 0.5])
    n = data.draw(st.integers(1, 30))
    rows = data.draw(st.lists(st.lists(value, min_size=n, max_size=n), min_size=1, max_size=4))
    k = data.draw(st.integers(1, n + 2))
    values, ids = best(torch.tensor(rows), k)
    for row, found, places in zip(rows, values.tolist(), ids.tolist(), strict=True):
        assert list(zip(found, places, strict=True)) == sorted_best(row, k)


def test_a_long_row_of_ties_is_cut_at_the_lowest_ids() -> None:
    """Long enough for every way that `topk` has to choose, with the cut among ties in most rows."""
    random = np.random.default_rng(3)
    values = torch.tensor(random.integers(0, 12, (9, 20_000)).astype(np.float32))
    values[3] = 1.0
    values[4] = torch.tensor(random.permutation(20_000).astype(np.float32))  # no ties at all
    for k in (1, 64, 5000):
        found, ids = best(values, k)
        for row in range(len(values)):
            expected = sorted_best(values[row].tolist(), k)
            assert list(zip(found[row].tolist(), ids[row].tolist(), strict=True)) == expected


def test_gradients_reach_what_was_taken_of_equal_values() -> None:
    values = torch.tensor([[1.0, 2.0, 1.0, 1.0], [0.0, 0.0, 3.0, 3.0]], requires_grad=True)
    best(values, 3)[0].mul(torch.tensor([1.0, 10.0, 100.0])).sum().backward()
    assert values.grad is not None
    assert values.grad.tolist() == [[10.0, 1.0, 100.0, 0.0], [100.0, 0.0, 1.0, 10.0]]
