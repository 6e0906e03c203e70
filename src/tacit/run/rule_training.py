"""Training of runs that predict by rules: their settings, and mining them into a folder."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from tacit.errors import RunError, SettingsError
from tacit.links.rules.settings import RuleSettings
from tacit.links.settings import TrainSettings
from tacit.run.run import Run
from tacit.run_folder.files import RULES, RULES_MODEL
from tacit.run_folder.folder import RunFolder, is_of_rules
from tacit.settings import settings_of
from tacit.sources import NameOrPath, is_run, load, take_reading

# Imports of torch are local.
if TYPE_CHECKING:
    from tacit.fitting.progress import Progress
    from tacit.graph.datasets import Facts


def check_predictor(settings: Mapping[str, Any]) -> None:
    """Raise a `SettingsError` for settings of models beside `model="rules"`, and the reverse."""
    of_rules, of_models = (
        {field.name for field in settings_of(kind)} for kind in (RuleSettings, TrainSettings)
    )
    model = settings.get("model", TrainSettings.model)
    chosen, others = (of_rules, of_models) if model == RULES_MODEL else (of_models, of_rules)
    if model != RULES_MODEL and settings.get("rules", True):
        chosen = of_models | of_rules
    for name in settings:
        if name in others - chosen - {"model"}:
            problem = (
                f"{name} is a setting of models with vectors, and `model='{model}'` has none"
                if model == RULES_MODEL
                else f"{name} says how rules are mined, and with `rules=False` none are"
            )
            raise SettingsError(f"{problem}; leave it out", name)


def take_mining(settings: dict[str, Any]) -> dict[str, Any]:
    """Take the settings of the miner alone out of those of a training, which share a seed."""
    check_predictor(settings)
    of_models = {field.name for field in settings_of(TrainSettings)}
    names = {field.name for field in settings_of(RuleSettings)} - of_models
    return {name: settings.pop(name) for name in names & settings.keys()}


def train_rules(
    source: Facts | Sequence[Facts],
    out: NameOrPath,
    resume: bool,
    force: bool,
    progress: Progress | bool,
    settings: dict[str, Any],
) -> Run:
    """Mine the rules of a graph, and write them to the folder `out` in the end.

    A run of rules with all of its rules has nothing to resume.
    """
    from tacit.distributed.shards import world_size
    from tacit.links.rules.rule_files import mine_timed, write_rules_run
    from tacit.links.values.value_files import complete_values

    reading = take_reading(settings)
    check_predictor(settings)
    mining = {name: value for name, value in settings.items() if name != "model"}
    config = RuleSettings.of(mining)
    if world_size() > 1:
        raise SettingsError("rules are mined by one process; leave torchrun out", "model")
    resumes = resume and is_run(out)
    if not resumes:
        RunFolder(out).check_free(force)
    graph = load(source, **reading)
    if resumes:
        folder = RunFolder.open(out)
        folder.check(graph)
        if not is_of_rules(folder):
            raise RunError(
                f"run '{out}' does not predict by rules alone; replace it by `force=True`, or "
                "choose another folder"
            )
        stored = {name: v for name, v in folder.settings["train"].items() if name != "model"}
        config = RuleSettings.of(stored).continued(**mining)
    if not (resumes and folder.has(RULES)):
        rules, seconds = mine_timed(graph, config, progress)
        if not resumes:
            RunFolder(out).check_free(force)  # another training may have been faster
        folder = write_rules_run(out, graph, config, rules, seconds)
    complete_values(folder, graph, progress)
    return Run(folder)
