"""What was meant by a text that nothing is called: what differs in case, accents and separators, or is misspelt."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from functools import cached_property
from itertools import chain

from tacit.graph.labels.trie import is_large
from tacit.graph.labels.typed_forms import Forms, Places, folded, folded_rows

_ALPHABET = "abcdefghijklmnopqrstuvwxyz0123456789"
_AROUND = 1000  # forms compared on either side of a misspelt one, where there are too many to compare with all

ByLength = dict[int, list[str]]


class Spelling:
    """Texts that are found by what was typed for them; `rows` are those of their folded forms, if they were kept."""

    def __init__(self, texts: Sequence[str], rows: Places | None = None) -> None:
        self._texts = texts
        self._forms = Forms(texts, folded, folded_rows(texts) if rows is None else rows)

    def like(self, typed: str) -> list[str]:
        """All texts that are the same but for case, accents and separators."""
        return self._forms.equal(folded(typed))

    def misspelt(self, typed: str, count: int) -> list[str]:
        """The texts a few letters away, the nearest first; a letter put in, left out, replaced or swapped is one."""
        wanted, many = folded(typed), is_large(self._texts)
        forms = self._near(wanted) if many else self._by_length
        distances: dict[str, int] = {}
        for form, distance in _spelt_like(wanted, forms, max(1, len(wanted) // 4), count):
            distances |= dict.fromkeys(self._forms.equal(form), distance)
        if not many:  # a letter may fold to two, as ß does, or be the only one: these are compared as they are, too
            texts = self._irregular if _regular(typed) else _by_length(self._texts)
            for near, distance in _spelt_like(typed, texts, 1, count):
                distances[near] = min(distance, distances.get(near, distance))
        return sorted(distances, key=distances.__getitem__)

    def _near(self, wanted: str) -> ByLength:
        """The forms one letter away, and those next in the alphabet."""
        near = dict.fromkeys(form for form in _one_away(wanted) if self._forms.equal(form))
        return _by_length(near | dict.fromkeys(self._forms.around(wanted, _AROUND)))

    @cached_property
    def _by_length(self) -> ByLength:
        return _by_length(dict.fromkeys(map(folded, self._texts)))

    @cached_property
    def _irregular(self) -> ByLength:
        return _by_length(text for text in self._texts if not _regular(text))


def _regular(text: str) -> bool:
    """Whether a wrong letter of a text is a wrong letter of its folding."""
    return text.isascii() and any(map(str.isalnum, text))


def _by_length(texts: Iterable[str]) -> ByLength:
    groups: ByLength = {}
    for text in texts:
        groups.setdefault(len(text), []).append(text)
    return groups


def _spelt_like(text: str, by_length: ByLength, most: int, count: int) -> Iterator[tuple[str, int]]:
    """The texts at most so many letters away, with their distance; only those of about its length are looked at."""
    from rapidfuzz.distance import OSA
    from rapidfuzz.process import extract

    texts = chain.from_iterable(by_length.get(len(text) + more, ()) for more in range(-most, most + 1))
    for near, distance, _ in extract(text, list(texts), scorer=OSA.distance, score_cutoff=most, limit=count):
        yield near, int(distance)


def _one_away(text: str) -> Iterator[str]:
    """The texts that differ by a letter put in, left out, replaced or swapped with the next."""
    letters = dict.fromkeys(_ALPHABET + text)
    for at in range(len(text) + 1):
        start, rest = text[:at], text[at:]
        yield start + rest[1:]
        yield start + rest[1:2] + rest[:1] + rest[2:]
        for letter in letters:
            yield start + letter + rest
            yield start + letter + rest[1:]
