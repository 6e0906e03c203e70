from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

pytest.importorskip("matplotlib")

from tacit.errors import DataError, SettingsError
from tacit.evaluate import figures
from tacit.evaluate.calibration import Reliability


def heights(patches: list) -> list[float]:
    return [patch.get_height() for patch in patches]


def test_the_minimum_of_two_atoms_is_drawn_from_pairs() -> None:
    first, second = np.array([0.0, 1.0]), np.array([1.0, 0.0])  # the minimum of each pair is 0
    axes = figures.score_distributions(first, second, names=("p", "q")).axes[0]
    drawn = {patch.get_label(): patch.get_data().values for patch in axes.patches if patch.get_label() in ("p", "q")}
    minimum = next(patch for patch in axes.patches if patch.get_label() == "minimum of both").get_data().values
    assert minimum[0] == 1.0
    assert drawn["p"][0] == drawn["p"][-1] == 0.5
    assert (axes.get_xlabel(), axes.get_ylabel()) == ("score", "share of the scores")


def test_scores_that_cannot_be_paired_are_refused() -> None:
    with pytest.raises(SettingsError, match="3 scores"):
        figures.score_distributions([0, 0, 0], [1])
    with pytest.raises(SettingsError, match="no finite scores"):
        figures.score_distributions([-np.inf], [-np.inf])
    with pytest.raises(SettingsError, match="same names"):
        figures.adaptation({"r": [1.0]}, {"q": [1.0]})


def test_before_and_after_share_an_axis() -> None:
    figure = figures.adaptation({"r": [0.1, 0.2]}, {"r": [0.7, 0.9]}, title="adapted")
    left, right = figure.axes
    assert (left.get_title(), right.get_title()) == ("before", "after")
    assert left.get_ylim() == right.get_ylim()


def test_curves_over_steps() -> None:
    axes = figures.steps({"1 %": ([0, 10], [0.2, 0.25]), "100 %": ([0, 10], [0.2, 0.26])}).axes[0]
    assert [line.get_ydata().tolist() for line in axes.lines] == [[0.2, 0.25], [0.2, 0.26]]
    assert [text.get_text() for text in axes.get_legend().get_texts()] == ["1 %", "100 %"]


def test_bars_leave_room_where_a_method_has_no_value() -> None:
    axes = figures.bars({"all": {"2p": 13.6, "2i": 34.5}, "1 %": {"2i": 33.6}}).axes[0]
    assert heights(axes.patches) == [13.6, 34.5, 33.6]
    assert axes.patches[2].get_x() == pytest.approx(1.0)  # right of the centre of 2i
    assert [label.get_text() for label in axes.get_xticklabels()] == ["2p", "2i"]


def test_a_reliability_diagram_has_the_diagonal_and_names_the_error() -> None:
    found = Reliability.of(np.array([0.25, 0.75]), np.array([0, 1]), bins=2)
    axes = figures.reliability_diagram({"sigmoid": found.to_json()}).axes[0]
    assert axes.lines[1].get_xdata().tolist() == [0.25, 0.75]
    assert axes.lines[1].get_ydata().tolist() == [0.0, 1.0]
    assert "0.250" in axes.lines[1].get_label()


def test_figures_are_saved_by_their_ending(tmp_path: Path) -> None:
    figure = figures.steps({"a": ([0], [1])})
    assert figures.save(figure, tmp_path / "new" / "a.png").read_bytes().startswith(b"\x89PNG")
    with pytest.raises(DataError, match=r"use .png, .svg or .pdf"):
        figures.save(figure, tmp_path / "a.doc")
    (tmp_path / "file").write_text("")
    with pytest.raises(DataError, match="cannot be written"):
        figures.save(figure, tmp_path / "file" / "a.png")


def test_svg_text_is_the_same_every_time() -> None:
    first, second = (figures.svg(figures.steps({"a": ([0], [1])})) for _ in range(2))
    assert first == second
    assert first.startswith("<svg")
