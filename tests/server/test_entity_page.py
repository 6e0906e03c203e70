"""The page of an entity, over HTTP and in a browser, and drawings that fit."""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import contextmanager
from itertools import combinations
from typing import Any
from urllib.parse import parse_qs, urlencode, urlsplit

import pytest

from served import Running, running
from served_graphs import BORDERS, CITIES, MISSING, SPEAKS, WICKED, Atlas
from tacit.server.settings import Limits, ServerSettings
from visits import needs_chromium

FACTS = [(a, "borders", b) for a, b in BORDERS] + [(a, "speaks", b) for a, b in SPEAKS]
FACTS += [(city, "city_in", "France") for city in CITIES]
MODES = ({}, {"color_scheme": "dark"}, {"forced_colors": "active"})


@pytest.fixture(scope="module")
def service() -> Iterator[Running]:
    with running(Atlas(), ServerSettings(workers=1, limits=Limits(top=100))) as found:
        yield found


def get_json(service: Running, path: str, **query: Any) -> Any:
    response = service.client.get(path, params=query)
    assert response.status_code == 200, response.text
    return response.json()


def facts_about(label: str, facts: list[tuple[str, str, str]]) -> dict[str, set[str]]:
    """The facts about an entity, by directed relation."""
    found: dict[str, set[str]] = {}
    for subject, relation, object_ in facts:
        if subject == label:
            found.setdefault(relation, set()).add(object_)
        elif object_ == label:
            found.setdefault(f"{relation}^-1", set()).add(subject)
    return found


@pytest.mark.parametrize("label", ["France", "Italy", "Spanish", "Portugal", CITIES[3]])
@pytest.mark.parametrize("path", ["/entity", "/entity/predictions"])
def test_facts_are_told_by_relation_in_both_directions(
    service: Running, path: str, label: str
) -> None:
    reply = get_json(service, path, label=label, limit=100)
    assert (reply["entity"], reply["name"], reply["known"], reply["next"]) == (
        label,
        label,
        path == "/entity",
        None,
    )
    expected = facts_about(label, FACTS if path == "/entity" else MISSING)
    assert {
        each["relation"]: {fact["entity"] for fact in each["facts"]} for each in reply["relations"]
    } == expected
    for each in reply["relations"]:
        assert each["count"] == len(each["facts"])
        assert each["inverse"] == each["relation"].endswith("^-1")
        assert all(fact["score"] > 0.9 for fact in each["facts"])


def test_many_facts_come_in_pages(service: Running) -> None:
    first = get_json(service, "/entity", label="France")
    cities = next(each for each in first["relations"] if each["name"] == "city_in")
    assert cities["count"] == len(CITIES)
    found = [fact["entity"] for fact in cities["facts"]]
    assert len(found) == 20
    while len(found) < len(CITIES):
        page = get_json(
            service, "/entity", label="France", relation="city_in^-1", offset=len(found)
        )["relations"]
        assert [each["relation"] for each in page] == ["city_in^-1"]
        found += [fact["entity"] for fact in page[0]["facts"]]
    assert found == sorted(CITIES)


@pytest.mark.parametrize(
    ("query", "message"),
    [
        ({"label": "Frnace"}, "unknown entity 'Frnace'"),
        ({"label": "France", "relation": "bordrs"}, "unknown relation 'bordrs'"),
        ({"label": "France", "limit": 101}, "limit is 101, this service allows at most 100"),
        ({"label": "France", "min_score": 0}, "min_score"),
        ({}, "label"),
    ],
)
def test_what_cannot_be_told_is_refused(
    service: Running, query: dict[str, Any], message: str
) -> None:
    response = service.client.get("/entity/predictions", params=query)
    assert response.status_code == 422
    assert message in response.json()["error"]["message"]


# In a browser.


@pytest.fixture(scope="module")
def window(browser: Any) -> Iterator[Any]:
    context = browser.new_context(bypass_csp=True)
    page = context.new_page()
    page.set_default_timeout(15_000)
    yield page
    context.close()


@contextmanager
def page_at(window: Any, address: str, width: int = 1024, **media: Any) -> Iterator[Any]:
    """A page that is loaded; it may have no fault and speak to no other host."""
    faults = list[Any]()
    hosts = set[str]()
    heard: dict[str, Any] = {
        "pageerror": lambda error: faults.append(error),
        "request": lambda request: hosts.add(urlsplit(request.url).netloc),
    }
    for event, hear in heard.items():
        window.on(event, hear)
    window.set_viewport_size({"width": width, "height": 800})
    window.emulate_media(**({"color_scheme": "light", "forced_colors": "none"} | media))
    window.goto(address)
    window.wait_for_selector("html[data-ready]")
    yield window
    window.unroute_all(behavior="ignoreErrors")
    for event, hear in heard.items():
        window.remove_listener(event, hear)
    assert faults == []
    assert hosts == {urlsplit(address).netloc}


def entity(service: Running, label: str) -> str:
    return f"{service.url}?{urlencode({'entity': label})}"


def arrived(page: Any, name: str) -> None:
    """Wait for the whole page of an entity."""
    page.locator("#entity h1", has_text=re.compile(f"^{re.escape(name)}$")).wait_for()
    page.locator("#entity .told", has_text="predicted").wait_for()


def named(page: Any) -> list[str] | None:
    return parse_qs(urlsplit(page.url).query).get("entity")


def ends(page: Any, heading: str, kind: str) -> list[str]:
    group = page.locator(".relatives", has=page.locator("h2", has_text=heading))
    found: list[str] = group.locator(f".ends.{kind} a").all_inner_texts()
    return found


@needs_chromium
def test_from_an_answer_to_its_page_and_back(window: Any, service: Running) -> None:
    query = urlencode({"q": "?x : borders(Spain, ?x)"})
    with page_at(window, f"{service.url}?{query}") as page:
        paths: list[str] = []
        page.on("request", lambda request: paths.append(urlsplit(request.url).path))
        page.get_by_label("Open the page of Portugal").click()
        arrived(page, "Portugal")
        assert named(page) == ["Portugal"]
        assert page.title() == "Portugal · Tacit"
        assert not page.locator("#question").is_visible()
        assert page.evaluate("document.activeElement.textContent") == "Portugal"
        assert ends(page, "Portugal speaks …", "predicted") == ["Spanish"]
        assert ends(page, "… borders Portugal", "known") == ["Spain"]
        page.locator(".ends a", has_text="Spanish").click()
        arrived(page, "Spanish")
        page.go_back()
        arrived(page, "Portugal")
        page.go_back()
        page.locator("#question").wait_for()
        assert page.locator(".answer .name").first.is_visible()
        assert "/ask" not in paths  # the answers still stand there
        page.go_forward()
        arrived(page, "Portugal")
        page.get_by_label("Ask: ?x : speaks(Portugal, ?x)").click()
        page.locator(".answer .name").first.wait_for()
        assert page.input_value("#question") == "?x : speaks(Portugal, ?x)"


@needs_chromium
def test_it_is_found_and_walked_by_keyboard_alone(window: Any, service: Running) -> None:
    with page_at(window, service.url) as page:
        page.locator("#find input").focus()
        page.keyboard.type("ital")
        page.locator("#found [role=option]").first.wait_for()
        assert page.get_attribute("#find input", "aria-expanded") == "true"
        page.keyboard.press("ArrowDown")
        assert page.get_attribute("#find input", "aria-activedescendant") == "found-0"
        page.keyboard.press("Enter")
        arrived(page, "Italy")
        drawn = page.locator(".around a.node")
        labels = {each.get_attribute("aria-label") for each in drawn.all()}
        assert labels == {
            "Italian, known",
            "France, known",
            "Spain, predicted, 1.00",
            "French, predicted, 1.00",
        }
        focused = "document.activeElement.getAttribute('aria-label')"
        for _ in range(12):  # over the theme's button and the nodes before it
            page.keyboard.press("Tab")
            if page.evaluate(focused) == "Spain, predicted, 1.00":
                break
        page.keyboard.press("Enter")
        arrived(page, "Spain")
        page.locator("#find input").fill("frnace")
        page.keyboard.press("Enter")
        page.locator(".refused a", has_text="France").click()
        arrived(page, "France")
        page.get_by_role("button", name="25 more known").focus()
        page.keyboard.press("Enter")
        page.wait_for_function("document.activeElement.textContent === 'City 20'")
        assert ends(page, "… city in France", "known") == sorted(CITIES)
        assert page.get_by_role("button", name="more known").count() == 0


OVERLAPS = """svg => {
  const boxes = [...svg.querySelectorAll('text, .node rect')]
    .map(each => ({ each, box: each.getBoundingClientRect() }));
  const frame = svg.getBoundingClientRect();
  const meets = (a, b) =>
    a.left < b.right - 1 && b.left < a.right - 1 && a.top < b.bottom - 1 && b.top < a.bottom - 1;
  const inside = (a, b) => a.left >= b.left - 1 && a.right <= b.right + 1
    && a.top >= b.top - 1 && a.bottom <= b.bottom + 1;
  const faults = boxes.filter(({ box }) => !inside(box, frame))
    .map(({ each }) => `cut: ${each.textContent}`);
  boxes.forEach((one, i) => boxes.slice(i + 1).forEach(other => {
    const first = name => [one, other].find(({ each }) => each.tagName === name);
    const same = one.each.parentElement === other.each.parentElement && first('rect');
    if (same ? !inside(first('text').box, first('rect').box) : meets(one.box, other.box))
      faults.push(`${one.each.textContent} / ${other.each.textContent}`);
  }));
  return boxes.length ? faults : ['nothing is drawn'];
}"""
DASHES = "element => getComputedStyle(element).strokeDasharray"


def fits(page: Any, figure: str) -> None:
    """Nothing in a drawing overlaps or is cut off, and it is no wider than its place."""
    assert page.locator(f"{figure} svg").first.evaluate(OVERLAPS) == []
    assert page.locator(figure).first.evaluate(
        "element => element.scrollWidth <= element.clientWidth"
    )


def violations(page: Any, within: str) -> list[str]:
    from axe_playwright_python.sync_playwright import Axe

    return [
        f"{each['id']}: {each['nodes'][0]['html']}"
        for each in Axe().run(page, within).response["violations"]
    ]


@needs_chromium
def test_it_fits_every_screen(window: Any, service: Running) -> None:
    for label in ("Italy", "France"):
        with page_at(window, entity(service, label)) as page:
            arrived(page, label)
            for width in (320, 390, 1024, 1440):
                page.set_viewport_size({"width": width, "height": 800})
                page.wait_for_timeout(150)  # the drawing follows
                fits(page, ".around")
                assert page.evaluate("document.documentElement.scrollWidth <= innerWidth"), width


@needs_chromium
@pytest.mark.parametrize("mode", MODES)
def test_it_breaks_no_rule_of_accessibility(
    window: Any, service: Running, mode: dict[str, Any]
) -> None:
    with page_at(window, entity(service, "Italy"), 390, **mode) as page:
        arrived(page, "Italy")
        assert violations(page, "#entity") == []
        edges = [
            page.locator(f".around .edge{kind} path").first
            for kind in (":not(.predicted)", ".predicted")
        ]
        assert [edge.evaluate(DASHES) for edge in edges] == ["none", "6px, 5px"]


def atom(
    subject: str, relation: str, object_: str, score: float, observed: bool, negated: bool = False
) -> Any:
    fields = {
        "subject": subject,
        "relation": relation,
        "object": object_,
        "observed": observed,
        "negated": negated,
    }
    ends = {"subject_label": f"ex:{subject}", "object_label": f"ex:{object_}"}
    return {"kind": "atom", "score": score, "atom": fields | ends | {"score": score}}


LONG = "The former Kingdom of Far Away"
# ?x : (borders(France, ?x) | speaks(?x, French) & in(?x, Europe)) & !(exists ?y . borders(?x, ?y) &
# speaks(?y, LONG))
#      & borders(?x, ?x) & !in(?x, Asia)
TREE = {
    "kind": "and",
    "score": 0.7,
    "parts": [
        {
            "kind": "or",
            "score": 0.9,
            "parts": [
                {
                    "kind": "and",
                    "score": 0.2,
                    "carried": False,
                    "parts": [
                        atom("Iberia", "official_language_of_courts", "French", 0.2, False),
                        atom("Iberia", "in", "Europe", 0.9, True),
                    ],
                },
                atom("France", "borders", "Iberia", 0.9, True),
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
                        atom("Portugal", "speaks", LONG, 0.2, False, negated=True),
                    ],
                }
            ],
        },
        atom("Iberia", "borders", "Iberia", 0.6, False),
        {
            "kind": "not",
            "score": 0.9,
            "parts": [atom("Iberia", "in", "Asia", 0.1, False, negated=True)],
        },
    ],
}


@needs_chromium
@pytest.mark.parametrize("width", [320, 390, 1024])
def test_reasons_are_drawn_whole_and_open_on_a_click(
    window: Any, service: Running, width: int
) -> None:
    answer = {
        "rank": 1,
        "entity": "ex:Iberia",
        "name": "Iberia",
        "values": {"x": "ex:Iberia"},
        "score": 0.7,
        "log_score": -0.3,
        "known": False,
    }
    witness = {
        "score": 0.7,
        "labels": {"y": "ex:Portugal"},
        "atoms": [],
        "tree": TREE,
        "facts": 7,
        "predicted": 4,
    }
    reply = {"query": "?x", "certified": None, "answers": [answer]}
    explained = reply | {"answers": [answer | {"witnesses": [witness]}]}
    with page_at(window, service.url, width) as page:
        page.route("**/ask", lambda route: route.fulfill(json=reply))
        page.route("**/explain", lambda route: route.fulfill(json=explained))
        page.fill("#question", "?x : borders(France, ?x)")
        page.keyboard.press("Enter")
        page.locator(".answer").first.click()
        page.locator(".why svg").first.wait_for()
        fits(page, ".why figure")
        first = page.locator(".why figure").first
        drawn = sorted(
            re.sub(r" [\d.]+$", "", title)
            for title in first.locator(".edge title").all_text_contents()
        )
        assert drawn == [
            "borders(France, Iberia)",
            "borders(Iberia, Iberia)",
            "borders(Iberia, Portugal)",
            "not in(Iberia, Asia)",
            "or in(Iberia, Europe)",
            "or official_language_of_courts(Iberia, French)",
            f"speaks(Portugal, {LONG})",
        ]
        kinds = (
            ".observed:not(.predicted, .other)",
            ".observed.predicted:not(.other)",
            ".other",
            ".negated.predicted",
        )
        dashes = [first.locator(f".edge{kind} path").first.evaluate(DASHES) for kind in kinds]
        assert dashes == ["none", "6px, 5px", "1.5px, 4px", "6px, 5px"]
        tips = [
            first.locator(f".edge{kind} path[marker-end]").first.get_attribute("marker-end")
            for kind in kinds
        ]
        # told apart by more than colour
        assert all(one != other for one, other in combinations(tips, 2))
        assert first.locator(".nearest .as").text_content() == "nearest ?y"
        assert violations(page, ".why") == []
        assert page.locator(".facts .entity-link", has_text=LONG).get_attribute(
            "href"
        ) == "/?" + urlencode({"entity": f"ex:{LONG}"})
        first.locator("a.node", has_text="Portugal").click()
        page.wait_for_function("location.search === '?entity=ex%3APortugal'")
        page.locator(".refused").wait_for()


@needs_chromium
def test_labels_that_are_markup_stay_text(window: Any, service: Running) -> None:
    fact = {"entity": WICKED, "name": WICKED, "score": 0.5}
    relation = {"relation": WICKED, "name": WICKED, "inverse": False, "count": 1, "facts": [fact]}
    reply = {"entity": WICKED, "name": WICKED, "known": True, "relations": [relation], "next": None}
    with page_at(window, service.url) as page:
        page.route("**/entity?*", lambda route: route.fulfill(json=reply))
        page.route(
            "**/entity/predictions?*", lambda route: route.fulfill(json=reply | {"known": False})
        )
        page.goto(entity(service, WICKED))
        arrived(page, WICKED)
        assert page.locator("#entity img, #entity script").count() == 0
        assert page.title() == f"{WICKED} · Tacit"


@needs_chromium
def test_relations_are_read_in_words(window: Any, service: Running) -> None:
    expected = {
        "official_language": "official language",
        "officialLanguage": "official language",
        "ex:bornIn": "born in",
        "http://a.org/ns#bornIn": "born in",
        "/people/person/place_of_birth": "person place of birth",
        "/film/actor/film./film/performance/film": "actor film · performance film",
        "NATO": "NATO",
        "": "",
        "__": "__",
    }
    with page_at(window, service.url) as page:
        read = (
            "async names => { const { words } = await import('/static/words.js'); "
            "return names.map(words); }"
        )
        assert page.evaluate(read, list(expected)) == list(expected.values())
