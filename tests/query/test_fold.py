"""How a plan is walked: each step goes to the method of its name, and what has none is said."""

from __future__ import annotations

import ast
import re

import pytest

from source_tree import modules
from tacit.query.plans import plan as p
from tacit.query.plans.fold import EvalContext, Visitor
from tacit.query.plans.symbolic import SetFold
from tacit.query.plans.traits import Search
from tacit.query.sampling.shapes import SHAPES

KINDS = {
    "Step": set(re.findall(r"\b(?!Node|Edge)\w+", f"{p.Node} {p.Edge}")),
    "Search": {"Project", "Cutset"},
}


class Count(Visitor[None, int]):
    """A visitor that counts relations, with separate counts for rows and hops."""

    def relation(self, step: p.Relation, place: EvalContext[None]) -> int:
        return 1

    def generic_visit(self, step: p.Step, place: EvalContext[None]) -> int:
        return sum(map(self.of, p.children(step)))


class Rows(Visitor[None, int]):
    """Knows rows alone."""

    def row(self, step: p.Row, place: EvalContext[None]) -> int:
        return 1


@pytest.mark.parametrize("name", SHAPES)
def test_a_step_goes_to_the_method_of_its_name(name: str) -> None:
    assert Count().of(SHAPES[name].plan.root) == SHAPES[name].num_relations


def test_a_step_without_a_method_is_named() -> None:
    assert Rows().of(SHAPES["1p"].plan.root) == 1
    with pytest.raises(TypeError, match="Rows has no value for Project"):
        Rows().of(SHAPES["2p"].plan.root)


def test_a_place_says_where_an_end_is_missing() -> None:
    assert (EvalContext(1, 0).start, EvalContext(1, 0).end) == (1, 0)
    for end in ("start", "end"):
        with pytest.raises(TypeError, match="needs one"):
            getattr(EvalContext[int](), end)


def test_every_method_is_that_of_the_steps_it_takes() -> None:
    """A method named after no step would never be called, unseen by a type checker."""
    assert {kind.__name__ for kind in Search.__args__} == KINDS["Search"] < KINDS["Step"]
    assert {name.lower() for name in KINDS["Step"]} <= set(dir(SetFold))
    wrong = []
    seen = 0
    for name, path in modules().items():
        methods = (
            node
            for node in ast.walk(ast.parse(path.read_text("utf-8")))
            if isinstance(node, ast.FunctionDef)
        )
        for method in methods:
            parameters = [argument.arg for argument in method.args.args]
            if parameters != ["self", "step", "place"] or method.name.startswith("_"):
                continue
            taken = re.findall(
                r"\w+", ast.unparse(method.args.args[1].annotation or ast.Constant(None))
            )
            known = {kind.lower() for word in taken for kind in KINDS.get(word, {word})}
            seen += 1
            if method.name not in known | ({"of", "generic_visit"} if taken == ["Step"] else set()):
                wrong.append(f"{name}.{method.name}")
    assert seen > 80
    assert not wrong
