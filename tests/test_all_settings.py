"""Settings: one form for all of them, checked at creation, field by field and as a whole."""

from __future__ import annotations

import math
import pickle
from copy import copy
from dataclasses import Field
from importlib import import_module
from typing import Any

import pytest

from source_tree import modules
from tacit.adapt.settings import AdaptSettings
from tacit.encode.settings import ENDLESS, EncodeSettings
from tacit.engine import logic
from tacit.engine.atoms import atoms, calibration
from tacit.engine.settings import CALIBRATIONS, LOGICS, NEGATIONS, EngineSettings
from tacit.errors import SettingsError
from tacit.evaluate.settings import MEANS, TIES
from tacit.links import ranking
from tacit.links.factors import BilinearModel
from tacit.links.models import MODELS
from tacit.links.settings import BILINEAR, MODEL_NAMES, TrainSettings
from tacit.query.sampling.settings import SampleSettings
from tacit.server.settings import ServerSettings
from tacit.settings import Settings, settings_of

for name in modules():
    if name.endswith("settings"):
        import_module(name)
CLASSES = [kind for kind in Settings.__subclasses__() if kind.__module__.startswith("tacit.")]
FIELDS = [
    pytest.param(kind, declared, id=f"{kind.__name__}.{declared.name}")
    for kind in CLASSES
    for declared in settings_of(kind)
]
# Values of no type, for any field; settings.toml cannot hold the last integer.
WRONG: dict[str, list[Any]] = {
    "int": ["x", 1.5, math.nan, math.inf, -(10**9), True, [1], {"a": 1}, b"1", 2**63],
    "float": ["x", math.nan, math.inf, -math.inf, -1e9, 10**400, True, [1.0], {"a": 1}, b"1"],
    "str": [1.5, True, math.nan, ["x"], {"x": 1}, b"x"],
    "bool": ["x", 1, 0, 1.5, math.nan, [True], b"x"],
    "tuple[str, ...]": [1, 1.5, True, math.nan, [1], b"x"],
}
# Words that are free: files, addresses, names that others choose.
FREE = ("labels", "language", "columns", "format", "host", "api_key", "api_key_file", "access_log")


@pytest.mark.parametrize(
    ("values", "message"),
    [
        ({"logic": "nonsense"}, f"logic is 'nonsense'; it must be one of {', '.join(LOGICS)}$"),
        ({"negation": "cos"}, "negation is 'cos'; it must be one of standard, cosine"),
        (
            {"calibration": "platt"},
            f"calibration is 'platt'; it must be one of {', '.join(CALIBRATIONS)}$",
        ),
        ({"strength": "x"}, "strength is 'x'; it must be a finite number"),
        ({"strength": math.nan}, "strength is nan; it must be a finite number"),
        ({"k": 0}, "k is 0; it must be at least 1"),
        ({"memory": 1e300}, r"memory is 1e\+300; it must be at most 1000000"),
        ({"k": True}, "k is True; it must be a whole number"),
        ({"observed_score": 0.5}, r"observed_score is 0\.5; it must be above 0\.5"),
        ({"observed_score": 1.5}, r"observed_score is 1\.5; it must be at most 1"),
        ({"observed": "tomorrow"}, "observed names no split 'tomorrow'; it must be all, none"),
        ({"observed": None}, "observed is None; it must be a list of words"),
    ],
)
def test_an_engine_setting_that_makes_no_sense_fails_at_once(
    values: dict[str, Any], message: str
) -> None:
    for make in (lambda: EngineSettings(**values), lambda: EngineSettings().changed(**values)):
        with pytest.raises(SettingsError, match=f"^{message}") as caught:
            make()
        assert caught.value.parameter == next(iter(values))


def test_a_learning_rate_to_adapt_with_is_one_that_float32_holds() -> None:
    with pytest.raises(SettingsError, match=r"^lr is 1e\+308; it must be at most 1000000$"):
        AdaptSettings(lr=1e308)


def test_a_batch_to_adapt_with_is_drawn_at_once() -> None:
    with pytest.raises(SettingsError, match=r"^batch is 1000001; it must be at most 1000000$"):
        AdaptSettings(batch=1_000_001)


@pytest.mark.parametrize(("kind", "declared"), FIELDS)
def test_a_value_of_another_type_or_range_fails_at_creation_in_one_line(
    kind: type[Settings], declared: Field[Any]
) -> None:
    name = declared.name
    annotation = str(declared.type)
    wrong = list(WRONG[annotation.removesuffix(" | None")])
    wrong += ["nonsense"] if declared.metadata["choices"] else []
    wrong += [] if annotation.endswith("None") or declared.default is None else [None]
    for value in wrong:
        for make in (kind.of, lambda values: kind().changed(**values)):
            with pytest.raises(SettingsError) as caught:
                make({name: value})
            assert caught.value.parameter == name
            assert name in str(caught.value) or "split" in str(caught.value)
            assert "\n" not in str(caught.value)


@pytest.mark.parametrize(("kind", "declared"), FIELDS)
def test_every_setting_has_choices_or_a_range(kind: type[Settings], declared: Field[Any]) -> None:
    about = declared.metadata
    annotation = str(declared.type).removesuffix(" | None")
    if annotation in ("int", "float"):
        assert about["choices"] or about["least"] is not None or about["above"] is not None
    if annotation == "str":
        assert about["choices"] or about["read"] or declared.name in FREE
    assert declared.default is None or kind.of({declared.name: declared.default}) == kind()


@pytest.mark.parametrize("kind", [kind for kind in CLASSES if hasattr(kind, "device")])
def test_a_device_is_one_that_torch_may_have(kind: type[Settings]) -> None:
    for name in (
        "nonsense",
        "",
        "mps",
        "cuda:",
        "cuda:-1",
        "cuda:01",
        "cuda:256",
        "auto:1",
        " cpu",
        "cpu\n",
        "CPU",
    ):
        with pytest.raises(
            SettingsError, match=r"^device is .*; it must be auto, cpu, cuda or cuda:N$"
        ) as caught:
            kind.of({"device": name})
        assert caught.value.parameter == "device"
    # which this machine may lack
    for name in ("auto", "cpu", "cpu:0", "cuda", "cuda:7", "cuda:15"):
        assert kind.of({"device": name}).to_dict()["device"] == name


def test_the_number_of_missing_links_is_one() -> None:
    assert [SampleSettings(missing=value).missing for value in ("2", "2+", 3, None)] == [
        "2",
        "2+",
        "3",
        None,
    ]  # type: ignore[arg-type]
    for value in ("x", "0", "+", "-1", "", 0):
        with pytest.raises(SettingsError, match="it must be a number of links from 1"):
            SampleSettings(missing=value)  # type: ignore[arg-type]


@pytest.mark.parametrize("kind", CLASSES)
def test_every_setting_says_what_it_does_and_an_unknown_one_what_is_near(
    kind: type[Settings],
) -> None:
    for declared in settings_of(kind):
        assert declared.metadata["help"][-1] == "."
        with pytest.raises(SettingsError, match=f"did you mean '{declared.name}'"):
            kind.of({declared.name + "_": 1})
    with pytest.raises(SettingsError, match=r"unknown .* setting 'qqqq'; the settings are"):
        kind().changed(qqqq=1)


@pytest.mark.parametrize("kind", [kind for kind in CLASSES if kind is not ServerSettings])
def test_settings_become_plain_values_and_come_back(kind: type[Settings]) -> None:
    assert kind.of(kind().to_dict()) == kind()


def test_what_was_not_given_follows_anew_from_a_change() -> None:
    assert EngineSettings(search="continuous").changed(search="beam") == EngineSettings(
        search="beam"
    )
    assert EngineSettings(preset="qto").changed(k=3).changed(preset="fit") == EngineSettings(
        preset="fit", k=3
    )
    assert AdaptSettings(recipe="paper", lr=0.2).changed(recipe="asked") == AdaptSettings(lr=0.2)
    assert AdaptSettings(loss="bce").changed(lr=0.2) == AdaptSettings(loss="bce", lr=0.2)


def test_what_was_given_stays_until_a_later_change_decides_it() -> None:
    original = EngineSettings(
        search="continuous", calibration="sigmoid", preset="qto", strength=6.0
    )
    for settings in (original, pickle.loads(pickle.dumps(original)), copy(original)):
        after = settings.changed(search="beam", preset=None)
        assert (after.calibration, after.strength, after.observed_score) == (
            "sigmoid",
            6.0,
            1 - 2**-10,
        )
    assert (
        EngineSettings(calibration="minmax").changed(search="continuous").calibration == "sigmoid"
    )
    assert EngineSettings(k=3).changed(preset="cqd-hybrid").k == 512
    # a value, though it stands for nothing
    assert EngineSettings(preset="cqd-hybrid", ceiling=None).ceiling is None
    assert AdaptSettings(loss="bce").changed(recipe="paper") == AdaptSettings(recipe="paper")


def test_what_a_graph_decides_is_kept() -> None:
    settled = AdaptSettings(observed="train").with_derived(0)
    # all there is to learn from would be known
    assert (settled.held_out, settled.observed) == (False, ())
    assert EncodeSettings("gqe", minutes=1.0).with_derived(30).changed(lr=0.5).steps == ENDLESS
    assert TrainSettings().with_derived(5216, 135).changed(lr=0.5).rank == 200
    assert TrainSettings(rank=7).with_derived(5216, 135).changed(rank=None).rank is None


def test_the_names_that_settings_offer_are_those_that_exist() -> None:
    assert tuple(logic.NORMS) == LOGICS
    assert tuple(logic.NEGATIONS) == NEGATIONS
    assert tuple(calibration.CALIBRATIONS) == CALIBRATIONS
    assert (TIES, MEANS) == (ranking.TIES, ranking.MEANS)
    assert set(MODEL_NAMES) == set(MODELS)
    assert [name for name, kind in MODELS.items() if issubclass(kind, BilinearModel)] == list(
        BILINEAR
    )
    assert EngineSettings().observed_score == atoms.OBSERVED


def test_what_is_secret_is_never_printed() -> None:
    assert "sesame" not in repr(ServerSettings(api_key="sesame"))
    with pytest.raises(SettingsError, match=r"^api_key is bytes; it must be a word$"):
        ServerSettings(api_key=b"sesame")  # type: ignore[arg-type]


def test_a_name_that_is_no_setting_is_told_with_the_nearest() -> None:
    with pytest.raises(
        SettingsError, match="unknown engine setting 'serch'; did you mean 'search'"
    ):
        EngineSettings(serch="beam")  # type: ignore[call-arg]


def test_a_word_is_no_list_of_words() -> None:
    with pytest.raises(
        SettingsError, match=r"cors is 'http://a.example'; it must be a list of words"
    ):
        ServerSettings(cors="http://a.example")  # type: ignore[arg-type]
    assert ServerSettings(cors=["http://a.example"]).cors == ("http://a.example",)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("kind", "values", "parameter"),
    [
        (EncodeSettings, {"model": "gqe", "loss": "sets"}, "loss"),
        (EncodeSettings, {"model": "gnnqe", "precision": "bf16"}, "precision"),
        (ServerSettings, {"limits": "x"}, "limits"),
        (ServerSettings, {"limits": {"k": 0}}, "limits"),
        (ServerSettings, {"api_key": " "}, "api_key"),
        (ServerSettings, {"api_key": "sesame\n"}, "api_key"),
        (ServerSettings, {"cors": ["a.example"]}, "cors"),
        (TrainSettings, {"negatives": 2, "optimizer": "adam"}, "optimizer"),
        (TrainSettings, {"model": "transe", "relation_weight": 1.0}, "relation_weight"),
    ],
)
def test_what_cannot_be_is_refused_at_creation_by_its_name(
    kind: type[Settings], values: dict[str, Any], parameter: str
) -> None:
    with pytest.raises(SettingsError) as caught:
        kind.of(values)
    assert caught.value.parameter == parameter


def test_what_two_changes_overrule_comes_back_when_neither_decides_it() -> None:
    settings = EngineSettings(calibration="softmax-count").changed(search="continuous")
    assert settings.calibration == "sigmoid"
    hybrid = settings.changed(preset="cqd-hybrid")
    assert (hybrid.calibration, hybrid.changed(search="auto").calibration) == ("minmax", "minmax")
    assert hybrid.changed(search="auto").changed(preset=None).calibration == "softmax-count"
