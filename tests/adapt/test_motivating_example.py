"""The paper's example: one relation's scores drown another's until adaptation.

*Which people are German and produced the music of Constantine?* The link predictor is all but sure
of every pair of a film and a musician (6.9 and more), and unsure of every country (1.2 and less).
It does rank Klaus Badelt first for the film, but through a sigmoid 8.9 and 7.4 are both 0.999: what
decides is the country, where Sam Shepard is ahead.
"""

from __future__ import annotations

import numpy as np
import pytest

from tables import TableScorer
from tacit.adapt.adaptation import adapt
from tacit.adapt.settings import AdaptSettings
from tacit.engine.engine import Engine
from tacit.graph.graph import Graph
from tacit.query.formula import And, Atom, Entity, Query, Variable
from tacit.query.plans.sets import AnswerSets
from tacit.query.sampling.queries import QuerySet
from tacit.query.sampling.shapes import SHAPES

PEOPLE = ("Klaus Badelt", "Sam Shepard", "Hans Zimmer", "John Williams", "Danny Elfman")
COUNTRY = {  # raw scores of country(·, person)
    "Germany": (0.5, 1.2, 0.4, 0.6, 0.3),
    "USA": (0.7, 1.1, 0.9, 0.5, 0.8),
}
PRODUCER = {  # raw scores of producerOf(·, person): the right one is always the highest
    "Constantine": (8.9, 7.4, 7.9, 6.9, 7.0),
    "Gladiator": (7.8, 7.5, 9.1, 7.1, 6.9),
    "Jaws": (7.0, 7.6, 7.3, 8.8, 7.7),
    "Batman": (6.9, 7.2, 7.5, 7.6, 8.7),
}
GRAPH = Graph.of(
    [
        *((country, "country", person) for country in COUNTRY for person in PEOPLE),
        *((film, "producerOf", person) for film in PRODUCER for person in PEOPLE),
    ]
)
LEARNED = (
    ("Germany", "Gladiator", "Hans Zimmer"),
    ("USA", "Jaws", "John Williams"),
    ("USA", "Batman", "Danny Elfman"),
)
QUESTION = Query(
    Variable("t"),
    And(
        (
            Atom("country", Entity("Germany"), Variable("t")),
            Atom("producerOf", Entity("Constantine"), Variable("t")),
        )
    ),
)


def link_predictor() -> TableScorer:
    tables = []
    for rows in (COUNTRY, PRODUCER):
        logits = np.full((GRAPH.num_entities, GRAPH.num_entities), -9.0)
        for head, scores in rows.items():
            logits[GRAPH.entities.id(head), [GRAPH.entities.id(person) for person in PEOPLE]] = (
                scores
            )
        tables.append(1 / (1 + np.exp(-logits)))
    return TableScorer(tables)


def other_questions() -> QuerySet:
    """Three questions with known answers; neither Constantine nor Klaus Badelt is in them."""
    entity = GRAPH.entities.id
    relation = GRAPH.relations.id
    return QuerySet(
        SHAPES["2i"],
        np.array([[entity(country), entity(film)] for country, film, _ in LEARNED], dtype=np.int32),
        np.array([[relation("country"), relation("producerOf")]] * len(LEARNED), dtype=np.int32),
        AnswerSets.none(len(LEARNED)),
        AnswerSets.of([{entity(person)} for _, _, person in LEARNED]),
    )


@pytest.mark.parametrize("loss", ["1vsall", "bce", "log"])
def test_adaptation_recovers_the_answer_that_one_relation_drowned(loss: str) -> None:
    scorer = link_predictor()
    options = {"calibration": "sigmoid", "strength": 1.0, "observed": "none"}
    before = Engine(GRAPH, scorer, **options).ask(QUESTION, top=2)
    assert before.entities == ["Sam Shepard", "John Williams"]
    # the film might as well not be there
    assert before[0].score == pytest.approx(0.769 * 0.999, abs=1e-3)

    settings = AdaptSettings(
        shapes=("2i",),
        calibration="sigmoid",
        loss=loss,
        steps=300,
        batch=24,
        patience=100,
        device="cpu",
    )
    result = adapt(GRAPH, scorer, {"2i": other_questions()}, settings)
    after = Engine(GRAPH, scorer, adapter=result.calibration, **options).ask(QUESTION, top=2)
    assert after.entities[0] == "Klaus Badelt"

    # What was learned: scores of producerOf are moved down to where a sigmoid tells them apart.
    scale, shift = result.adapter.table()
    film = GRAPH.relations.id("producerOf")
    sure, less_sure = (
        1 / (1 + np.exp(-(x * scale[film].item() + shift[film].item()))) for x in (8.9, 7.4)
    )
    assert sure - less_sure > 0.1
