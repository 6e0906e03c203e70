"""Resolves a source: a run, a folder or file of facts, or a data set; paths first.

A graph of one is read, split or fetched here, each in one call.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from tacit.disk import exists
from tacit.errors import DataError, SettingsError
from tacit.fitting.progress import Progress, counting
from tacit.graph import datasets
from tacit.graph.formats.graph_libraries import PYKEEN
from tacit.graph.graph import SPLITS, Graph
from tacit.graph.settings import STANDARD_INPUT, ReadSettings
from tacit.run_folder.files import SETTINGS
from tacit.run_folder.folder import RunFolder
from tacit.run_folder.hub import HubName, is_hub_name, opened_repository
from tacit.run_folder.run_cache import unpacked_run
from tacit.run_folder.saved import is_archive_name, opened_archive
from tacit.settings import settings_of

if TYPE_CHECKING:
    from tacit.graph.formats.fetching import Fetched

NameOrPath = str | Path
_PROCESSES = "WORLD_SIZE"  # in which torchrun says how many it started


def load(source: datasets.Facts | Sequence[datasets.Facts], **options: Any) -> Graph:
    """Loads a graph from a run folder, a folder or file of facts, a DataFrame or a data set.

    Standard input is "-", and "world" is the data set that comes with Tacit.

    A list or NumPy array of rows is a table, too: `[("France", "borders", "Spain")]`. An existing
    path goes before a name. A list of sources is one graph: equal labels are one entity. Options
    are those of `tacit.graph.settings.ReadSettings`: `literals` keeps the literals of RDF files as
    entities, `labels` names a table of readable names, `language` those that come first, `columns`
    head, relation and tail of a table, `skip_bad` skips lines of a table that lack one of them,
    `attributes` names the relations to numbers and dates that are no entities, or False for none,
    and `format` is what standard input holds.
    """
    several = datasets.sources_of(source)
    reads_stdin = STANDARD_INPUT in [item for item in several if isinstance(item, str)]
    if reads_stdin and os.environ.get(_PROCESSES, "1") != "1":
        raise SettingsError(
            "standard input can be read by one process alone; with several, write it to a file "
            "first"
        )
    return datasets.load([_resolve(item) for item in several], **options)


def split(
    graph: datasets.Facts | Sequence[datasets.Facts],
    out: NameOrPath | None = None,
    *,
    valid: float = 0.1,
    test: float = 0.1,
    seed: int = 0,
    **options: Any,
) -> Graph:
    """Draws new splits in which the training facts give no held-out fact away.

    `valid` and `test` are the shares to hold out, drawn by a `seed`. Facts between the same two
    entities go together where one gives the other away: both directions of a relation, and
    relations that nearly repeat one another, as they are or inverted. Every entity and relation
    keeps a fact in train; `notes` of the graph say where fewer could be spared than asked for. The
    same shares of each attribute's values are held out, those of an entity together. With `out`,
    they are also written there, as a folder of `train.tsv`, `valid.tsv` and `test.tsv`, none of
    which may be empty. Options are those of `load`.
    """
    from tacit.graph.split import split as draw_split

    if out is not None and exists(out):
        raise DataError("exists already; choose another folder", out)
    if out is not None and Path(out).suffix:
        raise DataError(f"must name a folder; leave the extension '{Path(out).suffix}' out", out)
    new_splits = draw_split(load(graph, **options), valid, test, seed)
    if out is not None:
        if empty := [name for name in SPLITS if not _stated(new_splits, name)]:
            short = (
                f"has no facts to spare for {' and '.join(empty)}; give larger shares or more facts"
            )
            raise DataError(short, new_splits.name)
        new_splits.write(out)
    return new_splits


def _stated(graph: Graph, split: str) -> int:
    """How many facts and values a split states."""
    values = np.count_nonzero(graph.attributes.rows["split"] == SPLITS.index(split))
    return len(graph.split(split)) + int(values)


def fetch(
    url: str,
    out: NameOrPath,
    *,
    most: int = 1_000_000,
    progress: Progress | bool = False,
    **options: Any,
) -> Fetched:
    """Fetches the facts of a SPARQL endpoint, page by page, to the N-Triples file `out`.

    The same call continues an interrupted one.

    `most` are the facts to fetch. Options are those of `tacit.graph.formats.fetching.Endpoint`:
    `pattern`, a graph pattern over `?s`, `?p` and `?o`, by default all facts; `page`, the facts to
    ask for at a time (10,000); `delay`, the seconds between two pages (1); and `timeout`, those to
    wait for one (60). The result says how many `facts` there are, and whether they are the
    `whole`. `progress` hears an `Event` after each page, or True shows it.
    """
    from tacit.graph.formats.fetching import Endpoint
    from tacit.graph.formats.fetching import fetch as fetch_pages

    endpoint = Endpoint(url, **options)
    with counting(progress) as counts:
        # how many there are, nobody knows
        return fetch_pages(endpoint, out, most, counts("facts", 0))


def take_reading(options: dict[str, Any]) -> dict[str, Any]:
    """Takes the options of `load` out of a dict of options."""
    names = [field.name for field in settings_of(ReadSettings)]
    return {name: options.pop(name) for name in names if name in options}


def _resolve(source: Any) -> Any:
    """The graph of a run, an existing path, or the source itself."""
    if not isinstance(source, str | Path):
        return source
    if is_run(source) or is_saved(source):
        return open_folder(source).graph()
    return Path(source) if exists(source) else source


def is_run(source: NameOrPath) -> bool:
    """Whether a path is a run folder."""
    return exists(source) and (Path(source) / SETTINGS).is_file()


def is_world(source: Any) -> bool:
    """Whether a source is the name `world`, and no such path exists."""
    return str(source) == "world" and not exists(source)


def is_data_set(source: Any) -> bool:
    """Whether a source is the name of a data set, and no such path exists."""
    return is_world(source) or (str(source).startswith(PYKEEN) and not exists(source))


def names_run(source: Any) -> bool:
    """Whether a source names a run: a run folder, a saved run, or the trained `world`."""
    if not isinstance(source, str | Path):
        return False
    return is_run(source) or is_saved(source) or is_world(source)


def is_saved(source: NameOrPath) -> bool:
    """Whether a source is a saved run: a file by the name `*.tacit`, or `hf://OWNER/NAME`."""
    if is_hub_name(source):
        return True
    return exists(source) and is_archive_name(source) and Path(source).is_file()


def open_folder(source: NameOrPath) -> RunFolder:
    """The run in a folder, or the folder in the cache that a saved run is unpacked to."""
    if not is_saved(source):
        return RunFolder.open(source)
    of_hub = is_hub_name(source)
    opened = opened_repository(HubName.parse(source)) if of_hub else opened_archive(Path(source))
    with opened as (manifest, open_file):
        return unpacked_run(manifest, open_file, str(source))
