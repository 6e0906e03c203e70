"""How an engine searches and values answers."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

from tacit.errors import SettingsError
from tacit.settings import Settings, setting

SEARCHES = ("auto", "beam", "exact", "certified", "continuous", "symbolic")
LOGICS = ("product", "godel", "lukasiewicz")
NEGATIONS = ("standard", "cosine")
CANDIDATES = ("auto", "rows", "scan", "index")
CALIBRATIONS = ("sigmoid", "minmax", "softmax-count")


def observed_splits(given: str | Iterable[str]) -> tuple[str, ...]:
    """The splits whose facts count as known: `all`, `none`, or names joined by `+`.

    >>> observed_splits("train+valid"), observed_splits("none"), observed_splits("all")
    (('train', 'valid'), (), ('train', 'valid', 'test'))
    """
    from tacit.graph.graph import SPLITS

    if isinstance(given, str):
        if given in ("none", ""):
            return ()
        given = SPLITS if given == "all" else given.replace(",", "+").split("+")
    wanted = [str(name).strip() for name in given]
    for name in wanted:
        if name not in SPLITS:
            known = "+".join(SPLITS)
            raise SettingsError(f"no split '{name}' to observe; give all, none, or some of {known}", "observed")
    return tuple(name for name in SPLITS if name in wanted)


@dataclass(frozen=True)
class EngineSettings(Settings):
    """Everything that decides an engine's answers, beside its link predictor and adapter.

    `observed` names the splits of the graph whose facts count as known: all of them for someone who asks about a graph,
    the training split alone (or nothing) where answers are held against a benchmark.

    >>> EngineSettings(logic="nonsense")
    Traceback (most recent call last):
    tacit.errors.SettingsError: logic is 'nonsense'; it must be one of product, godel, lukasiewicz
    """

    noun = "engine"

    search: str = setting(
        "auto", "How answers are looked for; auto is certified, and beam over an index or shards.", choices=SEARCHES
    )
    k: int = setting(256, "Candidates a beam keeps, or certified search tries, for every variable.", least=1)
    budget: int | None = setting(
        None, "Rows that certified search scores to prove an answer; as many as a beam where none is given.", least=1
    )
    candidates: str = setting(
        "auto", "What finds candidates: whole rows, a scan or the index of a run, kept in lists.", choices=CANDIDATES
    )
    nprobe: int = setting(32, "Clusters of the index that are looked into.", least=1)
    cached: bool = setting(True, "Keep the lists that were found in the run.")
    logic: str = setting("product", "The t-norm that combines scores.", choices=LOGICS)
    negation: str = setting("standard", "What a negation makes of a score.", choices=NEGATIONS)
    strength: float = setting(1.0, "How strongly negation excludes.", above=0)
    calibration: str = setting(
        "softmax-count", "What makes scores of the link predictor's numbers.", choices=CALIBRATIONS
    )
    observed: tuple[str, ...] = setting(
        "all", "Splits whose facts count as known: all, none, or names joined by +.", read=observed_splits
    )
    observed_score: float = setting(1.0 - 2.0**-10, "The score of a fact that counts as known.", above=0.5, most=1)
    new: bool = setting(False, "Leave out what the known facts imply already.")
    loops: bool = setting(False, "Let relations loop that never do in the training facts.")
    typed: bool = setting(False, "Predict relations only between the kinds of entities that training facts show.")
    precision: str = setting("float32", "Precision of products on a GPU.", choices=("float32", "tf32", "bf16"))
    memory: float | None = setting(None, "GB that a step may use.", above=0)
    steps: int = setting(1000, "Steps of continuous search.", least=1)
    step_size: float = setting(0.1, "Learning rate of continuous search.", above=0)
    vector_reg: float = setting(0.0, "Weight of the penalty on vectors in continuous search.", least=0)

    def check(self) -> None:
        """Raise a `SettingsError` where settings contradict each other."""
        if self.new and not self.observed:
            raise SettingsError("new leaves out what is known, and observed is none; observe some facts", "new")
        if self.candidates in ("scan", "index") and self.search not in ("auto", "beam", "certified"):
            raise SettingsError(
                f"candidates is '{self.candidates}', which serves beam and certified search; search is '{self.search}'",
                "candidates",
            )

    def to_dict(self) -> dict[str, Any]:
        """Plain values, as settings files and results need them."""
        return super().to_dict() | {"observed": "+".join(self.observed) or "none"}
