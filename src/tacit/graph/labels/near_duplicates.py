"""Finds new names that most probably repeat known ones, in one pass over the known.

Two names are the *same* if they differ only in case, spaces (or underscores) or Unicode form. One
*nearly repeats* another if they differ only in accents and punctuation, or in one letter of a word
of at least six letters, but not its first. Digits must be equal: `Q123` and `Q124` are as different
as any two names. So must the punctuation of names with digits: `A1.2` and `A12` are two codes.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from typing import NamedTuple
from unicodedata import category, normalize

from tacit.graph.labels.spelling import plain

SHORTEST_WORD = 6  # letters of a word in which one may be wrong; different shorter words are close
SHORTEST_NAME = 4  # letters and digits of a name whose punctuation may differ: C and C++ are two
_LONGEST_NAME = 200  # letters of a name that people mistype
_WORD = re.compile(r"[^\W_]+")
_DIGIT = re.compile(r"\d")
_PUNCTUATION = re.compile(r"[\W_]")
_NO_NAMES = ("_:", '"')  # prefixes of blank nodes and literals


class Resemblance(NamedTuple):
    """New names, each with the known name that it equals or nearly repeats."""

    same: dict[str, str]
    near: dict[str, str]


def resembling(new: Iterable[str], known: Iterable[str]) -> Resemblance:
    """The new names that equal a known one, and those that nearly repeat one.

    >>> resembling(["iron", "Irons ore", "Q124"], ["Iron", "Iron  ore", "Q123"])
    Resemblance(same={'iron': 'Iron'}, near={})
    >>> resembling(["Argentinia", "Malaga", "entity_18"], ["Argentina", "Málaga", "entity_17"]).near
    {'Argentinia': 'Argentina', 'Malaga': 'Málaga'}
    """
    by_form: dict[str, list[str]] = {}
    by_key: dict[str, list[str]] = {}
    first_letters: set[str] = set()
    for name in new:
        if len(name) > _LONGEST_NAME or name.startswith(_NO_NAMES):
            continue
        words = _words(name)
        first_letters.update(word[0] for word in words[:1])
        by_form.setdefault(_form(name, words), []).append(name)
        for key in {key for more in (-1, 0, 1) for key in _keys(words, more)}:
            by_key.setdefault(key, []).append(name)
    same: dict[str, str] = {}
    near: dict[str, str] = {}
    for label in known if by_form else ():
        start = label[:1].lower()
        if start.isascii() and start.isalnum() and start not in first_letters:
            continue  # similar names begin with the same letter, so most labels are none
        words = _words(label)
        form = _form(label, words)
        for name in by_form.get(form, ()):
            if _same(name) == _same(label):
                same.setdefault(name, label)
            elif len(form) >= SHORTEST_NAME and any(map(str.isalpha, form)):
                near.setdefault(name, label)
        for key in _keys(words):
            for name in by_key.get(key, ()):
                if name not in near and _one_letter_apart(_words(name), words):
                    near[name] = label
    return Resemblance(same, {name: label for name, label in near.items() if name not in same})


def repeated_names(names: Iterable[str]) -> dict[str, str]:
    """The names that are the same as an earlier one, each with the first of these.

    >>> repeated_names(["Köln", "New York", "KÖLN", "köln", "New_York"])
    {'KÖLN': 'Köln', 'köln': 'Köln', 'New_York': 'New York'}
    """
    first: dict[str, str] = {}
    pairs = (
        (name, first.setdefault(_same(name), name))
        for name in names
        if len(name) <= _LONGEST_NAME and not name.startswith(_NO_NAMES)
    )
    return {name: earlier for name, earlier in pairs if name is not earlier}


def quoted_pair(name: str, other: str) -> tuple[str, str]:
    r"""Two names in quotes, with letters written out where both look the same.

    >>> quoted_pair("KÖLN", "Köln"), quoted_pair("Ko\u0308ln", "Köln")
    (("'KÖLN'", "'Köln'"), ("'Ko\\u0308ln'", "'K\\xf6ln'"))
    """
    if _look(name) == _look(other):
        name, other = (text.encode("ascii", "backslashreplace").decode() for text in (name, other))
    return f"'{name}'", f"'{other}'"


def _look(name: str) -> str:
    """A name as readers see it, without marks that take no room."""
    seen = "".join(letter for letter in normalize("NFKC", name) if category(letter) != "Cf")
    return " ".join(seen.split())


def _words(name: str) -> list[str]:
    """The words of a name, without case and accents; vowel signs belong to their words."""
    text = plain(name)
    if not text.isascii():
        text = "".join(
            letter if letter.isalnum() or category(letter)[0] == "M" else " " for letter in text
        )
        return text.split()
    return _WORD.findall(text)


def _same(name: str) -> str:
    """A name without case, double spaces and Unicode variants."""
    text = name.casefold()
    if not text.isascii():
        text = "".join(
            letter for letter in normalize("NFKC", text).casefold() if category(letter) != "Cf"
        )
    return " ".join(text.split()).replace("_", " ")


def _form(name: str, words: list[str]) -> str:
    """The letters of a name; in a name with digits, a space stands for each punctuation mark."""
    text = "".join(words)
    if text.isalpha() or not _DIGIT.search(text):
        return text
    return _PUNCTUATION.sub(" ", " ".join(plain(name).split()))


def _keys(words: list[str], more: int = 0) -> Iterator[str]:
    """Two texts per long word; names that differ in one letter of that word share one of them.

    A wrong letter is in the first half of the word or in the second. The halves are those of a word
    with `more` letters, which may be -1, since the other word may be longer or shorter.
    """
    text = " ".join(words)
    start = 0
    for word in words:
        length = len(word) + more
        if length >= SHORTEST_WORD - 1 and word.isalpha():
            half = length // 2
            tail = length - half - 1
            end = start + len(word)
            yield f"{text[: start + half]}*{text[end:]}"
            yield f"{text[:start]}*{text[end - tail :]}"
        start += len(word) + 1


def _one_letter_apart(words: list[str], others: list[str]) -> bool:
    """Whether two names with equally many words differ in one letter of a long word.

    The letter is inserted, deleted, replaced or swapped with the next one.
    """
    from rapidfuzz.distance import OSA

    if len(words) != len(others):
        return False
    pairs = [(word, other) for word, other in zip(words, others, strict=True) if word != other]
    if len(pairs) != 1:
        return False
    ((word, other),) = pairs
    return (
        max(len(word), len(other)) >= SHORTEST_WORD
        and word[0] == other[0]
        and word.isalpha()
        and other.isalpha()
        and OSA.distance(word, other) == 1
    )
