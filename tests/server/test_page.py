"""The page in a real browser: completion, asking, shared addresses, settings, markup."""

from __future__ import annotations

import os
import subprocess
import sys
from typing import Any

from served import running
from served_graphs import EUROPE, MARKUP, SCRIPT, WICKED
from tacit.query.formula import quoted
from tacit.server.settings import ServerSettings
from visits import Visit, at_every_size, needs_chromium

pytestmark = needs_chromium
QUERY = "?x : exists ?y . borders(France, ?y) & borders(?y, ?x)"


@at_every_size
def test_a_question_is_typed_with_completion_and_asked(visit: Visit) -> None:
    page = visit.page
    page.locator("#question").click()
    page.keyboard.type("?x : bor")
    visit.wait_for_option("borders")
    assert page.get_attribute("#question", "aria-activedescendant") == "options-0"
    page.keyboard.press("Enter")
    assert page.input_value("#question") == "?x : borders("
    page.keyboard.type("portug")
    visit.wait_for_option("Portugal")
    page.keyboard.press("Tab")
    page.keyboard.type(", ?")
    visit.wait_for_option("?x")
    page.keyboard.press("ArrowDown")
    page.keyboard.press("ArrowUp")
    page.keyboard.press("Enter")
    page.keyboard.type(")")
    page.keyboard.press("Enter")
    assert page.input_value("#question") == "?x : borders(Portugal, ?x)"
    assert visit.answers()[0] == "Spain"
    assert visit.url_query() == {"q": ["?x : borders(Portugal, ?x)"]}


def test_what_was_typed_is_marked_in_the_names_offered(visit: Visit) -> None:
    page = visit.page
    page.locator("#question").click()
    page.keyboard.type("?x : borders(pórt")
    visit.wait_for_option("Portugal")
    assert page.locator("#options b").first.text_content() == "Port"


def test_names_with_spaces_are_completed_in_quotes(visit: Visit) -> None:
    page = visit.page
    page.locator("#question").click()
    page.keyboard.type("?x : borders(new yo")
    page.locator("#options [role=option]", has_text="New York").click()
    assert page.input_value("#question") == '?x : borders("New York"'


NAMES = [
    "France",
    "New York",
    "Not",
    "exists",
    "São_Tomé",
    "it's",
    "U.S.",
    "a.b/c:d",
    "+up",
    "--x",
    "-",
    "x²",
    "Ⅷ",
    "日本",
]
NAMES += ["", "a\nb", 'say "hi"', "back\\slash", "?x", "١٢", "e\u0301"]


def test_the_page_quotes_names_as_the_grammar_reads_them(visit: Visit) -> None:
    quote = (
        "async names => { const { quoted } = await import('/static/syntax.js'); "
        "return names.map(quoted); }"
    )
    assert visit.page.evaluate(quote, NAMES) == [quoted(name) for name in NAMES]


def test_readable_names_are_offered_and_labels_are_typed(visit: Visit) -> None:
    page = visit.page
    match = {"label": "ex:Q29", "name": "Iberia", "text": "ex:Q29"}
    page.route("**/entities?*", lambda route: route.fulfill(json={"matches": [match]}))
    page.locator("#question").click()
    page.keyboard.type("?x : borders(ibe")
    visit.wait_for_option("Iberia")
    assert page.locator("#options li small").first.text_content() == "ex:Q29"
    page.keyboard.press("Enter")
    assert page.input_value("#question") == "?x : borders(ex:Q29"


def test_a_beam_that_may_have_missed_something_offers_exact_search(visit: Visit) -> None:
    page = visit.page
    page.fill("#question", QUERY)
    visit.options()
    page.select_option("[name=search]", "beam")
    page.fill("[name=k]", "1")
    page.keyboard.press("Enter")
    visit.answers()
    page.locator(".answer").first.click()
    page.locator(".verdict", has_text="dropped candidates").locator("button").click()
    page.wait_for_function("() => new URLSearchParams(location.search).get('search') === 'exact'")
    assert "Portugal" in visit.answers()


def test_an_address_can_be_shared_and_gone_back_to(visit: Visit, browser: Any) -> None:
    page = visit.page
    page.locator(".chip").first.click()
    visit.answers()
    first = visit.url_query()
    page.fill("#question", QUERY)
    visit.options()
    page.select_option("[name=logic]", "godel")
    visit.open("Portugal")
    shared = page.url
    assert visit.url_query() == {"q": [QUERY], "logic": ["godel"], "open": ["Portugal"]}
    other = Visit(browser, shared)
    other.page.wait_for_selector(".why svg")
    assert other.page.input_value("#question") == QUERY
    assert other.page.input_value("[name=logic]") == "godel"
    assert other.page.locator(".answer[aria-expanded=true] .name").text_content() == "Portugal"
    other.context.close()
    while visit.url_query() != first:
        page.go_back()
    page.wait_for_function(
        "query => document.getElementById('question').value === query", arg=first["q"][0]
    )
    assert page.input_value("[name=logic]") == "product"
    page.go_forward()
    page.wait_for_function(
        "query => document.getElementById('question').value === query", arg=QUERY
    )


def test_a_wrong_name_is_underlined_explained_and_mended(visit: Visit) -> None:
    page = visit.page
    page.fill("#question", "  ?𝔘 : boarders(France, ?𝔘)")  # a letter of two units in JavaScript
    page.keyboard.press("Enter")
    problem = page.locator("#problem")
    problem.wait_for()
    assert "unknown relation 'boarders'" in (problem.text_content() or "")
    assert page.locator("#mirror .marked").all_text_contents() == ["boarders"]
    assert (
        page.evaluate(
            "getComputedStyle(document.querySelector('#mirror .marked')).textDecorationStyle"
        )
        == "wavy"
    )
    assert (problem.text_content() or "").count("borders") == 1  # on the button that mends it
    problem.locator("button", has_text="borders").click()
    assert "Spain" in visit.answers()[:4]
    assert page.input_value("#question") == "  ?𝔘 : borders(France, ?𝔘)"
    assert not problem.is_visible()


def test_settings_change_what_is_asked(visit: Visit) -> None:
    page = visit.page
    visit.ask("?x : borders(Portugal, ?x)")
    assert page.locator(".answer .mark.known").count() == 1
    page.locator(".switch", has_text="Predictions only").click()
    page.locator(".summary", has_text="1 known left out").wait_for()
    assert visit.url_query()["new"] == ["true"]
    assert "Spain" not in visit.answers()
    visit.options()
    values = "all => all.map((each) => each.value)"
    choices = page.locator("[name=observed] option").evaluate_all(values)
    assert choices == ["all", "train+valid", "train", "none"]
    page.select_option("[name=observed]", "none")
    page.wait_for_function(
        "() => document.querySelector('.answer') && !document.querySelector('.answer .mark.known')"
    )
    assert visit.url_query()["observed"] == ["none"]
    assert page.locator("[name=new]").is_disabled()  # where nothing is known, everything is new
    page.fill("#question", "?x : borders(Portugal, ?x) & speaks(?x, Polish)")
    page.select_option("[name=search]", "symbolic")
    page.locator(".nothing", has_text="No entity fits").wait_for()
    assert page.is_disabled("[name=k]")


def test_labels_that_are_markup_stay_text(browser: Any) -> None:
    with running(MARKUP, ServerSettings(workers=1)) as service:
        visit = Visit(browser, service.url)
        page = visit.page
        assert page.locator("#graph").text_content().startswith("<i>wicked</i>")  # type: ignore[union-attr]
        page.locator("#question").click()
        page.keyboard.type("?x : <")
        page.keyboard.press("Control+Space")
        page.fill("#question", "?x : exists ?y . " + f'"{SCRIPT}"(plain, ?x)')
        page.keyboard.press("Enter")
        assert WICKED in visit.answers()
        why = visit.open(WICKED)
        assert WICKED in why.locator(".node title").all_text_contents()
        page.fill("#question", f'?x : "<b>bald</b>"("{WICKED[:20]}', timeout=5000)
        page.keyboard.press("Enter")
        page.locator("#problem").wait_for()
        assert (
            page.locator(
                "img:not([src='/static/icon.svg']), main script, main b > svg, main i > i"
            ).count()
            == 0
        )
        assert page.title() != "owned"
        assert visit.faults == []
        visit.context.close()


def test_a_key_is_asked_for_where_one_is_needed(browser: Any) -> None:
    with running(EUROPE, ServerSettings(workers=1, api_key="sesame")) as service:
        visit = Visit(browser, service.url)
        page = visit.page
        asked_for = visit.page.locator("#problem").text_content()
        assert "needs a key" in (asked_for or "")
        assert page.locator("#secret").get_attribute("aria-invalid") is None
        for wrong in ("sesam", "σesame"):  # which no header holds
            page.fill("#secret", wrong)
            page.keyboard.press("Enter")
            page.locator("#wrong-key", has_text="not the key").wait_for()
        assert page.get_attribute("#secret", "aria-invalid") == "true"
        page.fill("#secret", "sesame")
        page.keyboard.press("Enter")
        page.locator(".chip").first.click()
        answers = visit.answers()
        assert not page.locator("#key").is_visible()
        for name, command in (("curl", ["bash", "-c"]), ("Python", [sys.executable, "-c"])):
            page.locator(".taking").get_by_role("button", name=name, exact=True).click()
            snippet = page.locator(
                ".snippet pre", has_text=f"{'curl' if name == 'curl' else 'import'} "
            ).inner_text()
            assert "sesame" not in snippet  # it may be shown to others
            environment = {**os.environ, "TACIT_API_KEY": "sesame"}
            ran = subprocess.run([*command, snippet], capture_output=True, env=environment)
            assert answers[0].encode() in ran.stdout, ran.stderr
        visit.context.close()
