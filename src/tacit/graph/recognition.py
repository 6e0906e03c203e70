"""Turns relations whose tails are numbers, dates or durations into attributes.

A relation becomes an attribute by itself only if every tail is one of these. It stays a relation
where the tails may be names: they have facts of their own, relations to names have them too, they
are zeros and ones alone, or whole numbers of which many heads have several or whose heads are
numbers as well, or the relation is called an id or a code.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import replace
from itertools import compress
from pathlib import Path
from typing import NamedTuple

import numpy as np

from tacit.errors import DataError
from tacit.graph.attribute_forms import Form, is_relation_of, required_forms, with_bare_names
from tacit.graph.attributes import VALUE_ROW, Attribute, Attributes, Rows
from tacit.graph.builder import counted
from tacit.graph.fact_index import Flags, Ints
from tacit.graph.graph import SPLITS, Graph, Triples, directed
from tacit.graph.labels.vocabulary import Vocabulary
from tacit.graph.quantities import Kind
from tacit.graph.tail_values import TailCodes, TailValues, is_quantity, is_whole

# finds the file and the line of a fact that is given by its labels
Locate = Callable[[Sequence[str]], tuple[Path | None, int | None]]

_WORD = re.compile(r"[A-Z]?[a-z]+|[A-Z]+|[0-9]+")
_OF_CODES = "id ids uid uuid code codes zip zipcode postcode phone fax isbn issn version"
_SEVERAL = 0.1  # share of heads with several whole numbers, from which these are ids
_NUMBERED = 0.5  # share of heads that are whole numbers, from which whole tails are ids, too
_NAMED = 0.1  # share of values that relations to names have too, from which they are names
_SAMPLED = 1000  # heads
_SHOWN = 5  # attributes in a note


def recognise(
    graph: Graph,
    names: Sequence[str] | None = None,
    *,
    like: Graph | None = None,
    relations_apart: Collection[str] = (),
    known: Collection[str] = (),
    skip_bad: bool = False,
    locate: Locate = lambda fact: (None, None),
) -> Graph:
    """The graph with its relations to numbers, dates and durations as attributes.

    `names` are those relations; by default they are recognised, and with none of them all stay
    relations. What is an attribute or a relation of the graph `like` is one here, and the labels
    `relations_apart` stay relations. A note says which attributes there are beside the `known`
    ones. A tail of a named one that is no value is an error, which names its line if `locate` finds
    it, or is skipped and noted.

    >>> facts = [("France", "population", "68000000"), ("Spain", "population", "48000000")]
    >>> graph = recognise(Graph.of([*facts, ("France", "borders", "Spain")]))
    >>> graph.entities.labels, graph.attributes.quantities(0, 0)[0].value
    (['France', 'Spain'], 68000000.0)
    """
    forms = required_forms(graph, names, like)
    candidates = _candidates(graph) if names is None else set()
    candidates -= {i for label in relations_apart for i in graph.relations.resolve(label)}
    candidates = {i for i in candidates if i not in forms and not is_relation_of(like, graph, i)}
    facts = _Facts.of(graph, candidates | forms.keys())
    undecided = facts.order[np.isin(facts.relations, [*candidates])]
    codes = TailCodes.of(graph, facts.rows[undecided, 2])
    recognised = facts.recognised(candidates, codes)
    forms |= with_bare_names(graph, recognised, forms.values())
    attributes = [*graph.attributes.listed]
    notes = [*graph.notes]
    taken = np.zeros(len(facts.rows), dtype=bool)
    parts = [graph.attributes.rows]
    for relation, form in sorted(forms.items()):
        at = facts.of_relation(relation)
        tails = facts.rows[at, 2]
        if relation in recognised and form.kind and codes.kind(tails) == form.kind:
            values = codes.values(tails, form.kind)
        else:
            values = TailValues.of(graph, tails, form.kind)
        bad = ~values.known & (not form.keeps_facts)
        if bad.any():
            skipped = facts.rows[at[bad]]
            if not skip_bad:
                raise _error(graph, skipped, form.name, values.kind, locate, bool(names))
            notes.append(_skipped(graph, skipped, form.name, values.kind))
        taken[at[values.known | bad]] = True
        if values.known.any():
            attribute = _attribute_id(attributes, form, values.kind)
            parts.append(facts.values(at, attribute, values)[values.known])
    if names is None:
        notes += _note(attributes, graph, {*known, *(like.attributes.names if like else ())})
    graph = replace(graph, notes=tuple(notes))
    if not taken.any():
        return graph
    both = Attributes(tuple(attributes), np.concatenate(parts)).named(_names(graph, forms))
    return replace(_without(graph, facts, taken, both), attributes=both)


def _names(graph: Graph, forms: Mapping[int, Form]) -> dict[str, Sequence[str]]:
    """The readable names of attributes, and of the relations that become some."""
    names = graph.relations.names
    labels = {form.name: graph.relations[relation] for relation, form in forms.items()}
    of_relations = {name: names[label] for name, label in labels.items() if label in names}
    return of_relations | {**graph.attributes.readable}


class _Facts(NamedTuple):
    """The forward facts of all splits, and the places of those of some relations."""

    graph: Graph
    rows: Triples
    splits: Ints
    order: Ints  # places of the facts of these relations, by relation
    relations: Ints  # of each of these places

    @classmethod
    def of(cls, graph: Graph, relations: Iterable[int]) -> _Facts:
        """The facts of a graph, for a look at some relations."""
        rows = graph.facts()
        sizes = [len(graph.split(name)) for name in SPLITS]
        is_candidate = np.zeros(max(graph.num_relations, 1), dtype=bool)
        is_candidate[list(relations)] = True
        order = np.flatnonzero(is_candidate[rows[:, 1]])
        order = order[np.argsort(rows[order, 1], kind="stable")]
        return cls(graph, rows, np.repeat(np.arange(len(sizes)), sizes), order, rows[order, 1])

    def of_relation(self, relation: int) -> Ints:
        """The places of the facts of one of the relations."""
        return self.order[slice(*np.searchsorted(self.relations, [relation, relation + 1]))]

    def values(self, at: Ints, attribute: int, tails: TailValues) -> Rows:
        """The rows of an attribute for the facts at some places."""
        rows = np.zeros(len(at), VALUE_ROW)
        rows["entity"] = self.rows[at, 0]
        rows["attribute"] = attribute
        rows["value"] = tails.values
        rows["precision"] = tails.precisions
        rows["split"] = self.splits[at]
        return rows

    def recognised(self, candidates: Iterable[int], codes: TailCodes) -> dict[int, Form]:
        """The relations of which all tails are of one kind, and no names or ids."""
        graph = self.graph
        candidates = sorted(candidates)
        if not candidates:
            return {}
        tails = {relation: self.rows[self.of_relation(relation), 2] for relation in candidates}
        kinds = {relation: codes.kind(tails[relation]) for relation in candidates}
        named = np.zeros(graph.num_entities, dtype=bool)  # heads, and tails beside names
        to_values = [relation for relation, kind in kinds.items() if kind]
        named[self.rows[~np.isin(self.rows[:, 1], to_values), 2]] = True
        heads = np.zeros(graph.num_entities, dtype=bool)
        heads[self.rows[:, 0]] = True
        forms = {}
        for relation in candidates:
            label, kind = graph.relations[relation], kinds[relation]
            distinct = np.unique(tails[relation])
            declared = Attribute.declared(label)
            if declared and TailValues.of(graph, distinct, declared.kind).known.all():
                forms[relation] = Form.of(declared)
            elif kind and not (
                heads[distinct].any()
                or named[distinct].mean() > _NAMED
                or (kind == "number" and _is_of_codes(label))
                or (codes.are_whole(distinct) and self._are_ids(relation, distinct))
            ):
                forms[relation] = Form(label, kind)
        return forms

    def _are_ids(self, relation: int, distinct: Ints) -> bool:
        """Whether whole numbers seem to be flags or ids of something."""
        labels = self.graph.entities.labels
        if {labels[id_] for id_ in distinct[:3].tolist()} <= {"0", "1"}:
            return True
        heads, counts = np.unique(self.rows[self.of_relation(relation), 0], return_counts=True)
        sample = heads[:: 1 + len(heads) // _SAMPLED].tolist()
        numbered = sum(is_whole(labels[head]) for head in sample) / len(sample)
        return bool((counts > 1).mean() > _SEVERAL or numbered > _NUMBERED)


def _is_of_codes(label: str) -> bool:
    """Whether a relation is called an id or a code.

    >>> _is_of_codes("zip_code"), _is_of_codes("dbo:areaCode"), _is_of_codes("width")
    (True, True, False)
    """
    return not {word.lower() for word in _WORD.findall(label)}.isdisjoint(_OF_CODES.split())


def _candidates(graph: Graph) -> set[int]:
    """The relations that declare an attribute, or of which the first tail is a quantity."""
    first = np.full(graph.num_relations, -1)
    for split in SPLITS:
        facts = graph.split(split)
        first[facts[::-1, 1]] = facts[::-1, 2]  # the last assignment stays
    labels = graph.entities.labels
    return {
        relation
        for relation, tail in enumerate(first.tolist())
        if tail >= 0
        and (
            Attribute.declared(graph.relations[relation])
            or is_quantity(labels[tail], graph.prefixes)
        )
    }


def _attribute_id(attributes: list[Attribute], form: Form, kind: Kind) -> int:
    """The id of an attribute, which is listed if it is not."""
    attribute = Attribute(form.name, kind, form.unit)
    for id_, known in enumerate(attributes):
        if known.name == form.name:
            if known != attribute:
                raise DataError(
                    f"{form.name} is a {known.kind}{_in(known.unit)} and a {kind}{_in(form.unit)}; "
                    "rename one of them, or read them as entities by `attributes=False`"
                )
            return id_
    attributes.append(attribute)
    return len(attributes) - 1


def _in(unit: str) -> str:
    return f" in {unit}" if unit else ""


def _error(
    graph: Graph, bad: Triples, name: str, kind: Kind, locate: Locate, is_named: bool
) -> DataError:
    """The error for facts of an attribute that have no value."""
    head, relation, tail = bad[0].tolist()
    fact = (graph.entities[head], graph.relations[relation], graph.entities[tail])
    more = f" (and {len(bad) - 1:,} more)" if len(bad) > 1 else ""
    advice = "correct it, or leave it out by `skip_bad=True`"
    if is_named:
        advice += ", or read all as entities by `attributes=False`"
    problem = f"'{fact[2]:.40}' of '{fact[0]:.40}' is no {kind}{more}, as {name} must be"
    return DataError(f"{problem}; {advice}", *locate(fact))


def _skipped(graph: Graph, bad: Triples, name: str, kind: Kind) -> str:
    """The note on facts of an attribute that have no value."""
    example = graph.entities[int(bad[0, 2])]
    return f"{name}: {counted(len(bad), 'fact')} skipped without a {kind}, such as '{example:.40}'"


def _note(attributes: Sequence[Attribute], graph: Graph, known: Collection[str]) -> list[str]:
    """The note on attributes that are not known, if there are any; a graph may have had some."""
    attributes = [each for each in attributes if each.name not in known]
    if not attributes:
        return []
    shown = [
        each.name + (f" ({each.unit or f'{each.kind}s'})" if str(each)[-8:] != "[number]" else "")
        for each in attributes[:_SHOWN]
    ]
    shown += ["..."] * (len(attributes) > _SHOWN)
    one = len(attributes) == 1
    what = "1 relation is an attribute" if one else f"{len(attributes):,} relations are attributes"
    otherwise = "as entities with `attributes=False`"
    # RDF without literals, or properties of nodes, would have no facts
    if any(each.name not in known for each in graph.attributes.listed):
        otherwise = "`attributes=False` reads none"
    return [f"{what}: {', '.join(shown)}; {otherwise}"]


def _without(graph: Graph, facts: _Facts, taken: Flags, values: Attributes) -> Graph:
    """The graph without the facts that became values, and the entities that they were."""
    rest = facts.rows[~taken]
    used = np.zeros(graph.num_entities, dtype=bool)
    used[rest[:, [0, 2]]] = True
    used[values.rows["entity"]] = True
    dropped = np.zeros(graph.num_entities, dtype=bool)
    dropped[facts.rows[taken, 2]] = True
    remaining = used | ~dropped
    gone = np.zeros(graph.num_relations, dtype=bool)
    gone[facts.rows[taken, 1]] = True
    gone[rest[:, 1]] = False
    forward = ~gone[0::2]
    new_entities, new_relations = (
        np.cumsum(each, dtype=np.int32) - 1 for each in (remaining, forward)
    )
    qualifiers = graph.qualifiers.about(rest)
    notes = graph.notes
    if lost := len(graph.qualifiers) - len(qualifiers):
        notes = (*notes, f"{counted(lost, 'statement')} about values of attributes skipped")
    qualifiers = qualifiers.renumbered(new_entities, new_relations)
    rest[:, [0, 2]] = new_entities[rest[:, [0, 2]]]
    rest[:, 1] = 2 * new_relations[rest[:, 1] >> 1]
    values.rows["entity"] = new_entities[values.rows["entity"]]
    splits = facts.splits[~taken]
    train, valid, test = (np.ascontiguousarray(rest[splits == i]) for i in range(len(SPLITS)))
    entities = Vocabulary(compress(graph.entities, remaining), "entity", graph.entities.names)
    relations = directed(compress(graph.relations[0::2], forward))
    relations = Vocabulary(relations.labels, "relation", graph.relations.names)
    return replace(
        graph,
        entities=entities,
        relations=relations,
        train=train,
        valid=valid,
        test=test,
        qualifiers=qualifiers,
        notes=notes,
    )
