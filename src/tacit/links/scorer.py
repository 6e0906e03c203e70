"""The contract between a link predictor and everything built on it."""

from __future__ import annotations

import math
import threading
from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple, Protocol, runtime_checkable

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from tacit.distributed.shards import Shards
from tacit.errors import SettingsError
from tacit.graph.fact_index import FactIndex, Integers, Ints
from tacit.graph.graph import Graph

State = tuple[tuple[int, object], ...]
COUNTER = "_version"  # torch's private count of writes to a tensor
_PADDING = 2**11  # extra floats at the end, so that kernels can use whole vectors
_CERTAIN = 200.0  # the logit of a fact
_SAMPLED = 64  # numbers of each weight that are compared to see writes


@runtime_checkable
class Scorer(Protocol):
    """Scores atoms by id. Relation ids are directed: `r ^ 1` is the inverse of `r`."""

    @property
    def num_entities(self) -> int:
        """The number of entities, N."""

    @property
    def num_relations(self) -> int:
        """The number of relation ids, inverses included."""

    @property
    def device(self) -> torch.device:
        """The device of scores and ids."""

    def logits(self, heads: Tensor, relations: Tensor, out: Tensor | None = None) -> Tensor:
        """Raw scores of every tail, `[B] x [B] -> [B, N]`; written into `out` where given."""

    def logits_of(self, heads: Tensor, relations: Tensor, tails: Tensor) -> Tensor:
        """Raw scores of single atoms, `[B] x [B] x [B] -> [B]`."""


@runtime_checkable
class BilinearScorer(Scorer, Protocol):
    """A scorer whose row of scores is one matrix product: `queries(h, r) @ keys.T`.

    Engines use it to score blocks of entities without a whole row, and to share work.
    """

    def queries(self, heads: Tensor, relations: Tensor) -> Tensor:
        """`[B] x [B] -> [B, D]`, so that `logits(h, r) = queries(h, r) @ keys().T`."""

    def keys(self) -> Tensor:
        """The entity side of the product, `[N, D]`."""


@runtime_checkable
class VectorScorer(Scorer, Protocol):
    """A scorer that also accepts vectors in place of entities, as continuous search needs."""

    def entity_vectors(self, entities: Tensor) -> Tensor:
        """`[B] -> [B, D]`, the vectors of entities."""

    def relation_vectors(self, relations: Tensor) -> Tensor:
        """`[B] -> [B, D]`, the vectors of relations."""

    def vector_squares(self, vectors: Tensor) -> Tensor:
        """The squared moduli of the numbers in entity vectors, real or complex."""

    def score_vectors(self, heads: Tensor, relations: Tensor, tails: Tensor) -> Tensor:
        """`[B, D] x [B] x [B, D] -> [B]`, differentiable in both vectors."""

    def score_all(self, heads: Tensor, relations: Tensor) -> Tensor:
        """`[B, D] x [B] -> [B, N]`, the scores of every tail from head vectors."""


class Entries(NamedTuple):
    """The tails of some rows with scores of their own, sorted by row, then by tail."""

    rows: Ints
    tails: Ints
    scores: NDArray[np.float32]  # probabilities


@runtime_checkable
class SparseScorer(Scorer, Protocol):
    """A scorer that gives most tails of a row the same logit, its `floor`, and none a lower one.

    Engines use it to follow the other tails alone.
    """

    @property
    def floor(self) -> float:
        """The logit of a tail that is no entry of its row."""

    def entries(self, heads: Integers, relations: Integers) -> Entries:
        """The tails of rows `relation(head, ·)` that may have other logits."""

    def log_odds(self, scores: Tensor) -> Tensor:
        """The logits of entries by their scores."""


def shards_of(scorer: Scorer) -> Shards:
    """The entities that a scorer's rows cover: its `shards`, or all of them."""
    return getattr(scorer, "shards", None) or Shards(scorer.num_entities)


class GraphScorer:
    """The graph itself as a scorer: 200 where a fact is known, -200 elsewhere.

    Its calibrated scores are 0 and 1, which makes it the oracle of every engine.
    """

    def __init__(self, index: FactIndex, num_entities: int) -> None:
        self.index = index
        self.num_entities = num_entities
        self.num_relations = index.num_relations
        self.device = torch.device("cpu")

    def logits(self, heads: Tensor, relations: Tensor, out: Tensor | None = None) -> Tensor:
        """`±200` for every tail."""
        if out is None:
            out = torch.empty(len(heads), self.num_entities)
        rows, tails = self.index.neighbours(heads.numpy(), relations.numpy())
        out.fill_(-_CERTAIN)
        out[torch.from_numpy(rows), torch.from_numpy(tails.astype(np.int64))] = _CERTAIN
        return out

    def logits_of(self, heads: Tensor, relations: Tensor, tails: Tensor) -> Tensor:
        """`±200` for single atoms."""
        known = self.index.contains(heads.numpy(), relations.numpy(), tails.numpy())
        return torch.where(torch.from_numpy(known), _CERTAIN, -_CERTAIN)


def state_of(model: object) -> State:
    """The addresses of a model's weights and torch's counts of writes to them.

    Writes to tensors made in inference mode are not counted.
    """
    weights = model.parameters() if isinstance(model, nn.Module) else ()
    return tuple((weight.data_ptr(), writes_to(weight)) for weight in weights)


def writes_to(tensor: Tensor) -> object:
    """Torch's count of writes to a tensor; 0 for one made in inference mode.

    Where torch does not count, the result equals nothing, which invalidates caches.
    """
    if not hasattr(Tensor, COUNTER):
        return object()
    return 0 if tensor.is_inference() else getattr(tensor, COUNTER)


@dataclass(frozen=True, eq=False)
class WeightRecord:
    """The weights of a model as they were read: their state, and a few of their numbers.

    It shows writes that torch counts, other tensors in their place, and most other writes.
    """

    state: State
    samples: tuple[tuple[torch.device, Tensor], ...]  # where each lay, and its numbers

    @classmethod
    def of(cls, model: object) -> WeightRecord:
        """Record the weights of a model; a model that is no module has none."""
        samples = tuple((weight.device, sample.clone()) for weight, sample in _samples(model))
        return cls(state_of(model), samples)

    def differs(self, model: object) -> bool:
        """Whether the weights are others than those recorded, as far as that can be seen."""
        present = _samples(model)
        if len(present) != len(self.samples):
            return True
        states = zip(self.state, state_of(model), present, self.samples, strict=True)
        for before, now, (weight, sample), (device, numbers) in states:
            moved = weight.device != device  # which keeps the numbers
            if not (moved or before == now) or not torch.equal(sample.to(device), numbers):
                return True
        return False


def _samples(model: object) -> list[tuple[Tensor, Tensor]]:
    """The weights of a model, each with a view of a few numbers."""
    weights = model.parameters() if isinstance(model, nn.Module) else ()
    return [
        (weight, weight.detach().reshape(-1)[:: max(1, weight.numel() // _SAMPLED)])
        for weight in weights
    ]


def check_sizes(name: str, part: object, graph: Graph) -> None:
    """Raise a `SettingsError` unless a part has as many entities and relations as a graph."""
    for what, attribute in (
        ("entities", "num_entities"),
        ("relation ids, inverses included", "num_relations"),
    ):
        expected = getattr(graph, attribute)
        known = getattr(part, attribute, expected)
        if known != expected:
            raise SettingsError(
                f"the {name} knows {known:,} {what}, the graph has {expected:,}; open the run that "
                "was trained on this graph"
            )


class ScratchBuffers:
    """Reused memory for results, by thread: touching fresh memory costs time."""

    def __init__(self) -> None:
        self._own = threading.local()

    def __reduce__(self) -> tuple[type[ScratchBuffers], tuple[()]]:
        return ScratchBuffers, ()  # the content is local to a process

    def __call__(self, name: str, shape: Sequence[int], device: torch.device) -> Tensor:
        """A tensor of a shape, in the memory of its name, which grows as needed."""
        buffers: dict[str, Tensor] = vars(self._own)
        size = math.prod(shape)
        if name not in buffers or buffers[name].numel() < size + _PADDING:
            with torch.inference_mode(False):  # so that it can be written to outside of that mode
                buffers[name] = torch.empty(size + _PADDING, device=device)
        return buffers[name][:size].view(*shape)
