"""Presets: published systems as settings of the engine, and how they are evaluated."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True)
class Preset:
    """Engine settings that make a published system; explicit settings take precedence.

    `observed` are the splits whose facts the published system may use when test queries are
    evaluated. They do not change how it answers: elsewhere all facts are observed. None of the
    systems has an adapter.
    """

    settings: Mapping[str, Any]
    observed: tuple[str, ...]
    differs: str  # where the published code computes something else


PRESETS: dict[str, Preset] = {
    "qto": Preset(
        {"search": "exact", "calibration": "softmax-count", "observed_score": 1.0, "strength": 6.0},
        ("train",),
        "The code sets scores under 0.0002 (FB15k: 0.001) to 0, so that most entities tie, caps "
        "predictions at 0.9999 and not at 0.999, takes strength 3 on FB15k-237, and reads pni as a "
        "path whose second step is negated.",
    ),
    "fit": Preset(
        {"search": "exact", "calibration": "softmax-observed", "observed_score": 1.0},
        ("train",),
        "The code sets scores under 0.005 (NELL995: 0.0002) to 0, tunes relation vectors on "
        "queries, tries 10 values of a variable on a cycle beside those of score 1, and labels pni "
        "queries anew, which makes them another test.",
    ),
    "cqd-hybrid": Preset(
        {
            "search": "beam",
            "k": 512,
            "calibration": "minmax",
            "ceiling": 0.9,
            "observed_score": 1.0,
        },
        ("train", "valid"),
        "The code keeps as many candidates as there are known ones beside k, 512 at most, and "
        "joins `up` by minimum. It is handed the validation facts at test, which QTO and FIT are "
        "not.",
    ),
}


def observed_for_preset(preset: str | None, split: str) -> list[str] | None:
    """The splits whose facts a preset's system may use to answer a split's queries.

    None without a preset.
    """
    from tacit.graph.graph import SPLITS

    system = PRESETS.get(preset or "")
    if system is None:
        return None
    return [each for each in SPLITS[: SPLITS.index(split)] if each in system.observed]
