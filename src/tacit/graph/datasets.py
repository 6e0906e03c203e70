"""Graphs by name, folder or file: what every command calls for its GRAPH."""

from __future__ import annotations

from dataclasses import replace
from importlib.resources import files
from pathlib import Path

from tacit.errors import DataError
from tacit.graph.betae import is_betae, read_betae
from tacit.graph.build import Builder
from tacit.graph.files import extension
from tacit.graph.graph import PARTS, Graph
from tacit.graph.naming import read_prefixes
from tacit.graph.prefixes import Prefixes
from tacit.graph.rdf import labelling, read_rdf
from tacit.graph.tsv import read_tsv

DATASETS = {"world": "countries, cities, borders, languages, currencies and time zones of the world"}
TABLE = "TABLE"
FORMATS = {  # by extension: a table of three columns, or pyoxigraph's name for a format of RDF
    ".tsv": TABLE,
    ".txt": TABLE,
    ".csv": TABLE,
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


def load(source: str | Path, *, literals: bool = False, name: str | None = None) -> Graph:
    """The graph of a data set ("world"), a folder (train, valid and test, or BetaE's) or a single file.

    A single file has all its facts in train. `Graph.notes` says what was noticed on the way: duplicates, literals,
    facts that cannot be evaluated.
    """
    if isinstance(source, str) and source in DATASETS:
        return _folder(Path(str(files("tacit.graph") / source)), literals, name or source)
    path = Path(source)
    try:
        is_folder, exists = path.is_dir(), path.exists()
    except OSError as error:  # a name too long, a folder one may not look into
        raise DataError(f"cannot be read ({error.strerror or error})", f"{path!s:.80}") from None
    if is_folder:
        return _folder(path, literals, name or path.resolve().name)
    if not exists:
        raise DataError(f"no such file or folder, nor a data set (there is {', '.join(DATASETS)})", path)
    kind = extension(path)
    if kind not in FORMATS:
        raise DataError(f"unknown extension '{path.suffix}'; Tacit reads {_readable()}, each also as .gz", path)
    return _read({"train": path}, literals, name or path.name.removesuffix(".gz")[: -len(kind)])


def _readable() -> str:
    return ", ".join(FORMATS) + " and folders"


def _folder(folder: Path, literals: bool, name: str) -> Graph:
    if is_betae(folder):
        return replace(read_betae(folder, name), prefixes=read_prefixes(folder))
    if not folder.is_dir():
        raise DataError("no such folder", folder)
    found = {part: _part(folder, part) for part in PARTS}
    missing = [part for part, path in found.items() if path is None]
    if missing:
        raise DataError(
            f"has no {' or '.join(missing)} file; expected train, valid and test ({_readable().split(' and')[0]}, "
            "each also as .gz), or a BetaE folder with id2ent.pkl",
            folder,
        )
    return _read(
        {part: path for part, path in found.items() if path is not None}, literals, name, read_prefixes(folder)
    )


def _part(folder: Path, part: str) -> Path | None:
    """The file of one part; two that could be it are an error."""
    names = [f"{part}{kind}{packing}" for kind in FORMATS for packing in ("", ".gz")]
    here = [folder / name for name in names if (folder / name).exists()]
    if len(here) > 1:
        raise DataError(f"has both {here[0].name} and {here[1].name}; keep one of them", folder)
    return here[0] if here else None


def _read(parts: dict[str, Path], literals: bool, name: str, given: Prefixes | None = None) -> Graph:
    builder = Builder()
    kinds = {part: FORMATS[extension(path)] for part, path in parts.items()}
    if set(kinds.values()) == {TABLE}:
        for part, path in parts.items():
            read_tsv(path, part, builder)
        return replace(builder.graph(name), prefixes=given or Prefixes())
    declared = dict(given or {})
    for part, path in parts.items():
        if kinds[part] == TABLE:
            raise DataError("is a table beside RDF files; all parts must be tables, or all RDF", path)
        read_rdf(path, kinds[part], part, builder, literals, declared)
    prefixes, label = labelling(builder, declared)
    return replace(builder.graph(name, label), prefixes=prefixes)
