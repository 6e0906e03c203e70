from __future__ import annotations

import io

import pytest
from rich.console import Console

from tacit.evaluate.results import cell, columns_of, metrics_table, percentages, relations_table
from tacit.query.sampling.shapes import POSITIVE

RESULTS = {
    "mrr": {name: i / 100 for i, name in enumerate(POSITIVE, 1)},
    "hits@1": dict.fromkeys(POSITIVE, 0.25),
    "hits@3": dict.fromkeys(POSITIVE, 0.5),
    "hits@10": dict.fromkeys(POSITIVE, 1.0),
    "queries": dict.fromkeys(POSITIVE, 1000),
    "seconds": dict.fromkeys(POSITIVE, 2.5),
}


def printed(table: object) -> list[str]:
    console = Console(file=io.StringIO(), width=200)
    console.print(table)
    return console.file.getvalue().splitlines()  # type: ignore[attr-defined]


def test_percentages_have_the_averages_they_allow() -> None:
    values = percentages(RESULTS)
    assert values["3p"] == pytest.approx(3.0)
    assert values["avg_p"] == pytest.approx(5.0)  # the mean of 1 … 9
    assert "avg_n" not in values
    assert percentages(RESULTS, "hits@1")["avg_p"] == 25.0


def test_columns_are_in_the_order_of_the_benchmarks_then_others() -> None:
    assert columns_of([{"4p": 1.0, "2in": 1.0}, {"1p": 1.0, "avg_p": 1.0}]) == [
        "avg_p",
        "1p",
        "2in",
        "4p",
    ]
    assert (cell(None), cell(22.94)) == ("-", "22.9")


def test_results_for_a_terminal() -> None:
    lines = printed(metrics_table(RESULTS))
    assert "Hits@10" in lines[1]
    assert next(line.split() for line in lines if "2p" in line)[1:-1] == [
        # 2.5 s for 1,000
        "2p", "│", "2.0", "│", "25.0", "│", "50.0", "│", "100.0", "│", "1,000", "│", "2.50",
    ]  # fmt: skip
    assert "5.0" in lines[-2]
    assert not any("avg_n" in line for line in lines)


def test_relations_for_a_terminal_are_sorted_by_how_many_ask_for_them() -> None:
    metrics = {"mrr": 0.5, "hits@1": 0.25, "hits@3": 0.5, "hits@10": 1.0}
    lines = printed(
        relations_table({"[few]": {**metrics, "queries": 1}, "many": {**metrics, "queries": 7}})
    )
    assert [line.split()[1] for line in lines if "50.0" in line] == ["many", "[few]"]
