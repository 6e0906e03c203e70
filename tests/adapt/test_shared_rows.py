"""Cached rows against rows computed anew, whatever was asked for before."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from tacit.adapt.adapter import Adapter
from tacit.adapt.calibrated import Adapted
from tacit.adapt.shared_rows import SharedRows
from tacit.engine.atoms.atoms import Atoms
from tacit.engine.atoms.calibration import calibration
from tacit.engine.atoms.known_facts import KnownFacts
from tacit.graph.fact_index import FactIndex
from tacit.links.models import ComplEx

N = 90
R = 4
FACTS = FactIndex(np.array([[0, 0, 1], [0, 0, 3], [2, 2, 5], [1, 3, 6]]), R)
EVERY = slice(0, N)


def shared_rows(room: int, scores: str = "softmax-count") -> SharedRows:
    model = ComplEx(N, R, 5).requires_grad_(False)
    model.reset(0.8, torch.Generator().manual_seed(0))
    adapted = Adapted(calibration(scores, KnownFacts(FACTS)), Adapter(model))
    return SharedRows(Atoms(model, adapted), adapted, memory=4 * N * room)


def by_hand(rows: SharedRows, keys: list[int]) -> torch.Tensor:
    """The log-odds of `n · softmax`, or the logits, in float64."""
    heads = torch.tensor(keys) // R
    ids = torch.tensor(keys) % R
    x = rows.atoms.scorer.logits(heads, ids).double()
    if not rows.adapted.by_odds:
        return x
    counts = torch.tensor([[max(1, len(FACTS.tails(key // R, key % R)))] for key in keys])
    return (x.softmax(1) * counts).clamp(max=1 - 2**-10).logit()


@pytest.mark.parametrize("scores", ["sigmoid", "softmax-count"])
@pytest.mark.parametrize("on_cpu", [True, False])
def test_rows_are_those_of_their_atoms_after_others_were_dropped(scores: str, on_cpu: bool) -> None:
    rows = shared_rows(12, scores)
    random = np.random.default_rng(0)
    rows.on_cpu = on_cpu
    for size in [3, 12, 5, *random.integers(1, 13, 30)]:
        keys = np.sort(random.choice(40, size, replace=False))
        places = rows.places(keys)
        expected = by_hand(rows, keys.tolist())
        x = rows.block(places, EVERY, torch.empty(len(keys), N))
        torch.testing.assert_close(x.double(), expected, rtol=1e-4, atol=1e-4)
        tails = torch.from_numpy(random.integers(0, N, len(keys)))
        torch.testing.assert_close(
            rows.at(places, tails).double(),
            expected[torch.arange(len(keys)), tails],
            rtol=1e-4,
            atol=1e-4,
        )
        assert len(rows.table) <= 12
    # a query that needs more rows than there is room for gets them
    places = rows.places(np.arange(20))
    torch.testing.assert_close(
        rows.block(places, EVERY, torch.empty(20, N)).double(),
        by_hand(rows, [*range(20)]),
        rtol=1e-4,
        atol=1e-4,
    )


def test_rows_used_often_are_computed_once(monkeypatch: pytest.MonkeyPatch) -> None:
    rows = shared_rows(6)
    computed = list[int]()
    monkeypatch.setattr(
        rows.atoms.scorer,
        "queries",
        lambda h, r: (
            computed.extend((h * R + r).tolist()) or ComplEx.queries(rows.atoms.scorer, h, r)
        ),
    )
    for other in range(10, 30, 2):
        rows.places(np.array([1, 2, other, other + 1]))
    # beside the 0 that fills up a product
    assert sorted(key for key in computed if key) == [1, 2, *range(10, 30)]


def test_a_row_whose_making_failed_is_made_again(monkeypatch: pytest.MonkeyPatch) -> None:
    rows = shared_rows(4)
    rows.places(np.arange(4))
    with monkeypatch.context() as broken:
        broken.setattr(rows.adapted, "adaptable", lambda *row: 1 / 0)
        with pytest.raises(ZeroDivisionError):
            rows.places(np.array([2, 7]))
    for keys in ([2, 7], [0, 1, 2, 3], [3, 7, 8]):
        x = rows.block(rows.places(np.array(keys)), EVERY, torch.empty(len(keys), N))
        torch.testing.assert_close(x.double(), by_hand(rows, keys), rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize("scores", ["sigmoid", "softmax-count"])
@pytest.mark.parametrize("threads", [1, 2])
def test_a_row_is_the_same_to_the_bit_whatever_it_is_computed_with(
    threads: int, scores: str
) -> None:
    """A training that was stopped finds other rows missing when it goes on."""
    found = []
    before = torch.get_num_threads()
    try:
        torch.set_num_threads(threads)
        for size in (1, 2, 3, 5, 11, 13, 30):
            rows = shared_rows(30, scores)
            for keys in np.split(np.arange(30), range(size, 30, size)):
                rows.places(keys)
            found.append(rows.block(rows.places(np.arange(30)), EVERY, torch.empty(30, N)))
    finally:
        torch.set_num_threads(before)
    assert all(torch.equal(found[-1], other) for other in found)
