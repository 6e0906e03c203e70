"""Encoders by name."""

from __future__ import annotations

from collections.abc import Callable

from tacit.encode.encoder import Encoder
from tacit.encode.networks.gnnqe import GNNQE
from tacit.encode.networks.lmpnn import LMPNN
from tacit.encode.networks.ultra import Ultra
from tacit.encode.settings import EncodeSettings
from tacit.encode.spaces.beta import BetaE
from tacit.encode.spaces.boxes import Query2Box
from tacit.encode.spaces.cones import ConE
from tacit.encode.spaces.fuzzy import FuzzQE
from tacit.encode.spaces.gqe import GQE
from tacit.graph.graph import Graph
from tacit.links.scorer import Scorer

EMBEDDINGS: dict[str, Callable[[int, int, EncodeSettings], Encoder]] = {
    "gqe": GQE, "q2b": Query2Box, "betae": BetaE, "cone": ConE, "fuzzqe": FuzzQE,
}  # fmt: skip
NETWORKS = {"gnnqe": GNNQE, "ultra": Ultra}  # over the train facts, which they read while they answer


def make_encoder(settings: EncodeSettings, graph: Graph, scorer: Scorer | None = None) -> Encoder:
    """An encoder for a graph by settled settings; `reset` draws its weights. LMPNN works on a `scorer`."""
    sizes = graph.num_entities, graph.num_relations
    if settings.model in EMBEDDINGS:
        return EMBEDDINGS[settings.model](*sizes, settings)
    if settings.model in NETWORKS:
        return NETWORKS[settings.model](*sizes, settings, graph.triples("train"))
    return LMPNN(*sizes, settings, scorer)
