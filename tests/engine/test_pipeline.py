"""A question passes each stage once, by whatever door, and on a short way."""

from __future__ import annotations

import inspect
import sys
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path
from types import CodeType, FrameType
from typing import Any

import pytest
from typer.testing import CliRunner

import tacit
from quick_world import quick_world
from source_tree import SRC
from tacit.cli import app
from tacit.engine.answers.execute import execute
from tacit.engine.questions import bind_question
from tacit.engine.search.message_reasoner import CertifiedReasoner
from tacit.links.precision import even_product
from tacit.query.plans.compile import compile_query
from tacit.query.question import bind, parse_question
from tacit.server.settings import Limits
from tacit.server.workers.answering import Answerer
from tacit.server.workers.jobs import Job

TEXT = "?c : exists ?n . borders(France, ?n) & borders(?n, ?c)"
SPARQL = "PREFIX : <tacit:> SELECT ?c { :France :borders ?n . ?n :borders ?c } LIMIT 5"
STAGES: dict[CodeType, str] = {
    inspect.unwrap(stage).__code__: stage.__name__
    for stage in (parse_question, compile_query, bind, execute)
}
ONCE = dict.fromkeys(STAGES.values(), 1)


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tacit.Run]:
    cache = tmp_path_factory.mktemp("cache")
    path = quick_world(cache)
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("TACIT_CACHE", str(cache))
        yield tacit.open(path, device="cpu")


def traced(call: Callable[[], object], see: Callable[[FrameType], None]) -> None:
    """Call a function, and show each frame of the package as it begins."""

    def profile(frame: FrameType, event: str, argument: object) -> None:
        if event == "call" and frame.f_code.co_filename.startswith(str(SRC)):
            see(frame)

    sys.setprofile(profile)
    try:
        call()
    finally:
        sys.setprofile(None)


def stages_of(call: Callable[[], object]) -> dict[str, int]:
    """How often each stage is called."""
    counts = Counter[str]()

    def count_stage(frame: FrameType) -> None:
        if (stage := STAGES.get(frame.f_code)) is not None:
            counts[stage] += 1

    traced(call, count_stage)
    return dict(counts)


def depth(frame: FrameType | None) -> int:
    """How many frames of the package are on the stack."""
    found = 0
    while frame is not None:
        found += frame.f_code.co_filename.startswith(str(SRC))
        frame = frame.f_back
    return found


@pytest.mark.parametrize(
    "door",
    [
        lambda run: run.ask(TEXT),
        lambda run: run.ask(TEXT, explain=True),
        lambda run: run.ask(SPARQL),
        lambda run: run.explain(TEXT),
        lambda run: run.count(TEXT),
        lambda run: run.ask_many([TEXT]),
        lambda run: run.engine.ask("?c : borders($who, ?c)", who="France"),
        lambda run: Answerer(run.engine, Limits()).replies([Job("ask", TEXT)]),
        lambda run: Answerer(run.engine, Limits()).replies([Job("explain", TEXT)]),
        lambda run: Answerer(run.engine, Limits()).replies(
            [Job("sparql", SPARQL, media_type="application/sparql-results+json")]
        ),
    ],
)
def test_every_door_calls_each_stage_once(door: Callable[[tacit.Run], Any], run: tacit.Run) -> None:
    assert stages_of(lambda: door(run)) == ONCE


def test_a_score_is_a_question_that_needs_no_parsing(run: tacit.Run) -> None:
    stages = stages_of(lambda: run.score("France", "borders", "Spain"))
    assert stages == {name: 1 for name in ONCE if name != "parse_question"}


def test_the_lines_of_a_file_are_executed_together(run: tacit.Run, tmp_path: Path) -> None:
    """Once without questions, which refuses wrong options, and once for all lines."""
    path = tmp_path / "questions.txt"
    path.write_text(f"{TEXT}\n?c : borders(Spain, ?c)\nno question\n")
    assert stages_of(lambda: list(run.ask_file(path))) == {
        "parse_question": 3, "compile_query": 2, "bind": 2, "execute": 2
    }  # fmt: skip


def test_the_command_line_calls_each_stage_once(run: tacit.Run) -> None:
    def ask() -> None:
        result = CliRunner().invoke(app, ["ask", "world", TEXT], catch_exceptions=False)
        assert result.exit_code == 0

    assert stages_of(ask) == ONCE


def test_a_bound_question_is_only_executed(run: tacit.Run) -> None:
    bound = run.engine.prepare(TEXT)
    assert stages_of(lambda: run.ask(bound)) == {"execute": 1}
    assert bind_question(bound, run.graph, {}) is bound


def stages_to(
    run: tacit.Run, text: str, function: Callable[..., object]
) -> tuple[list[int], set[str], set[str]]:
    """The frames on the stack at each call of a function, the modules until then, and all."""
    run.ask(text)
    depths: list[int] = []
    modules: list[set[str]] = [set()]

    def record_module(frame: FrameType) -> None:
        modules[-1].add(frame.f_code.co_filename)
        if frame.f_code is function.__code__:
            depths.append(depth(frame))
            modules.append(set())

    traced(lambda: run.ask(text), record_module)
    return depths, modules[0], set.union(*modules)


def test_a_question_reaches_the_search_on_a_short_way(run: tacit.Run) -> None:
    depths, until, modules = stages_to(run, TEXT, CertifiedReasoner.top)
    # the doors of run and engine, the batches, their questions, and the search
    assert depths == [5]
    assert len(until) <= 29
    assert len(modules) <= 48


def test_an_atom_reaches_the_product_on_a_short_way(run: tacit.Run) -> None:
    depths, until, modules = stages_to(run, "?c : borders(France, ?c)", even_product)
    # then certified search, the search it is based on, its scores, the atom, a row, the model, the
    # product
    assert depths == [12]
    assert len(until) <= 34
    assert len(modules) <= 39
