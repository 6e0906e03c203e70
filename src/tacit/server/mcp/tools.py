"""The tools that agents call: each asks a served run what the HTTP service asks it."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass
from functools import partial
from typing import Any, TypeVar

from pydantic import ValidationError
from pydantic.json_schema import GenerateJsonSchema

from tacit.errors import LimitError, SettingsError, TacitError
from tacit.server import fact_routes
from tacit.server.mcp import arguments, replies
from tacit.server.schemas import Schema, sentence_of
from tacit.server.service import Runs, Service
from tacit.server.workers.jobs import (
    CompletionJob,
    EntityJob,
    Job,
    RulesJob,
    ValuesJob,
    encoded,
)

LONGEST_REPLY = 100_000  # characters
_FACT = ": $relation($subject, $object)"
# as facts are completed
_COMPLETING: tuple[tuple[str, str | int | bool], ...] = (("search", "beam"), ("typed", True))
ReplyModel = TypeVar("ReplyModel", bound=Schema)


class _Untitled(GenerateJsonSchema):
    """Schemas whose fields have no titles: models read the names."""

    def field_title_should_be_set(self, schema: Any) -> bool:
        """No."""
        return False


@dataclass(frozen=True)
class Tool:
    """A tool: what it does, the form of its arguments and of its reply, and its function."""

    name: str
    description: str
    arguments: type[Schema]
    reply: type[Schema]
    call: Callable[[Runs, Service, Any], Awaitable[Schema]]
    writes: bool = False

    @property
    def input_schema(self) -> dict[str, Any]:
        """The JSON schema of the arguments."""
        return self.arguments.model_json_schema(schema_generator=_Untitled)

    @property
    def output_schema(self) -> dict[str, Any]:
        """The JSON schema of the reply."""
        return self.reply.model_json_schema(mode="serialization", schema_generator=_Untitled)

    async def run(self, runs: Runs, values: Mapping[str, Any]) -> tuple[dict[str, Any], str]:
        """The reply, and its text, to what a client sent; a `TacitError` says what to change."""
        request: Any = self._validate(values, runs.first.limits.body)
        reply = await self.call(runs, runs.find(request.run), request)
        text = encoded(reply.model_dump(mode="json", exclude_none=True)).decode()
        if len(text) > LONGEST_REPLY:
            raise LimitError(
                f"the reply has {len(text):,} characters, more than {LONGEST_REPLY:,}; ask for "
                "fewer answers, reasons or facts at once"
            )
        return json.loads(text), text

    def _validate(self, values: Mapping[str, Any], most: int) -> Schema:
        """The arguments in their form, or an error about the first that is wrong."""
        if len(json.dumps(values)) > most:
            raise LimitError(f"the arguments are larger than {most:,} bytes, the most that is read")
        try:
            return self.arguments.model_validate(values)
        except ValidationError as error:
            first = error.errors(include_url=False)[0]
        names = f"; the arguments are {', '.join(self.arguments.model_fields)}"
        hint = names if first["type"] in ("extra_forbidden", "missing") else ""
        raise SettingsError(f"{sentence_of(first['loc'], first['msg'])}{hint}")


def _read(kind: type[ReplyModel], status: int, body: bytes) -> ReplyModel:
    """A reply of a worker in its form; one that is no success is raised as an error."""
    if status == 200:
        return kind.model_validate_json(body)
    error = json.loads(body)["error"]
    message: str = error["message"]
    if message.startswith("unknown ") and not error["suggestions"]:
        message += "; describe_graph lists the relations, and find_entities finds entities"
    raise TacitError(message)


async def _answer(kind: type[ReplyModel], service: Service, job: Job) -> ReplyModel:
    """The reply of a worker to a job."""
    reply = await service.snapshot.pool.answer(job)
    return _read(kind, reply.status, reply.body)


async def _describe_graph(
    runs: Runs, service: Service, request: arguments.DescribeGraph
) -> replies.GraphReply:
    return await asyncio.to_thread(
        describe_graph, runs, service, request.search, request.limit, request.offset
    )


def describe_graph(
    runs: Runs, service: Service, search: str = "", limit: int = 50, offset: int = 0
) -> replies.GraphReply:
    """The graph of a run with some of its relations."""
    schema = service.snapshot.schema
    graph = schema.graph
    found = schema.matches(search)
    return replies.GraphReply(
        run=service.name,
        runs=list(runs.services),
        graph=graph.name,
        entities=graph.num_entities,
        facts=int(schema.counts.sum()),
        matching=len(found),
        relations=[
            replies.Relation(**schema.describe(each)) for each in found[offset : offset + limit]
        ],
        attributes=[
            replies.Attribute.model_validate(row)
            for row in schema.attributes(search)[offset : offset + limit]
        ],
    )


async def _find_entities(
    runs: Runs, service: Service, request: arguments.FindEntities
) -> replies.MatchesReply:
    names = service.snapshot.names

    def find() -> dict[str, Any]:
        found = names.entities(request.text, request.limit, request.relation, request.end)
        matches = found or names.similar(request.text, request.limit)
        return {"matches": matches, "exact": bool(found)}

    return replies.MatchesReply.model_validate(await asyncio.to_thread(find))


async def _ask(runs: Runs, service: Service, request: arguments.Ask) -> replies.AnswersReply:
    response = await service.ask("ask", request)
    return _read(replies.AnswersReply, response.status_code, bytes(response.body))


async def _explain(
    runs: Runs, service: Service, request: arguments.Explain
) -> replies.ExplanationsReply:
    response = await service.ask("explain", request)
    return _read(replies.ExplanationsReply, response.status_code, bytes(response.body))


async def _score(runs: Runs, service: Service, request: arguments.Score) -> replies.ScoreReply:
    names = request.model_dump(include={"subject", "relation", "object"})
    job = Job("explain", _FACT, parameters=tuple(names.items()))
    (truth,) = (await _answer(replies.ExplanationsReply, service, job)).answers
    return replies.ScoreReply(score=truth.score, known=truth.known, reasons=truth.reasons)


async def _complete(
    runs: Runs, service: Service, request: arguments.Complete
) -> replies.CompletionReply:
    if request.relation is None and request.entity is None:
        raise SettingsError("nothing says what to complete; give `relation`, `entity`, or both")
    job = CompletionJob(
        "complete",
        request.relation or "",
        request.top,
        changes=_COMPLETING,
        min_score=request.min_score,
        entity=request.entity,
    )
    return await _answer(replies.CompletionReply, service, job)


async def _entity(
    runs: Runs, service: Service, request: arguments.EntityFacts
) -> replies.EntityReply:
    page = {"relation": request.relation, "offset": request.offset}
    job = EntityJob("entity", request.entity, request.limit, **page)  # type: ignore[arg-type]
    return await _answer(replies.EntityReply, service, job)


async def _values(runs: Runs, service: Service, request: arguments.Values) -> replies.ValuesReply:
    job = ValuesJob("values", request.entity, attribute=request.attribute)
    return await _answer(replies.ValuesReply, service, job)


async def _rules(runs: Runs, service: Service, request: arguments.Rules) -> replies.RulesReply:
    job = RulesJob(
        "rules",
        request.relation or "",
        request.limit,
        offset=request.offset,
        written=request.written,
        examples=request.examples,
    )
    return await _answer(replies.RulesReply, service, job)


async def _change(
    runs: Runs, service: Service, request: fact_routes.FactsRequest, remove: bool
) -> fact_routes.FactsReply:
    reply = await fact_routes.make_change(service, request, remove)
    return _read(fact_routes.FactsReply, reply.status, reply.body)


_READING = (
    Tool(
        "describe_graph",
        "Start here. The relations of the knowledge graph, each with its words, domain, range, "
        "counts and an example, and its attributes: numbers and dates. Use them as they are "
        "written.",
        arguments.DescribeGraph,
        replies.GraphReply,
        _describe_graph,
    ),
    Tool(
        "find_entities",
        "Entities by name, as a question writes them. Use it before a question names an entity.",
        arguments.FindEntities,
        replies.MatchesReply,
        _find_entities,
    ),
    Tool(
        "ask",
        "The best answers to a question, each known or predicted, with a score. The question is a "
        "formula: ?x : relation(Subject, ?x). & is and, | is or, ! is not, ?x != Name, "
        "relation^-1(object, subject); further variables are existential; names with spaces go in "
        'quotes. For example: ?city : capital_of(?city, ?n) & !speaks(?n, "Old English"). Yes or '
        "no: ': relation(A, B)'. How many: 'count ?x : relation(A, ?x)'. The resource "
        "tacit://query-language has the rest.",
        arguments.Ask,
        replies.AnswersReply,
        _ask,
    ),
    Tool(
        "explain",
        "The best answers to a question, each with its reasons: the facts it rests on, known or "
        "predicted, and for predicted ones the mined rules and known facts that speak for them.",
        arguments.Explain,
        replies.ExplanationsReply,
        _explain,
    ),
    Tool(
        "score",
        "How far one fact holds: whether it is known, else its predicted score, with evidence.",
        arguments.Score,
        replies.ScoreReply,
        _score,
    ),
    Tool(
        "complete",
        "The most probable facts that the graph is missing, of a relation or an entity, with "
        "evidence. All of them are predictions.",
        arguments.Complete,
        replies.CompletionReply,
        _complete,
    ),
    Tool(
        "entity",
        "The known facts about an entity, by relation and direction.",
        arguments.EntityFacts,
        replies.EntityReply,
        _entity,
    ),
    Tool(
        "values",
        "The numbers and dates of an entity: known values, and for missing ones predictions with "
        "their intervals and the known values that they were made of.",
        arguments.Values,
        replies.ValuesReply,
        _values,
    ),
    Tool(
        "rules",
        "The rules that predictions come from, in words and as formulas, the surest first.",
        arguments.Rules,
        replies.RulesReply,
        _rules,
    ),
)
_WRITING = (
    Tool(
        "add_facts",
        "Add facts to the run, for everyone who uses it. Names that may be misspelt must be "
        "agreed to.",
        arguments.AddFacts,
        fact_routes.FactsReply,
        partial(_change, remove=False),
        writes=True,
    ),
    Tool(
        "remove_facts",
        "Remove facts from the run, for everyone who uses it.",
        arguments.RemoveFacts,
        fact_routes.FactsReply,
        partial(_change, remove=True),
        writes=True,
    ),
)


def tools(write: bool) -> dict[str, Tool]:
    """The tools by name; those that change facts only where that is allowed."""
    return {tool.name: tool for tool in (*_READING, *(_WRITING if write else ()))}
