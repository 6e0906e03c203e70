"""The rules of the house that a machine can check."""

from __future__ import annotations

import ast
import re
import tokenize
from collections.abc import Iterator
from pathlib import Path

import pytest

from source_tree import ROOT, SRC, modules

FOLDERS = ("src", "tests", "benchmarks", "data", "docs", "examples")
SOURCES = sorted(path for folder in FOLDERS for path in (ROOT / folder).rglob("*.py"))
PAGES = sorted(path for kind in ("*.js", "*.css", "*.html", "*.lark") for path in SRC.rglob(kind))
VAGUE = re.compile(r"\b(utils?|helpers?|common|base|manager|misc)\b")
UNFINISHED = re.compile(r"(TODO|FIXME|XXX|HACK)")
MAX_FILE, MAX_FUNCTION = 400, 60

Function = ast.FunctionDef | ast.AsyncFunctionDef


def named(path: Path) -> str:
    return str(path.relative_to(ROOT))


def tree(path: Path) -> ast.Module:
    return ast.parse(path.read_text(encoding="utf-8"))


def long_functions(module: ast.Module) -> Iterator[tuple[str, int]]:
    """Functions over the limit: name and lines, from `def` to the last line."""
    for node in ast.walk(module):
        if isinstance(node, Function):
            lines = (node.end_lineno or node.lineno) - node.lineno + 1
            if lines > MAX_FUNCTION:
                yield node.name, lines


def is_vague(path: Path) -> bool:
    return VAGUE.search(path.stem.replace("_", " ")) is not None


def test_there_are_sources_to_check() -> None:
    assert {"errors.py", "test_house.py", "build.py"} <= {path.name for path in SOURCES}


def test_files_are_short() -> None:
    sizes = {named(path): len(path.read_text(encoding="utf-8").splitlines()) for path in [*SOURCES, *PAGES]}
    assert {name: lines for name, lines in sizes.items() if lines > MAX_FILE} == {}


def test_functions_fit_a_screen() -> None:
    found = {f"{named(path)}: {name}": lines for path in SOURCES for name, lines in long_functions(tree(path))}
    assert found == {}


@pytest.mark.parametrize(("lines", "expected"), [(60, []), (61, [("f", 61)])])
def test_a_long_function_is_found(lines: int, expected: list[tuple[str, int]]) -> None:
    text = "def f():\n" + "    x = 1\n" * (lines - 1)
    assert list(long_functions(ast.parse(text))) == expected


def test_a_reader_guesses_the_file_from_the_word() -> None:
    assert [named(path) for path in SOURCES if is_vague(path)] == []


@pytest.mark.parametrize("name", ["utils.py", "graph_helpers.py", "base.py"])
def test_a_vague_name_is_found(name: str) -> None:
    assert is_vague(Path(name))


def test_no_two_test_files_share_a_name() -> None:
    names = [path.name for path in SOURCES if path.name.startswith("test_")]
    assert [name for name in sorted(set(names)) if names.count(name) > 1] == []  # pytest would collect one of them


def public_types(module: ast.Module) -> Iterator[str]:
    """The classes and aliases that a module names for all to use."""
    for node in module.body:
        names = [node.name] if isinstance(node, ast.ClassDef) else []
        if isinstance(node, ast.Assign | ast.AnnAssign):
            targets = node.targets if isinstance(node, ast.Assign) else [node.target]
            names = [target.id for target in targets if isinstance(target, ast.Name)]
        yield from (name for name in names if name[0].isupper() and not name.isupper())


def test_one_word_is_one_thing() -> None:
    homes: dict[str, list[str]] = {}
    for path in sorted(SRC.rglob("*.py")):
        for name in public_types(tree(path)):
            homes.setdefault(name, []).append(named(path))
    # A witness is sent over HTTP by the names that it has in Python.
    assert {name: files for name, files in homes.items() if len(files) > 1 and not name.startswith("Witness")} == {}


@pytest.mark.parametrize("text", ["class Row: ...", "Row = tuple[int, int]", "Row: TypeAlias = int"])
def test_a_public_type_is_found(text: str) -> None:
    assert list(public_types(ast.parse(f"{text}\n_ROW = ROW = 1\ndef row(): ..."))) == ["Row"]


def comments(path: Path) -> Iterator[str]:
    with path.open("rb") as file:
        yield from (token.string for token in tokenize.tokenize(file.readline) if token.type == tokenize.COMMENT)


# That several packages have, all of them for the same thing.
FILE_NAMES = {"__init__", "index", "models", "ranking", "settings"}


def test_a_file_name_of_several_packages_means_one_thing() -> None:
    homes: dict[str, list[str]] = {}
    for path in sorted(SRC.rglob("*.py")):
        homes.setdefault(path.stem, []).append(named(path))
    assert {name for name, files in homes.items() if len(files) > 1} <= FILE_NAMES


def vague(module: ast.Module) -> set[str]:
    """The names of locals and arguments that are no nouns."""
    names = {node.arg if isinstance(node, ast.arg) else node.id for node in ast.walk(module) if named_here(node)}
    return names & {"found", "one", "some"}


def named_here(node: ast.AST) -> bool:
    """Whether a name is given a value, in whatever way."""
    return isinstance(node, ast.arg) or (isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store))


def test_locals_are_nouns() -> None:
    assert [(named(path), names) for path in sorted(SRC.rglob("*.py")) if (names := vague(tree(path)))] == []


@pytest.mark.parametrize("text", ["found = 1", "for one in (1, 2): ...", "lambda some: 1", "if found := 1: ..."])
def test_a_vague_local_is_found(text: str) -> None:
    assert vague(ast.parse(text))


def test_nothing_is_left_to_do() -> None:
    found = [(named(path), comment) for path in SOURCES for comment in comments(path)]
    assert len(found) > 20
    assert [pair for pair in found if UNFINISHED.search(pair[1])] == []


def narrows(test: ast.expr) -> bool:
    """Whether a condition tells the type checker about an attribute of one's own, and checks nothing else."""
    match test:
        case ast.Call(func=ast.Name("isinstance"), args=[ast.Attribute(value=ast.Name("self")), _]):
            return True
        case ast.Compare(ast.Attribute(value=ast.Name("self")), [ast.IsNot()], [ast.Constant(None)]):
            return True
    return False


def asserts(module: ast.Module) -> list[int]:
    """The lines that assert anything but the type of an attribute of one's own."""
    return [node.lineno for node in ast.walk(module) if isinstance(node, ast.Assert) and not narrows(node.test)]


def test_the_package_asserts_nothing_of_its_input() -> None:
    found = {name: lines for name, path in modules().items() if (lines := asserts(tree(path)))}
    assert found == {}


def test_an_assertion_is_found() -> None:
    text = "assert x > 0\nassert isinstance(x, int)\nassert isinstance(self.x, int)\nassert self.x is not None"
    assert asserts(ast.parse(text)) == [1, 2]


def test_every_module_and_every_public_name_in_it_says_what_it_is() -> None:
    silent = []
    for name, path in modules().items():
        module = tree(path)
        if not ast.get_docstring(module):
            silent.append(name)
        for node in module.body:
            public = isinstance(node, Function | ast.ClassDef) and not node.name.startswith("_")
            if public and not ast.get_docstring(node):
                silent.append(f"{name}.{node.name}")
    assert silent == []
