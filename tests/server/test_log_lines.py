"""Log lines: what a client sends cannot begin one, nor move a terminal's cursor."""

from __future__ import annotations

import io
import logging

import pytest

from tacit.server.monitoring import LogLines

FORGED = "?c : a(b, ?c)\nERROR: all is lost\r\x1b[2J\x9b1m\u2028ERROR: again"


@pytest.fixture
def written() -> io.StringIO:
    return io.StringIO()


@pytest.fixture
def log(written: io.StringIO) -> logging.Logger:
    handler = logging.StreamHandler(written)
    log = logging.Logger("a test")
    handler.setFormatter(LogLines())
    log.addHandler(handler)
    return log


def test_a_question_stays_inside_its_line(log: logging.Logger, written: io.StringIO) -> None:
    log.warning("a question ran longer than %g s: %.200s", 10, FORGED)
    (line,) = written.getvalue().splitlines()
    assert line.startswith(
        "WARNING: a question ran longer than 10 s: ?c : a(b, ?c)\\nERROR: all is lost\\r\\x1b[2J"
    )
    assert all(character.isprintable() for character in line)


def test_no_line_of_a_traceback_looks_like_another_record(
    log: logging.Logger, written: io.StringIO
) -> None:
    try:
        raise ValueError(FORGED)
    except ValueError:
        log.exception("a question failed")
    first, *rest = written.getvalue().splitlines()
    assert first == "ERROR: a question failed"
    assert rest[0] == "    Traceback (most recent call last):"
    assert all(line.startswith("    ") and line.isprintable() for line in rest)


def test_plain_words_of_any_language_stay_as_they_are(
    log: logging.Logger, written: io.StringIO
) -> None:
    log.warning("größer als 東京")
    assert written.getvalue() == "WARNING: größer als 東京\n"
