"""A scan of the table, block by block, against whole rows and a plain sort, ties and all."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from tables import FactorScorer
from tacit.links import retrievers as scan
from tacit.links.retrievers import ScanTop, TopKRetriever


def sorted_best(row: list[float], k: int) -> list[tuple[float, int]]:
    """The definition: larger values first, of equal ones the first."""
    return sorted(zip(row, range(len(row)), strict=True), key=lambda pair: (-pair[0], pair[1]))[:k]


@given(st.integers(0, 10_000), st.integers(1, 12), st.sampled_from([1, 5, 1000]))
@settings(max_examples=60, deadline=None)
def test_a_scan_finds_the_best_of_whole_rows(seed: int, m: int, at_once: int) -> None:
    random = np.random.default_rng(seed)
    n = 9
    tables = [random.integers(1, 4, (n, n)) / 4 for _ in range(2)]
    scorer = FactorScorer(tables)
    heads = torch.tensor([0, 4, 8])
    relations = torch.tensor([0, 3, 1])
    finder = ScanTop(scorer, torch.zeros(4, dtype=torch.bool))
    assert isinstance(finder, TopKRetriever)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(scan, "_SCORES", at_once)
        top = finder.top(heads, relations, m)
        (total, exact) = finder.log_sums(heads, relations)
    assert bool(exact.all())
    assert top.ids.shape == top.logits.shape == (3, m)
    for row, logits in enumerate(scorer.logits(heads, relations).tolist()):
        expected = sorted_best(logits, m)
        missing = [(float("-inf"), -1)] * (m - len(expected))
        assert (
            list(zip(top.logits[row].tolist(), top.ids[row].tolist(), strict=True))
            == expected + missing
        )
        left = [value for value, _ in sorted_best(logits, n)[m:]]
        assert float(top.rest[row]) == max(left, default=float("-inf"))
        assert float(total[row]) == pytest.approx(np.log(np.exp(logits).sum()), abs=1e-5)
