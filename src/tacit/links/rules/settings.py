"""The settings of mining rules."""

from __future__ import annotations

from dataclasses import dataclass

from tacit.links.rules.rule_set import LONGEST
from tacit.settings import Settings, setting


@dataclass(frozen=True)
class RuleSettings(Settings):
    """Which rules to mine.

    >>> RuleSettings(length=4)
    Traceback (most recent call last):
    tacit.errors.SettingsError: length is 4; it must be at most 3
    """

    noun = "mining"

    length: int = setting(LONGEST, "Atoms of a closed rule's body, at most.", least=1, most=LONGEST)
    seconds: float = setting(
        10.0, "Time for bodies of three atoms, on 2 cores.", least=0, most=1_000_000
    )
    rules_per_relation: int = setting(
        150, "Closed rules of a relation, at most; of three atoms as many.", least=1
    )
    seed: int = setting(0, "Seed of the samples that rules are estimated from.", least=0)
