"""Exponents against known powers, and counted rows against those of a search."""

from __future__ import annotations

import argparse

import numpy as np
import pytest

from exponents import Growth, draw, fit
from growth import counted, made, measure_questions
from tacit.engine.engine import Engine
from walks import SHAPES, Walks

SIZES = (10, 40, 160, 640)


def growth(**columns: list[float]) -> Growth:
    rows = [
        dict(zip(columns, values, strict=True)) for values in zip(*columns.values(), strict=True)
    ]
    return Growth("entities", "2p", "entities", dict(zip(SIZES, rows, strict=True)))


def test_an_exponent_and_its_error_are_those_of_least_squares() -> None:
    values = [2.0, 9.0, 30.0, 140.0]
    (slope, _), covariance = np.polyfit(np.log(SIZES), np.log(values), 1, cov="unscaled")
    left = np.log(values) - np.polyval(np.polyfit(np.log(SIZES), np.log(values), 1), np.log(SIZES))
    found = fit(SIZES, values)
    assert found.exponent == pytest.approx(slope)
    assert found.error == pytest.approx(np.sqrt(covariance[0, 0] * (left @ left) / 2))
    assert (found.least, found.most) == (10, 640)


def test_what_grows_faster_than_its_rows_is_said() -> None:
    squares = [float(n * n) for n in SIZES]
    rows = [float(n) for n in SIZES]
    assert growth(ms=rows, rows=rows).faster() == []
    assert growth(ms=squares, rows=squares).faster() == []
    (said,) = growth(ms=squares, rows=rows).faster()
    assert said == "entities, 2p: ms grow as entities^2.00 from 10 on, where 1.00 is allowed"
    fewer = [1 / n for n in SIZES]
    # what takes as long for fewer rows does not grow
    assert growth(ms=[5.0] * 4, rows=fewer).faster() == []


def test_what_is_fixed_does_not_hide_what_grows_in_the_end() -> None:
    sizes = [10 * 4**i for i in range(8)]
    points = {n: {"ms": 5e7 + (n / 10) ** 2, "rows": 1.0} for n in sizes}
    hidden = Growth("entities", "2p", "entities", points)
    assert hidden.fit("ms").exponent < 0.15
    assert "from 10,240 on" in hidden.faster()[0]


def test_a_panel_shows_every_line() -> None:
    figure = draw([growth(ms=[1.0, 2.0, 3.0, 4.0], rows=[1.0] * 4)])
    ((line,),) = (axes.lines for axes in figure.axes)
    assert line.get_ydata().tolist() == [1, 2, 3, 4]


@pytest.fixture(scope="module")
def engine() -> Engine:
    return made(argparse.Namespace(fixed=60, rank=4, relations=3, seed=0)).with_settings(k=4)


def test_rows_are_those_that_a_search_says_and_a_beam_keeps(engine: Engine) -> None:
    for shape, beams in (("1p", 0), ("2p", 1), ("3p", 2)):
        (text,) = Walks(engine, 1).questions(shape, 1)
        with counted() as rows:
            engine.with_settings(search="beam").ask(text)
        assert rows.scored == 1 + beams * 4  # no two candidates of one question share a row
        with counted() as rows:
            answers = engine.ask(text)
        assert rows.followed == answers.rows


def test_questions_are_of_their_shape(engine: Engine) -> None:
    walks = Walks(engine, 2)
    for shape in SHAPES:
        found = measure_questions(engine, walks.questions(shape, 1))
        assert found["work"] == found["rows"] * 60 * 8
    for form in ("chain", "star", "cycle"):
        assert walks.question(form, 4).count("(") == 4
    answers = engine.ask(walks.question("star", 2), None)
    assert any(answer.known for answer in answers)  # the entity that both were drawn from
