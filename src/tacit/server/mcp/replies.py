"""What the tools reply: the HTTP service's replies with the fields that an agent reads.

Each is read from the JSON of a worker, whose other fields are dropped.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Annotated, Any, Literal, Self

from pydantic import Field, PlainSerializer, model_validator

from tacit.server.schemas import CountReply, Schema, Statement

# four digits say all that a score can
Score = Annotated[float, PlainSerializer(lambda score: float(f"{score:.4g}"), return_type=float)]


class End(Schema):
    """The entities at one end of a relation's facts."""

    count: int
    """How many different ones there are."""
    examples: list[str]
    """The most frequent, as a question writes them."""
    types: list[str]
    """Their most frequent types; empty where the graph does not say any."""


class Relation(Schema):
    """A relation of the graph."""

    relation: str
    """As a question writes it."""
    words: str
    facts: int
    """How many facts are known."""
    subjects: End
    """Its domain."""
    objects: End
    """Its range."""
    symmetric: bool
    """Whether nearly all facts hold the other way round, too."""
    example: str
    """A known fact, as a question writes it."""


class Attribute(Schema):
    """Numbers, dates or durations of entities."""

    attribute: str = Field(validation_alias="text")
    """As a question writes it: `population(?x) > 1000`."""
    words: str
    kind: Literal["number", "date", "duration"]
    unit: str
    values: int
    """How many values are known."""
    range: str
    """The lowest and the highest."""


class GraphReply(Schema):
    """The graph of a run, and its relations, the most frequent first."""

    run: str
    runs: list[str]
    """All runs that can be asked, by the argument `run`."""
    graph: str
    entities: int
    facts: int
    matching: int
    """How many relations match; those of the graph, where nothing was searched for."""
    relations: list[Relation]
    attributes: list[Attribute]
    """Numbers and dates of entities, which questions compare."""


class Match(Schema):
    """An entity that a name may mean."""

    entity: str = Field(validation_alias="label")
    """Its label, which is unique."""
    name: str
    text: str
    """As a question writes it."""


class MatchesReply(Schema):
    """Entities, those first whose name begins as was asked."""

    matches: list[Match]
    exact: bool
    """Whether they match; otherwise nothing does, and these are spelt most alike."""


class Fact(Schema):
    """A known fact, by labels."""

    subject: str = Field(validation_alias="subject_label")
    relation: str = Field(validation_alias="relation_label")
    object: str = Field(validation_alias="object_label")


class Grounding(Schema):
    """Known facts for which the body of a rule holds."""

    text: str
    """The facts in words."""
    facts: list[Fact]


class Rule(Schema):
    """A rule that was mined from the graph, or written by a person."""

    id: int
    words: str
    formula: str
    confidence: float
    support: int
    """For how many groundings what the rule says is a fact."""
    groundings: int
    written: bool
    """Whether a person wrote it."""


class Evidence(Schema):
    """A rule that speaks for a prediction, and the known facts that it rests on here."""

    text: str
    rule: Rule
    groundings: list[Grounding] = Field(validation_alias="paths")
    more: int
    """How many further groundings there are."""


class Value(Schema):
    """The value of an attribute of an entity."""

    attribute: str
    text: str
    """With its unit; of a prediction, with its interval."""
    value: float | str | None = None
    """A number, or a date as ISO 8601 writes it. Of a prediction, the median."""
    unit: str = ""
    known: bool = False
    """Whether the graph has it; otherwise it is predicted, and may be wrong."""
    low: float | str | None = None
    """The ends of the interval of a prediction."""
    high: float | str | None = None
    level: float | None = None
    """The share of true values that lie in such intervals."""
    presence: float | None = None
    """How probable it is that there is a value at all."""


class ValueReason(Schema):
    """Known values that a prediction was made of."""

    text: str
    share: Score
    """How much of the prediction they carry."""


class EntityValue(Value):
    """A value with its evidence."""

    evidence: list[ValueReason] = Field(default_factory=list)
    """What a prediction was made of, the largest share first."""


class ValuesReply(Schema):
    """The numbers and dates of an entity, known ones first."""

    entity: str
    name: str
    values: list[EntityValue]
    whole: bool
    """Whether all attributes were looked at; otherwise time ran out."""


class Comparison(Schema):
    """A comparison of values in a reason."""

    text: str
    """With the values, known or predicted."""
    score: Score
    known: bool
    """Whether the values are known; otherwise they are predicted."""
    negated: bool


class ReasonAtom(Schema):
    """One atom of a reason."""

    subject: str
    relation: str
    object: str
    subject_label: str = ""
    object_label: str = ""
    score: Score
    known: bool = Field(validation_alias="observed")
    """Whether the graph has it; otherwise it is predicted."""
    negated: bool
    """Whether the question denies it, so that a low score speaks for the answer."""
    statements: list[Statement] | None = None
    """Where a known fact comes from, and when it holds."""
    evidence: list[Evidence] | None = None
    """The rules that speak for it, best first; absent of what is known, and without rules."""
    analogies: list[Fact] | None = None
    """The most similar known facts, where no rule speaks for it."""


class Reason(Schema):
    """The atoms that make an answer true."""

    score: Score
    known: bool
    """Whether it rests on known facts."""
    variables: dict[str, str] = Field({}, validation_alias="labels")
    """The label of the entity that each variable stands for."""
    atoms: list[ReasonAtom]
    comparisons: list[Comparison] | None = None
    """What values of attributes say."""

    @model_validator(mode="before")
    @classmethod
    def collect_comparisons(cls, data: Any) -> Any:
        """Collect the comparisons from the tree of a witness."""
        found = list(_comparisons(data.get("tree") or {})) if isinstance(data, dict) else []
        return data | {"comparisons": found} if found else data


def _comparisons(part: dict[str, Any]) -> Iterator[dict[str, Any]]:
    """The comparisons of a part of a witness, from left to right."""
    if (own := part.get("comparison")) is not None:
        yield own | {"text": part["text"], "known": own["observed"]}
    for each in part.get("parts", ()):
        yield from _comparisons(each)


class Answer(Schema):
    """One answer to a question."""

    rank: int
    entity: str | None = None
    """Its label; absent unless one variable is asked for."""
    name: str | None = None
    values: dict[str, str] | None = None
    """The label of each variable, where several are asked for."""
    names: dict[str, str] | None = None
    quantities: dict[str, Value | None] | None = None
    """The values of attributes that are asked for or ordered by."""
    score: Score
    """From 0 to 1."""
    known: bool
    """Whether the known facts imply it; otherwise it is predicted, and may be wrong."""

    @model_validator(mode="after")
    def shorten(self) -> Self:
        """Leave out the value of the only variable, which `entity` is."""
        if self.entity is not None or not self.values:
            self.values = self.names = None
        return self


class ExplainedAnswer(Answer):
    """One answer, and why it came."""

    reasons: list[Reason] = Field(validation_alias="witnesses")


class AnswersReply(Schema):
    """The answers to a question, known and predicted ones, best first."""

    query: str
    """The question as it was understood."""
    kind: Literal["entities", "tuples", "truth", "count", "relations"]
    answers: tuple[Answer, ...]
    """Of `truth` there is one, without values, of `count` none."""
    count: CountReply | None = None
    known_total: int | None = None
    """How many answers are known, listed or not."""
    likely: int | None = None
    """How many of these answers score at least the threshold."""
    threshold: float
    """The score below which an answer is more likely wrong than right."""
    cut_by: str | None = None
    """What ended the list where others may follow: top, LIMIT or likely."""
    certified: bool | None = None
    """Whether the search provably missed nothing; absent where nobody looked."""
    uncalibrated: str | None = None
    """What to say of scores that are no probabilities."""


class ExplanationsReply(AnswersReply):
    """The answers to a question with their reasons."""

    answers: tuple[ExplainedAnswer, ...]
    explained: bool | None = None
    """False where the search has no reasons to give."""


class ScoreReply(Schema):
    """How far a fact holds."""

    score: Score
    known: bool
    """Whether the graph has or implies it; otherwise the score is a prediction."""
    reasons: list[Reason]


class MissingFact(Schema):
    """A fact that the graph does not have."""

    subject: str
    relation: str
    object: str
    subject_name: str
    object_name: str
    score: Score
    known: Literal[False] = False
    """It is predicted."""
    evidence: list[Evidence] | None = None
    """The best rule that speaks for it."""
    analogies: list[Fact] | None = None
    """The most similar known facts, where no rule speaks for it."""


class CompletionReply(Schema):
    """The most probable facts that the graph does not have, best first."""

    facts: list[MissingFact]
    cut_by: Literal["top", "time"] | None = None
    """What ended the list where others may follow."""


class OtherEnd(Schema):
    """The other end of a fact."""

    entity: str
    name: str


class Relatives(Schema):
    """The facts of an entity by one relation in one direction."""

    relation: str
    """As a question writes it: `speaks^-1` leads to who speaks."""
    count: int
    """How many facts there are."""
    facts: list[OtherEnd]


class EntityReply(Schema):
    """The known facts about an entity."""

    entity: str
    name: str
    known: Literal[True]
    relations: list[Relatives]


class ListedRule(Rule):
    """A rule of the run."""

    off: bool
    """Whether a person switched it off."""
    examples: list[Fact]
    """Train facts that it implies by others."""
    counter_examples: list[Fact]
    """What it implies and the graph does not have."""


class RulesReply(Schema):
    """Rules that predictions come from, the surest first."""

    rules: list[ListedRule]
    count: int
    """How many rules the run has."""
