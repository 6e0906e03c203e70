"""Facts in a pandas DataFrame."""

from __future__ import annotations

from collections.abc import Iterable
from itertools import chain
from numbers import Integral, Real
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeGuard

from tacit.errors import DataError
from tacit.graph.builder import Builder
from tacit.graph.formats.columns import USUAL, review, told_order
from tacit.graph.formats.delimited import COLUMNS, listed
from tacit.graph.graph import Graph

if TYPE_CHECKING:
    import pandas as pd

_PLACE = Path("DataFrame")  # what messages call it
# pandas makes floats of whole numbers where one is missing
_CURE = ": frame.convert_dtypes() makes these of whole floats, astype(str) makes text of anything"
_EMPTY = ("NoneType", "NAType", "NaTType")


def is_frame(source: object) -> TypeGuard[pd.DataFrame]:
    """Whether something is a DataFrame, told without importing pandas."""
    return hasattr(source, "iloc") and hasattr(source, "columns")


def read_frame(frame: Any, name: str, columns: str | None) -> Graph:
    """The graph of a DataFrame, whose columns are found as those of a table are; all facts are in train."""
    builder, header = Builder(), [str(column) for column in frame.columns]
    order, told = told_order(header, columns, USUAL, _PLACE)
    read = [_labels(frame.iloc[:, at].tolist(), role, header[at]) for role, at in zip(COLUMNS, order, strict=True)]
    builder.add("train", list(chain.from_iterable(zip(*read, strict=True))))
    review(_PLACE, "train", builder, header, order, columns is not None, told, len(read[0]))
    return builder.graph(name)


def _labels(values: Iterable[Any], role: str, column: str) -> list[str]:
    """The labels of a column: text, or whole numbers; anything else is an error that names its row."""
    labels = []
    for row, value in enumerate(values, start=1):
        label = value.strip(" ") if isinstance(value, str) else _whole(value)
        if not label:
            kind = type(value).__name__
            if label == "" or kind in _EMPTY or (isinstance(value, Real) and value != value):
                raise DataError(f"row {row}: the {role} is empty; expected {listed(COLUMNS)}", _PLACE)
            raise DataError(
                f"row {row}: column '{column}' holds {kind}; labels are text or whole numbers{_CURE}", _PLACE
            )
        labels.append(label)
    return labels


def _whole(value: Any) -> str | None:
    return str(value) if not isinstance(value, bool) and isinstance(value, Integral) else None
