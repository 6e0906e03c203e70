"""Conversion of PyKEEN's models to Tacit's, with the same scores in both directions.

A model trained without inverse triples scores heads with the forward relation. For these models
that is itself a score of tails under another relation vector, so the inverse ids get rows of their
own: with `x` the row of `r`, that of its inverse is `conj(x)` for ComplEx, `x` for DistMult, `-x`
for TransE, and the opposite phases for RotatE.
"""

from __future__ import annotations

import csv
import io
from collections.abc import Callable
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from tacit.errors import DataError, SettingsError
from tacit.graph.formats.files import blocks, decoded
from tacit.graph.labels.vocabulary import Vocabulary
from tacit.links.factors import FactorModel
from tacit.links.models import MODELS, make_model

MODEL_FILE = "trained_model.pkl"
TRIPLES = "training_triples"
_UNIT = 1e-3  # how far from 1 the modulus of a rotation may be


def from_pykeen(model: Any) -> FactorModel:
    """A PyKEEN model object as one of Tacit's: ComplEx, DistMult, TransE or RotatE."""
    interaction = getattr(model, "interaction", None)
    name = type(interaction).__name__.removesuffix("Interaction").lower()
    if name not in _CONVERSIONS:
        kind = type(model).__name__
        raise SettingsError(
            f"a PyKEEN model of kind {kind} cannot be imported; {', '.join(_CONVERSIONS)} can"
        )
    norm = _norm(interaction, name)
    tables, inverse = _CONVERSIONS[name]
    with torch.inference_mode():
        entities, relations = tables(_table(model, "entity"), _table(model, "relation"))
        if not model.use_inverse_triples:
            relations = torch.stack((relations, inverse(relations)), 1).flatten(0, 1)
    rank = entities.shape[1] // MODELS[name].entity_width
    result = make_model(name, len(entities), len(relations), rank, norm)
    result.load_state_dict({"entities.weight": entities, "relations.weight": relations})
    return result.requires_grad_(False).eval()


def read_model(folder: Path, trust_pickle: bool) -> FactorModel:
    """Read the model of a PyKEEN directory if its pickle is trusted.

    A pickle can run any code.
    """
    path = folder / MODEL_FILE
    if not trust_pickle:
        raise SettingsError(
            f"{path} is a pickle, which can run any code when it is opened; if you trust where it "
            "comes from, give `trust_pickle=True`"
        )
    if find_spec("pykeen") is None:
        raise SettingsError(
            "a PyKEEN directory can only be read where pykeen is installed: pip install pykeen"
        )
    try:
        model = torch.load(path, map_location="cpu", weights_only=False)
    except Exception as error:  # a damaged pickle can raise nearly anything
        reason = " ".join(str(error).split())[:160] or type(error).__name__
        raise DataError(
            f"cannot be opened ({reason}); was it written by the same version of PyKEEN?", path
        ) from None
    return from_pykeen(model)


def read_labels(folder: Path, kind: str) -> Vocabulary:
    """The labels of entities or relations of a PyKEEN directory."""
    path = folder / TRIPLES / f"{kind}_to_id.tsv.gz"
    rows = _rows(path, 2)
    try:
        labels = {int(i): label for i, label in rows}
        return Vocabulary([labels[i] for i in range(len(rows))], kind=kind)
    except (KeyError, ValueError):
        raise DataError("does not hold one label for each id from 0", path) from None


def read_triples(folder: Path, num_entities: int, num_relations: int) -> NDArray[np.int32]:
    """The training facts of a PyKEEN directory, with directed relation ids."""
    path = folder / TRIPLES / "numeric_triples.tsv.gz"
    try:
        facts = np.array(_rows(path, 3), dtype=np.int32).reshape(-1, 3)
    except (ValueError, OverflowError):
        raise DataError("holds something other than ids", path) from None
    facts[:, 1] *= 2
    if ((facts < 0) | (facts >= (num_entities, num_relations, num_entities))).any():
        raise DataError("holds ids that have no labels", path)
    return facts


def _rows(path: Path, columns: int) -> list[list[str]]:
    try:
        lines = (
            line
            for start, block in blocks(path)
            for line in io.StringIO(decoded(block, start, path))
        )
        rows = list(csv.reader(lines, delimiter="\t"))[1:]  # the first line names the columns
    except csv.Error as error:
        raise DataError(f"cannot be read ({error})", path) from None
    if any(len(row) != columns for row in rows):
        raise DataError(f"has a line without {columns} columns", path)
    return rows


def _table(model: Any, kind: str) -> Tensor:
    representations = getattr(model, f"{kind}_representations")
    table: Tensor = representations[0](indices=None).detach().cpu()
    if len(representations) != 1 or table.ndim != 2:
        has = f"{len(representations)} representations of {table.ndim - 1} dimensions"
        raise SettingsError(f"the model has {has} for each {kind}; a single vector can be imported")
    return table


def _norm(interaction: Any, name: str) -> int:
    if name != "transe":
        return 2  # RotatE's distance is the length of a complex vector; the others have none
    if interaction.power_norm or interaction.p not in (1, 2):
        power = " to its own power" if interaction.power_norm else ""
        raise SettingsError(
            f"the model measures distances in norm {interaction.p}{power}; norms 1 and 2 can be "
            "imported"
        )
    return int(interaction.p)


def _complex(table: Tensor) -> Tensor:
    """A table of complex numbers.

    PyKEEN also stores them as real numbers, real and imaginary parts alternating.
    """
    return table if table.is_complex() else torch.view_as_complex(table.reshape(len(table), -1, 2))


def _halves(table: Tensor) -> Tensor:
    table = _complex(table)
    return torch.cat((table.real, table.imag), -1)


def _conjugate(halves: Tensor) -> Tensor:
    real, imaginary = halves.chunk(2, -1)
    return torch.cat((real, -imaginary), -1)


def _rotations(entities: Tensor, relations: Tensor) -> tuple[Tensor, Tensor]:
    turns = _complex(relations)
    if bool(((turns.abs() - 1).abs() > _UNIT).any()):
        raise SettingsError(
            "the relations of this RotatE model are not rotations: some have a modulus other than 1"
        )
    return _halves(entities), turns.angle()


_Tables = Callable[[Tensor, Tensor], tuple[Tensor, Tensor]]
_CONVERSIONS: dict[str, tuple[_Tables, Callable[[Tensor], Tensor]]] = {
    "complex": (lambda e, r: (_halves(e), _halves(r)), _conjugate),
    "distmult": (lambda e, r: (e, r), torch.clone),
    "transe": (lambda e, r: (e, r), torch.neg),
    "rotate": (_rotations, torch.neg),
}
