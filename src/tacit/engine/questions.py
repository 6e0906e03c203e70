"""Questions bound to a graph, the options of `ask`, and the threads that answer them."""

from __future__ import annotations

import logging
import math
import os
import sys
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, field
from functools import cache
from typing import Literal, NamedTuple, TypeVar

import numpy as np

from tacit.distributed.threads import nobody_at_work, threads_for
from tacit.engine.settings import EngineSettings
from tacit.errors import QueryError, SettingsError
from tacit.graph.attributes import Attribute
from tacit.graph.graph import Graph
from tacit.query.comparison import Ordering, Value, value_columns, value_ranges
from tacit.query.formula import Query
from tacit.query.plans.compile import compile_query
from tacit.query.plans.plan import CompiledQuery, Cutset, Plan, Project
from tacit.query.question import (
    ParsedQuestion,
    bind,
    labels_at,
    one_formula,
    parse_question,
)
from tacit.query.sparql.table_query import TableQuery
from tacit.query.text import check_unused
from tacit.query.value_binding import attributes_of, bind_values

_FEW = 2**15  # scores that one thread computes nearly as fast as two
_EXPANDED = 64  # candidates of a hop, at least
_Q = TypeVar("_Q")
_A = TypeVar("_A")
_E = TypeVar("_E", bound=Exception)
# a number of answers, None for all of them, or a rule that `AskOptions` describes
ListLength = int | Literal["auto", "likely"] | None
SHOWN = 10  # answers by default


@dataclass(frozen=True, kw_only=True)
class BoundQuery(ParsedQuestion):
    """A question ready to run: parsed, compiled, and with the ids that fill its plan's slots.

    The labels of these ids are its fingerprint of the graph: a graph to which labels were appended
    still fits, and the comparison takes microseconds on a graph of any size.
    """

    compiled: CompiledQuery
    entities: list[int] = field(hash=False)
    relations: list[int] = field(hash=False)
    labels: tuple[str, ...] | None = None  # of these ids; None where they are not checked
    likely: bool = False  # whether only known and likely answers are listed
    # the values that answers show and are ordered by, with the labels of their attributes
    values: dict[str, Value] = field(default_factory=dict, hash=False)
    order: tuple[Ordering, ...] = ()
    ranges: dict[Value, tuple[float, float]] = field(default_factory=dict, hash=False)  # of values
    attributes: tuple[Attribute, ...] = ()  # that its comparisons were read by

    def check(self, graph: Graph) -> None:
        """Raise a `QueryError` where the ids mean other things in a graph."""
        same = self.labels in (None, labels_at(graph, self.entities, self.relations))
        if not same or not set(self.attributes) <= set(graph.attributes.listed):
            raise QueryError(
                "the question was prepared on another graph, whose ids mean other things in "
                f"{graph.name}; ask its text itself: {self.query}"
            )


# the last one is a text, and labels for its parameters by name
Question = str | Query | BoundQuery | tuple[str, Mapping[str, str]]
AnyQuestion = Question | TableQuery


def bind_question(question: Question, graph: Graph, parameters: Mapping[str, str]) -> BoundQuery:
    """Parse a question, compile it and bind it to a graph, each once.

    A `BoundQuery` stays as it is, if its ids mean the same in the graph.
    """
    parsed = read_question(question, graph, parameters)
    return parsed if isinstance(parsed, BoundQuery) else bind_parsed(one_formula(parsed), graph)


def bind_any(
    question: AnyQuestion, graph: Graph, parameters: Mapping[str, str]
) -> BoundQuery | TableQuery:
    """Bind a question like `bind_question`; a table of SPARQL stays as it is."""
    parsed = read_question(question, graph, parameters)
    if isinstance(parsed, BoundQuery | TableQuery):
        return parsed
    return bind_parsed(parsed, graph)


def read_question(
    question: AnyQuestion, graph: Graph, parameters: Mapping[str, str]
) -> ParsedQuestion | TableQuery:
    """Parse a question; one that is bound or a table stays as it is."""
    if isinstance(question, tuple):
        is_pair = len(question) == 2 and isinstance(question[1], Mapping)
        if not is_pair or not all(isinstance(name, str) for name in question[1]):
            raise QueryError(
                "a question with parameters is a pair: a text, and a dict of labels by name"
            )
        question, own_parameters = question
        parameters = {**own_parameters, **parameters}
    if parameters and not isinstance(question, str):
        check_unused(parameters)
    if isinstance(question, BoundQuery):
        question.check(graph)
        return question
    if isinstance(question, str):
        return parse_question(question, graph, parameters)
    if isinstance(question, Query):
        return ParsedQuestion(question)
    if isinstance(question, TableQuery):
        return question
    raise QueryError(f"a question is a text or a Query, not {type(question).__name__}")


def bind_parsed(parsed: ParsedQuestion, graph: Graph) -> BoundQuery:
    """Compile a parsed question and bind it to a graph."""
    by_attributes = bind_values(parsed.query, graph)
    compiled = compile_query(by_attributes)
    entities, relations = bind(compiled, graph)
    compares = by_attributes is not parsed.query
    return BoundQuery(
        **vars(parsed),
        compiled=compiled,
        entities=entities,
        relations=relations,
        labels=labels_at(graph, entities, relations),
        attributes=attributes_of(by_attributes, graph) if compares else (),
        values=value_columns(by_attributes) if compares else {},
        order=by_attributes.order,
        ranges=value_ranges(by_attributes) if compares else {},
    )


def bind_for_ask(
    question: AnyQuestion, graph: Graph, parameters: Mapping[str, str]
) -> BoundQuery | TableQuery:
    """Bind a question like `bind_any`, with errors that explain the options of `ask`."""
    try:
        return bind_any(question, graph, parameters)
    except QueryError as error:
        name = error.parameter
        if name in AskOptions.__dataclass_fields__ and name not in parameters:
            raise QueryError(
                f"parameter ${name} has no value, since {name} is an option of ask; "
                f"give it in a pair with the text: ask((text, {{'{name}': label}}))",
                parameter=name,
            ) from None
        if name == "explain" and name in parameters:
            raise QueryError(
                f"{error}; and explain takes no such option: it always gives reasons"
            ) from None
        if name in parameters and name in EngineSettings.__dataclass_fields__:
            raise QueryError(
                f"the question has no parameter '{name}', and ask has no such option: {name} is a "
                f"setting, of run.engine.with_settings({name}=…), or of tacit.open(path, {name}=…)",
                parameter=name,
            ) from None
        raise


class Span(NamedTuple):
    """The range `start` to `stop` of the answers whose log-score is at least `floor`.

    With `fewest`, it holds all known or likely answers, and at least that many of the best.
    """

    start: int
    stop: int
    floor: float
    fewest: int | None = None
    ended_by: str = "top"  # what ends the list: `top`, `LIMIT` or `likely`


@dataclass(frozen=True)
class AskOptions:
    """The `top` answers from `offset` on, or all, that score at least `min_score`.

    With `top="likely"` they are all known ones, all that score at least `LIKELY`, and the ten best;
    where there is a `min_score`, it alone ends the list. With `top="auto"` they are the ten best;
    for SPARQL they are as many as its LIMIT says, or the likely ones.
    """

    top: ListLength = 10
    offset: int = 0
    min_score: float = 0.0
    paths: int = 1  # reasons of each answer
    explain: bool = False
    new: bool = False  # whether known answers are left out

    def __post_init__(self) -> None:
        if isinstance(self.top, str) and self.top not in ("auto", "likely"):
            raise SettingsError(
                f"top must be a whole number, 'likely', or None for all, not {self.top!r}", "top"
            )
        if self.top is not None and not isinstance(self.top, str):
            check_number("top", self.top, 1)
        check_number("offset", self.offset, 0)
        least = self.min_score
        is_number = isinstance(least, int | float) and not isinstance(least, bool)
        if not is_number or not 0.0 <= least <= 1.0:
            raise SettingsError(
                f"min_score must be a number from 0 to 1, not {least!r}", "min_score"
            )
        check_number("paths", self.paths, 1)
        for name in ("explain", "new"):
            flag = getattr(self, name)
            if not isinstance(flag, bool | np.bool_):
                raise SettingsError(f"{name} must be True or False, not {flag!r}", name)

    def span(self, question: ParsedQuestion, likely: bool = False) -> Span:
        """The range of a question with its own LIMIT and OFFSET: a page of what these leave.

        With `likely` it holds likely answers only, not even the ten best, and at most `top` of
        them.

        >>> from tacit.query.question import parse_question
        >>> query = "PREFIX : <tacit:> SELECT ?c { :France :borders ?c } LIMIT 2 OFFSET 10"
        >>> AskOptions(top=3, offset=1).span(parse_question(query))
        Span(start=11, stop=12, floor=-inf, fewest=None, ended_by='LIMIT')
        """
        limit = question.limit
        start = question.offset + self.offset
        floor = lowest(max(self.min_score, question.min_score))
        top = self.top
        fewest = 0 if likely else None
        if isinstance(top, str):
            if limit is None and fewest is None and (question.columns or top == "likely"):
                fewest = start + SHOWN
            top = SHOWN if limit is None and fewest is None else None
        stop = sys.maxsize if top is None else start + top
        if limit is not None and question.offset + limit <= stop:
            return Span(start, question.offset + limit, floor, ended_by="LIMIT")
        if fewest is not None and floor == -math.inf:
            return Span(start, stop, floor, fewest, "likely")
        return Span(start, stop, floor)


def lowest(score: float) -> float:
    """The lowest 32-bit log-score whose score is at least the given one."""
    if score <= 0.0:
        return -math.inf
    half = (score - math.nextafter(score, 0.0)) / 2.0  # the error that rounding tolerates
    log = np.float32(math.log(score) - half / score)
    return float(log if math.exp(log) >= score else np.nextafter(log, np.float32(1)))


def check_number(name: str, number: int, least: int) -> None:
    """Raise a `SettingsError` for a value that is no whole number, or below `least`."""
    if isinstance(number, bool) or not isinstance(number, int):
        raise SettingsError(f"{name} must be a whole number, not {number!r}", name)
    if number < least:
        raise SettingsError(f"{name} must be at least {least}, not {number}", name)


def retry_individually(
    ask: Callable[[Sequence[_Q]], Sequence[_A]], questions: Sequence[_Q], errors: type[_E]
) -> list[_A | _E]:
    """Run questions as a batch; where it fails, run each alone.

    Each gets its answer or its error.
    """
    try:
        return [*ask(questions)]
    except errors as error:
        if len(questions) < 2:
            return [error]
        logging.getLogger("tacit.engine").debug(
            "questions that failed together are asked one by one", exc_info=True
        )
    return [each for question in questions for each in retry_individually(ask, [question], errors)]


def threads_to_answer(plans: Iterable[Plan], num_entities: int) -> AbstractContextManager[None]:
    """Limit the threads to those that queries of some plans are worth, and to free cores."""
    rows = sum(
        plan.num_relations * (_EXPANDED if plan.has(Project, Cutset) else 1) for plan in plans
    )
    return threads_for(rows * num_entities, _FEW)


@cache
def reset_threads_after_fork() -> None:
    """Let forked processes compute on their only thread.

    The threads of the parent are gone, and OpenMP would wait for them.
    """
    if hasattr(os, "register_at_fork"):
        os.register_at_fork(after_in_child=_use_one_thread)


def _use_one_thread() -> None:
    import torch

    nobody_at_work()
    torch.set_num_threads(1)
