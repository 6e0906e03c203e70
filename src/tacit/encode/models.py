"""Encoders by name."""

from __future__ import annotations

from tacit.encode.encoder import Encoder
from tacit.encode.settings import ENCODERS, EncodeSettings
from tacit.errors import SettingsError
from tacit.graph.graph import Graph
from tacit.links.scorer import Scorer


def make_encoder(settings: EncodeSettings, graph: Graph, scorer: Scorer | None = None) -> Encoder:
    """An encoder for a graph by settled settings; `reset` draws its weights. LMPNN works on a `scorer`."""
    sizes = graph.num_entities, graph.num_relations
    match settings.model:
        case "gqe":
            from tacit.encode.gqe import GQE

            return GQE(*sizes, settings)
        case "q2b":
            from tacit.encode.boxes import Query2Box

            return Query2Box(*sizes, settings)
        case "betae":
            from tacit.encode.beta import BetaE

            return BetaE(*sizes, settings)
        case "cone":
            from tacit.encode.cones import ConE

            return ConE(*sizes, settings)
        case "fuzzqe":
            from tacit.encode.fuzzy import FuzzQE

            return FuzzQE(*sizes, settings)
        case "gnnqe":
            from tacit.encode.gnnqe import GNNQE

            return GNNQE(*sizes, settings, graph.triples("train"))
        case "ultra":
            from tacit.encode.ultra import Ultra

            return Ultra(*sizes, settings, graph.triples("train"))
        case "lmpnn":
            from tacit.encode.lmpnn import LMPNN

            return LMPNN(*sizes, settings, scorer)
    raise SettingsError(f"unknown model '{settings.model}'; the encoders are {', '.join(ENCODERS)}", "model")
