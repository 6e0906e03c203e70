from __future__ import annotations

import pytest
import torch

pytest.importorskip("matplotlib")

from tacit.evaluate import figures
from tacit.evaluate.reliability import Reliability


def test_curves_over_steps() -> None:
    axes = figures.steps(
        {"1 %": ([0, 10], [0.2, 0.25]), "100 %": ([0, 10], [0.2, 0.26])}, "MRR"
    ).axes[0]
    assert [line.get_ydata().tolist() for line in axes.lines] == [[0.2, 0.25], [0.2, 0.26]]
    assert [text.get_text() for text in axes.get_legend().get_texts()] == ["1 %", "100 %"]


def test_a_reliability_diagram_has_the_diagonal_and_names_the_error() -> None:
    measured = Reliability.of(torch.tensor([0.25, 0.75]), torch.tensor([0, 1]))
    axes = figures.reliability_diagram({"sigmoid": measured.to_json()}).axes[0]
    assert axes.lines[1].get_xdata().tolist() == [0.25, 0.75]
    assert axes.lines[1].get_ydata().tolist() == [0.0, 1.0]
    assert "0.250" in axes.lines[1].get_label()


def test_svg_text_is_the_same_every_time() -> None:
    first, second = (figures.svg(figures.steps({"a": ([0], [1])}, "loss")) for _ in range(2))
    assert first == second
    assert first.startswith("<svg")
