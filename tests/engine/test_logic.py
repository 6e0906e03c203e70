"""The laws of fuzzy logic, on log-scores, and their accuracy where float32 runs out."""

from __future__ import annotations

import math

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from tacit.engine.logic import NEGATIONS, NORMS, Logic, exp2_, log1mexp

truths = st.one_of(st.floats(0, 1, width=32), st.sampled_from([0.0, 1.0, 1e-30, 1 - 2**-20]))


def log(x: float) -> torch.Tensor:
    return torch.tensor(x, dtype=torch.float32).log()


def close(a: torch.Tensor, b: torch.Tensor) -> bool:
    return math.isclose(a.exp().item(), b.exp().item(), rel_tol=1e-4, abs_tol=1e-6)


@pytest.mark.parametrize("norm", NORMS)
@given(truths, truths, truths)
def test_laws_of_t_norms(norm: str, x: float, y: float, z: float) -> None:
    logic = Logic(norm)
    a = log(x)
    b = log(y)
    c = log(z)
    for combine, neutral in ((logic.conjunction, log(1.0)), (logic.disjunction, log(0.0))):
        assert close(combine(a, b), combine(b, a))
        assert close(combine(combine(a, b), c), combine(a, combine(b, c)))
        assert close(combine(a, neutral), a)
        if x <= y:
            assert combine(a, c).exp() <= combine(b, c).exp() + 1e-6
    assert logic.conjunction(a, b) <= torch.minimum(a, b) + 1e-6
    assert logic.disjunction(a, b) >= torch.maximum(a, b) - 1e-6


@pytest.mark.parametrize("norm", NORMS)
@given(truths, truths)
def test_conjunction_and_disjunction_are_dual(norm: str, x: float, y: float) -> None:
    """De Morgan, with the standard negation, both ways round."""
    logic = Logic(norm)
    a = log(x)
    b = log(y)
    n = logic.negation
    assert close(logic.disjunction(a, b), n(logic.conjunction(n(a), n(b))))
    assert close(logic.conjunction(a, b), n(logic.disjunction(n(a), n(b))))


@pytest.mark.parametrize("negation", NEGATIONS)
@pytest.mark.parametrize("norm", NORMS)
@given(truths, truths)
def test_gradients_are_numbers_even_where_values_are_zero(
    norm: str, negation: str, x: float, y: float
) -> None:
    logic = Logic(norm, negation, strength=2.0)
    for combine in (logic.conjunction, logic.disjunction, lambda a, b: logic.negation(a)):
        a = log(x).requires_grad_()
        b = log(y).requires_grad_()
        combine(a, b).clamp(min=-80.0).backward()  # as losses do
        assert all(one.grad is None or one.grad.isfinite() for one in (a, b))


@pytest.mark.parametrize(
    ("norm", "both", "either"),
    [("product", 0.12, 0.58), ("godel", 0.3, 0.4), ("lukasiewicz", 0.0, 0.7)],
)
def test_worked_values(norm: str, both: float, either: float) -> None:
    logic = Logic(norm)
    assert logic.conjunction(log(0.3), log(0.4)).exp().item() == pytest.approx(both, abs=1e-6)
    assert logic.disjunction(log(0.3), log(0.4)).exp().item() == pytest.approx(either, abs=1e-6)


def test_many_arguments_fold_from_the_left() -> None:
    parts = [log(x) for x in (0.5, 0.4, 0.1)]
    assert Logic("product").any(parts).exp().item() == pytest.approx(1 - 0.5 * 0.6 * 0.9)
    assert Logic("lukasiewicz").any(parts).exp().item() == pytest.approx(1.0)
    assert Logic("godel").all(parts).exp().item() == pytest.approx(0.1)


@given(truths)
def test_negations(x: float) -> None:
    assert Logic().negation(log(x)).exp().item() == pytest.approx(1 - x, abs=1e-6)
    expected = (1 + math.cos(math.pi * x)) / 2
    assert Logic(negation_name="cosine").negation(log(x)).exp().item() == pytest.approx(
        expected, abs=1e-6
    )


def test_strength_multiplies_before_negating_and_leaves_disjunction_alone() -> None:
    strong = Logic(strength=8.0)
    assert strong.negation(log(0.05)).exp().item() == pytest.approx(0.6)
    assert strong.negation(log(0.5)).exp().item() == 0.0
    assert strong.disjunction(log(0.05), log(0.5)) == Logic().disjunction(log(0.05), log(0.5))


@pytest.mark.parametrize("negation", NEGATIONS)
def test_order_is_kept_at_both_ends(negation: str) -> None:
    """Scores that round to 1, or whose complements do, stay apart as log-scores."""
    logits = torch.linspace(18.0, 40.0, 50)
    nearly_one = torch.nn.functional.logsigmoid(logits)
    nearly_zero = torch.nn.functional.logsigmoid(-logits)
    assert (torch.sigmoid(logits) == 1.0).all()
    logic = Logic(negation_name=negation)
    assert (logic.negation(nearly_one).diff() < 0).all()
    if negation == "standard":
        assert (logic.negation(nearly_zero).diff() > 0).all()
    assert (logic.disjunction(nearly_one, nearly_one).exp() == 1.0).all()
    assert (Logic("product").disjunction(nearly_zero, nearly_zero.flip(0)).isfinite()).all()


def test_tiny_scores_stay_apart_in_a_disjunction() -> None:
    low = torch.tensor([-120.0, -119.0, -118.0])
    either = Logic("product").disjunction(low, low)
    np.testing.assert_allclose(either, low + math.log(2), rtol=1e-6)


def test_log1mexp_has_finite_gradients_at_the_ends() -> None:
    a = torch.tensor([0.0, -1e-8, -1e-3, -50.0, -math.inf], requires_grad=True)
    log1mexp(a)[1:].sum().backward()
    assert a.grad is not None
    assert a.grad.isfinite().all()
    assert a.grad[2].item() == pytest.approx(-1 / math.expm1(1e-3), rel=1e-4)


def test_powers_of_two_are_the_same_in_any_batch_and_on_any_threads() -> None:
    before = torch.get_num_threads()
    x = torch.randn(2**17 + 40, generator=torch.Generator().manual_seed(0)) * 9
    try:
        torch.set_num_threads(1)
        every = exp2_(x.clone())
        torch.testing.assert_close(every.double(), torch.exp2(x.double()), rtol=1e-6, atol=0.0)
        for threads in (1, 2, 3):
            torch.set_num_threads(threads)
            for start, size in ((0, 7), (5, 33), (3, 2**15 + 1), (2, 2**16 + 5), (1, 2**17 + 38)):
                room = x.clone()
                cut = slice(start, start + size)
                assert torch.equal(exp2_(room[cut]), every[cut])  # with numbers behind it
                others = torch.cat([x[:start], x[start + size :]])
                # which stay as they are
                assert torch.equal(torch.cat([room[:start], room[start + size :]]), others)
                assert torch.equal(exp2_(x[cut].clone()), every[cut])  # with none
    finally:
        torch.set_num_threads(before)
