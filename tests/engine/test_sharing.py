"""One engine for many threads and processes: each gets the answers it would get alone."""

from __future__ import annotations

import multiprocessing
import os
import pickle
import sys
from concurrent.futures import ThreadPoolExecutor

import pytest
import torch

from tacit.adapt.adapter import Adapter
from tacit.adapt.calibrated import Adapted
from tacit.engine.answers.answers import Answers
from tacit.engine.atoms.calibration import calibration
from tacit.engine.atoms.known_facts import KnownFacts
from tacit.engine.engine import Engine
from tacit.graph.graph import Graph
from tacit.links.models import ComplEx

SIZE = 120
FACTS = [
    (f"e{i}", f"r{(i * j) % 3}", f"e{(7 * i + j) % SIZE}") for i in range(SIZE) for j in range(1, 4)
]
GRAPH = Graph.of(FACTS)
TEXTS = [
    text.format(i=i)
    for i in range(4)
    for text in (
        "?x : r0(e{i}, ?x)",
        "?x : r0(e{i}, ?y) & r1(?y, ?x)",
        "?x : r1(e{i}, ?x) & !r2(e3, ?x)",
        "?x : r0(e{i}, ?x) | r2(?x, e9)",
        "?x : r0(e{i}, ?y) & r1(?y, ?z) & r2(?z, ?x) & r0(?y, ?x)",
    )
]


def make_engine(search: str, how: str) -> Engine:
    model = ComplEx(GRAPH.num_entities, GRAPH.num_relations, 16).requires_grad_(False).eval()
    model.reset(0.7, torch.Generator().manual_seed(0))
    adapter = Adapter(model).requires_grad_(False).eval()
    adapted = Adapted(calibration(how, KnownFacts(GRAPH.index())), adapter)
    return Engine(GRAPH, model, adapter=adapted, calibration=how, search=search, k=16)


def shown(answers: Answers) -> object:
    return [(a.entity, a.score, a.known, a.witnesses) for a in answers], answers.certified


@pytest.mark.parametrize("search", ["certified", "exact"])
@pytest.mark.parametrize("how", ["sigmoid", "softmax-count"])
def test_an_engine_answers_the_same_inside_inference_mode_and_after_it(
    search: str, how: str
) -> None:
    outside = make_engine(search, how)
    engine = make_engine(search, how)
    with torch.inference_mode():
        scores = engine.reasoner.scores(
            engine.prepare(TEXTS[1]).compiled.plan, torch.tensor([[0]]), torch.tensor([[0, 2]])
        )
        inside = engine.ask_many(TEXTS[:5])
    assert scores.shape == (1, GRAPH.num_entities)
    assert inside == engine.ask_many(TEXTS[:5]) == outside.ask_many(TEXTS[:5])


def test_what_a_first_question_in_inference_mode_builds_serves_outside_of_it() -> None:
    engine = make_engine("exact", "softmax-count")
    with torch.inference_mode():
        engine.ask(TEXTS[0])
    facts = engine.atoms.facts
    assert facts is not None
    built = [value for value in vars(facts).values() if isinstance(value, torch.Tensor)]
    assert built
    assert not any(tensor.is_inference() for tensor in built)


@pytest.mark.parametrize("search", ["beam", "exact"])
@pytest.mark.parametrize("how", ["sigmoid", "softmax-count"])
def test_threads_that_share_an_engine_get_the_answers_they_would_get_alone(
    search: str, how: str
) -> None:
    engine = make_engine(search, how)
    jobs = [
        *((engine.ask, text) for text in TEXTS),
        *((engine.explain, text) for text in TEXTS[:10]),
        *((engine.ask_many, TEXTS[i : i + 10]) for i in range(0, 15, 5)),
    ]

    def run(job: tuple) -> object:
        found = job[0](job[1], top=5)
        return [shown(one) for one in found] if isinstance(found, list) else shown(found)

    alone = [run(job) for job in jobs]
    with ThreadPoolExecutor(8) as pool:
        for _ in range(2):
            assert list(pool.map(run, jobs)) == alone


def test_an_engine_can_be_pickled() -> None:
    engine = make_engine("beam", "softmax-count")
    before = shown(engine.explain(TEXTS[1]))  # whatever it keeps for itself is there
    assert shown(pickle.loads(pickle.dumps(engine)).explain(TEXTS[1])) == before


@pytest.mark.skipif(not hasattr(os, "fork"), reason="this system does not fork")
def test_an_engine_can_be_forked() -> None:
    """Also after several threads have computed, which a forked process does not have."""
    engine = make_engine("exact", "sigmoid")
    threads = torch.get_num_threads()
    torch.set_num_threads(2)
    try:
        torch.ones(2000, 2000) @ torch.ones(2000, 2000)
        before = shown(engine.ask(TEXTS[1]))
        context = multiprocessing.get_context("fork")
        ours, theirs = context.Pipe()
        child = context.Process(target=lambda: theirs.send(shown(engine.ask(TEXTS[1]))))
        child.start()
        try:
            assert ours.poll(60), "the forked process hangs"
            assert ours.recv() == before
        finally:
            child.kill()  # it has the files of this process, and would keep them open
            child.join()
    finally:
        torch.set_num_threads(threads)
        sys.stdout.flush()
