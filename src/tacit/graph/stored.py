"""Stores a graph in a run folder: labels as text, facts and index as mapped arrays.

With a million labels or more the run also holds files that open at once: a trie, if marisa-trie is
installed, and the order in which labels complete. The text is read where the trie cannot be.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from hashlib import sha256
from importlib.util import find_spec
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from tacit.disk import digest, mapped_array, replacing, write_array, write_text
from tacit.errors import DataError, RunError
from tacit.graph.attributes import VALUE_ROW, Attribute, Attributes
from tacit.graph.fact_index import FactIndex
from tacit.graph.formats.files import BOM, lines
from tacit.graph.graph import SPLITS, Graph, NamesByLabel, names_both_ways
from tacit.graph.labels.prefixes import Prefixes
from tacit.graph.labels.spelling import is_large
from tacit.graph.labels.vocabulary import LabelTrie, Vocabulary, trie_of
from tacit.graph.qualifiers import QUALIFIERS, STATEMENT_ROW, Qualifiers
from tacit.graph.quantities import PRECISIONS

ENTITIES = "entities.txt"
RELATIONS = "relations.txt"
NAMES = "names.tsv"
FACTS = "facts.npy"
KEYS = "index-keys.npy"
OFFSETS = "index-offsets.npy"
TAILS = "index-tails.npy"
TRIE = "entities.marisa"
TRIE_IDS = "entities-ids.npy"
WORDS = "entities-words.npy"
FOLDED = "entities-folded.npy"
VALUES = "values.npy"
STATEMENTS = "statements.npy"
SOURCES = "sources.txt"
GRAPH_FILES = (
    ENTITIES,
    RELATIONS,
    NAMES,
    FACTS,
    KEYS,
    OFFSETS,
    TAILS,
    TRIE,
    TRIE_IDS,
    WORDS,
    FOLDED,
    VALUES,
    STATEMENTS,
    SOURCES,
)
_OF_FACTS = (FACTS, KEYS, OFFSETS, TAILS)
_KINDS = {  # types and shapes of arrays; -1 is any number
    FACTS: (np.int32, (-1, 3)),
    **dict.fromkeys((KEYS, OFFSETS), (np.int64, (-1,))),
    TAILS: (np.int32, (-1,)),
    **dict.fromkeys((TRIE_IDS, WORDS, FOLDED), (np.int32, (2, -1))),
    VALUES: (VALUE_ROW, (-1,)),
    STATEMENTS: (STATEMENT_ROW, (-1,)),
}
_UNESCAPED = {r"\\": "\\", r"\n": "\n", r"\r": "\r", r"\t": "\t"}
_READ_WHOLE = 1 << 24  # bytes of an array that is read to be checked

Table = Mapping[str, Any]


class Fingerprint(NamedTuple):
    """Short hashes of the labels and facts that weights and checkpoints depend on."""

    labels: str  # in the order of their ids
    facts: str  # of each split in turn, and of values and statements if there are any


def fingerprint(graph: Graph) -> Fingerprint:
    """The fingerprint of a graph."""
    labels = sha256()
    facts = sha256()
    for vocabulary in (graph.entities, graph.relations):
        labels.update(_label_lines(vocabulary).encode("utf-8", "surrogatepass") + b"\0")
    for split in SPLITS:
        facts.update(np.ascontiguousarray(graph.split(split), dtype=np.int32).data)
        facts.update(b"\0")
    if graph.attributes.listed:
        facts.update(repr(graph.attributes.listed).encode("utf-8", "surrogatepass"))
        facts.update(np.ascontiguousarray(graph.attributes.rows).view(np.uint8).data)
    if len(graph.qualifiers):
        facts.update(_label_lines(graph.qualifiers.sources).encode("utf-8", "surrogatepass"))
        facts.update(np.ascontiguousarray(graph.qualifiers.rows).view(np.uint8).data)
    return Fingerprint(labels.hexdigest()[:32], facts.hexdigest()[:32])


def write_graph(graph: Graph, folder: Path) -> dict[str, Table]:
    """Writes a graph's files; returns the tables `graph`, `files`, `prefixes`
    and `attributes`.

    `read_graph` needs these tables.
    """
    _write_text(folder / ENTITIES, _label_lines(graph.entities))
    _write_text(folder / RELATIONS, _label_lines(graph.relations))
    if graph.names:
        write_names(graph, folder)
    facts = graph.facts()
    index = graph.index()
    limits = (graph.num_entities, graph.num_relations, graph.num_entities)
    if ((facts < 0) | (facts >= limits)).any():
        raise DataError(
            f"the facts of {graph.name} have ids without labels; ids count the labels from 0"
        )
    arrays: dict[str, NDArray[Any]] = {
        FACTS: facts,
        KEYS: index.keys,
        OFFSETS: index.offsets,
        TAILS: index.all_tails,
    }
    if is_large(graph.entities):
        if stored := trie_of(graph.entities):
            trie, arrays[TRIE_IDS] = stored
            with replacing(folder / TRIE) as target:
                trie.save(str(target))
        rows = graph.entities.spelling.rows()
        arrays |= {WORDS: rows["words"], FOLDED: rows["folded"]}
    tables: dict[str, Table] = {"prefixes": graph.prefixes} if graph.prefixes else {}
    if listed := graph.attributes.listed:
        arrays[VALUES] = graph.attributes.rows
        tables["attributes"] = {
            "names": [attribute.name for attribute in listed],
            "kinds": [attribute.kind for attribute in listed],
            "units": [attribute.unit for attribute in listed],
        }
    if len(graph.qualifiers):
        arrays[STATEMENTS] = graph.qualifiers.rows
        _write_text(folder / SOURCES, _label_lines(graph.qualifiers.sources))
    for name, array in arrays.items():
        write_array(folder / name, array)
    described = {
        "name": graph.name,
        "entities": graph.num_entities,
        "relations": graph.num_relations,
        **{split: len(graph.split(split)) for split in SPLITS},
    }
    files = {name: digest(folder / name) for name in GRAPH_FILES if (folder / name).is_file()}
    return {"graph": described, "files": files, **tables}


def write_names(graph: Graph, folder: Path) -> None:
    """Writes the readable names of a graph, replacing those in the folder."""
    pairs = ((label, name) for label, names in graph.names.items() for name in names)
    text = "".join(f"{_escape(label)}\t{_escape(name)}\n" for label, name in pairs)
    mark = BOM.decode()
    # readers drop one mark, which must not be that of a label
    _write_text(folder / NAMES, mark + text if text.startswith(mark) else text)


def read_graph(folder: Path, tables: Mapping[str, Table]) -> Graph:
    """Reads the graph of a folder, after checking the digests of its files.

    Names may be changed: nothing was trained on them.
    """
    files = tables.get("files", {})
    present = {name for name in GRAPH_FILES if (folder / name).is_file()}
    for name in (*files, ENTITIES, RELATIONS, *_OF_FACTS):
        if name not in present | {NAMES, TRIE, TRIE_IDS}:
            raise RunError(f"run '{folder}' has no {name}; train the run again")
    try:
        same = {name for name in present if digest(folder / name) == files.get(name)}
        for name in sorted(present - same - {NAMES}, key=GRAPH_FILES.index):
            kind = "facts" if name in (*_OF_FACTS, VALUES, STATEMENTS, SOURCES) else "labels"
            changed = (
                f"the {kind} in '{folder}' are not those the run was made with ({name} was changed)"
            )
            raise RunError(f"{changed}; train the run again")
        return _read(folder, tables, present, same)
    except (OSError, ValueError) as error:
        raise RunError(
            f"the graph in '{folder}' cannot be read ({error}); train the run again"
        ) from None


def _read(folder: Path, tables: Mapping[str, Table], present: set[str], same: set[str]) -> Graph:
    """Reads a graph from its `present` files; the digests of the `same` files are unchanged."""
    described = tables["graph"]
    names: dict[str, list[str]] = {}
    # people may write this file, so its lines are checked
    for number, line in lines(folder / NAMES) if NAMES in present else ():
        label, _, readable = map(_unescape, line.partition("\t"))
        if readable:
            names.setdefault(label, []).append(readable)
        elif line:
            raise DataError(
                "has no name; expected a label, a tab and its name", folder / NAMES, number
            )
    facts, keys, offsets, tails = (_array(folder / name) for name in _OF_FACTS)
    forms = {}
    if {WORDS, FOLDED} <= present and (NAMES in same or NAMES not in {*present, *tables["files"]}):
        forms = {"words": _array(folder / WORDS), "folded": _array(folder / FOLDED)}
    if {TRIE, TRIE_IDS} <= present and find_spec("marisa_trie"):
        labels: Iterable[str] = LabelTrie.open(folder / TRIE, _array(folder / TRIE_IDS))
    else:
        labels = _read_labels(folder / ENTITIES)
    entities = Vocabulary(labels, "entity", names, forms)
    directed = _read_labels(folder / RELATIONS)
    relations = Vocabulary(directed, "relation", names_both_ways(names, directed))
    ends = np.cumsum([described[split] for split in SPLITS])
    if ends[-1] != len(facts) or (len(entities), len(relations)) != (
        described["entities"],
        described["relations"],
    ):
        raise ValueError("its sizes are not those of its settings")
    _check_arrays(facts, keys, offsets, tails, len(entities), len(relations))
    prefixes = Prefixes({prefix: str(iri) for prefix, iri in tables.get("prefixes", {}).items()})
    train, valid, test = np.split(facts, ends[:-1])
    name = str(described.get("name", "graph"))
    attributes = _read_attributes(folder, tables, names, len(entities))
    graph = Graph(
        entities,
        relations,
        train,
        valid,
        test,
        name,
        prefixes=prefixes,
        attributes=attributes,
        qualifiers=_read_qualifiers(folder, len(entities), len(relations)),
    )
    graph.indexes[SPLITS] = FactIndex.of_arrays(keys, offsets, tails, graph.num_relations)
    return graph


def _read_attributes(
    folder: Path, tables: Mapping[str, Table], names: NamesByLabel, entities: int
) -> Attributes:
    """The attributes of a folder; their values are mapped, and read where they are used."""
    table = tables.get("attributes")
    if table is None:
        return Attributes()
    columns = zip(*(table.get(key, ()) for key in ("names", "kinds", "units")), strict=True)
    listed = tuple(Attribute(*map(str, each)) for each in columns)  # type: ignore[arg-type]
    rows = _array(folder / VALUES)
    if rows.nbytes <= _READ_WHOLE:
        for key, limit in (
            ("entity", entities),
            ("attribute", len(listed)),
            ("precision", len(PRECISIONS)),
            ("split", len(SPLITS)),
        ):
            if ((rows[key] < 0) | (rows[key] >= limit)).any():
                raise ValueError(f"{VALUES} has a {key} out of range")
        if not np.isfinite(rows["value"]).all():
            raise ValueError(f"{VALUES} has values that are no numbers")
        if (np.diff(rows["attribute"].astype(np.int64) * entities + rows["entity"]) < 0).any():
            raise ValueError(f"{VALUES} is not in order")
    return Attributes.of_sorted(listed, rows).named(names)


def _read_qualifiers(folder: Path, entities: int, relations: int) -> Qualifiers:
    """The statements about the facts of a folder, which are mapped."""
    if not (folder / STATEMENTS).is_file():
        return Qualifiers()
    sources = _read_labels(folder / SOURCES)
    rows = _array(folder / STATEMENTS)
    if rows.nbytes <= _READ_WHOLE:
        precisions = len(PRECISIONS)
        for key, least, limit in (
            ("head", 0, entities),
            ("relation", 0, relations),
            ("tail", 0, entities),
            ("source", -1, len(sources)),
            ("from_precision", 0, precisions),
            ("until_precision", 0, precisions),
        ):
            if ((rows[key] < least) | (rows[key] >= limit)).any():
                raise ValueError(f"{STATEMENTS} has a {key} out of range")
        if any(np.isnan(rows[key]).any() for key in QUALIFIERS[1:]):
            raise ValueError(f"{STATEMENTS} has qualifiers that are no numbers")
    return Qualifiers.of_sorted(sources, rows)


def _array(path: Path) -> NDArray[Any]:
    """Maps an array of a file, checking its type and dimensions."""
    array = mapped_array(path)
    kind, shape = _KINDS[path.name]
    sizes = zip(array.shape, shape, strict=False)
    if array.dtype != kind or array.ndim != len(shape) or any(m not in (-1, n) for n, m in sizes):
        raise ValueError(f"{path.name} holds {array.dtype} {array.shape}")
    return array


def _check_arrays(
    facts: NDArray[Any],
    keys: NDArray[Any],
    offsets: NDArray[Any],
    tails: NDArray[Any],
    entities: int,
    relations: int,
) -> None:
    """Raises a `ValueError` for ids or index entries out of range.

    Arrays of over 16 MB are not checked.
    """
    if len(offsets) != len(keys) + 1 or offsets[0] != 0 or offsets[-1] != len(tails):
        raise ValueError(f"{OFFSETS} does not fit {KEYS} and {TAILS}")
    for name, array, limit in (
        (FACTS, facts, (entities, relations, entities)),
        (KEYS, keys, entities * relations),
        (TAILS, tails, entities),
    ):
        if array.nbytes <= _READ_WHOLE and ((array < 0) | (array >= limit)).any():
            raise ValueError(f"{name} has ids without labels")
    for name, array, least in ((KEYS, keys, 1), (OFFSETS, offsets, 0)):
        if array.nbytes <= _READ_WHOLE and (np.diff(array) < least).any():
            raise ValueError(f"{name} is not in order")


def _write_text(path: Path, text: str) -> None:
    try:
        write_text(path, text)
    except UnicodeEncodeError as error:
        line = text[text.rfind("\n", 0, error.start) + 1 :].partition("\n")[0]
        raise DataError(
            f"label {line[:80]!r} cannot be stored: it has half of a surrogate pair"
        ) from None


def _read_labels(path: Path) -> list[str]:
    return [*map(_unescape, path.read_bytes().decode("utf-8").split("\n")[:-1])]


def _label_lines(labels: Iterable[str]) -> str:
    return "".join(_escape(label) + "\n" for label in labels)


def _escape(label: str) -> str:
    return (
        label.replace("\\", "\\\\").replace("\n", "\\n").replace("\r", "\\r").replace("\t", "\\t")
    )


def _unescape(line: str) -> str:
    return re.sub(r"\\[\\nrt]", lambda match: _UNESCAPED[match[0]], line) if "\\" in line else line
