"""The names a program may rely on."""

from __future__ import annotations

import tacit

PUBLIC = [
    "And",
    "Answers",
    "Atom",
    "Engine",
    "Entity",
    "Exists",
    "Graph",
    "Not",
    "Or",
    "Query",
    "Run",
    "TacitError",
    "Variable",
    "__version__",
    "compare",
    "fetch",
    "hardness",
    "import_model",
    "load",
    "open",
    "parse",
    "sample",
    "serve",
    "split",
    "train",
    "train_encoder",
]


def test_public_names_are_pinned() -> None:
    assert sorted(tacit.__all__) == PUBLIC
    assert len(PUBLIC) <= 26  # the version among them


def test_every_public_name_is_there() -> None:
    for name in PUBLIC:
        assert getattr(tacit, name) is not None, name
    assert set(PUBLIC) <= set(dir(tacit))
