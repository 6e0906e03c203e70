"""ULTRA and UltraQuery (Galkin et al., 2024): graph networks without embeddings.

A first network runs over the graph of relations, in which two are joined where they share an
entity, and gives every relation a vector relative to the one that is asked for. With these a second
network follows that relation over the facts. So weights that were trained on some graphs answer
questions over any other; those published can be imported.
"""

from __future__ import annotations

import re
import warnings
from collections import deque
from pathlib import Path

import numpy as np
import torch
import torch.nn.functional as F
from numpy.typing import NDArray
from torch import Tensor, nn

from tacit.encode.layers import network
from tacit.encode.networks.aggregation import sum_messages
from tacit.encode.networks.graph_network import SetProjector, boundary_of, readout, states_after
from tacit.encode.networks.sorted_facts import DirectedFacts, SortedFacts
from tacit.encode.settings import EncodeSettings
from tacit.errors import DataError
from tacit.graph.graph import Graph
from tacit.links.imports import load_tensors
from tacit.run_folder.files import ENCODER
from tacit.run_folder.folder import RunFolder

_MOST_CACHED = 1 << 28  # numbers in the cache of relation vectors, at most
JOINTS = 4  # ways to share an entity: head and head, tail and tail, head and tail, tail and head
_NAME = re.compile(r"(?:model\.)*((?:relation|entity)_model\..+)")
_LAYER = re.compile(r"entity_model\.layers\.(\d+)\.linear\.weight")


class SummedLayer(nn.Module):
    """ULTRA's layer: `h + relu(LN(W [h; x + Σ messages]))`."""

    def __init__(self, width: int) -> None:
        super().__init__()
        self.linear = nn.Linear(2 * width, width)
        self.layer_norm = nn.LayerNorm(width)

    def forward(
        self,
        states: Tensor,
        relations: Tensor,
        boundary: Tensor,
        facts: SortedFacts,
        keep: Tensor | None = None,
    ) -> Tensor:
        """The next states."""
        aggregated = sum_messages(states, relations, boundary, facts, keep)
        own, others = self.linear.weight.chunk(2, 1)
        mixed = F.linear(states, own, self.linear.bias) + F.linear(aggregated, others)
        return states + F.relu(self.layer_norm(mixed))


class _RelationLayer(SummedLayer):
    """A layer over the graph of relations, with a vector for each way to be joined."""

    def __init__(self, width: int) -> None:
        super().__init__(width)
        self.relation = nn.Embedding(JOINTS, width)

    def relations(self, boundary: Tensor) -> Tensor:
        """The vectors of the ways to be joined, the same for each query."""
        return self.relation.weight[:, None].expand(-1, boundary.shape[1], -1)


class _EntityLayer(SummedLayer):
    """A layer over the facts, with a map of its own of the vectors of relations."""

    def __init__(self, width: int) -> None:
        super().__init__(width)
        self.relation_projection = network(width, width, 1, width)

    def relations(self, vectors: Tensor) -> Tensor:
        """Vectors of the inverse relations, since published messages go to the head of a fact."""
        projected: Tensor = self.relation_projection(vectors)
        return torch.flatten(projected.unflatten(0, (-1, 2)).flip(1), 0, 1)


class Ultra(SetProjector):
    """Both networks; the graph of relations always comes from all train facts.

    Weights have the names of published checkpoints.
    """

    name = "UltraQuery"

    def __init__(
        self,
        num_entities: int,
        num_relations: int,
        settings: EncodeSettings,
        triples: DirectedFacts,
    ) -> None:
        super().__init__(num_entities, num_relations, settings, triples)
        d = settings.width
        count = settings.layers
        relation_layers = nn.ModuleList(_RelationLayer(d) for _ in range(count))
        entity_layers = nn.ModuleList(_EntityLayer(d) for _ in range(count))
        mlp = network(2 * d, settings.hidden, 1, 1)
        self.relation_model = nn.ModuleDict({"layers": relation_layers})
        self.entity_model = nn.ModuleDict({"layers": entity_layers, "mlp": mlp})
        self.joints = SortedFacts(relation_graph(triples, num_relations), num_relations, JOINTS)
        self._cache: dict[int, Tensor] = {}

    def network(self, log_sets: Tensor, relations: Tensor, keep: Tensor | None = None) -> Tensor:
        learns = torch.is_grad_enabled()
        vectors = self._vectors(relations) if learns else self._cached_vectors(relations)
        query = vectors[relations, torch.arange(len(relations), device=relations.device)]
        states = states_after(
            self.entity_model["layers"], vectors, boundary_of(log_sets, query), self.facts, keep
        )
        return readout(self.entity_model["mlp"], deque(states, 1), query)

    def _vectors(self, relations: Tensor) -> Tensor:
        """The vectors of all relations relative to query relations, `[n] -> [R, n, d]`."""
        n = len(relations)
        d = self.settings.width
        start = torch.zeros(self.num_relations, n, d, device=relations.device)
        queries = relations, torch.arange(n, device=relations.device)
        boundary = start.index_put(queries, start.new_ones(d))
        layers = self.relation_model["layers"]
        return deque(states_after(layers, boundary, boundary, self.joints), 1).pop()

    def _cached_vectors(self, relations: Tensor) -> Tensor:
        """The same vectors, cached by relation within a limit."""
        self.renew_if_stale()
        ids = relations.tolist()
        cache = self._cache
        if len(cache.keys() | set(ids)) * self.num_relations * self.settings.width > _MOST_CACHED:
            cache = {}
        if missing := sorted(set(ids) - cache.keys()):
            vectors = self._vectors(torch.tensor(missing, device=relations.device))
            # A new dict, since other threads may read the old one.
            cache = self._cache = cache | dict(zip(missing, vectors.unbind(1), strict=True))
        return torch.stack([cache[relation] for relation in ids], 1)

    def renew(self) -> None:
        """Forget the vectors of other weights."""
        self._cache = {}


def relation_graph(triples: DirectedFacts, num_relations: int) -> NDArray[np.int64]:
    """Facts `(j, joint, i)` of the graph of relations, from triples with their inverses.

    The tails of a relation are the heads of its inverse, so that one product says which share an
    entity at any end.

    >>> relation_graph(np.array([[0, 0, 1], [1, 1, 0], [1, 2, 2], [2, 3, 1]]), 4)[:3]
    array([[0, 0, 0],
           [1, 0, 1],
           [2, 0, 1]])
    """
    entities, relations = np.unique(triples[:, :2].astype(np.int64), axis=0).T
    size = int(entities.max(initial=-1)) + 1
    at = torch.from_numpy(np.stack([relations, entities]))
    # Torch warns that sparse CSR is in beta.
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)
        heads = torch.sparse_coo_tensor(at, torch.ones(at.shape[1]), (num_relations, size))
        # (i, j) whose heads share an entity
        shared = torch.sparse.mm(heads, heads.t()).coalesce().indices().numpy()
    ends = [shared, shared ^ 1, shared ^ np.array([[0], [1]]), shared ^ np.array([[1], [0]])]
    joints = [np.stack([j, np.full_like(i, joint), i], 1) for joint, (i, j) in enumerate(ends)]
    edges = np.concatenate(joints)
    return edges[np.lexsort((edges[:, 0], edges[:, 2], edges[:, 1]))]


def import_checkpoint(path: str | Path, graph: Graph) -> tuple[Ultra, EncodeSettings]:
    """Load ULTRA from a published checkpoint, such as `ultraquery.pth`, for a graph.

    The file is one of plain tensors; nothing in it is executed. A run with ULTRA, of any graph, is
    as good as a file.
    """
    path = Path(path)
    run = path.parent if path.name == ENCODER else path
    stored = RunFolder.open(run).tensors(ENCODER).items() if run.is_dir() else load_tensors(path)
    weights = {
        match[1]: tensor.float() for name, tensor in stored if (match := _NAME.fullmatch(name))
    }
    layers = [tensor for name, tensor in weights.items() if _LAYER.fullmatch(name)]
    readout = weights.get("entity_model.mlp.0.weight")
    if not layers or any(tensor.ndim != 2 for tensor in layers) or readout is None:
        raise DataError(
            "has no relation_model and entity_model; give a checkpoint of ULTRA or UltraQuery", path
        )
    settings = EncodeSettings(
        "ultra", recipe="paper", width=len(layers[0]), layers=len(layers), hidden=len(readout)
    ).with_derived(graph.num_entities)
    encoder = Ultra(graph.num_entities, graph.num_relations, settings, graph.triples("train"))
    for name, own in encoder.state_dict().items():
        weight = weights.pop(name, None)
        if weight is None or weight.shape != own.shape or not bool(weight.isfinite().all()):
            state = "is missing" if weight is None else f"is {tuple(weight.shape)} or not finite"
            raise DataError(f"{name} {state}; {tuple(own.shape)} finite numbers are needed", path)
        own.copy_(weight)
    if weights:
        raise DataError(f"holds {next(iter(weights))}, which ULTRA does not have", path)
    encoder.renew()
    return encoder.requires_grad_(False).eval(), settings
