"""LMPNN (Wang et al., 2023): messages of a frozen link predictor along query graphs.

The message of an atom `r(s, t)` to `t` is the predictor's own query for the vector of `s`: the
complex product `s · r` of ComplEx. A negated atom sends the opposite, `-s · r`. Each round, every
variable sums its messages and passes them through one small network; after as many rounds as there
are links to the farthest term, the vector of the free variable is compared with those of all
entities by its angle. Only the network and the first vectors of variables learn.

It differs from the published code in four ways. Entities keep their vectors, where that code
changes them, too. Towards the head of an atom goes the predictor's vector of the inverse relation.
Unions are kept apart as branches, of which the best counts. And a negated path (pni) is encoded as
a question of its own, whose vector is sent on with a minus, where that code negates the last atom
inside the quantifier.
"""

from __future__ import annotations

import zlib
from collections.abc import Iterator, Sequence

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from tacit.encode.encoder import Slots
from tacit.encode.layers import network, products, reset_layers, zero_last_layer
from tacit.encode.networks.query_graph import FREE, QueryGraph, query_graphs
from tacit.encode.settings import EncodeSettings
from tacit.encode.spaces.space import Matching
from tacit.errors import SettingsError
from tacit.links.factors import MULTIPLE, BilinearModel
from tacit.links.models import ComplEx, DistMult
from tacit.links.scorer import Scorer, State, state_of
from tacit.query.plans.plan import Plan

OWN = 0.1  # the share of its own vector that a variable adds to its messages
GraphTerm = tuple[int, int]  # the number of a query graph, and a term of it


class LMPNN(Matching):
    """Logits are `cos(x, e) / T`; with the recipe `lean` the network is residual.

    The predictor is not among its modules, so a checkpoint holds the learned weights alone.
    """

    name = "LMPNN"
    keys: Tensor

    def __init__(
        self,
        num_entities: int,
        num_relations: int,
        settings: EncodeSettings,
        scorer: Scorer | None = None,
    ) -> None:
        super().__init__(num_entities, num_relations, settings)
        predictor = _check_predictor(scorer)
        self._predictor = (predictor,)  # a tuple, so that it is no submodule
        self.residual = settings.recipe == "lean"
        self.temperature = settings.temperature
        width = predictor.keys().shape[1]
        # These names are in stored weights: the first vectors of answers, and of other variables.
        self.asked = nn.Parameter(torch.empty(width))
        self.between = nn.Parameter(torch.empty(width))
        self.network = network(width, settings.hidden, 1, width)
        self.register_buffer("keys", None, persistent=False)
        self.renew()

    @property
    def entities(self) -> Tensor:
        """The vectors of entities that the link predictor has at this moment, `[N, D]`."""
        return self._predictor[0].keys().detach().to(self.device)

    @property
    def relations(self) -> Tensor:
        """The vectors of relations that the link predictor has at this moment, `[R, D]`."""
        return self._predictor[0].relations.weight.detach().to(self.device)

    def reset(self, generator: torch.Generator) -> None:
        """Start variables in the range of entities, and a residual network at zero."""
        reach = float(self.entities.std()) if len(self.entities) > 1 else 1.0
        for vector in (self.asked, self.between):
            nn.init.uniform_(vector, 0, reach, generator=generator)
        reset_layers(self.network, generator)
        if self.residual:
            zero_last_layer(self.network)

    def renew(self) -> None:
        """Cache the directions of all entities."""
        padding = -len(self.entities) % MULTIPLE
        self.keys = F.pad(F.normalize(self.entities, dim=1), (0, 0, 0, padding))

    def weights_state(self) -> State:
        """The state of the vectors of the link predictor."""
        return state_of(self._predictor[0])

    def checksums(self) -> dict[str, str]:
        """A checksum of the vectors of the link predictor."""
        tables = (table.cpu().contiguous().numpy() for table in (self.entities, self.relations))
        sums = " ".join(str(zlib.crc32(table.data)) for table in tables)
        return {"vectors of the link predictor": sums}

    def check(self, plan: Plan) -> None:
        """Raise a `PlanError` that names a step which no query graph expresses."""
        query_graphs(plan)

    def states(self, queries: Sequence[Slots]) -> list[list[Tensor]]:
        """The vectors of the free variable by query and branch, `[n, D]` each.

        Rounds are counted from the last: a term `d` links away is not updated in the last `d`
        rounds.
        """
        graphs = [(graph, slots) for slots in queries for graph in query_graphs(slots.plan)]
        vectors = self._initial_vectors(graphs)
        for farthest in reversed(range(max(graph.depth for graph, _ in graphs))):
            receivers = [
                (number, term)
                for number, (graph, _) in enumerate(graphs)
                if graph.depth > farthest
                for term, distance in graph.distances.items()
                if term >= FREE and distance <= farthest
            ]
            sums = self._sum_messages(graphs, vectors, receivers)
            inputs = torch.cat(sums)
            outputs = inputs + self.network(inputs) if self.residual else self.network(inputs)
            parts = outputs.split([len(part) for part in sums])
            vectors |= dict(zip(receivers, parts, strict=True))
        ends = iter([vectors[number, FREE] for number in range(len(graphs))])
        return [[next(ends) for _ in query_graphs(slots.plan)] for slots in queries]

    def _initial_vectors(
        self, graphs: Sequence[tuple[QueryGraph, Slots]]
    ) -> dict[GraphTerm, Tensor]:
        """The vectors that terms start from."""
        vectors: dict[GraphTerm, Tensor] = {}
        for number, (graph, slots) in enumerate(graphs):
            for term in graph.distances:
                if term < FREE:
                    vectors[number, term] = self.entities[slots.entities[:, -1 - term]]
                else:
                    start = self.asked if term in graph.answers else self.between
                    vectors[number, term] = start.expand(len(slots.relations), -1)
        return vectors

    def _sum_messages(
        self,
        graphs: Sequence[tuple[QueryGraph, Slots]],
        vectors: dict[GraphTerm, Tensor],
        receivers: Sequence[GraphTerm],
    ) -> list[Tensor]:
        """The messages to each of some terms, summed with a little of its own vector."""
        senders = []
        ids = []
        for number, term in receivers:
            graph, slots = graphs[number]
            for sender, relation, _ in graph.messages_to(term):
                if relation is not None:
                    senders.append(vectors[number, sender])
                    ids.append(slots.relations[:, relation.slot] ^ int(relation.flip))
        messages: Iterator[Tensor] = iter(())  # empty where all links are denials
        if ids:
            composed = self._predictor[0].compose(
                torch.cat(senders), self.relations[torch.cat(ids)]
            )
            messages = iter(composed.split([len(part) for part in ids]))
        sums = []
        for number, term in receivers:
            total = OWN * vectors[number, term]
            for sender, relation, negated in graphs[number][0].messages_to(term):
                message = vectors[number, sender] if relation is None else next(messages)
                total = total - message if negated else total + message
            sums.append(total)
        return sums

    def match(self, states: Tensor, entities: Tensor | None = None) -> Tensor:
        """Cosines over the temperature."""
        if not self.training:  # while it learns, the link predictor stays as it is
            self.renew_if_stale()
        sharpened = F.normalize(states, dim=1) / self.temperature
        if entities is not None:
            return products(sharpened, self.keys[entities])
        return products(sharpened, self.keys)[:, : self.num_entities]


def _check_predictor(scorer: Scorer | None) -> BilinearModel:
    """The link predictor, if it is an unsharded ComplEx or DistMult; else an error."""
    if scorer is None:
        raise SettingsError(
            "model is 'lmpnn', which works on a link predictor; give a run that has one", "model"
        )
    if not isinstance(scorer, ComplEx) and type(scorer) is not DistMult:
        name = type(scorer).__name__
        raise SettingsError(
            "model is 'lmpnn', which works on a complex or distmult link predictor; that of the "
            f"run is {name}",
            "model",
        )
    if scorer.shards is not None and scorer.shards.world > 1:
        raise SettingsError(
            "model is 'lmpnn', which needs all entities in one process; leave `shards` out", "model"
        )
    return scorer
