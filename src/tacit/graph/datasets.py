"""Loads graphs by name, folder or file: the GRAPH argument of every command."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field, replace
from functools import partial
from importlib.resources import files
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tacit.errors import DataError, SettingsError
from tacit.graph.attributes import Attributes
from tacit.graph.builder import Builder, Ranked, by_rank, with_unseen_noted
from tacit.graph.formats.betae import is_betae, read_betae
from tacit.graph.formats.delimited import TEXTS, table_rows
from tacit.graph.formats.files import PACKINGS, extension, spool, unpacked
from tacit.graph.formats.frames import is_frame
from tacit.graph.formats.graph_libraries import PYKEEN, load_pykeen
from tacit.graph.formats.label_tables import (
    NAMES,
    NAMING,
    TABLES,
    is_rows,
    read_frame,
    read_names,
    read_prefixes,
    read_rows,
    read_table,
)
from tacit.graph.formats.neo4j import Export, read_neo4j
from tacit.graph.formats.rdf import RDF_FORMATS, labelling, read_rdf
from tacit.graph.graph import SPLITS, Graph
from tacit.graph.labels.near_duplicates import quoted_pair, repeated_names
from tacit.graph.labels.prefixes import Prefixes, source_label
from tacit.graph.merging import join_graphs
from tacit.graph.recognition import Locate, recognise
from tacit.graph.settings import STANDARD_INPUT, ReadSettings

if TYPE_CHECKING:
    import pandas
    from narwhals.typing import IntoFrame
    from numpy.typing import NDArray

    Rows = Sequence[Sequence[str]] | NDArray[Any]
    Facts = str | Path | Graph | pandas.DataFrame | IntoFrame | Rows

DATASETS = {
    "world": "countries and cities of the world: borders, languages, currencies, time zones, "
    "populations, areas and coordinates"
}
# the attributes of data sets, which need no recognition
ATTRIBUTES = {"world": ("population[number]", "area[km²]", "latitude[number]", "longitude[number]")}
# the function that adds the facts of a file to a split, by the file's extension
FORMATS: dict[str, Callable[[Path, str, Builder, ReadSettings], None]] = {
    **dict.fromkeys(TABLES, read_table),
    **dict.fromkeys(RDF_FORMATS, read_rdf),
}
_COMPARED = 200_000  # entities, at most, whose names are compared: more would delay loading
_PAIRS = 5  # of names in a note
_READABLE = ", ".join(FORMATS)
_PACKED = f"each also as {', '.join(PACKINGS)}"


@dataclass(frozen=True)
class _Folder:
    """A folder with its split files, or with other files of facts; BetaE's has neither."""

    path: Path
    splits: dict[str, Path] = field(default_factory=dict)
    files: tuple[Path, ...] = ()


def load(
    source: Facts | Sequence[Facts],
    *,
    name: str | None = None,
    like: Graph | None = None,
    **options: Any,
) -> Graph:
    """Loads a graph from any source but a run; `name` overrides its name.

    A folder has a file for each of train, valid and test, or is BetaE's, or holds any files of
    facts; these, a single file and a DataFrame have all their facts in train. Attributes and
    relations of the graph `like` are such here, too.
    """
    reading = ReadSettings.of(options)
    sources = sources_of(source)
    texts = [item for item in sources if isinstance(item, str)]
    if "format" in options and STANDARD_INPUT not in texts:
        raise SettingsError(
            f"format is '{reading.format}', but '-', standard input, is not read: a file's name "
            "says its own",
            "format",
        )
    if reading.attributes is None and len(texts) == len(sources) == 1:
        reading = replace(reading, attributes=ATTRIBUTES.get(texts[0]))
    with ExitStack() as stack:
        located = [_locate(item, reading, stack) for item in sources]
        for name_of_option, shown in (
            ("columns", f"columns is '{reading.columns}'"),
            ("skip_bad", "skip_bad is given"),
        ):
            if getattr(reading, name_of_option) and not any(map(_has_columns, located)):
                raise SettingsError(
                    f"{shown}, but {_source_names(sources)} is no table", name_of_option
                )
        if reading.attributes == ():
            _check_no_values(located)
        coded: list[Graph] = []
        graph = _load_sources(located, name, reading, Prefixes(), {}, coded)
        are_graphs = all(isinstance(part, Graph) for part in located)
        if reading.attributes or not are_graphs:
            graph = _with_attributes(graph, reading, like, coded, partial(_find_fact, located))
        if not are_graphs:
            graph = with_unseen_noted(graph)
        empty = not len(graph.train) and not len(graph.attributes)
        if empty and not any(isinstance(part, Graph) for part in located):
            raise DataError(
                "holds names, and no facts; read it together with a file of facts",
                _source_names(sources),
            )
    if any(map(_has_columns, located)):
        graph = replace(graph, notes=(*graph.notes, *_notes_on_repeated_names(graph)))
    # the name of a file need not be Unicode
    if (text := graph.name.encode("utf-8", "replace").decode()) != graph.name:
        graph = replace(graph, name=text)
    if reading.labels is None:
        return graph
    return read_names(graph, Path(reading.labels), reading.skip_bad)


def _check_no_values(sources: Iterable[Any]) -> None:
    """Raises a `SettingsError` for graphs whose values cannot become entities again."""
    for source in sources:
        if isinstance(source, Graph) and len(source.attributes):
            raise SettingsError(
                f"attributes is False, and the values of {source.name} are no entities; read its "
                "facts again",
                "attributes",
            )


def _with_attributes(
    graph: Graph, reading: ReadSettings, like: Graph | None, coded: Sequence[Graph], locate: Locate
) -> Graph:
    """The graph with the attributes of its tables; relations of graphs among its sources stay."""

    def labels(part: Graph, own: Iterable[str]) -> Iterator[str]:
        for label in own:
            iri = part.iri(label)
            yield (iri and graph.label_of(iri)) or label

    return recognise(
        graph,
        reading.attributes,
        like=like,
        relations_apart={each for part in coded for each in labels(part, part.relations[0::2])},
        known={each for part in coded for each in labels(part, part.attributes.names)},
        skip_bad=reading.skip_bad,
        locate=locate,
    )


def _find_fact(sources: Iterable[Any], fact: Sequence[str]) -> tuple[Path | None, int | None]:
    """The text table and the line of a fact among the sources of a graph, if it is in one."""
    for source in sources:
        is_folder = isinstance(source, _Folder)
        for path in (*source.splits.values(), *source.files) if is_folder else [source]:
            if isinstance(path, Path) and extension(path) in TEXTS:
                for line, row in table_rows(path):
                    if set(fact) <= set(row):
                        return path, line
    return None, None


def _notes_on_repeated_names(graph: Graph) -> list[str]:
    """A note on the labels of a graph that differ in case, spaces or Unicode form alone."""
    if graph.num_entities > _COMPARED:
        return []
    pairs = repeated_names(graph.entities.labels)
    pairs |= repeated_names(graph.relations.labels[::2])
    if not pairs:
        return []
    shown = [" and ".join(quoted_pair(*pair)[::-1]) for pair in islice(pairs.items(), _PAIRS)]
    what = "pair differs" if len(pairs) == 1 else "pairs differ"
    more = ", ..." if len(pairs) > len(shown) else ""
    return [
        f"{len(pairs):,} {what} in case, spaces or Unicode form alone, and each name is one of its "
        f"own: {', '.join(shown)}{more}"
    ]


def sources_of(source: Any) -> list[Any]:
    """The sources of a graph: the items of a list, or the one source.

    A list of label triples is one source.
    """
    return list(source) if isinstance(source, list | tuple) and not is_rows(source) else [source]


def _source_names(sources: Sequence[Any]) -> str:
    return ", ".join(item.name if isinstance(item, Graph) else str(item) for item in sources)


def _load_sources(
    sources: Sequence[Any],
    name: str | None,
    reading: ReadSettings,
    prefixes: Prefixes,
    names: Ranked,
    coded: list[Graph],
) -> Graph:
    """Loads and joins located sources; the files of a Neo4j export make one graph.

    `names` collects the names of IRIs in RDF files, since the facts may be in other files, and
    `coded` the parts whose facts stay facts: graphs, and what tells facts from values itself.
    """
    files = [source for source in sources if isinstance(source, Path) and reading.columns is None]
    exports = {path: export for path in files if (export := Export.at(path))}
    graphs: list[Graph] = []
    for source in sources:
        if isinstance(source, Graph):
            graphs.append(source)
            coded.append(source)
        elif is_frame(source):
            graphs.append(read_frame(source, reading))
        elif is_rows(source):
            graphs.append(read_rows(source, reading))
        elif isinstance(source, _Folder):
            graphs.append(_of_folder(source, reading, names, coded))
        elif source not in exports:
            stem = unpacked(source).stem
            graphs.append(_read({"train": source}, stem, prefixes, reading, names, coded))
        elif source == next(iter(exports)):
            graph = read_neo4j(list(exports.values()), unpacked(source).stem, reading)
            graphs.append(graph)
            coded.append(replace(graph, attributes=Attributes()))
    if not graphs:
        raise DataError("no source of facts was given; expected a file, a folder or a data set")
    if len(graphs) == 1:
        return graphs[0] if name is None else replace(graphs[0], name=name)
    first, *others = (part.name for part in graphs)
    second = others[0] if len(others) == 1 else f"{len(others)} more"
    graph = join_graphs(graphs, name or f"{first}+{second}")
    known = graph.names
    further = dict[str, list[str]]()
    for iri, ranked in names.items():
        if (label := graph.label_of(iri)) is not None:
            before = known.get(label, ())
            best = by_rank(ranked)
            # names from a table of names stay first
            further[label] = best if set(before) <= set(best) else [*before, *best]
    return graph.named(further)


def _has_columns(source: Any) -> bool:
    """Whether a source is a table, or a folder with one."""
    if isinstance(source, _Folder):
        return any(map(_has_columns, (*source.splits.values(), *source.files)))
    if isinstance(source, Path):
        return extension(source) not in RDF_FORMATS
    return not isinstance(source, Graph)


def _of_folder(folder: _Folder, reading: ReadSettings, names: Ranked, coded: list[Graph]) -> Graph:
    """The graph of a folder, with the names and prefixes of its own files."""
    path = folder.path
    name = path.resolve().name
    prefixes = read_prefixes(path)
    own: Ranked = {}
    if folder.files:
        graph = _load_sources(folder.files, name, reading, prefixes, own, coded)
    elif folder.splits:
        graph = _read(folder.splits, name, prefixes, reading, own, coded)
    else:
        graph = replace(read_betae(path, name), prefixes=prefixes)
        coded.append(graph)
    has_names = (path / NAMES).exists()
    for iri in own:
        # the folder's table of names goes before those of its RDF files
        if not has_names or graph.label_of(iri) is None:
            names.setdefault(iri, []).extend(own[iri])
    return read_names(graph, path / NAMES) if has_names else graph


def _locate(source: Any, reading: ReadSettings, stack: ExitStack) -> Any:
    """Resolves a source to a graph, a DataFrame, rows of labels, a folder or a file."""
    if isinstance(source, Graph) or is_frame(source) or is_rows(source):
        return source
    if not isinstance(source, str | Path):
        kind = type(source).__name__
        raise DataError(
            f"a {kind} is no source of facts; expected a path, a DataFrame, label triples or a "
            "Graph"
        )
    if source == STANDARD_INPUT:
        if extension(Path(f"-.{reading.format}")) not in FORMATS:
            names = ", ".join(kind[1:] for kind in FORMATS)
            raise SettingsError(
                f"format is '{reading.format}'; it must be one of {names}, {_PACKED}", "format"
            )
        name = f"standard-input.{reading.format.removeprefix('.')}"
        return stack.enter_context(spool(sys.stdin.buffer, name, "standard input"))
    path = Path(str(files("tacit.graph") / source) if source in DATASETS else source)
    try:
        if path.is_dir():
            return _Folder(path) if is_betae(path) else _find_splits(path)
        exists = path.exists()
    except OSError as error:  # a name is too long, or a folder may not be opened
        raise DataError(f"cannot be read ({error.strerror or error})", f"{path!s:.80}") from None
    if not exists and str(source).startswith(PYKEEN):
        return load_pykeen(str(source).removeprefix(PYKEEN))
    if not exists:
        raise DataError(
            f"no such file or folder, nor a data set (there is {', '.join(DATASETS)})", path
        )
    if extension(path) not in FORMATS:
        raise DataError(
            f"unknown extension '{path.suffix}'; Tacit reads {_READABLE} and folders, {_PACKED}",
            path,
        )
    if not path.is_fifo():
        return path
    pipe = stack.enter_context(path.open("rb"))
    return stack.enter_context(spool(pipe, path.name, path))


def _find_splits(folder: Path) -> _Folder:
    """Finds the file of each split in a folder, or else all its files of facts.

    Two files for one split are an error.
    """
    splits: dict[str, Path] = {}
    shown = [path for path in sorted(folder.iterdir()) if not path.name.startswith(".")]
    facts = [path for path in shown if extension(path) in FORMATS and path.name not in NAMING]
    for split in SPLITS:
        matches = [path for path in facts if unpacked(path).stem.lower() == split]
        if len(matches) > 1:
            raise DataError(
                f"has both {matches[0].name} and {matches[1].name}; keep one of them", folder
            )
        if matches:
            splits[split] = matches[0]
    missing = [split for split in SPLITS if split not in splits]
    if not splits and facts:
        return _Folder(folder, files=tuple(facts))
    if missing:
        expected = (
            f"train, valid and test ({_READABLE}, {_PACKED}), other files of facts, "
            "or BetaE's id2ent.pkl"
        )
        raise DataError(f"has no {' or '.join(missing)} file; expected {expected}", folder)
    return _Folder(folder, splits)


def _read(
    splits: dict[str, Path],
    name: str,
    declared: Prefixes,
    reading: ReadSettings,
    names: Ranked,
    coded: list[Graph],
) -> Graph:
    """The graph of one file per split; `names` collects what RDF files call IRIs."""
    builder = Builder()
    builder.prefixes.update(declared)
    rdf = [path for path in splits.values() if extension(path) in RDF_FORMATS]
    for split, path in splits.items():
        if rdf and path not in rdf:
            raise DataError(
                "is a table beside RDF files; all splits must be tables, or all RDF", path
            )
        FORMATS[extension(path)](path, split, builder, reading)
    for term in (term for term in builder.names if term.startswith("<")):
        names.setdefault(term[1:-1], []).extend(builder.names[term])
    prefixes, label = labelling(builder) if rdf else (declared, str)
    of_source = partial(source_label, prefixes=prefixes) if rdf else str
    graph = replace(builder.graph(name, label, of_source), prefixes=prefixes)
    if rdf:
        coded.append(replace(graph, attributes=Attributes()))
    return graph
