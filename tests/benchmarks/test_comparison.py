"""A measurement over two source trees: whose figures are compared, which is better, and names that have changed."""

from __future__ import annotations

import json
import sys
from importlib.util import find_spec
from pathlib import Path

import pytest

import comparison
import startup
from source_tree import SRC

SCRIPT = """
import json, pathlib, sys
from tacit.evaluate.protocol import SPEED
out = pathlib.Path(sys.argv[sys.argv.index("--out") + 1])
out.mkdir(parents=True)
(out / "script.json").write_text(json.dumps({"figures": {"a step": {"ms": SPEED, "steps": 3}}}))
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
    script, out = tmp_path / "script.py", tmp_path / "out"
    script.write_text(SCRIPT)
    comparison.compare(script, ["--tiny", "--against", "there", "--rounds", "1"], tmp_path / "there", out)
    written = json.loads((out / "script-against.json").read_text())
    assert written["figures"] == {"a step ms": {"here": 2.0, "there": 4.0, "ratio": 0.5}}
    assert written["arguments"] == ["--tiny", "--rounds", "1"]
    assert set(written["git"]) == {"here", "there"}
    assert "ratio" in capsys.readouterr().out.splitlines()[0]


def test_a_folder_that_is_no_checkout_and_a_script_that_fails_are_named(tmp_path: Path) -> None:
    with pytest.raises(SystemExit, match="it has no src/tacit"):
        startup.main(["--against", str(tmp_path)])
    script = tmp_path / "broken.py"
    script.write_text("raise ValueError('no such thing')")
    with pytest.raises(SystemExit, match=r"(?s)broken does not run over .*no such thing"):
        comparison.compare(script, [], SRC.parent, tmp_path)


def test_the_best_of_all_turns_depends_on_the_unit(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    turns = iter([{"a ms": 2.0, "a facts_per_s": 10.0}, {"a ms": 1.0, "a facts_per_s": 5.0}] * 2)
    monkeypatch.setattr(comparison, "_measured", lambda *arguments: next(turns))
    comparison.compare(Path("any.py"), [], SRC.parent, tmp_path)
    figures = json.loads((tmp_path / "any-against.json").read_text())["figures"]
    assert figures["a ms"] == {"here": 2.0, "there": 1.0, "ratio": 2.0}  # here 2 and 2, there 1 and 1
    assert figures["a facts_per_s"] == {"here": 10.0, "there": 5.0, "ratio": 2.0}
    better = {
        name: comparison._smaller_is_better(name) for name in ("1p ms", "peak_gb", "x seconds 1p", "a per_s", "mrr")
    }
    assert better == {"1p ms": True, "peak_gb": True, "x seconds 1p": True, "a per_s": False, "mrr": False}


def test_only_what_was_measured_is_compared() -> None:
    figures = {"1p": {"queries": 500, "ms": 1.5, "published ms": "21"}, "total": {"s": 2.0}}
    assert comparison._flat(figures) == {"1p ms": 1.5, "total s": 2.0}


def test_a_module_is_found_under_the_name_it_had_before(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "meta_path", [*sys.meta_path, comparison.OlderNames({"tacit.newer": "tacit.errors"})])
    from tacit.newer import TacitError  # type: ignore[import-not-found]

    from tacit import errors

    assert TacitError is errors.TacitError
    sys.modules.pop("tacit.newer", None)
    with pytest.raises(ModuleNotFoundError):
        import tacit.newest  # type: ignore[import-not-found]  # noqa: F401


def test_a_table_has_a_dash_where_a_row_lacks_a_column(capsys: pytest.CaptureFixture[str]) -> None:
    comparison.show({"one": {"ms": 1.23456, "queries": 1200}, "another": {"per_s": 12345.6}})
    assert [line.split() for line in capsys.readouterr().out.splitlines()] == [
        ["ms", "queries", "per_s"],
        ["one", "1.235", "1,200", "-"],
        ["another", "-", "-", "12,346"],
    ]


def test_what_scripts_import_was_found_before_files_were_renamed() -> None:
    renamed = {
        "tacit.evaluate.question_validation", "tacit.graph.label_tables", "tacit.links.fact_validation",
        "tacit.links.link_training", "tacit.query.plan_traits",
    }  # fmt: skip
    assert renamed <= comparison.OLDER.keys()
    assert [name for name in comparison.OLDER if find_spec(name) is None] == []  # no name that is no more
