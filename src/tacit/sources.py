"""What a source names: a run, a folder or file of facts, or a data set; what exists as a path is meant first."""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from tacit.disk import exists
from tacit.folder import SETTINGS, RunFolder
from tacit.graph import datasets
from tacit.graph.graph import Graph

NameOrPath = str | Path


def load(source: datasets.Facts | Sequence[datasets.Facts], **options: Any) -> Graph:
    """The graph of a run folder, a folder or file of facts, a DataFrame, standard input ("-") or a data set ("world").

    What exists as a path is meant first. A list of them is one graph: equal labels are one entity. Options are those of
    `tacit.graph.read_settings.ReadSettings`: `literals` keeps the literals of RDF files as entities, `labels` names a
    table of readable names, `language` those that come first, `columns` head, relation and tail of a table, and
    `format` what standard input holds.
    """
    several: list[Any] = list(source) if isinstance(source, list | tuple) else [source]
    return datasets.load([_found(one) for one in several], **options)


def _found(source: Any) -> Any:
    """The graph of a run, the path that exists, or what was given."""
    if not isinstance(source, str | Path) or not exists(source):
        return source
    return RunFolder.open(source).graph() if is_run(source) else Path(source)


def is_run(source: NameOrPath) -> bool:
    """Whether a path is that of a run folder."""
    return exists(source) and (Path(source) / SETTINGS).is_file()


def is_world(source: Any) -> bool:
    """Whether a source is the name of `world`, and no path that is called so."""
    return str(source) == "world" and not exists(source)


def names_run(source: Any) -> bool:
    """Whether a source names a run: the path of a run folder, or the trained `world`."""
    return isinstance(source, str | Path) and (is_run(source) or is_world(source))


def cache_folder() -> Path:
    """Where Tacit keeps what it can make again: `TACIT_CACHE`, or `tacit` in the user's cache folder."""
    if "TACIT_CACHE" in os.environ:
        return Path(os.environ["TACIT_CACHE"])
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "tacit"
