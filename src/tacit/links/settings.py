"""The settings of a training run, checked when they are made."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import asdict, dataclass, fields
from typing import Any

from tacit.errors import SettingsError

MODEL_NAMES = ("complex", "distmult", "cp", "transe", "rotate")
BILINEAR_NAMES = ("complex", "distmult", "cp")
CHOICES = {
    "model": MODEL_NAMES,
    "optimizer": ("adagrad", "adam"),
    "regulariser": ("n3", "l2"),
    "precision": ("auto", "float32", "tf32", "bf16"),
}
AT_LEAST_ONE = ("rank", "epochs", "batch", "validate_every", "validate_facts", "patience")
POSITIVE = ("lr", "init")
NOT_NEGATIVE = ("reg", "relation_weight", "negatives", "seed", "checkpoint_seconds")
# What may differ between a run and its continuation: none of these changes the weights of an epoch.
FREE_ON_RESUME = ("epochs", "patience", "device", "memory", "checkpoint_seconds")


@dataclass(frozen=True)
class TrainSettings:
    """How to train a link predictor.

    >>> TrainSettings(rank=0)
    Traceback (most recent call last):
    tacit.errors.SettingsError: rank is 0; it must be at least 1
    """

    model: str = "complex"
    rank: int = 100
    epochs: int = 30
    batch: int = 500
    lr: float = 0.1
    reg: float = 0.02
    regulariser: str = "n3"
    optimizer: str = "adagrad"
    init: float = 1e-3
    norm: int = 1  # of the distances of transe and rotate
    relation_weight: float = 0.0  # of the loss that predicts the relation
    negatives: int = 0  # entities drawn per batch; 0 compares with all of them
    memory: float | None = None  # GB for scores; None takes what is free
    precision: str = "auto"
    seed: int = 0
    device: str = "auto"
    validate_every: int = 5  # epochs
    validate_facts: int = 20_000  # at most so many facts are ranked
    patience: int = 4  # validations without a better MRR before training stops
    checkpoint_seconds: float = 60.0

    def __post_init__(self) -> None:
        for field in fields(self):
            _check_type(field.name, getattr(self, field.name), str(field.type))
        for name, choices in CHOICES.items():
            if getattr(self, name) not in choices:
                raise SettingsError(f"{name} is '{getattr(self, name)}'; it must be one of {', '.join(choices)}")
        for names, least, wanted in ((AT_LEAST_ONE, 1, "at least 1"), (NOT_NEGATIVE, 0, "0 or more")):
            for name in names:
                if getattr(self, name) < least:
                    raise SettingsError(f"{name} is {getattr(self, name)}; it must be {wanted}")
        for name in POSITIVE:
            if getattr(self, name) <= 0:
                raise SettingsError(f"{name} is {getattr(self, name)}; it must be above 0")
        if self.memory is not None and self.memory <= 0:
            raise SettingsError(f"memory is {self.memory}; it must be a number of GB above 0")
        if self.norm not in (1, 2):
            raise SettingsError(f"norm is {self.norm}; it must be 1 or 2")
        if self.negatives and self.optimizer != "adagrad":
            raise SettingsError(f"negatives is {self.negatives} with optimizer {self.optimizer}; use adagrad with it")
        if self.relation_weight and self.model not in BILINEAR_NAMES:
            raise SettingsError(
                f"relation_weight is {self.relation_weight} but model {self.model} cannot predict relations; "
                f"use one of {', '.join(BILINEAR_NAMES)}, or relation_weight 0"
            )

    @classmethod
    def of(cls, values: Mapping[str, Any]) -> TrainSettings:
        """Settings from the table `[train]` of a run."""
        known = [field.name for field in fields(cls)]
        unknown = sorted(set(values) - set(known))
        if unknown:
            raise SettingsError(f"unknown training setting '{unknown[0]}'; the settings are {', '.join(known)}")
        plain: dict[str, Any] = dict(values)
        return cls(**plain)

    def to_dict(self) -> dict[str, Any]:
        """The settings as plain values."""
        return asdict(self)

    def check_continues(self, before: TrainSettings) -> None:
        """Raise a `SettingsError` where continuing a run with these settings would not be the same run."""
        for field in fields(self):
            was, is_ = getattr(before, field.name), getattr(self, field.name)
            if was != is_ and field.name not in FREE_ON_RESUME:
                raise SettingsError(
                    f"the run has {field.name} {was}, and {is_} was given; leave it out to go on with the run, "
                    f"or start again with --force (only {', '.join(FREE_ON_RESUME)} may change)"
                )


def _check_type(name: str, value: object, annotation: str) -> None:
    if value is None and "None" in annotation:
        return
    if annotation.startswith("float"):
        right = isinstance(value, int | float) and not isinstance(value, bool) and math.isfinite(value)
    elif annotation == "int":
        right = isinstance(value, int) and not isinstance(value, bool)
    else:
        right = isinstance(value, str)
    if not right:
        kind = {"int": "a whole number", "str": "a word"}.get(annotation, "a finite number")
        raise SettingsError(f"{name} is {value!r}; it must be {kind}")
