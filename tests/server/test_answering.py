"""What a worker does with a job: settings of a request on top of the service's own."""

from __future__ import annotations

import json

from tacit.engine.engine import Engine
from tacit.graph.graph import Graph
from tacit.links.loading import make_model
from tacit.server.answering import Answerer
from tacit.server.jobs import Job, Kind
from tacit.server.settings import Limits


def test_continuous_search_works_whatever_the_calibration_of_the_service() -> None:
    graph = Graph.of([("a", "r", "b"), ("b", "r", "c")])
    engine = Engine(graph, make_model("complex", graph.num_entities, graph.num_relations, 4), steps=2)
    assert not engine.atoms.calibration.pointwise
    reply = Answerer(engine, Limits()).replies([Job(Kind.ASK, "?x : r(a, ?x)", changes=(("search", "continuous"),))])[0]
    assert reply.status == 200
    assert {row["entity"] for row in json.loads(reply.body)["answers"]} == {"a", "b", "c"}
