"""Small graphs to serve, apart from what serves them: a worker loads no more than this."""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

import torch

from tacit.encode.encoder import Drawn, Encoder
from tacit.engine.engine import Engine
from tacit.engine.reasoner import SymbolicReasoner
from tacit.engine.settings import EngineSettings
from tacit.errors import PlanError
from tacit.graph.graph import Graph, no_triples
from tacit.links.rules.rule_scorer import RuleScorer
from tacit.links.rules.rule_set import Rule, RuleSet
from tacit.links.scorer import GraphScorer
from tacit.query.plans.plan import Complement, Plan
from tacit.server.served_run import ALONE, ServiceGroup

BORDERS = [
    ("France", "Spain"),
    ("Spain", "Portugal"),
    ("France", "Italy"),
    ("France", "Germany"),
    ("Germany", "Poland"),
]
SPEAKS = [
    ("Spain", "Spanish"),
    ("France", "French"),
    ("Italy", "Italian"),
    ("Germany", "German"),
    ("Poland", "Polish"),
]
SLOW = "Slowland"
DEADLY = "Crashland"
WICKED = "<img src=x onerror=\"document.title='owned'\">"
SCRIPT = "</script><script>document.title='owned'</script>"


def europe() -> Graph:
    """Five countries that border each other, their languages, and two that are trouble."""
    facts = [(a, "borders", b) for pair in BORDERS for a, b in (pair, pair[::-1])]
    facts += [(country, "speaks", language) for country, language in SPEAKS]
    facts += [
        ("New York", "borders", "Nowhere"),
        (SLOW, "borders", "Spain"),
        (DEADLY, "borders", "Spain"),
    ]
    return Graph.of(facts, name="europe")


def wicked() -> Graph:
    """A graph whose labels are markup."""
    return Graph.of(
        [
            (WICKED, SCRIPT, "plain"),
            ("plain", SCRIPT, WICKED),
            ("plain", "<b>bold</b>", '"><svg onload=alert(1)>'),
        ],
        name="<i>wicked</i>",
    )


class TroubledScorer(GraphScorer):
    """The facts as a scorer, except that one entity takes for ever and another ends the process."""

    def __init__(self, graph: Graph) -> None:
        super().__init__(graph.index(), graph.num_entities)
        self.slow = graph.entities.get(SLOW)
        self.deadly = graph.entities.get(DEADLY)

    def logits(
        self, heads: torch.Tensor, relations: torch.Tensor, out: torch.Tensor | None = None
    ) -> torch.Tensor:
        """`±scale`, once the trouble is over."""
        if self.slow is not None and bool((heads == self.slow).all()):
            time.sleep(60)
        if self.deadly is not None and bool((heads == self.deadly).all()):
            os._exit(1)
        return super().logits(heads, relations, out)


def engine_of(graph: Graph) -> Engine:
    """An engine that predicts nothing: its answers can be worked out by hand."""
    return Engine(graph, TroubledScorer(graph), calibration="sigmoid")


def open_europe() -> Engine:
    """Return the engine that a worker opens."""
    return engine_of(europe())


@dataclass(frozen=True)
class Made:
    """A graph that is made where it is needed, and its engine."""

    graph: Callable[[], Graph]

    def engine(self, group: ServiceGroup = ALONE) -> Engine:
        """Return the engine that a worker opens."""
        return engine_of(self.graph())

    def renewed(self) -> Made:
        """The same, since it never changes."""
        return self


@dataclass(frozen=True)
class Ruled(Made):
    """The same with an engine of one rule: a path of two relations implies the second of them."""

    path: tuple[str, str]

    def engine(self, group: ServiceGroup = ALONE) -> Engine:
        """What a worker opens."""
        graph = self.graph()
        first, second = map(graph.relations.id, self.path)
        counts = {"support": 61, "groundings": 214, "confidence": 0.28}
        rule = Rule((first, second), second, **counts)
        mirrored = Rule((second ^ 1, first ^ 1), second ^ 1, **counts)
        rules = RuleSet.of([rule, mirrored])
        scorer = RuleScorer(rules, graph.index(), graph.num_entities)
        return Engine(graph, scorer, calibration="sigmoid", search="beam")


CITIES = [f"City {number:02}" for number in range(45)]
MISSING = [
    ("Portugal", "speaks", "Spanish"),
    ("Italy", "borders", "Spain"),
    ("Italy", "speaks", "French"),
]


@dataclass(frozen=True)
class Atlas:
    """Europe with a country of many cities, and an engine that predicts three new facts."""

    def whole(self) -> Graph:
        """The facts of the graph, and the predicted ones as a split of their own."""
        facts = [(a, "borders", b) for a, b in BORDERS] + [(a, "speaks", b) for a, b in SPEAKS]
        return Graph.of(
            [*facts, *((city, "city_in", "France") for city in CITIES)], test=MISSING, name="atlas"
        )

    def graph(self) -> Graph:
        """The graph that is served."""
        return replace(self.whole(), test=no_triples())

    def engine(self, group: ServiceGroup = ALONE) -> Engine:
        """Return the engine that a worker opens."""
        whole = self.whole()
        return Engine(
            self.graph(), GraphScorer(whole.index(), whole.num_entities), calibration="sigmoid"
        )

    def renewed(self) -> Atlas:
        """The same, since it never changes."""
        return self


class Untrained(Encoder):
    """An encoder that has nothing to learn."""

    device = torch.device("cpu")

    def loss(
        self,
        batch: Sequence[Drawn],
        negatives: torch.Tensor,
        log_frequencies: torch.Tensor | None = None,
    ) -> torch.Tensor:
        """Nothing."""
        return torch.zeros(())

    def reset(self, generator: torch.Generator) -> None:
        """Nothing to draw."""


class StandIn(Untrained):
    """An encoder without negation that knows a graph: logit 2 for implied answers, else -1."""

    name = "Stand-in"

    def __init__(self, graph: Graph) -> None:
        super().__init__()
        self.num_entities = graph.num_entities
        self.facts = SymbolicReasoner(graph.index(), graph.num_entities)

    def check(self, plan: Plan) -> None:
        """Refuse negation."""
        if plan.has(Complement):
            raise PlanError("Stand-in has no complement; ask without negation, or another model")

    def logits(self, plan: Plan, entities: torch.Tensor, relations: torch.Tensor) -> torch.Tensor:
        """2 or -1."""
        return torch.where(self.facts.scores(plan, entities, relations) == 0, 2.0, -1.0)


@dataclass(frozen=True)
class EncodedAtlas(Atlas):
    """The atlas with an encoder that also knows the facts the graph does not have."""

    search: str = "encoder"

    def engine(self, group: ServiceGroup = ALONE) -> Engine:
        """Return the engine that a worker opens."""
        settings = EngineSettings(search=self.search)
        encoder = StandIn(self.whole()).reasoner(trained="q2b, recipe lean, 7 steps, 0.1 minutes")
        return Engine(self.graph(), super().engine().scorer, settings, encoder=encoder)

    def renewed(self) -> EncodedAtlas:
        """The same, since it never changes."""
        return self


EUROPE = Made(europe)
MARKUP = Made(wicked)
RULED = Ruled(europe, ("borders", "speaks"))
RULED_MARKUP = Ruled(wicked, (SCRIPT, "<b>bold</b>"))
