"""What agents read before they ask: how to go about it, the query language, worked questions."""

from __future__ import annotations

import asyncio
import json
from urllib.parse import quote, unquote

from tacit.errors import RunError, TacitError
from tacit.server.mcp.tools import describe_graph, tools
from tacit.server.service import Runs, Service

LANGUAGE_URI = "tacit://query-language"
_SCHEMA = "/schema"
_RUNS = "tacit://runs/"
_WORKED = ("2p", "2i", "2in", "1p", "2u", "pi", "2ia")  # shapes, those first that show most
_QUESTIONS = 3
_RELATIONS = 200  # of the schema
_ANSWERS = 3  # of a worked question

INSTRUCTIONS = (
    "Tacit answers logical questions over a knowledge graph that is missing facts. Write the "
    "question as a formula: take relations from describe_graph and entities from find_entities, "
    "as they are written there; guess no name. Check that `query` in the reply is what was meant. "
    "Every answer is `known`, which the facts of the graph imply, or predicted, with a score from "
    "0 to 1; below `threshold` it is more likely wrong than right. Say which answers are "
    "predicted; explain gives the facts and rules behind an answer. An error says what to change. "
    f"The query language: the resource {LANGUAGE_URI}."
)

LANGUAGE = """\
# The query language

A question is what is asked for, a colon, and a formula: `?x : relation(Subject, ?x)`.

| to say | write |
|---|---|
| a fact | `relation(subject, object)` |
| the same, read backwards | `relation^-1(object, subject)` |
| and, or, not | `f & g`, `f | g`, `!f` |
| for some entity | `exists ?y . f` |
| another entity than | `?x != Name`, `?x != ?y` |
| a number or a date | `area(?x) > 1000`, `1900 <= founded(?x) < 1950`, `area(?x) < area(Name)` |

`!` binds tighter than `&`, and `&` tighter than `|`; use brackets.

What stands before the colon is asked for:

- entities: `?x : r(A, ?x)`
- pairs or triples: `?x, ?y : r(A, ?x) & s(?x, ?y)`
- yes or no: `: r(A, B)`
- how many: `count ?x : r(A, ?x)`
- a relation: `?r : ?r(A, B)`

Answers show values and are ordered by them: `?x, ?n : r(A, ?x) & ?n = area(?x) order by ?n desc`.
The value of one entity is `area(Name)`. `describe_graph` lists the attributes.

Names with spaces or punctuation go in double quotes: `r("New York", ?x)`. Case, spaces and
underscores of a name do not matter; which argument is the subject does, and `describe_graph` says
it.

A variable that is not asked for stands for some entity, at the narrowest place: `!s(?y, ?x)` means
that no `?y` does. A chain goes through such variables: `?x : r(A, ?y) & s(?y, ?x)`.

Refused are: a variable that occurs only under `!` or in `!=` (add a fact that says what it is), an
`|` with an alternative that leaves the answer open, and `=` (write the entity in place of the
variable).

Each answer is known or predicted. A predicted step makes an answer predicted. Under `!`, known
means that no fact says the contrary; the score says how likely one is missing. `min_score` leaves
out what scores less, `new: true` what is known already, and `offset` goes on with a list.
"""


def schema_uri(service: Service) -> str:
    """The address of the schema of a run."""
    return f"{_RUNS}{quote(service.name, safe='')}{_SCHEMA}"


async def read_resource(runs: Runs, uri: str) -> tuple[str, str]:
    """The media type and text of a resource; a `RunError` lists what there is."""
    if uri == LANGUAGE_URI:
        return "text/markdown", LANGUAGE
    name = unquote(uri.removeprefix(_RUNS).removesuffix(_SCHEMA))
    if name not in runs.services or schema_uri(runs.services[name]) != uri:
        known = ", ".join([LANGUAGE_URI, *map(schema_uri, runs.services.values())])
        raise RunError(f"there is no resource '{uri[:200]}' here; there is {known}")
    schema = await asyncio.to_thread(describe_graph, runs, runs.services[name], limit=_RELATIONS)
    return "application/json", schema.model_dump_json()


async def worked_prompt(runs: Runs, run: str | None, question: str | None) -> str:
    """How to ask the graph of a run, with worked questions that it has answers to."""
    service = runs.find(run)
    examples = await asyncio.to_thread(lambda: service.snapshot.examples)
    shown = sorted(examples, key=lambda example: _WORKED.index(example["shape"]))[:_QUESTIONS]
    worked = [
        await _work_through(runs, service, example["title"], example["query"]) for example in shown
    ]
    parts = [
        f"Answer questions from the knowledge graph '{service.snapshot.graph.name}' with the "
        f"tools of this server. {INSTRUCTIONS}",
        LANGUAGE,
        "# Worked questions",
        *worked,
        *([f"# The question\n\n{question}"] if question else []),
    ]
    return "\n\n".join(parts)


async def _work_through(runs: Runs, service: Service, title: str, query: str) -> str:
    """A question in words, the call that asks it, and its answers."""
    call = {"query": query, "top": _ANSWERS}
    lines = [title, f"ask {json.dumps(call, ensure_ascii=False)}"]
    try:
        reply, _ = await tools(write=False)["ask"].run(runs, call | {"run": service.name})
    except TacitError:  # the formula is worth showing where its answers cannot be had
        return "\n".join(lines)
    marks = (
        f"{row.get('name') or row['entity']} "
        f"({'known' if row['known'] else 'predicted'}, {row['score']:.2f})"
        for row in reply["answers"]
    )
    return "\n".join([*lines, f"-> {', '.join(marks)}"])
