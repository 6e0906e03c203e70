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
from tacit.graph.attributes import Attribute, Attributes
from tacit.graph.graph import Graph, no_triples
from tacit.graph.quantities import Quantity
from tacit.links.rules.rule_scorer import RuleScorer
from tacit.links.rules.rule_set import Rule, RuleSet
from tacit.links.scorer import GraphScorer
from tacit.links.values.predictor import PredictedValue, ValuePredictor
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


POPULATIONS = {"France": 68e6, "Spain": 48e6, "Portugal": 10.5e6, "Italy": 59e6, "Germany": 84e6}
FOUNDED = {"France": "0843", "Portugal": "1143-10-05", "Germany": "1871-01-18"}
LARGEST = 1.5e308


def measured() -> Graph:
    """Europe with populations, areas and dates, one label that is markup, and a huge number."""
    graph = europe()
    listed = [
        Attribute("population"),
        Attribute("area", unit="km²"),
        Attribute("founded", "date"),
        Attribute(WICKED),
    ]
    ids = graph.entities.id
    values = [(ids(country), 0, Quantity(value), 0) for country, value in POPULATIONS.items()]
    values += [
        (ids("France"), 1, Quantity(551_695.0), 0),
        (ids("France"), 1, Quantity(643_801.0), 0),
    ]
    for country, text in FOUNDED.items():
        date = Quantity.parse(text, "date")
        assert date is not None
        values.append((ids(country), 2, date, 0))
    values += [(ids("Spain"), 3, Quantity(LARGEST), 0), (ids("Italy"), 3, Quantity(-LARGEST), 0)]
    return replace(graph, attributes=Attributes.of(listed, values), name="measured")


class Guesses(ValuePredictor):
    """Predicts of every country a population of 38 million, evenly from 28 to 48 million."""

    def __init__(self, graph: Graph) -> None:
        countries = {country for pair in BORDERS for country in pair}
        self.countries = torch.tensor([label in countries for label in graph.entities])

    def probability(self, attribute: int, low: float, high: float) -> torch.Tensor:
        """The share of the range, of countries alone."""
        share = (min(high, 48e6) - max(low, 28e6)) / 20e6
        return self.countries * (max(0.0, share) * (attribute == 0))

    def difference(
        self, left: int, right: int, sources: torch.Tensor, low: float, high: float
    ) -> torch.Tensor:
        """Even chances."""
        return torch.full((len(sources), len(self.countries)), 0.5)

    def predicted(self, attribute: int, entity: int, level: float = 0.8) -> PredictedValue | None:
        """The same for every country."""
        presence = float(self.countries[entity])
        return PredictedValue(38e6, 30e6, 46e6, level, presence) if attribute == 0 else None


@dataclass(frozen=True)
class Measured(Made):
    """A graph with numbers, and an engine that predicts some of them."""

    def engine(self, group: ServiceGroup = ALONE) -> Engine:
        """What a worker opens."""
        graph = self.graph()
        return Engine(graph, TroubledScorer(graph), calibration="sigmoid", values=Guesses(graph))


EUROPE = Made(europe)
MARKUP = Made(wicked)
RULED = Ruled(europe, ("borders", "speaks"))
RULED_MARKUP = Ruled(wicked, (SCRIPT, "<b>bold</b>"))
MEASURED = Measured(measured)
