"""A graph of a few hundred facts with queries and a run, on which every script can be tried."""

from __future__ import annotations

import random
from pathlib import Path

from tacit.graph.formats.betae import write_betae
from tacit.graph.graph import Graph
from tacit.graph.split import split
from tacit.links.settings import TrainSettings
from tacit.links.training.link_training import train
from tacit.query.sampling.queries import write_queries
from tacit.query.sampling.sampling import sample
from tacit.query.sampling.shapes import SHAPES
from tacit.run_folder.folder import RunFolder

ENTITIES = ["France", "Germany", "Spain", *(f"e{i}" for i in range(3, 24))]
RELATIONS = ["borders", "speaks", "likes"]
FACTS = 200
QUERIES = 4


def graph() -> Graph:
    """The graph, cut into train, valid and test."""
    draw = random.Random(0)
    facts = {
        (draw.choice(ENTITIES), draw.choice(RELATIONS), draw.choice(ENTITIES)) for _ in range(FACTS)
    }
    return split(Graph.of(sorted(facts), name="tiny"), 0.15, 0.15)


def write_data(folder: Path) -> Path:
    """The graph with queries of all shapes, under the names of both benchmarks."""
    facts = graph()
    for name in ("NELL995", "FB15k-237"):
        write_betae(facts, folder / name)
        write_queries(
            folder / name,
            "train",
            [sample(facts, SHAPES[s], "train", QUERIES).queries for s in ("2i", "3i")],
        )
        for part in ("valid", "test"):
            write_queries(
                folder / name,
                part,
                [sample(facts, s, part, QUERIES).queries for s in SHAPES.values()],
            )
    return folder


def write_run(folder: Path) -> Path:
    """A run that was hardly trained."""
    facts = graph()
    settings = TrainSettings(rank=4, epochs=1, device="cpu")
    run = RunFolder.create(folder, facts, settings.to_dict())
    train(facts, settings, run, progress=False)
    return run.path
