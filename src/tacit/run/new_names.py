"""The names that a change of facts adds to a run, and which of them may be misspelt."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

from tacit.errors import DataError
from tacit.graph.builder import counted
from tacit.graph.graph import INVERSE, Graph
from tacit.graph.labels.near_duplicates import quoted_pair, repeated_names, resembling
from tacit.graph.labels.vocabulary import Vocabulary

SHOWN = 5  # names of a kind in a line


@dataclass(frozen=True)
class NewNames:
    """The labels that a run does not know, with the known ones that they resemble.

    `relations` and `attributes` have the nearest known one of either kind, or None. `near` are
    new entities that nearly repeat a known one, `same` new names that differ from a known one in
    case, spaces or the way Unicode writes them alone, `repeated` those that differ so from another
    new one.
    """

    entities: tuple[str, ...] = ()
    relations: dict[str, str | None] = field(default_factory=dict, hash=False)
    near: dict[str, str] = field(default_factory=dict, hash=False)
    same: dict[str, str] = field(default_factory=dict, hash=False)
    repeated: dict[str, str] = field(default_factory=dict, hash=False)
    attributes: dict[str, str | None] = field(default_factory=dict, hash=False)

    @classmethod
    def of(cls, before: Graph, after: Graph) -> NewNames:
        """The new names of a larger graph."""
        entities = tuple(after.entities[before.num_entities :])
        relations = tuple(after.relations[before.num_relations :: 2])
        of_entities = resembling(entities, _texts(before.entities))
        attributes = tuple(after.attributes.names[len(before.attributes.listed) :])
        texts = [*_texts(before.relations), *_texts(before.attributes.names)]
        same = resembling((*relations, *attributes), texts).same
        nearest = {
            label: same.get(label) or _nearest(before, label) for label in (*relations, *attributes)
        }
        same |= of_entities.same
        repeated = repeated_names(entities) | repeated_names((*relations, *attributes))
        pairs = {label: other for label, other in repeated.items() if label not in same}
        of_relations = {label: nearest[label] for label in relations}
        of_attributes = {label: nearest[label] for label in attributes}
        return cls(entities, of_relations, of_entities.near, same, pairs, of_attributes)

    @property
    def is_doubtful(self) -> bool:
        """Whether some of the names need consent."""
        return bool(self.relations or self.attributes or self.near or self.needs_force)

    @property
    def needs_force(self) -> bool:
        """Whether some of the names differ from another in case or the like alone."""
        return bool(self.same or self.repeated)

    def check(self, new: bool, force: bool) -> None:
        """Raise a `DataError` for doubtful names without consent.

        `force` accepts all of them, `new` all but the `same` and `repeated`.
        """
        if force or not self.is_doubtful or (new and not self.needs_force):
            return
        doubts = "; ".join(self.doubts(of_new=not new))
        agree = "`force=True`" if self.needs_force else "`new=True`"
        of_names = self.same, self.relations, self.attributes, self.near
        known = [known for names in of_names for known in names.values()]
        others = "the known names" if any(known) or not self.repeated else "one name for each"
        raise DataError(
            f"nothing was added: {doubts}; write {others}, or add these as they are with {agree}",
            suggestions=list(dict.fromkeys(filter(None, known)))[:10],
        )

    def lines(self) -> list[str]:
        """All new names as text, one line for each kind."""
        count = counted(len(self.entities), "new entity", "new entities")
        entities = [f"{count}: {join_names(self.entities)}"] if self.entities else []
        return [*entities, *self.doubts()]

    def doubts(self, of_new: bool = True) -> list[str]:
        """The doubtful names as text, a line for each kind; unless `of_new`, what needs force."""
        doubts = []
        if self.same:
            pairs = _pairs(self.same)
            doubts.append(
                f"{counted(len(pairs), 'new name')} differing from a known one in case, spaces or "
                f"Unicode form alone: {join_names(pairs)}"
            )
        if self.repeated:
            pairs = _pairs(self.repeated)
            doubts.append(
                f"{counted(len(pairs), 'new name')} differing from another new one in case, spaces "
                f"or Unicode form alone: {join_names(pairs)}"
            )
        for noun, names in (("relation", self.relations), ("attribute", self.attributes)):
            unlike = {label: known for label, known in names.items() if label not in self.same}
            if unlike and of_new:
                pairs = _questions(unlike)
                doubts.append(f"{counted(len(pairs), f'new {noun}')}: {join_names(pairs)}")
        if self.near and of_new:
            count = counted(len(self.near), "new entity", "new entities")
            doubts.append(
                f"{count} with nearly the name of a known one: {join_names(_questions(self.near))}"
            )
        return doubts


def _pairs(same: Mapping[str, str]) -> list[str]:
    """The new names, each with the one that it differs too little from."""
    quoted = (quoted_pair(*pair) for pair in same.items())
    return [f"{label} ({other})" for label, other in quoted]


def _questions(nearest: Mapping[str, str | None]) -> list[str]:
    """The new names, each with the known one that may have been meant."""
    return [
        f"'{label}'" + (f" (did you mean '{known}'?)" if known else "")
        for label, known in nearest.items()
    ]


def _texts(known: Vocabulary) -> Iterable[str]:
    """The labels and names of a vocabulary, without inverse relations."""
    yield from (known.labels[::2] if known.kind == "relation" else known.labels)
    yield from (
        name for names in known.names.values() for name in names if not name.endswith(INVERSE)
    )


def _nearest(graph: Graph, label: str) -> str | None:
    near = (*graph.relations.nearest(label), *graph.attributes.names.nearest(label))
    return next((text for text in near if not text.endswith(INVERSE)), None)


def join_names(names: Iterable[str]) -> str:
    """The first of some names, and how many more there are."""
    every = list(names)
    more = f" and {len(every) - SHOWN:,} more" if len(every) > SHOWN else ""
    return ", ".join(every[:SHOWN]) + more
