"""The arguments of the tools; what a tool asks of a run is what the HTTP service takes."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import ConfigDict, Field

from tacit.query.text import MAX_CHARACTERS
from tacit.server import schemas
from tacit.server.fact_routes import AddedFactsRequest, FactsRequest

Label = Annotated[str, Field(min_length=1, max_length=MAX_CHARACTERS)]
RunName = Annotated[
    str | None, Field(max_length=255, description="The run to ask; the first one by default.")
]
RelationName = Annotated[
    str | None,
    Field(max_length=MAX_CHARACTERS, description="Only this relation, as a question writes it."),
]


class Arguments(schemas.Schema):
    """Arguments of a tool; others than these are refused."""

    model_config = ConfigDict(extra="forbid", strict=True)

    run: RunName = None


class DescribeGraph(Arguments):
    """Which relations to describe."""

    search: str = Field(
        "",
        max_length=200,
        description="Only relations and attributes whose label or words contain this.",
    )
    limit: int = Field(50, ge=1, le=200, description="Relations, and attributes, at most.")
    offset: int = Field(0, ge=0, le=2**31, description="How many of each to pass over first.")


class FindEntities(Arguments):
    """What an entity is called, or begins with."""

    text: str = Field(
        min_length=1, max_length=200, description="A name, or the beginning of one of its words."
    )
    relation: RelationName = None
    """Entities at an end of this relation's facts come first."""
    end: Literal["subject", "object"] = "object"
    """The end of the relation that is meant."""
    limit: int = Field(10, ge=1, le=50, description="Entities, at most.")


class Ask(schemas.AskRequest):
    """A question, and how many answers to list."""

    top: int = Field(10, ge=1, le=100, description="Answers wanted, at most.")
    run: RunName = None


class Explain(schemas.ExplainRequest):
    """A question, and for how many answers to give reasons."""

    top: int = Field(3, ge=1, le=20, description="Answers wanted, at most.")
    paths: int = Field(1, ge=1, le=3, description="Reasons wanted for each answer, at most.")
    run: RunName = None


class Score(Arguments):
    """One fact, true or not."""

    subject: Label
    """The entity that the relation is said of."""
    relation: Label
    """The relation; with ^-1 it is read from its object to its subject."""
    object: Label
    """The entity at the other end."""


class Complete(Arguments):
    """Where facts may be missing: of a relation, of an entity, or of both."""

    relation: RelationName = None
    entity: str | None = Field(
        None, max_length=MAX_CHARACTERS, description="Only facts about this entity."
    )
    min_score: float = Field(0.5, ge=0.05, le=1.0, description="The least score of a fact.")
    top: int = Field(10, ge=1, le=50, description="Facts wanted, at most.")


class EntityFacts(Arguments):
    """An entity, and which of its known facts to list."""

    entity: Label
    """Its label or name."""
    relation: str | None = Field(
        None,
        max_length=MAX_CHARACTERS,
        description="One relation alone: `speaks^-1` for the entities that speak it.",
    )
    limit: int = Field(10, ge=1, le=100, description="Facts of each relation, at most.")
    offset: int = Field(0, ge=0, le=2**31, description="Facts of each relation to pass over.")


class Values(Arguments):
    """An entity whose numbers and dates are wanted."""

    entity: Label
    """Its label or name."""
    attribute: str | None = Field(
        None, max_length=MAX_CHARACTERS, description="Only this attribute, known or not."
    )


class Rules(Arguments):
    """Which rules to list."""

    relation: RelationName = None
    written: bool = False
    """Only rules that a person wrote."""
    limit: int = Field(10, ge=1, le=50, description="Rules, at most.")
    offset: int = Field(0, ge=0, le=2**31, description="Rules to pass over first.")
    examples: int = Field(
        0, ge=0, le=5, description="Facts that each is right about, and pairs that it is not."
    )


class AddFacts(AddedFactsRequest):
    """Facts to add."""

    run: RunName = None


class RemoveFacts(FactsRequest):
    """Facts to remove."""

    run: RunName = None
