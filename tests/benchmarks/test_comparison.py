"""Measurements over two source trees: best figures, winners and renamed modules."""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
from importlib.util import find_spec
from pathlib import Path

import pytest

import before_after
import comparison
import startup
from source_tree import SRC

SCRIPT = """
import json, pathlib, sys
print("SPARQL: left out, since rdflib is not installed")
from tacit.evaluate.protocol import SPEED
out = pathlib.Path(sys.argv[sys.argv.index("--out") + 1])
figures = {"a step": {"ms": SPEED, "steps": 3}}
results = {"device": "2 cores", "versions": {"torch": "2"}, "figures": figures}
(out / "script.json").write_text(json.dumps(results))
sys.exit("goals missed")
"""


def test_two_trees_are_measured_and_their_ratios_written(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    for tree, module, speed in (("here", "protocol", 2.0), ("there", "benchmark", 4.0)):
        package = tmp_path / tree / "src" / "tacit" / "evaluate"
        package.mkdir(parents=True)
        (package.parent / "__init__.py").touch()
        (package / f"{module}.py").write_text(f"SPEED = {speed}")
    monkeypatch.setattr(comparison, "SRC", tmp_path / "here" / "src")
    script = tmp_path / "script.py"
    script.write_text(SCRIPT)
    parts = {"a": [str(script), "--rounds", "1"], "b": [str(tmp_path / "missing.py")]}
    comparison.compare(parts, tmp_path / "there", tmp_path / "compared.json", turns=2)
    written = json.loads((tmp_path / "compared.json").read_text())
    row = {"before": 4.0, "after": 2.0, "ratio": 0.5, "spread": 0.0, "beyond noise": "better"}
    assert written["figures"] == {"a a step ms": row}
    assert written["turns"] == {"a a step ms": {"before": [4.0, 4.0], "after": [2.0, 2.0]}}
    assert written["settings"] == {
        "turns": 2,
        "parts": {"a": ["script.py", "--rounds", "1"], "b": ["missing.py"]},
    }
    assert all("missing.py" in written["left out"][tree]["b"] for tree in ("before", "after"))
    assert written["left out"]["after"]["SPARQL"] == "rdflib is not installed"
    assert {"torch", "git", "device"} <= set(written["versions"]["before"])
    printed = capsys.readouterr().out.splitlines()
    assert printed[0].split() == ["before", "after", "ratio", "spread", "beyond", "noise"]
    assert "after, SPARQL: left out, since rdflib is not installed" in printed
    assert sum(", b: left out, since" in line for line in printed) == 2


def test_a_folder_that_is_no_checkout_and_a_script_that_fails_are_named(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit, match="it has no src/tacit"):
        startup.main(["--against", str(tmp_path)])
    script = tmp_path / "broken.py"
    script.write_text("raise ValueError('no such thing')")
    with pytest.raises(SystemExit, match="nothing was measured over both trees"):
        comparison.compare({"broken": [str(script)]}, SRC.parent, tmp_path / "compared.json")
    assert "before, broken: left out, since ValueError: no such thing" in capsys.readouterr().out


def test_the_best_of_all_turns_depends_on_the_unit() -> None:
    assert comparison.beside("a ms", [4.0, 5.0], [3.0, 2.0]) == {
        "before": 4.0,
        "after": 2.0,
        "ratio": 0.5,
        "spread": 0.5,
    }
    row = comparison.beside("a facts_per_s", [10.0, 9.0], [4.0, 5.0])
    assert (row["before"], row["after"], row["beyond noise"]) == (10.0, 5.0, "worse")
    # no spread to tell
    assert comparison.beside("a ms", [4.0], [2.0]) == {"before": 4.0, "after": 2.0, "ratio": 0.5}
    assert comparison.beside("a ms", [], [2.0]) == {"after": 2.0}
    assert comparison.beside("a ms", [0.0, 0.0], [2.0, 2.0]) == {"before": 0.0, "after": 2.0}
    names = (
        "1p ms",
        "peak_gb",
        "x seconds 1p",
        "a, s",
        "bytes a triple",
        "a per_s",
        "per processor second",
        "mrr",
    )
    assert [name for name in names if not comparison._smaller_is_better(name)] == list(names[-3:])


def test_no_turn_is_begun_that_may_end_too_late(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    clock = iter(range(0, 1000, 40))  # every look at it takes so many seconds
    monkeypatch.setattr(comparison.time, "monotonic", lambda: next(clock))
    monkeypatch.setattr(
        comparison.Tree,
        "measure",
        lambda tree, *rest: tree.figures.setdefault("a ms", []).append(float(len(rest))),
    )
    out = tmp_path / "compared.json"
    comparison.compare({"a": []}, SRC.parent, out, turns=9, minutes=5)
    assert json.loads(out.read_text())["settings"]["turns"] == 3


def test_what_matters_is_measured_before_and_after(tmp_path: Path) -> None:
    arguments = ["--tiny", "--turns", "1", "--parts", "load", "--against", str(SRC.parent)]
    before_after.main([*arguments, "--out", str(tmp_path)])
    written = json.loads((tmp_path / "before_after.json").read_text())
    assert {"before", "after", "ratio"} <= set(written["figures"]["load table per second"])
    assert written["versions"]["before"] == written["versions"]["after"]
    assert {"python", "torch", "git", "device"} <= set(written["versions"]["after"])
    with pytest.raises(SystemExit):
        before_after.main([])
    options = argparse.Namespace(
        data=tmp_path, device="cuda", seed=1, threads=2, tiny=False, parts="engine"
    )
    (tmp_path / "NELL995").mkdir()
    assert list(before_after.parts(options)) == ["engine world", "engine NELL995"]


def test_only_what_was_measured_is_compared() -> None:
    figures = {
        "1p": {"queries": 500, "ms": 1.5, "processor_ratio": 1.2, "published ms": "21"},
        "total": {"s": 2.0},
    }
    assert comparison._flat(figures) == {"1p ms": 1.5, "total s": 2.0}


def test_modules_are_found_under_the_names_they_had_before(tmp_path: Path) -> None:
    older = tmp_path / "older" / "tacit"
    # three of which are packages here
    for name in ("run", "query/plan", "query/sampling", "engine/projection"):
        (older / name).parent.mkdir(parents=True, exist_ok=True)
        (older / f"{name}.py").write_text(f"place = '{name}'", encoding="utf-8")
    for name in ("", "query", "engine"):
        (older / name / "__init__.py").write_text("", encoding="utf-8")
    (tmp_path / "beside.py").write_text("from tacit.query.plans import plan\nplaces = [plan.place]")
    script = tmp_path / "script.py"
    script.write_text(
        "from beside import places\n"
        "import tacit.engine.search.hop as hop\nfrom tacit.run.run import place\n"
        "from tacit.query.sampling import sampling\nprint(*places, hop.place, place, "
        "sampling.place)"
    )
    env = os.environ | {"PYTHONPATH": os.pathsep.join(map(str, (older.parent, tmp_path)))}
    process = subprocess.run(
        [sys.executable, comparison.__file__, str(script)],
        env=env,
        capture_output=True,
        text=True,
        check=False,
    )
    assert process.stdout.split() == ["query/plan", "engine/projection", "run", "query/sampling"], (
        process.stderr
    )


def test_a_table_has_a_dash_where_a_row_lacks_a_column(capsys: pytest.CaptureFixture[str]) -> None:
    comparison.show({"one": {"ms": 1.23456, "queries": 1200}, "another": {"per_s": 12345.6}})
    assert [line.split() for line in capsys.readouterr().out.splitlines()] == [
        ["ms", "queries", "per_s"],
        ["one", "1.235", "1,200", "-"],
        ["another", "-", "-", "12,346"],
    ]


def test_no_module_has_an_older_name_that_is_no_more() -> None:
    names = [*comparison.OLDER, *comparison.MERGED]
    assert [name for name in names if find_spec(name) is None] == []
