"""Variants start from the pretrained scores, learn, and leave the model unchanged."""

from __future__ import annotations

import pytest
import torch

from ablation_variants import VARIANTS, VariantTraining, fit_variant
from tacit.adapt.settings import AdaptSettings
from tacit.adapt.training_queries import training_queries
from tacit.engine.engine import Engine
from tacit.errors import SettingsError
from tacit.graph.graph import Graph
from tacit.links.factors import FactorModel
from tacit.links.models import MODELS
from tacit.links.scorer import BilinearScorer

GRAPH = Graph.of(
    [(f"p{i}", f"r{j}", f"p{(i * (j + 2) + 1) % 20}") for i in range(20) for j in range(3)]
    + [(f"p{i}", "next", f"p{(i + 1) % 20}") for i in range(20)]
)
SETTINGS = AdaptSettings(
    calibration="sigmoid",
    observed="none",
    steps=12,
    batch=24,
    lr=0.05,
    validate_every=12,
    device="cpu",
)
QUERIES = training_queries(GRAPH, SETTINGS, count=60)


def pretrained(name: str = "complex") -> FactorModel:
    model = MODELS[name](GRAPH.num_entities, GRAPH.num_relations, 4)
    model.reset(0.7, torch.Generator().manual_seed(0))
    return model.requires_grad_(False)


@pytest.mark.parametrize("name", ["complex", "distmult", "cp"])
@pytest.mark.parametrize("variant", VARIANTS)
def test_variants_learn_on_a_copy(variant: str, name: str) -> None:
    model = pretrained(name)
    before = {key: tensor.clone() for key, tensor in model.state_dict().items()}
    tuning = VariantTraining(variant, GRAPH, model, QUERIES, SETTINGS, valid={})
    tuning.write()
    heads = torch.arange(8)
    relations = torch.arange(8)
    start = tuning.fitted.logits(heads, relations).detach()
    torch.testing.assert_close(start, model.logits(heads, relations), atol=0.05, rtol=0.05)
    batches = [tuning.batches[key].draw(60) for key in tuning.batches]

    def loss() -> float:
        tuning.write()
        with torch.no_grad():
            return float(tuning.loss(batches))

    first = loss()
    for _ in range(40):
        tuning.step()
    assert loss() < 0.985 * first
    assert not torch.allclose(tuning.fitted.logits(heads, relations), start, atol=1e-3)
    assert all(torch.equal(before[key], tensor) for key, tensor in model.state_dict().items())


@pytest.mark.parametrize("variant", VARIANTS)
def test_a_variant_answers_questions(variant: str) -> None:
    model = pretrained()
    result = fit_variant(variant, GRAPH, model, QUERIES, SETTINGS)
    assert isinstance(result.scorer, BilinearScorer)
    assert not any(parameter.requires_grad for parameter in result.scorer.parameters())
    engine = Engine(
        GRAPH, result.scorer, adapter=result.calibration, calibration="sigmoid", observed="none"
    )
    assert len(engine.ask("?t : exists ?v . r0(p1, ?v) & r1(?v, ?t)", top=3)) == 3
    assert [event["step"] for event in result.trace] == [0, 12]


def test_gradients_reach_the_maps_through_the_tables() -> None:
    """The gradient of a map through its table is that of the whole computation at once."""
    tuning = VariantTraining("c", GRAPH, pretrained(), QUERIES, SETTINGS, valid={})
    batch = tuning.batches["2in"].draw(10)
    weight = tuning.maps["entities"]

    def loss() -> torch.Tensor:
        tuning.write()
        return tuning.loss([batch])

    made = tuning.write()
    loss().backward()
    grads = [
        tuning.fitted.get_submodule(key).storage.grad[: len(table)] for key, table in made.items()
    ]  # type: ignore[union-attr,index,operator]
    torch.autograd.backward(list(made.values()), grads)
    for at in [(0, 0), (3, 5), (7, 2)]:
        ends = []
        for move in (1e-2, -1e-2):
            with torch.no_grad():
                weight[at] += move
                ends.append(float(loss()))
                weight[at] -= move
        assert float(weight.grad[at]) == pytest.approx(
            (ends[0] - ends[1]) / 2e-2, rel=0.03, abs=5e-3
        )


def test_what_cannot_be_is_refused() -> None:
    with pytest.raises(SettingsError, match="variant is 'x'; it must be one of f, af, r, c"):
        fit_variant("x", GRAPH, pretrained(), QUERIES, SETTINGS)
    with pytest.raises(
        SettingsError, match="needs a model of complex, distmult, cp; this is a TransE"
    ):
        fit_variant("r", GRAPH, pretrained("transe"), QUERIES, SETTINGS)
    walking = training_queries(GRAPH, AdaptSettings(shapes=("2p",)), count=5)
    with pytest.raises(
        SettingsError, match=r"a variant learns from intersections of atoms .*, not from 2p"
    ):
        fit_variant("f", GRAPH, pretrained(), walking, SETTINGS)
