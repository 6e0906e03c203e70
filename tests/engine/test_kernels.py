"""Hops on a GPU, whose kernel fuses calibration and maximum, equal those of a CPU."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch

from tacit.adapt.adapter import Adapter
from tacit.adapt.calibrated import Adapted
from tacit.engine.atoms import hop_kernels as kernels
from tacit.engine.atoms.calibration import ByRow
from tacit.engine.atoms.calibration import calibration as calibrated
from tacit.engine.atoms.known_facts import KnownFacts
from tacit.engine.engine import Engine
from tacit.engine.search import kernel_expansion
from tacit.graph.graph import Graph
from tacit.links.models import ComplEx
from tacit.links.ranking import TIES, Ties, ranks
from tacit.query.sampling.shapes import SHAPES

gpu = pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a GPU")
SHAPES_WITH_HOPS = ("2p", "3p", "pi", "ip", "up", "inp", "pin", "pni")


def odd_graph(entities: int = 90) -> Graph:
    """Many known tails here and none there, relations that loop and some that do not."""
    random = np.random.default_rng(1)
    facts = {
        (f"e{a}", f"r{r}", f"e{b}")
        for r, a, b in random.integers((3, 9, entities), size=(260, 3)).tolist()
    }
    facts |= {(f"e{a}", "r0", f"e{a}") for a in range(5)}
    facts |= {(f"e{a}", "r1", f"e{(a + 1) % entities}") for a in range(entities)}
    return Graph.of(sorted(facts))


def scores_of(
    graph: Graph, device: str, adapted: bool = False, **settings: Any
) -> dict[str, torch.Tensor]:
    """The scores of a few queries of each shape, by random weights."""
    model = ComplEx(graph.num_entities, graph.num_relations, 8)
    model.reset(0.7, torch.Generator().manual_seed(3))
    model = model.to(device).requires_grad_(False)
    adapter = None
    if adapted:
        learned = Adapter(model, "p")
        with torch.no_grad():
            for weight in learned.parameters():
                weight.copy_(
                    0.4 * torch.randn(weight.shape, generator=torch.Generator().manual_seed(1))
                )
        facts = KnownFacts(graph.index("train"), device=model.device)
        adapter = Adapted(calibrated(settings["calibration"], facts), learned)
    engine = Engine(graph, model, adapter=adapter, k=7, **settings)
    drawn = torch.Generator().manual_seed(5)
    scores = {}
    for name in SHAPES_WITH_HOPS:
        plan = SHAPES[name].plan
        entities = torch.randint(graph.num_entities, (40, plan.num_entities), generator=drawn)
        relations = torch.randint(graph.num_relations, (40, plan.num_relations), generator=drawn)
        with torch.no_grad():
            scores[name] = engine.reasoner.scores(plan, entities, relations).cpu()
    return scores


@gpu
@pytest.mark.parametrize("calibration", ["sigmoid", "softmax-count"])
def test_queries_share_rows_however_many_go_together(
    monkeypatch: pytest.MonkeyPatch, calibration: str
) -> None:
    """A query with too many candidates for one batch, and queries in groups of three."""
    together = scores_of(odd_graph(), "cuda", calibration=calibration)
    for rows in (3, 7, 22):
        monkeypatch.setattr(kernel_expansion, "GPU_ROWS", rows)
        apart = scores_of(odd_graph(), "cuda", calibration=calibration)
        for name in SHAPES_WITH_HOPS:
            torch.testing.assert_close(apart[name], together[name], rtol=1e-5, atol=1e-5)


@gpu
@pytest.mark.parametrize("search", ["beam", "exact"])
@pytest.mark.parametrize("calibration", ["sigmoid", "softmax-count", "softmax-observed", "minmax"])
@pytest.mark.parametrize("logic", ["product", "godel", "lukasiewicz"])
@pytest.mark.parametrize("observed", ["all", "none"])
def test_kernels_change_no_score(
    monkeypatch: pytest.MonkeyPatch, search: str, calibration: str, logic: str, observed: str
) -> None:
    settings: dict[str, Any] = {
        "search": search,
        "calibration": calibration,
        "logic": logic,
        "observed": observed,
    }
    graph = odd_graph()
    by_kernels = scores_of(graph, "cuda", **settings)
    on_cpu = scores_of(graph, "cpu", **settings)
    monkeypatch.setattr(kernels, "on_gpu", lambda device, norm: False)
    plain = scores_of(graph, "cuda", **settings)
    for name in SHAPES_WITH_HOPS:
        torch.testing.assert_close(by_kernels[name], plain[name], rtol=1e-5, atol=1e-4)
        # Rounding may swap candidates of a beam, and Łukasiewicz's sums cancel.
        if search == "exact" and logic != "lukasiewicz":
            torch.testing.assert_close(by_kernels[name], on_cpu[name], rtol=1e-4, atol=1e-3)


@gpu
@pytest.mark.parametrize("calibration", ["sigmoid", "softmax-count"])
@pytest.mark.parametrize("logic", ["product", "godel"])
def test_kernels_change_no_adapted_score(
    monkeypatch: pytest.MonkeyPatch, calibration: str, logic: str
) -> None:
    settings: dict[str, Any] = {"calibration": calibration, "logic": logic}
    by_kernels = scores_of(odd_graph(), "cuda", adapted=True, **settings)
    monkeypatch.setattr(kernels, "on_gpu", lambda device, norm: False)
    plain = scores_of(odd_graph(), "cuda", adapted=True, **settings)
    for name in SHAPES_WITH_HOPS:
        torch.testing.assert_close(by_kernels[name], plain[name], rtol=1e-4, atol=1e-4)


@gpu
@pytest.mark.parametrize("search", ["beam", "exact"])
@pytest.mark.parametrize("calibration", ["sigmoid", "softmax-count", "softmax-observed"])
@pytest.mark.parametrize("precision", ["bf16", "fp16"])
def test_16_bits_change_scores_by_their_rounding(
    search: str, calibration: str, precision: str
) -> None:
    settings: dict[str, Any] = {"search": search, "calibration": calibration, "observed": "none"}
    # for logits up to 10, in products of up to three atoms
    near = 0.03 if precision == "bf16" else 0.005
    wide = scores_of(odd_graph(), "cuda", **settings)
    narrow = scores_of(odd_graph(), "cuda", precision=precision, **settings)
    for name in ("2p", "ip", "3p"):
        finite = wide[name].isfinite()
        assert torch.equal(finite, narrow[name].isfinite())  # what cannot be, loops, is no other
        apart = (wide[name] - narrow[name])[finite].abs()
        assert float(apart.median()) < near  # 0 where most scores are what no score exceeds
        assert float(apart.max()) > 0
        if search == "exact":  # a beam may keep another one of two candidates that are nearly alike
            assert float(apart.max()) < 10 * near


@gpu
def test_maxima_of_sigmoids_hold_where_odds_are_too_large_for_a_float() -> None:
    """Scores far below 0, impossible candidates, and columns that no row can reach."""
    drawn = torch.Generator("cuda").manual_seed(0)
    rows = torch.randint(30, (6, 7), generator=drawn, device="cuda")
    for far, light in ((8.0, 1.0), (60.0, 1.0), (60.0, 200.0)):
        raw = torch.randn(30, 1300, generator=drawn, device="cuda") * far
        raw[:, 20], raw[:, 600] = -torch.inf, raw[:, 600] - 300
        weights = -torch.rand(6, 7, generator=drawn, device="cuda") * light
        weights[0], weights[1, :3] = -torch.inf, -torch.inf
        shift, scale = (torch.rand(30, generator=drawn, device="cuda") + 0.5 for _ in range(2))
        scores = (
            torch.nn.functional.logsigmoid((raw * scale[:, None] + shift[:, None]).double()) - 0.01
        )
        expected = (scores[rows] + weights[:, :, None]).amax(1).float()
        found = kernels.best_of(raw, rows, weights, "product", ByRow(shift, scale), -0.01)
        torch.testing.assert_close(found, expected, rtol=2e-6, atol=2e-6)


@gpu
@pytest.mark.parametrize("ties", TIES)
def test_ranks_on_a_gpu_are_those_on_a_cpu(ties: Ties) -> None:
    drawn = torch.Generator().manual_seed(2)
    scores = torch.randint(40, (9, 5000), generator=drawn).float()
    scores[3, :100] = -torch.inf
    places = [torch.randint(size, (60,), generator=drawn) for size in (9, 5000, 9, 5000)]
    on_gpu = ranks(scores.cuda(), *(column.cuda() for column in places), ties)
    assert torch.equal(on_gpu.cpu(), ranks(scores, *places, ties))


@gpu
def test_sums_and_maxima_of_rows_equal_plain_operations() -> None:
    drawn = torch.Generator("cuda").manual_seed(0)
    raw = torch.randn(300, 5000, generator=drawn, device="cuda") * 8
    raw[3], raw[4, 5] = -torch.inf, -torch.inf
    torch.testing.assert_close(
        kernels.log_sums(raw), raw.double().logsumexp(1).float(), rtol=1e-6, atol=1e-5
    )
    assert torch.equal(kernels.log_sums(raw.half()), kernels.log_sums(raw.half().float()))
    rows = torch.randint(300, (20, 40), generator=drawn, device="cuda")
    weights = -torch.rand(20, 40, generator=drawn, device="cuda")
    shift, scale = (torch.rand(300, generator=drawn, device="cuda") + 0.5 for _ in range(2))
    moved = torch.nn.functional.logsigmoid(raw * scale[:, None] + shift[:, None]) - 0.01
    capped = (raw + shift[:, None]).clamp(max=-0.001) - 0.01
    for by_row, values in ((ByRow(shift, scale), moved), (ByRow(shift, cap=-0.001), capped)):
        expected = (values[rows] + weights[:, :, None]).amax(1)
        torch.testing.assert_close(
            kernels.best_of(raw, rows, weights, "product", by_row, -0.01), expected
        )
        narrow, wide = (
            kernels.best_of(scores, rows, weights, "product", by_row, -0.01)
            for scores in (raw.half(), raw.half().float())
        )
        assert torch.equal(narrow, wide)
