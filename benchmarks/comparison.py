"""Runs a script over two source trees in turns: this one and another checkout's.

    python benchmarks/comparison.py SCRIPT ARGUMENTS…

runs a script over the `tacit` that PYTHONPATH names, whose modules may have older names. Each
measurement is a process of its own.
"""

from __future__ import annotations

import json
import math
import os
import re
import runpy
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path
from types import ModuleType
from typing import Any

TURNS = 3
SRC = Path(__file__).parents[1] / "src"
# units of which less is better, unless things are counted `per`
SMALLER = {"s", "seconds", "ms", "gb", "mb", "bytes"}
# what is worked out from other figures, or is no work of Tacit
DERIVED = {"ratio", "times", "share", "floor"}
# Names of modules in older trees, which scripts import; others were in the folder above.
OLDER = {
    "tacit.adapt.adaptation": ("tacit.adapt.training",),
    "tacit.adapt.training_queries": ("tacit.adapt.sources",),
    "tacit.encode.networks.sorted_facts": (
        "tacit.encode.networks.aggregation",
        "tacit.encode.aggregation",
    ),
    "tacit.engine.ranking": ("tacit.evaluate.benchmark",),
    "tacit.engine.search.hop": ("tacit.engine.projection",),
    "tacit.engine.atoms.hop_kernels": ("tacit.engine.kernels",),
    "tacit.evaluate.protocol": ("tacit.evaluate.benchmark",),
    "tacit.evaluate.question_validation": ("tacit.evaluate.validation",),
    "tacit.evaluate.reliability": ("tacit.evaluate.calibration",),
    "tacit.graph.formats.label_tables": ("tacit.graph.label_tables", "tacit.graph.tsv"),
    "tacit.links.precision": ("tacit.links.products",),
    "tacit.links.training.fact_validation": (
        "tacit.links.fact_validation",
        "tacit.links.validation",
    ),
    "tacit.links.training.link_training": ("tacit.links.link_training", "tacit.links.training"),
    "tacit.query.plans.traits": ("tacit.query.plan_traits", "tacit.engine.frontier"),
    "tacit.run_folder.files": ("tacit.run.folder", "tacit.folder", "tacit.runs"),
    "tacit.run_folder.folder": ("tacit.run.folder", "tacit.folder", "tacit.runs"),
    "tacit.links.run_retrievers": ("tacit.links.finders", "tacit.links.finders.finders"),
    "tacit.loaded_run": ("tacit.run.loaded", "tacit.opening"),
    "tacit.run.run": ("tacit.run", "tacit.workbench"),
    "tacit.run.training": ("tacit.making",),
    "tacit.run.world": ("tacit.training",),
    "tacit.sources": ("tacit.workbench",),
}
# Modules that took in another one, which older trees have beside them.
MERGED = {
    "tacit.links.factors": "tacit.links.embeddings",
    "tacit.links.models": "tacit.links.loading",
}


def use_older_names(script: Path) -> None:
    """Lets a script and its imports be found under the names of an older tree."""
    imported = _imports(script, set())
    for name in sorted(imported):
        if not _is_there(name):
            package, _, stem = name.rpartition(".")
            older = next(
                filter(_is_there, OLDER.get(name, (f"{package.rpartition('.')[0]}.{stem}",))), None
            )
            if older is not None:
                module = sys.modules[name] = import_module(older)
                if not _is_there(package):
                    sys.modules.setdefault(package, ModuleType(package))
                setattr(import_module(package), stem, module)
    for name in imported & MERGED.keys():
        if _is_there(name) and _is_there(MERGED[name]):
            names = vars(import_module(name))
            names.update(vars(import_module(MERGED[name])) | names)


def _imports(script: Path, seen: set[Path]) -> set[str]:
    """The modules of Tacit that a script imports, or may, and those beside it that it imports."""
    if script in seen or not script.is_file():
        return set()
    seen.add(script)
    text = script.read_text(encoding="utf-8")
    lines = re.findall(
        r"^\s*(?:from|import) ([\w.]+)(?: import (.*)| as \w+)?$", text, re.MULTILINE
    )
    ours = {place: names for place, names in lines if place.startswith("tacit.")}
    packages = (place for place in ours if (SRC / place.replace(".", "/")).is_dir())
    modules = {f"{place}.{name}" for place in packages for name in re.findall(r"\w+", ours[place])}
    beside = (
        _imports(script.with_name(f"{place}.py"), seen) for place, _ in lines if "." not in place
    )
    return modules.union(ours, *beside)


def _is_there(name: str) -> bool:
    try:
        return find_spec(name) is not None
    except (ModuleNotFoundError, ValueError):  # a package that is none there, or stands in for one
        return False


@dataclass
class Tree:
    """A source tree with its figures of each turn, versions, and the reasons of gaps."""

    src: Path
    figures: dict[str, list[float]] = field(default_factory=dict)
    versions: dict[str, Any] = field(default_factory=dict)
    left_out: dict[str, str] = field(default_factory=dict)

    def measure(self, part: str, command: Sequence[str], cache: Path) -> None:
        """Run a script once; missed goals are ignored, and failed scripts are not run again."""
        if part in self.left_out:
            return
        path = os.pathsep.join(filter(None, (str(self.src), os.environ.get("PYTHONPATH"))))
        env = os.environ | {"PYTHONPATH": path, "TACIT_CACHE": str(cache)}
        with tempfile.TemporaryDirectory() as out:
            over = [sys.executable, __file__, *command, "--out", out]
            done = subprocess.run(over, env=env, capture_output=True, text=True)
            files = sorted(Path(out).rglob("*.json"))
            if not files:
                self.left_out[part] = (
                    done.stderr.strip() or f"exit status {done.returncode}"
                ).splitlines()[-1]
            self.left_out |= re.findall(r"^(.+): left out, since (.+)$", done.stdout, re.MULTILINE)
            for file in files:
                self._take(part, json.loads(file.read_text(encoding="utf-8")), file.stem)

    def _take(self, part: str, results: Mapping[str, Any], stem: str) -> None:
        self.versions |= {name: results.get(name) for name in ("device", "threads")} | results.get(
            "versions", {}
        )
        # of the tree, where a script says that of the working directory
        self.versions["git"] = _git_head(self.src)
        measured = results.get("figures") or {
            stem: {key: results.get(key) for key in ("mrr", "seconds")}
        }
        for name, value in _flat(measured, part).items():
            self.figures.setdefault(name, []).append(value)


def compare(
    parts: Mapping[str, Sequence[str]],
    checkout: Path,
    out: Path,
    turns: int = TURNS,
    minutes: float = math.inf,
) -> None:
    """Run scripts over both trees in turns, print the best figures side by side, write all.

    `parts` are scripts with their arguments, by name. Two turns tell what is noise; after them none
    is begun that may end after `minutes`.
    """
    source = checkout.resolve() / "src"
    if not (source / "tacit").is_dir():
        sys.exit(f"{checkout} is no checkout: it has no src/tacit")
    trees = {"before": Tree(source), "after": Tree(SRC)}
    start = time.monotonic()
    longest = 0.0
    done = 0
    with tempfile.TemporaryDirectory() as caches:
        while done < turns and (done < 2 or time.monotonic() - start + longest < 60 * minutes):
            began = time.monotonic()
            done = done + 1
            for part, command in parts.items():
                for name, tree in trees.items():
                    print(f"turn {done}, {name}: {part}", file=sys.stderr, flush=True)
                    tree.measure(part, command, Path(caches, name))
            longest = time.monotonic() - began
    before, after = trees.values()
    names = dict.fromkeys([*before.figures, *after.figures])
    rows = {
        name: beside(name, before.figures.get(name, []), after.figures.get(name, []))
        for name in names
    }
    show(rows)
    for name, tree in trees.items():
        for what, reason in tree.left_out.items():
            print(f"{name}, {what}: left out, since {reason}")
    results = {
        "settings": {
            "turns": done,
            "parts": {
                part: [Path(each).name for each in command] for part, command in parts.items()
            },
        },
        "versions": {name: tree.versions for name, tree in trees.items()},
        "left out": {name: tree.left_out for name, tree in trees.items()},
        "figures": rows,
        "turns": {
            name: {kind: tree.figures.get(name) for kind, tree in trees.items()} for name in names
        },
    }
    out.parent.mkdir(parents=True, exist_ok=True)
    out.write_text(json.dumps(results, indent=1) + "\n", encoding="utf-8")
    if not any("ratio" in row for row in rows.values()):
        sys.exit("nothing was measured over both trees")


def beside(name: str, before: Sequence[float], after: Sequence[float]) -> dict[str, Any]:
    """A row: the best of either tree, their ratio, the spread of turns, and the winner if any."""
    best = min if _smaller_is_better(name) else max
    row: dict[str, Any] = {
        kind: best(taken) for kind, taken in (("before", before), ("after", after)) if taken
    }
    if not (before and after and row["before"]):
        return row
    row["ratio"] = row["after"] / row["before"]
    if len(before) > 1 and len(after) > 1 and min(*before, *after) > 0:
        row["spread"] = max(max(taken) / min(taken) - 1 for taken in (before, after))
        if abs(row["ratio"] - 1) > row["spread"]:
            row["beyond noise"] = (
                "better" if (row["ratio"] < 1) == _smaller_is_better(name) else "worse"
            )
    return row


def show(figures: Mapping[str, Mapping[str, Any]]) -> None:
    """Print figures as a table: a line per row, a dash where a row lacks a column."""
    columns = list(dict.fromkeys(column for row in figures.values() for column in row))
    lines = [
        ["", *columns],
        *([name, *(shown(row.get(c)) for c in columns)] for name, row in figures.items()),
    ]
    first, *widths = (max(map(len, column)) for column in zip(*lines, strict=True))
    for name, *cells in lines:
        line = "  ".join(f"{cell:>{width}}" for cell, width in zip(cells, widths, strict=True))
        print(f"{name:{first}}  {line}", flush=True)


def shown(value: Any) -> str:
    """A figure as a table prints it, a dash where there is none."""
    if isinstance(value, float):
        return f"{value:,.0f}" if abs(value) >= 1000 else f"{value:.4g}"
    return "-" if value is None else f"{value:,}" if isinstance(value, int) else str(value)


def _flat(figures: Mapping[str, Any], *above: str) -> dict[str, float]:
    """Measured floats by name, without counts, which are whole numbers, and ratios."""

    def walk(node: Any, names: tuple[str, ...]) -> Iterator[tuple[str, float]]:
        if isinstance(node, dict):
            for name, part in node.items():
                yield from walk(part, (*names, name))
        elif isinstance(node, float) and DERIVED.isdisjoint(_words(names[-1])):
            yield " ".join(names), node

    return dict(walk(figures, above))


def _smaller_is_better(name: str) -> bool:
    words = _words(name)
    return "per" not in words and not SMALLER.isdisjoint(words)


def _words(name: str) -> list[str]:
    return name.replace("_", " ").replace(",", " ").split()


def _git_head(src: Path) -> str:
    """The commit of a tree, marked where it was changed since; empty where there is no telling."""
    command = [
        "git",
        "-C",
        str(src),
        "describe",
        "--always",
        "--dirty",
        "--abbrev=40",
        "--exclude=*",
    ]
    try:
        return subprocess.run(command, capture_output=True, text=True).stdout.strip()
    except OSError:
        return ""


if __name__ == "__main__":
    sys.argv = sys.argv[1:]
    use_older_names(Path(sys.argv[0]))
    runpy.run_path(sys.argv[0], run_name="__main__")
