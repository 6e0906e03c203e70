"""Shows how a question is understood: as outline, sentence and SPARQL."""

from __future__ import annotations

from dataclasses import replace
from functools import cache, partial
from typing import Any

from tacit.errors import QueryError
from tacit.graph.graph import Graph
from tacit.graph.statistics import is_symmetric
from tacit.query.formula import Query
from tacit.query.question import parse_question
from tacit.query.sparql.writer import to_sparql
from tacit.query.words.outline import Conditions, Statement, outline, with_statements
from tacit.query.words.wording import in_words, sentence


class QuestionReader:
    """Reads questions about a graph."""

    def __init__(self, graph: Graph) -> None:
        self.graph = graph
        self._is_symmetric = cache(partial(is_symmetric, graph))

    def told(self, text: str) -> dict[str, Any]:
        """A question as text, outline, sentence and SPARQL; None for those it lacks."""
        reading = parse_question(text, self.graph)
        query = reading.query
        data: dict[str, Any] = {
            "query": str(query),
            "outline": None,
            "undrawable": None,
            "sentence": None,
        }
        # no formula says that what is asked for is one of some entities
        if reading.among is not None:
            return data | {"undrawable": "VALUES names what may answer it", "sparql": text}
        try:
            group = with_statements(outline(query), self._forward)
            data["sentence"] = self.sentence(group)
            data["outline"] = self._as_data(group)
        except QueryError as error:
            data["undrawable"] = str(error)
        return data | {"sparql": self._sparql(query)}

    def sentence(self, group: Conditions) -> str:
        """Conditions as a sentence; a symmetric relation is read the shorter way."""
        return sentence(with_statements(group, self._with_names))

    def _forward(self, step: Statement) -> Statement:
        """Rewrites a statement by the forward relation; an inverse may read alike."""
        known = self.graph.relations.get(step.relation) or 0
        return (
            replace(step, relation=self.graph.relations[known ^ 1], inverse=not step.inverse)
            if known % 2
            else step
        )

    def _with_names(self, step: Statement) -> Statement:
        """A statement with the readable name of its relation, where unambiguous."""
        relations = self.graph.relations
        known = self.graph.relations.get(step.relation)
        other = self._name(step.other) if isinstance(step.other, str) else step.other
        if known is None:
            return replace(step, other=other)
        name = (
            relations.name(known)
            if relations.resolve(relations.name(known)) == [known]
            else step.relation
        )
        return Statement(name, other, step.inverse and not self._is_symmetric(known), step.denied)

    def _as_data(self, part: Conditions | Statement) -> dict[str, Any]:
        """An outline as plain data, with readable names."""
        if isinstance(part, Conditions):
            return {
                "join": part.join,
                "not": part.denied,
                "parts": [self._as_data(each) for each in part.parts],
            }
        if not part.relation:
            raise QueryError(f"it says what is not '{part.other}' ('!='), which takes no relation")
        known = self.graph.relations.get(part.relation)
        words = in_words(part.relation if known is None else self.graph.relations.name(known))
        step = {
            "relation": part.relation,
            "words": words,
            "inverse": part.inverse,
            "not": part.denied,
        }
        if isinstance(part.other, Conditions):
            return step | {"of": self._as_data(part.other)}
        return step | {"entity": part.other, "name": self._name(part.other)}

    def _name(self, entity: str) -> str:
        known = self.graph.entities.get(entity)
        return entity if known is None else self.graph.entities.name(known)

    def _sparql(self, query: Query) -> str | None:
        try:
            return to_sparql(query, self.graph.prefixes)
        except QueryError:
            return None
