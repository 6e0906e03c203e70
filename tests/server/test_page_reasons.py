"""Reasons on the page: their drawing, what carried them, and how far they are proven."""

from __future__ import annotations

import re
from typing import Any

from visits import Visit, at_every_size, needs_chromium

pytestmark = needs_chromium
QUERY = "?x : exists ?y . borders(France, ?y) & borders(?y, ?x)"


def overlap(one: Any, other: Any) -> bool:
    return all(
        one[start] + one[size] > other[start] + 1 and other[start] + other[size] > one[start] + 1
        for start, size in (("x", "width"), ("y", "height"))
    )


@at_every_size
def test_an_answer_opens_its_reason_as_a_graph(visit: Visit) -> None:
    page = visit.page
    page.fill(
        "#question", "?x : exists ?y . borders(France, ?y) & borders(?y, ?x) & !speaks(?x, French)"
    )
    page.keyboard.press("Enter")
    why = visit.open("Portugal")
    assert set(why.locator(".node title").all_text_contents()) == {
        "France",
        "Spain",
        "Portugal",
        "French",
    }
    edges = why.locator(".edge title").all_text_contents()
    assert {re.sub(r" [\d.]+$", "", edge) for edge in edges} == {
        "borders(France, Spain)",
        "borders(Spain, Portugal)",
        "not speaks(Portugal, French)",
    }
    solid = why.locator(".edge.observed path").first
    dashed = why.locator(".edge.negated.predicted path").first
    style = "element => getComputedStyle(element).strokeDasharray"
    assert (solid.evaluate(style), dashed.evaluate(style)) == ("none", "6px, 5px")
    box = why.locator("figure svg").bounding_box()
    assert box is not None
    assert box["width"] <= page.viewport_size["width"]
    assert "provably missed nothing" in (why.text_content() or "")  # all candidates fit in the beam
    assert dashed.evaluate(style) == why.locator(".key-lines .negated path").evaluate(style)
    assert (
        why.locator(".facts .not").evaluate("word => getComputedStyle(word).borderTopWidth")
        == "0px"
    )
    labels = [label.bounding_box() for label in why.locator(".edge text").all()]
    assert not any(overlap(a, b) for i, a in enumerate(labels) for b in labels[:i])
    page.locator("details.plan summary").click()
    page.locator("details.plan pre", has_text="from France over borders").wait_for()


def atom(
    subject: str, relation: str, object: str, score: float, observed: bool, negated: bool = False
) -> dict[str, Any]:
    labels = {
        "subject_label": subject.replace("Iberia", "ex:Q29"),
        "object_label": object.replace("Iberia", "ex:Q29"),
    }
    named = {"subject": subject, "relation": relation, "object": object} | labels
    return {
        "kind": "atom",
        "score": score,
        "atom": named | {"score": score, "observed": observed, "negated": negated},
    }


# ?x : (borders(France, ?x) | speaks(?x, French)) & !(exists ?y . borders(?x, ?y) & speaks(?y,
# Polish))
TREE = {
    "kind": "and",
    "score": 0.72,
    "parts": [
        {
            "kind": "or",
            "score": 0.9,
            "parts": [
                atom("Iberia", "speaks", "French", 0.2, False) | {"carried": False},
                atom("France", "borders", "Iberia", 0.9, True) | {"carried": True},
            ],
        },
        {
            "kind": "not",
            "score": 0.8,
            "parts": [
                {
                    "kind": "and",
                    "score": 0.2,
                    "variables": {"y": "Portugal"},
                    "parts": [
                        atom("Iberia", "borders", "Portugal", 0.9, True, negated=True),
                        atom("Portugal", "speaks", "Polish", 0.22, False, negated=True),
                    ],
                }
            ],
        },
    ],
}


def test_a_reason_says_what_carried_it_and_what_came_nearest(visit: Visit) -> None:
    page = visit.page
    answer = {
        "rank": 1,
        "entity": "ex:Q29",
        "name": "Iberia",
        "values": {"x": "ex:Q29"},
        "score": 0.72,
        "log_score": -0.33,
        "known": False,
    }
    witness = {
        "score": 0.72,
        "labels": {"y": "Portugal"},
        "atoms": [],
        "tree": TREE,
        "facts": 4,
        "predicted": 2,
    }
    reply = {"query": "?x", "certified": None, "answers": [answer]}
    page.route("**/ask", lambda route: route.fulfill(json=reply))
    explained = reply | {"answers": [answer | {"witnesses": [witness]}]}
    page.route("**/explain", lambda route: route.fulfill(json=explained))
    page.fill("#question", "?x : borders(France, ?x)")
    page.keyboard.press("Enter")
    assert visit.answers() == ["Iberia"]
    assert page.get_attribute(".answer .name", "title") == "ex:Q29"
    why = visit.open("Iberia")
    assert visit.url_query()["open"] == ["ex:Q29"]
    texts = [
        " ".join(line.split())
        for line in why.locator(".facts").first.locator("li code, li > .head").all_inner_texts()
    ]
    assert texts == [
        "borders(France, Iberia)",
        "or",
        "speaks(Iberia, French)",
        "nothing found; nearest: ?y = Portugal",
        "borders(Iberia, Portugal)",
        "speaks(Portugal, Polish)",
    ]
    assert why.locator(".other > .score").all_inner_texts() == ["0.200"]
    assert why.locator(".nearest > .score").all_inner_texts() == ["0.200"]
    assert why.locator(".share").inner_text() == "2 of 4 atoms predicted"
    style = "element => getComputedStyle(element).color"
    plain, other = (
        why.locator(f"{place} code").first.evaluate(style)
        for place in (".facts > li:first-child", ".other")
    )
    assert plain != other  # the lighter tone
    assert "must not be found: this comes nearest" in why.locator(".key-lines").inner_text()
    assert why.locator(".answer-node title").text_content() == "ex:Q29"
    assert why.locator(".answer-node text").first.text_content() == "Iberia"


def test_a_variable_stands_at_its_entity_and_at_no_other_of_that_name(visit: Visit) -> None:
    """In ?x : borders(Georgia in America, ?y) & borders(?z, ?x), ?y and ?z are Georgia in Asia.

    Every object of JavaScript has a `constructor`.
    """
    ends = {
        "subject": "Georgia",
        "subject_label": "constructor",
        "object": "Georgia",
        "object_label": "Q230",
    }
    first = {"relation": "borders", "score": 0.7, "observed": False, **ends}
    second = first | {"subject_label": "Q230", "object": "Turkey", "object_label": "Q43"}
    answer = {
        "rank": 1,
        "entity": "Q43",
        "name": "Turkey",
        "values": {"x": "Q43"},
        "score": 0.7,
        "log_score": -0.36,
        "known": False,
    }
    witness = {"score": 0.7, "labels": {"y": "Q230", "z": "Q230"}, "atoms": [first, second]}
    visit.reply("/ask", answer)
    visit.reply("/explain", answer | {"witnesses": [witness]})
    visit.ask(QUERY)
    nodes = visit.open("Turkey").locator("a.node").all()
    drawn = {
        node.locator("title").text_content(): node.locator("text.as").all_text_contents()
        for node in nodes
    }
    assert drawn == {"constructor": [], "Q230": ["?y, ?z"], "Q43": ["?x"]}


def test_a_reason_says_how_many_of_the_first_answers_are_proven(visit: Visit) -> None:
    atom = {
        "subject": "France",
        "relation": "borders",
        "object": "Iberia",
        "score": 0.7,
        "observed": False,
    }
    answer = {
        "entity": "Iberia",
        "values": {"x": "Iberia"},
        "score": 0.7,
        "log_score": -0.36,
        "known": False,
    }
    visit.reply(
        "/ask",
        *(answer | {"entity": name} for name in ("Iberia", "Spain", "Peru")),
        certified=False,
        proven=2,
    )
    visit.reply(
        "/explain",
        answer | {"witnesses": [{"score": 0.7, "labels": {}, "atoms": [atom]}]},
        certified=False,
    )
    visit.ask(QUERY)
    verdict = visit.open("Iberia").locator(".verdict").inner_text()
    assert verdict.startswith("The first 2 of 3 are proven. The beam dropped candidates")
