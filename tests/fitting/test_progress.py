"""Training reports by a bar on a terminal, by lines elsewhere, by events to a callback."""

from __future__ import annotations

import io

import pytest

from tacit.fitting.progress import LINE_SECONDS, Event, bar, counting, lines, shown

STEP = Event("step", 50, 300, "epoch 2 of 3", rate=1234.4, examples="facts", seconds=5.0)
ROUND = Event(
    "round", 100, 300, "epoch 2 of 3", loss=1.25, rate=2000.0, examples="facts", seconds=10.0
)
VALIDATION = Event("validation", 300, 300, "epoch 3 of 3", loss=1.0, metric=0.5, seconds=30.0)
NOTE = Event("note", 10, 300, note="this will take about 2 hours")


def test_a_terminal_shows_a_bar_with_all_figures() -> None:
    screen = io.StringIO()
    with bar(screen, width=160) as tell:
        for event in (STEP, NOTE, ROUND, VALIDATION):
            tell(event)
    text = screen.getvalue()
    for part in ("epoch 3 of 3", "loss 1.0000", "valid MRR 50.00%", "facts/s", NOTE.note):
        assert part in text


def test_elsewhere_lines_tell_of_validations_notes_and_now_and_then_a_sign_of_life(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    now = 100.0
    monkeypatch.setattr("time.monotonic", lambda: now)
    stream = io.StringIO()
    tell = lines(stream)
    for event in (STEP, NOTE, ROUND):
        tell(event)
    now += LINE_SECONDS
    for event in (STEP, STEP, VALIDATION):
        tell(event)
    assert stream.getvalue().splitlines() == [
        "this will take about 2 hours",
        "epoch 2 of 3, 1,234 facts/s, 25 seconds left",  # 5 seconds for 50 of 300 steps
        "epoch 3 of 3, loss 1.0000, validation MRR 50.00%",
    ]


def test_what_is_counted_has_a_bar_of_its_own_and_a_line_now_and_then(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    screen = io.StringIO()
    now = 100.0
    with bar(screen, width=160) as tell, counting(tell) as counts:
        first = counts("2p", 1000)
        second = counts("3in", 2000)
        first(1000)
        second(500)
    text = screen.getvalue()
    for part in ("2p", "1,000 of 1,000", "3in", "500 of 2,000"):
        assert part in text
    monkeypatch.setattr("time.monotonic", lambda: now)
    stream = io.StringIO()
    with counting(lines(stream)) as counts:
        tell_facts = counts("facts", 4000)
        tell_facts(10)
        now += LINE_SECONDS
        tell_facts(1000)
    # 10 seconds for a quarter
    assert stream.getvalue() == "facts: 1,000 of 4,000, 30 seconds left\n"


def test_who_is_told(capsys: pytest.CaptureFixture[str]) -> None:
    events: list[Event] = []
    with shown(events.append) as tell:
        tell(VALIDATION)
    assert events == [VALIDATION]
    with shown(False) as tell:
        tell(VALIDATION)
    assert capsys.readouterr().err == ""
    with shown(True) as tell:
        tell(VALIDATION)
    assert capsys.readouterr().err == f"{VALIDATION}\n"
