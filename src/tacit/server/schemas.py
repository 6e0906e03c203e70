"""Schemas of requests and replies, for validation and the OpenAPI document."""

from __future__ import annotations

from typing import Annotated, Any, Literal

from pydantic import BaseModel, ConfigDict, Discriminator, Field, Tag

from tacit.engine.answers.answers import LIKELY
from tacit.engine.settings import EngineSettings
from tacit.query.text import MAX_CHARACTERS
from tacit.settings import settings_of

CHANGEABLE = ("search", "k", "logic", "observed", "new")  # engine settings that a request may bring
SETTINGS = {declared.name: declared.metadata for declared in settings_of(EngineSettings)}

QuestionText = Annotated[
    str,
    Field(
        min_length=1,
        max_length=MAX_CHARACTERS,
        description="The question, as text: the variables asked for, a colon, and a formula.",
        examples=["?c : borders(France, ?c) & !speaks(?c, German)"],
    ),
]


class ReadRequest(BaseModel):
    """A question to be read, not answered."""

    model_config = ConfigDict(extra="forbid", strict=True)

    query: QuestionText


def changed(name: str) -> Any:
    """The field of a request for an engine setting, as its declaration describes it."""
    declared = SETTINGS[name]
    choices: dict[str, Any] = {"enum": [*declared["choices"], None]} if declared["choices"] else {}
    return Field(
        None, ge=declared["least"], description=declared["help"], json_schema_extra=choices
    )


class PlanRequest(ReadRequest):
    """A question, and settings that differ from the service's own."""

    parameters: dict[str, str] = Field(
        {},
        description="The labels that $name stands for in the question.",
        examples=[{"who": "France"}],
    )
    search: str | None = changed("search")
    k: int | None = changed("k")
    logic: str | None = changed("logic")
    observed: str | None = changed("observed")
    new: bool | None = changed("new")

    @property
    def changes(self) -> tuple[tuple[str, str | int | bool], ...]:
        """The settings that were given."""
        return tuple(self.model_dump(include={*CHANGEABLE}, exclude_none=True).items())


class AskRequest(PlanRequest):
    """A question with the answers wanted."""

    top: int = Field(
        10, ge=1, description="Answers wanted, at most; unless given, no more than are allowed."
    )
    offset: int = Field(0, ge=0, description="How many of the best answers to pass over.")
    min_score: float = Field(0.0, ge=0.0, le=1.0, description="The least score of an answer.")


ONE = "question"
MANY = "questions"
AskRequests = Annotated[
    Annotated[AskRequest, Tag(ONE)] | Annotated[list[AskRequest], Field(min_length=1), Tag(MANY)],
    # so that errors are about what was sent
    Discriminator(lambda value: MANY if isinstance(value, list) else ONE),
]


class ExplainRequest(AskRequest):
    """A question with the number of answers and of reasons for each."""

    paths: int = Field(1, ge=1, description="Reasons wanted for each answer, at most.")


class ReadReply(BaseModel):
    """A question as it is understood, in other forms; null for one that it does not have."""

    query: str
    outline: dict[str, Any] | None = Field(
        description=(
            "Nested conditions on what is asked for: `join`, `not` and `parts`, each a group like "
            "this one, or a step with `relation`, its `words`, `inverse`, `not`, and an `entity` "
            "with its `name`, or a group `of` more."
        )
    )
    undrawable: str | None = Field(description="Why it has no outline.")
    sentence: str | None = Field(description="The outline in words.")
    sparql: str | None = Field(description="A SPARQL query with the same answers.")


class WitnessAtom(BaseModel):
    """One atom of a witness."""

    subject: str
    relation: str
    object: str
    score: float = Field(description="The atom's calibrated score, in [0, 1].")
    observed: bool = Field(description="Whether the graph has it; otherwise it is predicted.")
    negated: bool = Field(description="Whether it stands under a negation.")
    subject_label: str = Field("", description="The label of the subject, whose name `subject` is.")
    object_label: str = Field("", description="The label of the object, whose name `object` is.")


class WitnessPart(BaseModel):
    """A part of a reason, as the formula has it."""

    kind: Literal["atom", "inequality", "and", "or", "not", "true"]
    score: float
    carried: bool = Field(
        True, description="Whether it is the part of an `or` that carries the answer."
    )
    parts: list[WitnessPart] = []
    atom: WitnessAtom | None = None
    text: str = Field("", description="An inequality as it is written, with its entities.")
    variables: dict[str, str] = Field(
        {}, description="The entities chosen here; under a `not`, the nearest candidate."
    )


class Witness(BaseModel):
    """The entity of every variable, and the atoms that make an answer true."""

    score: float
    variables: dict[str, str] = Field(description="The names of the entities.")
    labels: dict[str, str] = Field({}, description="Their labels.")
    atoms: list[WitnessAtom]
    facts: int = Field(0, description="How many atoms there are.")
    predicted: int = Field(0, description="How many of them are predicted.")
    known: bool = Field(
        False,
        description=(
            "Whether it rests on known facts: what is predicted is denied, or carries nothing."
        ),
    )
    tree: WitnessPart | None = Field(None, description="The atoms as the formula joins them.")


class AnswerRow(BaseModel):
    """One answer to a question."""

    rank: int
    entity: str | None = Field(
        None, description="Its label; absent unless one variable is asked for."
    )
    name: str | None = Field(
        None, description="What people call it; the label where it has no name."
    )
    values: dict[str, str] = Field({}, description="The label of each variable that is asked for.")
    names: dict[str, str] = Field({}, description="What people call them.")
    score: float = Field(description="In [0, 1].")
    log_score: float | None
    known: bool = Field(
        description="Whether the graph alone implies it; otherwise it is predicted."
    )
    witnesses: list[Witness] = Field(
        default=[], description="The reasons, best first; only where they were asked for."
    )


class CountReply(BaseModel):
    """How many answers there are."""

    known: int = Field(description="Those that the known facts imply.")
    expected: float = Field(
        description="How many there are by their scores, what is known counted whole."
    )


class QuestionReply(BaseModel):
    """A question as it was understood, and what its scores mean."""

    query: str = Field(description="The question as it was understood.")
    kind: Literal["entities", "tuples", "truth", "count", "relations"] = Field(
        "entities",
        description=(
            "What the answers are; of `truth` there is one, without values, of `count` none."
        ),
    )
    variables: list[str] = Field(
        [], description="The variables that are asked for, without question marks."
    )
    count: CountReply | None = Field(None, description="Only where `kind` is `count`.")
    offset: int = Field(0, description="How many better answers were passed over.")
    likely: int | None = Field(
        0,
        description=(
            "How many of these answers score at least the threshold; null where scores are no "
            "probabilities."
        ),
    )
    uncalibrated: str | None = Field(
        None, description="What to say of scores that are no probabilities."
    )
    threshold: float = Field(
        LIKELY, description="The score below which an answer is more likely wrong than right."
    )


class AnswersReply(QuestionReply):
    """The best answers, best first."""

    certified: bool | None = Field(
        description="Whether the search provably missed nothing; null where none can tell."
    )
    proven: int | None = Field(
        None,
        description=(
            "How many of the first answers are proven, with order and scores; null where none can "
            "tell."
        ),
    )
    explained: bool | None = Field(
        None, description="Whether the search gives reasons; null where nobody asked."
    )
    cut_by: Literal["top", "LIMIT", "likely"] | None = Field(
        None, description="What ended the list where others may follow; null where it is whole."
    )
    known_total: int | None = Field(
        None,
        description="How many answers are known, listed or not; null of yes or no, and of a count.",
    )
    known_at_least: bool = Field(
        False, description="Whether there may be more known ones: not all tuples are counted."
    )
    left_out: int | None = Field(
        None, description="Known answers not listed; only where new ones were asked for."
    )
    estimated: bool = Field(
        False, description="Whether scores are estimates, as an index of a large graph gives."
    )
    answers: list[AnswerRow]


class PlanReply(BaseModel):
    """How a question would be answered."""

    query: str
    plan: str = Field(description="An indented tree, a step a line, with what each costs.")


class Match(BaseModel):
    """A label that completes what was typed."""

    label: str
    name: str = Field(description="What people call it; the label where it has no name.")
    text: str = Field(
        description=(
            "What a question writes: the name, or the label where others have that name, too."
        )
    )
    words: str = Field("", description="What a sentence calls a relation.")


class MatchesReply(BaseModel):
    """Labels that complete what was typed, the shortest first."""

    matches: list[Match]


class Example(BaseModel):
    """A question that the loaded graph can answer."""

    query: str
    shape: str = Field(description="The name of its structure in the BetaE benchmarks.")
    title: str = Field(description="The question as a sentence.")


class ExamplesReply(BaseModel):
    """Questions to start with."""

    examples: list[Example]


class RelatedRow(BaseModel):
    """What a fact about an entity leads to."""

    entity: str = Field(description="Its label.")
    name: str = Field(description="What people call it; the label where it has no name.")
    score: float = Field(description="The fact's score, in [0, 1].")


class RelativesRow(BaseModel):
    """The facts about an entity by one relation in one direction."""

    relation: str = Field(
        description="The relation as a question writes it: `speaks^-1` leads to who speaks."
    )
    name: str = Field(description="What people call the relation, whatever the direction.")
    inverse: bool = Field(description="Whether the entity is the object of these facts.")
    count: int = Field(description="How many facts there are.")
    facts: list[RelatedRow] = Field(
        description="Some of them: known ones by name, predicted ones by score."
    )


class EntityReply(BaseModel):
    """Facts about an entity, by relation and direction."""

    entity: str = Field(description="Its label.")
    name: str = Field(description="What people call it; the label where it has no name.")
    known: bool = Field(description="Whether these are known facts; otherwise they are predicted.")
    relations: list[RelativesRow]
    next: str | None = Field(
        description="The relation to go on with, as `start`; null where all were looked at."
    )


class RunReply(BaseModel):
    """The run that a reply is about."""

    status: Literal["ok", "starting", "failing"]
    version: str
    run: str = Field(description="The run that this is about.")
    runs: list[str] = Field(
        description="The runs that are served, the first one where none is named."
    )
    graph: dict[str, str | int]
    model: str | None = Field(
        description="What answers where a request says nothing else; null before it is loaded."
    )
    encoder: str | None = Field(
        description="The encoder that `search` may name; null where the run has none."
    )


class HealthReply(RunReply):
    """What the service is, and how it is doing."""

    workers: dict[str, int]
    problem: str | None = Field(
        description="What keeps workers that are down from starting; null where none is."
    )
    settings: dict[str, str | int | float | bool | None]
    limits: dict[str, int | float]
    syntax: dict[str, str | list[str]] = Field(
        description="The words of the text syntax, as JavaScript's patterns."
    )


class ReadyReply(BaseModel):
    """That questions are answered, and by how many workers."""

    ready: Literal[True]
    workers: dict[str, int] = Field(
        description="How many run, `alive`, and how many there are to be, `wanted`."
    )
    problem: str | None = Field(
        description="What keeps workers that are down from starting; null where none is."
    )


class ErrorDetail(BaseModel):
    """What went wrong, where, and what would work."""

    message: str = Field(description="One sentence.")
    line: int | None = Field(description="Line of the question, from 1.")
    column: int | None = Field(description="Column of the question, from 1.")
    suggestions: list[str] = Field(description="Names that may have been meant.")


class ErrorReply(BaseModel):
    """The body of every reply that is not a success."""

    error: ErrorDetail


AskReply = AnswersReply | list[AnswersReply | ErrorReply]
