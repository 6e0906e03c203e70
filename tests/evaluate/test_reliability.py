from __future__ import annotations

import math

import numpy as np
import pytest
import torch
from torch import Tensor

from tacit.engine.reasoner import Reasoner
from tacit.errors import SettingsError
from tacit.evaluate.reliability import Reliability, reliability
from tacit.query.plans.plan import Plan
from tacit.query.plans.sets import AnswerSets
from tacit.query.sampling.queries import QuerySet
from tacit.query.sampling.shapes import SHAPES


class Fixed(Reasoner):
    """A reasoner whose scores are given."""

    def __init__(self, scores: list[list[float]]) -> None:
        self.table = torch.tensor(scores).log()
        self.num_entities = self.table.shape[1]

    def scores(self, plan: Plan, entities: Tensor, relations: Tensor) -> Tensor:
        return self.table[entities[:, 0]]


def one_hop(easy: list[set[int]], hard: list[set[int]]) -> QuerySet:
    heads = np.arange(len(hard), dtype=np.int32)[:, None]
    return QuerySet(
        SHAPES["1p"], heads, np.zeros_like(heads), AnswerSets.of(easy), AnswerSets.of(hard)
    )


def test_by_hand() -> None:
    # Bin [0, 0.5): scores 0.1, 0.3 of which one holds; bin [0.5, 1]: 0.5, 0.9, 1.0 of which two
    # hold.
    measured = Reliability.of(
        torch.tensor([0.1, 0.3, 0.5, 0.9, 1.0]), torch.tensor([0, 1, 0, 1, 1]), bins=2
    )
    assert measured.counts.tolist() == [2, 3]
    assert measured.mean_score.tolist() == pytest.approx([0.2, 0.8])
    assert measured.accuracy.tolist() == pytest.approx([0.5, 2 / 3])
    assert measured.calibration_error == pytest.approx(2 / 5 * 0.3 + 3 / 5 * (0.8 - 2 / 3))
    assert measured.brier == pytest.approx((0.01 + 0.49 + 0.25 + 0.01 + 0.0) / 5)


def test_perfect_and_worst_scores() -> None:
    labels = np.array([0.0, 1.0, 1.0])
    perfect = Reliability.of(labels, labels)
    worst = Reliability.of(1 - labels, labels)
    assert (perfect.calibration_error, perfect.brier) == (0.0, 0.0)
    assert (worst.calibration_error, worst.brier) == (1.0, 1.0)


def test_parts_add_up_to_the_whole() -> None:
    generator = torch.Generator().manual_seed(0)
    scores = torch.rand(1000, generator=generator)
    labels = torch.rand(1000, generator=generator) < scores  # calibrated by construction
    whole = Reliability.of(scores, labels)
    parts = Reliability.of(scores[:300], labels[:300]) + Reliability.of(scores[300:], labels[300:])
    assert parts.to_json() == {**whole.to_json(), "ece": pytest.approx(whole.calibration_error)} | {
        "brier": pytest.approx(whole.brier),
        "curve": {
            "count": whole.counts.tolist(),
            "score": pytest.approx(whole.mean_score.tolist()),
            "accuracy": pytest.approx(whole.accuracy.tolist()),
        },
    }
    assert whole.calibration_error < 0.06


def test_empty_bins_have_no_curve() -> None:
    measured = Reliability.of(torch.tensor([0.05]), torch.tensor([1]))
    assert math.isnan(measured.accuracy[5])
    assert measured.to_json()["curve"] == {
        "count": [1],
        "score": [pytest.approx(0.05)],
        "accuracy": [1.0],
    }
    assert Reliability.empty().calibration_error == 0.0


@pytest.mark.parametrize("scores", [[1.5], [-0.1], [math.nan]])
def test_scores_outside_0_and_1_are_refused(scores: list[float]) -> None:
    with pytest.raises(SettingsError, match="between 0 and 1"):
        Reliability.of(torch.tensor(scores), torch.tensor([1]))


def test_wrong_sizes_are_refused() -> None:
    with pytest.raises(SettingsError, match="2 scores"):
        Reliability.of(torch.zeros(2), torch.zeros(3))
    with pytest.raises(SettingsError, match="at least 1 bin"):
        Reliability.empty(0)


@pytest.mark.parametrize("batch", [1, 2, None])
def test_answers_of_queries_without_the_easy_ones(batch: int | None) -> None:
    reasoner = Fixed([[0.9, 0.8, 0.0, 0.2], [0.6, 0.4, 0.4, 0.1]])
    queries = one_hop(easy=[{0}, set()], hard=[{1}, {3}])
    measured = reliability(reasoner, queries, bins=2, batch=batch)
    # 0, .2, .4, .4, .1 and .8, .6; entity 0 of the first query is left out
    assert measured.counts.tolist() == [5, 2]
    assert measured.hits.tolist() == [1.0, 1.0]
    assert measured.scores.tolist() == pytest.approx([1.1, 1.4])


def test_the_best_of_each_query() -> None:
    reasoner = Fixed([[0.9, 0.8, 0.0, 0.2], [0.6, 0.4, 0.3, 0.1]])
    queries = one_hop(easy=[{0}, set()], hard=[{1}, {3}])
    measured = reliability(reasoner, queries, bins=1, top=2)
    assert measured.counts.tolist() == [4]
    assert measured.scores[0] == pytest.approx(0.8 + 0.2 + 0.6 + 0.4)
    assert measured.hits[0] == 1.0
    assert len(reliability(reasoner, queries, top=99)) == 7


def test_the_best_are_told_apart_where_probabilities_are_alike() -> None:
    reasoner = Fixed([[0.5, 0.5, 0.5, 0.5]])
    # as probabilities, three times 1
    reasoner.table = torch.tensor([[-4e-9, -1e-9, -2e-9, -torch.inf]])
    measured = reliability(reasoner, one_hop(easy=[set()], hard=[{1}]), bins=1, top=1)
    assert (measured.counts.tolist(), measured.hits.tolist(), measured.brier) == ([1], [1.0], 0.0)
    every = reliability(reasoner, one_hop(easy=[{0, 2}], hard=[{1}]), bins=1, top=2)
    # what cannot be comes before what is known
    assert (every.counts.tolist(), every.scores.tolist()) == ([2], [1.0])
