"""How to adapt, checked when it is made."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import asdict, dataclass, fields
from typing import Any

from tacit.adapt.adapter import CONDITIONS
from tacit.adapt.calibrated import check
from tacit.engine.calibration import CALIBRATIONS
from tacit.engine.logic import NEGATIONS, NORMS
from tacit.engine.settings import observed_parts
from tacit.errors import SettingsError
from tacit.query.shapes import parse_shapes

LOSSES = ("1vsall", "bce", "log")
CHOICES = {
    "condition": CONDITIONS,
    "loss": LOSSES,
    "calibration": CALIBRATIONS,
    "logic": NORMS,
    "negation": NEGATIONS,
    "precision": ("auto", "float32", "tf32", "bf16"),
    "layers": (1, 2),
}
AT_LEAST_ONE = ("hidden", "steps", "batch", "k", "negatives", "validate_every", "validate_queries", "patience")
POSITIVE = ("lr", "share", "strength")
ENGINE = ("logic", "negation", "strength", "calibration")  # what an adapter is trained for


@dataclass(frozen=True)
class AdaptSettings:
    """How to train an adapter.

    `held_out` takes queries that need a validation fact instead of training queries, as Platt scaling asks: scores of
    facts a predictor was trained on say little about those of others. `masked` leaves the other right answers of a
    query out of its loss, by default for held-out queries only, since eq. 6 does not.
    """

    shapes: tuple[str, ...] = ("2i", "3i", "2in", "3in")
    condition: str = "p"
    layers: int = 1
    hidden: int = 32  # width of the layer between, where there are two
    loss: str = "log"
    negatives: int = 1  # entities that are no answers, per query, for bce
    lr: float = 0.1
    steps: int = 1000
    batch: int = 512  # queries a step, shapes in equal parts
    share: float = 1.0  # of the queries
    held_out: bool = False
    masked: bool | None = None
    calibration: str = "sigmoid"
    logic: str = "product"
    negation: str = "standard"
    strength: float = 1.0
    observed: str = "none"  # the parts whose facts count as known
    k: int = 64  # candidates of a variable, for shapes that have any
    validate_every: int = 50  # steps
    validate_queries: int = 200  # of each shape, at most
    patience: int = 5  # validations without a better MRR before training stops
    memory: float | None = None  # GB for scores
    precision: str = "auto"
    seed: int = 0
    device: str = "auto"

    def __post_init__(self) -> None:
        object.__setattr__(self, "shapes", parse_shapes(self.shapes))
        object.__setattr__(self, "observed", "+".join(observed_parts(self.observed)) or "none")
        for name, choices in CHOICES.items():
            if getattr(self, name) not in choices:
                known = ", ".join(map(str, choices))
                raise SettingsError(f"{name} is '{getattr(self, name)}'; it must be one of {known}")
        for name in AT_LEAST_ONE:
            value = getattr(self, name)
            if isinstance(value, bool) or not isinstance(value, int) or value < 1:
                raise SettingsError(f"{name} is {value}; it must be a whole number of at least 1")
        for name in POSITIVE:
            value = getattr(self, name)
            if not (isinstance(value, int | float) and math.isfinite(value) and value > 0):
                raise SettingsError(f"{name} is {value}; it must be a number above 0")
        if isinstance(self.seed, bool) or not isinstance(self.seed, int) or self.seed < 0:
            raise SettingsError(f"seed is {self.seed}; it must be a whole number of at least 0")
        if self.share > 1:
            raise SettingsError(f"share is {self.share}; it must be at most 1 (all queries)")
        if self.memory is not None and not self.memory > 0:
            raise SettingsError(f"memory is {self.memory}; it must be a number of GB above 0")
        if self.held_out and "valid" in self.observed:
            raise SettingsError(
                f"held-out queries ask for validation facts, and observed '{self.observed}' hands them over; "
                "observe train or none"
            )
        check(self.calibration, self.condition)

    @property
    def masks(self) -> bool:
        """Whether other right answers are left out of the loss."""
        return self.held_out if self.masked is None else self.masked

    @property
    def engine(self) -> dict[str, Any]:
        """The engine settings that the adapter is trained for."""
        return {name: getattr(self, name) for name in ENGINE}

    @classmethod
    def of(cls, values: Mapping[str, Any]) -> AdaptSettings:
        """Settings from plain values, as a run folder keeps them."""
        known = [field.name for field in fields(cls)]
        unknown = sorted(set(values) - set(known))
        if unknown:
            raise SettingsError(f"unknown adaptation setting '{unknown[0]}'; the settings are {', '.join(known)}")
        plain: dict[str, Any] = dict(values)
        return cls(**plain)

    def to_dict(self) -> dict[str, Any]:
        """The settings as plain values."""
        return asdict(self) | {"shapes": list(self.shapes)}
