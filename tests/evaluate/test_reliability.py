from __future__ import annotations

import numpy as np
import pytest
import torch
from torch import Tensor

from tacit.engine.reasoner import Reasoner
from tacit.evaluate.reliability import Reliability, reliability
from tacit.query.plans.plan import Plan
from tacit.query.plans.sets import AnswerSets
from tacit.query.sampling.queries import QuerySet
from tacit.query.sampling.shapes import SHAPES


class Fixed(Reasoner):
    """A reasoner with fixed scores."""

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
    # Bin [0.1, 0.2): scores 0.11, 0.19 of which one holds; bin [0.9, 1]: 0.92, 0.93, 1.0 of which
    # two hold.
    measured = Reliability.of(
        torch.tensor([0.11, 0.19, 0.92, 0.93, 1.0]), torch.tensor([0, 1, 0, 1, 1])
    )
    curve = measured.to_json()["curve"]
    assert curve["count"] == [2, 3]
    assert curve["score"] == pytest.approx([0.15, 0.95])
    assert curve["accuracy"] == pytest.approx([0.5, 2 / 3])
    assert measured.calibration_error == pytest.approx(2 / 5 * 0.35 + 3 / 5 * (0.95 - 2 / 3))
    assert measured.brier == pytest.approx((0.0121 + 0.6561 + 0.8464 + 0.0049 + 0.0) / 5)


def test_perfect_and_worst_scores() -> None:
    labels = torch.tensor([0.0, 1.0, 1.0])
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
    of_parts, of_whole = parts.to_json(), whole.to_json()
    assert of_parts.pop("curve") == {
        name: pytest.approx(column) for name, column in of_whole.pop("curve").items()
    }
    assert of_parts == pytest.approx(of_whole)
    assert whole.calibration_error < 0.06


def test_empty_bins_have_no_curve() -> None:
    measured = Reliability.of(torch.tensor([0.05]), torch.tensor([1]))
    assert measured.to_json()["curve"] == {
        "count": [1],
        "score": [pytest.approx(0.05)],
        "accuracy": [1.0],
    }
    assert Reliability.empty().calibration_error == 0.0


@pytest.mark.parametrize("batch", [1, 2])
def test_answers_of_queries_without_the_easy_ones(
    batch: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    reasoner = Fixed([[0.9, 0.85, 0.0, 0.25], [0.65, 0.45, 0.45, 0.05]])
    monkeypatch.setattr(reasoner, "batch", lambda plan: batch)
    queries = one_hop(easy=[{0}, set()], hard=[{1}, {3}])
    curve = reliability(reasoner, queries).to_json()["curve"]
    # 0 and .05, .25, .45 twice, .65, .85; entity 0 of the first query is left out
    assert curve["count"] == [2, 1, 2, 1, 1]
    assert curve["score"] == pytest.approx([0.025, 0.25, 0.45, 0.65, 0.85])
    assert curve["accuracy"] == [0.5, 0.0, 0.0, 0.0, 1.0]


def test_the_best_of_each_query() -> None:
    reasoner = Fixed([[0.9, 0.8, 0.0, 0.2], [0.6, 0.4, 0.3, 0.1]])
    queries = one_hop(easy=[{0}, set()], hard=[{1}, {3}])
    measured = reliability(reasoner, queries, top=2)
    assert measured.bins.sum(1).tolist() == pytest.approx([4, 0.8 + 0.2 + 0.6 + 0.4, 1])
    assert len(reliability(reasoner, queries, top=99)) == 7


def test_the_best_are_told_apart_where_probabilities_are_alike() -> None:
    reasoner = Fixed([[0.5, 0.5, 0.5, 0.5]])
    # as probabilities, three times 1
    reasoner.table = torch.tensor([[-4e-9, -1e-9, -2e-9, -torch.inf]])
    measured = reliability(reasoner, one_hop(easy=[set()], hard=[{1}]), top=1)
    assert (measured.bins.sum(1).tolist(), measured.brier) == ([1, 1, 1], 0.0)
    every = reliability(reasoner, one_hop(easy=[{0, 2}], hard=[{1}]), top=2)
    # impossible answers come before easy ones
    assert every.bins.sum(1).tolist() == [2, 1, 1]
