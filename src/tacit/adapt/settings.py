"""How to adapt."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from tacit.engine.settings import CALIBRATIONS, LOGICS, MIXED, NEGATIONS, observed_splits
from tacit.errors import SettingsError
from tacit.settings import Settings, device_setting, setting

CONDITIONS = ("none", "p", "sp", "spo")
LOSSES = ("1vsall", "bce", "log")
# the defaults of each recipe; `asked` is for the scores that the run is asked with
RECIPES: dict[str, dict[str, Any]] = {
    "asked": {"loss": "log", "calibration": "softmax-count", "observed": ("train",)},
    "paper": {"loss": "1vsall", "calibration": "sigmoid", "observed": (), "held_out": False},
}
# settings that earlier versions stored
RETIRED = ("learn", "halved", "hidden", "negatives", "masked", "precision")
ENGINE = ("logic", "negation", "strength", "calibration", "rules")  # what an adapter is trained for


def read_shapes(names: str | Iterable[str]) -> tuple[str, ...]:
    """The shapes that a setting names."""
    from tacit.query.sampling.shapes import parse_shapes

    return parse_shapes(names)


@dataclass(frozen=True)
class LearningSettings:
    """What an adapter sees and learns from."""

    recipe: str = setting(
        "asked", "For the way the run is asked, or as in the paper.", choices=tuple(RECIPES)
    )
    shapes: tuple[str, ...] = setting(
        "2i,3i,2in,3in", "Shapes to learn from, with commas.", read=read_shapes
    )
    condition: str = setting("p", "What the adapter sees of an atom.", choices=CONDITIONS)
    layers: int = setting(1, "1 (linear) or 2 (with ReLU).", choices=(1, 2))
    loss: str = setting(
        None, "What is made small: log, or 1vsall in the paper's recipe.", choices=LOSSES
    )
    lr: float = setting(0.1, "Learning rate of Adagrad.", above=0, most=1_000_000)
    steps: int = setting(1000, "Steps, at most.", least=1, resumes=True)
    batch: int = setting(512, "Queries a step, shapes in equal parts.", least=1, most=1_000_000)
    share: float = setting(1.0, "The share of the queries to learn from.", above=0, most=1)
    held_out: bool = setting(
        None,
        "Learn from validation queries, which need facts not trained on; by default where there "
        "are such facts.",
    )


@dataclass(frozen=True)
class ScoreSettings:
    """The scores of the queries that an adapter learns from."""

    calibration: str = setting(
        None,
        "What the adapter works in: softmax-count, or sigmoid in the paper's recipe.",
        choices=CALIBRATIONS,
    )
    rules: bool = setting(
        None, f"Work on scores with the rules of the run; by default where {MIXED} has any."
    )
    logic: str = setting("product", "The t-norm that combines scores.", choices=LOGICS)
    negation: str = setting("standard", "What a negation makes of a score.", choices=NEGATIONS)
    strength: float = setting(1.0, "How strongly negation excludes.", above=0)
    observed: tuple[str, ...] = setting(
        None,
        "Splits whose facts count as known: all, none, or names joined by +; train, or none in the "
        "paper's recipe.",
        read=observed_splits,
    )
    k: int = setting(64, "Candidates of a variable, for shapes that have any.", least=1)


# the fields of the last base come first
@dataclass(frozen=True)
class AdaptSettings(Settings, ScoreSettings, LearningSettings):
    """How to train an adapter.

    The recipe `asked` trains it for the way a run is asked: softmax-count, training facts observed,
    held-out queries where there are validation facts. The `paper`'s is sigmoid scores, nothing
    observed, training queries and the loss of eq. 6.

    `held_out` takes queries that need a validation fact instead of training queries, as Platt
    scaling asks: scores of facts a predictor was trained on say little about those of others. The
    loss of a held-out query leaves its other right answers out; eq. 6 does not.
    """

    noun = "adaptation"

    validate_every: int = setting(50, "Steps between validations.", least=1)
    validate_queries: int = setting(
        200, "Queries of each shape to validate with, at most.", least=1
    )
    patience: int = setting(
        5, "Validations without a better MRR before training ends.", least=1, resumes=True
    )
    memory: float | None = setting(None, "GB for scores.", above=0, most=1_000_000, resumes=True)
    seed: int = setting(0, "Seed of the samples and their order.", least=0)
    device: str = device_setting()

    @classmethod
    def derive(cls, explicit: Mapping[str, Any], *sizes: int) -> dict[str, Any]:
        """The explicit settings and those of the recipe; with sizes, `held_out` as well.

        Without such facts nothing is observed: all there is to learn from would be known.
        """
        chosen = {**RECIPES[explicit.get("recipe", cls.recipe)], **explicit}
        if chosen["calibration"] != MIXED:
            chosen.setdefault("rules", False)
        if sizes and "held_out" not in chosen:
            chosen |= {"held_out": True} if sizes[0] else {"held_out": False, "observed": ()}
        return chosen

    def check(self) -> None:
        """Raise a `SettingsError` where settings contradict each other."""
        for name, value in RECIPES["paper"].items() if self.recipe == "paper" else ():
            if getattr(self, name) != value:
                raise SettingsError(
                    f"{name} is {getattr(self, name)}, and with `recipe='paper'` it must be "
                    f"{value}; leave one out",
                    name,
                )
        if self.rules and self.calibration != MIXED:
            raise SettingsError(
                f"rules is True, and no rules are mixed into {self.calibration}; leave one out",
                "rules",
            )
        if not set(self.observed) <= {"train"}:
            raise SettingsError(
                f"observed is {'+'.join(self.observed)}, which hands over facts that an adapter "
                "learns from, is validated with or is tested by; it must be train or none",
                "observed",
            )
        if self.calibration not in ("sigmoid", "softmax-count") and self.condition != "spo":
            from tacit.engine.atoms.calibration import CALIBRATIONS as KINDS  # and torch

            if KINDS[self.calibration].capabilities.rescales:
                raise SettingsError(
                    f"calibration is '{self.calibration}', under which an adapter on "
                    f"'{self.condition}' does nothing: it stretches and shifts whole rows of "
                    f"scores, which {self.calibration} re-scales to [0, 1]; it must be sigmoid or "
                    "softmax-count",
                    "calibration",
                )

    @property
    def engine(self) -> dict[str, Any]:
        """The engine settings that the adapter is trained for."""
        return {name: getattr(self, name) for name in ENGINE} | {"rules": bool(self.rules)}

    def to_dict(self) -> dict[str, Any]:
        """Plain values, as settings files and results need them."""
        return super().to_dict() | {"observed": "+".join(self.observed) or "none"}


def stored_settings(values: Mapping[str, Any]) -> AdaptSettings:
    """The settings of a stored adapter, which an earlier version may have trained."""
    if values.get("learn", "scores") != "scores":
        raise ValueError(
            "it holds a strength of negation for each relation, which is no longer supported: set "
            "`strength`"
        )
    known = {k: value for k, value in values.items() if k not in RETIRED}
    return AdaptSettings.of({**known, "rules": bool(known.get("rules"))})
