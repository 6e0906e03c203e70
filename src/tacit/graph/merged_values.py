"""Adds the values of one graph to another, and removes them."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import replace

import numpy as np

from tacit.errors import DataError
from tacit.graph.attributes import Attribute, Attributes, Rows, value_keys
from tacit.graph.fact_index import Flags, within
from tacit.graph.graph import Graph
from tacit.graph.labels.vocabulary import Vocabulary

_LISTED = 3  # known values in the reason why one is missing


def check_alike(known: Iterable[Attribute], attribute: Attribute, name: str) -> None:
    """Raises a `DataError` for an attribute that another graph has in another kind or unit."""
    for other in known:
        if other.name == attribute.name and other != attribute:
            kinds = [
                f"{each.kind}{f' in {each.unit}' * bool(each.unit)}" for each in (attribute, other)
            ]
            raise DataError(
                f"{attribute.name} of {name} is a {kinds[0]}, and a {kinds[1]} elsewhere; make "
                f"them alike, as by `attributes='{other}'`, or rename one"
            )


def with_values(
    graph: Graph, more: Graph, heads: Sequence[str], find: Callable[[str, Vocabulary], str]
) -> tuple[Attributes, int]:
    """The attributes of a graph with the values of another, and how many of them it lacked."""
    own = graph.attributes
    listed = [*own.listed]
    ids = []
    for attribute in more.attributes.listed:
        name = find(attribute.name, own.names)
        if name in own.names:
            ids.append(own.names.id(name))
            attribute = replace(attribute, name=name, unit=attribute.unit or listed[ids[-1]].unit)
            check_alike(listed, attribute, more.name)
        elif attribute.name in more.relations or name not in graph.relations:
            ids.append(len(listed))
            listed.append(replace(attribute, name=name))
        else:
            raise DataError(
                f"{name} is a relation of {graph.name} and not of a {attribute.kind}; give these "
                "as facts by `attributes=False`"
            )
    if not ids:
        return own, 0
    rows = _in_ids(graph, more, heads, ids)
    before, new = value_keys([own.rows, rows])
    rows = rows[~within(new, np.sort(before))]
    rows["split"] = 0
    joined = np.concatenate((own.rows, rows))
    return Attributes(tuple(listed), joined, own.readable), len(rows)


def without_values(
    graph: Graph,
    less: Graph,
    heads: Sequence[str | None],
    find: Callable[[str, Vocabulary], str | None],
) -> tuple[Attributes, Flags]:
    """The attributes without the values of another graph, and which of these there were."""
    own = graph.attributes
    ids = []
    for attribute in less.attributes.listed:
        name = find(attribute.name, own.names)
        known = -1 if name is None else own.names.id(name)
        ids.append(known if known >= 0 and own.listed[known].kind == attribute.kind else -1)
    if not ids:
        return own, np.zeros(0, dtype=bool)
    keys, targets = value_keys([own.rows, _in_ids(graph, less, heads, ids)])
    return own.where(~within(keys, np.sort(targets))), within(targets, np.sort(keys))


def absent_values(
    graph: Graph, less: Graph, heads: Sequence[str | None], known: Flags
) -> Iterator[str]:
    """Yields the values of another graph that this one lacks, each with those it has."""
    for row in less.attributes.rows[~known]:
        name = less.attributes.names[row["attribute"]]
        shown = f"{less.entities[row['entity']]} {name} {less.attributes.quantity(row)}"
        head, attribute = heads[row["entity"]], graph.attributes.names.get(name)
        if head is None or attribute is None:
            text, kind = (name, "attribute") if attribute is None else (head, "entity")
            yield f"{shown}: no {kind} '{text or less.entities[row['entity']]}'"
            continue
        values = graph.attributes.quantities(graph.entities.id(head), attribute)
        listed = ", ".join(map(str, values[:_LISTED])) or f"no {name} of {head}"
        yield f"{shown}: the graph has {listed}"


def _in_ids(
    graph: Graph, more: Graph, heads: Sequence[str | None], attributes: Sequence[int]
) -> Rows:
    """The values of another graph in the ids of this one; -1 where there is none."""
    rows = more.attributes.rows.copy()
    ids = [-1 if label is None else graph.entities.id(label) for label in heads]
    for column, table in (("entity", ids), ("attribute", attributes)):
        rows[column] = np.array(table, dtype=np.int32)[rows[column]]
    return rows
