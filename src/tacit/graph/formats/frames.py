"""DataFrames of any library in and out: pandas as it is, all others through narwhals and Arrow."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import TYPE_CHECKING, Any, Literal, get_args

import numpy as np

from tacit.errors import DataError, SettingsError
from tacit.graph.formats.writing import INTEGER, NUMBER, TEXT, TRUTH, Cells
from tacit.graph.graph import SPLITS

if TYPE_CHECKING:
    import pyarrow as pa

    from tacit.graph.graph import Graph

Library = Literal["pandas", "polars", "pyarrow"]
LIBRARIES: tuple[Library, ...] = get_args(Library)
_INSTALL = "install it with: pip install 'tacit-kg[frames]'"
# what the DataFrames of some library have beside columns
_MARKS = ("iloc", "__arrow_c_stream__", "collect")


def is_frame(source: object) -> bool:
    """Whether an object is a DataFrame or relation, checked without importing its library."""
    kind = type(source)
    return hasattr(kind, "columns") and any(hasattr(kind, mark) for mark in _MARKS)


def frame_columns(frame: Any) -> tuple[list[str], int, Callable[[int], list[Any]]]:
    """The names of a frame's columns, the number of its rows, and a column by its position."""
    if hasattr(frame, "iloc"):
        header = [str(column) for column in frame.columns]
        return header, len(frame), lambda at: frame.iloc[:, at].tolist()
    table = _arrow_table(frame)
    return table.column_names, table.num_rows, lambda at: _values(table.column(at))


def _arrow_table(frame: Any) -> pa.Table:
    """The Arrow table of a frame, which shares its memory where it is Arrow's already."""
    kind = f"{type(frame).__module__.split('.')[0]} {type(frame).__name__}"
    try:
        import narwhals as nw
        import pyarrow  # noqa: F401 - which narwhals converts to
    except ImportError:
        raise DataError(f"to read a {kind} takes the extra frames; {_INSTALL}") from None
    try:
        wrapped = nw.from_native(frame)
        eager = wrapped.collect("pyarrow") if isinstance(wrapped, nw.LazyFrame) else wrapped
        return eager.to_arrow()
    except Exception as error:  # it may be any of the library's
        reason = " ".join(str(error).split())[:200] or type(error).__name__
        raise DataError(f"a {kind} cannot be read ({reason})") from None


def _values(column: pa.ChunkedArray) -> list[Any]:
    """The values of a column; a text that occurs often is made once."""
    import pyarrow as pa

    if not (pa.types.is_string(column.type) or pa.types.is_large_string(column.type)):
        values: list[Any] = column.to_pylist()
        return values
    coded = column.combine_chunks().dictionary_encode(null_encoding="encode")
    texts = np.array(coded.dictionary.to_pylist(), dtype=object)
    distinct: list[Any] = texts[coded.indices.to_numpy()].tolist()
    return distinct


def make_frame(
    columns: Mapping[str, str], rows: Iterable[Cells], library: Library = "pandas"
) -> Any:
    """Rows as a frame of a library; `columns` have types of `tacit.graph.formats.writing`."""
    values = list(map(list, zip(*rows, strict=True))) or [[] for _ in columns]
    return _of_columns(columns, dict(zip(columns, values, strict=True)), library)


def frame_of_graph(graph: Graph, library: Library, *splits: str) -> Any:
    """The facts and values of some splits (default: all): head, relation, tail and split.

    An attribute is named with its kind or unit, so that it is read as one.
    """
    entities, relations = (np.array([*each], object) for each in (graph.entities, graph.relations))
    columns: dict[str, list[Any]] = {name: [] for name in ("head", "relation", "tail", "split")}
    for split in splits or SPLITS:
        facts = graph.split(split)
        columns["head"] += entities[facts[:, 0]].tolist()
        columns["relation"] += relations[facts[:, 1]].tolist()
        columns["tail"] += entities[facts[:, 2]].tolist()
        for number, attribute in enumerate(graph.attributes.listed):
            for entity, text in graph.attributes.texts(number, split):
                columns["head"].append(graph.entities[entity])
                columns["relation"].append(str(attribute))
                columns["tail"].append(text)
        columns["split"] += [split] * (len(columns["head"]) - len(columns["split"]))
    return _of_columns(dict.fromkeys(columns, TEXT), columns, library)


def _of_columns(types: Mapping[str, str], values: Mapping[str, list[Any]], library: Library) -> Any:
    """Columns as a frame of a library."""
    if library not in LIBRARIES:
        known = ", ".join(LIBRARIES)
        raise SettingsError(f"library is '{library}'; it must be one of {known}", "library")
    try:
        import narwhals as nw

        kinds: dict[str, Any] = {
            TEXT: nw.String,
            NUMBER: nw.Float64,
            INTEGER: nw.Int64,
            TRUTH: nw.Boolean,
        }
        schema = {name: kinds[kind] for name, kind in types.items()}
        return nw.from_dict(values, schema, backend=library).to_native()
    except ImportError:
        raise SettingsError(
            f"a frame of {library} takes it and the extra frames; {_INSTALL} {library}"
        ) from None
