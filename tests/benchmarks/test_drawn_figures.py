from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

pytest.importorskip("matplotlib")

import figures
import tiny
from source_tree import ROOT
from tacit.errors import DataError, SettingsError


def test_scores_before_and_after_share_an_axis() -> None:
    before = {"p": [0.0, 1.0], figures.MINIMUM: [0.0, 0.0]}
    after = {figures.MINIMUM: [0.5, 0.5], "p": [0.5, 0.5]}
    left, right = figures.adaptation(before, after).axes
    assert (left.get_title(), right.get_title()) == ("before", "after")
    assert left.get_ylim() == right.get_ylim()
    drawn = {patch.get_label(): patch.get_data().values for patch in left.patches}
    assert drawn["p"][0] == drawn["p"][-1] == 0.5
    assert drawn[figures.MINIMUM][0] == 1.0


def test_bars_leave_room_where_a_method_has_no_value() -> None:
    axes = figures.grouped_bars({"all": {"2p": 13.6, "2i": 34.5}, "1 %": {"2i": 33.6}}).axes[0]
    assert [patch.get_height() for patch in axes.patches] == [13.6, 34.5, 33.6]
    assert axes.patches[2].get_x() == pytest.approx(1.0)  # right of the centre of 2i
    assert [label.get_text() for label in axes.get_xticklabels()] == ["2p", "2i"]


def test_scores_that_cannot_be_drawn_are_refused() -> None:
    with pytest.raises(SettingsError, match="no finite scores"):
        figures.adaptation({"r": [-np.inf]}, {"r": [-np.inf]})
    with pytest.raises(SettingsError, match="same names"):
        figures.adaptation({"r": [1.0]}, {"q": [1.0]})


def test_figures_are_saved_by_their_ending(tmp_path: Path) -> None:
    figure = figures.adaptation({"r": [1.0]}, {"r": [1.0]})
    assert figures.save(figure, tmp_path / "new" / "a.png").read_bytes().startswith(b"\x89PNG")
    with pytest.raises(DataError, match=r"use .png, .svg or .pdf"):
        figures.save(figure, tmp_path / "a.doc")


@pytest.mark.parametrize("figure", ["atoms", "reliability", "steps", "bars"])
def test_every_figure_is_drawn(figure: str, tmp_path: Path) -> None:
    out = tmp_path / "figure.svg"
    results = ROOT / "benchmarks" / "results" / "fb15k237" / "cqd-a.json"
    if figure in ("atoms", "reliability"):
        run = tiny.write_run(tmp_path / "run")
        data = tiny.write_data(tmp_path / "data")
        figures.main([figure, str(run), "--queries", str(data / "NELL995"), "--out", str(out)])
    else:
        figures.main([figure, f"CQD^A={results}", "--out", str(out)])
    assert "<svg" in out.read_text()
