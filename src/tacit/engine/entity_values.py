"""Values of entities: one with what speaks for it, and those that a graph is missing."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from tacit.engine.answers.answer_values import AnswerValue, Plain, plain_value
from tacit.engine.engine import Engine
from tacit.engine.questions import check_number
from tacit.errors import DataError, SettingsError
from tacit.fitting.progress import Progress, counting
from tacit.graph.formats.writing import NUMBER, TEXT, check_format, write_table
from tacit.graph.quantities import Quantity
from tacit.links.values.evidence import WalkEvidence, find_evidence
from tacit.links.values.fitted_values import FittedValues
from tacit.links.values.value_files import RunValues
from tacit.query.value_text import has_years, predicted_text, value_text

if TYPE_CHECKING:
    import pandas as pd

_WALKS = 5  # that evidence lists
_EXAMPLES = 3  # entities at the end of each
_FORMATS = (".tsv", ".csv", ".jsonl", ".parquet")


@dataclass(frozen=True)
class ValueReason:
    """Known values that a prediction was made of, and their share in it."""

    attribute: str
    entities: tuple[str, ...]  # a few of those with such a value
    values: tuple[Quantity, ...]  # theirs, one each
    relations: tuple[str, ...]  # that lead there; none for another value of the entity itself
    number: int  # of entities in all
    share: float
    years: bool = False  # whether the values look like years

    def to_dict(self) -> dict[str, Any]:
        """The reason as plain data for JSON."""
        numbers = (value.value if value.kind == "number" else str(value) for value in self.values)
        data = {**vars(self), "values": [*numbers], "text": str(self)}
        del data["years"]
        return data

    def __str__(self) -> str:
        """The values in one line.

        >>> paris = ("Paris",), (Quantity(48.9),)
        >>> str(ValueReason("latitude", *paris, ("has_city",), 1, 0.61))
        'latitude of Paris 48.9, by has_city (61 %)'
        """
        pairs = zip(self.entities, self.values, strict=True)
        listed = ", ".join(f"{entity} {value_text(value, self.years)}" for entity, value in pairs)
        others = self.number - len(self.entities)
        more = f" and {others:,} more" if others else ""
        relations = f", by {', '.join(self.relations)}" if self.relations else ""
        return f"{self.attribute} of {listed}{more}{relations} ({self.share:.0%})".replace(
            "%)", " %)"
        )


@dataclass(frozen=True)
class EntityValue(AnswerValue):
    """The value of an attribute of an entity, with what carried a prediction."""

    entity: str = ""
    evidence: tuple[ValueReason, ...] = field(default=(), hash=False)

    @property
    def value(self) -> Plain:
        """The first known value, or the median of a prediction."""
        return self.plain

    @property
    def unit(self) -> str:
        """The unit of a number."""
        return self.attribute.unit

    @property
    def presence(self) -> float:
        """The probability that the entity has a value at all, 1 where one is known."""
        return 1.0 if self.predicted is None else self.predicted.presence

    def to_dict(self) -> dict[str, Any]:
        """The value as plain data for JSON."""
        reasons = [reason.to_dict() for reason in self.evidence]
        return {"entity": self.entity, **super().to_dict(), "evidence": reasons}


def find_value(engine: Engine, entity: str, attribute: str, level: float) -> EntityValue | None:
    """The value of an entity, known or predicted; None where it is neither.

    The `level` is the share of true values that the interval of a prediction is to hold.
    """
    check_level(level)
    graph = engine.graph
    at, which = graph.entities.id(entity), graph.attributes.names.id(attribute)
    listed = graph.attributes.listed[which]
    label = graph.entities[at]
    known = engine.parts.known_values
    years = has_years(known, listed)
    if quantities := known.attributes.quantities(at, which):
        return EntityValue(listed, tuple(quantities), years=years, entity=label)
    if engine.parts.values is None:
        return None
    predicted = engine.parts.values.predicted(which, at, level)
    if predicted is None:
        return None
    fitted_values(engine)  # an error where there are none
    return with_reasons(engine, at, AnswerValue(listed, (), predicted, years))


def with_reasons(engine: Engine, entity: int, value: AnswerValue) -> EntityValue:
    """A value of an entity, by its id, with what carried a prediction of a run."""
    graph = engine.graph
    reasons: tuple[ValueReason, ...] = ()
    if value.predicted is not None and isinstance(engine.parts.values, RunValues):
        which = graph.attributes.names.id(value.attribute.name)
        fitted = engine.parts.values.fitted
        found = find_evidence(graph, fitted, which, entity, _WALKS, _EXAMPLES)
        reasons = tuple(_reason(engine, entity, each) for each in found)
    own = value.attribute, value.known, value.predicted, value.years
    return EntityValue(*own, graph.entities[entity], reasons)


def check_level(level: float) -> None:
    """Raise a `SettingsError` unless the level of an interval is between 0 and 1."""
    if isinstance(level, bool) or not isinstance(level, int | float) or not 0 < level < 1:
        raise SettingsError(
            f"level is {level!r}; it must be a share between 0 and 1, as 0.8", "level"
        )


def fitted_values(engine: Engine) -> FittedValues:
    """The fitted attributes of a run's engine."""
    if not isinstance(engine.parts.values, RunValues):
        raise SettingsError(
            f"{engine.graph.name} has no values of attributes to predict others from"
        )
    return engine.parts.values.fitted


def _reason(engine: Engine, entity: int, found: WalkEvidence) -> ValueReason:
    graph = engine.graph
    ends = found.ends or (entity,)
    attributes = graph.attributes
    listed = attributes.listed[found.walk.attribute]
    return ValueReason(
        listed.name,
        tuple(graph.entities.name(end) for end in ends),
        tuple(attributes.quantities(end, found.walk.attribute, "train")[0] for end in ends),
        tuple(graph.relations.name(relation) for relation in found.walk.relations),
        found.number,
        found.share,
        has_years(engine.parts.known_values, listed),
    )


class MissingValue(NamedTuple):
    """A value that a graph does not have: the median and the interval of its prediction."""

    entity: str
    attribute: str
    median: Plain
    low: Plain
    high: Plain
    presence: float
    text: str  # with the unit


_COLUMNS = {
    "entity": TEXT,
    "attribute": TEXT,
    "median": TEXT,
    "low": TEXT,
    "high": TEXT,
    "presence": NUMBER,
    "text": TEXT,
}


class ValueCompletion:
    """The values that a graph is missing, the best predicted ones first.

    Those are the ones with the narrowest intervals beside that of the known values of the
    attribute. Entities that less probably have a value than `min_presence` are left out.
    """

    def __init__(
        self,
        engine: Engine,
        attributes: Iterable[str] = (),
        entities: Iterable[str] = (),
        *,
        min_presence: float = 0.5,
        level: float = 0.8,
        top: int | None = None,
        progress: Progress | bool = False,
    ) -> None:
        if not isinstance(min_presence, int | float) or not 0.0 <= min_presence <= 1.0:
            raise SettingsError(
                f"min_presence is {min_presence!r}; it must be a number from 0 to 1", "min_presence"
            )
        check_level(level)
        if top is not None:
            check_number("top", top, 1)
        graph = engine.graph
        names = graph.attributes.names
        self.engine = engine
        self.values = fitted_values(engine)
        chosen = sorted({names.id(name) for name in attributes})
        self.attributes = chosen or list(range(len(graph.attributes.listed)))
        self.entities = np.array(sorted({graph.entities.id(name) for name in entities}), dtype=int)
        self.min_presence = min_presence
        self.level = level
        self.top = top
        self.progress = progress
        self.more = False

    def __iter__(self) -> Iterator[MissingValue]:
        found = list[tuple[float, int, int, tuple[float, ...]]]()
        with counting(self.progress) as counts:
            report = counts("attributes", len(self.attributes))
            for number, attribute in enumerate(self.attributes):
                found += self._missing(attribute)
                report(number + 1)
        found.sort()
        self.more = self.top is not None and len(found) > self.top
        for _, attribute, entity, (low, median, high, presence) in found[: self.top]:
            listed = self.engine.graph.attributes.listed[attribute]
            ends = [plain_value(value, listed) for value in (median, low, high)]
            years = has_years(self.engine.parts.known_values, listed)
            text = predicted_text(median, low, high, listed, years)
            label = self.engine.graph.entities[entity]
            yield MissingValue(label, listed.name, ends[0], ends[1], ends[2], presence, text)

    def _missing(self, attribute: int) -> Iterator[tuple[float, int, int, tuple[float, ...]]]:
        """The missing values of an attribute, with what they are sorted by."""
        distribution = self.values.distribution(attribute)
        if distribution is None:
            return
        index = self.engine.parts.known_values
        name = self.engine.graph.attributes.names[attribute]
        missing = ~index.known(name) & (distribution.presence >= self.min_presence)
        if len(self.entities):
            missing &= np.isin(np.arange(len(missing)), self.entities)
        ids = np.flatnonzero(missing)
        widths = distribution.relative_widths(ids, self.level)
        if self.top is not None:  # one more shows that there are others
            best = np.argsort(widths, kind="stable")[: self.top + 1]
            ids, widths = ids[best], widths[best]
        chances = (1 - self.level) / 2, 0.5, (1 + self.level) / 2
        ends = distribution.quantiles(ids, chances)
        presence = distribution.presence[ids].tolist()
        for at, entity in enumerate(ids.tolist()):
            yield float(widths[at]), attribute, entity, (*ends[at].tolist(), presence[at])

    def write(self, path: str | Path) -> int:
        """Write the values to a table or JSON lines; return their number."""
        path = Path(path)
        check_format(path, _FORMATS, "values")
        if path.is_dir():
            raise DataError("is a folder; give the name of a file", path)
        return write_table(path, _COLUMNS, self)

    def to_pandas(self) -> pd.DataFrame:
        """One row per value."""
        import pandas as pd

        return pd.DataFrame(list(self), columns=list(MissingValue._fields))
