from __future__ import annotations

from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tacit.errors import DataError, SettingsError
from tacit.evaluate import figures
from tacit.evaluate.report import differences, report, sections, write_report
from tacit.graph.graph import Graph
from tacit.run_folder.folder import RunFolder

RELIABILITY = {
    "ece": 0.125,
    "brier": 0.25,
    "count": 8,
    "curve": {"count": [8], "score": [0.5], "accuracy": [0.375]},
}


def evaluation(k: int, mrr: float, **more: Any) -> dict[str, Any]:
    metrics = {
        "mrr": {"1p": mrr, "2i": 0.3},
        **{name: {"1p": 0.5, "2i": 0.5} for name in ("hits@1", "hits@3", "hits@10")},
    }
    counts = {"queries": {"1p": 10, "2i": 10}, "seconds": {"1p": 1.0, "2i": 1.0}}
    return {**metrics, **counts, "ties": "realistic", "settings": {"k": k, "split": "test"}, **more}


@pytest.fixture
def run(tmp_path: Path) -> RunFolder:
    graph = Graph.of([("a<b", "r", "c")], name="NELL995")
    run = RunFolder.create(tmp_path / "run", graph, {"model": "complex", "rank": 8})
    for epoch in (1, 2, 3):
        run.trace(
            {
                "event": "epoch",
                "epoch": epoch,
                "loss": 1 / epoch,
                "valid_mrr": None if epoch == 2 else epoch / 10,
            }
        )
    run.write_results(
        {
            "train": {"epochs": 3, "note": "<script>alert(1)</script>"},
            "eval": [
                evaluation(64, 0.604),
                evaluation(512, 0.611, reliability={"atoms": RELIABILITY}),
            ],
        }
    )
    return run


class Page(HTMLParser):
    """The text of an HTML page and the tags that would load something."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.words: list[str] = []
        self.tags: list[str] = []
        self.links: list[str] = []
        self.feed(text)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append(tag)
        self.links += [value or "" for name, value in attrs if name in ("src", "href")]

    def handle_data(self, data: str) -> None:
        self.words.append(data.strip())


def test_an_html_page_has_tables_and_figures_and_loads_nothing(
    run: RunFolder, tmp_path: Path
) -> None:
    pytest.importorskip("matplotlib")
    page = Page(write_report(run, tmp_path / "report.html").read_text())
    assert "script" not in page.tags
    assert all(not link.startswith("http") for link in page.links)
    assert page.tags.count("svg") == 3  # reliability, loss, validation MRR
    for word in ("#1", "512", "60.4", "61.1", "0.1250", "rank", "<script>alert(1)</script>"):
        assert word in page.words, word


def test_a_markdown_page_has_the_same_tables_with_figures_inline(
    run: RunFolder, tmp_path: Path
) -> None:
    pytest.importorskip("matplotlib")
    text = write_report(run, tmp_path / "report.md").read_text()
    assert "| #1 | 60.4 | 30.0 |" in text
    assert "| | calibration error | Brier score | scores |" in text
    assert text.count("](data:image/png;base64,") == 3


def test_without_matplotlib_the_tables_remain(
    run: RunFolder, monkeypatch: pytest.MonkeyPatch
) -> None:
    def missing(*args: Any, **kwargs: Any) -> Any:
        raise SettingsError("figures need matplotlib")

    monkeypatch.setattr(figures, "blank", missing)
    text = report(run, "markdown")
    assert "60.4" in text
    assert "figures need matplotlib" in text


def test_a_run_that_was_only_trained(tmp_path: Path) -> None:
    run = RunFolder.create(tmp_path / "run", Graph.of([("a", "r", "b")]), {"rank": 8})
    text = report(run, "markdown")
    assert "Nothing has been evaluated" in text
    assert "| rank | 8 |" in text


def test_where_a_report_cannot_be_written(run: RunFolder, tmp_path: Path) -> None:
    with pytest.raises(SettingsError, match=r"\.html or \.md"):
        write_report(run, tmp_path / "report.pdf")
    with pytest.raises(DataError, match="no folder"):
        write_report(run, tmp_path / "none" / "report.md")


def test_what_evaluations_differ_in() -> None:
    assert differences([{"split": "test", "k": 3}]) == []
    assert differences(
        [{"k": 1, "split": "test"}, {"k": 2, "split": "test", "logic": "godel"}]
    ) == ["k", "logic"]
    assert differences([]) == []


def test_settings_are_stated_once_where_evaluations_share_them(run: RunFolder) -> None:
    text = report(run, "markdown")
    assert "All with split test." in text
    assert "| | k |\n|---|---:|\n| #1 | 64 |\n| #2 | 512 |" in text
    run.write_results({"eval": [evaluation(64, 0.604)]})
    text = report(run, "markdown")
    assert "With k 64, split test." in text


def test_a_trace_of_two_runs_draws_two_curves(run: RunFolder) -> None:
    pytest.importorskip("matplotlib")
    for step in (0, 10, 0, 5):
        run.trace({"event": "adapt", "step": step, "valid_mrr": 0.1 * step})
    (figure,) = (
        section.figure for section in sections(run) if section.title == "Validation MRR by step"
    )
    assert figure is not None
    times = [np.asarray(line.get_xdata()).tolist() for line in figure.axes[0].lines]
    assert times == [[0, 10], [0, 5]]


def test_of_many_trainings_the_last_ones_are_drawn_and_the_others_counted(run: RunFolder) -> None:
    pytest.importorskip("matplotlib")
    for _ in range(30):
        for step in (10, 20):
            run.trace({"event": "adapt", "step": step, "valid_mrr": 0.1 * step})
    (drawn,) = (
        section for section in sections(run) if section.title.startswith("Validation MRR by step")
    )
    assert drawn.title == "Validation MRR by step, the last 7 of 30 trainings"
    assert drawn.figure is not None
    (axes,) = drawn.figure.axes
    assert [line.get_label() for line in axes.lines][-1] == "valid_mrr #30"
    # the legend fits, since a warning is an error here
    assert "data:image/png" in report(run, "markdown")
