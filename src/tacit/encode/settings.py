"""Settings and recipes of training an encoder."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from tacit.adapt.settings import read_shapes
from tacit.errors import SettingsError
from tacit.settings import Settings, device_setting, setting

RECIPES = ("lean", "paper")
LOSSES = ("margin", "ranking", "softmax", "sets")
DECAYS = ("cosine", "steps", "none")
SMALL = 20_000  # entities below which a model of little width is enough

# the shapes to learn from, as in BetaE
TRAINED = ("1p", "2p", "3p", "2i", "3i", "2in", "3in", "inp", "pin", "pni")
ENDLESS = 10**9  # steps, where time decides

_EVERY_MODEL: dict[str, Any] = {
    "hidden": 1600, "layers": 2, "bases": 30, "margin": 24.0, "temperature": 0.05, "dropout": 0.0,
    "loss": "margin", "likely": 0.0, "answers": 1, "negated": 0.2, "weight_decay": 0.0,
    "validate_every": 0.1, "validate_queries": 200,
}  # fmt: skip
# Defaults of a recipe, for what neither the user nor the model's own table sets.
RECIPE: dict[str, dict[str, Any]] = {
    "paper": _EVERY_MODEL | {
        "steps": 1_350_000, "residual": False, "adversarial": 0.0, "negatives": 128,
        "private": True, "batch": 512, "lr": 1e-4, "decay": "steps",
    },
    "lean": _EVERY_MODEL | {
        "steps": 100_000, "residual": True, "loss": "softmax", "adversarial": 0.5,
        "negatives": 512, "private": False, "batch": 2048, "lr": 1e-3, "decay": "cosine",
    },
    "small": {
        "steps": 12_000, "hidden": 128, "negatives": 128, "batch": 256, "negated": 0.2, "lr": 5e-3,
    },
}  # fmt: skip
# Graph networks compare all entities with all answers, and drop a quarter of a hop's facts.
_GRAPH_NETWORK = {
    "loss": "sets", "adversarial": 5.0, "dropout": 0.25, "negatives": 1, "private": False,
    "batch": 32,
}  # fmt: skip
_GRAPH_NETWORK_PAPER = {"decay": "none", "through": False}
_GRAPH_NETWORK_LEAN = {"steps": 10_000, "through": True, "joined": False}
_GRAPH_NETWORK_SMALL: dict[str, Any] = {
    "width": 16, "layers": 3, "hidden": 32, "batch": 16, "steps": 600, "negatives": 1,
    "validate_every": 0.25, "validate_queries": 20,  # a hop takes its time
}  # fmt: skip
# Points and boxes, which relations translate.
_TRANSLATION: dict[str, dict[str, Any]] = {
    "paper": {},
    "lean": {"weight_decay": 0.3},
    "small": {"width": 64, "margin": 9.0, "steps": 1500, "weight_decay": 1.0},
}
# Defaults of a model: in both recipes, and in each; `small` is `lean` on a graph of few entities.
BY_MODEL: dict[str, dict[str, dict[str, Any]]] = {
    "gqe": _TRANSLATION | {"both": {"width": 800}},
    "q2b": _TRANSLATION | {"both": {"width": 400}},
    "betae": {
        "both": {"width": 400, "margin": 60.0},
        "paper": {},
        "lean": {
            "negatives": 4096, "likely": 0.5, "answers": 4, "negated": 0.7, "lr": 2e-3,
            "weight_decay": 0.3,
        },
        "small": {
            "width": 32, "margin": 20.0, "negatives": 512, "likely": 0.0, "answers": 1, "lr": 1e-2,
            "weight_decay": 0.1,
        },
    },
    "cone": {
        "both": {"width": 800, "margin": 20.0},
        "paper": {"dropout": 0.2, "steps": 900_000},
        "lean": {
            "negatives": 2048, "likely": 0.5, "answers": 4, "negated": 0.5, "weight_decay": 4.0,
        },
        "small": {"width": 64, "margin": 12.0, "weight_decay": 1.0},
    },
    "fuzzqe": {
        "both": {"width": 1000},
        "paper": {
            "loss": "ranking", "lr": 5e-4, "weight_decay": 5e-2, "decay": "cosine",
            "steps": 900_000,
        },
        "lean": {"likely": 0.5, "lr": 2e-3},
        "small": {"width": 128, "bases": 8, "answers": 4, "lr": 5e-3},
    },
    "gnnqe": {
        "both": _GRAPH_NETWORK | {"width": 32, "layers": 4, "lr": 5e-3},
        "paper": _GRAPH_NETWORK_PAPER | {"hidden": 160, "joined": True, "steps": 30_000},
        "lean": _GRAPH_NETWORK_LEAN | {"hidden": 64},
        "small": _GRAPH_NETWORK_SMALL,
    },
    "ultra": {
        "both": _GRAPH_NETWORK | {"width": 64, "layers": 6, "hidden": 128},
        "paper": _GRAPH_NETWORK_PAPER | {"steps": 40_000, "lr": 5e-4},
        "lean": _GRAPH_NETWORK_LEAN,
        "small": _GRAPH_NETWORK_SMALL,
    },
    "lmpnn": {  # width is that of the link predictor
        "both": {"hidden": 8192, "temperature": 0.1, "loss": "softmax", "weight_decay": 1e-4},
        "paper": {"steps": 116_000},
        "lean": {"steps": 45_000, "negatives": 16_384, "lr": 5e-4},
        "small": {
            "steps": 2_000, "hidden": 512, "negatives": SMALL, "lr": 1e-3, "weight_decay": 0.01,
        },
    },
}  # fmt: skip
ENCODERS = tuple(BY_MODEL)


def _by_model(text: str, **limits: Any) -> Any:
    """A setting with a default by model, recipe and size, with its limits."""
    return setting(
        None, f"{text}; by model, recipe and size of the graph where nothing is given.", **limits
    )


@dataclass(frozen=True)
class LengthSettings:
    """The model, and the length of its training."""

    model: str = setting("q2b", "The encoder.", choices=ENCODERS)
    recipe: str = setting("lean", "In minutes, or as published.", choices=RECIPES)
    minutes: float | None = setting(
        None, "Time to train for; steps where it is not given.", above=0, resumes=True
    )
    steps: int = _by_model("Steps, at most", least=1, resumes=True)


@dataclass(frozen=True)
class ArchitectureSettings:
    """The size and the parts of the model."""

    width: int = _by_model("Numbers per entity and part of a state", least=1)
    hidden: int = _by_model("Width of layers between", least=1)
    layers: int = _by_model("Layers of a network", least=1, most=100)
    bases: int = _by_model("Matrices that relations mix, for fuzzqe", least=1)
    margin: float = _by_model("The logit of a distance of 0", above=0)
    temperature: float = _by_model("What cosines are divided by", above=0)
    dropout: float = _by_model("The share that is dropped in training", least=0, most=0.9)
    residual: bool = _by_model("Let networks correct moves by relations, in betae and cone")
    through: bool = _by_model("Learn from every hop of a chain, for gnnqe and ultra")
    joined: bool = _by_model("Read the states of all layers, for gnnqe")


@dataclass(frozen=True)
class LossSettings:
    """The loss of a query, and the entities that it compares."""

    loss: str = _by_model("What is made small", choices=LOSSES)
    adversarial: float = _by_model("How much negatives count by their scores", least=0)
    negatives: int = _by_model("Entities to compare with, shared by a batch", least=1)
    private: bool = _by_model("Draw negatives for every query of its own")
    likely: float = _by_model(
        "The share of shared negatives that answer other queries of the batch", least=0, most=1
    )
    answers: int = _by_model("Right answers of a query to learn from at once", least=1, most=1000)


@dataclass(frozen=True)
class OptimizerSettings:
    """The batches, and the steps of Adam on them."""

    batch: int = _by_model("Queries a step", least=1)
    negated: float = _by_model(
        "The share of negation among queries that are no chains", least=0, most=1
    )
    lr: float = _by_model("Learning rate of Adam", above=0, most=1_000_000)
    decay: str = _by_model("How the learning rate falls", choices=DECAYS)
    weight_decay: float = _by_model("Weight decay of AdamW", least=0)


@dataclass(frozen=True)
class QuerySettings:
    """The queries to learn from, and those to validate with."""

    shapes: tuple[str, ...] | None = setting(
        None,
        "Shapes to learn from, with commas; by default all given, or the usual ones, as far as the "
        "model can.",
        read=read_shapes,
    )
    share: float = setting(1.0, "The share of given queries to learn from.", above=0, most=1)
    validate_every: float = _by_model("The share between two validations", least=1e-6, most=1)
    validate_queries: int = _by_model("Queries of each shape to validate with, at most", least=1)


# The order of fields is that of bases from the last to the first.
@dataclass(frozen=True)
class EncodeSettings(
    QuerySettings, OptimizerSettings, LossSettings, ArchitectureSettings, LengthSettings, Settings
):
    """Settings of training an encoder.

    The recipe `paper` keeps to the published training of a model, `lean` reaches about the same in
    minutes: negatives shared by the batch and weighted by how well they score, larger batches, a
    learning rate that falls with the time.
    """

    noun = "encoding"

    precision: str = setting(
        "auto",
        "Precision of products; bf16 is for the networks of query embeddings, while they learn, "
        "and what auto is for lean betae, cone and fuzzqe on a GPU.",
        choices=("auto", "float32", "tf32", "bf16"),
    )
    checkpoint_seconds: float = setting(60.0, "Seconds between checkpoints.", least=0, resumes=True)
    seed: int = setting(0, "Seed of weights and draws.", least=0)
    device: str = device_setting()

    def check(self) -> None:
        """Raise a `SettingsError` for a loss or a precision that the model cannot learn with."""
        by_sets = BY_MODEL[self.model]["both"].get("loss") == "sets"
        if self.loss == "sets" and not by_sets:
            raise SettingsError(
                f"loss is 'sets', by which gnnqe and ultra alone learn, not {self.model}; leave it "
                "out",
                "loss",
            )
        if self.precision == "bf16" and by_sets:
            raise SettingsError(
                f"precision is 'bf16', in which {self.model} cannot compute; give "
                "`precision='tf32'`",
                "precision",
            )

    @classmethod
    def derive(cls, explicit: Mapping[str, Any], *sizes: int) -> dict[str, Any]:
        """The explicit settings; with the number of entities, those of model and recipe as well.

        >>> EncodeSettings("gqe").with_derived(100).width
        64
        >>> EncodeSettings("gqe", width=7).with_derived(100_000).width
        7
        """
        if not sizes:
            return dict(explicit)
        recipe = explicit.get("recipe", cls.recipe)
        defaults = BY_MODEL[explicit.get("model", cls.model)]
        derived = RECIPE[recipe] | defaults["both"] | defaults[recipe]
        if recipe == "lean" and sizes[0] < SMALL:
            derived |= RECIPE["small"] | defaults["small"]
        if explicit.get("minutes") is not None:
            derived["steps"] = ENDLESS
        return derived | dict(explicit)
