"""Texts by other forms of theirs: what is typed finds what is meant, without a table of strings."""

from __future__ import annotations

import re
from bisect import bisect_left
from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import islice, takewhile
from unicodedata import combining, normalize

import numpy as np
from numpy.typing import NDArray

Places = NDArray[np.int32]
_SEPARATORS = re.compile(r"[\W_]+")
_WORD = re.compile(r"(?<=[\W_])[^\W_]")  # a letter or digit after what is none
_SORTED, _WORDS = 100, 50  # letters that forms are in order by, and words of a text: one may be a whole page
_STROKES = str.maketrans("łøđħı", "lodhi")  # letters that Unicode does not take apart


class Forms(Sequence[str]):
    """The forms of some texts in alphabetical order, each made anew when it is looked at.

    Two numbers are kept of each: the place of its text, and where in the text's form it starts.
    """

    def __init__(self, texts: Sequence[str], form: Callable[[str], str], rows: Places) -> None:
        self.texts, self.form, (self.places, self.starts) = texts, form, rows

    def __len__(self) -> int:
        return len(self.places)

    def __getitem__(self, at):  # type: ignore[no-untyped-def]
        return self.form(self.texts[int(self.places[at])])[int(self.starts[at]) :]

    def beginning(self, prefix: str) -> Iterator[int]:
        """Where the forms stand that begin with a prefix."""
        start = prefix[:_SORTED]
        places = takewhile(lambda at: self[at].startswith(start), range(bisect_left(self, start), len(self)))
        return places if start == prefix else (at for at in places if self[at].startswith(prefix))

    def equal(self, form: str) -> list[str]:
        """The texts of one form."""
        places = takewhile(lambda at: self[at] == form, range(bisect_left(self, form), len(self)))
        return [self.texts[int(self.places[at])] for at in places]

    def around(self, form: str, most: int) -> Iterable[str]:
        """The forms nearest in the alphabet, so many on either side."""
        at = bisect_left(self, form)
        return (self[i] for i in range(max(0, at - most), min(len(self), at + most)))


def folded_rows(texts: Iterable[str]) -> Places:
    """The rows of `Forms` by `folded`: each text once."""
    forms = list(map(folded, texts))
    order = np.array(sorted(range(len(forms)), key=forms.__getitem__), dtype=np.int32)
    return np.stack((order, np.zeros_like(order)))


def word_rows(texts: Iterable[str]) -> Places:
    """The rows of `Forms` by `spaced`: each text as a whole, then from its second word on, its third, and so forth."""
    forms = list(map(spaced, texts))
    places, starts, ends = list(range(len(forms))), [0] * len(forms), forms.copy()
    for place, form in enumerate(forms):
        for word in islice(_WORD.finditer(form), _WORDS):
            places.append(place)
            starts.append(word.start())
            ends.append(form[word.start() : word.start() + _SORTED])
    # The sort is stable: of equal ends, those that are whole texts stay first.
    order = np.array(sorted(range(len(ends)), key=ends.__getitem__), dtype=np.int64)
    return np.stack((np.array(places, dtype=np.int32)[order], np.array(starts, dtype=np.int32)[order]))


def word_beginning(wanted: str) -> re.Pattern[str]:
    """What finds a form, or a word of it, that begins as is wanted, as `word_rows` has them."""
    text = re.escape(wanted)
    return re.compile(rf"^{text}|(?<=[\W_])(?=[^\W_]){text}")


def folded(label: str) -> str:
    """A label without case, accents and separators."""
    return _SEPARATORS.sub("", plain(label)) or label


def spaced(label: str) -> str:
    """A label without case and accents; underscores stand for spaces in many graphs, and both complete alike."""
    return plain(label).replace("_", " ")


def plain(label: str) -> str:
    """A label without case and accents, which a keyboard may not have."""
    small = label.casefold()
    if small.isascii():
        return small
    return "".join(c for c in normalize("NFKD", small) if not combining(c)).translate(_STROKES)
