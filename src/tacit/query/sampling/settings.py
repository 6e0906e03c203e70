"""The settings of sampling."""

from __future__ import annotations

from dataclasses import dataclass

from tacit.errors import SettingsError
from tacit.graph.graph import SPLITS
from tacit.settings import Settings, setting


def _links(value: int | str) -> str:
    """How many links are missing, as it is written; a number is as good as its digits."""
    number = str(value).removesuffix("+")
    if isinstance(value, bool) or not number.isdecimal() or int(number) < 1:
        raise SettingsError(
            f"missing is {str(value)!r}; it must be a number of links from 1, or one with a + for "
            "at least",
            "missing",
        )
    return str(value)


@dataclass(frozen=True)
class SampleSettings(Settings):
    """Which queries are drawn of each shape, and how hard it is tried."""

    noun = "sampling"

    split: str = setting("train", "The facts to ask about.", choices=SPLITS)
    count: int = setting(1000, "Queries of each shape.", least=1)
    max_answers: int | None = setting(
        None, "Hard answers of a query, at most: 80 by default, any number in train.", least=1
    )
    seed: int = setting(0, "Seed of all draws.", least=0)
    waste: float = setting(
        0.999, "Share of tries that may be in vain before a shape is given up.", least=0, below=1
    )
    missing: str | None = setting(
        None,
        "Links that must be predicted for a hard answer: 2, or 2+ for two or more.",
        read=_links,
    )
