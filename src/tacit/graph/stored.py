"""A graph in the files of a run folder: labels as text, facts and their index as arrays that are mapped.

Of a million labels or more the run also holds what opens at once: a trie, where marisa-trie is installed, and the
order in which they complete. Text remains what labels are made of, and is read where the trie cannot be.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from hashlib import sha256
from importlib.util import find_spec
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from tacit.disk import digest, mapped_array, replacing, write_array, write_text
from tacit.errors import DataError, RunError
from tacit.graph.fact_index import FactIndex
from tacit.graph.formats.files import BOM, lines
from tacit.graph.graph import SPLITS, Graph, names_both_ways
from tacit.graph.labels.prefixes import Prefixes
from tacit.graph.labels.trie import LabelTrie, is_large, trie_of
from tacit.graph.labels.vocabulary import Vocabulary

ENTITIES, RELATIONS, NAMES = "entities.txt", "relations.txt", "names.tsv"
FACTS, KEYS, OFFSETS, TAILS = "facts.npy", "index-keys.npy", "index-offsets.npy", "index-tails.npy"
TRIE, TRIE_IDS, WORDS, FOLDED = "entities.marisa", "entities-ids.npy", "entities-words.npy", "entities-folded.npy"
GRAPH_FILES = (ENTITIES, RELATIONS, NAMES, FACTS, KEYS, OFFSETS, TAILS, TRIE, TRIE_IDS, WORDS, FOLDED)
_OF_FACTS = (FACTS, KEYS, OFFSETS, TAILS)
_KINDS = {  # of arrays; -1 is any number
    FACTS: (np.int32, (-1, 3)),
    **dict.fromkeys((KEYS, OFFSETS), (np.int64, (-1,))),
    TAILS: (np.int32, (-1,)),
    **dict.fromkeys((TRIE_IDS, WORDS, FOLDED), (np.int32, (2, -1))),
}
_READ_WHOLE = 1 << 24  # bytes

Table = Mapping[str, Any]


class Fingerprint(NamedTuple):
    """Short hashes of what weights and checkpoints depend on."""

    labels: str  # in the order of their ids
    facts: str  # of all splits, in their order


def fingerprint(graph: Graph) -> Fingerprint:
    """The fingerprint of a graph."""
    labels, facts = sha256(), sha256()
    for vocabulary in (graph.entities, graph.relations):
        labels.update(_label_lines(vocabulary).encode("utf-8", "surrogatepass") + b"\0")
    for split in SPLITS:
        facts.update(np.ascontiguousarray(graph.split(split), dtype=np.int32).data)
        facts.update(b"\0")
    return Fingerprint(labels.hexdigest()[:32], facts.hexdigest()[:32])


def write_graph(graph: Graph, folder: Path) -> dict[str, Table]:
    """Write a graph's files, and give what `read_graph` must be told: the tables `graph`, `files` and `prefixes`."""
    _write_text(folder / ENTITIES, _label_lines(graph.entities))
    _write_text(folder / RELATIONS, _label_lines(graph.relations))
    if graph.names:
        write_names(graph, folder)
    facts, index = graph.facts(), graph.index()
    if ((facts < 0) | (facts >= (graph.num_entities, graph.num_relations, graph.num_entities))).any():
        raise DataError(f"the facts of {graph.name} have ids without labels; ids count the labels from 0")
    arrays: dict[str, NDArray[Any]] = {FACTS: facts, KEYS: index.keys, OFFSETS: index.offsets, TAILS: index.all_tails}
    if is_large(graph.entities):
        if made := trie_of(graph.entities):
            with replacing(folder / TRIE) as target:
                made[0].save(str(target))
            arrays[TRIE_IDS] = made[1]
        rows = graph.entities.form_rows()
        arrays |= {WORDS: rows["words"], FOLDED: rows["folded"]}
    for name, array in arrays.items():
        write_array(folder / name, array)
    described = {"name": graph.name, "entities": graph.num_entities, "relations": graph.num_relations}
    described |= {split: len(graph.split(split)) for split in SPLITS}
    files = {name: digest(folder / name) for name in GRAPH_FILES if (folder / name).is_file()}
    prefixes = {"prefixes": graph.prefixes} if graph.prefixes else {}
    return {"graph": described, "files": files, **prefixes}


def write_names(graph: Graph, folder: Path) -> None:
    """Write the readable names of a graph, in place of those that are there."""
    pairs = ((label, name) for label, names in graph.names.items() for name in names)
    text = "".join(f"{_escaped(label)}\t{_escaped(name)}\n" for label, name in pairs)
    mark = BOM.decode()
    _write_text(folder / NAMES, mark + text if text.startswith(mark) else text)  # the first one is no label's


def read_graph(folder: Path, tables: Mapping[str, Table]) -> Graph:
    """The graph of a folder; its files must be those that were written, as their digests tell.

    Names may be changed: nothing was trained on them.
    """
    files = tables.get("files", {})
    there = {name for name in GRAPH_FILES if (folder / name).is_file()}
    for name in (*files, ENTITIES, RELATIONS, *_OF_FACTS):
        if name not in there | {NAMES}:
            raise RunError(f"run '{folder}' has no {name}; train the run again")
    try:
        same = {name for name in there if digest(folder / name) == files.get(name)}
        for name in sorted(there - same - {NAMES}, key=GRAPH_FILES.index):
            kind = "facts" if name in _OF_FACTS else "labels"
            changed = f"the {kind} in '{folder}' are not those the run was made with ({name} was changed)"
            raise RunError(f"{changed}; train the run again")
        return _read(folder, tables, there, same)
    except (OSError, ValueError) as error:
        raise RunError(f"the graph in '{folder}' cannot be read ({error}); train the run again") from None


def _read(folder: Path, tables: Mapping[str, Table], there: set[str], same: set[str]) -> Graph:
    described = tables["graph"]
    names: dict[str, list[str]] = {}
    for number, line in lines(folder / NAMES) if NAMES in there else ():  # which may have been written elsewhere
        label, _, readable = map(_unescaped, line.partition("\t"))
        if readable:
            names.setdefault(label, []).append(readable)
        elif line:
            raise DataError("has no name; expected a label, a tab and its name", folder / NAMES, number)
    facts, keys, offsets, tails = (_array(folder / name) for name in _OF_FACTS)
    forms = {}
    if {WORDS, FOLDED} <= there and (NAMES in same or NAMES not in {*there, *tables["files"]}):
        forms = {"words": _array(folder / WORDS), "folded": _array(folder / FOLDED)}
    if {TRIE, TRIE_IDS} <= there and find_spec("marisa_trie"):
        labels: Iterable[str] = LabelTrie.open(folder / TRIE, _array(folder / TRIE_IDS))
    else:
        labels = _read_labels(folder / ENTITIES)
    entities = Vocabulary(labels, "entity", names, forms)
    directed = _read_labels(folder / RELATIONS)
    relations = Vocabulary(directed, "relation", names_both_ways(names, directed))
    ends = np.cumsum([described[split] for split in SPLITS])
    if ends[-1] != len(facts) or (len(entities), len(relations)) != (described["entities"], described["relations"]):
        raise ValueError("its sizes are not those of its settings")
    _check_arrays(facts, keys, offsets, tails, len(entities), len(relations))
    prefixes = Prefixes({prefix: str(iri) for prefix, iri in tables.get("prefixes", {}).items()})
    train, valid, test = np.split(facts, ends[:-1])
    name = str(described.get("name", "graph"))
    graph = Graph(entities, relations, train, valid, test, name, prefixes=prefixes)
    return graph.indexed(FactIndex.of_arrays(keys, offsets, tails, graph.num_relations))


def _array(path: Path) -> NDArray[Any]:
    """An array of a file, of the type and the dimensions that it was written with."""
    array, (kind, shape) = mapped_array(path), _KINDS[path.name]
    sized = array.ndim == len(shape) and all(m in (n, -1) for n, m in zip(array.shape, shape, strict=True))
    if array.dtype != kind or not sized:
        raise ValueError(f"{path.name} holds {array.dtype} {array.shape}")
    return array


def _check_arrays(
    facts: NDArray[Any], keys: NDArray[Any], offsets: NDArray[Any], tails: NDArray[Any], entities: int, relations: int
) -> None:
    """Raise a `ValueError` where ids have no labels or an index points nowhere; arrays of over 16 MB are believed."""
    if len(offsets) != len(keys) + 1 or offsets[0] != 0 or offsets[-1] != len(tails):
        raise ValueError(f"{OFFSETS} does not fit {KEYS} and {TAILS}")
    for name, array, limit in (
        (FACTS, facts, (entities, relations, entities)),
        (KEYS, keys, entities * relations),
        (TAILS, tails, entities),
    ):
        if array.nbytes <= _READ_WHOLE and ((array < 0) | (array >= np.array(limit))).any():
            raise ValueError(f"{name} has ids without labels")
    for name, array, least in ((KEYS, keys, 1), (OFFSETS, offsets, 0)):
        if array.nbytes <= _READ_WHOLE and (np.diff(array) < least).any():
            raise ValueError(f"{name} is not in order")


def _write_text(path: Path, text: str) -> None:
    try:
        write_text(path, text)
    except UnicodeEncodeError as error:
        line = text[text.rfind("\n", 0, error.start) + 1 :].partition("\n")[0]
        raise DataError(f"label {line[:80]!r} cannot be stored: it has half of a surrogate pair") from None


def _read_labels(path: Path) -> list[str]:
    return [*map(_unescaped, path.read_bytes().decode("utf-8").split("\n")[:-1])]


def _label_lines(labels: Iterable[str]) -> str:
    return "".join(_escaped(label) + "\n" for label in labels)


def _escaped(label: str) -> str:
    return label.replace("\\", "\\\\").replace("\n", "\\n").replace("\r", "\\r").replace("\t", "\\t")


def _unescaped(line: str) -> str:
    if "\\" not in line:
        return line
    pieces = line.split("\\\\")
    return "\\".join(piece.replace("\\n", "\n").replace("\\r", "\r").replace("\\t", "\t") for piece in pieces)
