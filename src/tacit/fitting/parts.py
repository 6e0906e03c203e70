"""Tensor files of a run that several processes write together, each the rows it holds, and any number reads."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from pathlib import Path
from uuid import uuid4

import torch
from torch import Tensor

from tacit.distributed.shards import Shards
from tacit.errors import RunError
from tacit.run.folder import RunFolder

TABLES = ("entities", "tails")  # words in the names of tensors that have a row for each entity


class RunFiles:
    """The files of a run, for one process or several.

    With one, a file is a file. With several, `model.safetensors` is a head: it has what all have in common, and each
    process writes its rows to a part such as `model-00001-of-00002.safetensors`, with the row it starts at. The head
    is written last and knows its parts by a mark, so that no reader takes parts of different times together.
    """

    def __init__(self, run: RunFolder, shards: Shards | None = None) -> None:
        self.run, self.shards = run, shards or Shards(0)
        self.tables = TABLES if shards is not None else ()  # of what has no entities nothing is by row

    def write(self, name: str, tensors: Mapping[str, Tensor], about: Mapping[str, str], tag: str = "") -> None:
        """Write tensors as a file; a `tag` in the names of its parts spares those of the file before until it is whole.

        Of tensors by row the padding is left out.
        """
        shards = self.shards
        rows = {key: tensor[: shards.size] for key, tensor in tensors.items() if self._by_row(key, tensor)}
        if shards.world == 1:
            self.run.write_tensors(name, {**tensors, **rows}, about)
            self._remove(name, ())
            return
        mark = shards.broadcast(uuid4().hex)
        names = [part_name(name, tag, number, shards.world) for number in range(shards.world)]
        self.run.write_tensors(names[shards.rank], rows, {"start": str(shards.start), "mark": mark})
        shards.wait()
        if shards.leads:
            common = {key: tensor for key, tensor in tensors.items() if key not in rows}
            told = {"parts": " ".join(names), "rows": str(shards.total), "mark": mark}
            self.run.write_tensors(name, common, {**about, **told})
            self._remove(name, names)
        shards.wait()

    def contents(self, name: str) -> tuple[dict[str, str], dict[str, Tensor]]:
        """The metadata and the tensors of a file, by row those of this process alone, both of one moment."""
        (told, tensors), shards = self.run.contents(name), self.shards
        pieces = {key: [(0, tensor)] for key, tensor in tensors.items() if self._by_row(key, tensor)}
        for part in told.get("parts", "").split():
            about, held = self.run.contents(part)
            if about.get("mark") != told["mark"]:
                raise RunError(f"{self.run.path / part} does not belong to {name}; resume the training, or train again")
            for key, tensor in held.items():
                pieces.setdefault(key, []).append((int(about["start"]), tensor))
        for key, parts in pieces.items():
            if sum(len(tensor) for _, tensor in parts) != shards.total:
                raise RunError(f"{self.run.path / name} does not fit the run: {key} has not {shards.total} rows")
            own = [tensor[max(0, shards.start - at) : max(0, shards.stop - at)] for at, tensor in parts]
            tensors[key] = own[0] if len(own) == 1 else torch.cat(own)
        return told, tensors

    def _remove(self, name: str, but: Collection[str]) -> None:
        """Delete the parts of a file, but for some."""
        for path in self.run.path.glob(f"{Path(name).stem}-*-of-*{Path(name).suffix}"):
            if path.name not in but:
                self.run.remove(path.name)

    def _by_row(self, key: str, tensor: Tensor) -> bool:
        """Whether a tensor has a row for each entity, by its name."""
        return tensor.dim() > 0 and not set(self.tables).isdisjoint(key.split("."))


def part_name(name: str, tag: str, number: int, world: int) -> str:
    """The name of a part of a file.

    >>> part_name("model.safetensors", "", 0, 2), part_name("checkpoint.safetensors", "900", 1, 2)
    ('model-00001-of-00002.safetensors', 'checkpoint-900-00002-of-00002.safetensors')
    """
    file = Path(name)
    return f"{file.stem}{f'-{tag}' if tag else ''}-{number + 1:05}-of-{world:05}{file.suffix}"
