"""Other names of variables: `BIND(?p AS ?n)` in the outermost braces, and `SELECT (?p AS ?n)`.

They are taken out of a query, in which each variable then has a single name: the selected one.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from tacit.query.formula import Variable
from tacit.query.sparql.cases import bound_variables
from tacit.query.sparql.source import (
    SparqlText,
    is_variable,
    keyword,
    kind,
    unwrap,
    variables_in,
    walk_tree,
)


def take_other_names(tree: Any, source: SparqlText) -> None:
    """Removes the other names of variables from a query, and renames the variables to them."""
    same = _bound_names(tree, source)  # other name -> variable
    for column in tree.projection or ():
        if not (column.expr and is_variable(of := unwrap(column.expr))):
            continue
        name = Variable(str(column.evar))
        if name in variables_in([tree.where, tree.valuesClause]) or name in same:
            raise source.error(
                f"SELECT gives the name {name}, which stands elsewhere too; choose another",
                keyword("SELECT"),
            )
        same[name] = same.get(Variable(str(of)), Variable(str(of)))
        column["var"] = column.evar
        del column["expr"], column["evar"]
    if not same:
        return
    if tree.name == "SelectQuery" and not tree.projection:
        raise source.error(
            "SELECT * beside BIND would show one variable twice; write the variables out",
            keyword("SELECT"),
        )
    selected: dict[Variable, Variable] = {}  # variable -> the name that is selected
    for name in (Variable(str(column.var)) for column in tree.projection or () if column.var):
        if (other := selected.setdefault(same.get(name, name), name)) != name:
            raise source.of_variable(
                f"{other} and {name} are names of one variable; select one of them", name
            )
    names = {name: selected.get(of, of).name for name, of in same.items()}
    _rename(tree, names | {of: selected.get(of, of).name for of in same.values()})


def _bound_names(tree: Any, source: SparqlText) -> dict[Variable, Variable]:
    """The names that BIND gives in the outermost braces, where it is left out, and whose they are.

    It must follow patterns that bind the variable in every solution, so that joins, filters and
    an order by either name are the same. In other braces a name is refused, since a filter there
    may see one of the two and not the other.
    """
    same: dict[Variable, Variable] = {}
    certain = set[Variable]()
    parts = tree.where.part or []
    for at, part in enumerate(parts):
        certain |= bound_variables(part)
        if kind(part) != "Bind":
            continue
        of, name = unwrap(part.expr), Variable(str(part.var))
        if not is_variable(of) or Variable(str(of)) not in certain:
            raise source.unsupported(part)
        before = [each for each in parts[:at] if kind(each) != "Filter"]
        inside = [
            each
            for each in parts
            if kind(each) not in ("Filter", "TriplesBlock", "Bind")
            or any("EXISTS" in kind(node) for node in walk_tree(each))
        ]
        computed = [column.evar for column in tree.projection or () if column.evar]
        if name in variables_in([before, inside, tree.valuesClause, computed]):
            raise source.at(
                part,
                f"BIND gives the name {name}, which stands before it, in other braces, in VALUES "
                f"or after AS too; write ?{of} there",
            )
        same[name] = same.get(Variable(str(of)), Variable(str(of)))
        certain.add(name)
    tree.where["part"] = [part for part in parts if kind(part) != "Bind"]
    return same


def _rename(node: Any, names: Mapping[Variable, str]) -> None:
    """Renames variables in a tree, in place."""
    if isinstance(node, str) or not isinstance(node, Iterable):
        return
    for key, part in node.items() if isinstance(node, dict) else enumerate(node):
        if is_variable(part):
            node[key] = type(part)(names.get(Variable(str(part)), part))  # type: ignore[index]
        else:
            _rename(part, names)
