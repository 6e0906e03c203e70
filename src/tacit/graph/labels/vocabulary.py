"""Labels, their ids, and the names people know them by."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import cached_property
from typing import Any

from tacit.errors import UnknownName
from tacit.graph.labels.spelling import Forms, Places, Spelling, folded_rows, spaced, word_beginning, word_rows
from tacit.graph.labels.trie import Chained, LabelTrie


class Vocabulary(Sequence[str]):
    """The labels of entities or relations; the position of a label is its id.

    A label may have readable names, the best one first. A name that one label alone has can be used like it.

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
        self.kind, self._given = kind, forms or {}  # rows of forms, as `form_rows` made them
        self.labels: Sequence[str]
        self._find: Callable[[Any], int | None]
        if isinstance(labels, LabelTrie):
            self.labels, self._find = labels, labels.find
        else:  # a dict has the ids already
            self.labels = list(labels)
            ids = labels if isinstance(labels, dict) else dict(zip(self.labels, range(len(self.labels)), strict=True))
            if len(ids) != len(self.labels):
                twice = next(label for i, label in enumerate(self.labels) if ids[label] != i)
                raise ValueError(f"{kind} label '{twice}' occurs twice")
            self._find = ids.get
        named = {label: tuple(given) for label, given in (names or {}).items() if label in self}
        self.names = {label: given for label, given in named.items() if given}

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
        """The first readable name of an id, or else its label."""
        label = self.labels[id]
        return self.names[label][0] if label in self.names else label

    def get(self, label: str) -> int | None:
        """The id of a label, or of the only one that has this name, or None."""
        ids = self.meant(label)
        return ids[0] if len(ids) == 1 else None

    def id(self, label: str) -> int:
        """The id of a label or name; an unknown one is an error that names the nearest, an ambiguous one all it has."""
        ids = self.meant(label)
        if len(ids) == 1:
            return ids[0]
        raise UnknownName(self.kind, label, [self.labels[i] for i in ids[:10]] or self.nearest(label))

    def meant(self, text: str) -> list[int]:
        """The ids that a label or a name stands for."""
        known = self._find(text)
        if known is not None:
            return [known]
        return self._named.get(text, []) if self.names else []

    @cached_property
    def _named(self) -> dict[str, list[int]]:
        table: dict[str, list[int]] = {}
        for label, names in self.names.items():
            for name in dict.fromkeys(names):
                table.setdefault(name, []).extend(self.meant(label))
        return table

    @cached_property
    def _texts(self) -> Sequence[str]:
        """All that can be written: labels, then names."""
        return Chained(self.labels, list(self._named)) if self.names else self.labels

    def _written(self, texts: Iterable[str], count: int) -> list[str]:
        """What to write for the ids of some texts, once each: the text, or the label where a name is ambiguous."""
        forms: dict[int, str] = {}
        for text in texts:
            ids = self.meant(text)
            for i in ids:
                forms.setdefault(i, text if len(ids) == 1 else self.labels[i])
            if len(forms) >= count:
                break
        return list(forms.values())[:count]

    def nearest(self, label: str, count: int = 3) -> list[str]:
        """Labels or names a person may have meant: the same but for case, accents and separators, else by spelling."""
        if len(label) > 200:  # nobody mistypes this much
            return []
        return self._written(self.like(label) or self._spelling.misspelt(label, count), count)

    def like(self, label: str) -> list[str]:
        """All labels and names that are the same but for case, accents and separators."""
        return self._spelling.like(label)

    def complete(self, prefix: str, limit: int = 10, among: Sequence[int] | None = None) -> list[str]:
        """Labels and names that start with a prefix, or have a word that does, whatever case and accents.

        Those that start with it come first, and the shorter before the longer. `among` are the ids that are meant,
        which stay in their order where the prefix is empty.
        """
        wanted = spaced(prefix)
        if not wanted:
            return list(self.labels[:limit]) if among is None else [self.labels[i] for i in among[:limit]]
        best: dict[int, tuple[bool, int, str]] = {}  # whether a later word alone has the prefix; the text's length; it
        for text, start, ids in self._beginning(wanted) if among is None else self._beginning_among(wanted, among):
            rank = start > 0, len(text), text
            best |= {i: min(rank, best.get(i, rank)) for i in ids}
            if len(best) >= 50 * limit:
                break
        texts = ((i, best[i][2]) for i in sorted(best, key=best.__getitem__)[:limit])
        return [text if self.meant(text) == [i] else self.labels[i] for i, text in texts]

    def _beginning(self, wanted: str) -> Iterator[tuple[str, int, list[int]]]:
        """The texts with a word that begins as is wanted, where in the text's form it starts, and whose they are."""
        for at in self._words.beginning(wanted):
            text = self._texts[int(self._words.places[at])]
            yield text, int(self._words.starts[at]), self.meant(text)

    def _beginning_among(self, wanted: str, ids: Iterable[int]) -> Iterator[tuple[str, int, list[int]]]:
        """The same of some ids, whose texts are looked through."""
        pattern = word_beginning(wanted)
        for i in ids:
            for text in (self.labels[i], *self.names.get(self.labels[i], ())):
                if match := pattern.search(spaced(text)):
                    yield text, match.start(), [i]

    def form_rows(self) -> dict[str, Places]:
        """What `complete` and `nearest` look many labels up by, to be kept and given to the same vocabulary again."""
        return {"words": word_rows(self._texts), "folded": folded_rows(self._texts)}

    @cached_property
    def _words(self) -> Forms:
        return Forms(self._texts, spaced, self._given["words"] if self._given else word_rows(self._texts))

    @cached_property
    def _spelling(self) -> Spelling:
        return Spelling(self._texts, self._given.get("folded"))
