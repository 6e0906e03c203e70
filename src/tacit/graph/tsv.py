"""Label facts in three columns, separated by tabs or commas."""

from __future__ import annotations

from pathlib import Path

from tacit.errors import DataError
from tacit.graph.build import Builder
from tacit.graph.files import atomic_file, atomic_folder, extension
from tacit.graph.graph import PARTS, Graph, Triples
from tacit.graph.naming import NAMING, write_naming
from tacit.graph.tables import check_writable, table_fields

_HEADERS = {
    ("head", "relation", "tail"),
    ("subject", "predicate", "object"),
    ("source", "relation", "target"),
    ("h", "r", "t"),
    ("s", "p", "o"),
}


def read_tsv(path: Path, part: str, builder: Builder) -> None:
    """Adds the facts of a three-column file, `.csv` by commas and quotes, anything else by tabs."""
    empty = True
    for fields in table_fields(path):
        if empty and tuple(f.lower() for f in fields[:3]) in _HEADERS:
            builder.notes.append(f"{part}: the first line of {path.name} was taken for a header and skipped")
            del fields[:3]
        if fields:
            empty = False
            builder.add(part, fields)
    if empty and part == "train":  # the other parts may be empty: all facts are known ones
        raise DataError("holds no facts; expected lines of head, relation and tail", path)


def write_tsv(graph: Graph, path: str | Path) -> None:
    """Writes label facts: to one file, all parts together, where the name ends in `.tsv` or `.txt` (or in `.gz` after
    these); to a folder with `train.tsv`, `valid.tsv` and `test.tsv` where it has no extension or is a folder.
    """
    path = Path(path)
    if path.suffix and not path.is_dir():
        if extension(path) not in (".tsv", ".txt"):
            raise DataError(
                "can be written as .tsv, .txt, either with .gz, or as a folder (a name without extension)", path
            )
        with atomic_file(path) as file:
            file.write(_lines(graph, graph.facts()))
        return
    with atomic_folder(path, NAMING) as folder:
        write_naming(graph, folder)
        for part in PARTS:
            (folder / f"{part}.tsv").write_bytes(_lines(graph, graph.part(part)))


def _lines(graph: Graph, facts: Triples) -> bytes:
    check_writable((*graph.entities, *graph.relations))
    entities, relations = graph.entities.labels, graph.relations.labels
    return "".join([f"{entities[h]}\t{relations[r]}\t{entities[t]}\n" for h, r, t in facts.tolist()]).encode()
