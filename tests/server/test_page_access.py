"""The page at every width, in every colour scheme, by keyboard, with axe-core."""

from __future__ import annotations

import re
from typing import Any

import pytest
from axe_playwright_python.sync_playwright import Axe

from served import Running
from visits import Visit, needs_chromium

pytestmark = needs_chromium
WIDTHS = (320, 390, 1024, 1440)
MODES: tuple[dict[str, Any], ...] = (
    {"color_scheme": "light", "forced_colors": "none"},
    {"color_scheme": "dark", "forced_colors": "none"},
    {"color_scheme": "light", "forced_colors": "active"},
)
QUESTION = "?x : exists ?y . borders(France, ?y) & borders(?y, ?x) & !speaks(?x, French)"
FIRST_PAINT = 100_000  # bytes


def violations(visit: Visit) -> list[str]:
    found = Axe().run(visit.page).response["violations"]
    return [f"{each['id']}: {[node['html'] for node in each['nodes']]}" for each in found]


def start(visit: Visit) -> None:
    """The page as it opens."""


def reason(visit: Visit) -> None:
    """Answers, one of them open, and the options."""
    visit.ask(QUESTION)
    visit.options()
    visit.open("Portugal")


def mistake(visit: Visit) -> None:
    """A question that is wrong."""
    visit.page.fill("#question", "?x : boarders(France, ?x)")
    visit.page.keyboard.press("Enter")
    visit.page.wait_for_selector("#problem button")


def choice(visit: Visit) -> None:
    """Names to choose from in the builder."""
    visit.page.locator("[data-key='0-entity']").focus()
    visit.page.locator("#builder [role=option]:visible").first.wait_for()


def test_nothing_is_out_of_reach_at_any_width(browser: Any, europe_service: Running) -> None:
    seen = Visit(browser, europe_service.url, bypass_csp=True)  # so that axe can be put into it
    for reach in (start, reason, mistake, choice):
        reach(seen)
        for mode in MODES if reach is not choice else MODES[:1]:  # which has no colour of its own
            seen.page.emulate_media(**mode)
            for width in WIDTHS:
                seen.page.set_viewport_size({"width": width, "height": 900})
                assert seen.page.evaluate("document.documentElement.scrollWidth <= innerWidth"), (
                    reach.__doc__,
                    width,
                )
                # Two layouts, one for the phone and one for the desk; colours are the same in both.
                if width == 1024 or (width == 320 and mode is MODES[0]):
                    assert violations(seen) == [], (reach.__doc__, width, mode)
    assert seen.faults == []
    seen.context.close()


def luminance(colour: str) -> float:
    """The relative luminance of a colour, by WCAG 2."""
    parts = [int(part) / 255 for part in re.findall(r"\d+", colour)[:3]]
    linear = [
        part / 12.92 if part <= 0.03928 else ((part + 0.055) / 1.055) ** 2.4 for part in parts
    ]
    return float(
        sum(weight * part for weight, part in zip((0.2126, 0.7152, 0.0722), linear, strict=True))
    )


def contrast(one: str, other: str) -> float:
    low, high = sorted((luminance(one), luminance(other)))
    return (high + 0.05) / (low + 0.05)


STYLE = "([where, what, part]) => getComputedStyle(document.querySelector(where), part)[what]"
PARTS = [  # what axe does not look at, and the contrast it needs
    (".editor", "borderTopColor", None, 3),
    ("#builder input", "borderTopColor", None, 3),
    ("[name=logic]", "borderTopColor", None, 3),
    (".track", "backgroundColor", None, 3),
    ("#question", "color", "::placeholder", 4.5),
    ("#builder input", "color", "::placeholder", 4.5),
]


@pytest.mark.parametrize("mode", ["light", "dark"])
def test_edges_and_placeholders_can_be_made_out(visit: Visit, mode: Any) -> None:
    visit.page.emulate_media(color_scheme=mode)
    card = visit.page.evaluate(STYLE, [".ask", "backgroundColor", None])
    for *where, least in PARTS:
        assert contrast(visit.page.evaluate(STYLE, where), card) >= least, where


def test_forced_colours_leave_text_switch_and_bars_visible(visit: Visit) -> None:
    page = visit.page
    page.emulate_media(forced_colors="active")
    visit.ask(QUESTION)

    def style(where: str, what: str) -> Any:
        return page.evaluate(STYLE, [where, what, None])

    assert style("#question", "color") == style("#builder input", "color")
    assert style("#mirror", "visibility") == "hidden"  # else every letter would be drawn twice
    assert style(".track", "borderTopStyle") == "solid"
    assert style(".score-bar i", "backgroundColor") != style(".answers", "backgroundColor")
    off = style(".track", "backgroundColor")
    page.locator(".switch").click()
    page.wait_for_timeout(300)
    assert style(".track", "backgroundColor") != off


FOCUS = """() => {
    const at = document.activeElement;
    const seen = at.type === "checkbox" ? at.nextElementSibling
        : at.id === "question" ? at.parentElement : at;
    const { outlineStyle, boxShadow } = getComputedStyle(seen);
    const shown = outlineStyle !== "none" || boxShadow !== "none";
    return [at.id || at.name || at.textContent.trim(), shown, at === document.body];
}"""


def test_everything_is_reached_by_the_tab_key_and_seen_there(visit: Visit) -> None:
    page = visit.page
    visit.ask("?x : borders(Portugal, ?x)")
    page.locator("#sentence", has_text="Portugal").wait_for()
    page.locator("#home").focus()
    reached: list[str] = []
    for _ in range(80):
        page.keyboard.press("Tab")
        name, seen, end = page.evaluate(FOCUS)
        if end:
            break
        reached.append(name)
        assert seen, f"{name} does not show that it has the focus"
    expected = [
        "theme",
        "not",
        "question",
        "go",
        "new",
        "Options",
        "Copy link",
        "More answers",
        "CSV",
        "SPARQL",
    ]
    # in the order of reading
    assert [name for name in dict.fromkeys(reached) if name in expected] == expected


def test_the_first_paint_is_small_and_calls_nobody_else(
    browser: Any, europe_service: Running
) -> None:
    context = browser.new_context()
    page = context.new_page()
    sizes = {}
    page.on("response", lambda response: sizes.update({response.url: len(response.body())}))
    page.goto(europe_service.url)
    page.wait_for_selector("html[data-ready]")
    assert len(sizes) > 5
    assert all(url.startswith(europe_service.url) for url in sizes)
    assert sum(sizes.values()) < FIRST_PAINT, sizes
    context.close()
