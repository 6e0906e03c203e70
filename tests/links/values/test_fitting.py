"""Fitted attributes: how well they predict, how sure they are, and what they never read."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
import torch

from tacit.graph.attributes import Attributes
from tacit.graph.graph import Graph
from tacit.links.values.distribution import from_scale
from tacit.links.values.evidence import find_evidence
from tacit.links.values.fitted_values import FittedValues
from tacit.links.values.fitting import LEAST_VALUES, fit_values
from value_graphs import Triples, places, with_values

LATITUDE, PEOPLE = 0, 1


@pytest.fixture(scope="module")
def graph() -> Graph:
    return places(500)


@pytest.fixture(scope="module")
def values(graph: Graph) -> FittedValues:
    return fit_values(graph)


def held_out(graph: Graph, attribute: int) -> tuple[np.ndarray, np.ndarray]:
    return graph.attributes.column(attribute, "test")


def test_test_values_are_met_better_than_by_guesses(graph: Graph, values: FittedValues) -> None:
    for attribute, least in ((LATITUDE, 0.15), (PEOPLE, 0.7)):
        entities, true = held_out(graph, attribute)
        known = graph.attributes.column(attribute, "train")[1]
        found = np.array([values.predicted(attribute, e).median for e in entities.tolist()])  # type: ignore[union-attr]
        error = np.abs(found - true).mean()
        assert error < least * np.abs(np.median(known) - true).mean()


def test_intervals_hold_their_share_of_the_test_values(graph: Graph, values: FittedValues) -> None:
    for attribute in (LATITUDE, PEOPLE):
        entities, true = held_out(graph, attribute)
        distribution = values.distribution(attribute)
        assert distribution is not None
        for level in (0.5, 0.8, 0.95):
            ends = distribution.quantiles(entities, [(1 - level) / 2, (1 + level) / 2])
            share = ((ends[:, 0] <= true) & (true <= ends[:, 1])).mean()
            # three standard deviations of a share of so many values
            assert share == pytest.approx(level, abs=3 * np.sqrt(level * (1 - level) / len(true)))


def test_sizes_over_many_magnitudes_are_learned_in_logarithms(values: FittedValues) -> None:
    scales = [values.distribution(attribute).logarithmic for attribute in (LATITUDE, PEOPLE)]  # type: ignore[union-attr]
    assert scales == [False, True]
    assert set(values.fitted[PEOPLE].held_out) == {"linear", "log"}  # type: ignore[union-attr]


def test_only_towns_have_a_latitude(graph: Graph, values: FittedValues) -> None:
    presence = values.distribution(LATITUDE).presence  # type: ignore[union-attr]
    towns = np.array([label.startswith("t") for label in graph.entities])
    known = np.zeros(len(towns), dtype=bool)
    known[graph.attributes.column(LATITUDE, "train")[0]] = True
    assert (presence[known] == 1).all()
    assert presence[towns & ~known].mean() > 0.8
    assert presence[~towns].max() < 0.2


def test_test_values_are_never_read(graph: Graph, values: FittedValues) -> None:
    rows = graph.attributes.rows.copy()
    rows["value"][rows["split"] == 2] += 1e6
    changed = replace(graph, attributes=Attributes(graph.attributes.listed, rows))
    again = fit_values(changed)
    for attribute in (LATITUDE, PEOPLE):
        one, two = values.distribution(attribute), again.distribution(attribute)
        assert one is not None
        assert two is not None
        assert (one.locations == two.locations).all()
        assert (one.spreads == two.spreads).all()


def test_what_leads_nowhere_is_not_learned_from_itself() -> None:
    """Means that leave an entity out of a large group must not tell its value to trees."""
    draw = np.random.default_rng(5)
    facts: Triples = []
    for entity in range(400):
        facts += [(f"e{entity}", "is", f"k{draw.integers(3)}"), (f"e{entity}", "has", "hub")]
    size = {f"e{e}": (float(draw.normal()), "test" if e % 4 == 0 else "train") for e in range(400)}
    graph = with_values(facts, {"size": size})
    values = fit_values(graph)
    fitted = values.fitted[0]
    assert fitted is not None
    training = graph.attributes.column(0, "train")[1]
    guess = np.abs(training - np.median(training)).mean()
    assert fitted.held_out["linear"] > 0.93 * guess
    entities, true = held_out(graph, 0)
    low, high = fitted.distribution.quantiles(entities, [0.1, 0.9]).T
    assert ((low <= true) & (true <= high)).mean() == pytest.approx(0.8, abs=0.12)


def test_too_few_values_have_no_prediction() -> None:
    facts = [(f"e{e}", "near", f"e{e + 1}") for e in range(60)]
    for number, predicted in ((LEAST_VALUES - 1, False), (LEAST_VALUES, True)):
        graph = with_values(facts, {"size": {f"e{e}": (float(e), "train") for e in range(number)}})
        values = fit_values(graph)
        assert (values.predicted(0, 55) is not None) is predicted
        found = values.probability(0, -np.inf, np.inf)
        assert bool((found > 0).all()) is predicted
    assert find_evidence(graph, fit_values(with_values(facts, {"size": {}})), 0, 0, 5, 3) == []


@pytest.mark.parametrize("same", [0.0, 3.0, -1e12])
def test_attributes_with_one_value_are_predicted(same: float) -> None:
    facts = [(f"e{e}", "near", f"e{(e + 1) % 60}") for e in range(60)]
    graph = with_values(facts, {"size": {f"e{e}": (same, "train") for e in range(40)}})
    found = fit_values(graph).predicted(0, 50)
    assert found is not None
    assert (found.low, found.median, found.high) == pytest.approx((same, same, same), rel=1e-3)


@pytest.mark.filterwarnings("error")
def test_values_near_the_largest_numbers_are_learned_in_logarithms() -> None:
    facts = [(f"e{e}", "near", f"e{e + 1}") for e in range(80)]
    size = {f"e{e}": (10.0 ** (3.8 * e), "train") for e in range(80) if e % 3}
    values = fit_values(with_values(facts, {"size": size}))
    found = values.predicted(0, 60)
    assert found is not None
    assert 0 < found.low <= found.median <= found.high < np.inf
    assert 1e200 < found.median < 1e260  # its neighbours are at 10 to the 224 and 232
    assert float(values.probability(0, 1e150, np.inf)[60]) > 0.9


def test_a_graph_without_facts_still_says_the_median() -> None:
    graph = with_values([(f"e{e}", "is", "e0") for e in range(1, 50)], {"x": {}})
    graph = replace(
        graph,
        train=graph.train[:0],
        attributes=with_values(
            [(f"e{e}", "is", "e0") for e in range(1, 50)],
            {"x": {f"e{e}": (float(e), "train") for e in range(1, 40)}},
        ).attributes,
    )
    found = fit_values(graph).predicted(0, 45)
    assert found is not None
    assert found.median == pytest.approx(20, abs=3)
    assert found.presence == pytest.approx(1.0) or 0 < found.presence < 1


def test_probabilities_follow_the_contract(graph: Graph, values: FittedValues) -> None:
    row = values.probability(LATITUDE, 10.0, 30.0)
    entities = torch.tensor([0, 5, 9])
    some = values.probability_of(
        LATITUDE, entities, torch.tensor([10.0, 5.0, 7.0]), torch.tensor([30.0, 4.0, 7.5])
    )
    assert row.shape == (graph.num_entities,)
    assert some[0] == pytest.approx(float(row[0]), abs=1e-6)
    assert some[1] == 0
    assert (values.probability(LATITUDE, 3.0, 2.0) == 0).all()
    table = values.difference(LATITUDE, LATITUDE, entities, 0.0, np.inf)
    assert table.shape == (3, graph.num_entities)
    presence = values.distribution(LATITUDE).presence  # type: ignore[union-attr]
    assert table[1, 5] == pytest.approx(float(presence[5]))  # it does not differ from itself
    pairs = values.difference_of(LATITUDE, LATITUDE, entities, torch.tensor([7, 5, 1]), 0.0, np.inf)
    assert torch.allclose(pairs, table[torch.arange(3), torch.tensor([7, 5, 1])])


def test_evidence_lists_values_that_are_there(graph: Graph, values: FittedValues) -> None:
    known = dict(
        zip(*(c.tolist() for c in graph.attributes.column(LATITUDE, "train")), strict=True)
    )
    entities, true = held_out(graph, LATITUDE)
    for entity, value in zip(entities[:20].tolist(), true[:20].tolist(), strict=True):
        found = find_evidence(graph, values, LATITUDE, entity, most=3, examples=2)
        assert 1 <= len(found) <= 3
        shares = [each.share for each in found]
        assert shares == sorted(shares, reverse=True)
        assert 0 < sum(shares) <= 1 + 1e-9
        for each in found:
            assert entity not in each.ends
            assert len(each.ends) <= min(2, each.number)
            assert all(end in known for end in each.ends) or each.walk.attribute == PEOPLE
        assert abs(known.get(found[0].ends[0], value) - value) < 25


def test_the_scale_is_undone() -> None:
    assert from_scale(np.log1p(9.0), True) == pytest.approx(9.0)
    assert from_scale(-np.log1p(9.0), True) == pytest.approx(-9.0)
