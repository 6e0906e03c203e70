"""An encoder behind an engine: its answers, refusals and kind of scores."""

from __future__ import annotations

import math
import pickle
from collections.abc import Mapping
from typing import Any

import pytest

from served_graphs import EncodedAtlas
from tacit.engine.engine import Engine
from tacit.engine.settings import UNUSED_BY_ENCODERS, EngineSettings
from tacit.errors import PlanError, SettingsError

SIGMOID = {logit: 1 / (1 + math.exp(-logit)) for logit in (2.0, -1.0)}
# Spain, which is known, and Portugal, which the encoder alone knows
LANGUAGES = "?c : speaks(?c, Spanish)"


@pytest.fixture(scope="module")
def engine() -> Engine:
    return EncodedAtlas().engine()


def test_known_answers_are_marked_and_come_first(engine: Engine) -> None:
    answers = engine.ask(LANGUAGES, top=3)
    assert [(a.entity, a.known) for a in answers[:2]] == [("Spain", True), ("Portugal", False)]
    assert answers[0].score == 1  # nothing that an encoder predicts is above what is known
    assert answers[1].score == pytest.approx(SIGMOID[2.0])
    assert answers[2].score == pytest.approx(SIGMOID[-1.0])


def test_scores_are_named_as_no_probabilities(engine: Engine) -> None:
    answers = engine.ask(LANGUAGES, top=3)
    sentence = "Scores of Stand-in order the answers; they are no probabilities."
    assert sentence in str(answers)
    assert sentence in answers._repr_html_()
    assert "at 0.5 or above" not in str(answers)
    fields = answers.to_dict()
    assert (fields["uncalibrated"], fields["likely"]) == (sentence, None)
    assert "uncalibrated" not in engine.with_settings(search="beam").ask(LANGUAGES).to_dict()


def test_the_engine_says_which_encoder_and_how_it_was_trained(engine: Engine) -> None:
    about = engine.config
    assert (about["encoder"], about["encoding"]) == (
        "Stand-in",
        "q2b, recipe lean, 7 steps, 0.1 minutes",
    )
    assert (about["calibration"], about["adapted"]) == ("none", False)
    assert "encoder" not in engine.with_settings(search="exact").config


def test_there_are_no_reasons_and_it_says_so(engine: Engine) -> None:
    answers = engine.explain(LANGUAGES)
    assert (answers.explained, answers.certified) == (False, None)
    assert "no reasons to show" in str(answers)


def test_new_answers_and_least_scores(engine: Engine) -> None:
    new = engine.with_settings(new=True).ask(LANGUAGES, top=1)
    assert (new.entities, new.left_out) == (["Portugal"], 1)
    assert engine.ask(LANGUAGES, top=None, min_score=0.8).entities == ["Spain", "Portugal"]
    assert engine.ask(LANGUAGES, top=None, min_score=0.9).entities == ["Spain"]  # σ(2) = 0.881


@pytest.mark.parametrize(
    ("question", "asked_for"),
    [
        (": speaks(Portugal, Spanish)", "yes or no"),
        ("?a, ?b : speaks(?a, ?b)", "several variables"),
        ("count ?c : speaks(?c, Spanish)", "a count"),
        ("?r : ?r(Spain, Spanish)", "a relation"),
    ],
)
def test_what_would_take_probabilities_is_refused(
    engine: Engine, question: str, asked_for: str
) -> None:
    with pytest.raises(
        PlanError, match=f"asks for {asked_for}, and Stand-in .* ask with `search='beam'`"
    ):
        engine.ask(question)
    assert (
        engine.with_settings(search="beam").ask(question).kind != "entities"
    )  # which the error names


def test_the_score_of_a_fact_and_a_count_are_refused(engine: Engine) -> None:
    with pytest.raises(PlanError, match="yes or no"):
        engine.score("Portugal", "speaks", "Spanish")
    with pytest.raises(PlanError, match="a count"):
        engine.count(LANGUAGES)


GIVEN: Mapping[str, Any] = {
    "k": 8, "budget": 9, "candidates": "rows", "nprobe": 4, "logic": "godel",
    "negation": "cosine", "strength": 2.0, "calibration": "sigmoid", "ceiling": 0.5, "typed": True,
    "precision": "tf32", "rules": False, "steps": 5, "step_size": 0.5, "vector_reg": 0.1,
}  # fmt: skip


@pytest.mark.parametrize("name", GIVEN)
def test_settings_that_mean_nothing_to_it_are_refused(engine: Engine, name: str) -> None:
    with pytest.raises(
        SettingsError,
        match=rf"{name} is .* means nothing to an encoder.* `search='(beam|continuous)'`",
    ):
        engine.with_settings(**{name: GIVEN[name]})
    assert engine.with_settings(search="beam", **{name: GIVEN[name]}).settings.search == "beam"


def test_every_setting_is_either_its_own_or_another_search_s() -> None:
    """A setting that is added must be put on one side."""
    own = {
        "search",
        "observed",
        "as_of",
        "fact_sources",
        "observed_score",
        "new",
        "loops",
        "memory",
    }
    assert (
        set(EngineSettings().to_dict())
        == own.union(*UNUSED_BY_ENCODERS.values())
        == own | {"preset"} | set(GIVEN)
    )


def test_a_preset_is_another_search(engine: Engine) -> None:
    assert engine.with_settings(preset="qto").config["search"] == "exact"
    both = {"search": "encoder", "preset": "qto"}
    with pytest.raises(SettingsError, match="preset is qto, which means nothing to an encoder"):
        EngineSettings.of(both).check_explicit(both)


def test_settings_of_the_search_before_are_no_obstacle() -> None:
    beam = EncodedAtlas(search="beam").engine().with_settings(k=4, logic="godel")
    assert beam.with_settings(search="encoder").ask(LANGUAGES, top=2).entities == [
        "Spain",
        "Portugal",
    ]


def test_what_it_cannot_express_is_refused_by_the_plan(engine: Engine) -> None:
    with pytest.raises(PlanError, match="Stand-in has no complement"):
        engine.describe("?c : borders(France, ?c) & !speaks(?c, Italian)")
    # it follows no candidates
    assert "rows" not in engine.describe("?c : borders(France, ?n) & borders(?n, ?c)")


def test_without_an_encoder_there_is_none_to_ask() -> None:
    engine = EncodedAtlas(search="beam").engine()
    with pytest.raises(
        SettingsError, match="search is 'encoder', and there is none here"
    ) as caught:
        Engine(engine.graph, engine.scorer, search="encoder")
    assert caught.value.parameter == "search"


def test_the_settings_are_plain_data(engine: Engine) -> None:
    assert pickle.loads(pickle.dumps(engine.config)) == engine.config
