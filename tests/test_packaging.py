"""What is installed: its names, the extras, the recipe of conda, and the container."""

from __future__ import annotations

import json
import re
import shlex
import sys
from collections.abc import Iterator
from fnmatch import fnmatch
from pathlib import Path
from typing import Any

import typer
import yaml
from packaging.requirements import Requirement
from packaging.specifiers import SpecifierSet
from packaging.utils import canonicalize_name

from project import EXTRAS, FOR_DEVELOPERS, PROJECT, PYPROJECT, needed
from source_tree import ROOT, imports, modules
from tacit.cli import app
from tacit.server.settings import ServerSettings

SETUPTOOLS = Requirement(PYPROJECT["build-system"]["requires"][0]).specifier
OTHERWISE_NAMED = {"faiss": "faiss-cpu", "mlflow": "mlflow-skinny"}
OF_CONDA = {"torch": "pytorch"}
WITH_TORCH = {"triton"}  # which comes with it where there is CUDA
# Ways to install the project that has the name `tacit` on the package index.
FOREIGN = re.compile(
    r"\btacit\[[a-z]|\btacit==|\btacit-[\d*][\w.*-]*\.(?:whl|tar)"
    r"|\b(?:pip|pipx|uv|uvx|conda|mamba|poetry|pixi)\b[^\n`]*?"
    r"(?:\b(?:install|add)|--from|--spec|--with)[ =]+(?:-\S+ +)*['\"]?tacit(?![\w./-]|-kg)"
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


def written() -> Iterator[tuple[str, str]]:
    """The texts of the repository that say how Tacit is installed, by their paths."""
    folders = ("src", "docs", "examples", "benchmarks", "conda", ".github", ".ci", "tests")
    texts = {".py", ".md", ".ipynb", ".toml", ".yml", ".yaml", ".html", ".js", ".sh", ".txt", ""}
    files = [path for folder in folders for path in (ROOT / folder).rglob("*")]
    made = (".egg-info", "__pycache__")
    for path in [*ROOT.iterdir(), *files]:
        if path.parent.name.endswith(made) or path == Path(__file__):
            continue
        if path.is_file() and path.suffix in texts:
            yield (
                path.relative_to(ROOT).as_posix(),
                path.read_text(encoding="utf-8", errors="ignore"),
            )


def test_nothing_says_to_install_the_package_of_another_project() -> None:
    found = [(name, match[0]) for name, text in written() for match in FOREIGN.finditer(text)]
    assert found == []


def test_a_foreign_name_is_found() -> None:
    wrong = (
        "pip install tacit", "pip install 'tacit[rdf]'", "pip install -U tacit", "tacit[server]",
        "uvx --from tacit tacit demo", "uv tool install tacit", "pipx run --spec tacit tacit demo",
        "pip install tacit-*.whl", "tacit-0.3.0-py3-none-any.whl", "tacit==0.3.0", "uv add tacit",
    )  # fmt: skip
    right = (
        "pip install tacit-kg", "uvx --from tacit-kg tacit demo", "pipx install 'tacit-kg[rdf]'",
        "uvx --from dist/tacit_kg-0.3.0-py3-none-any.whl tacit demo", "pip install . # tacit demo",
        "pipx run --spec tacit-kg tacit demo", "pip install tacit_kg-*.whl",
    )  # fmt: skip
    assert [line for line in wrong if not FOREIGN.search(line)] == []
    assert [line for line in right if FOREIGN.search(line)] == []


def test_what_messages_and_pages_tell_to_install_is_an_extra() -> None:
    named = {
        extra.strip()
        for name, text in written()
        for extras in re.findall(r"install[^\n]*?'(?:tacit-kg|\.)\[([^\]]*)\]'", text)
        for extra in extras.split(",")
        if not name.startswith("tests/")
    }
    assert {"rdf", "server", "large", "index", "plots", "pandas"} <= named <= set(EXTRAS)


def test_the_pinned_versions_are_ones_that_every_extra_takes() -> None:
    lines = (ROOT / "constraints.txt").read_text(encoding="utf-8").splitlines()
    pinned = {
        canonicalize_name(name): version
        for name, _, version in (line.partition("==") for line in lines)
    }
    for extra in ("", *EXTRAS):
        for name, requirement in needed(extra).items():
            assert requirement.specifier.contains(pinned[name], prereleases=True), (extra, name)


def test_the_recipe_of_conda_says_what_the_project_says() -> None:
    recipe = yaml.safe_load((ROOT / "conda" / "recipe.yaml").read_text(encoding="utf-8"))
    assert recipe["package"] == {"name": PROJECT["name"], "version": PROJECT["version"]}
    build, about = recipe["build"], recipe["about"]
    points = [f"{name} = {place}" for name, place in PROJECT["scripts"].items()]
    assert (build["noarch"], build["python"]["entry_points"]) == ("python", points)
    assert (about["license"], about["summary"]) == (PROJECT["license"], PROJECT["description"])
    assert about["license_file"] == PROJECT["license-files"]
    assert (ROOT / "conda" / recipe["source"]["path"]).resolve() == ROOT
    host, run = (
        {name: SpecifierSet(rest) for name, _, rest in (line.partition(" ") for line in lines)}
        for lines in recipe["requirements"].values()
    )
    python = SpecifierSet(PROJECT["requires-python"])
    assert host == {"python": python, "pip": SpecifierSet(), "setuptools": SETUPTOOLS}
    named = {OF_CONDA.get(name, name): one.specifier for name, one in needed("").items()}
    assert run == named | {"python": python}


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
