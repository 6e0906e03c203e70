"""Labels, their ids and readable names; those of a large graph in a trie on disk."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from importlib.util import find_spec
from itertools import chain, count
from pathlib import Path
from typing import Any

import numpy as np

from tacit.errors import DataError, UnknownName
from tacit.graph.labels.spelling import Places, Spelling, spaced, word_beginning

_MANY = 100_000  # labels, among which a search for parts of a name takes seconds
_WORDS = 8  # words of a typed name, whose parts are looked up
_TYPED = 200  # letters of a name that people mistype
_CANDIDATES = 50  # candidates for each completion, of which the best are chosen


class Vocabulary(Sequence[str]):
    """The labels of entities or relations; the position of a label is its id.

    A label may have readable names, the best one first. The name of a single label can be used in
    its place.

    >>> countries = Vocabulary(["France", "Germany", "Ghana"], kind="entity")
    >>> countries.id("Germany"), countries[2], countries.complete("g")
    (1, 'Ghana', ['Ghana', 'Germany'])
    >>> countries.id("Frnace")
    Traceback (most recent call last):
    tacit.errors.UnknownName: unknown entity 'Frnace'; did you mean 'France'?
    >>> cities = Vocabulary(["Q90", "Q64"], names={"Q90": ("Paris", "Ville-Lumière")})
    >>> cities.id("Paris"), cities.name(0), cities.name(1), cities.complete("par")
    (0, 'Paris', 'Q64', ['Paris'])
    """

    def __init__(
        self,
        labels: Iterable[str],
        kind: str = "entity",
        names: Mapping[str, Iterable[str]] | None = None,
        forms: Mapping[str, Places] | None = None,
    ) -> None:
        # `forms` are the stored rows of a `Spelling`
        self.kind = kind
        self.labels: Sequence[str]
        self._find: Callable[[Any], int | None]
        if isinstance(labels, LabelTrie):
            self.labels = labels
            self._find = labels.find
        else:
            self.labels = list(labels)
            # a dict has the ids already
            numbered = zip(self.labels, count(), strict=False)
            ids = labels if isinstance(labels, dict) else dict(numbered)
            if len(ids) != len(self.labels):
                twice = next(label for i, label in enumerate(self.labels) if ids[label] != i)
                raise ValueError(f"{kind} label '{twice}' occurs twice")
            self._find = ids.get
        named = ((label, tuple(texts)) for label, texts in (names or {}).items() if label in self)
        self.names = {label: texts for label, texts in named if texts}
        self._forms = forms or {}

    def __len__(self) -> int:
        return len(self.labels)

    def __getitem__(self, position):  # type: ignore[no-untyped-def]
        return self.labels[position]

    def __iter__(self) -> Iterator[str]:
        return iter(self.labels)

    def __contains__(self, label: object) -> bool:
        return self._find(label) is not None

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Vocabulary) and list(self.labels) == list(other.labels)

    __hash__ = None  # type: ignore[assignment]

    def __repr__(self) -> str:
        return f"Vocabulary({len(self)} {self.kind} labels)"

    def name(self, id: int) -> str:
        """The first readable name of an id, or its label."""
        label = self.labels[id]
        return self.names[label][0] if label in self.names else label

    def get(self, label: str) -> int | None:
        """The id of a label, or of an unambiguous name; else None."""
        ids = self.resolve(label)
        return ids[0] if len(ids) == 1 else None

    def id(self, label: str) -> int:
        """The id of a label or name; an error suggests the nearest or lists the matches."""
        ids = self.resolve(label)
        if len(ids) == 1:
            return ids[0]
        if ids:
            raise UnknownName.ambiguous(self.kind, label, [self.labels[i] for i in ids])
        raise UnknownName(self.kind, label, self.nearest(label))

    def resolve(self, text: str) -> list[int]:
        """The ids of a label or name."""
        if not isinstance(text, str):
            raise DataError(f"{self.kind} is {text!r}; it must be a text")
        known = self._find(text)
        if known is not None:
            return [known]
        return self.called(text)

    def called(self, text: str) -> list[int]:
        """The ids with a readable name."""
        return self._named.get(text, []) if self.names else []

    @cached_property
    def _named(self) -> dict[str, list[int]]:
        table: dict[str, list[int]] = {}
        for label, names in self.names.items():
            for name in dict.fromkeys(names):
                table.setdefault(name, []).extend(self.resolve(label))
        return table

    @cached_property
    def spelling(self) -> Spelling:
        """The search for texts by their spelling, among all labels, then all names."""
        texts = Chained(self.labels, list(self._named)) if self.names else self.labels
        return Spelling(texts, self._forms)

    def nearest(self, label: str, count: int = 3) -> list[str]:
        """The labels or names most similar to a text: equal forms, then near spellings.

        Texts that share most of its words, or its beginning, come last.

        >>> Vocabulary(["borders", "capital_of"], kind="relation").nearest("has_capital")
        ['capital_of']
        """
        if len(label) > _TYPED:
            return []
        if same := self.spelling.like(label):
            return self._unambiguous(same, count)
        near = self._unambiguous(self.spelling.misspelt(label, count), count)
        if len(near) == count or (near and len(self) > _MANY):
            return near
        return list(dict.fromkeys((*near, *self._sharing(label, count))))[:count]

    def _sharing(self, label: str, count: int) -> Iterator[str]:
        """Yields texts that match most of the typed words, the longest part first."""
        words = spaced(label).split()
        for size in range(len(words), 0, -1) if len(words) <= _WORDS else ():
            for at in range(len(words) - size + 1):
                part = " ".join(words[at : at + size])
                if len(part) >= max(2, len(label) / 2):
                    yield from self._unambiguous(self.spelling.like(part), count)
                    yield from self.complete(part, count)

    def _unambiguous(self, texts: Iterable[str], count: int) -> list[str]:
        """The text for each id, or its label where the text is an ambiguous name."""
        shown: dict[int, str] = {}
        for text in texts:
            ids = self.resolve(text)
            for i in ids:
                shown.setdefault(i, text if len(ids) == 1 else self.labels[i])
            if len(shown) >= count:
                break
        return list(shown.values())[:count]

    def complete(
        self, prefix: str, limit: int = 10, among: Sequence[int] | None = None
    ) -> list[str]:
        """Labels and names with a word that starts with a prefix, in any case or accents.

        Texts that start with it come first, and the shorter before the longer. `among` restricts
        the ids, which stay in order if the prefix is empty.
        """
        typed = spaced(prefix)
        if not typed:
            ids = range(len(self)) if among is None else among
            return [self.labels[i] for i in ids[:limit]]
        # the rank of each id: whether only a later word has the prefix, the length, the text
        best: dict[int, tuple[bool, int, str]] = {}
        for text, start, ids in self._beginning(typed, among):
            rank = start > 0, len(text), text
            best |= {i: min(rank, best.get(i, rank)) for i in ids}
            if len(best) >= _CANDIDATES * limit:
                break
        texts = ((i, best[i][2]) for i in sorted(best, key=best.__getitem__)[:limit])
        return [text if self.resolve(text) == [i] else self.labels[i] for i, text in texts]

    def _beginning(
        self, typed: str, among: Iterable[int] | None
    ) -> Iterator[tuple[str, int, list[int]]]:
        """Yields texts with a word that begins like `typed`, its position, and their ids."""
        if among is None:
            for text, start in self.spelling.beginning(typed):
                yield text, start, self.resolve(text)
            return
        pattern = word_beginning(typed)
        for i in among:
            for text in (self.labels[i], *self.names.get(self.labels[i], ())):
                if match := pattern.search(spaced(text)):
                    yield text, match.start(), [i]


def trie_of(labels: Sequence[str]) -> tuple[Any, Places] | None:
    """A trie of labels; the trie's id of each label, and the position of each trie id.

    It is None if marisa-trie is not installed, or if a label has a zero character, which ends the
    trie's look-ups.
    """
    if find_spec("marisa_trie") is None or any("\0" in label for label in labels):
        return None
    import marisa_trie

    trie = marisa_trie.Trie(labels)
    ids = np.empty((2, len(labels)), dtype=np.int32)
    ids[0] = np.fromiter(map(trie.__getitem__, labels), np.int32, len(labels))
    ids[1, ids[0]] = np.arange(len(labels), dtype=np.int32)
    return trie, ids


class LabelTrie(Sequence[str]):
    """The labels of a trie in the order of their ids, none of them in memory."""

    def __init__(self, trie: Any, ids: Places) -> None:
        self._trie = trie
        self._in_trie, self._positions = ids

    @classmethod
    def open(cls, path: Path, ids: Places) -> LabelTrie:
        """Maps the labels of a trie's file into memory."""
        import marisa_trie

        return cls(marisa_trie.Trie().mmap(str(path)), ids)

    def __len__(self) -> int:
        return len(self._in_trie)

    def __getitem__(self, position):  # type: ignore[no-untyped-def]
        if isinstance(position, slice):
            return [self._trie.restore_key(i) for i in self._in_trie[position].tolist()]
        return self._trie.restore_key(int(self._in_trie[position]))

    def __iter__(self) -> Iterator[str]:
        return map(self._trie.restore_key, map(int, self._in_trie))

    def find(self, label: object) -> int | None:
        """The position of a label, or None."""
        if not isinstance(label, str) or "\0" in label:
            return None
        try:
            id_ = self._trie.get(label)
        except UnicodeEncodeError:  # half a surrogate pair, which no file holds
            return None
        return None if id_ is None else int(self._positions[id_])


@dataclass(frozen=True, eq=False)
class Chained(Sequence[str]):
    """Concatenates two sequences without copying them."""

    first: Sequence[str]
    second: Sequence[str]

    def __len__(self) -> int:
        return len(self.first) + len(self.second)

    def __getitem__(self, position):  # type: ignore[no-untyped-def]
        inside = position - len(self.first)
        return self.first[position] if inside < 0 else self.second[inside]

    def __iter__(self) -> Iterator[str]:
        return chain(self.first, self.second)
