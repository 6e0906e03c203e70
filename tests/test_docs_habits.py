"""What a contributor's tools are told agrees with the Makefile, the package and the paper."""

from __future__ import annotations

import re
import shlex
import tomllib
from typing import Any

import yaml

from source_tree import ROOT

MAKEFILE = (ROOT / "Makefile").read_text(encoding="utf-8")


def read(name: str) -> Any:
    return yaml.safe_load((ROOT / name).read_text(encoding="utf-8"))


def recipe(target: str) -> list[str]:
    """The commands of a target, with the programs of the environment."""
    (lines,) = re.findall(rf"^{target}:.*\n((?:\t.*\n)+)", MAKEFILE, flags=re.MULTILINE)
    return [line.strip().replace("$(BIN)", ".venv/bin") for line in lines.splitlines()]


def test_commits_are_checked_as_make_checks() -> None:
    (local,) = read(".pre-commit-config.yaml")["repos"]
    assert local["repo"] == "local"  # versions are those of the environment
    assert [hook["entry"] for hook in local["hooks"]] == [*recipe("lint"), *recipe("types")]


def test_the_workflow_only_calls_make_test() -> None:
    steps = read(".github/workflows/test.yml")["jobs"]["linux"]["steps"]
    commands = [step["run"] for step in steps if "run" in step]
    assert commands[-1] == "make test"
    assert all(command.startswith("apt-get ") for command in commands[:-1])


def test_the_light_job_runs_tests_that_exist() -> None:
    steps = read(".github/workflows/test.yml")["jobs"]["elsewhere"]["steps"]
    places = [ROOT / word for word in shlex.split(steps[-1]["run"]) if word.startswith("tests/")]
    assert places
    assert all(place.is_file() or list(place.glob("test_*.py")) for place in places)


def test_the_citation_names_this_version_and_the_paper() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    citation = read("CITATION.cff")
    assert (citation["version"], citation["license"]) == (project["version"], project["license"])
    paper = citation["preferred-citation"]
    authors = [author["family-names"] for author in paper["authors"]]
    assert authors == ["Arakelyan", "Minervini", "Daza", "Cochez", "Augenstein"]
    assert paper["title"] in " ".join((ROOT / "README.md").read_text(encoding="utf-8").split())


def test_the_coverage_stands_where_contributors_look() -> None:
    assert "Coverage: $$(" in recipe("coverage")[-1]
    page = (ROOT / "CONTRIBUTING.md").read_text(encoding="utf-8")
    assert len(re.findall(r"^Coverage: (\d\d|NN) %", page, flags=re.MULTILINE)) == 1
