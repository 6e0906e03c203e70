"""A hop that keeps few candidates, against its definition in float64."""

from __future__ import annotations

import math

import numpy as np
import pytest
import torch
from torch import Tensor

from bruteforce import LOGICS
from tacit.engine.atoms.atoms import OBSERVED, Atoms
from tacit.engine.atoms.calibration import CALIBRATIONS, calibration
from tacit.engine.atoms.known_facts import KnownFacts
from tacit.engine.logic import NORMS, Logic
from tacit.engine.search import block_expansion
from tacit.engine.search.hop import Hop
from tacit.graph.fact_index import FactIndex
from tacit.links.models import ComplEx

N = 150
R = 6
K = 9
BY_LOGARITHMS = {"product": torch.add, "godel": torch.minimum}


def model(scale: float) -> ComplEx:
    made = ComplEx(N, R, 8).requires_grad_(False)
    made.reset(scale, torch.Generator().manual_seed(3))
    return made


def facts() -> KnownFacts:
    random = np.random.default_rng(0)
    return KnownFacts(FactIndex(np.unique(random.integers(0, [N, R, N], (400, 3)), axis=0), R))


def by_definition(atoms: Atoms, source: Tensor, relations: Tensor, norm: str) -> Tensor:
    """`max_s source[s] ⊤ c_r(s, t)` over the best `K` of the source, one query after the other."""
    out = []
    for values, relation in zip(source, relations, strict=True):
        best = values.double().sort(descending=True).indices[:K]
        scores = atoms.rows(best, relation.expand(K)).double()
        weights = values[best].double()[:, None]
        if norm in BY_LOGARITHMS:
            out.append(BY_LOGARITHMS[norm](scores, weights).amax(0))
        else:
            out.append(
                torch.as_tensor(LOGICS[norm][0](scores.exp().numpy(), weights.exp().numpy()))
                .log()
                .amax(0)
            )
    return torch.stack(out)


@pytest.mark.parametrize("queries_share", [True, False])
@pytest.mark.parametrize("norm", NORMS)
@pytest.mark.parametrize("name", CALIBRATIONS)
# less than a query, a few queries, all of them at once
@pytest.mark.parametrize("rows", [4, 40, 512])
def test_a_hop_is_the_best_over_its_candidates(
    name: str, norm: str, rows: int, queries_share: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(block_expansion, "_CPU_ROWS", rows)
    monkeypatch.setattr(block_expansion, "_CPU_PAIRS", rows)
    monkeypatch.setattr(block_expansion, "_CPU_BYTES", 4 * 64 * rows)  # three blocks of columns
    generator = torch.Generator().manual_seed(1)
    source = -torch.rand(12, N, generator=generator) * 5
    relations = torch.randint(R, (12,), generator=generator)
    if queries_share:
        source[1:], relations = source[:1], relations * 0
        source += torch.rand(12, 1, generator=generator) - 1
    known = facts()
    atoms = Atoms(model(0.7), calibration(name, known), known)
    found = Hop(atoms, Logic(norm), K, 10**9).over(source, relations)
    expected = by_definition(atoms, source, relations, norm)
    torch.testing.assert_close(found.double().exp(), expected.exp(), rtol=2e-6, atol=1e-6)
    if norm in BY_LOGARITHMS:  # by_definition itself leaves log space elsewhere
        torch.testing.assert_close(found.double(), expected, rtol=2e-6, atol=1e-12)


def test_nearly_certain_scores_keep_their_order_and_digits() -> None:
    """Sigmoids of 17 and more are 1 in float32; here their logs must stay apart."""
    atoms = Atoms(model(1.5), calibration("sigmoid", facts()))
    source = torch.full((1, N), -1.0)
    source[0, 5] = -1e-12
    found = Hop(atoms, Logic("product"), 1, 10**9).over(source, torch.tensor([2]))[0]
    logits = atoms.scorer.logits(torch.tensor([5]), torch.tensor([2]))[0].double()
    torch.testing.assert_close(
        found.double(), -torch.log1p(torch.exp(-logits)) - 1e-12, rtol=1e-6, atol=0
    )
    saturated = logits > 17
    assert int(saturated.sum()) >= 5
    assert len(found[saturated].unique()) == int(saturated.sum())


@pytest.mark.parametrize("scale", [4.0, 9.0])  # logits in the hundreds and in the thousands
def test_scores_too_small_for_a_float_keep_their_logs(scale: float) -> None:
    atoms = Atoms(model(scale), calibration("sigmoid", facts()))
    source = torch.full((1, N), -math.inf)
    source[0, :2] = torch.tensor([-200.0, -250.0])
    found = Hop(atoms, Logic("product"), 2, 10**9).over(source, torch.tensor([3]))
    rows = atoms.rows(torch.tensor([0, 1]), torch.tensor([3, 3])).double()
    expected = (rows + torch.tensor([-200.0, -250.0]).double()[:, None]).amax(0)
    assert float(expected.min()) < -300
    torch.testing.assert_close(found[0].double(), expected, rtol=1e-6, atol=0)


def test_known_facts_count_with_their_score_whatever_it_is() -> None:
    known = facts()
    source = -torch.rand(4, N, generator=torch.Generator().manual_seed(5))
    relations = torch.tensor([0, 1, 2, 0])
    for observed in (0.6, 1 - 2.0**-10, 1.0):
        atoms = Atoms(model(0.5), calibration("sigmoid", known), known, observed=observed)
        found = Hop(atoms, Logic("product"), K, 10**9).over(source, relations)
        torch.testing.assert_close(
            found.double(), by_definition(atoms, source, relations, "product"), rtol=1e-6, atol=1e-9
        )


@pytest.mark.parametrize("blocks", [64, 512])
def test_of_equal_candidates_a_hop_keeps_the_lowest_ids(
    blocks: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Three values for 150 candidates: the cut after nine of them is among ties in every row."""
    monkeypatch.setattr(block_expansion, "_CPU_BYTES", 4 * blocks)
    generator = torch.Generator().manual_seed(5)
    source = -torch.randint(3, (12, N), generator=generator).float()
    relations = torch.randint(R, (12,), generator=generator)
    atoms = Atoms(model(0.7), calibration("sigmoid", facts()))
    hop = Hop(atoms, Logic("product"), K, 10**9)
    found = hop.over(source, relations)
    beyond = hop.beyond(source)
    assert beyond is not None
    for query, values in enumerate(source.tolist()):
        candidates = torch.tensor(
            sorted(range(N), key=lambda i, values=values: (-values[i], i))[:K]
        )
        reached = (
            atoms.rows(candidates, relations[query].expand(K)) + source[query, candidates, None]
        )
        torch.testing.assert_close(found[query], reached.amax(dim=0), rtol=1e-5, atol=1e-6)
        assert float(beyond[query]) == sorted(values, reverse=True)[K]


@pytest.mark.parametrize("how", ["softmax-count", "minmax"])
def test_rows_that_all_queries_share_are_scored_once(
    how: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As for the candidates of a cycle: many queries, few rows, one relation."""
    monkeypatch.setattr(block_expansion, "_CPU_PAIRS", 64)
    monkeypatch.setattr(block_expansion, "_CPU_SCORES", N * 64)
    atoms = Atoms(model(0.5), calibration(how, facts()), facts(), ceiling=OBSERVED)
    count = 40
    source = -torch.rand(count, N, generator=torch.Generator().manual_seed(1)) * 5
    source[:, 30:] -= 20.0  # all candidates are among the first 30
    relations = torch.full((count,), 2)
    expected = by_definition(atoms, source, relations, "product").float()
    scored = list[int]()
    blocks = Atoms.blocks
    monkeypatch.setattr(
        Atoms,
        "blocks",
        lambda self, heads, *rest: scored.append(len(heads)) or blocks(self, heads, *rest),
    )
    hop = Hop(atoms, Logic("product"), K, 10**8)
    torch.testing.assert_close(hop.over(source, relations), expected, rtol=1e-5, atol=1e-5)
    assert sum(scored) <= 30
    scored.clear()
    source[:, 3:7] = -math.inf  # nobody has these to offer
    expected = by_definition(atoms, source, relations, "product").float()
    narrow = Hop(atoms, Logic("product"), K, 16 * 7 * N)  # bytes of seven rows
    torch.testing.assert_close(narrow.over(source, relations), expected, rtol=1e-5, atol=1e-5)
    assert max(scored) <= 7  # where they do not fit into memory, few at a time
    assert sum(scored) <= 30
    nothing = torch.full_like(source, -math.inf)
    assert bool(narrow.over(nothing, relations).isneginf().all())


@pytest.mark.parametrize("name", ["sigmoid", "softmax-count"])
@pytest.mark.parametrize(("k", "queries"), [(K, 23), (1, 7), (3, 2), (2, 0)])
def test_a_hop_is_the_same_to_the_bit_on_any_threads(
    name: str, k: int, queries: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(block_expansion, "_CPU_ROWS", 40)
    monkeypatch.setattr(block_expansion, "_CPU_PAIRS", 40)
    source = -torch.rand(queries, N, generator=torch.Generator().manual_seed(1)) * 5
    relations = torch.arange(queries) % R
    before = torch.get_num_threads()
    hop = Hop(Atoms(model(0.8), calibration(name, facts())), Logic(), k, 10**9)
    found = []
    try:
        for threads in (1, 2, 3):
            torch.set_num_threads(threads)
            found.append(hop.over(source, relations))
        alone = [hop.over(source[at : at + 1], relations[at : at + 1]) for at in range(queries)]
    finally:
        torch.set_num_threads(before)
    assert torch.equal(found[0], found[1])
    assert torch.equal(found[0], found[2])
    torch.testing.assert_close(torch.cat([found[0][:0], *alone]), found[0])


@pytest.mark.parametrize("heads", [1, 300, 450, 511, 512])
def test_columns_that_are_scored_at_a_time_are_whole_tiles(heads: int) -> None:
    """A product of its own for the rest of each block would take up to a tenth of the time."""
    made = ComplEx(5000, R, 1).requires_grad_(False)
    hop = Hop(Atoms(made, calibration("sigmoid", facts())), Logic(), K, 10**9)
    width = hop.expansion._width(heads)
    assert width == 5000 or width % 64 == 0
    assert width == 5000 or width * heads <= 2**19
