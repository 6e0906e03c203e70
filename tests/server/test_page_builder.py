"""The builder and the box: two views of one question."""

from __future__ import annotations

from typing import Any

from served import Running
from served_graphs import SPEAKS
from tacit.query.outline import outline
from tacit.query.text import parse
from visits import Visit, at_every_size, needs_chromium

pytestmark = needs_chromium
QUESTIONS = [
    "?x : borders(?x, Spain)",
    '?x : borders("New York", ?x)',
    "?x : borders(?x, ?y) & speaks(?y, German) & !speaks(?x, French)",
    "?x : borders(?x, Spain) | speaks(?x, French) & !borders(?x, Italy)",
    "?x : borders(?x, ?y) & (speaks(?y, German) | speaks(?y, French))",
    "?x : !(borders(?x, ?y) & speaks(?y, German)) & borders(?x, ?z) & borders(?z, ?w) & "
    "borders(Spain, ?w)",
    "?x : speaks(?x, French) & !(borders(?x, Spain) | borders(?x, ?y) & !speaks(?y, German))",
    "?x : (speaks(?x, ?a) | borders(?x, ?b) & speaks(?b, ?c)) & !!borders(?x, Italy)",
    "?x : borders(?x, ?y) & !(borders(?y, ?z) & speaks(?z, ?l))",
]


def shown(visit: Visit) -> list[str]:
    """The builder as text: what its fields hold, and the words between them."""
    lines: list[str] = visit.page.locator("#builder .line").evaluate_all(
        """lines => lines.map((line) => [...line.children].map((part) =>
            part.classList.contains("not")
                ? (part.getAttribute("aria-pressed") === "true" ? "not" : "")
                : part.classList.contains("tools") ? ""
                    : part.querySelector("input")?.value ?? part.textContent
        ).filter(Boolean).join(" "))"""
    )
    return lines


def wait_for(visit: Visit, lines: list[str]) -> None:
    """Wait until the builder shows these conditions."""
    for _ in range(100):
        if shown(visit) == lines:
            return
        visit.page.wait_for_timeout(50)
    assert shown(visit) == lines


@at_every_size
def test_a_question_is_built_by_keyboard_alone_and_asked(visit: Visit) -> None:
    page = visit.page
    page.locator("#theme").focus()
    for key in ["Tab", "Tab"]:  # to "not" of the first row, and to its relation
        page.keyboard.press(key)
    page.keyboard.type("bor")
    options = page.locator("#builder [role=option]:visible")
    # none before letters are typed
    chosen = page.locator("#builder [role=option][aria-selected=true]:visible")
    chosen.filter(has_text="it borders …").wait_for()
    assert options.all_inner_texts() == ["it borders …", "… borders it"]  # both directions
    page.keyboard.press("ArrowDown")
    page.keyboard.press("Enter")
    assert page.evaluate("document.activeElement.dataset.key") == "0-entity"
    page.keyboard.type("portug")
    chosen.filter(has_text="Portugal").wait_for()
    page.keyboard.press("Enter")
    assert shown(visit) == ["Portugal borders it"]
    assert page.input_value("#question") == "?x : borders(Portugal, ?x)"
    page.locator("#sentence", has_text="What does Portugal border?").wait_for()
    page.keyboard.press("Escape")
    page.keyboard.press("Enter")
    assert visit.answers()[0] == "Spain"
    assert visit.url_query()["q"] == ["?x : borders(Portugal, ?x)"]


def test_the_builder_follows_the_text_and_the_text_the_builder(visit: Visit) -> None:
    page = visit.page
    page.fill("#question", "?c : borders(?c, ?d) & speaks(?d, German) & !speaks(?c, French)")
    wait_for(visit, ["it borders something", "that speaks German", "not it speaks French"])
    assert page.locator("#sentence").inner_text() == (
        "What borders something that speaks German, but does not speak French?"
    )
    page.locator("#builder [data-key='1-not']").click()
    assert (
        page.input_value("#question")
        == "?x : borders(?x, ?y) & speaks(?y, German) & speaks(?x, French)"
    )
    assert page.evaluate("document.activeElement.dataset.key") == "1-not"
    page.locator("#builder [data-key='0-0-turn']").click()
    assert (
        page.input_value("#question")
        == "?x : borders(?x, ?y) & speaks(German, ?y) & speaks(?x, French)"
    )
    page.locator("#builder [data-key='0-of']").click()
    page.keyboard.type("italy")
    page.locator("#builder [role=option]:visible", has_text="Italy").wait_for()
    page.keyboard.press("Tab")
    page.locator("#builder [data-key=join]").select_option("or")
    assert page.input_value("#question") == "?x : borders(?x, Italy) | speaks(?x, French)"
    page.locator("#builder").get_by_role("button", name="+ conditions together").click()
    # not filled in: nothing is said of them
    assert shown(visit)[2:] == ["it is one of which", "it", "it"]
    assert page.input_value("#question") == "?x : borders(?x, Italy) | speaks(?x, French)"
    page.locator("#builder").get_by_role("button", name="Remove the condition").first.click()
    assert page.input_value("#question") == "?x : speaks(?x, French)"
    page.fill("#question", "?x : spea")  # not finished: the builder waits
    page.wait_for_timeout(400)
    assert shown(visit)[0] == "it speaks French"
    page.fill("#question", "")
    wait_for(visit, ["it"])


def test_what_the_builder_writes_reads_back_as_the_same_conditions(
    visit: Visit, europe_service: Running
) -> None:
    outlines = [
        europe_service.client.post("/read", json={"query": each}).json()["outline"]
        for each in QUESTIONS
    ]
    write = (
        "async all => { const { written } = await import('/static/outline.js'); "
        "return all.map(written); }"
    )
    for question, text in zip(QUESTIONS, visit.page.evaluate(write, outlines), strict=True):
        assert outline(parse(text)) == outline(parse(question)), text


def test_a_question_that_cannot_be_drawn_says_so_and_stays(visit: Visit) -> None:
    page = visit.page
    cycle = "?c : borders(?c, ?d) & borders(?d, ?c)"
    page.fill("#question", cycle)
    page.locator(
        "#builder .stays", has_text="stays in the text: ?c and ?d are tied together"
    ).wait_for()
    assert page.input_value("#question") == cycle
    page.locator("#builder button").click()
    assert page.input_value("#question") == ""
    assert shown(visit) == ["it"]


def offered(visit: Visit, text: str) -> list[str]:
    visit.page.fill("#question", "")
    visit.page.locator("#question").click()
    visit.page.keyboard.type(text)
    visit.page.keyboard.press("Control+Space")
    visit.page.wait_for_selector("#options [role=option]")
    visit.page.wait_for_load_state("networkidle")
    names: list[str] = visit.page.locator("#options [role=option] > span").all_inner_texts()
    return names


def test_completion_knows_the_place_in_the_relation(visit: Visit) -> None:
    countries, languages = ({pair[end] for pair in SPEAKS} for end in (0, 1))
    assert offered(visit, "?c : speaks(?c, ger")[0] == "German"
    assert offered(visit, "?c : speaks(ger")[0] == "Germany"
    assert offered(visit, "?c : speaks^-1(ger")[0] == "German"
    found = offered(visit, '?c : "speaks"(?c, ')
    assert found[0] == "?c"
    assert set(found[1:6]) == languages != countries


def test_examples_are_sentences_that_fill_both_views(visit: Visit) -> None:
    page = visit.page
    sentences: list[str] = page.locator(".chip > span").all_inner_texts()
    assert len(sentences) >= 3
    assert all(
        each.startswith("What ") and each.endswith("?") and "_" not in each for each in sentences
    )
    page.locator(".chip").first.click()
    visit.answers()
    page.locator("#sentence", has_text=sentences[0]).wait_for()
    assert page.locator("#builder .line").count() >= 1
    assert page.locator("#builder input").first.input_value()


def test_names_are_shown_and_labels_written(visit: Visit) -> None:
    page = visit.page
    match: dict[str, Any] = {"label": "ex:Q29", "name": "Iberia", "text": "ex:Q29"}
    page.route("**/entities?*", lambda route: route.fulfill(json={"matches": [match]}))
    page.fill("#question", "?x : borders(?x, Spain)")
    wait_for(visit, ["it borders Spain"])
    page.locator("#builder [data-key='0-entity']").fill("ibe")
    page.locator("#builder [role=option]:visible", has_text="Iberia").click()
    assert shown(visit) == ["it borders Iberia"]
    assert page.input_value("#question") == "?x : borders(?x, ex:Q29)"
