"""Which relations must become attributes, and by which name, kind and unit."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from typing import NamedTuple

from tacit.errors import UnknownName
from tacit.graph.attributes import Attribute
from tacit.graph.graph import INVERSE, Graph
from tacit.graph.quantities import Kind


class Form(NamedTuple):
    """The attribute that a relation is to become, of a kind that may be open.

    A fact without a value stays a fact if the relation is to keep them, or else is an error.
    """

    name: str
    kind: Kind | None = None
    unit: str = ""
    keeps_facts: bool = False

    @classmethod
    def of(cls, attribute: Attribute) -> Form:
        """The form of an attribute."""
        return cls(attribute.name, attribute.kind, attribute.unit)


def required_forms(
    graph: Graph, names: Sequence[str] | None, like: Graph | None
) -> dict[int, Form]:
    """The attributes that relations must become: wanted ones, and those known by name."""
    forms: dict[int, Form] = {}
    own = graph.attributes
    bare = {}
    for relation in range(0, graph.num_relations, 2):
        label = graph.relations[relation]
        declared = Attribute.declared(label)
        bare[relation] = declared.name if declared else label
        for name in dict.fromkeys((label, bare[relation])):
            stated = declared if name != label else None
            if (known := own.names.get(name)) is not None:
                forms[relation] = _like(own.listed[known], stated, name, keeps_facts=True)
            elif like is not None and (other := _known_as(like, graph, name)) is not None:
                keeps_facts = is_relation_of(like, graph, relation)
                forms[relation] = _like(like.attributes.listed[other], stated, name, keeps_facts)
    for text in names or ():
        forms |= _forms_of(graph, text, bare)
    return forms


def _like(known: Attribute, stated: Attribute | None, name: str, keeps_facts: bool) -> Form:
    """The form of a known attribute, or of what a relation states itself: both must be alike."""
    if stated is None:
        return Form(name, known.kind, known.unit, keeps_facts)
    return Form(name, stated.kind, stated.unit or known.unit, keeps_facts)


def _forms_of(graph: Graph, text: str, bare: Mapping[int, str]) -> dict[int, Form]:
    """The attributes that the relations of a name must become; `bare` has names without units."""
    declared = Attribute.declared(text)
    for name in (text, declared.name if declared else text):
        found = {id_ & ~1 for id_ in graph.relations.resolve(name)}
        found |= {r for r in bare if name in (bare[r], *_spellings(graph, graph.relations[r]))}
        known = [label for label in graph.attributes.names if name in _spellings(graph, label)]
        if found or known:
            break
    else:
        near = graph.relations.nearest(text)
        raise UnknownName("relation", text, [each for each in near if INVERSE not in each])
    forms = {}
    for relation in found:
        stated = declared if name != text else Attribute.declared(graph.relations[relation])
        form = Form.of(stated) if stated else Form("")
        forms[relation] = form._replace(name=bare[relation])
    return forms


def _spellings(graph: Graph, label: str) -> set[str]:
    """A label, its IRI, and the last word of that."""
    iri = graph.iri(label) if graph.prefixes else None
    if iri is None:
        return {label}
    return {label, f":{label}", iri, f"<{iri}>", iri[max(map(iri.rfind, "/#:")) + 1 :]}


def _known_as(other: Graph, graph: Graph, label: str) -> int | None:
    """The id of an attribute of another graph that a label of this one names."""
    known = other.attributes.names
    iri = graph.iri(label)
    own = None if iri is None else other.label_of(iri)
    return known.get(label) if own is None else known.get(own)


def is_relation_of(other: Graph | None, graph: Graph, relation: int) -> bool:
    """Whether another graph has a relation of this one."""
    if other is None:
        return False
    label = graph.relations[relation]
    iri = graph.iri(label)
    own = None if iri is None else other.label_of(iri)
    return other.relations.get(own or label) is not None


def with_bare_names(
    graph: Graph, recognised: Mapping[int, Form], others: Iterable[Form]
) -> dict[int, Form]:
    """The forms of recognised relations; one keeps its unit in its name where that is needed."""
    uses = Counter(name for name, _, _ in {form[:3] for form in (*recognised.values(), *others)})
    forms = {}
    for relation, form in recognised.items():
        label = graph.relations[relation]
        # square brackets are no part of a name, and round ones may be
        taken = not label.endswith("]") and form.name in graph.relations
        if form.name != label and (uses[form.name] > 1 or taken):
            form = form._replace(name=label)
        forms[relation] = form
    return forms
