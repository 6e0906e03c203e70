"""What encoders cost by formula: their weights, and the arithmetic of a training step.

`d` is the width, `h` the hidden width, `n` entities, `r` directed relations. A product of `m x k`
by `k x n` is `2mkn` FLOP; forward and backward are three times the forward.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from tacit.encode.settings import EncodeSettings
from tacit.query.plans.plan import Intersect, Plan, Project, Row, children, walk
from tacit.query.sampling.shapes import SHAPES

PAIR_FLOP = {"gqe": 3, "q2b": 8, "cone": 15}  # of one entity, one query, one dimension
BOTH_WAYS = 3  # forward and backward, in forwards
ADAM_BYTES = 4 * 7  # of a weight and step: gradient read; weight and both moments read and written


@dataclass(frozen=True)
class Sizes:
    """What a graph has, and what a link predictor has per entity."""

    entities: int
    relations: int
    facts: int
    rank: int = 0  # real numbers per entity


@dataclass(frozen=True)
class Cost:
    """The work of one step in FLOP, and the bytes that Adam moves.

    FLOP are those of networks' products, of products of states with entities, which stay in
    float32 under bf16, and of operations that no precision rounds.
    """

    products: float
    matched: float
    others: float
    adam_bytes: float


def linear(inputs: int, outputs: int) -> int:
    """The weights of a linear layer with its bias."""
    return inputs * outputs + outputs


def weights(model: str, settings: EncodeSettings, graph: Sizes) -> int:
    """The trainable weights of an encoder."""
    d = settings.width
    h = settings.hidden
    layers = settings.layers
    n = graph.entities
    r = graph.relations
    match model:
        case "gqe":
            return (n + r) * d + 2 * linear(d, d)
        case "q2b":
            return (n + 2 * r) * d + 4 * linear(d, d)
        case "betae":
            move = 2 * d if settings.residual else d
            network = linear(2 * d + move, h) + (layers - 1) * linear(h, h) + linear(h, 2 * d)
            return 2 * n * d + r * move + network + linear(2 * d, 2 * d) + linear(2 * d, d)
        case "cone":
            network = linear(2 * d, h) + (layers - 1) * linear(h, h) + linear(h, 2 * d)
            return (n + 2 * r) * d + network + 2 * (linear(2 * d, d) + linear(d, d)) + 1
        case "fuzzqe":
            return n * d + settings.bases * (d * d + d + r)
        case "gnnqe":
            layer = linear(d, r * d) + linear(13 * d, d) + 2 * d
            return r * d + layers * layer + linear(_read(settings), h) + linear(h, 1)
        case "lmpnn":
            return linear(graph.rank, h) + linear(h, graph.rank) + 2 * graph.rank
    raise ValueError(f"no formula for the weights of '{model}'")


def step_cost(model: str, settings: EncodeSettings, graph: Sizes, mix: Mapping[str, int]) -> Cost:
    """The work of a step over so many queries of each shape."""
    plans = {SHAPES[name].plan: count for name, count in mix.items()}
    batch = sum(plans.values())
    hops = sum(count * _hops(plan) for plan, count in plans.items())
    products: float = sum(
        count * _meet(model, settings.width, parts)
        for plan, count in plans.items()
        for parts in _meets(plan)
    )
    compared = batch * (settings.negatives + settings.answers)
    matched = 0.0
    others = float(compared * settings.width * PAIR_FLOP[model]) if model in PAIR_FLOP else 0.0
    match model:
        case "gnnqe":
            products += hops * _network(settings, graph)
            others += hops * settings.layers * (graph.facts + graph.entities) * settings.width * 6
        case "lmpnn":
            rows = sum(count * _heard(plan) for plan, count in plans.items())
            products += rows * 4 * graph.rank * settings.hidden
            # entities stay as they are
            matched = 4 / 3 * batch * min(settings.negatives, graph.entities) * graph.rank
        case "betae":
            products += hops * _hop(model, settings)
            others += 4 * compared * settings.width  # a product that is never rounded
        case "fuzzqe":  # all bases for each hop, or the matrix of each relation first
            d = settings.width
            bases = settings.bases
            products += min(hops * 2 * bases * d * d, 2 * (hops + graph.relations * bases) * d * d)
            products += hops * 2 * bases * d
            matched = 2 * compared * d
        case _:
            products += hops * _hop(model, settings)
    moved = ADAM_BYTES * float(weights(model, settings, graph))
    return Cost(BOTH_WAYS * products, BOTH_WAYS * matched, BOTH_WAYS * others, moved)


def _hops(plan: Plan) -> int:
    return sum(isinstance(step, Row | Project) for step in walk(plan.root))


def _meets(plan: Plan) -> Iterator[int]:
    """The number of parts of each intersection."""
    return (len(step.parts) for step in walk(plan.root) if isinstance(step, Intersect))


def _meet(model: str, d: int, parts: int) -> int:
    """The products of an intersection."""
    match model:
        case "gqe":
            return parts * 4 * d * d
        case "q2b":
            return parts * 6 * d * d + 2 * d * d
        case "betae":
            return parts * 12 * d * d
        case "cone":
            return parts * 10 * d * d + 2 * d * d
    return 0


def _hop(model: str, settings: EncodeSettings) -> int:
    """The products of a projection."""
    d = settings.width
    h = settings.hidden
    layers = settings.layers
    match model:
        case "betae":
            move = 2 * d if settings.residual else d
            return 2 * ((2 * d + move) * h + (layers - 1) * h * h + h * 2 * d)
        case "cone":
            return 2 * (2 * d * h + (layers - 1) * h * h + h * 2 * d)
    return 0


def _network(settings: EncodeSettings, graph: Sizes) -> int:
    """The products of one projection of GNN-QE over all entities."""
    d = settings.width
    layer = graph.entities * 2 * (d * d + 12 * d * d) + 2 * graph.relations * d * d
    readout = (
        graph.entities * 2 * ((_read(settings) - d) * settings.hidden + settings.hidden)
    )  # what all share is apart
    return settings.layers * layer + readout


def _read(settings: EncodeSettings) -> int:
    """The numbers that GNN-QE reads a logit from: its states and the relation's vector."""
    return settings.width * (1 + (settings.layers if settings.joined else 1))


def _heard(plan: Plan) -> int:
    """The vectors that LMPNN's network sees: each round, the variables that reach the answer."""
    distances = [0]
    depth = 0

    def descend(step: Any, distance: int) -> None:
        nonlocal depth
        if isinstance(step, Row | Project):
            distance += 1
            depth = max(depth, distance)
        if isinstance(step, Project):
            distances.append(distance)
        for inner in children(step):
            descend(inner, distance)

    descend(plan.root, 0)
    return sum(distance <= left for left in range(depth) for distance in distances)
