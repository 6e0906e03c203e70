"""Values in answers: columns, orders, pages, reasons, and which searches compare them."""

from __future__ import annotations

import csv
import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor

from odd_values import OddPredictor
from tables import FactorScorer
from tacit.encode.networks.query_graph import query_graphs
from tacit.engine.engine import Engine
from tacit.errors import PlanError, QueryError
from tacit.graph.attributes import Attribute, Attributes
from tacit.graph.graph import SPLITS, Graph
from tacit.graph.quantities import Quantity
from tacit.links.models import ComplEx
from tacit.links.values.predictor import PredictedValue, ValuePredictor
from tacit.query.attribute_words import AttributeWords
from tacit.query.plans.compile import compile_query
from tacit.query.text import parse

FACTS = [
    ("Brazil", "borders", "Suriname"),
    ("Brazil", "borders", "Guyana"),
    ("Brazil", "borders", "Peru"),
    ("Brazil", "borders", "Chile"),
    ("Peru", "borders", "Chile"),
]
ATTRIBUTES = [
    Attribute("population"),
    Attribute("area", "number", "km²"),
    Attribute("born", "date"),
]
VALUES = [
    ("Brazil", 0, "203_000_000", "train"),
    ("Suriname", 0, "592_000", "train"),
    ("Guyana", 0, "786_000", "train"),
    ("Peru", 0, "34_000_000", "valid"),
    ("Suriname", 1, "163_821", "train"),
    ("Brazil", 2, "1822-09-07", "train"),
    ("Peru", 2, "1821", "train"),
    ("Guyana", 2, "1966-05", "train"),
]


def graph() -> Graph:
    facts = Graph.of(FACTS)
    rows = []
    for name, attribute, text, split in VALUES:
        quantity = Quantity.parse(text, ATTRIBUTES[attribute].kind)
        assert quantity is not None
        rows.append((facts.entities.id(name), attribute, quantity, SPLITS.index(split)))
    return replace(facts, attributes=Attributes.of(ATTRIBUTES, rows))


class Flat(ValuePredictor):
    """Every missing value lies evenly between two numbers, and is there with probability 0.8."""

    low, high = 500_000.0, 2_500_000.0

    def __init__(self, size: int) -> None:
        self.size = size

    def share(self, low: float, high: float) -> float:
        inside = min(high, self.high) - max(low, self.low)
        return 0.8 * max(0.0, inside) / (self.high - self.low)

    def probability(self, attribute: int, low: float, high: float) -> Tensor:
        return torch.full((self.size,), self.share(low, high))

    def difference(self, left: int, right: int, sources: Tensor, low: float, high: float) -> Tensor:
        return torch.full((len(sources), self.size), 0.32)  # as likely larger as smaller

    def predicted(self, attribute: int, entity: int, level: float = 0.8) -> PredictedValue | None:
        return PredictedValue(1.5e6, 0.7e6, 2.3e6, level, 0.8) if attribute == 0 else None


def engine(predicts: bool = True, **changes: Any) -> Engine:
    known = graph()
    size = known.num_entities
    table = np.full((size, size), 0.25)
    settings: dict[str, Any] = {"calibration": "sigmoid", "observed": "train", "search": "exact"}
    settings |= changes
    predictor = Flat(size) if predicts else None
    return Engine(known, FactorScorer([table]), values=predictor, **settings)


def test_a_known_value_decides_and_a_missing_one_has_its_probability() -> None:
    answers = engine().ask("?c : borders(Brazil, ?c) & population(?c) < 1_000_000", explain=True)
    fact = 1 - 2.0**-10
    scores = {answer.entity: (answer.score, answer.known) for answer in answers}
    assert scores["Suriname"] == (pytest.approx(fact), True)
    assert scores["Guyana"] == (pytest.approx(fact), True)
    assert scores["Chile"] == (pytest.approx(fact * 0.8 * 0.25), False)  # 0.5 M to 1 M of 2 M
    assert "Brazil" not in scores  # 203 M
    assert [str(each) for each in answers[0].witnesses[0].comparisons] == [
        "population(Suriname) = 592,000 < 1,000,000  known"
    ]
    chile = next(answer for answer in answers if answer.entity == "Chile")
    assert [str(each) for each in chile.witnesses[0].comparisons] == [
        "population(Chile) predicted 1.5 M (0.7–2.3 M) < 1,000,000: 0.20"
    ]
    assert chile.witnesses[0].lines()[-1] == ("1 of 2 atoms predicted", False)
    assert "population(Chile) predicted 1.5 M (0.7–2.3 M) &lt; 1,000,000: 0.20" in (
        answers._repr_html_()
    )
    without = engine(predicts=False).ask("?c : borders(Brazil, ?c) & population(?c) < 1_000_000")
    assert set(without.entities) == {"Suriname", "Guyana"}


def test_a_value_beside_a_missing_one_stands_for_itself() -> None:
    """Of 786,000 and a number evenly between 0.5 M and 2.5 M the second is larger by 1.714 / 2."""
    answers = engine().ask("?c : borders(Brazil, ?c) & population(?c) > population(Guyana)")
    chile = next(answer for answer in answers if answer.entity == "Chile")
    share = 0.8 * (2_500_000 - 786_000) / 2_000_000
    assert chile.score == pytest.approx((1 - 2.0**-10) * share)
    turned = engine().ask(": population(Guyana) < population(Chile)", explain=True)
    assert turned[0].score == pytest.approx(share)
    written = "population(Chile) predicted 1.5 M (0.7–2.3 M) > population(Guyana) = 786,000: 0.69"
    assert written in str(turned)


def test_values_of_other_splits_are_known_where_facts_are() -> None:
    text = "?c : borders(Brazil, ?c) & population(?c) > 30_000_000"
    assert [a.entity for a in engine().ask(text) if a.known] == []
    both = engine(observed="train,valid")
    assert [a.entity for a in both.ask(text) if a.known] == ["Peru"]
    nothing = engine(observed="none")
    assert not nothing.ask(": population(Suriname)")[0].known


def test_answers_show_the_values_that_are_asked_for(tmp_path: Path) -> None:
    answers = engine().ask("?c, ?n : borders(Brazil, ?c) & ?n = population(?c)", top=4)
    assert answers.variables == ("c",)
    assert answers.quantities == ("?n",)
    found = {answer.entity: answer.quantities["?n"] for answer in answers}
    assert str(found["Suriname"]) == "592,000"
    assert str(found["Chile"]) == "1.5 M (0.7–2.3 M)"
    chile = next(a for a in json.loads(answers.to_json())["answers"] if a["entity"] == "Chile")
    assert chile["quantities"]["?n"] == {
        "attribute": "population", "kind": "number", "unit": "", "value": 1.5e6, "known": False,
        "text": "1.5 M (0.7–2.3 M)", "low": 0.7e6, "high": 2.3e6, "level": 0.8, "presence": 0.8,
    }  # fmt: skip
    pytest.importorskip("pandas")
    table = answers.to_pandas().set_index("entity")
    assert table.loc["Suriname", ["?n", "?n known"]].tolist() == [592_000, True]
    assert table.loc["Chile", ["?n", "?n low", "?n high"]].tolist() == [1.5e6, 0.7e6, 2.3e6]
    answers.to_csv(tmp_path / "answers.csv")
    answers.to_rdf(tmp_path / "answers.nt")
    head = (tmp_path / "answers.csv").read_text("utf-8").splitlines()[0]
    assert head == "rank,entity,name,score,known,?n,?n known,?n low,?n high"
    assert '"592000.0"^^<http://www.w3.org/2001/XMLSchema#double>' in (
        (tmp_path / "answers.nt").read_text("utf-8")
    )
    lines = str(answers).splitlines()
    assert lines[1].split() == ["?c", "?n"]
    assert "Suriname  592,000" in str(answers)
    assert "Chile" in answers._repr_html_()


def test_files_have_values_in_full(tmp_path: Path) -> None:
    facts = [("a", "size", "12345678901"), ("b", "size", "0.123456789012"), ("c", "size", "2")]
    dates = [("a", "born", "12345"), ("b", "born", "-0043-03"), ("c", "born", "12345-06-01")]
    known = Graph.of([*facts, *dates], attributes=["size", "born[date]"])
    answers = Engine.of_facts(known).ask("?x, ?n, ?b : ?n = size(?x) & ?b = born(?x)")
    answers.to_csv(tmp_path / "answers.csv")
    with (tmp_path / "answers.csv").open(newline="", encoding="utf-8") as file:
        rows = {row["entity"]: (row["?n"], row["?b"]) for row in csv.DictReader(file)}
    stated = zip(facts, dates, strict=True)
    assert rows == {fact[0]: (fact[2], date[2]) for fact, date in stated}
    answers.to_rdf(tmp_path / "answers.nt")
    written = (tmp_path / "answers.nt").read_text("utf-8")
    for text, kind in (("12345", "gYear"), ("-0043-03", "gYearMonth"), ("12345-06-01", "date")):
        assert f'"{text}"^^<http://www.w3.org/2001/XMLSchema#{kind}>' in written


def test_several_values_are_those_within_the_bounds_in_the_order_of_the_question() -> None:
    sizes = [("a", "1"), ("a", "5"), ("a", "9"), ("b", "2"), ("b", "4"), ("b", "20"), ("c", "8")]
    facts = [(entity, "r", "d") for entity in "abc"]
    known = Graph.of([*facts, *((e, "size", n) for e, n in sizes)], attributes=["size"])

    def shown(text: str) -> list[tuple[str, str]]:
        answers = Engine.of_facts(known).ask(f"?x, ?n : r(?x, d) & ?n = size(?x) {text}")
        return [(answer.entity, str(answer.quantities["?n"])) for answer in answers]

    largest = [("b", "20 or 4 or 2"), ("a", "9 or 5 or 1"), ("c", "8")]
    assert shown("order by ?n desc") == largest
    assert shown("& 3 < ?n < 10 order by ?n") == [("b", "4"), ("a", "5 or 9"), ("c", "8")]
    assert shown("& ?n < 9 & size(?x) > 1 order by ?n desc") == [
        ("c", "8"), ("a", "5"), ("b", "4 or 2"),
    ]  # fmt: skip
    # another variable of the same name
    assert shown("& (exists ?x . size(?x) > 8 & r(?x, d)) order by ?n desc") == largest
    # a denied bound selects none of them
    assert shown("& !(size(?x) > 15) order by ?n desc") == [("a", "9 or 5 or 1"), ("c", "8")]


def test_texts_show_few_of_many_values_and_reasons_those_that_satisfy() -> None:
    facts = [("a", "r", "b"), *(("a", "size", str(n)) for n in range(2000))]
    known = Graph.of(facts, attributes=["size"])
    scorer = FactorScorer([np.full((2, 2), 0.25)])
    asked = Engine(known, scorer, calibration="sigmoid")
    assert "size(a) = 0 or 1 or 2 or 3 or 4 or 1,995 more  1.000" in str(asked.ask("size(a)"))
    (answer,) = asked.ask(": size(a) > 1990 & !(size(a) < 0)", explain=True)
    assert [str(each) for each in answer.witnesses[0].comparisons] == [
        "size(a) = 1,991 or 1,992 or 1,993 or 1,994 or 1,995 or 4 more > 1,990  known",
        "not size(a) = 0 or 1 or 2 or 3 or 4 or 1,995 more < 0  known",
    ]


def test_a_value_alone_is_the_answer() -> None:
    assert "population(Suriname) = 592,000  1.000  known" in str(
        engine().ask("population(Suriname)")
    )
    assert "?d = 1822-09-07" in str(engine().ask("?d : ?d = born(Brazil)"))
    (predicted,) = engine().ask(": population(Chile)")
    assert predicted.score == pytest.approx(0.8)
    assert not predicted.known
    (missing,) = engine().ask("area(Chile)")
    assert missing.quantities == {"area(Chile)": None}
    assert "area(Chile) = –" in str(engine(predicts=False).ask("area(Chile)"))


def test_an_order_takes_known_and_likely_answers_and_pages_after_it() -> None:
    asked = engine()
    whole = asked.ask("?c : borders(Brazil, ?c) order by population desc", top=None)
    assert whole.entities == ["Peru", "Chile", "Guyana", "Suriname"]  # two predicted: 1.5 M
    assert asked.ask("?c : borders(Brazil, ?c) order by population").entities == [
        "Suriname", "Guyana", "Peru", "Chile",
    ]  # fmt: skip
    page = asked.ask("?c : borders(Brazil, ?c) order by population desc", top=2, offset=1)
    assert page.entities == ["Chile", "Guyana"]
    assert [rank for rank, _ in page.ranked] == [2, 3]
    assert page.cut_by == "top"
    assert whole.cut_by is None
    # what has no value comes last, whichever way the order goes
    for direction in ("", " desc"):
        born = asked.ask(f"?c : borders(Brazil, ?c) order by born{direction}").entities
        assert set(born[2:]) == {"Suriname", "Chile"}
        assert born[:2] == (["Guyana", "Peru"] if direction else ["Peru", "Guyana"])
    second = asked.ask("?c : borders(Brazil, ?c) order by area desc, born desc").entities
    assert second[:3] == ["Suriname", "Guyana", "Peru"]
    wider = asked.ask("?c : borders(?c, Brazil) order by population", min_score=0.1)
    assert len(wider) > len(asked.ask("?c : borders(?c, Brazil) order by population"))
    reasons = asked.ask("?c : borders(Brazil, ?c) order by population", top=1, explain=True)
    assert [atom.object for atom in reasons[0].witnesses[0].atoms] == ["Suriname"]


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("size(b) - size(a) > 2", "size(b) = 5 km less size(a) = 1 km: the difference > 2 km"),
        ("size(a) - size(b) < -2", "size(b) = 5 km less size(a) = 1 km: the difference > 2 km"),
        (
            "-9 < size(a) - size(b) <= 2",
            "size(b) = 5 km less size(a) = 1 km: -2 km <= the difference < 9 km",
        ),
        (
            "born(b) - born(a) >= P1D",
            "born(b) = 1950-01-03 less born(a) = 1950-01-01: the difference >= 1 days",
        ),
        ("ran(b) - ran(a) > PT30M", "ran(b) = PT2H less ran(a) = PT1H: the difference > PT30M"),
    ],
)
def test_differences_in_reasons_have_units_and_positive_bounds(text: str, says: str) -> None:
    facts = [("a", "size", "1"), ("b", "size", "5"), ("a", "ran", "PT1H"), ("b", "ran", "PT2H"),
             ("a", "born", "1950-01-01"), ("b", "born", "1950-01-03"), ("a", "r", "b")]  # fmt: skip
    known = Graph.of(facts, attributes=["size[km]", "ran", "born"])
    asked = Engine(known, FactorScorer([np.full((2, 2), 0.25)]), calibration="sigmoid")
    (answer,) = asked.ask(f": {text}", explain=True)
    assert [str(each) for each in answer.witnesses[0].comparisons] == [f"{says}  known"]


def test_pairs_are_ordered_and_counted() -> None:
    asked = engine()
    pairs = asked.ask("?a, ?b : borders(?a, ?b) order by population(?b), population(?a) desc")
    assert [tuple(answer.values.values()) for answer in pairs][:3] == [
        ("Brazil", "Suriname"), ("Brazil", "Guyana"), ("Brazil", "Peru"),
    ]  # fmt: skip
    larger = asked.ask("?a, ?b : borders(?a, ?b) & population(?a) > population(?b)", top=None)
    known = [tuple(answer.values.values()) for answer in larger if answer.known]
    assert sorted(known) == [("Brazil", "Guyana"), ("Brazil", "Suriname")]
    assert larger.known_total == 2
    counted = engine(predicts=False).count("?c : borders(Brazil, ?c) & population(?c) > 700_000")
    assert counted.known == 1
    fresh = asked.ask("?c : borders(Brazil, ?c) & population(?c) < 1_000_000", new=True)
    assert "Suriname" not in fresh.entities
    assert fresh.left_out == 2


def test_comparisons_alone_are_a_question() -> None:
    for search in ("exact", "beam", "certified", "symbolic"):
        asked = engine(predicts=False, search=search)
        assert asked.ask("?c : population(?c) > 700_000").entities == ["Brazil", "Guyana"]
        assert asked.ask("?c : born(?c) < 1822").entities == ["Peru"]
        assert asked.ask("?c : born(?c) = 1966").entities == ["Guyana"]
        assert asked.ask("?c : borders(Brazil, ?c) & !population(?c)").entities[0] in (
            "Peru", "Chile",
        )  # fmt: skip


@pytest.mark.parametrize(
    "text",
    [
        "?c : borders(Brazil, ?x) & borders(?x, ?c) & size(?c) > size(?x)",
        "?c : borders(?x, ?c) & size(?x) > 2",
        "?c : borders(?c, ?x) & borders(?x, ?y) & size(?x) > size(?y) & !(age(?c) < 2)",
        "?c : borders(?c, ?x) & age(?x) > size(?x) & (size(?c) > 1 | age(?c) = 3)",
    ],
)
def test_every_search_and_list_gives_the_answers_of_exact_search(text: str) -> None:
    known = graph()
    size = known.num_entities
    random = np.random.default_rng(3)
    sizes = Attributes.of(
        [Attribute("size"), Attribute("age")],
        [(e, a, Quantity(float(random.integers(5))), 0) for e in range(3) for a in range(2)],
    )
    known = replace(known, attributes=sizes)
    model = ComplEx(size, known.num_relations, 8).requires_grad_(False).eval()
    settings: dict[str, Any] = {"calibration": "sigmoid"}
    exact = Engine(known, model, search="exact", values=OddPredictor(size), **settings)
    expected = exact.ask(text, top=None)
    beam = {"search": "beam", "k": size}
    for changes in (beam, {"search": "certified"}, {**beam, "candidates": "scan"}):
        found = exact.with_settings(**changes).ask(text, top=None)
        assert found.entities == expected.entities
        assert [a.score for a in found] == pytest.approx([a.score for a in expected], abs=1e-6)
    with pytest.raises(PlanError, match="no comparison of values"):
        exact.with_settings(search="continuous").ask("?c : borders(Brazil, ?c) & size(?c) > 2")


def test_searches_without_values_refuse_comparisons() -> None:
    plan = compile_query(parse("?c : borders(Brazil, ?c) & size(?c) > 2")).plan
    with pytest.raises(PlanError, match="comparison of a value"):
        query_graphs(plan)


def test_plans_and_errors_are_for_readers() -> None:
    asked = engine()
    plan = asked.describe("?c : borders(Brazil, ?c) & 1900 <= born(?c) < 1970 & area(?c) > 5 km²")
    assert "?c: 1900 <= born(?c) < 1970" in plan
    assert "?c: area(?c) > 5 km²" in plan
    with pytest.raises(QueryError, match="at column 6; write it in km²"):
        asked.ask("?c : area(?c) > 5 m²")
    with pytest.raises(QueryError, match="no column"):
        asked.count("?c, ?n : borders(Brazil, ?c) & ?n = population(?c)")


def test_a_service_replies_with_values_and_comparisons() -> None:
    pytest.importorskip("pydantic")
    from tacit.server.schemas import AnswersReply

    text = "?c, ?n : borders(Brazil, ?c) & ?n = population(?c) & ?n > population(Suriname)"
    answers = engine().ask(f"{text} order by ?n", explain=True).to_dict()
    reply = AnswersReply.model_validate(answers).model_dump(exclude_unset=True)
    assert reply == answers
    (guyana,) = (row for row in reply["answers"] if row["entity"] == "Guyana")
    assert guyana["quantities"]["?n"]["value"] == 786_000
    parts = guyana["witnesses"][0]["tree"]["parts"]
    (part,) = (p for p in parts if "population(Suriname)" in p.get("text", ""))
    assert [value["value"] for value in part["comparison"]["values"]] == [592_000, 786_000]
    assert (part["comparison"]["low"], part["comparison"]["high"]) == (None, 0.0)


@pytest.mark.parametrize(
    ("other", "unit", "written"),
    [
        (1998.0, "", "founded(Bolt) = 2011 > 2010  known"),
        (2999.0, "", "founded(Bolt) = 2011 > 2010  known"),
        (3000.0, "", "founded(Bolt) = 2,011 > 2,010  known"),
        (999.0, "", "founded(Bolt) = 2,011 > 2,010  known"),
        (1998.5, "", "founded(Bolt) = 2,011 > 2,010  known"),
        (1998.0, "kg", "founded(Bolt) = 2,011 kg > 2,010 kg  known"),
    ],
)
def test_years_have_no_separators_where_all_known_values_look_like_years(
    other: float, unit: str, written: str
) -> None:
    facts = Graph.of([("Acme", "in", "Lyon"), ("Bolt", "in", "Lyon")])
    rows = [(0, 0, Quantity(other), 0), (2, 0, Quantity(2011.0), 0)]
    assert facts.entities[2] == "Bolt"
    firms = replace(facts, attributes=Attributes.of([Attribute("founded", unit=unit)], rows))
    known = Engine(firms, FactorScorer([np.full((3, 3), 0.25)]), calibration="sigmoid")
    found = known.ask("?f : founded(?f) > 2010 & in(?f, Lyon)", explain=True)
    bolt = next(answer for answer in found if answer.entity == "Bolt")
    assert [str(each) for each in bolt.witnesses[0].comparisons] == [written]


def test_predicted_years_are_written_to_the_year() -> None:
    class Years(Flat):
        def predicted(
            self, attribute: int, entity: int, level: float = 0.8
        ) -> PredictedValue | None:
            return PredictedValue(1987.3, 1949.6, 2004.1, level, 0.8)

    facts = Graph.of([("Acme", "in", "Lyon"), ("Bolt", "in", "Lyon")])
    rows = Attributes.of([Attribute("founded")], [(0, 0, Quantity(1998.0), 0)])
    firms = replace(facts, attributes=rows)
    scorer = FactorScorer([np.full((3, 3), 0.25)])
    found = Engine(firms, scorer, values=Years(3), calibration="sigmoid").ask("founded(Bolt)")
    assert "founded(Bolt) = 1987 (1950–2004)" in str(found)


def test_an_attribute_of_years_is_described_without_separators() -> None:
    facts = Graph.of([("Acme", "in", "Lyon"), ("Bolt", "in", "Lyon")])
    rows = [(0, 0, Quantity(1998.0), 0), (2, 0, Quantity(2011.0), 1)]
    words = AttributeWords(replace(facts, attributes=Attributes.of([Attribute("founded")], rows)))
    assert words.describe("founded")["range"] == "1998 to 2011"
