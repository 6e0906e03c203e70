"""How an engine searches and values answers."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import asdict, dataclass
from typing import Any

from tacit.engine.atoms import OBSERVED
from tacit.errors import SettingsError
from tacit.graph.graph import PARTS

SEARCHES = ("beam", "exact", "continuous", "symbolic")


@dataclass(frozen=True)
class EngineSettings:
    """Everything that decides an engine's answers, beside its link predictor and adapter.

    `observed` names the parts of the graph whose facts count as known: all of them for someone who asks about a graph,
    the training part alone (or nothing) where answers are held against a benchmark.
    """

    search: str = "beam"
    k: int = 256
    logic: str = "product"
    negation: str = "standard"
    strength: float = 1.0
    calibration: str = "softmax-count"
    observed: tuple[str, ...] = PARTS
    observed_score: float = OBSERVED
    precision: str = "float32"
    memory: float | None = None  # GB
    steps: int = 1000  # of continuous search
    step_size: float = 0.1
    vector_reg: float = 0.0

    def __post_init__(self) -> None:
        object.__setattr__(self, "observed", observed_parts(self.observed))
        if self.search not in SEARCHES:
            raise SettingsError(f"no search '{self.search}'; there are {', '.join(SEARCHES)}")
        if isinstance(self.k, bool) or not isinstance(self.k, int) or self.k < 1:
            raise SettingsError(
                f"k must be a whole number of at least 1, not {self.k}; --search exact keeps everything"
            )

    def to_dict(self) -> dict[str, Any]:
        """Plain data, as settings files and results need it."""
        return asdict(self) | {"observed": "+".join(self.observed) or "none"}


def observed_parts(given: str | Iterable[str]) -> tuple[str, ...]:
    """The parts whose facts count as known: `all`, `none`, or names joined by `+`.

    >>> observed_parts("train+valid"), observed_parts("none"), observed_parts("all")
    (('train', 'valid'), (), ('train', 'valid', 'test'))
    """
    if isinstance(given, str):
        if given in ("none", ""):
            return ()
        given = PARTS if given == "all" else given.replace(",", "+").split("+")
    wanted = [name.strip() for name in given]
    for name in wanted:
        if name not in PARTS:
            raise SettingsError(f"no part '{name}' to observe; give all, none, or some of {'+'.join(PARTS)}")
    return tuple(name for name in PARTS if name in wanted)
