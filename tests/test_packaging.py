"""What is installed: the wheel and the sdist, the extras, and the container."""

from __future__ import annotations

import json
import os
import re
import shlex
import shutil
import subprocess
import sys
import tarfile
import tomllib
import zipfile
from fnmatch import fnmatch
from functools import cache
from pathlib import Path
from typing import Any

import pytest
import typer
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

from source_tree import ROOT, imports, modules
from tacit.cli import app
from tacit.server.settings import ServerSettings

PROJECT: dict[str, Any] = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))[
    "project"
]
EXTRAS: dict[str, list[str]] = PROJECT["optional-dependencies"]
OTHERWISE_NAMED = {"faiss": "faiss-cpu", "mlflow": "mlflow-skinny"}
WITH_TORCH = {"triton"}  # which comes with it where there is CUDA
FOR_DEVELOPERS = {"dev", "docs", "build-world"}
BUILD = (
    "import sys; from setuptools import build_meta; getattr(build_meta, sys.argv[1])(sys.argv[2])"
)
INSTRUCTIONS = [
    (word, rest)
    for word, _, rest in (
        line.partition(" ")
        for line in (ROOT / "Dockerfile")
        .read_text(encoding="utf-8")
        .replace("\\\n", " ")
        .splitlines()
        if line and not line.startswith("#")
    )
]


def arguments_of(instruction: str) -> list[str]:
    """Return the arguments of each such instruction of the Dockerfile, in order."""
    return [rest for word, rest in INSTRUCTIONS if word == instruction]


def copied() -> list[str]:
    """List the files that go into the container."""
    return [source for line in arguments_of("COPY") for source in line.split()[:-1]]


def built(tree: Path, what: str, out: Path) -> Path:
    done = subprocess.run(
        [sys.executable, "-W", "error", "-c", BUILD, what, str(out)],
        cwd=tree,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    (path,) = out.iterdir()
    return path


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The wheel that is made of the sdist that is made of what the container gets."""
    folder = tmp_path_factory.mktemp("packaging")
    for name in copied():
        if (ROOT / name).is_dir():
            shutil.copytree(
                ROOT / name,
                folder / "tree" / name,
                ignore=shutil.ignore_patterns("__pycache__", "*.egg-info"),
            )
        else:
            (folder / "tree").mkdir(exist_ok=True)
            shutil.copy(ROOT / name, folder / "tree" / name)
    with tarfile.open(built(folder / "tree", "build_sdist", folder / "sdist")) as sdist:
        sdist.extractall(folder / "unpacked", filter="data")
    (unpacked,) = (folder / "unpacked").iterdir()
    return built(unpacked, "build_wheel", folder / "wheel")


def test_the_wheel_holds_the_package_and_nothing_else(wheel: Path) -> None:
    package = ROOT / "src" / "tacit"
    expected = {
        f"tacit/{path.relative_to(package).as_posix()}"
        for path in package.rglob("*")
        if path.is_file()
    }
    with zipfile.ZipFile(wheel) as archive:
        names = [name for name in archive.namelist() if ".dist-info/" not in name]
        metadata = next(name for name in archive.namelist() if name.endswith(".dist-info/METADATA"))
        text = archive.read(metadata).decode()
        points = archive.read(metadata.replace("METADATA", "entry_points.txt")).decode()
        assert any(name.endswith("licenses/LICENSE") for name in archive.namelist())
    assert sorted(names) == sorted(name for name in expected if "__pycache__" not in name)
    assert "License-Expression: Apache-2.0" in text
    assert "tacit = tacit.cli:main" in points


def test_the_wheel_works_without_the_repository(wheel: Path, tmp_path: Path) -> None:
    with zipfile.ZipFile(wheel) as archive:
        archive.extractall(tmp_path / "site")
    (tmp_path / "elsewhere").mkdir()
    script = (
        "import tacit, tacit.query.text as text; from importlib.resources import files\n"
        "from tacit.cli import app; print(tacit.__file__)\n"
        "print(tacit.parse('?c : borders(France, ?c)'), (files('tacit.server') / 'static' / "
        "'index.html').is_file())\n"
        "app(['data', 'list'])"
    )
    environment = {**os.environ, "PYTHONPATH": str(tmp_path / "site")}
    done = subprocess.run(
        [sys.executable, "-c", script],
        cwd=tmp_path / "elsewhere",
        env=environment,
        capture_output=True,
        text=True,
        check=True,
    )
    where, question, world, *_ = done.stdout.splitlines()
    assert where.startswith(str(tmp_path / "site"))
    assert question == "?c : borders(France, ?c) True"
    assert world.startswith("world  2,310 entities")


@cache
def needed(extra: str) -> dict[str, Requirement]:
    """The packages of an extra and of its extras by name; "" is what is always installed."""
    found: dict[str, Requirement] = {}
    for text in EXTRAS[extra] if extra else PROJECT["dependencies"]:
        requirement = Requirement(text)
        if requirement.name == "tacit":
            for inner in requirement.extras:
                found |= needed(inner)
        else:
            found[canonicalize_name(requirement.name)] = requirement
    return found


def test_every_import_is_covered_by_the_dependencies_or_an_extra() -> None:
    covered = set(needed("")).union(
        *(needed(extra) for extra in EXTRAS if extra not in FOR_DEVELOPERS)
    )
    foreign = {
        (target.split(".")[0], name)
        for name, path in modules().items()
        for target, _ in imports(name, path)
        if target.split(".")[0] not in sys.stdlib_module_names | {"tacit", "__future__"}
    }
    assert {"torch", "fastapi", "duckdb", "pandas", "faiss"} <= {package for package, _ in foreign}
    missing = {
        (package, name)
        for package, name in foreign
        if canonicalize_name(OTHERWISE_NAMED.get(package, package)) not in covered
        and package not in WITH_TORCH
    }
    assert missing == set()


def test_what_messages_and_pages_tell_to_install_is_an_extra() -> None:
    texts = [
        *modules().values(),
        ROOT / "README.md",
        *(ROOT / "docs").glob("*.md"),
        ROOT / "Dockerfile",
    ]
    named = [
        extra.strip()
        for path in texts
        for extras in re.findall(
            r"pip install[^\n]*?'(?:tacit|\.)\[([^\]]*)\]'", path.read_text(encoding="utf-8")
        )
        for extra in extras.split(",")
    ]
    assert {"rdf", "server", "large", "index", "plots"} <= set(named)
    assert set(named) <= set(EXTRAS)


def test_the_pinned_versions_are_ones_that_every_extra_takes() -> None:
    lines = (ROOT / "constraints.txt").read_text(encoding="utf-8").splitlines()
    pinned = {
        canonicalize_name(name): version
        for name, _, version in (line.partition("==") for line in lines)
    }
    for extra in ("", *EXTRAS):
        for name, requirement in needed(extra).items():
            assert requirement.specifier.contains(pinned[name], prereleases=True), (extra, name)


def test_the_container_is_small_and_nobody_is_root_in_it() -> None:
    assert arguments_of("FROM") == ["python:3.11-slim"]
    ignored = (ROOT / ".dockerignore").read_text(encoding="utf-8").split()
    assert ignored[0] == "*"
    assert {line[1:] for line in ignored if line[0] == "!"} == set(copied())
    assert not any(
        fnmatch(name, pattern) for name in copied() for pattern in ignored[1:] if pattern[0] != "!"
    )
    assert arguments_of("USER")[-1] == "tacit"
    words = [word for word, _ in INSTRUCTIONS]
    assert words.index("RUN") < words.index("USER") < words.index("ENTRYPOINT")
    assert "RUN" not in words[words.index("USER") :]
    (extras,) = re.findall(r"'\.\[(.*)\]'", " ".join(arguments_of("RUN")))
    assert "server" in extras.split(",")


def test_the_container_serves() -> None:
    (entry,), (command,) = arguments_of("ENTRYPOINT"), arguments_of("CMD")
    assert [PROJECT["scripts"][name] for name in json.loads(entry)] == ["tacit.cli:main"]
    name, *arguments = json.loads(command)
    serve: Any = typer.main.get_command(app)
    parsed = serve.commands[name].make_context(name, list(arguments)).params
    assert parsed["host"] == "0.0.0.0"
    assert arguments_of("EXPOSE") == [str(parsed["port"])] == [str(ServerSettings().port)]
    assert shlex.split(arguments_of("ENV")[0]) == ["TACIT_CACHE=/data/cache"]
    assert arguments_of("WORKDIR")[-1] == "/data"  # which the user may write to
