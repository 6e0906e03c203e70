"""The settings of a training run."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from tacit.errors import SettingsError
from tacit.run_folder.files import RULES_MODEL
from tacit.settings import Settings, device_setting, setting

MODEL_NAMES = ("complex", "distmult", "cp", "transe", "rotate")
BILINEAR = ("complex", "distmult", "cp")  # which predict relations, too
OPTIMIZER_NAMES = ("adagrad", "rowwise", "adam")
SPARSE = 5  # training facts per entity below which a graph says little of each of them
# facts times entities: what an epoch costs, below and above which it is little and much
SHORT = 5e6
LONG = 1e8
STEPS = 100  # between two validations, at least: questions cost more than single facts
_BY_SIZE = "by the size of the graph where nothing is given"


@dataclass(frozen=True)
class OptimizationSettings:
    """The link predictor, and how its weights are moved."""

    model: str = setting(
        "complex",
        "The link predictor; rules are mined in seconds, and have settings of their own.",
        choices=(*MODEL_NAMES, RULES_MODEL),
    )
    rank: int = setting(
        None, f"Numbers per entity (complex ones for complex, rotate); {_BY_SIZE}.", least=1
    )
    epochs: int = setting(
        None, f"Passes over the facts, at most; {_BY_SIZE}.", least=1, resumes=True
    )
    batch: int = setting(None, f"Triples per step; {_BY_SIZE}.", least=1)
    lr: float = setting(0.1, "Learning rate.", above=0, most=1_000_000)
    reg: float = setting(None, f"Weight of the regulariser; {_BY_SIZE}.", least=0)
    regulariser: str = setting("n3", "What keeps weights small.", choices=("n3", "l2"))
    optimizer: str = setting(
        "adagrad", "How weights are moved; rowwise: one sum an entity.", choices=OPTIMIZER_NAMES
    )
    init: float = setting(1e-3, "Scale of the first weights.", above=0)
    norm: int = setting(1, "Norm of the distances of transe and rotate.", choices=(1, 2))


@dataclass(frozen=True)
class LossSettings:
    """What a step compares with, and what it computes with."""

    relation_weight: float = setting(0.0, "Weight of the loss that predicts relations.", least=0)
    negatives: int = setting(
        0, "Entities drawn per step to compare with; 0 compares with all.", least=0
    )
    memory: float | None = setting(
        None, "GB for scores; what is free by default.", above=0, most=1_000_000, resumes=True
    )
    precision: str = setting(
        "auto", "Precision of products.", choices=("auto", "float32", "tf32", "bf16")
    )
    seed: int = setting(0, "Seed of weights, order and draws.", least=0)
    device: str = device_setting()


# the fields of the last base come first
@dataclass(frozen=True)
class TrainSettings(Settings, LossSettings, OptimizationSettings):
    """How to train a link predictor.

    >>> TrainSettings(rank=0)
    Traceback (most recent call last):
    tacit.errors.SettingsError: rank is 0; it must be at least 1
    """

    noun = "training"

    validate_every: int = setting(None, f"Epochs between validations; {_BY_SIZE}.", least=1)
    validate_on: str = setting(
        "questions", "What decides which weights are best.", choices=("questions", "facts")
    )
    validate_questions: int = setting(
        100, "Questions of each shape asked in a validation, at most.", least=1
    )
    validate_facts: int = setting(20_000, "Facts ranked in a validation, at most.", least=1)
    patience: int = setting(
        4, "Validations without a better MRR before training ends.", least=1, resumes=True
    )
    rules: bool = setting(True, "Mine rules, too, and mix them into the scores.", resumes=True)
    checkpoint_seconds: float = setting(60.0, "Seconds between checkpoints.", least=0, resumes=True)

    def check(self) -> None:
        """Raise a `SettingsError` where settings contradict each other."""
        if self.negatives and self.optimizer == "adam":
            raise SettingsError(
                "optimizer is adam, which cannot learn from `negatives`; it must be adagrad or "
                "rowwise with these",
                "optimizer",
            )
        if self.relation_weight and self.model not in BILINEAR:
            raise SettingsError(
                f"relation_weight is {self.relation_weight} but `model='{self.model}'` cannot "
                f"predict relations; leave it out, or use a model of {', '.join(BILINEAR)}",
                "relation_weight",
            )

    @classmethod
    def stored(cls, table: Mapping[str, Any]) -> TrainSettings:
        """The settings of a trained run, which has no rules if an earlier version trained it."""
        return cls.of({"rules": False, **table})

    @classmethod
    def derive(cls, explicit: Mapping[str, Any], *sizes: int) -> dict[str, Any]:
        """The explicit settings; with sizes of the graph, also those that suit it.

        >>> TrainSettings(rank=7).with_derived(5216, 135).rank
        7
        """
        if not sizes:
            return dict(explicit)
        facts, entities = sizes
        chosen = by_size(facts, entities) | dict(explicit)
        both_ways = max(1, 2 * facts)
        enough = -(-STEPS * min(chosen["batch"], both_ways) // both_ways)
        return {"validate_every": max(5, enough, chosen["epochs"] // 10)} | chosen

    def describe_defaults(self, explicit: TrainSettings, facts: int, entities: int) -> str:
        """What was chosen for a graph beside the `explicit` settings, in a line, or "".

        >>> settings = TrainSettings(rank=50)
        >>> note = settings.with_derived(5216, 135).describe_defaults(settings, 5216, 135)
        >>> note.split("; ")[0]
        'reg 0.0075, 100 epochs, batch 500, for 5,216 facts of 135 entities'
        """
        templates = {
            "rank": "rank {}",
            "reg": "reg {:g}",
            "epochs": "{} epochs",
            "batch": "batch {}",
        }
        chosen = [
            text.format(getattr(self, name))
            for name, text in templates.items()
            if getattr(explicit, name) is None
        ]
        if not chosen:
            return ""
        return (
            f"{', '.join(chosen)}, for {facts:,} facts of {entities:,} entities; "
            "set them to choose yourself"
        )


def by_size(facts: int, entities: int) -> dict[str, Any]:
    """Rank, regularisation, epochs and batch by the size of a graph; see `benchmarks/defaults.py`.

    Few facts an entity want a strong regulariser, many bear a larger rank, where that does not take
    too long; among those the smallest graphs want the weakest. A small graph is trained for longer,
    since it takes seconds anyway.
    """
    sparse = facts < SPARSE * entities
    cost = facts * entities
    return {
        "rank": 100 if sparse or cost >= LONG else 200,
        "reg": 0.05 if sparse else 0.0075 if cost < SHORT else 0.01,
        "epochs": 100 if cost < SHORT else 30,
        "batch": 500 if facts < 100_000 else 1000,
    }
