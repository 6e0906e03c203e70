"""The 14 shapes, their formulas, and BetaE's tuples there and back."""

from __future__ import annotations

import numpy as np
import pytest

from tacit.errors import DataError, QueryError, UnknownName
from tacit.query.formula import Atom, Entity, Exists, Formula, Query, Variable
from tacit.query.plans.compile import compile_template
from tacit.query.plans.plan import Complement, Intersect, Project, Relation, Row, Union
from tacit.query.sampling.shapes import (
    DE_MORGAN,
    NEGATIVE,
    POSITIVE,
    SHAPES,
    STRUCTURES,
    Shape,
    from_tuples,
    parse_shapes,
    shape_of,
    to_tuples,
)
from tacit.query.text import parse

FORMULAS = {
    "1p": "?t : r1(e1, ?t)",
    "2p": "?t : exists ?v1 . r1(e1, ?v1) & r2(?v1, ?t)",
    "3p": "?t : exists ?v1 . (exists ?v2 . r1(e1, ?v2) & r2(?v2, ?v1)) & r3(?v1, ?t)",
    "2i": "?t : r1(e1, ?t) & r2(e2, ?t)",
    "3i": "?t : r1(e1, ?t) & r2(e2, ?t) & r3(e3, ?t)",
    "pi": "?t : (exists ?v1 . r1(e1, ?v1) & r2(?v1, ?t)) & r3(e2, ?t)",
    "ip": "?t : exists ?v1 . r1(e1, ?v1) & r2(e2, ?v1) & r3(?v1, ?t)",
    "2u": "?t : r1(e1, ?t) | r2(e2, ?t)",
    "up": "?t : exists ?v1 . (r1(e1, ?v1) | r2(e2, ?v1)) & r3(?v1, ?t)",
    "2in": "?t : r1(e1, ?t) & !r2(e2, ?t)",
    "3in": "?t : r1(e1, ?t) & r2(e2, ?t) & !r3(e3, ?t)",
    "inp": "?t : exists ?v1 . r1(e1, ?v1) & !r2(e2, ?v1) & r3(?v1, ?t)",
    "pin": "?t : (exists ?v1 . r1(e1, ?v1) & r2(?v1, ?t)) & !r3(e2, ?t)",
    "pni": "?t : !(exists ?v1 . r1(e1, ?v1) & r2(?v1, ?t)) & r3(e2, ?t)",
}
R = [Relation(slot) for slot in range(3)]
ROW = [Row(slot, R[slot]) for slot in range(3)]
PLANS = {
    "1p": ROW[0],
    "2p": Project(1, ROW[0], R[1]),
    "3p": Project(1, Project(2, ROW[0], R[1]), R[2]),
    "2i": Intersect((ROW[0], ROW[1])),
    "3i": Intersect((ROW[0], ROW[1], ROW[2])),
    "pi": Intersect((Project(1, ROW[0], R[1]), Row(1, R[2]))),
    "ip": Project(1, Intersect((ROW[0], ROW[1])), R[2]),
    "2u": Union((ROW[0], ROW[1])),
    "up": Project(1, Union((ROW[0], ROW[1])), R[2]),
    "2in": Intersect((ROW[0], Complement(ROW[1]))),
    "3in": Intersect((ROW[0], ROW[1], Complement(ROW[2]))),
    "inp": Project(1, Intersect((ROW[0], Complement(ROW[1]))), R[2]),
    "pin": Intersect((Project(1, ROW[0], R[1]), Complement(Row(1, R[2])))),
    "pni": Intersect((Complement(Project(1, ROW[0], R[1])), Row(1, R[2]))),
}
# one official-looking query per encoding: ids in the order of the slots are 10, 20, 30 and 1, 2, 3
TUPLES = {
    ("1p", "dnf"): (10, (1,)),
    ("2p", "dnf"): (10, (1, 2)),
    ("3p", "dnf"): (10, (1, 2, 3)),
    ("2i", "dnf"): ((10, (1,)), (20, (2,))),
    ("3i", "dnf"): ((10, (1,)), (20, (2,)), (30, (3,))),
    ("pi", "dnf"): ((10, (1, 2)), (20, (3,))),
    ("ip", "dnf"): (((10, (1,)), (20, (2,))), (3,)),
    ("2u", "dnf"): ((10, (1,)), (20, (2,)), (-1,)),
    ("up", "dnf"): (((10, (1,)), (20, (2,)), (-1,)), (3,)),
    ("2u", "dm"): (((10, (1, -2)), (20, (2, -2))), (-2,)),
    ("up", "dm"): (((10, (1, -2)), (20, (2, -2))), (-2, 3)),
    ("2in", "dnf"): ((10, (1,)), (20, (2, -2))),
    ("3in", "dnf"): ((10, (1,)), (20, (2,)), (30, (3, -2))),
    ("inp", "dnf"): (((10, (1,)), (20, (2, -2))), (3,)),
    ("pin", "dnf"): ((10, (1, 2)), (20, (3, -2))),
    ("pni", "dnf"): ((10, (1, 2, -2)), (20, (3,))),
}


def test_there_are_fourteen() -> None:
    assert list(SHAPES) == list(FORMULAS) == [*POSITIVE, *NEGATIVE]


@pytest.mark.parametrize("name", SHAPES)
def test_formula(name: str) -> None:
    assert str(SHAPES[name].query) == FORMULAS[name]


@pytest.mark.parametrize("name", SHAPES)
def test_plan(name: str) -> None:
    shape = SHAPES[name]
    assert shape.plan.root == PLANS[name]
    assert shape.plan == compile_template(shape.query).plan
    assert Shape.of(name, shape.query) == shape
    text = FORMULAS[name]
    assert shape.num_entities == sum(f"e{i}" in text for i in (1, 2, 3))
    assert shape.num_relations == sum(f"r{i}" in text for i in (1, 2, 3))


@pytest.mark.parametrize(("name", "encoding"), TUPLES)
def test_tuples_there_and_back(name: str, encoding: str) -> None:
    query = TUPLES[name, encoding]
    shape = SHAPES[name]
    structure = shape.encoded(encoding)
    assert shape_of(structure) == (shape, encoding)
    entities, relations = from_tuples([query], structure)
    assert entities.tolist() == [[10, 20, 30][: shape.num_entities]]
    assert relations.tolist() == [[1, 2, 3][: shape.num_relations]]
    assert to_tuples(structure, entities, relations) == [query]


@pytest.mark.parametrize("structure", [*STRUCTURES.values(), *DE_MORGAN.values()])
def test_many_tuples_at_once(structure: tuple) -> None:
    shape, _ = shape_of(structure)
    random = np.random.default_rng(0)
    entities = random.integers(0, 1000, (50, shape.num_entities), dtype=np.int32)
    relations = random.integers(0, 30, (50, shape.num_relations), dtype=np.int32)
    queries = to_tuples(structure, entities, relations)
    assert len(queries) == 50
    again = from_tuples(queries, structure)
    np.testing.assert_array_equal(again[0], entities)
    np.testing.assert_array_equal(again[1], relations)


def test_other_structures_are_shapes_too() -> None:
    shape, encoding = shape_of(("e", ("r", "r", "r", "r")))
    assert (shape.name, encoding) == ("(e,(r,r,r,r))", "dnf")
    entities, relations = from_tuples([(5, (1, 3, 5, 7))], shape.encoded())
    assert (entities.tolist(), relations.tolist()) == ([[5]], [[1, 3, 5, 7]])


T = Variable("t")
X = Variable("x")
Y = Variable("y")


def test_a_template_of_betaes_kind_has_its_tuples() -> None:
    formula = Exists(
        X, (Atom("eats", Entity("cat"), X) & ~Atom("fears", Entity("dog"), X)) & Atom("likes", X, T)
    )
    shape = Shape.of("mine", Query(T, formula))
    assert (shape.name, shape.structure, shape.plan) == (
        "mine",
        STRUCTURES["inp"],
        SHAPES["inp"].plan,
    )


EATEN = Atom("eats", Entity("cat"), X)
UNFEARED = ~Atom("fears", Entity("dog"), X)


@pytest.mark.parametrize(
    "formula",
    [
        Exists(X, Atom("likes", X, T) & UNFEARED & EATEN),
        Exists(X, UNFEARED & (EATEN & Atom("likes", X, T))),
        # walked backwards
        Exists(X, EATEN & Atom("likes", T, X) & ~Atom("fears", X, Entity("dog"))),
    ],
)
def test_a_template_is_the_same_shape_in_any_order_and_direction(formula: Formula) -> None:
    shape = Shape.of("mine", Query(T, formula))
    assert (shape.structure, shape.plan) == (STRUCTURES["inp"], SHAPES["inp"].plan)


@pytest.mark.parametrize(
    "formula",
    [
        # two edges side by side
        Exists(X, Atom("eats", Entity("cat"), X) & Atom("likes", X, T) & Atom("fears", X, T)),
        Exists(X, Exists(Y, Atom("a", X, Y) & Atom("b", Y, T) & Atom("c", X, T))),  # a cycle
    ],
)
def test_other_templates_are_shapes_without_tuples(formula: object) -> None:
    shape = Shape.of("mine", Query(T, formula))
    assert shape.structure is None
    with pytest.raises(DataError, match="'mine' cannot be written as BetaE tuples"):
        shape.encoded()


E = ("e", ("r",))


@pytest.mark.parametrize(
    "structure",
    ["e", (), ("e",), (*E, "e"), (E,), ("e", ("u",)), ("e", ("n",)), ("e", (1.5,)), (E, ("u",))],
)
def test_what_is_no_structure_is_refused(structure: object) -> None:
    with pytest.raises(DataError, match="no BetaE query structure"):
        shape_of(structure)


@pytest.mark.parametrize("query", [7, (), (7,), (7, (1.5,)), ("7", (1,)), (7, (-1,)), (7, (True,))])
def test_what_is_no_query_is_refused(query: object) -> None:
    with pytest.raises(DataError):
        from_tuples([query], E)


def test_queries_listed_under_another_structure_are_refused() -> None:
    with pytest.raises(DataError, match="structure"):
        from_tuples([(7, (1,)), (8, (1, 2))], STRUCTURES["1p"])
    with pytest.raises(DataError, match="in place of 'n'"):
        from_tuples([((7, (1,)), (8, (1, 2)))], STRUCTURES["2in"])


@pytest.mark.parametrize(
    "text", ["?t, ?s : r(?t, ?s)", "count ?t : r(a, ?t)", ": r(a, b)", "?r : ?r(a, b)"]
)
def test_what_asks_for_something_else_than_entities_is_no_template(text: str) -> None:
    with pytest.raises(QueryError, match="is no template"):
        Shape.of("x", parse(text))


def test_only_unions_have_a_de_morgan_form() -> None:
    with pytest.raises(DataError, match="'2i' cannot be written as De Morgan's form"):
        SHAPES["2i"].encoded("dm")


def test_names() -> None:
    assert parse_shapes("2i,3i.2in") == ("2i", "3i", "2in")
    assert parse_shapes(" 2i , up-DM") == ("2i", "up-DM")
    assert parse_shapes("positive,1p") == POSITIVE
    assert parse_shapes("all") == tuple(SHAPES)
    with pytest.raises(UnknownName, match=r"unknown shape '2ni'; did you mean .*'2in'"):
        parse_shapes("1p,2ni")
    with pytest.raises(UnknownName, match="positive"):
        parse_shapes(" , ")
