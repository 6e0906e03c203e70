"""The new names in added facts, and the doubtful ones that need consent."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

from tacit.errors import DataError
from tacit.graph.builder import counted
from tacit.graph.graph import INVERSE, Graph
from tacit.graph.labels.near_duplicates import resembling
from tacit.graph.labels.vocabulary import Vocabulary

SHOWN = 5  # names of a kind in a line


@dataclass(frozen=True)
class NewNames:
    """The labels that a run does not know, with the known ones that they resemble.

    `relations` have the nearest known relation, or None. `near` are new entities that nearly repeat
    a known one, `same` new entities and relations that differ from a known one in case, spaces or
    the way Unicode writes them alone.
    """

    entities: tuple[str, ...] = ()
    relations: dict[str, str | None] = field(default_factory=dict)
    near: dict[str, str] = field(default_factory=dict)
    same: dict[str, str] = field(default_factory=dict)

    @classmethod
    def of(cls, before: Graph, after: Graph) -> NewNames:
        """The new names of a larger graph."""
        entities = tuple(after.entities[before.num_entities :])
        relations = tuple(after.relations[before.num_relations :: 2])
        of_entities = resembling(entities, _texts(before.entities))
        of_relations = resembling(relations, _texts(before.relations))
        nearest = {
            label: of_relations.same.get(label) or _nearest(before.relations, label)
            for label in relations
        }
        return cls(entities, nearest, of_entities.near, {**of_entities.same, **of_relations.same})

    @property
    def is_doubtful(self) -> bool:
        """Whether some of the names need consent."""
        return bool(self.relations or self.near or self.same)

    def check(self, new: bool, force: bool) -> None:
        """Raise a `DataError` for doubtful names without consent.

        `force` accepts all of them, `new` all but the `same`.
        """
        if force or not self.is_doubtful or (new and not self.same):
            return
        doubtful = self.doubts(relations=not new, near=not new)
        agree = "`force=True`" if self.same else "`new=True`"
        known = [
            *self.same.values(),
            *(label for label in self.relations.values() if label),
            *self.near.values(),
        ]
        raise DataError(
            f"nothing was added: {'; '.join(doubtful)}; write the known names, or add these as "
            f"they are with {agree}",
            suggestions=list(dict.fromkeys(known))[:10],
        )

    def lines(self) -> list[str]:
        """All new names as text, one line for each kind."""
        count = counted(len(self.entities), "new entity", "new entities")
        entities = [f"{count}: {listed(self.entities)}"] if self.entities else []
        return [*entities, *self.doubts()]

    def doubts(self, relations: bool = True, near: bool = True) -> list[str]:
        """The doubtful names as text, one line for each kind."""
        doubts = []
        if self.same:
            pairs = [f"'{label}' ('{known}')" for label, known in self.same.items()]
            doubts.append(
                f"{counted(len(pairs), 'new name')} differing from a known one in case, spaces or "
                f"Unicode form alone: {listed(pairs)}"
            )
        unlike = {label: known for label, known in self.relations.items() if label not in self.same}
        if unlike and relations:
            pairs = _questions(unlike)
            doubts.append(f"{counted(len(pairs), 'new relation')}: {listed(pairs)}")
        if self.near and near:
            count = counted(len(self.near), "new entity", "new entities")
            doubts.append(
                f"{count} with nearly the name of a known one: {listed(_questions(self.near))}"
            )
        return doubts


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


def _nearest(relations: Vocabulary, label: str) -> str | None:
    return next((text for text in relations.nearest(label) if not text.endswith(INVERSE)), None)


def listed(names: Iterable[str]) -> str:
    """The first of some names, and how many more there are."""
    every = list(names)
    more = f" and {len(every) - SHOWN:,} more" if len(every) > SHOWN else ""
    return ", ".join(every[:SHOWN]) + more
