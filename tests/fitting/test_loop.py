"""The loop, on a task of one number that can be followed by hand."""

from __future__ import annotations

import re
import signal
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path

import pytest
import torch
from torch import Tensor, nn

from tacit.errors import RunError, TrainingError
from tacit.fitting import loop
from tacit.fitting.checkpoint import optimizer_tensors, restore_optimizer
from tacit.fitting.interruption import Stopped
from tacit.fitting.loop import Trainer
from tacit.fitting.progress import Event
from tacit.fitting.task import Task, TrainingSchedule
from tacit.graph.graph import Graph
from tacit.run_folder.files import CHECKPOINT
from tacit.run_folder.folder import RunFolder

FILE = "adaptation.safetensors"
SCHEDULE = TrainingSchedule(3, 4, 1, 1, 9)  # 3 laps of 4 steps


class Walk(Task):
    """One number plus 1 minus the draw a step; `figures` are the validations to come."""

    name = "walk"
    unit = "lap"
    examples = "yards"
    remedy = "walk slower"
    faster = "running would be faster"

    def __init__(self, figures: list[float]) -> None:
        self.module = nn.Linear(1, 1, bias=False)
        nn.init.zeros_(self.module.weight)
        self.optimizer = torch.optim.SGD(self.module.parameters(), lr=1.0, momentum=0.5)
        self.figures = figures
        self.drawn = 0
        self.seen = list[float]()
        self.planned = SCHEDULE

    def schedule(self) -> TrainingSchedule:
        return self.planned

    def step(self, number: int) -> tuple[Tensor, int]:
        self.drawn = (self.drawn * 5 + 3) % 8
        self.module.weight.grad = torch.full((1, 1), self.drawn - 1.0)
        self.optimizer.step()
        return torch.tensor(2.0 * number), 2

    def validate(self) -> dict[str, float]:
        self.seen.append(self.value)
        return {"value": self.figures.pop(0)} if self.figures else {}

    def state(self) -> dict[str, Tensor]:
        return {"drawn": torch.tensor(self.drawn)}

    def restore(self, state: Mapping[str, Tensor]) -> None:
        self.drawn = int(state["drawn"])

    @property
    def value(self) -> float:
        return float(self.module.weight.detach())


@pytest.fixture
def run(tmp_path: Path) -> RunFolder:
    return RunFolder.create(tmp_path / "run", Graph.of([("a", "r", "b")]), {})


def trainer_of(
    task: Walk, schedule: TrainingSchedule = SCHEDULE, run: RunFolder | None = None
) -> tuple[Trainer, list[Event]]:
    events: list[Event] = []
    task.planned = schedule
    return Trainer(task, events.append, run, FILE, {"shoes": "brown"}), events


def test_rounds_tell_the_mean_loss_and_the_best_weights_come_back() -> None:
    task = Walk([0.1, 0.3, 0.2])
    fitting, events = trainer_of(task)
    fitting.train()
    fitting.finish()
    validations = [event for event in events if event.what == "validation"]
    # steps 0 to 3 lose 0 + 2 + 4 + 6 over 8 examples, steps 4 to 7 8 + 10 + 12 + 14, and so on
    assert [event.loss for event in validations] == [1.5, 5.5, 9.5]
    assert [(event.done, event.total, event.where) for event in validations] == [
        (4, 12, "lap 1 of 3"),
        (8, 12, "lap 2 of 3"),
        (12, 12, "lap 3 of 3"),
    ]
    assert (fitting.state.best, fitting.state.best_step) == (0.3, 8)
    assert task.value == task.seen[1] != task.seen[2]
    assert not task.module.weight.requires_grad


def test_patience_counts_validations_that_are_no_better() -> None:
    fitting, _ = trainer_of(Walk([0.5, 0.5, 0.1, 0.9]), replace(SCHEDULE, units=9, patience=2))
    fitting.train()
    assert (fitting.state.step, fitting.state.stale, fitting.state.best_step) == (12, 2, 4)


def test_validation_before_the_first_step_and_without_figures() -> None:
    fitting, events = trainer_of(Walk([]), replace(SCHEDULE, validate_first=True))
    fitting.train()
    assert [event.loss for event in events if event.what == "round"] == [None, 1.5, 5.5, 9.5]
    assert fitting.state.best is None


def test_steps_after_the_last_round_count_where_fewer_are_wanted_than_are_done(
    run: RunFolder,
) -> None:
    steps = replace(SCHEDULE, units=12, steps_per_unit=1, round=4, validate_every=4)
    fitting, _ = trainer_of(Walk([0.1]), steps, run)
    fitting.state.step = 6
    fitting.save()
    fitting, _ = trainer_of(Walk([]), replace(steps, units=5), run)
    fitting.resume()
    fitting.train()
    assert (fitting.summary()["laps"], fitting.summary()["best_lap"]) == (6, 6)


@pytest.mark.parametrize("step", [1, 4, 6, 11])
def test_a_walk_that_is_stopped_and_resumed_is_the_same_walk(run: RunFolder, step: int) -> None:
    whole = Walk([0.1, 0.3, 0.2])
    fitting, _ = trainer_of(whole)
    fitting.train()
    fitting.finish()
    cut = Walk([0.1, 0.3, 0.2])
    fitting, _ = trainer_of(cut, run=run)
    original = cut.step

    def interrupted(number: int) -> tuple[Tensor, int]:
        if number == step - 1:
            signal.raise_signal(signal.SIGINT)
        return original(number)

    cut.step = interrupted  # type: ignore[method-assign]
    with pytest.raises(Stopped, match=rf"stopped in lap {-(-step // 4)} of 3 and saved"):
        fitting.train()
    again = Walk(cut.figures)
    fitting, _ = trainer_of(again, run=run)
    fitting.resume()
    fitting.train()
    fitting.finish()
    assert again.value == whole.value
    assert [line["loss"] for line in fitting.state.history] == [1.5, 5.5, 9.5]


def test_a_checkpoint_of_something_else_is_refused(run: RunFolder) -> None:
    fitting, _ = trainer_of(Walk([]), run=run)
    fitting.save()
    other, _ = trainer_of(Walk([]), run=run)
    other.checkpoints.stamp = {"shoes": "red"}
    with pytest.raises(
        RunError,
        match="was made with other shoes; give those, or start again without `resume=True`",
    ):
        other.resume()


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        (
            '{"lr": 0.2, "rank": 4}',
            "(lr 0.1, not 0.2); give those, or start again with `force=True`",
        ),
        (
            '{"lr": 0.1, "rank": 4, "likely": true}',
            "(likely unset, not True); start again with `force=True`",
        ),  # a later one
        ('{"lr": 0.1}', "(rank 4, not unset); start again with `force=True`"),
        ("3", "other settings; give those, or start again with `force=True`"),
    ],
)
def test_settings_that_differ_are_told_with_what_would_work(
    run: RunFolder, settings: str, message: str
) -> None:
    for stamp in ('{"lr": 0.1, "rank": 4}', settings):
        fitting = Trainer(Walk([]), lambda event: None, run, CHECKPOINT, {"settings": stamp})
        if stamp != settings:
            fitting.save()
    with pytest.raises(RunError, match=re.escape(message)):
        fitting.resume()


def test_numbers_that_explode_are_not_saved(run: RunFolder) -> None:
    fitting, _ = trainer_of(Walk([]), run=run)
    fitting.save()
    whole = (run.path / FILE).read_bytes()
    exploding = (torch.tensor(float("nan")), 1)
    fitting.task.step = lambda number: exploding  # type: ignore[method-assign]
    with pytest.raises(
        TrainingError, match="not a number in lap 1 of 3; the last checkpoint is whole; walk slower"
    ):
        fitting.train()
    assert (run.path / FILE).read_bytes() == whole
    task = Walk([])
    nn.init.constant_(task.module.weight, float("nan"))
    with pytest.raises(TrainingError, match="a weight is not a number in lap 1 of 3; walk slower"):
        trainer_of(task)[0].train()
    assert not task.seen  # nobody validates it


def test_what_takes_long_is_said_once_with_what_would_be_faster(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    now = 0.0
    monkeypatch.setattr(loop.time, "monotonic", lambda: now)

    def notes(seconds: float, laps: int) -> list[str]:
        nonlocal now
        task = Walk([])
        fitting, events = trainer_of(task, replace(SCHEDULE, units=laps))
        original = task.step

        def step(number: int) -> tuple[Tensor, int]:
            nonlocal now
            now += seconds if number else 50.0  # the first one warms up
            return original(number)

        task.step = step  # type: ignore[method-assign]
        fitting.train()
        return [event.note for event in events if event.what == "note"]

    assert notes(1.0, 10) == []  # 36 seconds are left when it can be known
    # after 3 seconds 2 of 160 steps are done, beside the first, at 1.5 seconds each
    assert notes(1.5, 40) == ["this will take about 4 minutes for 40 laps; running would be faster"]


def test_a_training_for_a_time_is_cut_into_parts_of_it(
    monkeypatch: pytest.MonkeyPatch, run: RunFolder
) -> None:
    """A step takes 3 of 20 seconds; the four parts end at 5, 10, 15 and 20, also after a stop."""
    clock = [100.0]
    monkeypatch.setattr(loop.time, "monotonic", lambda: clock[0])
    timed = replace(SCHEDULE, units=10**9, steps_per_unit=1, patience=10**9, seconds=20.0, parts=4)

    class Slow(Walk):
        def step(self, number: int) -> tuple[Tensor, int]:
            clock[0] += 3
            if number == stopping:
                signal.raise_signal(signal.SIGINT)
            return super().step(number)

    stopping = -1
    whole, events = trainer_of(Slow([0.1, 0.2, 0.3, 0.4]), timed)
    whole.train()
    ends = [event.done for event in events if event.what == "validation"]
    assert (ends, whole.state.step, whole.share) == ([2, 4, 5, 7], 7, 1.0)
    assert str(events[-1]).startswith("lap 7, 0.3 of 0.333333 minutes")
    stopping = 2
    cut, _ = trainer_of(Slow([0.1, 0.2, 0.3, 0.4]), timed, run)
    with pytest.raises(Stopped, match="lap 3, "):
        cut.train()
    clock[0] += 1000  # which do not count
    again, events = trainer_of(Slow([0.2, 0.3, 0.4]), timed, run)
    again.resume()
    again.train()
    assert [event.done for event in events if event.what == "validation"] == [4, 5, 7]
    assert again.state.step == 7


@pytest.mark.parametrize("how", [{}, {"fused": True}, {"capturable": True}])
def test_an_optimizer_is_restored_to_where_torch_itself_would_put_it(how: dict[str, bool]) -> None:
    """Moments lie beside their parameters, also scalar ones; counts there or on the CPU."""

    def scaled(device: str) -> nn.Module:
        module = nn.Linear(2, 3, device=device)
        module.scale = nn.Parameter(torch.ones((), device=device))
        return module

    module = scaled("cpu")
    elsewhere = scaled("meta")
    oracle = scaled("meta")
    taken = torch.optim.Adam(module.parameters())
    sum(parameter.sum() for parameter in module.parameters()).backward()
    taken.step()
    restored, expected = (torch.optim.Adam(one.parameters(), **how) for one in (elsewhere, oracle))
    restore_optimizer(restored, elsewhere, optimizer_tensors(taken, module))
    held = taken.state_dict()
    expected.load_state_dict(
        {**held, "param_groups": [{**group, **how} for group in held["param_groups"]]}
    )
    for ours, theirs in zip(elsewhere.parameters(), oracle.parameters(), strict=True):
        assert {name: (one.device, one.shape) for name, one in restored.state[ours].items()} == {
            name: (one.device, one.shape) for name, one in expected.state[theirs].items()
        }
