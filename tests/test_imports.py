"""Imports point one way, and nothing loads a heavy or optional package before it is needed."""

from __future__ import annotations

import ast
import json
import subprocess
import sys
from graphlib import CycleError, TopologicalSorter
from pathlib import Path
from typing import Any

import pytest
import typer

from source_tree import SRC, imports, modules
from tacit.cli import COMMANDS, app

# Each layer imports from itself and from those before it.
LAYERS = (
    "errors", "settings", "distributed", "disk", "graph", "run_folder", "fitting", "sources",
    "links", "query", "engine", "adapt", "encode", "loaded_run", "evaluate", "run", "server",
    "cli", "__main__",
)  # fmt: skip
FACADE = {"tacit.__version__"}  # all that the package itself may be asked for from within
OPTIONAL = (
    "lark", "rdflib", "pyoxigraph", "rapidfuzz", "tomli_w", "pydantic", "fastapi", "uvicorn",
    "prometheus_client", "matplotlib", "pandas", "pykeen", "faiss", "marisa_trie", "duckdb", "mcp",
    "mcp_types", "huggingface_hub", "tensorboard", "mlflow", "wandb", "narwhals", "polars",
    "pyarrow", "networkx", "torch_geometric",
)  # fmt: skip
# The modules that exist to wrap an optional package, and those that speak of its errors.
WRAPPERS = ("tacit.query.syntax_errors", "tacit.query.sparql", "tacit.server")


def layer_of(name: str) -> int | None:
    """The layer of a module: its package, or a file that is a layer of its own."""
    layer = name.split(".")[1:2]
    return LAYERS.index(layer[0]) if layer and layer[0] in LAYERS else None


def upward_imports(src: Path) -> list[str]:
    """Each import that points up the layers, or at a module that is in none."""
    found = []
    for name, path in modules(src).items():
        if name in ("tacit", "tacit.client"):
            # the facade names what the layers below offer; the client imports none of them
            continue
        if (layer := layer_of(name)) is None:
            found.append(f"{name} is in no layer")
            continue
        for target, line in imports(name, path):
            if target.split(".")[0] != "tacit" or target in FACADE:
                continue
            target_layer = layer_of(target)
            if target_layer is None or target_layer > layer:
                found.append(f"{name}, line {line}: imports {target}")
    return found


def test_no_import_points_upward() -> None:
    assert upward_imports(SRC) == []


def room_of(name: str, src: Path) -> str:
    """A subpackage of a layer, or a module beside the subpackages."""
    parts = name.split(".")[:3]
    return ".".join(parts) if (src / Path(*parts)).is_dir() else name


def room_imports(src: Path) -> dict[str, set[str]]:
    """Map each room to its imports at import time; functions may import from above."""
    known = modules(src)
    rooms: dict[str, set[str]] = {}
    for name, path in known.items():
        body = [
            node
            for node in ast.parse(path.read_text(encoding="utf-8")).body
            if isinstance(node, ast.ImportFrom) and (node.module or "").startswith("tacit.")
        ]
        targets = {f"{node.module}.{alias.name}" for node in body for alias in node.names}
        targets = {each if each in known else each.rpartition(".")[0] for each in targets}
        room = room_of(name, src)
        rooms.setdefault(room, set()).update(room_of(each, src) for each in targets)
    return {room: targets - {room} for room, targets in rooms.items()}


def test_subpackages_import_one_way() -> None:
    rooms = room_imports(SRC)
    assert len(rooms) > 80
    assert len(list(TopologicalSorter(rooms).static_order())) >= len(rooms)


def test_a_cycle_between_subpackages_is_found(tmp_path: Path) -> None:
    texts = {
        "engine/search/hop.py": "from tacit.engine.reasoner import Reasoner",
        "engine/reasoner.py": "from tacit.engine.answers import proofs",
        "engine/answers/proofs.py": "from tacit.engine.search.hop import Hop",
    }
    for where, text in texts.items():
        path = tmp_path / "tacit" / where
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8")
    with pytest.raises(CycleError, match=r"tacit\.engine\.search"):
        TopologicalSorter(room_imports(tmp_path)).prepare()


def test_encoders_are_known_to_runs_and_their_command_alone() -> None:
    """All else works without them: they are one more reasoner and scorer."""
    importers = {
        name
        for name, path in modules().items()
        for target, _ in imports(name, path)
        if target.startswith("tacit.encode") and not name.startswith("tacit.encode")
    }
    assert importers == {"tacit.loaded_run", "tacit.run.training", "tacit.cli.train"}


@pytest.mark.parametrize(
    ("where", "text"),
    [
        ("graph/formats/label_tables.py", "from tacit.links import scorer"),
        ("graph/formats/label_tables.py", "def load():\n    import tacit.engine.logic"),
        ("graph/formats/label_tables.py", "from ...query.plans.plan import Plan"),
        ("query/plans/plan.py", "from tacit import engine"),
        ("links/models.py", "import tacit"),
        ("links/models.py", "from tacit import open"),
        ("stray.py", ""),
    ],
)
def test_an_upward_import_is_found(tmp_path: Path, where: str, text: str) -> None:
    bad = tmp_path / "tacit" / where
    bad.parent.mkdir(parents=True, exist_ok=True)
    bad.write_text(text, encoding="utf-8")
    assert len(upward_imports(tmp_path)) == 1


@pytest.mark.parametrize(
    "text", ["from tacit import __version__", "from tacit.graph import graph", "import numpy"]
)
def test_a_downward_import_is_not(tmp_path: Path, text: str) -> None:
    (tmp_path / "tacit" / "links").mkdir(parents=True)
    (tmp_path / "tacit" / "links" / "models.py").write_text(text, encoding="utf-8")
    assert upward_imports(tmp_path) == []


# What users call has a method for each thing that it does.
LARGE_CLASSES = {"Run", "Answers"}


def test_no_class_has_more_than_twenty_methods() -> None:
    large = set()
    for path in modules().values():
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(node, ast.ClassDef):
                functions = (ast.FunctionDef, ast.AsyncFunctionDef)
                methods = {each.name for each in node.body if isinstance(each, functions)}
                if len(methods) > 20:
                    large.add(node.name)
    assert large <= LARGE_CLASSES


# Private to torch; `links/codes.py` tries it first and does without it.
PRIVATE = {"torch._weight_int8pack_mm"}
OF_TUPLES = {"_asdict", "_replace", "_fields", "_make"}  # public, whatever they are called
OF_THE_SYSTEM = {"os._exit"}


def private_names(src: Path) -> set[str]:
    """The names with a leading underscore that are used, and defined nowhere in the package."""
    defined = set[str](OF_TUPLES)
    used = dict[str, str]()
    for path in modules(src).values():
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            match node:
                case (
                    ast.FunctionDef(name=name)
                    | ast.AsyncFunctionDef(name=name)
                    | ast.ClassDef(name=name)
                ):
                    defined.add(name)
                case ast.Attribute(attr=name, ctx=ast.Store()) | ast.Name(id=name, ctx=ast.Store()):
                    defined.add(name)
                case ast.Attribute(attr=name) if name.startswith("_") and not name.startswith("__"):
                    used[ast.unparse(node)] = name
    return {text for text, name in used.items() if name not in defined} - OF_THE_SYSTEM


def test_no_private_name_of_a_library_is_used_but_those_that_may_be_missing() -> None:
    assert private_names(SRC) == PRIVATE
    foreign = {target for name, path in modules(SRC).items() for target, _ in imports(name, path)}
    private = {
        name
        for name in foreign
        if "._" in f".{name}" and not name.startswith(("tacit.", "__future__"))
    }
    assert private == set()


def run(script: str, *arguments: str) -> str:
    """Return the output of a fresh interpreter."""
    done = subprocess.run(
        [sys.executable, "-c", script, *arguments], capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


LOADED = """
import json, runpy, sys
sys.argv = ["tacit", *sys.argv[1:]]
try:
    import tacit
    if sys.argv[1:]:
        runpy.run_module("tacit", run_name="__main__")
except SystemExit as exit:
    assert not exit.code, exit.code
print()
print(json.dumps(sorted(sys.modules)))
"""


@pytest.mark.parametrize(
    "arguments", [[], ["--help"], ["--version"], ["data", "--help"]], ids=" ".join
)
def test_the_first_second_loads_nothing_heavy(arguments: list[str]) -> None:
    loaded = {name.split(".")[0] for name in json.loads(run(LOADED, *arguments).splitlines()[-1])}
    assert "tacit" in loaded
    assert loaded & {"torch", "numpy", "safetensors", *OPTIONAL} == set()


@pytest.mark.parametrize(
    ("arguments", "of_commands"),
    [(["--help"], set()), (["--version"], set()), (["index", "--help"], {"index"})],
    ids=["help", "version", "one"],
)
def test_a_command_is_loaded_when_it_is_called(arguments: list[str], of_commands: set[str]) -> None:
    loaded = json.loads(run(LOADED, *arguments).splitlines()[-1])
    homes = {place.split(".")[0] for place, _ in COMMANDS.values()}
    assert {home for home in homes if f"tacit.cli.{home}" in loaded} == of_commands
    assert [name for name in loaded if name.endswith("settings") and name != "tacit.settings"] == []


def test_the_list_says_of_each_command_what_it_says_of_itself() -> None:
    root: Any = typer.main.get_command(app)
    assert {name: root.commands[name].get_short_help_str(100) for name in root.commands} == {
        name: short for name, (_, short) in COMMANDS.items()
    }


WITHOUT = """
import importlib, json, sys

blocked = set(json.loads(sys.argv[1]))

class Blocker:
    def find_spec(self, name, path=None, target=None):
        if name.split(".")[0] in blocked:
            raise ModuleNotFoundError(f"{name} is blocked", name=name)

sys.meta_path.insert(0, Blocker())
failed = {}
for name in json.loads(sys.argv[2]):
    try:
        importlib.import_module(name)
    except ModuleNotFoundError as error:
        failed[name] = str(error)
print(json.dumps(failed))
"""


def fails_without(packages: list[str], names: list[str]) -> dict[str, str]:
    """The modules that cannot be imported where some packages are not installed."""
    failed: dict[str, str] = json.loads(run(WITHOUT, json.dumps(packages), json.dumps(names)))
    return failed


def test_a_blocked_package_is_noticed() -> None:
    assert set(fails_without(["numpy"], ["tacit.graph.fact_index", "tacit.errors"])) == {
        "tacit.graph.fact_index"
    }


def test_optional_packages_are_optional() -> None:
    names = [name for name in modules() if not name.startswith((*WRAPPERS, "tacit.__main__"))]
    for expected in ("links", "query", "engine", "adapt", "evaluate", "cli"):
        assert f"tacit.{expected}" in names
    assert fails_without(list(OPTIONAL), names) == {}


def test_queries_need_no_torch() -> None:
    names = [name for name in modules() if name.startswith(("tacit.query", "tacit.graph"))]
    assert {"tacit.query.formula", "tacit.query.plans.plan", "tacit.graph.graph"} <= set(names)
    assert fails_without(["torch"], names) == {}


def test_the_service_loads_torch_in_its_workers_alone() -> None:
    needed = [
        "tacit.server.serving",
        "tacit.cli.serve",
        "tacit.cli.mcp",
        "tacit.server.mcp.protocol",
        "tacit.run.world",
        "tacit.links.training.finished",
    ]
    assert fails_without(["torch"], needed) == {}
