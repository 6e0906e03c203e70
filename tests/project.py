"""What `pyproject.toml` says: the distribution, its dependencies and its extras."""

from __future__ import annotations

import tomllib
from functools import cache
from typing import Any

from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

from source_tree import ROOT

PYPROJECT: dict[str, Any] = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
PROJECT: dict[str, Any] = PYPROJECT["project"]
EXTRAS: dict[str, list[str]] = PROJECT["optional-dependencies"]
FOR_DEVELOPERS = {"dev", "docs", "build-world"}


@cache
def needed(extra: str) -> dict[str, Requirement]:
    """The packages of an extra and of its extras by name; "" is what is always installed."""
    found: dict[str, Requirement] = {}
    for text in EXTRAS[extra] if extra else PROJECT["dependencies"]:
        requirement = Requirement(text)
        if requirement.name == PROJECT["name"]:
            for inner in requirement.extras:
                found |= needed(inner)
        else:
            found[canonicalize_name(requirement.name)] = requirement
    return found
