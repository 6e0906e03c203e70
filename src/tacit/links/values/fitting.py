"""Fits the distributions of attributes to the values and facts of the training split."""

from __future__ import annotations

import numpy as np

from tacit.fitting.progress import Progress, counting
from tacit.graph.fact_index import Floats, Ids
from tacit.graph.graph import Graph
from tacit.links.values.boosting import Matrix
from tacit.links.values.distribution import Errors, ValueDistribution, from_scale, to_scale
from tacit.links.values.fitted_values import FittedAttribute, FittedValues
from tacit.links.values.presence import RelationProfiles
from tacit.links.values.value_model import Examples, ValueModel
from tacit.links.values.walks import ValueWalks

LEAST_VALUES = 20  # entities with one, to learn an attribute from
_MOST_EXAMPLES = 20_000
_SKEW = 20.0  # of the largest sizes to the middle one, from which logarithms are tried
_LARGEST = 1e15  # size of a value whose square and rounding single precision bears
_CLEARLY = 0.95  # times the error in logarithms, whose intervals fit skewed values better
_BLOCK = 4096  # entities predicted at a time


def fit_values(graph: Graph, seed: int = 0, progress: Progress | bool = False) -> FittedValues:
    """Learns the attributes of a graph from its training values and facts, each by itself.

    Values of the validation split, where there are some, help to say how far predictions err and
    in which scale to learn; those of the test split are never read.
    """
    columns = training_columns(graph)
    generator = np.random.default_rng(seed)
    profiles = RelationProfiles(graph.index("train"), graph.num_entities, generator)
    fitted = list[FittedAttribute | None]()
    with counting(progress) as counts:
        report = counts("attributes", len(columns))
        for attribute, (entities, _) in enumerate(columns):
            if len(np.unique(entities)) < LEAST_VALUES:
                fitted.append(None)
            else:
                presence = profiles.presence(entities)
                fitted.append(_fit(graph, attribute, presence, seed))
            report(attribute + 1)
    return FittedValues(graph.attributes, tuple(fitted), graph.num_entities)


def is_skewed(values: Floats) -> bool:
    """Whether the largest of some values dwarf the middle one, as populations do."""
    if not len(values):
        return False
    sizes = np.abs(values)
    return bool(np.quantile(sizes, 0.95) > _SKEW * np.median(sizes) > 0)


def _scales(values: Floats) -> tuple[bool, ...]:
    """Whether values may be learned in logarithms, in their own scale or in both, best first."""
    if len(values) and np.abs(values).max() > _LARGEST:
        return (True,)
    return (True, False) if is_skewed(values) else (False,)


def training_columns(
    graph: Graph, target: int | None = None, logarithmic: bool = False
) -> list[tuple[Ids, Floats]]:
    """The training values of every attribute, as features: skewed ones in logarithms.

    The scale of a `target` is given.
    """
    columns = []
    for attribute in range(len(graph.attributes.listed)):
        entities, values = graph.attributes.column(attribute, "train")
        logs = logarithmic if attribute == target else _scales(values)[0]
        columns.append((entities, to_scale(values, logs)))
    return columns


def _fit(graph: Graph, attribute: int, presence: Matrix, seed: int) -> FittedAttribute:
    """What is learned of an attribute: a skewed one in logarithms, unless it errs clearly more."""
    entities, values = graph.attributes.column(attribute, "train")
    best: tuple[float, bool, ValueModel, ValueWalks] | None = None
    errors = {}
    for logarithmic in _scales(values):
        columns = training_columns(graph, attribute, logarithmic)
        walks = ValueWalks(graph.index("train"), graph.num_entities, columns, attribute)
        model = _fit_model(graph, walks, logarithmic, seed)
        ends = (from_scale(each, logarithmic) for each in (model.medians, model.true))
        error = float(np.abs(np.subtract(*ends)).mean())
        errors["log" if logarithmic else "linear"] = error
        if best is None or error < _CLEARLY * best[0]:
            best = error, logarithmic, model, walks
    assert best is not None
    _, logarithmic, model, walks = best
    locations, spreads = _predict_all(walks, model)
    locations[model.known] = model.held_out
    presence[entities] = 1.0
    distribution = ValueDistribution(
        locations,
        spreads,
        presence,
        Errors.of(model.errors),
        logarithmic,
        whole=bool((values == np.round(values)).all()),
        least=0.0 if values.min() >= 0 else -np.inf,
    )
    return FittedAttribute(distribution, model.location.walks, errors)


def _fit_model(graph: Graph, walks: ValueWalks, logarithmic: bool, seed: int) -> ValueModel:
    generator = np.random.default_rng([seed, walks.target, logarithmic])
    known = np.flatnonzero(np.isfinite(walks.own))
    if len(known) > _MOST_EXAMPLES:
        known = np.sort(generator.choice(known, _MOST_EXAMPLES, replace=False))
    examples = Examples(walks, known, walks.rows(known), generator)
    entities, values = graph.attributes.column(walks.target, "valid")
    later, firsts = np.unique(entities, return_index=True)
    fresh = np.isnan(walks.own[later])
    later, firsts = later[fresh][:_MOST_EXAMPLES], firsts[fresh][:_MOST_EXAMPLES]
    return ValueModel.fit(examples, later.astype(np.int64), to_scale(values[firsts], logarithmic))


def _predict_all(walks: ValueWalks, model: ValueModel) -> tuple[Matrix, Matrix]:
    """The location and spread of every entity, `[N]`."""
    locations = np.empty(walks.num_entities, dtype=np.float32)
    spreads = np.empty_like(locations)
    for start in range(0, walks.num_entities, _BLOCK):
        several = np.arange(start, min(start + _BLOCK, walks.num_entities))
        for block in walks.blocks(several):
            locations[block], spreads[block] = model.predict(walks.rows(block), block)
    return locations, spreads
