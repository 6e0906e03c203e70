"""The rules of a run in its `rules.safetensors`, with the weights of a mixture."""

from __future__ import annotations

import time
from collections.abc import Mapping
from dataclasses import fields
from pathlib import Path

import torch
from torch import Tensor

from tacit.errors import RunError
from tacit.fitting.progress import Progress
from tacit.graph.graph import Graph
from tacit.links.rules.mining import mine
from tacit.links.rules.rule_scorer import RuleScorer
from tacit.links.rules.rule_set import LONGEST, NONE, OFF, SAMPLED, WRITTEN, RuleSet
from tacit.links.rules.settings import RuleSettings
from tacit.run_folder.files import RULES, RULES_MODEL
from tacit.run_folder.folder import RunFolder, is_of_rules

_WEIGHT = "weight."  # prefix of the names of a mixture's tensors
_KINDS = {"confidence": torch.float32, "flags": torch.uint8}  # all others are whole numbers


def save_rules(run: RunFolder, rules: RuleSet, weights: Mapping[str, Tensor] | None = None) -> None:
    """Write the rules of a run, in a mixed run with the weights of the mixture.

    Evaluations of other rules are marked as outdated.
    """
    run.outdate("rules")
    named = {f"{_WEIGHT}{name}": weight for name, weight in (weights or {}).items()}
    run.write_tensors(RULES, rules.to_tensors() | named)


def load_rules(run: RunFolder) -> tuple[RuleSet, dict[str, Tensor]]:
    """Read the rules of a run, and the weights of the mixture by name."""
    if not run.has(RULES):
        how = "; its training has not finished" if is_of_rules(run) else ""
        raise RunError(f"run '{run.path}' has no {RULES}{how}; train it first", command="train")
    graph = run.settings["graph"]
    with run.fits(RULES, "train the run again"):
        tensors = run.tensors(RULES)
        columns = {field.name: tensors.pop(field.name) for field in fields(RuleSet)}
        _check(columns, graph["entities"], graph["relations"])
        if foreign := [name for name in tensors if not name.startswith(_WEIGHT)]:
            raise ValueError(f"it has the unknown tensor {foreign[0]:.40}")
        weights = {name.removeprefix(_WEIGHT): weight for name, weight in tensors.items()}
        if any(not bool(torch.isfinite(weight).all()) for weight in weights.values()):
            raise ValueError("it has weights that are not finite numbers")
        return RuleSet.from_tensors(columns), weights


def rule_scorer(rules: RuleSet, graph: Graph, device: str = "cpu") -> RuleScorer:
    """Rules as a scorer over the train facts of a graph."""
    return RuleScorer(rules, graph.index("train"), graph.num_entities, torch.device(device))


def mine_timed(
    graph: Graph, settings: RuleSettings, progress: Progress | bool = False
) -> tuple[RuleSet, float]:
    """The rules of a graph, and the seconds that mining them took."""
    began = time.perf_counter()
    rules = mine(graph, settings, progress=progress)
    return rules, round(time.perf_counter() - began, 3)


def write_rules_run(
    out: str | Path, graph: Graph, settings: RuleSettings, rules: RuleSet, seconds: float
) -> RunFolder:
    """Write mined rules as the run in a folder, in the place of one that is there."""
    stored = {"model": RULES_MODEL, **settings.to_dict()}
    run = RunFolder.create(out, graph, stored, force=True)
    with run.training("train"), run.in_use(changes=True):
        save_rules(run, rules)
        with run.changed_results() as results:
            results["train"] = {"rules": len(rules), "seconds": seconds}
    return run


def _check(columns: Mapping[str, Tensor], entities: int, relations: int) -> None:
    """Raise a `ValueError` for tensors that are no rules over so many entities and relations."""
    number = len(columns["relation"])
    for name, column in columns.items():
        shape = (number, LONGEST) if name == "body" else (number,)
        kind = _KINDS.get(name, torch.int32)
        if column.shape != shape or column.dtype != kind:
            raise ValueError(f"{name} holds {column.dtype} {tuple(column.shape)}")
    body = columns["body"]
    ends = columns["end"], columns["tail"]
    closed = columns["tail"] == NONE
    used = body != NONE
    counted = columns["support"] >= 0, columns["groundings"] >= 0
    confidence = columns["confidence"]
    for name, right in {
        "body": (body >= NONE) & (body < relations),
        "length": used[:, :1] & (used[:, 1:] <= used[:, :-1]),  # NONE comes last
        "relation": (columns["relation"] >= 0) & (columns["relation"] < relations),
        "end": (ends[0] >= NONE) & (ends[0] < entities) & ~(closed & (ends[0] != NONE)),
        "tail": (ends[1] >= NONE) & (ends[1] < entities),
        "support": counted[0] & counted[1],
        "confidence": (confidence >= 0) & (confidence <= 1),  # which NaN is not
        "flags": columns["flags"] <= OFF | WRITTEN | SAMPLED,
    }.items():
        if not bool(right.all()):
            raise ValueError(f"it has rules with an impossible {name}")
