"""Values of attributes in SPARQL: against Oxigraph, and as formulas of the text syntax."""

from __future__ import annotations

import os
from collections import Counter
from dataclasses import replace
from random import Random

import pytest
from hypothesis import Phase, given, settings
from hypothesis import strategies as st

from tacit.engine.engine import Engine
from tacit.graph.attributes import Attribute, Attributes
from tacit.graph.graph import Graph
from tacit.graph.quantities import Quantity
from tacit.query.question import ParsedQuestion
from tacit.query.sparql.sparql import parse_sparql
from tacit.query.sparql.table_query import TableQuery
from tacit.query.text import parse
from tacit.query.value_binding import bind_values
from tacit.server.sparql_results import results

pytest.importorskip("rdflib")
oxigraph = pytest.importorskip("pyoxigraph")

TIMES = int(os.environ.get("TACIT_FUZZ", "80"))
XSD = "http://www.w3.org/2001/XMLSchema#"
PREFIX = f"PREFIX : <tacit:>\nPREFIX xsd: <{XSD}>\nPREFIX answer: <tacit:answer#>\n"
# of each attribute the literals that its values and the filters on it are drawn from, in order
ATTRIBUTES = {
    "size": ("number", "integer", ["-5", "0", "3", "7", "12"]),
    "rate": ("number", "double", ["-1.5", "0.25", "3.5", "7.5"]),
    "born": ("date", "date", ["-0044-03-15", "1815-12-10", "1815-12-11", "2000-02-29"]),
    "year": ("date", "gYear", ["-0044", "0800", "1815", "1816", "2000"]),
}
KINDS = [Attribute(name, kind) for name, (kind, *_) in ATTRIBUTES.items()]  # type: ignore[arg-type]
OPERATORS = ["<", "<=", ">", ">=", "=", "!="]
Rows = Counter[tuple[tuple[str, str], ...]]


def random_graph(rng: Random) -> Graph:
    """Up to five entities; of some attributes, some have several values and some have none."""
    entities = [f"e{i}" for i in range(rng.randrange(3, 6))]
    facts = [(s, r, o) for s in entities for r in "pq" for o in entities if rng.random() < 0.3]
    facts += [("e0", r, "e1") for r in "pq"]
    facts += [(e, "p", "e0") for e in entities]
    graph = Graph.of(dict.fromkeys(facts))
    rows = []
    for i, (kind, _, texts) in enumerate(ATTRIBUTES.values()):
        most = rng.choice([1, 1, 2])
        for entity in entities:
            for text in rng.sample(texts, rng.randrange(most + 1)):
                quantity = Quantity.parse(text, kind)  # type: ignore[arg-type]
                assert quantity is not None
                rows.append((graph.entities.id(entity), i, quantity, 0))
    return replace(graph, attributes=Attributes.of(KINDS, rows))


def store_of(graph: Graph) -> oxigraph.Store:
    """The same facts and values, as triples."""
    store = oxigraph.Store()
    iri = lambda label: oxigraph.NamedNode(f"tacit:{label}")  # noqa: E731
    for s, r, o in graph.facts().tolist():
        terms = graph.entities[s], graph.relations[r], graph.entities[o]
        store.add(oxigraph.Quad(*map(iri, terms)))
    for i, (name, (_, datatype, _)) in enumerate(ATTRIBUTES.items()):
        for entity, text in graph.attributes.texts(i):
            literal = oxigraph.Literal(text, datatype=oxigraph.NamedNode(XSD + datatype))
            store.add(oxigraph.Quad(iri(graph.entities[entity]), iri(name), literal))
    labelled = oxigraph.NamedNode("http://www.w3.org/2000/01/rdf-schema#label")
    for label in (*graph.entities, *graph.relations[0::2], *ATTRIBUTES):
        store.add(oxigraph.Quad(iri(label), labelled, oxigraph.Literal(label)))
    return store


def expected(store: oxigraph.Store, text: str) -> Rows | bool:
    found = store.query(text)
    if isinstance(found, oxigraph.QueryBoolean):
        return bool(found)
    names = [variable.value for variable in found.variables]
    rows = [dict(zip(names, row, strict=True)) for row in found]
    return Counter(
        tuple(sorted((name, term.value) for name, term in row.items() if term)) for row in rows
    )


def answered(engine: Engine, text: str) -> Rows | bool:
    question = engine.read(text)
    found = results(engine.graph, question, engine.ask(text, top=None))
    if "boolean" in found:
        return bool(found["boolean"])
    return Counter(
        tuple(sorted((name, cell["value"]) for name, cell in row.items()))
        for row in found["results"]["bindings"]
    )


class Patterns:
    """Random patterns of values, with filters, in groups of all kinds."""

    def __init__(self, rng: Random) -> None:
        self.rng = rng
        self.attribute_of = {name: rng.choice([*ATTRIBUTES]) for name in "vw"}
        if rng.random() < 0.6:  # so that the two can be compared
            self.attribute_of["w"] = self.attribute_of["v"]

    def query(self) -> str:
        form = self.rng.choice(
            ["SELECT ?x", "SELECT ?x", "SELECT ?x ?v", "SELECT ?x ?v", "SELECT ?x ?y ?v ?w",
             "SELECT *", "SELECT ?v", "ASK", "SELECT (COUNT(*) AS ?n)",
             "SELECT (COUNT(DISTINCT ?x) AS ?n)"]
        )  # fmt: skip
        form = form.replace("SELECT ?", "SELECT DISTINCT ?").replace(
            "SELECT *", "SELECT DISTINCT *"
        )
        parts = self.outermost()
        if " ?w ." not in " ".join(parts):
            form = form.replace(" ?w", "")
        if " ?y ." not in " ".join(parts):
            form = form.replace(" ?y", "")
        if "*" not in form and self.rng.random() < 0.3:
            form = self.with_other_name(form, parts)
        return f"{PREFIX}{form} WHERE {{ {' '.join(parts)} }}"

    def with_other_name(self, form: str, parts: list[str]) -> str:
        """The form with another name of a variable, given there or by BIND, which is added."""
        variable = self.rng.choice(["?v", "?x"])
        if "COUNT" not in form and self.rng.random() < 0.4:
            return form.replace(variable, f"({variable} AS ?b)")
        for at, part in enumerate(parts):
            if at > 1 and "{" not in part and self.rng.random() < 0.7:
                parts[at] = part.replace(variable, "?b")
        parts.insert(2, f"BIND({variable} AS ?b)")
        return form.replace(variable, "?b") if self.rng.random() < 0.8 else form

    def outermost(self) -> list[str]:
        subject = self.rng.choices(["?x", ":e0"], [8, 1])[0]
        parts = ["?x :p ?y ."] if self.rng.random() < 0.7 else ["?x :p :e0 ."]
        parts.append(f"{subject} {self.path()}:{self.attribute_of['v']} ?v .")
        names = "v"
        if self.rng.random() < 0.5:
            parts.append(f"{self.rng.choice(['?x', '?y'])} :{self.attribute_of['w']} ?w .")
            names = "vw"
        filters = range(self.rng.choice([0, 1, 1, 2]))
        parts += [f"FILTER({self.condition(names, 2)})" for _ in filters]
        if self.rng.random() < 0.3:
            parts.append(self.group())
        return parts

    def path(self) -> str:
        return self.rng.choices(["", ":q/", "^:q/", ":p/:q/"], [8, 1, 1, 1])[0]

    def group(self) -> str:
        name = self.rng.choice([*ATTRIBUTES])
        value = self.rng.choice(["z", "z", "z", "v"])
        self.attribute_of["z"] = name
        inside = f"?x :{name} ?{value} FILTER({self.condition('z', 1)})"
        if value == "v":
            inside = f"?x :{name} ?v"
        other = self.rng.choice(["?x :q ?u", f"?x :{self.rng.choice([*ATTRIBUTES])} ?u"])
        return self.rng.choice(
            [
                f"FILTER NOT EXISTS {{ {inside} }}",
                f"FILTER EXISTS {{ {inside} }}",
                f"MINUS {{ {inside} }}",
                f"OPTIONAL {{ {inside} }}",
                f"{{ {inside} }} UNION {{ {other} }}",
                "VALUES ?x { :e0 :e2 :nobody }",
                f"?x :{name} {self.literal(name)} .",
                "?x ?r ?o .",
            ]
        )

    def literal(self, attribute: str) -> str:
        _, datatype, texts = ATTRIBUTES[attribute]
        text = self.rng.choice(texts)
        bare = datatype == "integer" and self.rng.random() < 0.5
        return text if bare else f'"{text}"^^xsd:{datatype}'

    def condition(self, names: str, depth: int) -> str:
        kind = self.rng.random()
        if depth and kind < 0.2:
            return f"!({self.condition(names, depth - 1)})"
        if depth and kind < 0.5:
            sides = [self.condition(names, depth - 1) for _ in range(2)]
            return f"({sides[0]}) {self.rng.choice(['&&', '||'])} ({sides[1]})"
        name = self.rng.choice(names)
        attribute = self.attribute_of[name]
        if kind < 0.6:
            listed = ", ".join(self.literal(attribute) for _ in range(self.rng.randrange(1, 4)))
            return f"?{name} {self.rng.choice(['IN', 'NOT IN'])} ({listed})"
        operator = self.rng.choice(OPERATORS)
        if "w" in names and kind < 0.75 and self.attribute_of["v"] == self.attribute_of["w"]:
            return f"?v {operator} ?w"
        sides = [f"?{name}", self.literal(attribute)]
        self.rng.shuffle(sides)
        return f"{sides[0]} {operator} {sides[1]}"


@pytest.mark.parametrize("operator", OPERATORS)
def test_dates_of_other_precisions_stand_for_their_periods(operator: str) -> None:
    """A formula and a table agree with the ends of periods, which Oxigraph does not compare."""
    stored = ["1949", "1950", "1950-06", "1950-06-30", "1950-07", "1951"]
    facts = [(text, "p", text) for text in stored]
    quantities = [Quantity.parse(text, "date") for text in stored]
    graph = Graph.of(facts)
    rows = [
        (graph.entities.id(text), 0, quantity, 0)
        for text, quantity in zip(stored, quantities, strict=True)
        if quantity is not None
    ]
    values = Attributes.of([Attribute("born", "date")], rows)
    engine = Engine.of_facts(replace(graph, attributes=values))
    starts = [1949.0, 1950.0, 1950.5, 1950.583, 1950.6, 1951.0]  # years, as far as they tell
    for literal, low, high in [
        ('"1950"^^xsd:gYear', 1950.0, 1950.999),
        ('"1950-06"^^xsd:gYearMonth', 1950.5, 1950.599),
        ('"1950-06-30"^^xsd:date', 1950.583, 1950.583),
    ]:
        passes = {
            "<": lambda year, low=low: year < low, ">": lambda year, high=high: year > high,
            "<=": lambda year, high=high: year <= high, ">=": lambda year, low=low: year >= low,
            "=": lambda year, low=low, high=high: low <= year <= high,
            "!=": lambda year, low=low, high=high: not low <= year <= high,
        }[operator]  # fmt: skip
        truth = {text for text, year in zip(stored, starts, strict=True) if passes(year)}
        for filters in (f"?d {operator} {literal}", f"BOUND(?d) && ?d {operator} {literal}"):
            text = f"{PREFIX} SELECT ?x {{ ?x :born ?d FILTER({filters}) }}"
            assert isinstance(engine.read(text), TableQuery) == ("BOUND" in filters)
            assert {answer.entity for answer in engine.ask(text, top=None)} == truth, text


def test_known_values_are_compared_as_oxigraph_does() -> None:
    """Of queries that are formulas or tables; each is of one kind by the graph's values alone."""
    tally = Counter[str]()

    @given(st.randoms(use_true_random=True))
    @settings(max_examples=TIMES, deadline=None, phases=[Phase.generate])
    def compare(rng: Random) -> None:
        graph = random_graph(rng)
        text = Patterns(rng).query()
        question = parse_sparql(text, graph)
        truth = expected(store_of(graph), text)
        found = answered(Engine.of_facts(graph), text)
        context = text, graph.facts().tolist(), [*map(graph.attributes.texts, range(4))]
        assert found == truth, context
        tally["table" if isinstance(question, TableQuery) else "formula"] += 1
        tally["telling"] += bool(truth)
        tally["named"] += bool(truth) and "AS ?b" in text
        if isinstance(question, ParsedQuestion) and "nobody" not in text:
            read = bind_values(parse(str(question.query)), graph)
            assert read == bind_values(question.query, graph)

    compare()
    assert tally["formula"] > 0.2 * TIMES, tally
    assert tally["table"] > 0.2 * TIMES, tally
    assert tally["telling"] > 0.4 * TIMES, tally
    assert tally["named"] > 0.05 * TIMES, tally
