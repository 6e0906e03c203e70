"""Reads questions about a graph back in words, as an outline and as SPARQL."""

from __future__ import annotations

from contextlib import suppress
from dataclasses import replace
from functools import cache, partial
from typing import Any

from tacit.errors import QueryError, UnknownName
from tacit.graph.attributes import Attribute
from tacit.graph.graph import Graph
from tacit.graph.statistics import is_symmetric
from tacit.query.attribute_words import AttributeWords
from tacit.query.comparison import value_columns
from tacit.query.formula import Query
from tacit.query.outline import (
    Conditions,
    Part,
    Statement,
    ValueCondition,
    outline,
    with_statements,
)
from tacit.query.question import one_formula, parse_question
from tacit.query.sparql.writer import to_sparql
from tacit.query.value_binding import bind_values
from tacit.query.value_words import shown_values
from tacit.query.wording import in_words, sentence


class QuestionReader:
    """Describes questions about a graph in words."""

    def __init__(self, graph: Graph) -> None:
        self.graph = graph
        self.attributes = AttributeWords(graph)
        self._is_symmetric = cache(partial(is_symmetric, graph))

    def describe(self, text: str) -> dict[str, Any]:
        """A question as text, outline, sentence and SPARQL; None for those it lacks."""
        parsed = one_formula(parse_question(text, self.graph))
        query = parsed.query
        with suppress(QueryError, UnknownName):
            query = bind_values(query, self.graph)
        data: dict[str, Any] = {
            "query": str(parsed.query),
            "outline": None,
            "undrawable": None,
            "sentence": None,
            "sparql": None,
        }
        # no formula restricts a target to some entities
        if parsed.among is not None:
            return data | {"undrawable": "VALUES names what may answer it", "sparql": text}
        if (values := value_columns(query)) and not query.targets:
            value = next(iter(values.values()))
            words = self._attribute_words(value.attribute)
            data["sentence"] = f"What is the {words} of {self._name(value.term.name)}?"
        try:
            group = with_statements(outline(query), self._forward)
            data["sentence"] = self.sentence(group, query)
            data["outline"] = self._as_data(group) | self._shown(query)
        except QueryError as error:
            data["undrawable"] = str(error)
        with suppress(QueryError):
            data["sparql"] = to_sparql(query, self.graph.prefixes)
        return data

    def sentence(self, group: Conditions, query: Query | None = None) -> str:
        """Conditions as a sentence, with the values that a query shows and orders by.

        A symmetric relation is read the shorter way.
        """
        conditions = sentence(with_statements(group, self._with_names))
        if query is None or not (query.values or query.order):
            return conditions
        columns = [self._worded(value.attribute) for value in query.values.values()]
        order = [(self._worded(each.value.attribute), each.descending) for each in query.order]
        return f"{conditions.removesuffix('?')}{shown_values(columns, order)}?"

    def _forward(self, step: Statement | ValueCondition) -> Statement | ValueCondition:
        """Rewrites a statement by the forward relation, which may have an inverse label."""
        if isinstance(step, ValueCondition):
            return step
        relations = self.graph.relations
        i = relations.get(step.relation) or 0
        return replace(step, relation=relations[i ^ 1], inverse=not step.inverse) if i % 2 else step

    def _with_names(self, step: Statement | ValueCondition) -> Statement | ValueCondition:
        """A statement with the readable name of its relation or attribute, where unambiguous."""
        if isinstance(step, ValueCondition):
            return self._value_with_names(step)
        relations = self.graph.relations
        i = relations.get(step.relation)
        other = self._name(step.other) if isinstance(step.other, str) else step.other
        if i is None:
            return replace(step, other=other)
        name = relations.name(i)
        if relations.resolve(name) != [i]:
            name = step.relation
        return Statement(name, other, step.inverse and not self._is_symmetric(i), step.denied)

    def _value_with_names(self, step: ValueCondition) -> ValueCondition:
        """A comparison with readable names, and the kind of its values."""
        other = step.other
        if other is not None:
            entity = None if other.entity is None else self._name(other.entity)
            name = self.attributes.name(other.attribute)
            other = replace(other, attribute=name, entity=entity)
        kind = self._attribute(step.attribute).kind
        return replace(step, attribute=self.attributes.name(step.attribute), other=other, kind=kind)

    def _as_data(self, part: Part) -> dict[str, Any]:
        """An outline as plain data, with readable names."""
        if isinstance(part, Conditions):
            return {
                "join": part.join,
                "not": part.denied,
                "parts": [self._as_data(each) for each in part.parts],
            }
        if isinstance(part, ValueCondition):
            return self._value_data(part)
        if not part.relation:
            raise QueryError(f"it says what is not '{part.other}' ('!='), which takes no relation")
        i = self.graph.relations.get(part.relation)
        step = {
            "relation": part.relation,
            "words": in_words(part.relation if i is None else self.graph.relations.name(i)),
            "inverse": part.inverse,
            "not": part.denied,
        }
        if isinstance(part.other, Conditions):
            return step | {"of": self._as_data(part.other)}
        return step | {"entity": part.other, "name": self._name(part.other)}

    def _value_data(self, part: ValueCondition) -> dict[str, Any]:
        """A comparison as plain data; its literals are those of the text, without units."""
        data = self._attribute_data(part.attribute) | {
            "operator": part.operator,
            "literals": [str(quantity) for quantity in part.literals],
            "not": part.denied,
        }
        if (other := part.other) is None:
            return data
        owner = (
            {}
            if other.entity is None
            else {"entity": other.entity, "name": self._name(other.entity)}
        )
        return data | {
            "than": self._attribute_data(other.attribute) | owner | {"outer": other.outer}
        }

    def _shown(self, query: Query) -> dict[str, Any]:
        """The values that answers show, and those that they are ordered by, as plain data."""
        return {
            "columns": [
                self._attribute_data(value.attribute) | {"variable": name}
                for name, value in query.values.items()
            ],
            "order": [
                self._attribute_data(each.value.attribute) | {"descending": each.descending}
                for each in query.order
            ],
        }

    def _attribute_data(self, label: str) -> dict[str, Any]:
        """An attribute by its label and words, with its kind, unit and range where it is known."""
        if label not in self.attributes.names:
            return {"attribute": label, "words": in_words(label)}
        row = self.attributes.describe(label)
        return {"attribute": label} | {
            name: row[name] for name in ("words", "kind", "unit", "range")
        }

    def _attribute(self, label: str) -> Attribute:
        """An attribute by its label; one that the graph lacks counts as a number."""
        attributes = self.graph.attributes
        i = attributes.names.get(label)
        return Attribute(label) if i is None else attributes.listed[i]

    def _worded(self, label: str) -> Attribute:
        """An attribute with its words for a name."""
        return replace(self._attribute(label), name=self._attribute_words(label))

    def _attribute_words(self, label: str) -> str:
        return in_words(self.attributes.name(label))

    def _name(self, entity: str) -> str:
        i = self.graph.entities.get(entity)
        return entity if i is None else self.graph.entities.name(i)
