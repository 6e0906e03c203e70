"""The settings of a training run."""

from __future__ import annotations

from dataclasses import dataclass

from tacit.errors import SettingsError
from tacit.settings import Settings, setting

MODEL_NAMES = ("complex", "distmult", "cp", "transe", "rotate")
OPTIMIZER_NAMES = ("adagrad", "rowwise", "adam")
BILINEAR_NAMES = ("complex", "distmult", "cp")


@dataclass(frozen=True)
class TrainSettings(Settings):
    """How to train a link predictor.

    >>> TrainSettings(rank=0)
    Traceback (most recent call last):
    tacit.errors.SettingsError: rank is 0; it must be at least 1
    """

    noun = "training"

    model: str = setting("complex", "The link predictor.", choices=MODEL_NAMES)
    rank: int = setting(100, "Numbers per entity (complex ones for complex, rotate).", least=1)
    epochs: int = setting(30, "Passes over the facts, at most.", least=1, resumes=True)
    batch: int = setting(500, "Triples per step.", least=1)
    lr: float = setting(0.1, "Learning rate.", above=0)
    reg: float = setting(0.02, "Weight of the regulariser.", least=0)
    regulariser: str = setting("n3", "What keeps weights small.", choices=("n3", "l2"))
    optimizer: str = setting("adagrad", "How weights are moved; rowwise: one sum an entity.", choices=OPTIMIZER_NAMES)
    init: float = setting(1e-3, "Scale of the first weights.", above=0)
    norm: int = setting(1, "Norm of the distances of transe and rotate.", choices=(1, 2))
    relation_weight: float = setting(0.0, "Weight of the loss that predicts relations.", least=0)
    negatives: int = setting(0, "Entities drawn per step to compare with; 0 compares with all.", least=0)
    memory: float | None = setting(None, "GB for scores; what is free by default.", above=0, resumes=True)
    precision: str = setting("auto", "Precision of products.", choices=("auto", "float32", "tf32", "bf16"))
    seed: int = setting(0, "Seed of weights, order and draws.", least=0)
    device: str = setting("auto", "auto, cpu, cuda or cuda:N.", resumes=True)
    validate_every: int = setting(5, "Epochs between validations.", least=1)
    validate_facts: int = setting(20_000, "Facts ranked in a validation, at most.", least=1)
    patience: int = setting(4, "Validations without a better MRR before training ends.", least=1, resumes=True)
    checkpoint_seconds: float = setting(60.0, "Seconds between checkpoints.", least=0, resumes=True)

    def check(self) -> None:
        """Raise a `SettingsError` where settings contradict each other."""
        if self.negatives and self.optimizer == "adam":
            raise SettingsError(f"negatives is {self.negatives} with optimizer adam; use adagrad or rowwise with it")
        if self.relation_weight and self.model not in BILINEAR_NAMES:
            raise SettingsError(
                f"relation_weight is {self.relation_weight} but model {self.model} cannot predict relations; "
                f"use one of {', '.join(BILINEAR_NAMES)}, or relation_weight 0"
            )


FREE_ON_RESUME = TrainSettings.free_on_resume()
