"""Graphs by name, folder or file: what every command calls for its GRAPH."""

from __future__ import annotations

from dataclasses import replace
from importlib.resources import files
from pathlib import Path

from tacit.errors import DataError, SettingsError
from tacit.graph.betae import is_betae, read_betae
from tacit.graph.builder import Builder
from tacit.graph.columns import USUAL
from tacit.graph.files import PACKINGS, extension, unpacked
from tacit.graph.graph import SPLITS, Graph
from tacit.graph.naming import NAMES, read_names, read_prefixes
from tacit.graph.prefixes import Prefixes
from tacit.graph.rdf import labelling, read_rdf
from tacit.graph.tsv import read_tsv

DATASETS = {"world": "countries, cities, borders, languages, currencies and time zones of the world"}
TABLE = "TABLE"
FORMATS = {  # by extension: a table of three columns, or pyoxigraph's name for a format of RDF
    ".tsv": TABLE,
    ".txt": TABLE,
    ".csv": TABLE,
    ".parquet": TABLE,
    ".nt": "N_TRIPLES",
    ".ttl": "TURTLE",
    ".trig": "TRIG",
    ".nq": "N_QUADS",
    ".n3": "N3",
    ".rdf": "RDF_XML",
    ".owl": "RDF_XML",
    ".xml": "RDF_XML",
    ".jsonld": "JSON_LD",
}
_READABLE, _PACKED = ", ".join(FORMATS), f"each also as {', '.join(PACKINGS)}"


def load(
    source: str | Path,
    *,
    literals: bool = False,
    labels: str | Path | None = None,
    language: str = "en",
    columns: str | None = None,
    name: str | None = None,
) -> Graph:
    """The graph of a data set ("world"), a folder (train, valid and test, or BetaE's) or a single file.

    A single file has all its facts in train. Of RDF, `literals` keeps statements with a literal as facts, and names in
    `language` come first; `labels` is a table of two columns, label and readable name; `columns` says how those of a
    table of facts are ordered, by name ("head,tail,relation") or as the positions of head, relation and tail ("1,3,2").
    `Graph.notes` says what was noticed on the way: duplicates, literals, facts that cannot be predicted.
    """
    folder, splits = _located(source)
    if columns is not None and {FORMATS[extension(path)] for path in splits.values()} != {TABLE}:
        raise SettingsError(f"columns '{columns}' are those of a table, and {source} is none", "columns")
    prefixes = read_prefixes(folder) if folder else Prefixes()
    if folder and not splits:
        graph = replace(read_betae(folder, name or folder.resolve().name), prefixes=prefixes)
    else:
        path = folder or splits["train"]
        name = name or (folder.resolve().name if folder else unpacked(path).stem)
        graph = _read(splits, name, prefixes, literals, language, columns)
    if folder and (folder / NAMES).exists():
        graph = read_names(graph, folder / NAMES)
    return graph if labels is None else read_names(graph, Path(labels))


def _located(source: str | Path) -> tuple[Path | None, dict[str, Path]]:
    """The folder of a source, if it is one, and the file of each split; of a BetaE folder no files."""
    path = Path(str(files("tacit.graph") / str(source)) if source in DATASETS else source)
    try:
        is_folder, exists = path.is_dir(), path.exists()
    except OSError as error:  # a name too long, a folder one may not look into
        raise DataError(f"cannot be read ({error.strerror or error})", f"{path!s:.80}") from None
    if is_folder:
        return path, {} if is_betae(path) else _parts(path)
    if not exists:
        raise DataError(f"no such file or folder, nor a data set (there is {', '.join(DATASETS)})", path)
    if extension(path) not in FORMATS:
        raise DataError(f"unknown extension '{path.suffix}'; Tacit reads {_READABLE} and folders, {_PACKED}", path)
    return None, {"train": path}


def _parts(folder: Path) -> dict[str, Path]:
    """The file of each split; two that could be it are an error."""
    splits: dict[str, Path] = {}
    for split in SPLITS:
        names = [f"{split}{kind}{packing}" for kind in FORMATS for packing in ("", *PACKINGS)]
        here = [folder / name for name in names if (folder / name).exists()]
        if len(here) > 1:
            raise DataError(f"has both {here[0].name} and {here[1].name}; keep one of them", folder)
        if here:
            splits[split] = here[0]
    missing = [split for split in SPLITS if split not in splits]
    if missing:
        raise DataError(
            f"has no {' or '.join(missing)} file; expected train, valid and test ({_READABLE}, {_PACKED}), "
            "or a BetaE folder with id2ent.pkl",
            folder,
        )
    return splits


def _read(
    splits: dict[str, Path], name: str, given: Prefixes, literals: bool, language: str, columns: str | None
) -> Graph:
    builder = Builder()
    kinds = {split: FORMATS[extension(path)] for split, path in splits.items()}
    if set(kinds.values()) == {TABLE}:
        order = USUAL
        for split, path in splits.items():
            order = read_tsv(path, split, builder, columns, order)
        return replace(builder.graph(name), prefixes=given)
    declared = dict(given)
    for split, path in splits.items():
        if kinds[split] == TABLE:
            raise DataError("is a table beside RDF files; all splits must be tables, or all RDF", path)
        read_rdf(path, kinds[split], split, builder, literals, language, declared)
    prefixes, label = labelling(builder, declared)
    return replace(builder.graph(name, label), prefixes=prefixes)
