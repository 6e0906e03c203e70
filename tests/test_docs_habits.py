"""The workflow and the citation agree with the Makefile, the tests and the package."""

from __future__ import annotations

import shlex
import tomllib
from typing import Any

import yaml

from source_tree import ROOT


def read(name: str) -> Any:
    return yaml.safe_load((ROOT / name).read_text(encoding="utf-8"))


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
