"""Rules beside a trained link predictor: they are mined after it, and get their shares."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Any

from tacit.links.rules.settings import RuleSettings
from tacit.links.settings import TrainSettings
from tacit.run_folder.files import RULES
from tacit.run_folder.folder import RunFolder

# Imports of torch are local.
if TYPE_CHECKING:
    from tacit.fitting.progress import Progress
    from tacit.graph.graph import Graph

_ALONE = "rules are left out, which several processes do not mine; `resume=True` in one adds them"


def complete_rules(
    graph: Graph,
    folder: RunFolder,
    config: TrainSettings,
    mining: dict[str, Any],
    alone: bool,
    progress: Progress | bool,
) -> None:
    """Add rules to a trained run, or leave them out, as its settings say."""
    from tacit.fitting.progress import Event, shown

    if TrainSettings.stored(folder.settings["train"]).rules != config.rules:
        folder.write_settings("train", config.to_dict())
    if not config.rules:
        if folder.has(RULES) and "rules" in folder.settings:
            _drop_mined(graph, folder)
    elif alone:
        _add_rules(graph, folder, config, mining, progress)
    else:
        with shown(progress) as tell:
            tell(Event("note", 0, 0, note=_ALONE))


def _add_rules(
    graph: Graph,
    run: RunFolder,
    settings: TrainSettings,
    mining: dict[str, Any],
    progress: Progress | bool,
) -> None:
    """Mine the rules of a trained run that has no mined ones, and fit their shares to its weights.

    Rules that a person added before stay.
    """
    from tacit.adapt.mixing import fit_mixture
    from tacit.fitting.progress import Event, shown
    from tacit.links.models import load_model, pick_device
    from tacit.links.rules.editing import with_own
    from tacit.links.rules.mining import mine
    from tacit.links.rules.rule_files import load_rules, rule_scorer, save_rules
    from tacit.links.rules.rule_set import RuleSet

    trained = run.results().get("train", {}).get("epochs")
    present = run.results().get("rules", {})
    config = _mining_settings(run, settings, mining)
    mined = run.has(RULES) and "rules" in run.settings
    if mined and present.get("epochs") == trained:
        return
    began = time.perf_counter()
    device = str(pick_device(settings.device))
    rules = load_rules(run)[0] if run.has(RULES) else RuleSet.of([])
    if not mined:
        rules = with_own(mine(graph, config, progress=progress), rules)
    scorer = rule_scorer(rules, graph, device)
    mixture = fit_mixture(
        graph, load_model(run, device), scorer, seed=settings.seed, progress=progress
    )
    if not len(graph.valid):
        with shown(progress) as tell:
            note = f"{graph.name} has no validation facts to fit the share of rules to; it is "
            tell(Event("note", 0, 0, note=f"{note}{float(mixture.shares.mean()):.0%}"))
    with run.in_use(changes=True):
        save_rules(run, rules, mixture.to_tensors())
        run.write_settings("rules", config.to_dict())
        with run.changed_results() as results:
            results["rules"] = {
                "rules": len(rules),
                "share": round(float(mixture.shares.mean()), 4),
                "epochs": trained,
                "seconds": round(time.perf_counter() - began, 3),
            }


def _drop_mined(graph: Graph, run: RunFolder) -> None:
    """Delete the mined rules of a run, and an adapter that was trained with them."""
    from tacit.links.rules.rule_files import load_rules, save_rules
    from tacit.links.rules.rule_set import WRITTEN
    from tacit.run.rules import first_weights

    rules = load_rules(run)[0]
    own = rules.take((rules.flags & WRITTEN) != 0)
    if run.settings.get("adapt", {}).get("rules"):
        run.drop("adapt")
    if not len(own):
        run.drop("rules")
        return
    save_rules(run, own, first_weights(graph))  # in one step, so that no kill loses them
    with run.changed_results() as results:
        results.pop("rules", None)
    run.write_settings("rules", None)


def _mining_settings(
    run: RunFolder, settings: TrainSettings, mining: dict[str, Any]
) -> RuleSettings:
    """How rules are mined: as before where a run has them."""
    stored = run.settings.get("rules")
    if stored is not None and run.has(RULES):
        return RuleSettings.of(stored).continued(**mining)
    return RuleSettings.of({"seed": settings.seed, **mining})
