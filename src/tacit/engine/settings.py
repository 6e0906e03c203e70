"""The settings of an engine: how it searches for answers and scores them."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

from tacit.engine.presets import PRESETS
from tacit.errors import SettingsError
from tacit.settings import Settings, setting

if TYPE_CHECKING:
    from tacit.engine.atoms.calibration import Calibration
    from tacit.graph.qualifiers import FactSelection

SEARCHES = ("auto", "beam", "exact", "certified", "continuous", "symbolic", "encoder")
LOGICS = ("product", "godel", "lukasiewicz")
NEGATIONS = ("standard", "cosine")
LISTED = ("scan", "index")  # candidates from lists of tails, which rules do not order
CANDIDATES = ("auto", "rows", *LISTED)
NOTHING_KNOWN = "new leaves out what is known, and with `observed='none'` nothing is; leave one out"
CALIBRATIONS = ("sigmoid", "minmax", "softmax-count", "softmax-observed")
MIXED = "softmax-count"  # the calibration that rules are mixed with
# the settings that an encoder does not use, by a search that does
UNUSED_BY_ENCODERS = {
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
        "rules",
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


def _date(text: str) -> str:
    """A date as it is written, or a `SettingsError`."""
    from tacit.graph.qualifiers import parsed_as_of

    return str(parsed_as_of(str(text)))


@dataclass(frozen=True)
class SearchSettings:
    """How an engine looks for answers."""

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


@dataclass(frozen=True)
class ScoreSettings:
    """How an engine scores atoms and combines their scores."""

    logic: str = setting("product", "The t-norm that combines scores.", choices=LOGICS)
    negation: str = setting("standard", "What a negation makes of a score.", choices=NEGATIONS)
    strength: float = setting(1.0, "How strongly negation excludes.", above=0)
    calibration: str = setting(
        MIXED, "What makes scores of the link predictor's numbers.", choices=CALIBRATIONS
    )
    rules: bool = setting(
        True,
        "Mix the rules of the run into the scores; off with presets, over lists and without "
        f"{MIXED}.",
    )


@dataclass(frozen=True)
class FactSettings:
    """What an engine knows, and what it may predict."""

    observed: tuple[str, ...] = setting(
        "all",
        "Splits whose facts count as known: all, none, or names joined by +.",
        read=observed_splits,
    )
    fact_sources: tuple[str, ...] = setting(
        (),
        "A source whose facts alone count as known; may be repeated. By default all facts do.",
    )
    as_of: str | None = setting(
        None,
        "A day, month or year, as in 2015 or 2015-06-30: only facts that hold then, and those "
        "without dates, count as known.",
        read=_date,
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


@dataclass(frozen=True)
class ComputeSettings:
    """How an engine computes on a device, and by steps in continuous search."""

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


@dataclass(frozen=True)
class EngineSettings(ComputeSettings, FactSettings, ScoreSettings, SearchSettings, Settings):
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

    noun = "engine"  # the fields of the last base come first

    @classmethod
    def derive(cls, explicit: Mapping[str, Any], *sizes: int) -> dict[str, Any]:
        """The explicit settings, and defaults of the preset and of continuous search."""
        preset = PRESETS[explicit["preset"]].settings if explicit.get("preset") else {}
        smooth = {"calibration": "sigmoid"} if explicit.get("search") == "continuous" else {}
        chosen = {**preset, **smooth, **explicit}
        listed = chosen.get("candidates") in LISTED
        unmixed = listed or bool(preset) or chosen.get("calibration", MIXED) != MIXED
        return {"rules": False, **chosen} if unmixed else chosen

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
        listed = self.candidates in LISTED
        if self.rules and (listed or self.preset or self.calibration != MIXED):
            name = "preset" if self.preset else "candidates" if listed else "calibration"
            other = f"`{name}='{getattr(self, name)}'`"
            raise SettingsError(
                f"rules is True, and with {other} no rules are mixed into scores; leave one out",
                "rules",
            )
        by_lists = self.search in ("auto", "beam", "certified")
        if listed and not by_lists:
            raise SettingsError(
                f"candidates is '{self.candidates}', which serves beam and certified search, not "
                f"`search='{self.search}'`; leave one out",
                "candidates",
            )

    def check_explicit(self, names: Iterable[str]) -> None:
        """Raise a `SettingsError` for an explicit setting that the search does not use."""
        if self.search != "encoder":
            return
        for search, unused in UNUSED_BY_ENCODERS.items():
            for name in names:
                if name in unused:
                    raise SettingsError(
                        f"{name} is {getattr(self, name)}, which means nothing to an encoder; "
                        f"leave it out, or ask with `search='{search}'`",
                        name,
                    )

    @property
    def selection(self) -> FactSelection:
        """The facts that may count as known, by source and time."""
        from tacit.graph.qualifiers import FactSelection, parsed_as_of

        return FactSelection(parsed_as_of(self.as_of) if self.as_of else None, self.fact_sources)

    def to_dict(self) -> dict[str, Any]:
        """The settings as plain values for settings files and results."""
        return super().to_dict() | {"observed": "+".join(self.observed) or "none"}


@dataclass(frozen=True)
class AdapterChoice:
    """An adapter, whether it is in use, and the settings that come and go with it."""

    adapter: Calibration | None
    used: bool
    enabled: bool = True  # whether it is used where it fits
    set_aside: Mapping[str, Any] = field(default_factory=dict)  # its settings, while unused
    changed: frozenset[str] = frozenset()  # settings changed since its use last changed

    def with_changes(
        self, settings: EngineSettings, adapted: bool | None, changes: Mapping[str, Any]
    ) -> tuple[AdapterChoice, EngineSettings]:
        """The choice after changes of settings, and the settings to which these apply."""
        enabled = self.enabled if adapted is None else adapted
        after = settings.changed(**changes)
        restored = {
            name: value
            for name, value in self.set_aside.items()
            if name not in changes and not after.decides(name)
            if name not in self.changed or (adapted and name == "calibration")
        }
        # An adapter in use or by request stays, so that another calibration beside it is an error.
        insists = (self.used or bool(adapted)) and "calibration" in changes
        preset = changes.get("preset") if self.used else after.preset
        adapter = self.adapter if enabled and not preset else None
        used = adapter is not None and (
            insists or after.changed(**restored).calibration == adapter.kind
        )
        if used == self.used:
            return replace(self, enabled=enabled, changed=self.changed.union(changes)), settings
        if used:
            choice = AdapterChoice(self.adapter, used, enabled, changed=frozenset(changes))
            return choice, settings.changed(**restored)
        defaults = {} if self.adapter is None else self.adapter.unadapted_defaults
        set_aside = {name: getattr(settings, name) for name in defaults}
        unchanged = {name: value for name, value in defaults.items() if name not in self.changed}
        return AdapterChoice(self.adapter, used, enabled, set_aside), settings.changed(**unchanged)
