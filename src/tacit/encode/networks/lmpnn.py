"""LMPNN: messages along the links of a query graph, made by a frozen link predictor (Wang et al., 2023).

What an atom `r(s, t)` says of `t`, given a vector for `s`, is the predictor's own query: the complex product `s · r` of
ComplEx. A negated atom says the opposite, `-s · r`. Each round, every variable sums what its links say and passes it
through one small network; after as many rounds as there are links to the farthest term, the variable asked for is a
vector, compared with those of all entities by its angle. Only the network and the first vectors of variables learn.

It differs from the published code in four ways. Entities keep their vectors, where that code changes them, too. Towards
the head of an atom goes the predictor's vector of the inverse relation. Unions are kept apart as branches, of which the
best counts. And a negated path (pni) is encoded as a question of its own, whose vector is sent on with a minus, where
that code negates the last atom inside the quantifier.
"""

from __future__ import annotations

import zlib
from collections.abc import Iterator, Sequence

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from tacit.encode.layers import network, products, quiet, reset_layers
from tacit.encode.networks.query_graph import FREE, QueryGraph, query_graphs
from tacit.encode.settings import EncodeSettings
from tacit.encode.spaces.matching import Matching, Slots
from tacit.errors import SettingsError
from tacit.links.embeddings import MULTIPLE
from tacit.links.factors import BilinearModel
from tacit.links.models import ComplEx, DistMult
from tacit.links.scorer import Scorer
from tacit.query.plans.plan import Plan

OWN = 0.1  # how much of its own vector a variable adds to what it hears
GraphTerm = tuple[int, int]  # the number of a query graph, and a term of it


class LMPNN(Matching):
    """Logits are `cos(x, e) / T`. With the recipe `lean` a round adds the network's output to what was heard.

    The predictor is none of its parts: a checkpoint holds what was learned.
    """

    name = "LMPNN"
    entities: Tensor
    relations: Tensor
    keys: Tensor

    def __init__(
        self, num_entities: int, num_relations: int, settings: EncodeSettings, scorer: Scorer | None = None
    ) -> None:
        super().__init__(num_entities, num_relations, settings)
        predictor = _checked(scorer)
        self.compose, self.residual = predictor.compose, settings.recipe == "lean"
        self.temperature = settings.temperature
        entities, relations = predictor.keys().detach(), predictor.relations.weight.detach()
        self.register_buffer("entities", entities, persistent=False)
        self.register_buffer("relations", relations, persistent=False)
        keys = F.pad(F.normalize(entities, dim=1), (0, 0, 0, -len(entities) % MULTIPLE))
        self.register_buffer("keys", keys, persistent=False)
        width = entities.shape[1]
        self.asked, self.between = nn.Parameter(torch.empty(width)), nn.Parameter(torch.empty(width))
        self.network = network(width, settings.hidden, 1, width)

    def reset(self, generator: torch.Generator) -> None:
        """Variables start within the numbers of entities; a network whose output is added starts at nothing."""
        reach = float(self.entities.std()) if len(self.entities) > 1 else 1.0
        for vector in (self.asked, self.between):
            nn.init.uniform_(vector, 0, reach, generator=generator)
        reset_layers(self.network, generator)
        if self.residual:
            quiet(self.network)

    def checksums(self) -> dict[str, str]:
        """What tells the vectors of the link predictor from others."""
        vectors = (table.cpu().contiguous().numpy().data for table in (self.entities, self.relations))
        return {"vectors of the link predictor": " ".join(str(zlib.crc32(table)) for table in vectors)}

    def check(self, plan: Plan) -> None:
        """Raise a `PlanError` that names what no query graph can say."""
        query_graphs(plan)

    def states(self, queries: Sequence[Slots]) -> list[list[Tensor]]:
        """The vectors of the variable asked for, of each branch of queries of any mix of plans, `[n, D]` each.

        Rounds are counted from the last: a term that lies `d` links away is not heard in the last `d` rounds.
        """
        graphs = [(graph, slots) for slots in queries for graph in query_graphs(slots[0])]
        vectors = self._first(graphs)
        for left in reversed(range(max(graph.depth for graph, _ in graphs))):
            hearing = [
                (number, term)
                for number, (graph, _) in enumerate(graphs)
                if graph.depth > left
                for term, distance in graph.distances.items()
                if term >= FREE and distance <= left
            ]
            heard = self._heard(graphs, vectors, hearing)
            told = torch.cat(heard)
            answered = told + self.network(told) if self.residual else self.network(told)
            vectors |= dict(zip(hearing, answered.split([len(part) for part in heard]), strict=True))
        ends = iter([vectors[number, FREE] for number in range(len(graphs))])
        return [[next(ends) for _ in query_graphs(plan)] for plan, _, _ in queries]

    def _first(self, graphs: Sequence[tuple[QueryGraph, Slots]]) -> dict[GraphTerm, Tensor]:
        """The vectors that terms start from."""
        vectors: dict[GraphTerm, Tensor] = {}
        for number, (graph, (_, entities, relations)) in enumerate(graphs):
            for term in graph.distances:
                start = self.asked if term in graph.answers else self.between
                named = self.entities[entities[:, -1 - term]] if term < FREE else None
                vectors[number, term] = start.expand(len(relations), -1) if named is None else named
        return vectors

    def _heard(
        self, graphs: Sequence[tuple[QueryGraph, Slots]], vectors: dict[GraphTerm, Tensor], hearing: Sequence[GraphTerm]
    ) -> list[Tensor]:
        """What each of some terms hears, and a little of itself: all messages are composed at once."""
        senders, ids = [], []
        for number, term in hearing:
            graph, (_, _, relations) = graphs[number]
            for sender, relation, _ in graph.received(term):
                if relation is not None:
                    senders.append(vectors[number, sender])
                    ids.append(relations[:, relation.slot] ^ int(relation.flip))
        messages: Iterator[Tensor] = iter(())  # where all that is heard are denials
        if ids:
            said = self.compose(torch.cat(senders), self.relations[torch.cat(ids)])
            messages = iter(said.split([len(part) for part in ids]))
        heard = []
        for number, term in hearing:
            total = OWN * vectors[number, term]
            for sender, relation, negated in graphs[number][0].received(term):
                message = vectors[number, sender] if relation is None else next(messages)
                total = total - message if negated else total + message
            heard.append(total)
        return heard

    def match(self, states: Tensor, entities: Tensor | None = None) -> Tensor:
        """Cosines over the temperature."""
        sharpened = F.normalize(states, dim=1) / self.temperature
        if entities is not None:
            return products(sharpened, self.keys[entities])
        return products(sharpened, self.keys)[:, : self.num_entities]


def _checked(scorer: Scorer | None) -> BilinearModel:
    """The predictor, where it has one vector for an entity and says of an atom's end which vector it expects."""
    if scorer is None:
        raise SettingsError("model is 'lmpnn', which works on a link predictor; give a run that has one", "model")
    if not isinstance(scorer, ComplEx) and type(scorer) is not DistMult:
        name = type(scorer).__name__
        raise SettingsError(
            f"model is 'lmpnn', which works on a complex or distmult link predictor; that of the run is {name}", "model"
        )
    if scorer.shards is not None and scorer.shards.world > 1:
        raise SettingsError("model is 'lmpnn', which needs all entities in one process; leave shards out", "model")
    return scorer
