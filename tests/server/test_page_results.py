"""Answers on the page: late replies, single reasons, more answers, questions asked before."""

from __future__ import annotations

import re
import time
from typing import Any

from served import Running
from tacit.engine.answers.answer_table import ESTIMATED
from visits import NO_TEXT, Visit, needs_chromium

pytestmark = needs_chromium
QUESTION = "?x : exists ?y . borders(France, ?y) & borders(?y, ?x)"


def row(entity: str, score: float, known: bool = False, **more: Any) -> dict[str, Any]:
    fields = {
        "rank": 1,
        "entity": entity,
        "name": entity,
        "values": {"x": entity},
        "score": score,
        "known": known,
    }
    return fields | {"log_score": -1.0} | more


def test_a_late_error_leaves_what_was_typed_meanwhile(visit: Visit) -> None:
    page = visit.page
    held = []
    page.route("**/ask", lambda route: held.append(route))
    page.fill("#question", "?x : boarders(France, ?x)")
    page.keyboard.press("Enter")
    page.keyboard.type(" & speaks(?x, ")
    page.locator(".waiting").wait_for()
    while not held:
        page.wait_for_timeout(20)
    error = NO_TEXT | {
        "message": "unknown relation 'boarders'",
        "line": 1,
        "column": 6,
        "suggestions": ["borders"],
    }
    held[0].fulfill(status=422, json={"error": error})
    page.locator("#problem", has_text="unknown relation").wait_for()
    page.keyboard.type("Fr")
    assert page.input_value("#question") == "?x : boarders(France, ?x) & speaks(?x, Fr"
    assert page.locator("#mirror .marked").count() == 0  # its place is another by now
    assert page.get_attribute("#question", "aria-invalid") is None


def test_answers_come_when_the_builder_above_them_has_grown(visit: Visit) -> None:
    visit.page.route("**/read*", lambda route: (time.sleep(0.3), route.continue_()))
    visit.page.fill("#question", QUESTION)
    visit.page.keyboard.press("Enter")
    visit.answers()
    assert visit.page.get_attribute("#sentence", "aria-busy") == "false"
    assert (
        visit.page.locator("#builder").get_by_role("button", name="Remove the condition").count()
        > 1
    )


def test_an_error_marks_its_place_and_moves_neither_caret_nor_button(visit: Visit) -> None:
    page = visit.page
    page.fill("#question", "?x : boarders(France, ?x)")
    page.locator("#sentence", has_text="boarder").wait_for()
    before = page.locator("#go").bounding_box()
    page.locator("#question").evaluate("area => area.setSelectionRange(3, 3)")
    page.keyboard.press("Enter")
    page.locator("#problem button").wait_for()
    assert page.locator("#go").bounding_box() == before
    assert page.get_attribute("#question", "aria-invalid") == "true"
    assert page.locator("#question").evaluate(
        "area => [area.selectionStart, area.selectionEnd]"
    ) == [3, 3]
    page.keyboard.type(" ")
    assert page.get_attribute("#question", "aria-invalid") is None
    assert not page.locator("#problem").is_visible()


def test_a_name_in_sparql_is_not_put_in_place_of_a_part_of_its_term(visit: Visit) -> None:
    visit.page.fill("#question", "SELECT ?c { <tacit:France> <tacit:boarders> ?c }")
    visit.page.keyboard.press("Enter")
    note = "unknown relation 'boarders' at column 28; did you mean 'borders'?"
    visit.page.locator(".nothing", has_text=note).wait_for()
    assert visit.page.locator("#problem button").count() == 0


def test_rows_of_sparql_show_what_they_bind(visit: Visit) -> None:
    query = (
        "PREFIX : <tacit:> SELECT ?c ?l { VALUES ?c { :Portugal :Spain :Nobody } "
        "?c :borders ?n OPTIONAL { ?c :speaks ?l } }"
    )
    visit.page.fill("#question", query)
    visit.page.keyboard.press("Enter")
    visit.page.locator(".answer").nth(1).wait_for()
    shown = visit.page.locator(".answer .name").all_text_contents()
    assert sorted(shown) == ["?cPortugal", "?cSpain?lSpanish"]
    assert "unknown entity 'Nobody'" in visit.page.locator(".uncalibrated").inner_text()


def test_reasons_are_asked_for_when_an_answer_is_opened_and_for_it_alone(visit: Visit) -> None:
    page = visit.page
    requests = []
    page.on(
        "request",
        lambda request: (
            requests.append(request.post_data_json) if "/explain" in request.url else None
        ),
    )
    answers = visit.ask(QUESTION)
    assert requests == []
    third = page.locator(".answer").nth(2)
    third.click()
    page.wait_for_selector(".why svg")
    assert [(each["top"], each["offset"]) for each in requests] == [(1, 2)]
    assert page.locator(".answer-node title").text_content() == answers[2]
    third.click()
    assert page.locator(".why").count() == 0
    page.locator(".answer").nth(0).focus()
    page.keyboard.press("ArrowDown")
    page.keyboard.press("Enter")
    page.wait_for_selector(".why svg")
    assert page.locator(".answer-node title").text_content() == answers[1]


def test_a_reason_of_another_answer_is_not_shown(visit: Visit) -> None:
    """The run may have been trained again since."""
    visit.ask(QUESTION)
    visit.reply("/explain", row("Elsewhere", 0.9))
    visit.page.locator(".answer").first.click()
    visit.page.locator(".why", has_text="others by now").wait_for()


def test_more_answers_keep_place_and_focus(visit: Visit, europe_service: Running) -> None:
    page = visit.page
    question = "?x : borders(France, ?x)"
    first = visit.ask(question)
    assert len(first) == 10
    more = page.get_by_role("button", name="More answers")
    more.scroll_into_view_if_needed()
    more.focus()
    before = (
        page.evaluate("scrollY"),
        page.locator(".answer").first.evaluate("row => row.offsetTop"),
    )
    page.keyboard.press("Enter")
    page.locator(".answer").nth(10).wait_for()
    assert (
        page.evaluate("scrollY"),
        page.locator(".answer").first.evaluate("row => row.offsetTop"),
    ) == before
    assert page.evaluate("document.activeElement.querySelector('.rank').textContent") == "11"
    whole = [answer["entity"] for answer in europe_service.ask(question, top=30).json()["answers"]]
    assert visit.answers() == whole
    assert page.locator(".rank").all_inner_texts() == [
        str(rank) for rank in range(1, len(whole) + 1)
    ]
    assert visit.url_query()["top"] == [str(len(whole))]
    assert not more.is_visible()
    assert page.locator("#status").inner_text() == f"{len(whole) - 10} answers more."


def test_answers_that_sparql_begins_with_have_the_ranks_that_every_door_gives_them(
    visit: Visit, europe_service: Running
) -> None:
    question = "PREFIX : <tacit:> SELECT ?x { :France :borders ?x } LIMIT 3 OFFSET 1"
    answers = europe_service.ask(question).json()["answers"]
    assert visit.ask(question) == [answer["entity"] for answer in answers]
    ranks = visit.page.locator(".rank").all_inner_texts()
    assert ranks == [str(answer["rank"]) for answer in answers] == ["2", "3", "4"]
    assert (
        visit.open(answers[1]["entity"]).locator(".answer-node title").text_content()
        == answers[1]["entity"]
    )


def test_answers_of_one_name_are_told_apart_as_on_a_terminal(visit: Visit) -> None:
    labels = {"Q230": "Georgia", "Q1428": "Georgia", "Q43": "Turkey"}
    rows = [
        row(label, 0.9, name=name, values={"x": label}, names={"x": name})
        for label, name in labels.items()
    ]
    visit.reply("/ask", *rows)
    assert visit.ask(QUESTION) == ["Georgia (Q230)", "Georgia (Q1428)", "Turkey"]
    names = {"x": "Turkey", "y": "Georgia"}
    pairs = [
        {"rank": 1, "values": {"x": "Q43", "y": label}, "names": names, "score": 0.9}
        for label in ("Q230", "Q1428")
    ]
    visit.reply("/ask", *pairs, kind="tuples", variables=["x", "y"])
    assert visit.ask(QUESTION) == ["?xTurkey?yGeorgia (Q230)", "?xTurkey?yGeorgia (Q1428)"]


def test_little_is_announced(visit: Visit) -> None:
    page = visit.page
    visit.ask("?x : borders(Portugal, ?x)")
    assert page.locator("#status").inner_text() == "10 answers: 1 known, 9 predicted."
    live = page.locator("[aria-live], [role=status], [role=alert]")
    assert live.evaluate_all("all => all.map((each) => each.id)") == [
        "problem",
        "wrong-key",
        "status",
    ]


def test_a_line_says_where_the_sensible_answers_end(visit: Visit) -> None:
    rows = [row("A", 0.9, True), row("B", 0.5), row("C", 0.4), row("D", 0.1)]
    for threshold, above in ((None, 2), (0.2, 3), (0.95, 0)):
        visit.reply("/ask", *rows, **({} if threshold is None else {"threshold": threshold}))
        visit.ask(QUESTION)
        kinds = visit.page.locator(".answers > li").evaluate_all(
            "all => all.map((each) => each.className || '-')"
        )
        assert kinds == ["-"] * above + ["cut"] + ["-"] * (4 - above)
    # beside its words
    assert visit.page.locator(".cut").evaluate("line => getComputedStyle(line).display") == "flex"


def test_a_line_says_which_answers_score_next_to_nothing(visit: Visit) -> None:
    likely, unlikely, nothing = row("A", 0.9), row("B", 0.1), row("C", 2e-9)
    improbable, padding = "probably not, below here", "next to nothing, below here"
    for rows, texts in (
        ([likely, unlikely, nothing, nothing], ["A", improbable, "B", padding, "C", "C"]),
        ([likely, nothing], ["A", padding, "C"]),
        ([nothing], [padding, "C"]),
    ):
        visit.reply("/ask", *rows)
        visit.ask(QUESTION)
        shown = visit.page.locator(".answers .name, .answers .cut").all_inner_texts()
        assert shown == texts


def test_several_variables_yes_and_no_and_counts_are_shown(visit: Visit) -> None:
    page = visit.page
    pair = row(
        "", 0.8, values={"a": "ex:Q29", "rank": "Madrid"}, names={"a": "Spain", "rank": "Madrid"}
    )
    del pair["entity"], pair["name"]
    visit.reply(
        "/ask", pair, kind="tuples", variables=["a", "rank"], query="?a, ?rank : p(?a, ?rank)"
    )
    assert visit.ask(QUESTION) == ["?aSpain?rankMadrid"]
    hrefs = "all => all.map((link) => link.getAttribute('href'))"
    assert page.locator(".visit").evaluate_all(hrefs) == ["/?entity=ex%3AQ29", "/?entity=Madrid"]
    assert visit.saved("CSV").splitlines() == [
        "rank,a,rank,score,known",
        "1,ex:Q29,Madrid,0.8,false",
    ]
    truth = {key: value for key, value in pair.items() if key != "values"} | {
        "values": {},
        "score": 0.3,
    }
    visit.reply("/ask", truth, kind="truth", variables=[])
    page.locator("#go").click()
    page.locator(".name", has_text="probably no").wait_for()
    assert page.locator(".cut, .visit").count() == 0
    visit.reply(
        "/ask", row("borders", 0.9, values={"r": "borders"}), kind="relations", variables=["r"]
    )
    page.locator("#go").click()
    page.locator(".name", has_text="borders").wait_for()
    assert page.locator(".visit").count() == 0  # a relation has no page
    visit.reply("/ask", kind="count", variables=["x"], count={"known": 12, "expected": 15.34})
    page.locator("#go").click()
    page.locator(".nothing", has_text="About 15.3").wait_for()
    assert "12 known" in page.locator(".nothing").inner_text()
    assert page.locator("#status").inner_text() == "About 15.3"


def test_another_reason_is_asked_for_when_it_is_wanted(visit: Visit) -> None:
    page = visit.page
    atom = {
        "relation": "borders",
        "object": "Portugal",
        "score": 0.9,
        "observed": True,
        "negated": False,
    }
    ways = [
        {"score": 0.9, "labels": {}, "atoms": [atom | {"subject": name}]}
        for name in ("Spain", "Sea")
    ]

    def explain(route: Any) -> None:
        witnesses = ways[: route.request.post_data_json["paths"]]
        route.fulfill(
            json={
                "query": "?x",
                "certified": None,
                "answers": [row("Portugal", 0.9, witnesses=witnesses)],
            }
        )

    visit.reply("/ask", row("Portugal", 0.9))
    page.route("**/explain", explain)
    visit.ask(QUESTION)
    why = visit.open("Portugal")
    assert why.locator(".facts code").all_inner_texts() == ["borders(Spain, Portugal)"]
    page.get_by_role("button", name="Another reason").click()
    page.locator(".why .second", has_text="Or 0.900, because").wait_for()
    assert why.locator(".facts code").all_inner_texts() == [
        "borders(Spain, Portugal)",
        "borders(Sea, Portugal)",
    ]
    ways.pop()
    page.locator(".answer").click()
    visit.open("Portugal")
    page.get_by_role("button", name="Another reason").click()
    page.locator(".why", has_text="There is no other reason.").wait_for()


def test_a_question_that_takes_long_shows_the_time_and_can_be_cancelled(visit: Visit) -> None:
    page = visit.page
    failed = []
    page.route("**/ask", lambda route: None)
    page.on("requestfailed", lambda request: failed.append(request.url.rsplit("/", 1)[1]))
    page.fill("#question", QUESTION)
    page.keyboard.press("Enter")
    page.locator(".summary", has_text=re.compile(r"Asking … \d\.\d s")).wait_for()
    with page.expect_event("requestfailed"):  # the service hears of it
        page.get_by_role("button", name="Cancel").click()
    assert failed == ["ask"]
    page.locator(".nothing", has_text="Cancelled").wait_for()
    page.unroute("**/ask")
    page.locator("#go").click()
    assert visit.answers()
    assert re.search(r"\d+ ms|\d\.\d s", page.locator(".summary .time").inner_text())


def test_questions_asked_before_are_kept_here_until_they_are_forgotten(
    visit: Visit, europe_service: Running
) -> None:
    page = visit.page
    assert not page.locator("#before").is_visible()
    visit.ask("?x : borders(Portugal, ?x)")
    visit.ask("?x : speaks(Spain, ?x)")
    visit.go(europe_service.url)
    page.locator("#before summary").click()
    again = page.locator("#before .again")
    assert again.locator("code").all_inner_texts() == [
        "?x : speaks(Spain, ?x)",
        "?x : borders(Portugal, ?x)",
    ]
    again.nth(1).click()
    assert visit.answers()[0] == "Spain"
    page.get_by_role("button", name="Forget them").click()
    assert not page.locator("#before").is_visible()
    assert page.evaluate("localStorage.getItem('tacit-asked')") == "[]"


def test_estimates_are_called_so_as_on_a_terminal(visit: Visit) -> None:
    visit.reply("/ask", row("A", 0.9), estimated=True)
    visit.ask(QUESTION)
    assert visit.page.locator(".uncalibrated").inner_text() == ESTIMATED


def test_no_answers_of_a_beam_that_dropped_candidates_offer_exact_search(visit: Visit) -> None:
    visit.reply("/ask", certified=False, proven=0)
    visit.page.fill("#question", QUESTION)
    visit.page.keyboard.press("Enter")
    visit.page.locator(".verdict", has_text="dropped candidates").locator("button").click()
    visit.page.wait_for_function(
        "() => new URLSearchParams(location.search).get('search') === 'exact'"
    )


def test_how_many_are_known_in_all_is_told_beside_those_that_are_shown(visit: Visit) -> None:
    page = visit.page
    some = [row("a", 0.9, known=True) | {"rank": 1}, row("b", 0.9, known=True) | {"rank": 2}]
    for more, says in (
        ({"known_total": 58, "cut_by": "top"}, "2 of 58 known, 0 predicted"),
        (
            {"known_total": 100_000, "known_at_least": True, "cut_by": "top"},
            "2 of at least 100000 known, 0 predicted",
        ),
        ({"known_total": 2, "cut_by": None}, "2 known, 0 predicted"),
    ):
        visit.reply("/ask", *some, **more)
        page.fill("#question", QUESTION)
        page.keyboard.press("Enter")
        page.locator(".summary .told", has_text=says).wait_for()
