"""Import of link predictors trained elsewhere: kbc, CQD and PyKEEN.

Each becomes one of Tacit's own models with the same scores.
"""

from __future__ import annotations

import math
import zipfile
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeVar

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from tacit.errors import DataError, RunError, SettingsError
from tacit.graph.formats.pickles import rehearse
from tacit.graph.graph import INVERSE, Graph, directed
from tacit.graph.labels.vocabulary import Vocabulary
from tacit.links.factors import FactorModel
from tacit.links.models import ComplEx, make_like, model_settings, save_model
from tacit.links.pykeen import MODEL_FILE, read_labels, read_model, read_triples
from tacit.links.ranking import ranks
from tacit.run_folder.folder import RunFolder

RECIPROCAL = ("interleaved", "stacked")
_Model = TypeVar("_Model", bound=FactorModel)
_LONGEST_PICKLE = 1 << 24  # bytes that say which tensors a file has
_LEGACY_PICKLES = 5  # three of header, the data, and the keys of its tensors
# train facts that are ranked to check the ids, and the number below which they are not
_RANKED = 500
_ENOUGH = 50
# the MRR of a trained model; the number of entities from which on chance is low
_LEARNED = 0.1
_MANY = 1000
_SCORES = 2**24  # in memory at once
_ENTITIES = "embeddings.0.weight"
_RELATIONS = "embeddings.1.weight"


def read_kbc(path: str | Path, reciprocal: str = "interleaved") -> ComplEx:
    """Read the ComplEx model of a kbc or CQD checkpoint without executing code in it.

    The checkpoint is a `.pt` file of plain tensors. `reciprocal` says where the inverse of a
    relation is: `interleaved` right after it, as in BetaE's ids, which CQD uses; `stacked` in the
    second half of the table, as kbc itself writes it.
    """
    _check_reciprocal(reciprocal)
    path = Path(path)
    tables = dict(load_tensors(path))
    entities, relations = (
        next((t for key, t in tables.items() if key.endswith(name)), None)
        for name in (_ENTITIES, _RELATIONS)
    )
    if entities is None or relations is None:
        present = ", ".join(list(tables)[:5]) or "no tensors"
        raise DataError(f"has no {_ENTITIES} and {_RELATIONS}; it holds {present}", path)
    shapes = tuple(entities.shape), tuple(relations.shape)
    if (
        any(len(shape) != 2 for shape in shapes)
        or shapes[0][1] != shapes[1][1]
        or shapes[0][1] % 2
        or shapes[1][0] % 2
    ):
        needed = (
            "a real and an imaginary half of one rank are needed, and the number of relations "
            "must be even"
        )
        raise DataError(f"entities and relations are {shapes[0]} and {shapes[1]}; {needed}", path)
    if reciprocal == "stacked":
        relations = torch.stack(relations.chunk(2), 1).flatten(0, 1)
    model = ComplEx(len(entities), len(relations), entities.shape[1] // 2)
    return _with_tables(model, entities, relations)


@dataclass(frozen=True)
class Imported:
    """An imported model with the labels of its ids, if known; `relations` are forward ones."""

    model: FactorModel
    entities: Vocabulary | None = None
    relations: Vocabulary | None = None
    train: NDArray[np.int32] | None = None  # forward facts, relation ids directed
    reciprocal: str = "interleaved"  # the order that was assumed

    def align(self, graph: Graph) -> FactorModel:
        """The model with its rows in the order of a graph's ids."""
        if self.entities is None or self.relations is None:
            return self._checked_model(graph)
        rows = torch.tensor(_ids(graph.entities, self.entities))
        forward = torch.tensor(
            _ids(Vocabulary(graph.relations.labels[0::2], "relation"), self.relations)
        )
        relations = torch.stack((2 * forward, 2 * forward + 1), 1).flatten()
        old = self.model.state_dict()
        aligned = make_like(self.model, len(rows), len(relations))
        return _with_tables(
            aligned, old["entities.weight"][rows], old["relations.weight"][relations]
        )

    def graph(self, name: str) -> Graph:
        """The graph that the model was trained on, if the source holds it."""
        if self.entities is None or self.relations is None or self.train is None:
            raise DataError(
                f"'{name}' does not hold the graph it was trained on; give it as `graph`"
            )
        for label in self.relations:
            if label + INVERSE in self.relations:
                raise DataError(
                    f"has both '{label}' and '{label}{INVERSE}', which is what the inverse of the "
                    "first is called; give a graph that has the first alone",
                    name,
                )
        return Graph(self.entities, directed(self.relations), self.train, name=name)

    def _checked_model(self, graph: Graph) -> FactorModel:
        """The unchanged model, if its ranks of train facts show that the ids fit the graph."""
        has, needs = (
            f"{side.num_entities:,} entities and {side.num_relations:,} relation ids"
            for side in (self.model, graph)
        )
        if has != needs:
            raise RunError(
                f"the checkpoint has {has}, but {graph.name} has {needs}; give the graph it was "
                "trained on"
            )
        facts = torch.from_numpy(
            graph.train[:: max(1, len(graph.train) // _RANKED)].astype(np.int64)
        )
        if len(facts) < _ENOUGH:
            return self.model
        size = graph.num_entities
        as_read = _mrr(self.model, facts)
        other_mrr = _mrr(self.model, self._with_other_order(facts))
        chance = (math.log(size) + 0.58) / size
        if size >= _MANY and max(as_read, other_mrr) < 2 * chance:
            raise RunError(
                f"the checkpoint ranks train facts of {graph.name} with an MRR of {as_read:.4f}, "
                "as chance would: its ids mean others; give the graph it was trained on with the "
                "ids it had, a BetaE folder say"
            )
        if other_mrr > max(_LEARNED, 1.5 * as_read):
            other = "interleaved" if self.reciprocal == "stacked" else "stacked"
            raise RunError(
                f"with `reciprocal='{self.reciprocal}'` the checkpoint ranks train facts of "
                f"{graph.name} with an MRR of {as_read:.3f}, with {other} of {other_mrr:.3f}; "
                f"give `reciprocal='{other}'`"
            )
        return self.model

    def _with_other_order(self, facts: Tensor) -> Tensor:
        """The facts with the relation ids of the other `reciprocal` order."""
        # from interleaved to stacked
        order = torch.arange(self.model.num_relations).view(2, -1).T.flatten()
        places = order.argsort() if self.reciprocal == "stacked" else order
        return torch.stack((facts[:, 0], places[facts[:, 1]], facts[:, 2]), 1)


def read_import(
    source: str | Path, trust_pickle: bool = False, reciprocal: str = "interleaved"
) -> Imported:
    """Read the model in a kbc checkpoint (a file) or a PyKEEN directory."""
    _check_reciprocal(reciprocal)
    source = Path(source)
    if not source.exists():
        raise DataError("no such file or folder", source)
    if source.is_file():
        return Imported(read_kbc(source, reciprocal), reciprocal=reciprocal)
    if not (source / MODEL_FILE).is_file():
        raise DataError(
            f"has no {MODEL_FILE}; give a PyKEEN directory or a .pt checkpoint of kbc or CQD",
            source,
        )
    model = read_model(source, trust_pickle)
    entities = read_labels(source, "entity")
    relations = read_labels(source, "relation")
    sizes = len(entities), 2 * len(relations)
    if sizes != (model.num_entities, model.num_relations):
        raise DataError("its labels are not those of its model", source)
    return Imported(model, entities, relations, read_triples(source, *sizes))


def import_run(
    imported: Imported, graph: Graph, out: str | Path, source: str, force: bool = False
) -> RunFolder:
    """Write a run folder with an imported model, fitted to a graph."""
    model = imported.align(graph)
    run = RunFolder.create(out, graph, model_settings(model), force, resumable=False)
    run.write_settings("import", {"source": source})
    save_model(run, model)
    return run


def _check_reciprocal(reciprocal: str) -> None:
    if reciprocal not in RECIPROCAL:
        raise SettingsError(
            f"reciprocal is '{reciprocal}'; it must be one of {', '.join(RECIPROCAL)}", "reciprocal"
        )


def _ids(labels: Vocabulary, known: Vocabulary) -> list[int]:
    """The ids of a graph's labels in a model, which may know more labels."""
    ids = [known.get(label) for label in labels]
    missing = [label for label, i in zip(labels, ids, strict=True) if i is None]
    if missing:
        raise RunError(
            f"the model lacks {len(missing):,} of the graph's {len(labels):,} {labels.kind} "
            f"labels, such as '{missing[0]}'; give the graph it was trained on"
        )
    return [i for i in ids if i is not None]


def _mrr(model: FactorModel, facts: Tensor) -> float:
    """The mean reciprocal rank of the tails of facts among all entities, with realistic ties."""
    total = 0.0
    none = facts.new_empty(0)
    for heads, relations, tails in (
        part.T for part in facts.split(max(1, _SCORES // model.num_entities))
    ):
        places = ranks(model.logits(heads, relations), torch.arange(len(heads)), tails, none, none)
        total += float(places.double().reciprocal().sum())
    return total / len(facts)


def _with_tables(model: _Model, entities: Tensor, relations: Tensor) -> _Model:
    # a double may become infinite here
    tables = {"entities": entities.float(), "relations": relations.float()}
    for name, table in tables.items():
        if not bool(table.isfinite().all()):
            raise DataError(
                f"the table of {name} holds values that are not finite numbers; the model is of no "
                "use"
            )
    model.load_state_dict({f"{name}.weight": table for name, table in tables.items()})
    return model.requires_grad_(False).eval()


def load_tensors(path: Path) -> Iterator[tuple[str, Tensor]]:
    """Read the floating-point tensors of a checkpoint without executing code in it.

    Nested keys are joined by dots.
    """
    try:
        if reason := _fault(path):
            raise ValueError(reason)
        return _tensors(torch.load(path, map_location="cpu", weights_only=True))
    except OSError as error:
        raise DataError(f"cannot be read ({error.strerror or error})", path) from None
    except Exception as error:  # a damaged or foreign file can raise nearly anything
        # other messages are about torch's own options
        reason = f" ({error})" if isinstance(error, ValueError) else ""
        raise DataError(
            f"is no checkpoint of plain tensors; nothing in it was executed{reason}", path
        ) from None


def _fault(path: Path) -> str:
    """The reason to refuse a torch file, or an empty string.

    Since torch 1.6 such a file is a zip archive, before it was a series of pickles.
    """
    size = path.stat().st_size
    if not zipfile.is_zipfile(path):
        with path.open("rb") as file:
            return rehearse(file.read(_LONGEST_PICKLE), pickles=_LEGACY_PICKLES, room=size)
    with zipfile.ZipFile(path) as archive:
        parts = archive.infolist()
        if sum(part.file_size for part in parts) > size:
            return "it is packed, which torch never does; unpack it yourself"
        described = [part for part in parts if part.filename.split("/")[1:] == ["data.pkl"]]
        if len(described) != 1 or described[0].file_size > _LONGEST_PICKLE:
            return f"it has not one data.pkl of at most {_LONGEST_PICKLE >> 20} MB"
        return rehearse(archive.read(described[0]), room=size)


def _tensors(data: Any, prefix: str = "") -> Iterator[tuple[str, Tensor]]:
    """The tensors of nested dicts, with their keys joined by dots."""
    if isinstance(data, Mapping):
        for key, value in data.items():
            yield from _tensors(value, f"{prefix}{key}.")
    elif isinstance(data, Tensor) and not data.is_complex() and data.is_floating_point():
        yield prefix.removesuffix("."), data
