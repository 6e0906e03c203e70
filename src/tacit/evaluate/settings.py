"""The settings of evaluations."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Self

from tacit.graph.graph import SPLITS
from tacit.settings import Settings, setting, settings_of

TIES = ("realistic", "optimistic", "pessimistic")
MEANS = ("question", "fact")


@dataclass(frozen=True)
class EvaluateSettings(Settings):
    """How the hard answers of queries are ranked, and what is measured beside that."""

    noun = "evaluation"

    split: str = setting("test", "The facts that are asked about.", choices=SPLITS)
    ties: str = setting(
        "realistic",
        "An equal score counts half, not at all or fully as a better one.",
        choices=TIES,
    )
    mean: str = setting(
        "question", "What counts once: a question (BetaE) or each fact (PyKEEN).", choices=MEANS
    )
    limit: int | None = setting(None, "At most so many queries of each shape.", least=1)
    batch: int | None = setting(None, "Queries at once; by memory otherwise.", least=1)
    per_relation: bool = setting(False, "Also show 1p by relation.")
    by_missing: bool = setting(
        False, "Also show figures by the number of links that must be predicted."
    )
    reliability: bool = setting(False, "Also measure whether scores can be read as probabilities.")

    @classmethod
    def pop_from(cls, values: dict[str, Any]) -> Self:
        """The settings of an evaluation among some values, which lose them."""
        names = [field.name for field in settings_of(cls) if field.name in values]
        return cls(**{name: values.pop(name) for name in names})
