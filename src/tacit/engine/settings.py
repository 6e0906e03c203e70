"""The settings of an engine: how it searches for answers and scores them."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from tacit.engine.presets import PRESETS
from tacit.errors import SettingsError
from tacit.settings import Settings, setting

SEARCHES = ("auto", "beam", "exact", "certified", "continuous", "symbolic", "encoder")
LOGICS = ("product", "godel", "lukasiewicz")
NEGATIONS = ("standard", "cosine")
CANDIDATES = ("auto", "rows", "scan", "index")
NOTHING_KNOWN = "new leaves out what is known, and with `observed='none'` nothing is; leave one out"
CALIBRATIONS = ("sigmoid", "minmax", "softmax-count", "softmax-observed")
# The settings that an encoder does not use, by a search that does.
ELSEWHERE = {
    "beam": (
        "preset",
        "k",
        "budget",
        "candidates",
        "nprobe",
        "logic",
        "negation",
        "strength",
        "calibration",
        "ceiling",
        "observed_score",
        "typed",
        "precision",
    ),
    "continuous": ("steps", "step_size", "vector_reg"),
}


def observed_splits(splits: str | Iterable[str]) -> tuple[str, ...]:
    """The splits whose facts count as known: `all`, `none`, or names joined by `+`.

    >>> observed_splits("train+valid"), observed_splits("none"), observed_splits("all")
    (('train', 'valid'), (), ('train', 'valid', 'test'))
    """
    from tacit.graph.graph import SPLITS

    if isinstance(splits, str):
        if splits in ("none", ""):
            return ()
        splits = SPLITS if splits == "all" else splits.replace(",", "+").split("+")
    names = [str(name).strip() for name in splits]
    for name in names:
        if name not in SPLITS:
            known = "+".join(SPLITS)
            raise SettingsError(
                f"observed names no split {name!r}; it must be all, none, or some of {known}",
                "observed",
            )
    return tuple(name for name in SPLITS if name in names)


@dataclass(frozen=True)
class EngineSettings(Settings):
    """Everything that decides an engine's answers, beside its link predictor and adapter.

    `observed` names the splits of the graph whose facts count as known: all of them for someone who
    asks about a graph, the training split alone (or nothing) where answers are held against a
    benchmark.

    A `preset` decides settings that are not given:

    >>> settings = EngineSettings(preset="qto", strength=3.0)
    >>> settings.search, settings.strength, settings.changed(search="beam").preset
    ('exact', 3.0, 'qto')

    So does continuous search of the calibration, since it moves vectors along the slopes of single
    scores:

    >>> EngineSettings(search="continuous").calibration
    'sigmoid'
    >>> settings.changed(search="continuous").calibration
    'sigmoid'
    >>> EngineSettings(logic="nonsense")  # doctest: +ELLIPSIS
    Traceback (most recent call last):
    tacit.errors.SettingsError: logic is 'nonsense'; it must be one of product, ...
    """

    noun = "engine"

    preset: str | None = setting(
        None,
        "A published system, whose settings hold where no others are given.",
        choices=tuple(PRESETS),
    )
    search: str = setting(
        "auto",
        "How answers are looked for; auto is certified, and beam over an index or shards; "
        "continuous takes unadapted sigmoids where no calibration is given.",
        choices=SEARCHES,
    )
    k: int = setting(
        256, "Candidates a beam keeps, or certified search tries, for every variable.", least=1
    )
    budget: int | None = setting(
        None,
        "Rows that certified search scores to prove an answer; as many as a beam where none is "
        "given.",
        least=1,
    )
    candidates: str = setting(
        "auto",
        "What finds candidates: whole rows, a scan or the index of a run.",
        choices=CANDIDATES,
    )
    nprobe: int = setting(32, "Clusters of the index that are looked into.", least=1)
    logic: str = setting("product", "The t-norm that combines scores.", choices=LOGICS)
    negation: str = setting("standard", "What a negation makes of a score.", choices=NEGATIONS)
    strength: float = setting(1.0, "How strongly negation excludes.", above=0)
    calibration: str = setting(
        "softmax-count", "What makes scores of the link predictor's numbers.", choices=CALIBRATIONS
    )
    observed: tuple[str, ...] = setting(
        "all",
        "Splits whose facts count as known: all, none, or names joined by +.",
        read=observed_splits,
    )
    observed_score: float = setting(
        1.0 - 2.0**-10, "The score of a fact that counts as known.", above=0.5, most=1
    )
    ceiling: float | None = setting(
        None,
        "What a prediction of 1 is worth; as much as a known fact where nothing is given.",
        above=0,
        most=1,
    )
    new: bool = setting(False, "Leave out what the known facts imply already.")
    loops: bool = setting(False, "Let relations loop that never do in the training facts.")
    typed: bool = setting(
        False, "Predict relations only between the kinds of entities that training facts show."
    )
    precision: str = setting(
        "float32",
        "Precision of products on a GPU; with fp16 hops read scores of 16 bits as well.",
        choices=("float32", "tf32", "bf16", "fp16"),
    )
    memory: float | None = setting(None, "GB that a step may use.", above=0, most=1_000_000)
    steps: int = setting(1000, "Steps of continuous search.", least=1)
    step_size: float = setting(0.1, "Learning rate of continuous search.", above=0)
    vector_reg: float = setting(
        0.0, "Weight of the penalty on vectors in continuous search.", least=0
    )

    @classmethod
    def derive(cls, given: Mapping[str, Any], *sizes: int) -> dict[str, Any]:
        """The given settings with defaults of the preset and of continuous search."""
        preset = PRESETS[given["preset"]].settings if given.get("preset") else {}
        smooth = {"calibration": "sigmoid"} if given.get("search") == "continuous" else {}
        return {**preset, **smooth, **given}

    def check(self) -> None:
        """Raise a `SettingsError` where settings contradict each other."""
        if self.ceiling is not None and self.observed and self.ceiling > self.observed_score:
            raise SettingsError(
                f"ceiling is {self.ceiling}, above `observed_score`, {self.observed_score}, of a "
                "known fact; lower it",
                "ceiling",
            )
        if self.new and not self.observed:
            raise SettingsError(NOTHING_KNOWN, "new")
        if self.candidates in ("scan", "index") and self.search not in (
            "auto",
            "beam",
            "certified",
        ):
            raise SettingsError(
                f"candidates is '{self.candidates}', which serves beam and certified search, not "
                f"`search='{self.search}'`; leave one out",
                "candidates",
            )

    def check_given(self, names: Iterable[str]) -> None:
        """Raise a `SettingsError` for an explicit setting that the search does not use."""
        for search, theirs in ELSEWHERE.items() if self.search == "encoder" else ():
            for name in names:
                if name in theirs:
                    raise SettingsError(
                        f"{name} is {getattr(self, name)}, which means nothing to an encoder; "
                        f"leave it out, or ask with `search='{search}'`",
                        name,
                    )

    def to_dict(self) -> dict[str, Any]:
        """The settings as plain values for settings files and results."""
        return super().to_dict() | {"observed": "+".join(self.observed) or "none"}
