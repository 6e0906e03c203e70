"""Schemas of replies about a graph: its names, example questions, and the facts of an entity."""

from __future__ import annotations

from tacit.server.schemas import Evidence, EvidenceFact, Schema


class Match(Schema):
    """A label that completes what was typed."""

    label: str
    name: str
    """What people call it; the label where it has no name."""
    text: str
    """What a question writes: the name, or the label where others have that name, too."""
    words: str = ""
    """What a sentence calls a relation."""


class MatchesReply(Schema):
    """Labels that complete what was typed, the shortest first."""

    matches: list[Match]


class Example(Schema):
    """A question that the loaded graph can answer."""

    query: str
    shape: str
    """The name of its structure in the BetaE benchmarks; `2ia` compares a value."""
    title: str
    """The question as a sentence."""


class ExamplesReply(Schema):
    """Questions to start with."""

    examples: list[Example]


class RelatedRow(Schema):
    """The other end of a fact about an entity."""

    entity: str
    """Its label."""
    name: str
    """What people call it; the label where it has no name."""
    score: float
    """The fact's score, in [0, 1]."""
    evidence: list[Evidence] | None = None
    """The rule that speaks for a predicted fact best; only where it was asked for."""
    analogies: list[EvidenceFact] | None = None
    """The most similar known facts of the relation, where no rule speaks for it."""


class RelativesRow(Schema):
    """The facts about an entity by one relation in one direction."""

    relation: str
    """The relation as a question writes it: `speaks^-1` leads to who speaks."""
    name: str
    """What people call the relation, whatever the direction."""
    inverse: bool
    """Whether the entity is the object of these facts."""
    count: int
    """How many facts there are."""
    facts: list[RelatedRow]
    """Some of them: known ones by name, predicted ones by score."""


class EntityReply(Schema):
    """Facts about an entity, by relation and direction."""

    entity: str
    """Its label."""
    name: str
    """What people call it; the label where it has no name."""
    known: bool
    """Whether these are known facts; otherwise they are predicted."""
    relations: list[RelativesRow]
    next: str | None
    """The relation to go on with, as `start`; null where all were looked at."""
