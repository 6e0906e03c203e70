"""Training in one call: from a graph to a run that is open."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from tacit.encoding import encode_folder
from tacit.making import train_folder
from tacit.run import Run, open
from tacit.sources import Source

if TYPE_CHECKING:
    from tacit.fitting.progress import Event
    from tacit.graph.datasets import Facts
    from tacit.query.queries import QuerySet


def train(
    graph: Facts | Sequence[Facts],
    out: Source,
    *,
    resume: bool = False,
    force: bool = False,
    progress: Callable[[Event], None] | bool = True,
    **settings: Any,
) -> Run:
    """Train a link predictor on a graph, keep it in the folder `out`, and open it.

    `resume` goes on with the run in the folder where there is one, with its own settings but for those given; one that
    is complete goes on where there are more `epochs` to do. `force` replaces it. `progress` hears of every `Event`, or
    True shows them: as a bar on a terminal, as lines elsewhere. Settings are those of `TrainSettings`: model, rank,
    epochs, batch, lr, reg, device, seed and so on; rank, epochs, batch and reg are chosen by the size of the graph
    where none are given. Ctrl-C saves the run before it raises `KeyboardInterrupt`.
    """
    folder = train_folder(graph, out, resume=resume, force=force, progress=progress, **settings)
    return open(folder.path, device=folder.settings["train"]["device"])


def train_encoder(
    graph: Facts | Sequence[Facts],
    out: Source,
    *,
    queries: Source | Mapping[str, QuerySet] | None = None,
    checkpoint: Source | None = None,
    resume: bool = False,
    force: bool = False,
    progress: Callable[[Event], None] | bool = True,
    **settings: Any,
) -> Run:
    """Train an encoder on a graph, or on that of a run, keep it in the folder `out`, and open it.

    It learns from `queries`, a query folder or query sets by shape; what `shapes` names and those lack is drawn from
    the train facts, and without `queries` all is. `checkpoint` is a file of UltraQuery's weights, or a run that has
    them, to import in place of training. `resume` goes on with what was stopped, `force` replaces the run in the
    folder, `progress` hears of every `Event`, or True shows them. Settings are those of `EncodeSettings`: model,
    recipe, minutes, steps, width, device, seed and so on.
    """
    folder = encode_folder(
        graph, out, queries=queries, checkpoint=checkpoint, resume=resume, force=force, progress=progress, **settings
    )
    return open(folder.path, device=folder.settings["encode"].get("device", "auto"))
