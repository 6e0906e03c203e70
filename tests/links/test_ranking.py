from __future__ import annotations

import math

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import Tensor

from tacit.errors import TrainingError
from tacit.links.ranking import TIES, by_query, check_ranks, ranks

INF = float("inf")


def slow_rank(row: list[float], answer: int, answers: set[int], ties: str) -> float:
    """Compare with every non-answer, one at a time."""
    better = equal = 0
    for entity, score in enumerate(row):
        if entity in answers or entity == answer:
            continue
        better += score > row[answer]
        equal += score == row[answer]
    return 1 + better + {"realistic": equal / 2, "optimistic": 0, "pessimistic": equal}[ties]


@st.composite
def cases(
    draw: st.DrawFn,
) -> tuple[list[list[float]], list[tuple[int, int]], list[tuple[int, int]]]:
    width = draw(st.integers(1, 12))
    value = st.sampled_from([-INF, -1.0, 0.0, 0.5, 1.0, 1e-45, INF])
    scores = draw(st.lists(st.lists(value, min_size=width, max_size=width), min_size=1, max_size=4))
    cell = st.tuples(st.integers(0, len(scores) - 1), st.integers(0, width - 1))
    return scores, draw(st.lists(cell, unique=True)), draw(st.lists(cell))


def columns(cells: list[tuple[int, int]]) -> tuple[Tensor, Tensor]:
    pairs = torch.tensor(cells, dtype=torch.int64).reshape(-1, 2)
    return pairs[:, 0], pairs[:, 1]


@pytest.mark.parametrize("ties", TIES)
@given(case=cases())
def test_equals_one_comparison_at_a_time(
    ties: str, case: tuple[list[list[float]], list, list]
) -> None:
    scores, hard, easy = case
    answers = [{e for row, e in hard + easy if row == r} for r in range(len(scores))]
    given_scores = torch.tensor(scores)
    places = ranks(given_scores, *columns(hard), *columns(hard + easy), ties)
    assert places.tolist() == [slow_rank(scores[r], e, answers[r], ties) for r, e in hard]
    assert torch.equal(given_scores, torch.tensor(scores)), "the scores are whole again"


@pytest.mark.parametrize("dtype", [torch.float64, torch.bfloat16])
def test_many_blocks_and_other_precisions(dtype: torch.dtype) -> None:
    generator = torch.Generator().manual_seed(3)
    scores = torch.randint(0, 50, (5, 300_000), generator=generator).to(dtype)
    rows = torch.arange(5).repeat_interleave(2)
    hard = torch.randint(0, 300_000, (10,), generator=generator).int()
    easy = torch.randint(0, 300_000, (5_000,), generator=generator).int()
    easy_rows = torch.arange(5).repeat_interleave(1_000)
    places = ranks(scores, rows.int(), hard, torch.cat([rows, easy_rows]), torch.cat([hard, easy]))
    for i in range(10):
        free = torch.ones(300_000, dtype=torch.bool)
        free[hard[rows == rows[i]].long()] = False
        free[easy[easy_rows == rows[i]].long()] = False
        others = scores[rows[i]][free]
        own = scores[rows[i], hard[i]]
        assert places[i] == 1 + int((others > own).sum()) + int((others == own).sum()) / 2


def test_an_answer_competes_neither_with_itself_nor_with_other_hard_answers_left_out_of_known() -> (
    None
):
    scores = torch.tensor([[3.0, 2.0, 1.0]])
    nothing = torch.tensor([], dtype=torch.int64)
    assert ranks(scores, torch.tensor([0, 0]), torch.tensor([0, 2]), nothing, nothing).tolist() == [
        1.0,
        2.0,
    ]


def test_scores_that_are_not_numbers_are_an_error_and_stay_as_they_were() -> None:
    scores = torch.tensor([[1.0, math.nan, 0.0]])
    zero = torch.tensor([0])
    with pytest.raises(TrainingError, match="not numbers"):
        check_ranks(ranks(scores, zero, zero, zero, zero))
    assert scores[0, 0] == 1.0


def test_ranks_of_scores_made_in_inference_mode() -> None:
    with torch.inference_mode():
        scores = torch.tensor([[1.0, 2.0]])
    zero = torch.tensor([0])
    assert ranks(scores, zero, zero, zero, zero).tolist() == [2.0]
    assert scores.tolist() == [[1.0, 2.0]]


def test_nothing_to_rank() -> None:
    nothing = torch.tensor([], dtype=torch.int64)
    assert ranks(torch.zeros(2, 3), nothing, nothing, nothing, nothing).shape == (0,)


def test_figures_of_a_query_are_means_over_its_answers() -> None:
    # Query 7: ranks 1, 1, 1, 5; query 2: rank 20. MRR 0.05 and (1 + 1 + 1 + 0.2)/4 = 0.8.
    figures = by_query(torch.tensor([1.0, 20.0, 1.0, 1.0, 5.0]), torch.tensor([7, 2, 7, 7, 7]))
    assert figures["mrr"].tolist() == pytest.approx([0.05, 0.8], abs=1e-12)
    assert figures["hits@1"].tolist() == [0.0, 0.75]
    assert figures["hits@10"].tolist() == [0.0, 1.0]
    assert by_query(torch.tensor([1.0, 20.0]), torch.tensor([7, 2]))[
        "mrr"
    ].tolist() == pytest.approx([0.05, 1.0])
