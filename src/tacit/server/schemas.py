"""Schemas of requests and replies, for validation and the OpenAPI document."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated, Any, Literal

from pydantic import BaseModel, ConfigDict, Discriminator, Field, Tag

from tacit.engine.answers.answers import LIKELY
from tacit.engine.settings import EngineSettings
from tacit.query.text import MAX_CHARACTERS
from tacit.server.value_schemas import QuantityReply, WitnessComparison
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


class Schema(BaseModel):
    """A schema whose fields are described by the strings below them."""

    model_config = ConfigDict(use_attribute_docstrings=True)


def sentence_of(place: Sequence[object], message: str) -> str:
    """What is wrong with a part of a request, by its place and pydantic's message."""
    path = ".".join(str(part) for part in place)
    where = f"'{path[:80]}'" if path else "the request"
    return f"{where}: {message[:1].lower()}{message[1:]}"


class ReadRequest(Schema):
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


class ReadReply(Schema):
    """A question as it is understood, in other forms; null for one that it does not have."""

    query: str
    outline: dict[str, Any] | None = Field(
        description=(
            "Groups of `join`, `not` and `parts`: groups; steps of `relation`, `words`, `inverse`, "
            "`not`, an `entity` with its `name` or a group `of` more; comparisons of `attribute`,"
            " `operator`, `literals` or `than`. The outermost has `columns` shown and the `order`."
        )
    )
    undrawable: str | None
    """Why it has no outline."""
    sentence: str | None
    """The outline in words."""
    sparql: str | None
    """A SPARQL query with the same answers."""


class Statement(Schema):
    """Where a fact comes from and when it holds, as one source says, and all as a `text`."""

    source: str | None
    valid_from: str | None
    valid_until: str | None
    confidence: float | None
    text: str


class EvidenceFact(Schema):
    """A known fact, by names and labels, and the statements about it."""

    subject: str
    relation: str
    object: str
    subject_label: str
    relation_label: str
    object_label: str
    statements: list[Statement] | None = None


class EvidencePath(Schema):
    """Facts for which the body of a rule holds."""

    text: str
    """The facts in words."""
    facts: list[EvidenceFact]


class NamedRule(Schema):
    """A rule by names."""

    id: int
    words: str
    """As a sentence: if …, then …"""
    formula: str
    """As a formula, with labels as a question writes them; `?_` is anything."""
    statistic: str
    """Support and groundings in words; empty where they were not counted."""
    support: int
    """For how many groundings what the rule says is a fact."""
    groundings: int
    """For how many pairs, or entities, its body holds."""
    confidence: float
    exact: bool
    """Whether the counts are no estimates."""
    written: bool
    """Whether a person wrote the rule."""


class Evidence(Schema):
    """A rule that speaks for an atom, and the facts that it rests on."""

    text: str
    """The rule and its first grounding, as one line."""
    rule: NamedRule
    paths: list[EvidencePath]
    """Groundings; none where better rules have shown all of them."""
    more: int
    """How many further groundings there are."""
    more_at_least: bool = False
    """Whether there may be still more."""


class WitnessAtom(Schema):
    """One atom of a witness."""

    subject: str
    relation: str
    object: str
    score: float
    """The atom's calibrated score, in [0, 1]."""
    observed: bool
    """Whether the graph has it; otherwise it is predicted."""
    negated: bool
    """Whether it stands under a negation."""
    subject_label: str = ""
    """The label of the subject, whose name `subject` is."""
    object_label: str = ""
    """The label of the object, whose name `object` is."""
    evidence: list[Evidence] | None = None
    """The rules that speak for a predicted atom, best first; absent where there are no rules."""
    rule_share: float | None = None
    """How much of its score rules carry, from 0 to 1."""
    analogies: list[EvidenceFact] | None = None
    """The most similar known facts of the relation, where no rule speaks for the atom."""
    statements: list[Statement] | None = None
    follows_by: int | None = None
    """The rule that a known atom follows by, where it is no fact of the graph."""


class WitnessPart(Schema):
    """A part of a reason, as the formula has it."""

    kind: Literal["atom", "inequality", "comparison", "and", "or", "not", "true"]
    score: float
    carried: bool = True
    """Whether it is the part of an `or` that carries the answer."""
    parts: list[WitnessPart] = []
    atom: WitnessAtom | None = None
    text: str = ""
    """An inequality as it is written, with its entities, or a comparison with its values."""
    comparison: WitnessComparison | None = None
    variables: dict[str, str] = {}
    """The entities chosen here; under a `not`, the nearest candidate."""


class Witness(Schema):
    """The entity of every variable, and the atoms that make an answer true."""

    score: float
    variables: dict[str, str]
    """The names of the entities."""
    labels: dict[str, str] = {}
    """Their labels."""
    atoms: list[WitnessAtom]
    facts: int = 0
    """How many atoms there are."""
    predicted: int = 0
    """How many of them are predicted."""
    known: bool = False
    """Whether it rests on known facts: what is predicted is denied, or carries nothing."""
    tree: WitnessPart | None = None
    """The atoms as the formula joins them."""


class AnswerRow(Schema):
    """One answer to a question."""

    rank: int
    entity: str | None = None
    """Its label; absent unless one variable is asked for."""
    name: str | None = None
    """What people call it; the label where it has no name."""
    values: dict[str, str] = {}
    """The label of each variable that is asked for; SPARQL may bind some alone, and other terms."""
    names: dict[str, str] = {}
    """What people call them."""
    quantities: dict[str, QuantityReply | None] = {}
    """The values of attributes that are asked for or ordered by; null where there is none."""
    score: float
    """In [0, 1]."""
    log_score: float | None
    known: bool
    """Whether the graph alone implies it; otherwise it is predicted."""
    witnesses: list[Witness] = []
    """The reasons, best first; only where they were asked for."""


class CountReply(Schema):
    """How many answers there are."""

    known: int
    """Those that the known facts imply."""
    expected: float
    """How many there are by their scores, what is known counted whole."""


class QuestionReply(Schema):
    """A question as it was understood, and what its scores mean."""

    query: str
    """The question as it was understood."""
    kind: Literal["entities", "tuples", "truth", "count", "relations"] = "entities"
    """What the answers are; of `truth` there is one, without values, of `count` none."""
    variables: list[str] = []
    """The variables that are asked for, without question marks."""
    quantities: list[str] = []
    """The columns of values of attributes."""
    count: CountReply | None = None
    """Only where `kind` is `count`."""
    offset: int = 0
    """How many better answers were passed over."""
    likely: int | None = Field(
        0,
        description=(
            "How many of these answers score at least the threshold; null where scores are no "
            "probabilities."
        ),
    )
    uncalibrated: str | None = None
    """What to say of scores that are no probabilities."""
    threshold: float = LIKELY
    """The score below which an answer is more likely wrong than right."""


class AnswersReply(QuestionReply):
    """The best answers, best first."""

    certified: bool | None
    """Whether the search provably missed nothing; null where none can tell."""
    proven: int | None = None
    """How many of the first answers are proven, with order and scores; null where none can tell."""
    explained: bool | None = None
    """Whether the search gives reasons; null where nobody asked."""
    unknown: list[str] = []
    """IRIs of a SPARQL query that the graph does not have; absent where there are none."""
    cut_by: Literal["top", "LIMIT", "likely"] | None = None
    """What ended the list where others may follow; null where it is whole."""
    known_total: int | None = None
    """How many answers are known, listed or not; null of yes or no, and of a count."""
    known_at_least: bool = False
    """Whether there may be more known ones: not all tuples are counted."""
    left_out: int | None = None
    """Known answers not listed; only where new ones were asked for."""
    estimated: bool = False
    """Whether scores are estimates, as an index of a large graph gives."""
    answers: list[AnswerRow]


class PlanReply(Schema):
    """How a question would be answered."""

    query: str
    plan: str
    """An indented tree, a step a line, with what each costs."""


class RunReply(Schema):
    """The run that a reply is about."""

    status: Literal["ok", "starting", "failing"]
    version: str
    run: str
    """The run that this is about."""
    runs: list[str]
    """The runs that are served, the first one where none is named."""
    graph: dict[str, str | int]
    model: str | None
    """What answers where a request says nothing else; null before it is loaded."""
    encoder: str | None
    """The encoder that `search` may name; null where the run has none."""


class HealthReply(RunReply):
    """What the service is, and how it is doing."""

    workers: dict[str, int]
    problem: str | None
    """What keeps workers that are down from starting; null where none is."""
    settings: dict[str, str | int | float | bool | None]
    limits: dict[str, int | float]
    syntax: dict[str, str | list[str]]
    """The words of the text syntax, as JavaScript's patterns."""


class ReadyReply(Schema):
    """Whether questions are answered, and by how many workers."""

    ready: Literal[True]
    workers: dict[str, int]
    """How many run, `alive`, and how many there are to be, `wanted`."""
    problem: str | None
    """What keeps workers that are down from starting; null where none is."""


class ErrorDetail(Schema):
    """What went wrong, where, and what would work."""

    message: str
    """One sentence."""
    line: int | None
    """Line of the question, from 1."""
    column: int | None
    """Column of the question, from 1."""
    suggestions: list[str]
    """Names that may have been meant."""


class ErrorReply(Schema):
    """The body of every reply that is not a success."""

    error: ErrorDetail


AskReply = AnswersReply | list[AnswersReply | ErrorReply]
