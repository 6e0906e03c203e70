"""Scans of keys and of codes against plain sorting, ties, loops and keys that are hard to code."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor

from tables import FactorScorer
from tacit.engine.atoms.derived_weights import WeightCache
from tacit.links import retrievers
from tacit.links import scorer as links_scorer
from tacit.links.codes import FEW, Codes, shared_codes
from tacit.links.models import DistMult
from tacit.links.precision import steady_product
from tacit.links.retrievers import CodeRetriever, ScanRetriever, TopKRetriever

R = 4
LOOPLESS = torch.tensor([True, False, True, False])


def model_of(keys: Tensor, seed: int = 0) -> DistMult:
    """A model whose keys are given and whose relations are whole numbers."""
    model = DistMult(len(keys), R, keys.shape[1]).requires_grad_(False)
    model.entities.weight.copy_(keys)
    model.relations.weight.copy_(
        torch.randint(-3, 4, (R, keys.shape[1]), generator=draw(seed)).float()
    )
    return model


def draw(seed: int) -> torch.Generator:
    return torch.Generator().manual_seed(seed)


def whole_numbers() -> Tensor:
    """Sums of these are exact in floats, however they are added, and many of them tie."""
    return torch.randint(-4, 5, (700, 6), generator=draw(1)).float()


def hard_keys() -> dict[str, Tensor]:
    plain = torch.randn(700, 8, generator=draw(2))
    norms = plain * torch.logspace(-4, 4, 700)[:, None]
    spikes = plain.clone()
    spikes[::3, 0] = 500.0  # one number so large that the code leaves nothing of the others
    # closer together than codes tell apart
    near = plain[:1] + 1e-4 * torch.randn(700, 8, generator=draw(3))
    zeros = plain.clone()
    zeros[::2] = 0.0
    return {
        "plain": plain, "norms": norms, "spikes": spikes, "near": near, "zeros": zeros,
        "all zero": 0 * plain, "ties": whole_numbers(),
    }  # fmt: skip


def oracle(model: DistMult, heads: Tensor, relations: Tensor) -> Tensor:
    """All logits in double precision, loops at minus infinity."""
    h, r, t = (
        table.double()
        for table in (model.entities.weight, model.relations.weight, model.entities.weight)
    )
    logits = (h[heads] * r[relations]) @ t.T
    for row, (head, relation) in enumerate(zip(heads.tolist(), relations.tolist(), strict=True)):
        if LOOPLESS[relation]:
            logits[row, head] = -torch.inf
    return logits


@pytest.mark.parametrize("name", hard_keys())
@pytest.mark.parametrize("batch", [1, FEW, FEW + 1])
def test_products_with_codes_are_within_their_bounds(name: str, batch: int) -> None:
    keys = hard_keys()[name]
    queries = (
        torch.randn(batch, keys.shape[1], generator=draw(4)) * torch.logspace(-3, 3, batch)[:, None]
    )
    exact = queries.double() @ keys.double().T
    for columns in (slice(None), slice(101, 507)):
        rough, slack = Codes.of(keys).products(queries, columns)
        assert bool(((rough.double() - exact[:, columns]).abs() <= slack).all())
        size = queries.norm(dim=1, keepdim=True) * keys[columns].norm(dim=1)
        if name in ("plain", "norms"):  # they are of use
            assert float((slack / size).max()) < 0.02


def test_a_kernel_that_breaks_its_promise_is_not_asked(monkeypatch: pytest.MonkeyPatch) -> None:
    keys = hard_keys()["plain"]
    queries = torch.randn(2, 8, generator=draw(4))
    monkeypatch.setattr(
        torch, "_weight_int8pack_mm", lambda a, b, scales: torch.zeros(len(a), len(b)).bfloat16()
    )
    rough, slack = Codes.of(keys).products(queries)
    assert bool(((rough - queries @ keys.T).abs() <= slack).all())


@pytest.mark.parametrize("batch", [1, FEW])
def test_without_the_kernel_products_are_those_of_floats(
    batch: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    keys = hard_keys()["plain"]
    queries = torch.randn(batch, keys.shape[1], generator=draw(4))
    by_bytes, slack = Codes.of(keys).products(queries)
    monkeypatch.delattr(torch, "_weight_int8pack_mm", raising=False)
    rough, own = Codes.of(keys).products(queries)
    exact = queries.double() @ keys.double().T
    assert bool(((rough - exact).abs() <= own).all())
    assert bool(((rough - by_bytes).abs() <= own + slack).all())
    # which takes something else
    monkeypatch.setattr(torch, "_weight_int8pack_mm", lambda a, b: a, raising=False)
    assert torch.equal(Codes.of(keys).products(queries)[0], rough)


def test_where_torch_counts_no_writes_nothing_is_kept(monkeypatch: pytest.MonkeyPatch) -> None:
    model = model_of(hard_keys()["plain"])
    cache = WeightCache().now(model)
    codes = shared_codes(model)
    assert cache.now(model) is cache
    monkeypatch.setattr(links_scorer, "COUNTER", "_gone")
    assert WeightCache().now(model).now(model) is not cache
    again = shared_codes(model)
    assert again is not codes
    assert torch.equal(again.numbers, codes.numbers)  # type: ignore[union-attr]
    model.entities.weight[3] *= 2.0
    changed = shared_codes(model)
    assert changed is not None
    assert float(changed.norms[3]) > 1.5 * float(codes.norms[3])


def test_codes_are_made_once_and_anew_when_keys_were_written_to() -> None:
    model = model_of(hard_keys()["plain"])
    assert shared_codes(model, create=False) is None
    codes = shared_codes(model)
    assert shared_codes(model, create=False) is codes
    model.entities.weight[3] *= 2.0
    assert shared_codes(model, create=False) is None
    changed = shared_codes(model)
    assert changed is not None
    assert float(changed.norms[3]) > 1.5 * float(codes.norms[3])  # type: ignore[union-attr]


def test_steady_products_do_not_depend_on_what_is_beside_them() -> None:
    for width in (6, 200):
        left = torch.randn(40, width, generator=draw(5))
        right = torch.randn(2111, width, generator=draw(6))
        whole = steady_product(left, right)
        torch.testing.assert_close(whole, left @ right.T, rtol=1e-5, atol=1e-5)
        ids = torch.randperm(2111, generator=draw(7))
        for rows, columns in ((1, 1), (1, 17), (3, 64), (7, 65), (40, 300)):
            few = steady_product(left[:rows], right[ids[:columns]])
            assert torch.equal(few, whole[:rows, ids[:columns]])


@pytest.mark.parametrize("name", hard_keys())
@pytest.mark.parametrize("m", [1, 10, 700])
def test_a_scan_of_codes_is_exact(name: str, m: int) -> None:
    keys = hard_keys()[name]
    model = model_of(keys)
    heads = torch.arange(0, 700, 23)
    relations = torch.arange(0, 700, 23) % R
    top = CodeRetriever(model, Codes.of(model.keys()), LOOPLESS).top(heads, relations, m)
    logits = oracle(model, heads, relations)
    expected = logits.sort(dim=1, descending=True, stable=True)
    scale = (
        1e-6 * model.queries(heads, relations).norm(dim=1).double() * keys.norm(dim=1).max() + 1e-12
    )
    for row in range(len(heads)):
        present = top.ids[row] >= 0
        assert int(present.sum()) == min(m, int(logits[row].isfinite().sum()))
        ids = top.ids[row][present]
        assert len(set(ids.tolist())) == len(ids)
        torch.testing.assert_close(
            top.logits[row][present].double(), logits[row, ids], rtol=1e-5, atol=float(scale[row])
        )
        # Each place is as good as by sorting, and nothing left out is better than the rest.
        assert bool((logits[row, ids] >= expected.values[row, : len(ids)] - scale[row]).all())
        outside = logits[row].index_fill(0, ids, -torch.inf).max()
        assert float(outside) <= float(top.rest[row]) + float(scale[row])


def test_ties_go_by_id_as_in_a_scan_of_keys() -> None:
    model = model_of(whole_numbers())
    heads = torch.arange(40)
    relations = torch.arange(40) % R
    coded = CodeRetriever(model, Codes.of(model.keys()), LOOPLESS)
    plain = ScanRetriever(model, LOOPLESS)
    for m in (3, 50):
        found = coded.top(heads, relations, m)
        expected = plain.top(heads, relations, m)
        assert found.ids.tolist() == expected.ids.tolist()
        assert found.logits.tolist() == expected.logits.tolist()
        assert found.rest.tolist() == expected.rest.tolist()
        order = (
            oracle(model, heads, relations).sort(dim=1, descending=True, stable=True).indices[:, :m]
        )
        assert found.ids.tolist() == order.tolist()


def test_codes_say_how_far_they_are_off() -> None:
    keys = hard_keys()["spikes"]
    codes = Codes.of(keys)
    off = (
        keys.double() - codes.numbers[:, : keys.shape[1]].double() * codes.scales.double()[:, None]
    ).norm(dim=1)
    assert bool((off <= codes.errors.double()).all())
    assert float(off.max()) > 0.1  # a slack that was forgotten would be seen


def test_sums_leave_loops_out() -> None:
    model = model_of(torch.randn(300, 8, generator=draw(5)))
    heads = torch.arange(20)
    relations = torch.arange(20) % R
    total, exact = CodeRetriever(model, Codes.of(model.keys()), LOOPLESS).log_sums(heads, relations)
    assert bool(exact.all())
    torch.testing.assert_close(total.double(), oracle(model, heads, relations).logsumexp(dim=1))


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
    retriever = ScanRetriever(scorer, torch.zeros(4, dtype=torch.bool))
    assert isinstance(retriever, TopKRetriever)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(retrievers, "_SCORES", at_once)
        top = retriever.top(heads, relations, m)
        (total, exact) = retriever.log_sums(heads, relations)
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
