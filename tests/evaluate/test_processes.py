"""An evaluation over several processes has the figures of one, written once."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

from typer.testing import CliRunner

import tacit
import tiny
from rank_processes import on_ranks
from tacit.cli import app

METRICS = (
    "mrr",
    "hits@1",
    "hits@3",
    "hits@10",
    "means",
    "queries",
    "answers",
    "settings",
    "reliability",
    "relations",
)


def evaluated(run: Path, queries: Path, out: Path) -> tuple[str, str]:
    """Return the output and results of `tacit eval`, in batches that all processes share."""
    command = [
        "eval",
        run,
        "--queries",
        queries,
        "--batch",
        3,
        "--reliability",
        "--per-relation",
        "--json",
        out,
    ]
    result = CliRunner().invoke(
        app, [str(argument) for argument in command], catch_exceptions=False
    )
    assert result.exit_code == 0, result.output
    return result.stdout, out.read_text() if out.exists() else ""


def on_a_rank(rank: int, world: int, run: Path, queries: Path, folder: Path) -> tuple[str, str]:
    return evaluated(run, queries, folder / f"rank-{rank}.json")


def figures(written: str) -> dict[str, Any]:
    return {name: json.loads(written)[name] for name in METRICS}


def test_processes_share_the_queries_and_find_what_one_does(tmp_path: Path) -> None:
    queries = tiny.write_data(tmp_path / "data") / "NELL995"
    run = tiny.write_run(tmp_path / "run")
    shutil.copytree(run, tmp_path / "alone")
    said, written = evaluated(tmp_path / "alone", queries, tmp_path / "alone.json")
    first, second = on_ranks(2, tmp_path / "ranks", on_a_rank, run, queries, tmp_path, timeout=60.0)
    assert figures(first[1]) == figures(written)
    # below the tables, which hold times
    assert first[0].splitlines()[-3:] == said.splitlines()[-3:]
    assert second == ("", "")  # neither a word nor a file
    entries = tacit.open(run, device="cpu").results["eval"]
    assert len(entries) == 1
    assert entries[0]["mrr"] == json.loads(written)["mrr"]
