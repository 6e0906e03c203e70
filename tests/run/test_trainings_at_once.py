"""Two trainings of one run at a time: the second is refused, and neither loses its work."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import tacit
from encoder_runs import TINY
from family_runs import families
from tacit.errors import RunError
from tacit.run_folder.folder import RunFolder

LINKS: dict[str, Any] = {"rank": 4, "epochs": 2, "device": "cpu", "progress": False}
QUESTIONS: dict[str, Any] = {"count": 20, "shapes": "2p", "steps": 2, "recipe": "paper"}


def while_it_draws(monkeypatch: pytest.MonkeyPatch, place: str, attempt: Callable[[], Any]) -> None:
    """Make an attempt when a training draws its questions, before its first step."""
    module, name = place.rsplit(".", 1)
    original = getattr(__import__(module, fromlist=[name]), name)

    def drawn(*arguments: Any) -> Any:
        monkeypatch.undo()
        with pytest.raises(RunError, match="is in use"):
            attempt()
        return original(*arguments)

    monkeypatch.setattr(place, drawn)


@pytest.mark.parametrize("force", [False, True])
def test_a_link_predictor(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, force: bool) -> None:
    out = tmp_path / "run"
    other = {**LINKS, "rank": 8}
    place = "tacit.evaluate.question_validation.validation"
    while_it_draws(monkeypatch, place, lambda: tacit.train(families(), out, force=force, **other))
    run = tacit.train(families(), out, **LINKS)
    scorer: Any = run.engine.scorer
    assert run.settings["train"]["rank"] == 4 == scorer.rank
    assert tacit.train(families(), out, force=True, **other).settings["train"]["rank"] == 8


def test_an_encoder(run: RunFolder) -> None:
    other = {**TINY, "model": "q2b", "progress": False}
    refused = []

    def tell(_: Any) -> None:
        for attempt in (
            lambda: tacit.train_encoder(run.path, force=True, **other),
            lambda: tacit.open(run.path).drop_encoder(),
        ):
            with pytest.raises(RunError, match="is in use"):
                attempt()
            refused.append(attempt)

    tacit.train_encoder(run.path, progress=tell, **TINY)
    assert refused
    assert tacit.open(run.path).settings["encode"]["model"] == "gqe"


def test_an_encoder_over_vectors_that_would_change(
    run: RunFolder, monkeypatch: pytest.MonkeyPatch
) -> None:
    def attempt() -> None:
        tacit.train(run.graph(), run.path, resume=True, epochs=30, progress=False)

    while_it_draws(monkeypatch, "tacit.encode.training.encoding.training_queries", attempt)
    tacit.train_encoder(run.path, progress=False, **TINY | {"model": "lmpnn"})
    assert tacit.open(run.path).weights.encoder is not None


def test_an_adapter(run: RunFolder) -> None:
    opened = tacit.open(run.path)
    refused = []

    def tell(_: Any) -> None:
        for attempt in (opened.drop_adapter, lambda: tacit.open(run.path).adapt(**QUESTIONS)):
            with pytest.raises(RunError, match="is in use"):
                attempt()
            refused.append(attempt)

    assert opened.adapt(progress=tell, **QUESTIONS)["kept"]
    assert refused
    opened.drop_adapter()
