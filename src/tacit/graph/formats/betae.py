"""BetaE folders: integer triples in both directions, and pickled maps from ids to labels."""

from __future__ import annotations

import pickle
import re
from collections.abc import Callable
from pathlib import Path

import numpy as np

from tacit.errors import DataError
from tacit.graph.builder import assemble, packed
from tacit.graph.formats.delimited import table_fields
from tacit.graph.formats.files import atomic_folder, lines
from tacit.graph.formats.pickles import load_pickle
from tacit.graph.graph import SPLITS, Graph, Triples
from tacit.graph.labels.naming import NAMING, write_naming
from tacit.graph.labels.vocabulary import Vocabulary


def is_betae(folder: Path) -> bool:
    """Whether a folder has BetaE's id maps."""
    return any((folder / name).exists() for name in ("id2ent.pkl", "id2rel.pkl"))


def read_betae(folder: Path, name: str) -> Graph:
    """The graph of a BetaE folder; ids and labels, those of the inverses too, stay as they are."""
    entities = read_vocabulary(folder / "id2ent.pkl", "entity")
    relations = read_vocabulary(folder / "id2rel.pkl", "relation")
    if len(relations) % 2:
        raise DataError(
            f"has {len(relations)} relations; expected an even number, each 2i followed by its inverse 2i + 1",
            folder / "id2rel.pkl",
        )
    _check_counts(folder / "stats.txt", len(entities), len(relations))
    splits = [_forward(folder / f"{split}.txt", len(entities), len(relations)) for split in SPLITS]
    return assemble(entities, relations, splits, name)


def read_vocabulary(path: Path, kind: str) -> Vocabulary:
    """The labels of a map from ids, a pickle of BetaE."""
    labels = load_pickle(path)
    if not isinstance(labels, dict) or not labels:
        raise DataError(f"expected a dict from {kind} ids to labels", path)
    for i in range(len(labels)):
        if not isinstance(labels.get(i), str):
            raise DataError(f"has no label for {kind} {i}; expected the ids 0 to {len(labels) - 1}", path)
    try:
        "".join(labels.values()).encode()
        return Vocabulary((labels[i] for i in range(len(labels))), kind=kind)
    except UnicodeEncodeError as error:
        raise DataError(f"has a label that is not Unicode text ({error.reason})", path) from None
    except ValueError as error:
        raise DataError(f"{error}; labels must differ", path) from None


def _check_counts(path: Path, num_entities: int, num_relations: int) -> None:
    """Compares `stats.txt`, which may be missing, with the id maps."""
    if not path.exists():
        return
    expected = {"numentity": num_entities, "numrelations": num_relations}
    for number, text in lines(path):
        said = re.match(r"\s*(numentity|numrelations)\s*:\s*(\d+)\s*$", text)
        if said and said[2].lstrip("0") != str(expected[said[1]]):  # as text: it may have any number of digits
            raise DataError(f"says {said[1]} {said[2]:.20}, but the id map has {expected[said[1]]}", path, number)


def _forward(path: Path, num_entities: int, num_relations: int) -> Triples:
    """The forward facts of a file of triples in which each has its inverse."""
    try:
        chunks = [np.array(list(map(int, fields)), dtype=np.int64).reshape(-1, 3) for fields in table_fields(path)]
    except (ValueError, OverflowError):
        raise _fault(path, _not_integers, "expected three integers: head, relation and tail ids") from None
    if not chunks and path.stem == "train":  # the other splits may be empty: all facts are known ones
        raise DataError("holds no facts; expected lines of head, relation and tail ids", path)
    triples = np.concatenate([np.empty((0, 3), dtype=np.int64), *chunks])
    limits = np.array([num_entities, num_relations, num_entities])
    if ((triples < 0) | (triples >= limits)).any():
        what = f"id out of range; there are {num_entities} entities and {num_relations} relations, counted from 0"
        raise _fault(path, lambda row: any(not 0 <= int(i) < n for i, n in zip(row, limits, strict=True)), what)
    forward: Triples = triples[triples[:, 1] % 2 == 0].astype(np.int32)
    backward = triples[triples[:, 1] % 2 == 1].astype(np.int32)[:, [2, 1, 0]]
    backward[:, 1] ^= 1
    keys, inverses = packed((forward, backward), num_entities, num_relations)
    if len(np.setxor1d(keys, inverses)):
        both = set(map(tuple, forward[np.isin(keys, inverses)].tolist()))
        raise _fault(
            path,
            lambda row: _as_forward(row) not in both,
            "this triple's inverse (tail, relation ± 1, head) is not in the file; "
            "BetaE folders hold both directions, 2i and 2i + 1",
        )
    return forward


def _as_forward(row: list[str]) -> tuple[int, int, int]:
    head, relation, tail = map(int, row)
    return (tail, relation - 1, head) if relation % 2 else (head, relation, tail)


def _not_integers(row: list[str]) -> bool:
    try:
        return any(abs(int(field)) >= 2**31 for field in row)
    except ValueError:
        return True


def _fault(path: Path, wrong: Callable[[list[str]], bool], what: str) -> DataError:
    """The error for the first line that is wrong: a second, slow pass is fine where something is the matter."""
    for number, text in lines(path):
        if text.strip() and wrong(text.split("\t")):
            return DataError(f"{what} (got {' '.join(text.split())[:80]!r})", path, number)
    return DataError(what, path)


def write_betae(graph: Graph, folder: str | Path) -> None:
    """Writes a BetaE folder: each fact followed by its inverse, the id maps and their reverses, `stats.txt`, and
    what labels stand for.
    """
    with atomic_folder(Path(folder), NAMING) as draft:
        write_naming(graph, draft)
        for split in SPLITS:
            rows = graph.triples(split).tolist()
            (draft / f"{split}.txt").write_text("".join([f"{h}\t{r}\t{t}\n" for h, r, t in rows]))
        for short, vocabulary in (("ent", graph.entities), ("rel", graph.relations)):
            labels = dict(enumerate(vocabulary))
            (draft / f"id2{short}.pkl").write_bytes(pickle.dumps(labels, protocol=4))
            (draft / f"{short}2id.pkl").write_bytes(pickle.dumps({v: k for k, v in labels.items()}, protocol=4))
        stats = f"numentity: {graph.num_entities}\nnumrelations: {graph.num_relations}\n"
        (draft / "stats.txt").write_text(stats)
