"""ULTRA: the graph of relations by loops, published checkpoints, hops by hand."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
import torch
from torch import Tensor
from torch.nn.functional import layer_norm

from set_space import RELATIONS, SIZE, random_facts
from tacit.encode.models import make_encoder
from tacit.encode.networks import ultra
from tacit.encode.networks.ultra import Ultra, import_checkpoint, relation_graph
from tacit.encode.settings import EncodeSettings
from tacit.errors import DataError
from tacit.graph.graph import Graph

FACTS = np.unique(random_facts(2, count=12), axis=0)
WIDTH = 4
LAYERS = 2


def heads_and_tails(relation: int) -> tuple[set[int], set[int]]:
    own = FACTS[FACTS[:, 1] == relation]
    return set(own[:, 0].tolist()), set(own[:, 2].tolist())


def by_loops() -> set[tuple[int, int, int]]:
    """`(j, joint, i)` where ends of `i` and `j` share an entity, for all pairs of ends."""
    found = set()
    for i in range(RELATIONS):
        for j in range(RELATIONS):
            (heads, tails), (others, ends) = heads_and_tails(i), heads_and_tails(j)
            shared = (heads & others, tails & ends, heads & ends, tails & others)
            found |= {(j, joint, i) for joint, entities in enumerate(shared) if entities}
    return found


def test_the_graph_of_relations_by_loops() -> None:
    found = relation_graph(FACTS, RELATIONS)
    assert {tuple(fact) for fact in found.tolist()} == by_loops()
    assert len(found) == len(by_loops())


@pytest.fixture(scope="module")
def graph() -> Graph:
    forward = FACTS[FACTS[:, 1] % 2 == 0]
    return Graph.of([(f"e{h}", f"r{r}", f"e{t}") for h, r, t in forward.tolist()])


@pytest.fixture(scope="module")
def published() -> dict[str, Tensor]:
    """Weights in the public layout: names and shapes as in `ultraquery.pth`, but narrow."""
    shapes: dict[str, tuple[int, ...]] = {}
    for i in range(LAYERS):
        for model in ("relation_model", "entity_model"):
            shapes |= {
                f"{model}.layers.{i}.layer_norm.{part}": (WIDTH,) for part in ("weight", "bias")
            }
            shapes |= {
                f"{model}.layers.{i}.linear.weight": (WIDTH, 2 * WIDTH),
                f"{model}.layers.{i}.linear.bias": (WIDTH,),
            }
        shapes[f"relation_model.layers.{i}.relation.weight"] = (4, WIDTH)
        for part in (0, 2):
            name = f"entity_model.layers.{i}.relation_projection.{part}"
            shapes |= {f"{name}.weight": (WIDTH, WIDTH), f"{name}.bias": (WIDTH,)}
    shapes |= {
        "entity_model.mlp.0.weight": (2 * WIDTH, 2 * WIDTH),
        "entity_model.mlp.0.bias": (2 * WIDTH,),
    }
    shapes |= {"entity_model.mlp.2.weight": (1, 2 * WIDTH), "entity_model.mlp.2.bias": (1,)}
    generator = torch.Generator().manual_seed(0)
    return {name: torch.randn(shape, generator=generator) * 0.5 for name, shape in shapes.items()}


def saved(path: Path, weights: dict[str, Tensor], prefix: str = "model.model.") -> Path:
    model = {prefix + name: tensor for name, tensor in weights.items()}
    moments = {"step": torch.tensor(3.0), "exp_avg": torch.zeros(2)}
    torch.save({"model": model, "optimizer": {"state": {0: moments}}}, path)
    return path


def layer(
    w: dict[str, Tensor], name: str, states: list[Tensor], messages: list[Tensor]
) -> list[Tensor]:
    out = []
    for state, message in zip(states, messages, strict=True):
        mixed = w[f"{name}.linear.weight"] @ torch.cat([state, message]) + w[f"{name}.linear.bias"]
        normed = layer_norm(
            mixed, (WIDTH,), w[f"{name}.layer_norm.weight"], w[f"{name}.layer_norm.bias"]
        )
        out.append(state + normed.relu())
    return out


def hop_by_hand(w: dict[str, Tensor], graph: Graph, head: int, relation: int) -> Tensor:
    """The published network for one entity and relation, fact by fact, from tail to head."""
    facts = graph.triples("train").tolist()
    r = graph.num_relations
    boundary = [torch.ones(WIDTH) if i == relation else torch.zeros(WIDTH) for i in range(r)]
    vectors = boundary
    for number in range(LAYERS):
        name = f"relation_model.layers.{number}"
        messages = list(boundary)
        for j, joint, i in relation_graph(graph.triples("train"), r).tolist():
            messages[i] = messages[i] + vectors[j] * w[f"{name}.relation.weight"][joint]
        vectors = layer(w, name, vectors, messages)
    query = vectors[relation]
    boundary = [query if e == head else torch.zeros(WIDTH) for e in range(graph.num_entities)]
    states = boundary
    for number in range(LAYERS):
        name = f"entity_model.layers.{number}"
        first = f"{name}.relation_projection.0"
        last = f"{name}.relation_projection.2"
        along = [
            w[f"{last}.weight"] @ (w[f"{first}.weight"] @ z + w[f"{first}.bias"]).relu()
            + w[f"{last}.bias"]
            for z in vectors
        ]
        messages = list(boundary)
        for h, rel, t in facts:
            messages[h] = messages[h] + states[t] * along[rel]
        states = layer(w, name, states, messages)
    mlp = "entity_model.mlp"
    hidden = [
        (w[f"{mlp}.0.weight"] @ torch.cat([state, query]) + w[f"{mlp}.0.bias"]).relu()
        for state in states
    ]
    return torch.stack([(w[f"{mlp}.2.weight"] @ h + w[f"{mlp}.2.bias"])[0] for h in hidden])


@pytest.mark.parametrize("prefix", ["model.model.", ""])
def test_a_published_checkpoint_answers_as_its_formulas_say(
    prefix: str, tmp_path: Path, graph: Graph, published: dict[str, Tensor]
) -> None:
    encoder, settings = import_checkpoint(
        saved(tmp_path / "ultraquery.pth", published, prefix), graph
    )
    assert (settings.model, settings.width, settings.layers, settings.hidden) == (
        "ultra",
        WIDTH,
        LAYERS,
        2 * WIDTH,
    )
    scorer = encoder.scorer()
    for head, relation in ((0, 0), (1, 1), (2, graph.num_relations - 1)):
        found = scorer.logits(torch.tensor([head]), torch.tensor([relation]))[0]
        torch.testing.assert_close(
            found, hop_by_hand(published, graph, head, relation), rtol=1e-3, atol=1e-4
        )


def test_weights_that_are_loaded_anew_count_from_the_next_question_on(
    tmp_path: Path, graph: Graph, published: dict[str, Tensor]
) -> None:
    encoder, _ = import_checkpoint(saved(tmp_path / "ultraquery.pth", published), graph)
    ids = torch.tensor([0]), torch.tensor([0])
    with torch.no_grad():
        encoder.scorer().logits(*ids)
        other = {name: weight * 0.5 for name, weight in published.items()}
        encoder.load_state_dict(other)
        found = encoder.scorer().logits(*ids)[0]
    torch.testing.assert_close(found, hop_by_hand(other, graph, 0, 0), rtol=1e-3, atol=1e-4)


def test_the_public_sizes(graph: Graph) -> None:
    encoder = make_encoder(
        EncodeSettings("ultra", recipe="paper").with_derived(graph.num_entities), graph
    )
    weights = encoder.state_dict()
    assert (len(weights), sum(tensor.numel() for tensor in weights.values())) == (82, 168_705)


def test_what_is_no_checkpoint_of_it_is_refused(
    tmp_path: Path, graph: Graph, published: dict[str, Tensor]
) -> None:
    path = tmp_path / "some.pth"
    refusals = [
        ({"embeddings.0.weight": torch.zeros(2, 2)}, "no relation_model"),
        (
            {name: t for name, t in published.items() if "1.linear.bias" not in name},
            "linear.bias is missing",
        ),
        (published | {"entity_model.mlp.0.bias": torch.zeros(3)}, r"mlp.0.bias is \(3,\)"),
        (
            published | {"entity_model.mlp.0.bias": torch.full((2 * WIDTH,), torch.nan)},
            "not finite",
        ),
        (published | {"entity_model.mlp.4.bias": torch.zeros(3)}, "mlp.4.bias, which"),
    ]
    for weights, message in refusals:
        with pytest.raises(DataError, match=message):
            import_checkpoint(saved(path, weights), graph)


def test_vectors_are_kept_until_the_weights_change(
    graph: Graph, monkeypatch: pytest.MonkeyPatch
) -> None:
    settled = EncodeSettings("ultra", width=4, layers=1, hidden=8).with_derived(SIZE)
    encoder = make_encoder(settled, graph)
    assert isinstance(encoder, Ultra)
    encoder.reset(torch.Generator().manual_seed(0))
    heads = torch.tensor([0, 1])
    relations = torch.tensor([1, 0])
    first = encoder.scorer().logits(heads, relations)
    torch.testing.assert_close(
        encoder.network(encoder.singletons(heads), relations).detach(), first
    )
    assert len(encoder._cache) == 2
    monkeypatch.setattr(ultra, "_MOST_CACHED", 2 * encoder.num_relations * 4)  # room for two
    encoder.scorer().logits(heads, torch.tensor([2, 2]))
    assert len(encoder._cache) == 1
    torch.testing.assert_close(encoder.scorer().logits(heads, relations), first)
    encoder.reset(torch.Generator().manual_seed(1))
    assert not torch.allclose(encoder.scorer().logits(heads, relations), first)
