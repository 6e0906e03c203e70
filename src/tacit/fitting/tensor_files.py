"""Tensor files that several processes write in parts, and any number of them reads."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from pathlib import Path
from uuid import uuid4

import torch
from torch import Tensor

from tacit.distributed.shards import Shards
from tacit.errors import RunError
from tacit.run_folder.folder import RunFolder

TABLES = ("entities", "tails")  # words in the names of tensors that have a row for each entity


class RunFiles:
    """The files of a run, for one process or several.

    With one, a file is a file. With several, `model.safetensors` is a head: it has what all have in
    common, and each process writes its rows to a part such as `model-00001-of-00002.safetensors`,
    with the row it starts at. The head is written last and knows its parts by a mark, so that no
    reader takes parts of different times together.
    """

    def __init__(self, run: RunFolder, shards: Shards | None = None) -> None:
        self.run = run
        self.shards = shards or Shards(0)
        # names of tensors by row; without shards there are none
        self.tables = TABLES if shards is not None else ()

    def write(
        self, name: str, tensors: Mapping[str, Tensor], metadata: Mapping[str, str], tag: str = ""
    ) -> None:
        """Write tensors to a file, without the padding of tensors by row.

        A `tag` in the names of the new parts keeps the old ones intact until the new file is
        complete.
        """
        shards = self.shards
        rows = {
            key: tensor[: shards.size]
            for key, tensor in tensors.items()
            if self._by_row(key, tensor)
        }
        if shards.world == 1:
            self.run.write_tensors(name, {**tensors, **rows}, metadata)
            self._remove_parts(name, ())
            return
        mark = shards.broadcast(uuid4().hex)
        names = [part_name(name, tag, number, shards.world) for number in range(shards.world)]
        self.run.write_tensors(names[shards.rank], rows, {"start": str(shards.start), "mark": mark})
        shards.wait()
        if shards.leads:
            common = {key: tensor for key, tensor in tensors.items() if key not in rows}
            parts = {"parts": " ".join(names), "rows": str(shards.total), "mark": mark}
            self.run.write_tensors(name, common, {**metadata, **parts})
            self._remove_parts(name, names)
        shards.wait()

    def contents(self, name: str) -> tuple[dict[str, str], dict[str, Tensor]]:
        """The metadata and tensors of a file; tensors by row have the rows of this process."""
        shards = self.shards
        metadata, tensors = self.run.contents(name)
        pieces = {
            key: [(0, tensor)] for key, tensor in tensors.items() if self._by_row(key, tensor)
        }
        for part in metadata.get("parts", "").split():
            part_metadata, part_tensors = self.run.contents(part)
            if part_metadata.get("mark") != metadata["mark"]:
                raise RunError(
                    f"{self.run.path / part} does not belong to {name}; resume the training, or "
                    "train again"
                )
            for key, tensor in part_tensors.items():
                pieces.setdefault(key, []).append((int(part_metadata["start"]), tensor))
        for key, parts in pieces.items():
            if sum(len(tensor) for _, tensor in parts) != shards.total:
                raise RunError(
                    f"{self.run.path / name} does not fit the run: {key} has not {shards.total} "
                    "rows"
                )
            rows = [
                tensor[max(0, shards.start - at) : max(0, shards.stop - at)] for at, tensor in parts
            ]
            tensors[key] = rows[0] if len(rows) == 1 else torch.cat(rows)
        return metadata, tensors

    def _remove_parts(self, name: str, exceptions: Collection[str]) -> None:
        """Delete the parts of a file, except some."""
        for path in self.run.path.glob(f"{Path(name).stem}-*-of-*{Path(name).suffix}"):
            if path.name not in exceptions:
                self.run.remove(path.name)

    def _by_row(self, key: str, tensor: Tensor) -> bool:
        """Whether a tensor has one row per entity, judged by its name."""
        return tensor.dim() > 0 and not set(self.tables).isdisjoint(key.split("."))


def part_name(name: str, tag: str, number: int, world: int) -> str:
    """The file name of one part.

    >>> part_name("model.safetensors", "", 0, 2), part_name("checkpoint.safetensors", "900", 1, 2)
    ('model-00001-of-00002.safetensors', 'checkpoint-900-00002-of-00002.safetensors')
    """
    file = Path(name)
    return f"{file.stem}{f'-{tag}' if tag else ''}-{number + 1:05}-of-{world:05}{file.suffix}"
