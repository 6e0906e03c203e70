"""Example questions, drawn from the facts of a graph."""

from __future__ import annotations

import re

import numpy as np

from tacit.graph.graph import INVERSE, Graph
from tacit.query.formula import quoted
from tacit.query.sampling.betae_structures import Ids
from tacit.query.sampling.queries import QuerySet
from tacit.query.sampling.sampling import sample
from tacit.query.sampling.shapes import SHAPES
from tacit.query.text.text import parse
from tacit.query.words.outline import outline
from tacit.query.words.paraphrase import QuestionReader

TRIED = 200  # questions of each shape, of which the best is shown
MOST = 12  # answers
LONGEST = 24  # characters of a name that reads well
SHOWN = ("1p", "2i", "2p", "2in", "2u", "pi")


def examples(graph: Graph) -> list[dict[str, str]]:
    """One question per shape with some but not many answers, the same on each call.

    The best has several answers, relations not shown yet, short names and well-connected entities,
    which people know.
    """
    if not len(graph.train):
        return []
    degrees = np.bincount(graph.train[:, [0, 2]].ravel(), minlength=graph.num_entities)
    used: set[int] = set()  # relations
    shown = []
    reader = QuestionReader(graph)
    for shape in SHOWN:
        drawn = sample(graph, SHAPES[shape], "train", TRIED, max_answers=MOST, waste=0.95).queries

        def rank(row: int, drawn: QuerySet = drawn) -> tuple[bool, int, bool, int]:
            entities = drawn.entities[row]
            relations = drawn.relations[row] & ~1
            short = all(len(graph.entities[i]) <= LONGEST for i in entities)
            return (
                int(drawn.hard.counts[row]) > 1,
                len({*relations} - used),
                short,
                int(degrees[entities].min()),
            )

        if len(drawn):
            best = max(range(len(drawn)), key=rank)
            used.update(drawn.relations[best] & ~1)
            query = written(shape, graph, drawn.entities[best], drawn.relations[best])
            shown.append(
                {"query": query, "shape": shape, "title": reader.sentence(outline(parse(query)))}
            )
    return shown


def written(shape: str, graph: Graph, entities: Ids, relations: Ids) -> str:
    """Writes a question of a shape in the text syntax, with its slots filled."""
    words = {f"e{i}": quoted(graph.entities[e]) for i, e in enumerate(entities, start=1)} | {
        f"r{i}": quoted(graph.relations[r & ~1]) + INVERSE * (r & 1)
        for i, r in enumerate(relations, start=1)
    }
    template = str(SHAPES[shape].query).replace("?t", "?x").replace("?v1", "?y")
    return str(parse(re.sub(r"\b[er]\d\b", lambda slot: words[slot[0]], template)))
