"""Queries of one shape with their easy and hard answers, and their BetaE files."""

from __future__ import annotations

import pickle
import zlib
from collections import defaultdict
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tacit.disk import exists
from tacit.errors import DataError
from tacit.graph.fact_index import Ids, Ints
from tacit.graph.formats.files import atomic_folder
from tacit.graph.formats.pickles import load_pickle
from tacit.graph.graph import SPLITS, Graph, LabelStamp
from tacit.query.plans.plan import Plan
from tacit.query.plans.sets import AnswerSets
from tacit.query.plans.symbolic import answers
from tacit.query.sampling.shapes import (
    Encoding,
    Shape,
    from_tuples,
    parse_shapes,
    shape_of,
    to_tuples,
)

# the splits that easy answers follow from, and those that all answers follow from
GRAPHS: dict[str, tuple[tuple[str, ...], tuple[str, ...]]] = {
    split: (SPLITS[:i], SPLITS[: i + 1]) for i, split in enumerate(SPLITS)
}


@dataclass(frozen=True, eq=False)
class QuerySet:
    """Queries of one shape: the ids in their slots, and their answers.

    *Easy* answers hold on the smaller graph, *hard* ones only on the larger: for test queries,
    without and with the test facts; for train queries the smaller graph is empty, so that all their
    answers are hard.
    """

    shape: Shape
    entities: Ids  # [Q, E]
    relations: Ids  # [Q, R], directed
    easy: AnswerSets
    hard: AnswerSets
    encoding: Encoding = "dnf"
    stamp: LabelStamp | None = None  # of the labels of the ids, if known

    @property
    def name(self) -> str:
        """The name of the shape, with the encoding where it is De Morgan's."""
        return self.shape.name if self.encoding == "dnf" else f"{self.shape.name}-DM"

    def __len__(self) -> int:
        return len(self.entities)

    def __getitem__(self, queries: slice) -> QuerySet:
        return self.subset(np.arange(len(self))[queries])

    def __repr__(self) -> str:
        return f"QuerySet({len(self):,} {self.name} queries, {len(self.hard.ids):,} hard answers)"

    def subset(self, queries: Ints) -> QuerySet:
        """Some of the queries, in the given order."""
        return replace(
            self,
            entities=self.entities[queries],
            relations=self.relations[queries],
            easy=self.easy.subset(queries),
            hard=self.hard.subset(queries),
        )

    def share(self, fraction: float, seed: int = 0) -> QuerySet:
        """A random share of the queries, at least one if there are any."""
        size = min(len(self), max(1, round(fraction * len(self))))
        return self.subset(
            np.sort(np.random.default_rng(seed).choice(len(self), size, replace=False))
        )

    def tuples(self) -> list[Any]:
        """The queries as BetaE's nested tuples."""
        return to_tuples(self.shape.encoded(self.encoding), self.entities, self.relations)


QuerySets = Mapping[str, QuerySet]  # by shape


def with_answers(queries: QuerySet, graph: Graph, split: str) -> QuerySet:
    """Adds the easy and hard answers that queries have in a split."""
    easy, hard = easy_and_hard(
        queries.shape.plan, queries.entities, queries.relations, graph, split
    )
    return replace(queries, easy=easy, hard=hard)


def easy_and_hard(
    plan: Plan, entities: Ids, relations: Ids, graph: Graph, split: str
) -> tuple[AnswerSets, AnswerSets]:
    """The answers on the smaller graph of a split, and those only on the larger one.

    With negation an answer on the smaller graph may be none on the larger; it stays easy, as in
    BetaE's files.
    """
    smaller, larger = GRAPHS[split]
    size = graph.num_entities
    values = graph.values(*larger)
    both = answers(plan, entities, relations, graph.index(*larger), size, values)
    if not smaller:
        return AnswerSets.none(len(both)), both
    values = graph.values(*smaller)
    easy = answers(plan, entities, relations, graph.index(*smaller), size, values)
    return easy, both.minus(easy)


def checksum(sets: Mapping[str, QuerySet]) -> str:
    """A checksum of query sets, as eight hexadecimal digits."""
    crc = 0
    for name, queries in sorted(sets.items()):
        arrays: list[NDArray[Any]] = [queries.entities, queries.relations]
        arrays += [queries.easy.offsets, queries.easy.ids, queries.hard.offsets, queries.hard.ids]
        crc = zlib.crc32(name.encode(), crc)
        for ids in arrays:
            crc = zlib.crc32(np.ascontiguousarray(ids, dtype=np.int64).tobytes(), crc)
    return f"{crc:08x}"


def read_queries(
    folder: str | Path,
    split: str,
    shapes: str | Iterable[str] | None = None,
    *,
    absent_ok: bool = False,
) -> dict[str, QuerySet]:
    """Reads the queries of a BetaE folder by shape (default: all), sorted by their ids.

    A shape that the folder does not have is an error, unless `absent_ok`.

    Unions in De Morgan's form are sets of their own, `2u-DM` and `up-DM`. Train queries without a
    file of answers have none here; `with_answers` finds them.
    """
    folder = Path(folder)
    path = folder / f"{split}-queries.pkl"
    if split not in SPLITS or not has_queries(folder, split):
        raise without_queries(folder, split)
    by_name: dict[str, tuple[Shape, Encoding, Any]] = {}
    for structure, queries in _table(path, "structures and their queries").items():
        try:
            shape, encoding = shape_of(structure)
            name = shape.name if encoding == "dnf" else f"{shape.name}-DM"
            by_name[name] = shape, encoding, queries
        except (DataError, TypeError, RecursionError) as error:
            raise DataError(f"cannot be read as queries: {error}", path) from None
    requested = (
        parse_shapes(shapes)
        if isinstance(shapes, str)
        else tuple(by_name if shapes is None else shapes)
    )
    absent = [name for name in requested if name not in by_name]
    if absent and not absent_ok:
        raise DataError(
            f"holds no {', '.join(absent)} queries; it holds {', '.join(by_name) or 'none'}", path
        )
    easy, hard = _answer_files(folder, split)
    available = (name for name in requested if name in by_name and by_name[name][2])
    return {name: _query_set(*by_name[name], easy, hard, path) for name in available}


def _query_set(
    shape: Shape,
    encoding: Encoding,
    queries: Any,
    easy: Mapping[Any, Any],
    hard: Mapping[Any, Any] | None,
    path: Path,
) -> QuerySet:
    try:
        queries = list(queries)
        entities, relations = from_tuples(queries, shape.encoded(encoding))
        order = np.lexsort((*relations.T[::-1], *entities.T[::-1]))
        queries = [queries[i] for i in order]
        easy_answers, hard_answers = (
            AnswerSets.of([table.get(query, ()) for query in queries])
            for table in (easy, hard or {})
        )
    except (DataError, TypeError, RecursionError) as error:
        raise DataError(f"{shape.name} cannot be read: {error}", path) from None
    if hard is not None and (missing := sum(query not in hard for query in queries)):
        raise DataError(
            f"{shape.name} has {missing:,} of {len(queries):,} queries that the file of answers "
            "beside it does not have; take both from one place",
            path,
        )
    return QuerySet(shape, entities[order], relations[order], easy_answers, hard_answers, encoding)


def _answer_files(folder: Path, split: str) -> tuple[Mapping[Any, Any], Mapping[Any, Any] | None]:
    """The tables of easy and hard answers; train queries have one table or none."""
    if split == "train":
        path = folder / "train-answers.pkl"
        return {}, _table(path) if path.is_file() else None
    return _table(folder / f"{split}-easy-answers.pkl"), _table(
        folder / f"{split}-hard-answers.pkl"
    )


def _table(path: Path, what: str = "queries and their answers") -> Mapping[Any, Any]:
    """Reads the dict of a pickle, whose lists together may not exceed the file's size."""
    table = load_pickle(path)
    if not isinstance(table, dict):
        raise DataError(f"does not hold a dict of {what}", path)
    try:
        length = sum(map(len, table.values()))
    except TypeError:
        raise DataError(
            "cannot be read: it has something other than lists or sets under its keys", path
        ) from None
    if length > path.stat().st_size:
        raise DataError(f"has {length:,} entries in a file of {path.stat().st_size:,} bytes", path)
    return table


def has_queries(folder: str | Path, split: str) -> bool:
    """Whether a folder has queries of a split."""
    return (Path(folder) / f"{split}-queries.pkl").is_file()


def without_queries(folder: str | Path, split: str) -> DataError:
    """The error for a folder without queries of a split."""
    if not Path(folder).is_dir():
        reason = "is a file" if exists(folder) else "there is no such folder"
        return DataError(
            f"{reason}; a folder of queries is needed, which has {split}-queries.pkl", folder
        )
    names = [f"{split}-queries.pkl" for split in SPLITS if has_queries(folder, split)]
    present = (
        f"{' and '.join(names)} here"
        if names
        else "train-, valid- or test-queries.pkl, and this one has none"
    )
    return DataError(f"no {split}-queries.pkl; a folder of queries has {present}", folder)


def write_queries(
    folder: str | Path, split: str, sets: Mapping[str, QuerySet] | Iterable[QuerySet]
) -> None:
    """Writes the queries of one split as BetaE's pickles, replacing all files or none."""
    queries: dict[Any, set[Any]] = defaultdict(set)
    easy: dict[Any, set[int]] = defaultdict(set)
    hard: dict[Any, set[int]] = defaultdict(set)
    for query_set in sets.values() if isinstance(sets, Mapping) else sets:
        tuples = query_set.tuples()
        queries[query_set.shape.encoded(query_set.encoding)].update(tuples)
        easy.update(zip(tuples, query_set.easy.to_sets(), strict=True))
        hard.update(zip(tuples, query_set.hard.to_sets(), strict=True))
    tables: dict[str, Any] = {"queries": queries}
    tables |= (
        {"answers": hard} if split == "train" else {"easy-answers": easy, "hard-answers": hard}
    )
    with atomic_folder(Path(folder)) as draft:
        for name, table in tables.items():
            # Protocol 4 is the newest that Python 3.7, which BetaE's own code asks for, can read.
            (draft / f"{split}-{name}.pkl").write_bytes(pickle.dumps(table, protocol=4))
