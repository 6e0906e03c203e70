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

    length: int = setting(2, "Atoms of a closed rule's body, at most.", least=1, most=LONGEST)
    rules_per_relation: int = setting(150, "Closed rules of a relation, at most.", least=1)
    seed: int = setting(0, "Seed of the samples that rules are estimated from.", least=0)
