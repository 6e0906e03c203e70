"""Models whose entities are shared out over processes, each of which reads its own rows of a run and no others."""

from __future__ import annotations

from torch import Tensor

from tacit.distributed.shards import Shards
from tacit.errors import RunError, SettingsError
from tacit.folder import MODEL, RunFolder
from tacit.links.embeddings import MULTIPLE, Embeddings
from tacit.links.factors import FactorModel
from tacit.links.loading import make_model, pick_device


class SharedEmbeddings(Embeddings):
    """The rows of a table of entities that one process holds; the rows of any ids come from whoever holds them."""

    def __init__(self, shards: Shards, width: int, multiple: int = 1) -> None:
        super().__init__(shards.size, width, multiple)
        self.shards = shards

    def forward(self, ids: Tensor) -> Tensor:
        """The rows of some ids, the same on every process, `[B] -> [B, D]`."""
        return self.shards.rows(self.weight, ids)


def share_out(model: FactorModel, shards: Shards) -> FactorModel:
    """Make of a model as large as one share a model of all entities that knows the rows of its share, all zeros.

    Its rows of scores are those of its own entities, `[B] x [B] -> [B, n]`; single atoms are the same everywhere.
    """
    for name, table in list(model.named_children()):
        if isinstance(table, Embeddings) and table is not model.relations:
            setattr(model, name, SharedEmbeddings(shards, table.width, MULTIPLE))
    model.num_entities = shards.total
    model.shards = shards
    return model


def load_shared(run: RunFolder, shards: Shards, device: str = "cpu") -> FactorModel:
    """The trained model of a run with the rows of one share, frozen; nothing else of it is read."""
    if shards.total < shards.world:
        raise SettingsError(f"shards is {shards.world}, but there are only {shards.total} entities to share", "shards")
    made_of = run.metadata(MODEL)
    try:
        sizes = int(run.settings["graph"]["relations"]), int(made_of["rank"]), int(made_of["norm"])
        model = share_out(make_model(made_of["model"], shards.size, *sizes), shards)
        tables = {name: table for name, table in model.named_children() if isinstance(table, Embeddings)}
        weights = {f"{name}.weight": run.rows(MODEL, f"{name}.weight", *_span(table)) for name, table in tables.items()}
        model.load_state_dict(weights)
    except (KeyError, ValueError, RuntimeError, SettingsError) as error:
        reason = " ".join(str(error).split())
        raise RunError(f"{run.path / MODEL} does not fit the run ({reason}); train the run again") from None
    return model.requires_grad_(False).eval().to(pick_device(device))


def _span(table: Embeddings) -> tuple[int, int]:
    return (table.shards.start, table.shards.stop) if isinstance(table, SharedEmbeddings) else (0, table.rows)
