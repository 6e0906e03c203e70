"""What the house tests read: the source files, their modules and what they import."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).parents[1]
SRC = ROOT / "src"


def module_name(path: Path, src: Path = SRC) -> str:
    """The dotted name of a source file."""
    parts = path.relative_to(src).with_suffix("").parts
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


def modules(src: Path = SRC) -> dict[str, Path]:
    """Every module of the package by name."""
    return {module_name(path, src): path for path in sorted((src / "tacit").rglob("*.py"))}


def imports(name: str, path: Path) -> Iterator[tuple[str, int]]:
    """List the imports of a module, inside functions too, as dotted names and lines.

    `from a import b` yields `a.b`, since `b` may be a module.
    """
    package = name.split(".") if path.name == "__init__.py" else name.split(".")[:-1]
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Import):
            yield from ((alias.name, node.lineno) for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            above = package[: len(package) - node.level + 1] if node.level else []
            source = ".".join([*above, *([node.module] if node.module else [])])
            yield from ((f"{source}.{alias.name}", node.lineno) for alias in node.names)
