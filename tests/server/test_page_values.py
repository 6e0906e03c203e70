"""Numbers and dates on the page: built, completed, drawn, listed and looked up."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from typing import Any
from urllib.parse import urlencode

import pytest

from served import Running, running
from served_graphs import MEASURED, POPULATIONS, WICKED
from tacit.graph.quantities import Quantity
from tacit.query.outline import outline
from tacit.query.text import parse
from tacit.server.settings import Limits, ServerSettings
from visits import Visit, at_every_size, needs_chromium

pytestmark = needs_chromium
BELOW = "?c : borders(?c, Germany) & population(?c) < 40_000_000"
QUESTIONS = [
    "?x : population(?x) > 50000000",
    "?x : !(population(?x) > 5) & borders(?x, Spain)",
    "?x : 5 <= population(?x) <= 9 | borders(?x, Spain) & 5 <= population(?x) < 9.5",
    "?x : borders(?x, ?y) & area(?y) = 12.5 & population(?x) >= population(?y)",
    "?x : population(?x) < population(France) & founded(?x) < area(?x)",
    "?x : borders(?x, ?y) & !(speaks(?y, French) | !(founded(?y) <= 1950-06))",
    "?x : borders(?x, ?y) & borders(?y, ?z) & (area(?z) > area(?y) | area(?z)) & population(?y)",
    "?x, ?n, ?o : borders(?x, Spain) & ?n = population(?x) & ?o = area(?x)",
    "?x : borders(?x, Spain) | speaks(?x, French) order by population(?x) desc, founded(?x)",
    "?x, ?y : (borders(?x, Spain) | area(?x) < -5) & ?y = area(?x) order by area(?x)",
    "?x : t(?x) > 3.5e-07 & !(w(?x) < 1e20)",
]


@pytest.fixture(scope="module")
def service() -> Iterator[Running]:
    with running(MEASURED, ServerSettings(workers=1, limits=Limits(top=100))) as found:
        yield found


@pytest.fixture
def europe_service(service: Running) -> Running:
    """The service that the visits of this file are to."""
    return service


def rows(visit: Visit) -> list[str]:
    """The builder as text: what its fields hold, and the words between them."""
    found: list[str] = visit.page.locator("#builder .line").evaluate_all(
        """lines => lines.map((line) => [...line.children].map((part) =>
            part.classList.contains("tools") || part.classList.contains("not") ? ""
                : part.tagName === "SELECT" ? part.selectedOptions[0].textContent
                    : part.value ?? part.querySelector("input")?.value ?? part.textContent
        ).filter(Boolean).join(" "))"""
    )
    return found


@at_every_size
def test_a_comparison_is_built_by_keyboard_and_asked(visit: Visit) -> None:
    page = visit.page
    page.locator("[data-key='0-relation']").focus()
    page.keyboard.type("popul")
    chosen = page.locator("#builder [aria-selected=true]:visible")
    chosen.filter(has_text="it has population …").wait_for()
    page.keyboard.press("Enter")
    assert page.evaluate("document.activeElement.dataset.key") == "0-operator"
    page.keyboard.press("Tab")
    page.keyboard.press("Tab")
    assert page.evaluate("document.activeElement.dataset.key") == "0-literal0"
    assert page.locator(".hint").inner_text() == "in the graph: 10 M to 84 M"
    page.keyboard.type("60,000,00")
    assert page.input_value("#question") == "?x : population(?x) > 6000000"
    page.keyboard.type("0x")
    assert page.input_value("#question") == ""  # no number: nothing is said of it
    assert page.locator(".literal").get_attribute("aria-invalid") is not None
    page.keyboard.press("Backspace")
    page.locator("#sentence", has_text="What has a population of more than 60,000,000?").wait_for()
    page.keyboard.press("Enter")
    assert visit.answers()[:2] == ["France", "Germany"]
    page.locator("[data-key='order+']").click()
    page.keyboard.type("popul")
    page.locator("#builder [aria-selected=true]:visible", has_text="population").wait_for()
    page.keyboard.press("Enter")
    text = "?x : population(?x) > 60000000 order by population(?x) desc"
    assert page.input_value("#question") == text


def test_the_builder_follows_a_text_with_values(visit: Visit) -> None:
    page = visit.page
    page.fill(
        "#question",
        "?c, ?n : borders(?c, ?d) & population(?c) > population(?d) & ?n = area(?c) & "
        "1900 <= founded(?c) <= 1950-06 order by population desc",
    )
    page.locator("#builder .shown-values li").nth(1).wait_for()
    assert rows(visit) == [
        "it borders something",
        "that has population < that of it",
        "it has founded from … to 1900 to 1950-06",
        "Show area",
        "Order by population largest first",
    ]
    page.locator("[data-key='1-operator']").select_option("<")
    page.locator("[data-key='order0-remove']").click()
    assert page.input_value("#question") == (
        "?x, ?n : borders(?x, ?y) & population(?y) < population(?x) & founded(?x) < 1900 & "
        "?n = area(?x)"
    )
    page.locator("[data-key='1-against']").select_option("entity")
    page.keyboard.type("portu")
    page.locator("#builder [role=option]:visible", has_text="Portugal").click()
    assert "founded(?x) < founded(Portugal)" in page.input_value("#question")


def test_what_the_builder_writes_reads_back_as_the_same_question(
    visit: Visit, service: Running
) -> None:
    read = [service.client.post("/read", json={"query": each}).json() for each in QUESTIONS]
    write = (
        "async all => { const { written } = await import('/static/outline.js'); "
        "return all.map(written); }"
    )
    outlines = [each["outline"] for each in read]
    for question, text in zip(QUESTIONS, visit.page.evaluate(write, outlines), strict=True):
        one, other = parse(question), parse(text)
        assert outline(one) == outline(other), text
        assert [str(each) for each in one.order] == [str(each) for each in other.order]
        assert [value.attribute for value in one.values.values()] == [
            value.attribute for value in other.values.values()
        ]


def test_attributes_are_completed_in_the_text(visit: Visit) -> None:
    page = visit.page

    def offered(text: str) -> list[str]:
        page.fill("#question", "")
        page.locator("#question").click()
        page.keyboard.type(text)
        page.keyboard.press("Control+Space")
        page.wait_for_selector("#options [role=option]")
        page.wait_for_load_state("networkidle")
        found: list[str] = page.locator("#options [role=option] > span").all_inner_texts()
        return found

    assert offered("?c : popu") == ["population"]
    page.keyboard.press("Enter")
    assert page.input_value("#question") == "?c : population("
    assert offered("?c : population(?c) > pop") == ["population"]
    assert offered("?c : borders(?c, Spain) order by f") == ["founded"]
    page.keyboard.type("ounded desc")
    kinds = page.locator("#mirror .word").all_inner_texts()
    assert kinds == ["order", "by", "desc"]


def test_a_reason_draws_values_on_a_line(visit: Visit) -> None:
    page = visit.page
    assert visit.ask(BELOW)[0] == "Poland"
    page.locator(".answer").first.click()
    line = page.locator(".number-line svg")
    line.wait_for()
    told = "population(Poland) predicted 38 M (30–46 M) < 40,000,000: 0.60"
    assert line.get_attribute("aria-label") == told
    places = line.evaluate(
        """svg => [".value circle", ".asked.tick", ".value rect"].map((part) => {
            const box = svg.querySelector(part).getBoundingClientRect();
            return [box.left, (box.left + box.right) / 2, box.right];
        })"""
    )
    (_, median, _), (_, bound, _), (low, _, high) = places
    # 30, 38, 40 and 46 million lie on one scale
    assert (median - low) / (high - low) == pytest.approx(0.5, abs=0.02)
    assert (bound - low) / (high - low) == pytest.approx(10 / 16, abs=0.02)
    assert told in page.locator(".why .facts").inner_text()


def test_columns_are_shown_with_the_answers(visit: Visit) -> None:
    visit.ask("?c, ?n : borders(?c, Germany) & ?n = population(?c) order by ?n desc")
    texts = visit.page.locator(".answer .name").all_inner_texts()
    assert [" ".join(text.split()) for text in texts] == [
        "France ?n 68,000,000",
        "Poland ?n 38 M (30–46 M)",
    ]
    visit.ask("population(Poland)")
    assert visit.page.locator(".summary h2").inner_text() == "Value"
    assert "38 M (30–46 M)" in visit.page.locator(".answer").inner_text()


@at_every_size
def test_an_attribute_has_a_page(visit: Visit, service: Running) -> None:
    page = visit.page
    page.locator("#attributes a", has_text="population").click()
    page.locator("#entity h1", has_text="population").wait_for()
    ranked = sorted(POPULATIONS, key=lambda country: -POPULATIONS[country])
    assert page.locator(".ranked a").all_inner_texts() == [*ranked, "Poland"]
    assert page.locator(".ranked li").last.inner_text().split()[-4:] == [
        "predicted,", "80", "%", "interval"
    ]  # fmt: skip
    assert "12 ranges from 10 M to 84 M" in (
        page.locator(".histogram svg").get_attribute("aria-label") or ""
    )
    page.locator("#entity select").select_option("0")
    page.locator(".ranked li:first-child a", has_text="Portugal").wait_for()
    page.locator(".ranked a", has_text="Poland").click()
    page.locator("#entity .values dd", has_text="38 M (30–46 M)").wait_for()
    page.locator("#entity .values a", has_text="population").click()
    page.locator("#entity h1", has_text="population").wait_for()
    page.locator("#entity .ask-this").click()
    assert visit.answers()[0].startswith("Germany")
    visit.go(f"{service.url}?attribute=popultion")
    page.locator("#entity .refused a", has_text="population").wait_for()


@pytest.mark.parametrize(
    "address", ["?attribute=population", "?entity=France", f"?{urlencode({'q': BELOW})}"]
)
def test_it_is_accessible_and_fits(browser: Any, service: Running, address: str) -> None:
    from axe_playwright_python.sync_playwright import Axe

    seen = Visit(browser, f"{service.url}{address}", bypass_csp=True)
    if "q=" in address:
        seen.page.wait_for_selector(".answer")
        seen.page.locator(".answer").first.click()
        seen.page.wait_for_selector(".number-line")
    else:
        seen.page.wait_for_selector("#entity[aria-busy=false] dl")
    for scheme in ("light", "dark"):
        seen.page.emulate_media(color_scheme=scheme)
        for width in (320, 390, 1440):
            seen.page.set_viewport_size({"width": width, "height": 900})
            seen.page.wait_for_timeout(150)
            assert seen.page.evaluate("document.documentElement.scrollWidth <= innerWidth"), width
        found = Axe().run(seen.page).response["violations"]
        assert [each["id"] for each in found] == []
    assert seen.faults == []
    seen.context.close()


def test_labels_of_attributes_stay_text(visit: Visit, service: Running) -> None:
    page = visit.page
    visit.go(f"{service.url}?{urlencode({'attribute': WICKED})}")
    page.locator("#entity header code", has_text=WICKED).wait_for()
    assert page.locator(".ranked a").all_inner_texts() == ["Spain", "Italy"]
    visit.go(service.url)
    visit.ask(f"?x, ?n : {json.dumps(WICKED)}(?x) > 1 & ?n = {json.dumps(WICKED)}(?x)")
    page.locator(".answer").first.click()
    page.wait_for_selector(".number-line")
    assert page.title() != "owned"
    assert page.locator("img[src=x]").count() == 0


def test_literals_are_those_that_questions_read(visit: Visit) -> None:
    texts = ["1,000", "-.5", "1e5", "1e", "5 | x", "", "1950", "1950-06", "1950-6", "-0043-03-15"]
    texts += ["2024-01-01T10:00", "PT2H", "P1Y6M", "P", "pt90m", "∞", "NaN", "1_000", "0x10"]
    kinds = ["number", "date", "duration"]
    read = (
        "async ([kinds, texts]) => { const { literal } = await import('/static/outline.js'); "
        "return kinds.map((kind) => texts.map((text) => literal(kind, text))); }"
    )
    for kind, found in zip(kinds, visit.page.evaluate(read, [kinds, texts]), strict=True):
        for text, literal in zip(texts, found, strict=True):
            number = kind == "date" and re.fullmatch("[0-9]{1,9}", text)
            plain = text.replace(",", "") if kind == "number" else text.upper()
            taken = Quantity.parse(plain, kind) or number
            assert (literal is not None) == bool(taken), (kind, text, literal)
            if literal is not None:
                parse(f"?x : a(?x) < {literal}")
