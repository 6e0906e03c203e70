"""One measurement over two source trees: this one and another checkout's, in turns, each in a process of its own.

    python benchmarks/comparison.py SCRIPT ARGUMENTS…

runs a script over the `tacit` that PYTHONPATH names, whose modules may have older names.
"""

from __future__ import annotations

import json
import os
import runpy
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from importlib import import_module
from importlib.abc import Loader, MetaPathFinder
from importlib.machinery import ModuleSpec
from pathlib import Path
from types import ModuleType
from typing import Any

TURNS = 2
SRC = Path(__file__).parents[1] / "src"
SMALLER = ("s", "ms", "gb", "mb", "bytes")  # units of which less is better, unless they count things `per_s`
# What modules were called in older trees, for the sake of what scripts import.
OLDER = {
    "tacit.folder": "tacit.runs",
    "tacit.run": "tacit.workbench",
    "tacit.sources": "tacit.workbench",
    "tacit.adapt.adaptation": "tacit.adapt.training",
    "tacit.adapt.training_queries": "tacit.adapt.sources",
    "tacit.engine.ranking": "tacit.evaluate.benchmark",
    "tacit.evaluate.protocol": "tacit.evaluate.benchmark",
    "tacit.evaluate.question_validation": "tacit.evaluate.validation",
    "tacit.evaluate.reliability": "tacit.evaluate.calibration",
    "tacit.graph.label_tables": "tacit.graph.tsv",
    "tacit.links.fact_validation": "tacit.links.validation",
    "tacit.links.link_training": "tacit.links.training",
    "tacit.links.precision": "tacit.links.products",
    "tacit.query.plan_traits": "tacit.engine.frontier",
}


class OlderNames(MetaPathFinder, Loader):
    """Finds a module that does not exist under the name it had before."""

    def __init__(self, names: Mapping[str, str] = OLDER) -> None:
        self.names = names

    def find_spec(self, name: str, path: Any = None, target: ModuleType | None = None) -> ModuleSpec | None:
        """Where to find a module, of those with an older name."""
        return ModuleSpec(name, self) if name in self.names else None

    def create_module(self, spec: ModuleSpec) -> ModuleType:
        """The module of the older name."""
        return import_module(self.names[spec.name])

    def exec_module(self, module: ModuleType) -> None:
        """Nothing is left to do."""


def compare(script: Path, arguments: Sequence[str], checkout: Path, out: Path) -> None:
    """Run a script over both trees, print the best figures of either with their ratios, and write them."""
    there = checkout.resolve() / "src"
    if not (there / "tacit").is_dir():
        sys.exit(f"{checkout} is no checkout: it has no src/tacit")
    trees, best = {"here": SRC, "there": there}, {"here": dict[str, float](), "there": dict[str, float]()}
    with tempfile.TemporaryDirectory() as scratch:
        for turn in range(TURNS):
            for tree, src in trees.items():
                for name, value in _measured(script, arguments, src, Path(scratch, f"{tree}-{turn}")).items():
                    choose = min if _smaller_is_better(name) else max
                    best[tree][name] = choose(value, best[tree].get(name, value))
    rows = {
        name: {"here": here, "there": best["there"][name], "ratio": here / best["there"][name]}
        for name, here in best["here"].items()
        if best["there"].get(name)
    }
    show(rows)
    heads = {tree: _git_head(src) for tree, src in trees.items()}
    out.mkdir(parents=True, exist_ok=True)
    written = json.dumps({"arguments": _own(arguments), "git": heads, "turns": TURNS, "figures": rows}, indent=1)
    (out / f"{script.stem}-against.json").write_text(written + "\n", encoding="utf-8")


def show(figures: Mapping[str, Mapping[str, Any]]) -> None:
    """Print figures as a table: a line per row, a dash where a row lacks a column."""
    columns = list(dict.fromkeys(column for row in figures.values() for column in row))
    lines = [["", *columns], *([name, *(shown(row.get(c)) for c in columns)] for name, row in figures.items())]
    first, *widths = (max(map(len, column)) for column in zip(*lines, strict=True))
    for name, *cells in lines:
        line = "  ".join(f"{cell:>{width}}" for cell, width in zip(cells, widths, strict=True))
        print(f"{name:{first}}  {line}", flush=True)


def shown(value: Any) -> str:
    """A figure as a table prints it, a dash where there is none."""
    if isinstance(value, float):
        return f"{value:,.0f}" if abs(value) >= 1000 else f"{value:.4g}"
    return "-" if value is None else f"{value:,}" if isinstance(value, int) else str(value)


def _measured(script: Path, arguments: Sequence[str], src: Path, out: Path) -> dict[str, float]:
    """The figures of a script over a source tree; a goal that is missed does not matter here."""
    command = [sys.executable, __file__, str(script), *_own(arguments), "--out", str(out)]
    done = subprocess.run(command, env=os.environ | {"PYTHONPATH": str(src)}, capture_output=True, text=True)
    files = sorted(out.rglob("*.json"))
    if not files:
        sys.exit(f"{script.stem} does not run over {src}:\n{done.stderr[-2000:]}")
    figures: dict[str, float] = {}
    for file in files:
        results = json.loads(file.read_text(encoding="utf-8"))
        measured = results.get("figures") or {file.stem: {key: results.get(key) for key in ("mrr", "seconds")}}
        figures |= _flat(measured)
    return figures


def _own(arguments: Sequence[str]) -> list[str]:
    """The arguments without `--against CHECKOUT`."""
    kept = list(arguments)
    for i, argument in enumerate(kept):
        if argument.startswith("--against"):
            del kept[i : i + (1 if "=" in argument else 2)]
            break
    return kept


def _flat(figures: Mapping[str, Any], *above: str) -> dict[str, float]:
    """What was measured by name: floats, since whole numbers count what was given."""

    def walk(node: Any, names: tuple[str, ...]) -> Iterator[tuple[str, float]]:
        if isinstance(node, dict):
            for name, part in node.items():
                yield from walk(part, (*names, name))
        elif isinstance(node, float):
            yield " ".join(names), node

    return dict(walk(figures, above))


def _smaller_is_better(name: str) -> bool:
    words = name.replace("_", " ").split()
    return "seconds" in words or (words[-1] in SMALLER and words[-2:-1] != ["per"])


def _git_head(src: Path) -> str:
    done = subprocess.run(["git", "-C", str(src), "rev-parse", "HEAD"], capture_output=True, text=True)
    return done.stdout.strip()


if __name__ == "__main__":
    sys.meta_path.append(OlderNames())
    sys.argv = sys.argv[1:]
    runpy.run_path(sys.argv[0], run_name="__main__")
