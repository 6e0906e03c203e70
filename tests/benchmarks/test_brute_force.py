"""The brute force of the benchmarks against exact search, which shares no line with it."""

from __future__ import annotations

import pytest
import torch

import tiny
from brute_force import CALIBRATIONS, BruteForce, hops
from certified import bound_queries
from tacit.engine.engine import Engine
from tacit.links.models import ComplEx
from tacit.query.sampling.sampling import sample
from tacit.query.sampling.shapes import SHAPES


def test_brute_force_finds_what_exact_search_finds() -> None:
    graph = tiny.graph()
    model = ComplEx(graph.num_entities, graph.num_relations, 4).requires_grad_(False)
    model.reset(1.0, torch.Generator().manual_seed(1))
    shapes = ("2p", "3p", "pi", "ip", "up", "inp", "pin", "pni")
    drawn = [
        each
        for name in shapes
        for each in bound_queries(sample(graph, SHAPES[name], "test", 3, seed=2).queries)
    ]
    exact = BruteForce(graph, model)
    values = exact.values(drawn)
    # hops over one relation share its edges
    assert exact.passes < sum(len(hops(each)) for each in drawn)
    for place, name in enumerate(CALIBRATIONS):
        engine = Engine(graph, model, calibration=name, observed="train", search="exact")
        for question, scores, found in zip(drawn, values, engine.ask_many(drawn, 8), strict=True):
            listed = exact.listed(question, scores[place], 8)
            assert list(listed) == [answer.id for answer in found], question.query
            assert list(listed.values()) == pytest.approx(
                [answer.log_score for answer in found], abs=1e-5
            )
