"""Statistics of attributes: how many values there are, their spread, and how many are missing."""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np

from tacit.graph.attributes import Attribute
from tacit.graph.fact_index import Floats, Ids
from tacit.graph.graph import SPLITS, Graph
from tacit.graph.quantities import PRECISIONS, Quantity

BINS = 12
_WIDE = 1000  # how many times the median the highest number is, from which bins grow with it
_HOLDERS = 0.9  # share of an attribute's entities that a relation must have to stand for them
_BARS = " ▁▂▃▄▅▆▇█"


@dataclass(frozen=True)
class AttributeStatistics:
    """The values of an attribute: their number, range and spread, and the share that is missing."""

    name: str
    kind: str
    unit: str
    values: dict[str, int] = field(hash=False)  # by split
    entities: int  # with a value
    missing: float  # share without a value, of the entities that have the relation `among`
    # the rarest relation that nine in ten of the entities with a value have; empty for all entities
    among: str
    lowest: str
    median: str
    highest: str
    histogram: tuple[int, ...]  # values in bins of equal width
    edges: tuple[float, ...]  # of the bins, dates in days from 1970 and durations in seconds
    is_log: bool  # whether the bins are as wide by the logarithm

    @property
    def bars(self) -> str:
        """The histogram as a line of bars; a bin with a value has a bar."""
        most = max(self.histogram, default=0)
        heights = (-(-count * (len(_BARS) - 1) // most) if most else 0 for count in self.histogram)
        return "".join(_BARS[height] for height in heights)


def attribute_statistics(graph: Graph) -> tuple[AttributeStatistics, ...]:
    """The statistics of all attributes, in their order."""
    return tuple(statistics_of(graph, id_) for id_ in range(len(graph.attributes.listed)))


def statistics_of(graph: Graph, attribute: int) -> AttributeStatistics:
    """The statistics of one attribute, by its id."""
    listed = graph.attributes.listed[attribute]
    rows = graph.attributes.rows[graph.attributes.rows["attribute"] == attribute]
    holders = np.unique(rows["entity"])
    missing, among = _missing(graph, holders)
    order = np.argsort(rows["value"], kind="stable")
    middle = (len(order) - 1) // 2  # a value there is, so that the median of dates is one
    lowest, median, highest = (
        _text(rows[order[at]], listed) if len(order) else "" for at in (0, middle, -1)
    )
    counts, edges, is_log = _histogram(rows["value"])
    sizes = np.bincount(rows["split"], minlength=len(SPLITS)).tolist()
    return AttributeStatistics(
        listed.name,
        listed.kind,
        listed.unit,
        dict(zip(SPLITS, sizes, strict=True)),
        len(holders),
        missing,
        among,
        lowest,
        median,
        highest,
        tuple(counts),
        tuple(edges),
        is_log,
    )


def _text(row: np.void, attribute: Attribute) -> str:
    precision = PRECISIONS[row["precision"]]
    return str(Quantity(float(row["value"]), attribute.kind, precision))


def _histogram(values: Floats) -> tuple[list[int], list[float], bool]:
    """The numbers of values in bins, the edges of these, and whether they are logarithmic."""
    if not len(values):
        return [], [], False
    low, high = float(values.min()), float(values.max())
    if low == high:
        return [len(values)], [low, high], False
    middle = float(np.partition(values, len(values) // 2)[len(values) // 2])
    is_log = low >= 0 and high > _WIDE * middle
    least = float(values[values > 0].min()) if is_log else low  # zeros are in its bin
    scale = 0.25 if max(-low, high) > 1 else 1.0  # so that the width is finite
    edges = np.linspace(low * scale, high * scale, BINS + 1) / scale
    if is_log:
        edges = np.geomspace(least, high, BINS + 1)
    edges[0], edges[-1] = low, high  # not a rounding away from them
    counts = np.histogram(values, edges)[0]
    return counts.tolist(), edges.tolist(), is_log


def _missing(graph: Graph, holders: Ids) -> tuple[float, str]:
    """The share of similar entities without a value, and the relation that makes them similar."""
    index = graph.index()
    is_holder = np.zeros(graph.num_entities, dtype=bool)
    is_holder[holders] = True
    sizes = np.bincount(index.relations, minlength=graph.num_relations)
    with_value = np.bincount(
        index.relations, weights=is_holder[index.heads], minlength=graph.num_relations
    )
    common = np.flatnonzero((with_value >= _HOLDERS * len(holders)) & (with_value > 0))
    if not len(common):
        return 1 - len(holders) / max(graph.num_entities, 1), ""
    rarest = int(common[np.argmin(sizes[common])])
    return 1 - float(with_value[rarest] / sizes[rarest]), graph.relations[rarest]
