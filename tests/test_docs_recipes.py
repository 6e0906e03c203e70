"""CONTRIBUTING names what exists, and one of its recipes yields explained answers."""

from __future__ import annotations

import re

import pytest
import torch

import tacit
from source_tree import ROOT, SRC
from tacit.engine.reasoner import Reasoner
from tacit.errors import PlanError
from tacit.evaluate.evaluation import evaluate_engine
from tacit.evaluate.protocol import one_hop_queries
from tacit.links.scorer import GraphScorer
from tacit.query.plans.plan import Complement, Plan
from tacit.query.sampling.shapes import SHAPES
from test_imports import LAYERS

PAGE = (ROOT / "CONTRIBUTING.md").read_text(encoding="utf-8")
RECIPES = (ROOT / "docs" / "extending.md").read_text(encoding="utf-8")
HOUSE = [layer for layer in LAYERS if not layer.startswith("__")]


def section(title: str) -> str:
    """The text under a heading of the page."""
    return re.split(r"^## ", PAGE.split(f"\n## {title}\n")[1], maxsplit=1, flags=re.MULTILINE)[0]


def test_the_page_draws_the_layers() -> None:
    (drawn,) = re.findall(
        r"^```\n(errors.*?)^```", section("Layers"), flags=re.MULTILINE | re.DOTALL
    )
    assert re.split(r"\s*->\s*", drawn.strip()) == HOUSE


def test_the_page_says_what_each_layer_holds() -> None:
    rows = re.findall(r"^\| (`.+?) \|", section("Layers"), flags=re.MULTILINE)
    assert [name for row in rows for name in re.findall(r"`([\w.]+)`", row)] == HOUSE


def test_files_that_the_page_names_are_there() -> None:
    named = re.findall(r"`((?:\w+/)+\w+\.py)`", PAGE + RECIPES)
    assert len(named) > 10
    assert [
        name for name in named if not any((base / name).exists() for base in (ROOT, SRC / "tacit"))
    ] == []


def test_types_of_the_glossary_are_there() -> None:
    named = set(re.findall(r"`([A-Z][a-z]\w*)[.`]", section("Words")))
    sources = "".join(path.read_text(encoding="utf-8") for path in SRC.rglob("*.py"))
    assert len(named) > 20
    assert {
        name for name in named if not re.search(rf"^class {name}\b", sources, flags=re.MULTILINE)
    } == set()


@pytest.mark.parametrize(
    "name",
    [
        "NORMS",
        "LOGICS",
        "CALIBRATIONS",
        "MODELS",
        "MODEL_NAMES",
        "FORMATS",
        "BY_MODEL",
        "PRESETS",
    ],
)
def test_names_of_recipes_are_where_the_page_says(name: str) -> None:
    lines = RECIPES.splitlines()
    (row,) = [line for line in lines if line.startswith("|") and f"`{name}`" in line]
    files = re.findall(r"`((?:\w+/)+\w+\.py)`", row)
    assert any(
        re.search(rf"^{name}\b", (SRC / "tacit" / file).read_text(), flags=re.MULTILINE)
        for file in files
    )


def test_a_reasoner_of_ones_own_answers_and_has_no_reasons() -> None:
    class Length(Reasoner):
        """Likes short labels, whatever is asked."""

        def __init__(self, graph: tacit.Graph) -> None:
            self.num_entities = graph.num_entities
            self.liked = -torch.tensor([float(len(label)) for label in graph.entities])

        def scores(
            self, plan: Plan, entities: torch.Tensor, relations: torch.Tensor
        ) -> torch.Tensor:
            return self.liked.expand(len(relations), -1)

    graph = tacit.Graph.of([("France", "borders", "Spain"), ("Spain", "borders", "Oman")])
    scorer = GraphScorer(graph.index(), graph.num_entities)
    engine = tacit.Engine(graph, scorer, reasoner=Length(graph), observed="none")
    answers = engine.ask("?c : borders(France, ?c)")
    assert answers.entities == ["Oman", "Spain", "France"]  # 4, 5 and 6 letters
    explanation = engine.explain("?c : borders(France, ?n) & borders(?n, ?c)", top=1)
    assert explanation.entities == ["Oman"]
    assert explanation.explained is False
    assert explanation.certified is None
    assert explanation[0].witnesses == ()
    assert "no reasons" in str(explanation)
    assert engine.with_settings(k=2).ask("?c : borders(France, ?c)", top=1).entities == ["Oman"]


def test_a_reasoner_of_ones_own_says_what_an_engine_says_of_it() -> None:
    """Its name, settings, refusals and kind of scores are stated, as an encoder's are."""

    class Length(Reasoner):
        """Likes short labels, so many letters off, of what is not denied."""

        name = "Short labels"
        remedy = "ask with search beam"

        def __init__(self, graph: tacit.Graph, longest: int = 4) -> None:
            self.num_entities = graph.num_entities
            self.config = {"longest": longest}
            self.liked = -torch.tensor(
                [float(len(label) - longest) for label in graph.entities]
            ).abs()

        def bind(self, engine: tacit.Engine) -> Reasoner:
            return Length(engine.graph, self.config["longest"] + 2 * engine.settings.loops)

        def unsupported_reason(self, plan: Plan) -> PlanError | None:
            return PlanError("Short labels deny nothing") if plan.has(Complement) else None

        def scores(
            self, plan: Plan, entities: torch.Tensor, relations: torch.Tensor
        ) -> torch.Tensor:
            return self.liked.expand(len(relations), -1)

    graph = tacit.Graph.of(
        [("France", "borders", "Spain"), ("Spain", "borders", "Oman")],
        test=[("Oman", "borders", "Spain")],
    )
    engine = tacit.Engine(
        graph,
        GraphScorer(graph.index(), graph.num_entities),
        reasoner=Length(graph),
        observed="train",
    )
    config = engine.config
    expected = {
        "search": "Short labels",
        "calibration": "none",
        "adapted": False,
        "candidates": "rows",
        "longest": 4,
    }
    assert {name: config[name] for name in expected} == expected
    answers = engine.ask("?c : borders(Oman, ?c)")
    assert answers.entities == ["Oman", "Spain", "France"]
    assert (
        answers.uncalibrated
        == "Scores of Short labels order the answers; they are no probabilities."
    )
    # its settings
    assert engine.with_settings(loops=True).ask("?c : borders(Oman, ?c)", top=1).entities == [
        "France"
    ]
    with pytest.raises(
        PlanError, match=r"asks for a count, and Short labels orders .*; ask with search beam"
    ):
        engine.count("?c : borders(Oman, ?c)")
    denied = "?c : borders(Oman, ?c) & !borders(France, ?c)"
    for refused in (engine.ask, engine.describe):
        with pytest.raises(PlanError, match="Short labels deny nothing"):
            refused(denied)
    assert "rows" not in engine.describe("?c : borders(Oman, ?n) & borders(?n, ?c)")
    queries = one_hop_queries(graph, "test")
    results = evaluate_engine(engine, {"1p": queries}).settings
    assert {name: results[name] for name in ("search", "observed", "longest")} == {
        "search": "Short labels",
        "observed": "train",
        "longest": 4,
    }
    assert not {"k", "logic", "calibration"} & set(results)
    engine.search.check_shapes({"1p": queries.shape.plan})
    with pytest.raises(
        PlanError, match=r"Short labels cannot express 2in \(Short labels deny nothing\); .*: 1p"
    ):
        engine.search.check_shapes({name: SHAPES[name].plan for name in ("1p", "2in")})
