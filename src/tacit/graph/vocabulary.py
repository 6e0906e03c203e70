"""Labels, their ids, and the names people know them by."""

from __future__ import annotations

import re
from bisect import bisect_left
from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import cached_property
from itertools import chain
from unicodedata import combining, normalize

from tacit.errors import UnknownName


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
        self, labels: Iterable[str], kind: str = "entity", names: Mapping[str, Iterable[str]] | None = None
    ) -> None:
        self.labels = list(labels)
        self.kind = kind
        self._ids = dict(zip(self.labels, range(len(self.labels)), strict=True))
        if len(self._ids) != len(self.labels):
            twice = next(label for i, label in enumerate(self.labels) if self._ids[label] != i)
            raise ValueError(f"{kind} label '{twice}' occurs twice")
        self.names: dict[str, tuple[str, ...]] = {
            label: given for label in names or () if label in self._ids and (given := tuple((names or {})[label]))
        }

    def __len__(self) -> int:
        return len(self.labels)

    def __getitem__(self, position):  # type: ignore[no-untyped-def]
        return self.labels[position]

    def __iter__(self) -> Iterator[str]:
        return iter(self.labels)

    def __contains__(self, label: object) -> bool:
        return label in self._ids

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Vocabulary) and self.labels == other.labels

    __hash__ = None  # type: ignore[assignment]

    def __repr__(self) -> str:
        return f"Vocabulary({len(self)} {self.kind} labels)"

    def name(self, id: int) -> str:
        """The first readable name of an id, or else its label."""
        label = self.labels[id]
        return self.names[label][0] if label in self.names else label

    def get(self, label: str) -> int | None:
        """The id of a label, or of the only one that has this name, or None."""
        ids = self._meant(label)
        return ids[0] if len(ids) == 1 else None

    def id(self, label: str) -> int:
        """The id of a label or name; an unknown one is an error that names the nearest, an ambiguous one all it has."""
        ids = self._meant(label)
        if len(ids) == 1:
            return ids[0]
        raise UnknownName(self.kind, label, [self.labels[i] for i in ids[:10]] or self.nearest(label))

    def _meant(self, text: str) -> list[int]:
        """The ids that a label or a name stands for."""
        if text in self._ids:
            return [self._ids[text]]
        return self._named.get(text, []) if self.names else []

    @cached_property
    def _named(self) -> dict[str, list[int]]:
        table: dict[str, list[int]] = {}
        for label, names in self.names.items():
            for name in dict.fromkeys(names):
                table.setdefault(name, []).append(self._ids[label])
        return table

    @cached_property
    def _texts(self) -> list[str]:
        """All that can be written: labels, then names."""
        return [*self.labels, *self._named]

    def _written(self, texts: Iterable[str], count: int) -> list[str]:
        """What to write for the ids of some texts, once each: the text, or the label where a name is ambiguous."""
        forms: dict[int, str] = {}
        for text in texts:
            ids = self._meant(text)
            for i in ids:
                forms.setdefault(i, text if len(ids) == 1 else self.labels[i])
            if len(forms) >= count:
                break
        return list(forms.values())[:count]

    def nearest(self, label: str, count: int = 3) -> list[str]:
        """Labels or names a person may have meant: the same but for case, accents and separators, else by spelling."""
        if len(label) > 200:  # nobody mistypes this much
            return []
        return self._written(self._by_folding.get(_folded(label)) or self._misspelt(label, count), count)

    def _misspelt(self, label: str, count: int) -> list[str]:
        """The texts a few letters away, the nearest first; a letter put in, left out, replaced or swapped is one."""
        wanted, (foldings, irregular) = _folded(label), self._by_length
        distances: dict[str, int] = {}
        for folding, distance in _spelt_like(wanted, foldings, max(1, len(wanted) // 4), count):
            distances |= dict.fromkeys(self._by_folding[folding], distance)
        # A letter may fold to two, as ß does, or be the only one: such labels are compared as they are, too.
        texts = irregular if _regular(label) else _by_length(self._texts)
        for near, distance in _spelt_like(label, texts, 1, count):
            distances[near] = min(distance, distances.get(near, distance))
        return sorted(distances, key=distances.__getitem__)

    def complete(self, prefix: str, limit: int = 10) -> list[str]:
        """Labels and names that start with a prefix, or have a word that does, whatever case and accents.

        Those that start with it come first, and the shorter before the longer.
        """
        wanted = _spaced(prefix)
        if not wanted:
            return self.labels[:limit]
        keys, places = self._words
        ranks: dict[int, int] = {}
        at = bisect_left(keys, (wanted,))
        while at < len(keys) and keys[at][0].startswith(wanted) and len(ranks) < 50 * limit:
            rank = keys[at][1]
            ranks[places[at]] = min(rank, ranks.get(places[at], rank))
            at += 1
        order = sorted(ranks, key=lambda i: (ranks[i] > 0, len(self._texts[i]), self._texts[i]))
        return self._written((self._texts[i] for i in order), limit)

    @cached_property
    def _by_folding(self) -> dict[str, list[str]]:
        table: dict[str, list[str]] = {}
        for text in self._texts:
            table.setdefault(_folded(text), []).append(text)
        return table

    @cached_property
    def _by_length(self) -> tuple[dict[int, list[str]], dict[int, list[str]]]:
        """The foldings, and the texts that do not fold letter by letter."""
        return _by_length(self._by_folding), _by_length(text for text in self._texts if not _regular(text))

    @cached_property
    def _words(self) -> tuple[list[tuple[str, int]], list[int]]:
        """Every end of a text that begins with a word, sorted, with the word's position; and the text's place."""
        rows: list[tuple[str, int, int]] = []
        for i, text in enumerate(self._texts):
            folded = _spaced(text)
            starts = [0] + [j + 1 for j, c in enumerate(folded[:-1]) if not c.isalnum() and folded[j + 1].isalnum()]
            rows += [(folded[start:], position, i) for position, start in enumerate(dict.fromkeys(starts))]
        rows.sort()
        return [(text, position) for text, position, _ in rows], [i for *_, i in rows]


_SEPARATORS = re.compile(r"[\W_]+")
_STROKES = str.maketrans("łøđħı", "lodhi")  # letters that Unicode does not take apart


def _folded(label: str) -> str:
    return _SEPARATORS.sub("", _plain(label)) or label


def _regular(label: str) -> bool:
    """Whether a wrong letter of a label is a wrong letter of its folding."""
    return label.isascii() and any(map(str.isalnum, label))


def _by_length(texts: Iterable[str]) -> dict[int, list[str]]:
    groups: dict[int, list[str]] = {}
    for text in texts:
        groups.setdefault(len(text), []).append(text)
    return groups


def _spelt_like(text: str, by_length: dict[int, list[str]], most: int, count: int) -> Iterator[tuple[str, int]]:
    """The texts at most so many letters away, with their distance; only those of about its length are looked at."""
    from rapidfuzz.distance import OSA
    from rapidfuzz.process import extract

    texts = chain.from_iterable(by_length.get(len(text) + more, ()) for more in range(-most, most + 1))
    for near, distance, _ in extract(text, list(texts), scorer=OSA.distance, score_cutoff=most, limit=count):
        yield near, int(distance)


def _spaced(label: str) -> str:
    """Underscores stand for spaces in many graphs: both complete alike."""
    return _plain(label).replace("_", " ")


def _plain(label: str) -> str:
    """Without case and accents, which a keyboard may not have."""
    folded = label.casefold()
    if folded.isascii():
        return folded
    return "".join(c for c in normalize("NFKD", folded) if not combining(c)).translate(_STROKES)
