"""BetaE folders: integer triples in both directions, and pickled maps from ids to labels."""

from __future__ import annotations

import pickle
import re
from itertools import islice
from pathlib import Path

import numpy as np

from tacit.errors import DataError
from tacit.graph.builder import as_forward, assemble, fact_keys
from tacit.graph.fact_index import Flags, Ints
from tacit.graph.formats.delimited import table_fields
from tacit.graph.formats.fact_files import write_naming
from tacit.graph.formats.files import atomic_folder, lines
from tacit.graph.formats.label_tables import NAMING
from tacit.graph.formats.pickles import load_pickle
from tacit.graph.graph import SPLITS, Graph, Triples, without_attributes
from tacit.graph.labels.vocabulary import Vocabulary


def is_betae(folder: Path) -> bool:
    """Whether a folder has BetaE's id maps."""
    return any((folder / name).exists() for name in ("id2ent.pkl", "id2rel.pkl"))


def read_betae(folder: Path, name: str) -> Graph:
    """Reads the graph of a BetaE folder, with its ids and labels unchanged."""
    entities = read_vocabulary(folder / "id2ent.pkl", "entity")
    relations = read_vocabulary(folder / "id2rel.pkl", "relation")
    if len(relations) % 2:
        problem = (
            f"has {len(relations)} relations; expected an even number, "
            "each 2i followed by its inverse 2i + 1"
        )
        raise DataError(problem, folder / "id2rel.pkl")
    _check_counts(folder / "stats.txt", len(entities), len(relations))
    splits = [_forward(folder / f"{split}.txt", len(entities), len(relations)) for split in SPLITS]
    return assemble(entities, relations, splits, name)


def read_vocabulary(path: Path, kind: str) -> Vocabulary:
    """Reads the labels of a BetaE pickle, a map from ids."""
    labels = load_pickle(path)
    if not isinstance(labels, dict) or not labels:
        raise DataError(f"expected a dict from {kind} ids to labels", path)
    for i in range(len(labels)):
        if not isinstance(labels.get(i), str):
            raise DataError(
                f"has no label for {kind} {i}; expected the ids 0 to {len(labels) - 1}", path
            )
    try:
        "".join(labels.values()).encode()
        return Vocabulary((labels[i] for i in range(len(labels))), kind=kind)
    except UnicodeEncodeError as error:
        raise DataError(f"has a label that is not Unicode text ({error.reason})", path) from None
    except ValueError as error:
        raise DataError(f"{error}; labels must differ", path) from None


def _check_counts(path: Path, num_entities: int, num_relations: int) -> None:
    """Compares `stats.txt`, if present, with the id maps."""
    if not path.exists():
        return
    expected = {"numentity": num_entities, "numrelations": num_relations}
    for number, text in lines(path):
        match = re.match(r"\s*(numentity|numrelations)\s*:\s*(\d+)\s*$", text)
        # compared as text, since it may have any number of digits
        if match and match[2].lstrip("0") != str(expected[match[1]]):
            raise DataError(
                f"says {match[1]} {match[2]:.20}, but the id map has {expected[match[1]]}",
                path,
                number,
            )


def _forward(path: Path, num_entities: int, num_relations: int) -> Triples:
    """Reads the forward facts of a file of triples in which each has its inverse."""
    chunks = [_ids(fields) for fields in table_fields(path)]
    # only train must have facts: the other splits are empty if all facts are observed
    if not chunks and path.stem == "train":
        raise DataError("holds no facts; expected lines of head, relation and tail ids", path)
    triples = np.concatenate([np.empty((0, 3), dtype=np.int64), *chunks])
    limits = (num_entities, num_relations, num_entities)
    _refuse(
        np.any((triples < 0) | (triples >= limits), axis=1),
        path,
        f"expected ids of {num_entities} entities and {num_relations} relations, counted from 0",
    )
    odd = triples[:, 1] % 2 == 1
    facts = as_forward(triples.astype(np.int32))
    (keys,) = fact_keys([facts], num_entities, num_relations)
    _refuse(
        ~np.isin(keys, np.intersect1d(keys[odd], keys[~odd])),
        path,
        "this triple's inverse (tail, relation ± 1, head) is not in the file; both directions must "
        "be",
    )
    forward: Triples = facts[~odd]
    return forward


def _ids(fields: list[str]) -> Ints:
    """Parses rows of ids, with -1 for a word that is no id."""
    try:
        numbers = np.array(list(map(int, fields)), dtype=np.int64)
    except (ValueError, OverflowError):
        numbers = np.array(
            [int(f) if re.fullmatch(r"\d{1,10}", f) else -1 for f in fields], dtype=np.int64
        )
    return numbers.reshape(-1, 3)


def _refuse(wrong: Flags, path: Path, problem: str) -> None:
    """Raises a `DataError` with the line of the first wrong row, reading the file again."""
    if wrong.any():
        rows = ((number, text) for number, text in lines(path) if text.strip(" \t"))
        number, text = next(islice(rows, int(wrong.argmax()), None))
        raise DataError(f"{problem} (got {' '.join(text.split())[:80]!r})", path, number)


def write_betae(graph: Graph, folder: str | Path) -> None:
    """Writes a BetaE folder: triples with their inverses, id maps, `stats.txt`, names.

    It has no values of attributes.
    """
    with atomic_folder(Path(folder), NAMING) as draft:
        write_naming(without_attributes(graph), draft)
        for split in SPLITS:
            rows = graph.triples(split).tolist()
            (draft / f"{split}.txt").write_text("".join([f"{h}\t{r}\t{t}\n" for h, r, t in rows]))
        for short, vocabulary in (("ent", graph.entities), ("rel", graph.relations)):
            labels = dict(enumerate(vocabulary))
            (draft / f"id2{short}.pkl").write_bytes(pickle.dumps(labels, protocol=4))
            (draft / f"{short}2id.pkl").write_bytes(
                pickle.dumps({v: k for k, v in labels.items()}, protocol=4)
            )
        stats = f"numentity: {graph.num_entities}\nnumrelations: {graph.num_relations}\n"
        (draft / "stats.txt").write_text(stats)
