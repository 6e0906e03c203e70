"""The names of a run folder's files, and the parts of a run that they belong to."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from typing import Any

from tacit import disk
from tacit.graph.stored import GRAPH_FILES, TRIE, TRIE_IDS

FORMAT = 2  # of the files of a run; other formats are refused
SETTINGS = "settings.toml"
MODEL = "model.safetensors"
ADAPTER = "adapter.safetensors"
ENCODER = "encoder.safetensors"
RULES = "rules.safetensors"
VALUES = "values.safetensors"  # what predicts missing values of attributes
# checkpoints
CHECKPOINT = "checkpoint.safetensors"
ADAPTATION = "adaptation.safetensors"
ENCODING = "encoding.safetensors"
BEST = "best-{step}.safetensors"  # the best weights of a training under way
QUESTIONS = "questions.safetensors"  # for validation
TRACE = "trace.jsonl"
RESULTS = "results.json"
# indexes of the weights, for retrieval of tails
INDEX = "index.faiss"
WEIGHTS = "weights.json"
# the weights quantised to a byte per number
CODES = "codes.safetensors"
BYTES = "codes.npy"
RETRIEVAL_FILES = (INDEX, CODES, BYTES, WEIGHTS)
# from earlier versions, deleted when the run is replaced
FORMER_FILES = ("facts.npz", "rows.cache", "log-sums.cache")
# written by commands that take time
COMMAND_FILES = (
    MODEL,
    ADAPTER,
    ENCODER,
    RULES,
    VALUES,
    CHECKPOINT,
    ADAPTATION,
    ENCODING,
    TRACE,
    RESULTS,
)
RUN_FILES = (SETTINGS, *GRAPH_FILES, *FORMER_FILES, *COMMAND_FILES, QUESTIONS, *RETRIEVAL_FILES)
# what a run is shared with: no checkpoints, and nothing that only a trusting library can read
SAVED_FILES = {
    SETTINGS,
    *GRAPH_FILES,
    MODEL,
    ADAPTER,
    ENCODER,
    RULES,
    QUESTIONS,
    TRACE,
    RESULTS,
} - {TRIE, TRIE_IDS}
# the files that an engine is made of
ENGINE_FILES = (SETTINGS, *GRAPH_FILES, MODEL, ADAPTER, ENCODER, RULES, INDEX, CODES, BYTES)
# encoders over the vectors of the run's link predictor, deleted together with it
ON_PREDICTOR = ("lmpnn",)
RULES_MODEL = "rules"  # the `model` of a run whose link predictor is rules alone
TRAINED_TABLES = ("train", "encode")  # tables of settings, at least one of which a run has
OUTDATED = "the {} changed since this was measured"
# files that several processes write in parts; `fitting/parts.py` names them
_PART = re.compile(r"(best-\d+|(model|checkpoint|best)-[\w-]+-of-\d+)\.safetensors")
_MODEL_PART = re.compile(r"model-[\w-]+-of-\d+\.safetensors", re.ASCII)
# as safetensors names the file that it writes before it renames it
_HALF_WRITTEN = re.compile(r"\.tmp\w{6}")

SettingsTable = Mapping[str, Any]


def _predicts(settings: SettingsTable) -> bool:
    return settings.get("search") not in ("symbolic", "encoder")


# the parts of a run by their table of settings: weights, checkpoint, and a predicate on the
# settings of an evaluation that says whether it depends on those weights; rules have no table of
# their own where they are the link predictor, and no checkpoint
PARTS: dict[str, tuple[str, str, Callable[[SettingsTable], bool]]] = {
    "train": (MODEL, CHECKPOINT, _predicts),
    "rules": (
        RULES,
        "",
        lambda settings: _predicts(settings) and settings.get("rules") is not False,
    ),
    "adapt": (ADAPTER, ADAPTATION, lambda settings: settings.get("adapted") is True),
    "encode": (ENCODER, ENCODING, lambda settings: settings.get("search") == "encoder"),
}
# commands that delete an optional part
REPAIRS = {ADAPTER: "adapt {} --drop", ENCODER: "encode {} --drop"}


def is_run_file(name: str) -> bool:
    """Whether a file belongs to a run."""
    is_written = name.startswith(disk.TEMPORARY) or is_half_written(name)
    return name in RUN_FILES or is_written or _PART.fullmatch(name) is not None


def is_saved_file(name: str) -> bool:
    """Whether a file is one that a run is shared with."""
    return name in SAVED_FILES or _MODEL_PART.fullmatch(name) is not None


def is_half_written(name: str) -> bool:
    """Whether a file is one of tensors that a killed writer left, or that is being written."""
    return _HALF_WRITTEN.fullmatch(name) is not None
