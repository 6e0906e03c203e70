"""No call takes more memory than its budget, beyond the weights and the scores it returns."""

from __future__ import annotations

import ctypes
import os
from pathlib import Path

import numpy as np
import pytest
import torch

from rank_processes import in_processes
from tacit.engine.atoms.atoms import Atoms
from tacit.engine.atoms.calibration import calibration
from tacit.engine.atoms.known_facts import KnownFacts
from tacit.engine.logic import Logic
from tacit.engine.search.message_reasoner import MessageReasoner
from tacit.graph.fact_index import FactIndex
from tacit.links.models import ComplEx
from tacit.query.plans.compile import compile_query
from tacit.query.sampling.shapes import SHAPES
from tacit.query.text import parse

# bytes
ENTITIES = 5_000
RELATIONS = 8
BUDGET = 20e6
SLACK = 4e6  # blocks of fixed size, and what the allocator keeps
STATUS = Path("/proc/self/status")
RESET = Path("/proc/self/clear_refs")

# The calibration, k, the number of queries at once, and the question.
HOPS = "?x : exists ?y . r0(e1, ?y) & r1(?y, ?x)"
CASES = {
    "beam": ("sigmoid", 4096, 1, "?x : exists ?y, ?z . r0(e1, ?y) & r1(?y, ?z) & r2(?z, ?x)"),
    "beam of whole rows": ("softmax-count", 4096, 2, HOPS),
    "exact": ("sigmoid", None, 2, HOPS),
    "exact of whole rows": ("softmax-count", None, 1, HOPS),
    "parallel edges": (
        "softmax-count", 128, 8,
        "?x : exists ?y . r0(e1, ?y) & r1(?y, ?x) & r2(?y, ?x) & !r3(?y, ?x) & (r4(?y, ?x) | "
        "r5(?y, ?x) | r6(?y, ?x))",
    ),
    "condition": (
        "sigmoid", 24, 16,
        "?x : exists ?y, ?z . r0(e1, ?y) & r1(?y, ?z) & r2(?z, ?x) & r3(?y, ?x) & r4(e2, ?z)",
    ),
    "two conditions": (
        "sigmoid", 6, 10,
        "?x : exists ?v, ?y, ?z . r0(e1, ?y) & r1(?y, ?z) & r2(?z, ?x) & r3(?y, ?x) & r4(?v, ?y) & "
        "r5(?v, ?x) & r6(?v, ?z)",
    ),
    "loop": ("sigmoid", 16, 2, "?x : r0(?x, ?x) & r1(e1, ?x)"),
    "many sets": ("softmax-count", 16, 300,
                  "?x : r0(e1, ?x) & r1(e2, ?x) & !r2(e3, ?x) & (r3(e4, ?x) | r4(e5, ?x))"),
}  # fmt: skip


def memory(field: str) -> int:
    """A figure of this process, in bytes."""
    lines = STATUS.read_text().splitlines()
    return next(1024 * int(line.split()[1]) for line in lines if line.startswith(field))


def measure(number: int, budget: float) -> dict[str, float]:
    """The bytes each case takes at its peak, beyond what it returns."""
    random = np.random.default_rng(0)
    facts = KnownFacts(
        FactIndex(
            np.unique(random.integers(0, [ENTITIES, RELATIONS, ENTITIES], (50_000, 3)), axis=0),
            RELATIONS,
        )
    )
    model = ComplEx(ENTITIES, RELATIONS, 4).requires_grad_(False)
    model.reset(0.8, torch.Generator().manual_seed(0))
    found = {}
    for name, (how, k, batch, text) in CASES.items():
        reasoner = MessageReasoner(
            Atoms(model, calibration(how, facts), facts), Logic(), k, budget / 1e9
        )
        plan = compile_query(parse(text)).plan
        entities = torch.from_numpy(random.integers(0, ENTITIES, (batch, plan.num_entities)))
        relations = torch.from_numpy(random.integers(0, RELATIONS, (batch, plan.num_relations)))
        # whatever is made once
        reasoner.scores(SHAPES["1p"].plan, entities[:1, :1], relations[:1, :1])
        ctypes.CDLL(None).malloc_trim(0)
        RESET.write_text("5")
        before = memory("VmRSS")
        mapped = memory("RssFile")
        scores = reasoner.scores(plan, entities, relations)
        # Pages of libraries come and go as the system likes; what is computed is in none of them.
        found[name] = (
            memory("VmHWM") - before - max(0, memory("RssFile") - mapped) - 4.0 * scores.numel()
        )
        del scores, reasoner
    return found


@pytest.fixture(scope="module")
def peaks(tmp_path_factory: pytest.TempPathFactory) -> dict[str, float]:
    """All figures, from one process of its own."""
    if not os.access(RESET, os.W_OK):
        pytest.skip("this system does not tell the peak memory of a process")
    found: dict[str, float] = in_processes(1, tmp_path_factory.mktemp("peaks"), measure, BUDGET)[0]
    return found


@pytest.mark.parametrize("case", CASES)
def test_no_call_takes_more_than_its_budget(case: str, peaks: dict[str, float]) -> None:
    assert peaks[case] <= BUDGET + SLACK, f"{case} took {peaks[case] / 1e6:.0f} MB"
