"""A trie on disk for the labels of a large graph, mapped and shared by processes."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

LARGE = 1_000_000  # labels from which a trie is worth its file


def trie_of(labels: Sequence[str]) -> tuple[Any, NDArray[np.int32]] | None:
    """A trie of labels; the trie's id of each label, and the position of each trie id.

    None where marisa-trie is not installed, or a label has what its look-ups end at.
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

    def __init__(self, trie: Any, ids: NDArray[np.int32]) -> None:
        self._trie = trie
        (self._in_trie, self._positions) = ids

    @classmethod
    def open(cls, path: Path, ids: NDArray[np.int32]) -> LabelTrie:
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
        except UnicodeEncodeError:  # half a pair of surrogates, which no file holds
            return None
        return None if id_ is None else int(self._positions[id_])


class Chained(Sequence[str]):
    """Concatenates two sequences without copying them."""

    def __init__(self, first: Sequence[str], then: Sequence[str]) -> None:
        self._first = first
        self._then = then

    def __len__(self) -> int:
        return len(self._first) + len(self._then)

    def __getitem__(self, position):  # type: ignore[no-untyped-def]
        inside = position - len(self._first)
        return self._first[position] if inside < 0 else self._then[inside]

    def __iter__(self) -> Iterator[str]:
        yield from self._first
        yield from self._then


def is_large(labels: Sequence[str]) -> bool:
    """Whether there are so many labels that their tables are kept in files."""
    return len(labels) >= LARGE
