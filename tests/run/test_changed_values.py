"""Values in merged, changed, split and described graphs."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

import tacit
from ring_runs import GRAPH, SMALL, new_run
from tacit.errors import DataError, RunError
from tacit.graph.attributes import Attribute, Attributes
from tacit.graph.graph import SPLITS, Graph, without_attributes
from tacit.graph.merging import join_graphs, with_facts, without_facts
from tacit.graph.quantities import Quantity
from tacit.graph.split import split
from tacit.graph.value_statistics import attribute_statistics
from tacit.links.training.link_training import train
from tacit.run.changes import add_facts, remove_facts
from tacit.run_folder.folder import RunFolder

FACTS = [("France", "borders", "Spain"), ("Spain", "borders", "France"), ("Paris", "in", "France")]
KNOWN = Graph.of(
    [*FACTS, ("France", "population", "68"), ("Spain", "founded", "1479")],
    [("Spain", "population", "48")],
    attributes=["population[people]", "founded[date]"],
)


@pytest.fixture
def run_folder(tmp_path: Path) -> RunFolder:
    """A trained ring, whose entities have heights."""
    heights = [(0, 0, Quantity(1.5), 0), (1, 0, Quantity(2.0), 0)]
    graph = replace(GRAPH, attributes=Attributes.of([Attribute("height")], heights))
    run = new_run(tmp_path / "run", graph=graph)
    train(graph, SMALL, run, progress=False)
    return run


def stated(graph: Graph) -> set[tuple[str, str, str, str]]:
    names = graph.attributes.names
    return {
        (
            graph.entities[row["entity"]],
            names[row["attribute"]],
            str(graph.attributes.quantity(row)),
            SPLITS[row["split"]],
        )
        for row in graph.attributes.rows
    }


BEFORE = {
    ("France", "population", "68", "train"),
    ("Spain", "population", "48", "valid"),
    ("Spain", "founded", "1479", "train"),
}


def test_added_values_are_those_of_known_attributes() -> None:
    more = Graph.of([("Spain", "population", "48"), ("Italy", "population", "1"),
                     ("Italy", "founded", "1861-03"), ("Italy", "borders", "France")])  # fmt: skip
    merged = with_facts(KNOWN, more)
    assert stated(merged.graph) == BEFORE | {
        ("Italy", "population", "1", "train"),
        ("Italy", "founded", "1861-03", "train"),
    }
    assert (merged.changed, merged.unchanged, merged.values) == (3, 1, 2)
    assert merged.graph.entities.labels == [*KNOWN.entities, "Italy"]
    assert stated(KNOWN) == BEFORE
    again = without_facts(merged.graph, more)
    assert stated(again.graph) == BEFORE - {("Spain", "population", "48", "valid")}
    assert (again.changed, again.unchanged, again.values) == (4, 0, 3)


def test_added_values_must_fit() -> None:
    with pytest.raises(DataError, match="'many' of 'Italy' is no number, as population must be"):
        with_facts(KNOWN, Graph.of([("Italy", "population", "many")]))
    other = replace(Graph.of([("a", "r", "b")]), attributes=Attributes.of(
        [Attribute("population", unit="millions")], [(0, 0, Quantity(5.0), 0)]))  # fmt: skip
    with pytest.raises(
        DataError, match="population of graph is a number in millions, and a number in people"
    ):
        with_facts(KNOWN, other)
    with pytest.raises(DataError, match="population of graph is a number in millions"):
        join_graphs([KNOWN, other], "both")
    named = replace(
        other, attributes=Attributes.of([Attribute("borders")], [(0, 0, Quantity(5.0), 0)])
    )
    with pytest.raises(DataError, match="borders is a relation of graph and not of a number"):
        with_facts(KNOWN, named)


def test_absent_values_are_told_with_those_there_are() -> None:
    less = Graph.of([("France", "population", "69"), ("Rome", "population", "3"),
                     ("France", "borders", "Spain")])  # fmt: skip
    merged = without_facts(KNOWN, less)
    assert merged.absent == (
        "France population 69: the graph has 68",
        "Rome population 3: no entity 'Rome'",
    )
    assert (merged.changed, merged.unchanged, merged.values) == (1, 2, 0)
    with pytest.raises(
        DataError, match="graph has no such fact: France population 69: the graph has"
    ):
        without_facts(KNOWN, Graph.of([("France", "population", "69")]))


def test_joined_graphs_have_the_values_of_both() -> None:
    other = Graph.of(
        [("Italy", "population", "59"), ("Rome", "area", "1285.5")],
        attributes=["population[people]", "area[km2]"],
    )
    joined = join_graphs([KNOWN, other], "both")
    assert stated(joined) == BEFORE | {
        ("Italy", "population", "59", "train"),
        ("Rome", "area", "1285.5", "train"),
    }
    assert [str(each) for each in joined.attributes.listed] == [
        "population[people]", "founded[date]", "area[km2]"]  # fmt: skip


def test_values_of_a_run_are_added_and_removed(run_folder: RunFolder) -> None:
    path = run_folder.path
    change = add_facts(path, [("n0", "height", 2.5), ("n1", "height", 2), ("n0", "next", "n1")])
    assert (change.added, change.values, change.unchanged) == (1, 1, 2)
    assert str(change) == "1 value added, 2 were there already"
    graph = RunFolder.open(path).graph()
    assert stated(graph) >= {("n0", "height", "2.5", "train"), ("n1", "height", "2", "train")}
    # the labels are those of before, and the weights with them
    assert graph.entities == run_folder.graph().entities
    tacit.open(path).ask("?x : next(n0, ?x)")
    change = add_facts(path, [("twin", "next", "n1"), ("twin", "height", "3")])
    assert (change.added, change.values, change.entities) == (2, 1, 1)
    assert str(change) == "1 fact and 1 value added; 1 new entity: twin"
    alone = add_facts(path, [("lonely", "height", "3")])  # an entity by its value alone
    assert (alone.added, alone.values, alone.entities) == (1, 1, 1)
    assert "lonely" in RunFolder.open(path).graph().entities
    change = remove_facts(path, [("n0", "height", "2.5"), ("n0", "height", "9")])
    assert (change.removed, change.values, change.unchanged) == (1, 1, 1)
    assert change.absent == ("n0 height 9: the graph has 1.5, 2.5",)
    assert ("n0", "height", "2.5", "train") not in stated(RunFolder.open(path).graph())


def test_new_attributes_need_consent_as_new_relations_do(run_folder: RunFolder) -> None:
    with pytest.raises(
        DataError, match=r"1 new attribute: 'heigth' \(did you mean 'height'\?\); write the known"
    ):
        add_facts(run_folder.path, [("n0", "heigth", "2.5")])
    change = add_facts(run_folder.path, [("n0", "heigth", "2.5")], new=True)
    assert str(change) == "1 value added; 1 new attribute: heigth"
    with pytest.raises(DataError, match="'tall' of 'n0' is no number"):
        add_facts(run_folder.path, [("n0", "height", "tall")])


def test_a_run_of_before_its_values_changed_is_another(run_folder: RunFolder) -> None:
    opened = RunFolder.open(run_folder.path)
    graph = opened.graph()
    add_facts(run_folder.path, [("n0", "height", "7")])
    with pytest.raises(RunError, match=r"the facts of run .* were changed since it was opened"):
        opened.check_unchanged()
    with pytest.raises(RunError, match="on other facts than"):
        RunFolder.open(run_folder.path).check(graph)


def grown(size: int = 200) -> Graph:
    """Entities in a ring, each with a number, half of them with two, and one without a fact."""
    ring = [(f"n{i}", "next", f"n{(i + 1) % size}") for i in range(size)]
    sizes = [(f"n{i}", "size", f"{i}.5") for i in range(size)]
    sizes += [(f"n{i}", "size", f"{i}.25") for i in range(0, size, 2)]
    ages = [(f"n{i}", "age", str(i)) for i in range(0, size, 4)]
    alone = [("alone", "size", "0.5"), ("alone", "age", "7")]
    return Graph.of([*ring, *sizes, *ages, *alone], attributes=["size", "age"])


def test_splits_hold_the_shares_of_each_attribute_and_no_entity_in_two() -> None:
    graph = grown()
    parts = split(graph, valid=0.1, test=0.2, seed=3)
    rows = parts.attributes.rows
    assert {value[:3] for value in stated(parts)} == {value[:3] for value in stated(graph)}
    for attribute, size in ((0, 301), (1, 51)):
        own = rows[rows["attribute"] == attribute]
        counts = np.bincount(own["split"], minlength=3)
        assert abs(counts[1] - 0.1 * size) <= 3
        assert abs(counts[2] - 0.2 * size) <= 3
        splits = [set(own["entity"][own["split"] == i].tolist()) for i in range(3)]
        assert not splits[0] & splits[1] | splits[0] & splits[2] | splits[1] & splits[2]
    alone = parts.entities.id("alone")
    assert 0 in rows["split"][rows["entity"] == alone]
    assert (split(graph, 0.1, 0.2, 3).attributes.rows == rows).all()
    assert (split(graph, 0.1, 0.2, 4).attributes.rows != rows).any()


def test_facts_are_split_as_they_are_without_values() -> None:
    graph = grown()
    with_values, without = split(graph, seed=1), split(without_attributes(graph), seed=1)
    for name in SPLITS:
        assert (with_values.split(name) == without.split(name)).all()


def test_statistics_worked_out_by_hand() -> None:
    people = [(f"p{i}", "lives_in", "Oslo") for i in range(10)]
    ages = [(f"p{i}", "age", str(10 * (i + 1))) for i in range(6)]
    graph = Graph.of([*people, *ages], [("p6", "age", "100")], attributes=["age[years]"])
    (age,) = graph.statistics().attributes
    assert (age.name, age.kind, age.unit) == ("age", "number", "years")
    assert age.values == {"train": 6, "valid": 1, "test": 0}
    assert (age.entities, age.among, age.missing) == (7, "lives_in", pytest.approx(0.3))
    assert (age.lowest, age.median, age.highest) == ("10", "40", "100")
    # bins of 7.5 years from 10: 10, 20, 30, 40, 50, 60 and, in the last, 100
    assert age.histogram == (1, 1, 1, 0, 1, 1, 1, 0, 0, 0, 0, 1)
    assert age.edges[0], age.edges[-1] == (10, 100)
    assert (len(age.bars), age.is_log) == (12, False)
    assert graph.statistics().to_json()["attributes"][0]["histogram"] == age.histogram


def test_skewed_numbers_are_counted_by_their_logarithm() -> None:
    sizes = [0, 1, 10, 100, 1000, 10**4, 10**7]
    graph = Graph.of([(f"c{i}", "size", str(n)) for i, n in enumerate(sizes)], attributes=["size"])
    (size,) = graph.statistics().attributes
    assert size.is_log
    assert sum(size.histogram) == 7
    assert size.histogram[0] == 2  # zero and one
    assert (size.among, size.missing) == ("", 0)


def test_dates_are_shown_as_dates() -> None:
    graph = tacit.load(
        [("a", "born", "1984-05"), ("b", "born", "-0043"), ("c", "born", "2001-02-03")]
    )
    (born,) = graph.statistics().attributes
    assert (born.lowest, born.median, born.highest) == ("-0043", "1984-05", "2001-02-03")


@given(st.lists(st.floats(allow_nan=False, allow_infinity=False), min_size=1))
@example([1e308, -1e308, 1e-320])
@example([1e308, 1.5e308])
@example([-8.99e307, 8.98e307])
@example([0.0, 1.7976931348623157e308, 1.7e308])
@example([5e-324, 1e-323])
def test_any_numbers_have_a_histogram(numbers: list[float]) -> None:
    rows = [(0, 0, Quantity(number), 0) for number in numbers]
    attributes = Attributes.of([Attribute("size")], rows)
    (size,) = attribute_statistics(replace(KNOWN, attributes=attributes))
    edges = np.array(size.edges)
    assert sum(size.histogram) == len(attributes) == len({number + 0.0 for number in numbers})
    assert (edges[1:] >= edges[:-1]).all()
    assert (edges[0], edges[-1]) == (min(numbers), max(numbers))
