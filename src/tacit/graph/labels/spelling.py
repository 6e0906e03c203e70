"""Finds labels by case-insensitive, prefix and fuzzy matches."""

from __future__ import annotations

import re
from bisect import bisect_left
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import islice, takewhile
from unicodedata import combining, normalize

import numpy as np
from numpy.typing import NDArray

Places = NDArray[np.int32]
LARGE = 1_000_000  # labels from which their tables are worth files
_SEPARATORS = re.compile(r"[\W_]+")
_WORD = re.compile(r"(?<=[\W_])[^\W_]")  # a letter or digit after a separator
# limits for texts as long as a page
_SORTED = 100  # letters by which forms are sorted
_WORDS = 50  # words by which a text is found
_STROKES = str.maketrans("łøđħı", "lodhi")  # letters that Unicode does not decompose
_ALPHABET = "abcdefghijklmnopqrstuvwxyz0123456789"
_AROUND = 1000  # forms on either side of a misspelt one, if there are too many to compare with all


@dataclass(frozen=True, eq=False)
class Forms(Sequence[str]):
    """The forms of some texts in alphabetical order, each computed when accessed.

    Each has the place of its text, and its start in the form of that text.
    """

    texts: Sequence[str]
    form: Callable[[str], str]
    places: Places
    starts: Places

    def __len__(self) -> int:
        return len(self.places)

    def __getitem__(self, at):  # type: ignore[no-untyped-def]
        return self.form(self.texts[int(self.places[at])])[int(self.starts[at]) :]

    def beginning(self, prefix: str) -> Iterator[int]:
        """The positions of the forms that begin with a prefix."""
        start = prefix[:_SORTED]
        places = takewhile(
            lambda at: self[at].startswith(start), range(bisect_left(self, start), len(self))
        )
        return places if start == prefix else (at for at in places if self[at].startswith(prefix))

    def equal(self, form: str) -> list[str]:
        """The texts with a form."""
        places = takewhile(lambda at: self[at] == form, range(bisect_left(self, form), len(self)))
        return [self.texts[int(self.places[at])] for at in places]

    def around(self, form: str, most: int) -> Iterable[str]:
        """The alphabetically nearest forms, at most `most` on either side."""
        at = bisect_left(self, form)
        return (self[i] for i in range(max(0, at - most), min(len(self), at + most)))


def is_large(labels: Sequence[str]) -> bool:
    """Whether labels are so many that their tables are kept in files."""
    return len(labels) >= LARGE


def folded_rows(texts: Iterable[str]) -> Places:
    """The rows of `Forms` by `folded`, one per text."""
    forms = list(map(folded, texts))
    order = np.array(sorted(range(len(forms)), key=forms.__getitem__), dtype=np.int32)
    return np.stack((order, np.zeros_like(order)))


def word_rows(texts: Iterable[str]) -> Places:
    """The rows of `Forms` by `spaced`: each text, and its ends from each later word on."""
    forms = list(map(spaced, texts))
    places = list(range(len(forms)))
    starts = [0] * len(forms)
    ends = forms.copy()
    for place, form in enumerate(forms):
        for word in islice(_WORD.finditer(form), _WORDS):
            places.append(place)
            starts.append(word.start())
            ends.append(form[word.start() : word.start() + _SORTED])
    # The sort is stable: of equal ends, those that are whole texts stay first.
    order = np.array(sorted(range(len(ends)), key=ends.__getitem__), dtype=np.int64)
    return np.stack(
        (np.array(places, dtype=np.int32)[order], np.array(starts, dtype=np.int32)[order])
    )


def word_beginning(start: str) -> re.Pattern[str]:
    """A pattern for forms that begin with a text, or have a word that does."""
    text = re.escape(start)
    return re.compile(rf"^{text}|(?<=[\W_])(?=[^\W_]){text}")


def folded(label: str) -> str:
    """A label without case, accents and separators."""
    return _SEPARATORS.sub("", plain(label)) or label


def spaced(label: str) -> str:
    """A label without case and accents, its underscores replaced by spaces."""
    return plain(label).replace("_", " ")


def plain(label: str) -> str:
    """A label without case and accents."""
    small = label.casefold()
    if small.isascii():
        return small
    return "".join(c for c in normalize("NFKD", small) if not combining(c)).translate(_STROKES)


@dataclass(eq=False)
class Spelling:
    """Searches texts by spelling; `stored` has the rows of a search of the same texts."""

    texts: Sequence[str]
    stored: Mapping[str, Places]

    def rows(self) -> dict[str, Places]:
        """The tables of the search, which may be stored and reused."""
        return {"words": word_rows(self.texts), "folded": folded_rows(self.texts)}

    @cached_property
    def _words(self) -> Forms:
        rows = self.stored["words"] if self.stored else word_rows(self.texts)
        return Forms(self.texts, spaced, *rows)

    @cached_property
    def _forms(self) -> Forms:
        rows = self.stored["folded"] if self.stored else folded_rows(self.texts)
        return Forms(self.texts, folded, *rows)

    def beginning(self, typed: str) -> Iterator[tuple[str, int]]:
        """Yields texts with a word that begins like `typed`, and where it starts in their form."""
        for at in self._words.beginning(typed):
            yield self.texts[int(self._words.places[at])], int(self._words.starts[at])

    def like(self, typed: str) -> list[str]:
        """All texts that are equal but for case, accents and separators."""
        return self._forms.equal(folded(typed))

    def misspelt(self, typed: str, count: int) -> list[str]:
        """The texts within a few edits, the nearest first.

        An edit inserts, deletes, replaces or swaps letters.
        """
        target = folded(typed)
        many = is_large(self.texts)
        forms = self._near(target) if many else self._distinct
        distances: dict[str, int] = {}
        for form, distance in _spelt_like(target, forms, max(1, len(target) // 4), count):
            distances |= dict.fromkeys(self._forms.equal(form), distance)
        # ß folds to two letters, and a text may have one letter: such texts are compared unfolded
        if not many:
            texts = self._irregular if _regular(typed) else sorted(self.texts, key=len)
            for near, distance in _spelt_like(typed, texts, 1, count):
                distances[near] = min(distance, distances.get(near, distance))
        return sorted(distances, key=distances.__getitem__)

    def _near(self, form: str) -> list[str]:
        """The forms one edit away, and the alphabetically nearest ones."""
        near = [other for other in _one_away(form) if self._forms.equal(other)]
        return sorted(dict.fromkeys((*near, *self._forms.around(form, _AROUND))), key=len)

    @cached_property
    def _distinct(self) -> list[str]:
        """All distinct forms, the shorter before the longer."""
        return sorted(dict.fromkeys(map(folded, self.texts)), key=len)

    @cached_property
    def _irregular(self) -> list[str]:
        return sorted((text for text in self.texts if not _regular(text)), key=len)


def _regular(text: str) -> bool:
    """Whether an edit of a text is an edit of its folded form."""
    return text.isascii() and any(map(str.isalnum, text))


def _spelt_like(text: str, texts: list[str], most: int, count: int) -> Iterator[tuple[str, int]]:
    """Yields the texts within `most` edits, with their distance."""
    from rapidfuzz.distance import OSA
    from rapidfuzz.process import extract

    for near, distance, _ in extract(
        text, texts, scorer=OSA.distance, score_cutoff=most, limit=count
    ):
        yield near, int(distance)


def _one_away(text: str) -> Iterator[str]:
    """Yields the texts one edit away: an insertion, deletion, replacement or swap."""
    letters = dict.fromkeys(_ALPHABET + text)
    for at in range(len(text) + 1):
        start = text[:at]
        end = text[at:]
        yield start + end[1:]
        yield start + end[1:2] + end[:1] + end[2:]
        for letter in letters:
            yield start + letter + end
            yield start + letter + end[1:]
