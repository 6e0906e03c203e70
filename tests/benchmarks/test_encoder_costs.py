"""What encoders cost by formula: beside their weights counted, and products counted by torch."""

from __future__ import annotations

from collections import Counter
from typing import Any

import pytest
import torch
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils.flop_counter import FlopCounterMode

import encoder_costs
import encoders
import parameters
import tiny
from tacit.encode.encoder import Drawn, Encoder
from tacit.encode.models import make_encoder
from tacit.encode.networks.aggregation import describe_messages
from tacit.encode.networks.sorted_facts import SortedFacts
from tacit.encode.settings import EncodeSettings
from tacit.graph.graph import Graph
from tacit.links.models import make_model
from tacit.query.sampling.shapes import SHAPES

MODELS = ("gqe", "q2b", "betae", "cone", "fuzzqe", "gnnqe", "lmpnn")
MIX = {"1p": 3, "2p": 5, "2i": 7, "3i": 4}
GRAPH: Graph = tiny.graph()
RANK = 32


def untrained_encoder(settings: EncodeSettings) -> tuple[Encoder, encoder_costs.Sizes]:
    """An encoder that was never trained, and what its cost depends on."""
    predictor = make_model("complex", GRAPH.num_entities, GRAPH.num_relations, RANK).requires_grad_(
        False
    )
    torch.nn.init.normal_(predictor.head_table.weight, generator=torch.Generator().manual_seed(0))
    return make_encoder(settings, GRAPH, predictor), parameters.sizes(GRAPH, predictor)


def drawn(mix: dict[str, int]) -> list[Drawn]:
    batch = []
    for name, count in mix.items():
        plan = SHAPES[name].plan
        entities = torch.zeros(count, plan.num_entities, dtype=torch.long)
        relations = torch.zeros(count, plan.num_relations, dtype=torch.long)
        ones = torch.ones(count)
        batch.append(
            Drawn(plan, entities, relations, torch.zeros(count, 1, dtype=torch.long), ones)
        )
    return batch


@pytest.mark.parametrize("model", MODELS)
def test_products_of_a_step_are_those_that_torch_counts(model: str) -> None:
    sizes_of_model = {"width": 64, "hidden": 24, "negatives": 6, "answers": 1, "bases": 1}
    settings = EncodeSettings(model=model, **sizes_of_model).with_derived(GRAPH.num_entities)
    encoder, sizes = untrained_encoder(settings)
    encoder.reset(torch.Generator().manual_seed(0))
    with FlopCounterMode(display=False) as counter:
        encoder.loss(drawn(MIX), torch.arange(6)).backward()
    formula = encoder_costs.step_cost(model, settings, sizes, MIX)
    exact = formula.others if model == "betae" else 0.0  # a product, too
    assert counter.get_total_flops() == pytest.approx(
        formula.products + formula.matched + exact, rel=0.02
    )


class Products(TorchDispatchMode):
    """Counts the FLOP of matrix products by the type of their numbers."""

    def __init__(self) -> None:
        super().__init__()
        self.flop = Counter[torch.dtype]()

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        if func.__name__.split(".")[0] in ("mm", "addmm"):
            left, right = args[-2:]
            self.flop[left.dtype] += 2 * left.numel() * right.shape[-1]
        return func(*args, **kwargs or {})


def test_what_bfloat16_leaves_alone_is_counted_apart() -> None:
    settings = EncodeSettings("fuzzqe", width=64, negatives=6, answers=1, bases=1).with_derived(
        GRAPH.num_entities
    )
    encoder, sizes = untrained_encoder(settings)
    encoder.reset(torch.Generator().manual_seed(0))
    encoder.in_bfloat16 = True
    with Products() as counted:
        encoder.loss(drawn(MIX), torch.arange(6)).backward()
    formula = encoder_costs.step_cost("fuzzqe", settings, sizes, MIX)
    assert counted.flop[torch.bfloat16] == formula.products
    own = sum(MIX.values()) * 6 * 64  # right answers: no product of matrices
    assert counted.flop[torch.float32] == formula.matched - own


@pytest.mark.parametrize("model", MODELS)
def test_weights_by_formula_are_those_counted(model: str) -> None:
    for recipe in ("lean", "paper"):
        settings = EncodeSettings(
            model=model, recipe=recipe, width=6, hidden=10, bases=3
        ).with_derived(GRAPH.num_entities)
        encoder, sizes = untrained_encoder(settings)
        assert parameters.trainable(encoder) == encoder_costs.weights(model, settings, sizes)


def test_aggregation_by_scatter_is_that_in_one_pass() -> None:
    facts = SortedFacts(GRAPH.triples("train"), GRAPH.num_entities, GRAPH.num_relations)
    rows = (GRAPH.num_entities, GRAPH.num_relations, GRAPH.num_entities)
    draw = torch.Generator().manual_seed(0)
    leaves = [torch.randn(n, 2, 3, generator=draw) for n in rows]
    torch.testing.assert_close(
        encoders.scattered(*leaves, facts), describe_messages(*leaves, facts), rtol=1e-4, atol=1e-5
    )
