"""Rows for new entities and relations, fitted to their facts while all others stay."""

from __future__ import annotations

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn import ParameterDict

from tacit.distributed.shards import Shards
from tacit.fitting.interruption import breakable
from tacit.fitting.loop import fit
from tacit.fitting.progress import Progress
from tacit.fitting.task import Task, TrainingSchedule, seed_of
from tacit.graph.graph import Graph
from tacit.links.factors import FactorModel
from tacit.links.models import make_like
from tacit.links.settings import TrainSettings
from tacit.links.training.losses import REGULARISERS, sampled_softmax

# Chosen on entities held out of world and NELL995 by `benchmarks/add.py`.
EPOCHS = 3
BATCH = 500
NEGATIVES = 200
LR = 0.1
# few facts are gone through more often, up to so many times, to learn from so many in all
EXAMPLES = 6_000
MOST = 200


def fit_new_embeddings(
    model: FactorModel, graph: Graph, settings: TrainSettings, progress: Progress | bool = False
) -> FactorModel:
    """Extend a model by rows for the new entities and relations of a graph.

    Old rows stay the same to the bit. New rows are fitted to the facts that touch them, of all
    splits and both directions, by the loss over sampled entities and the regulariser of the
    `settings`. Some of the other facts are drawn as well, weighted to stand for all of them, so
    that new entities do not crowd out the answers to other questions.
    """
    growth = VectorFitting(model, graph, settings)
    if growth.steps:
        fit(growth, settings, progress)
    larger = make_like(model, graph.num_entities, graph.num_relations)
    larger.load_state_dict({f"{table}.weight": rows for table, rows in growth.tables().items()})
    return larger.to(model.device).requires_grad_(False).eval()


class VectorFitting(Task):
    """The training of new rows: a step is a batch of the facts that touch them."""

    faster = "fewer facts at a time would be faster"
    remedy = "the facts added are too unlike those trained on; train the graph anew"

    def __init__(self, model: FactorModel, graph: Graph, settings: TrainSettings) -> None:
        self.model = model
        self.seed = settings.seed
        self.reg = settings.with_derived(len(graph.train), graph.num_entities).reg
        self.penalty = REGULARISERS[settings.regulariser]
        self.shards = Shards(graph.num_entities)
        generator = torch.Generator().manual_seed(settings.seed)
        more = {
            "entities": graph.num_entities,
            "tails": graph.num_entities,
            "relations": graph.num_relations,
        }
        self.old = {name.removesuffix(".weight"): rows for name, rows in model.state_dict().items()}
        self.module = self.fresh = ParameterDict()
        for name, rows in self.old.items():
            drawn = torch.randn(more[name] - len(rows), rows.shape[1], generator=generator).mul_(
                settings.init
            )
            self.fresh[name] = nn.Parameter(drawn.to(rows.device))
        self.optimizer = torch.optim.Adagrad(self.fresh.parameters(), lr=LR)
        # what the table of tails is called
        self.tail = "tails" if "tails" in self.old else "entities"
        triples = torch.from_numpy(graph.triples().astype(np.int64)).to(model.device)
        first = torch.tensor(
            [model.num_entities, model.num_relations, model.num_entities], device=model.device
        )
        touching = (triples >= first).any(1)
        self.triples = triples[touching]
        self.others = triples[~touching]
        self.steps = -(-len(self.triples) // BATCH)  # of an epoch
        self._order: tuple[int, tuple[Tensor, ...]] = -1, ()

    @property
    def flops(self) -> float:
        """The floating-point operations of the products of a step."""
        return 6.0 * BATCH * NEGATIVES * self.model.tail_table.width

    def schedule(self) -> TrainingSchedule:
        """Epochs by the number of facts, without validation."""
        epochs = max(EPOCHS, min(MOST, EXAMPLES // len(self.triples)))
        return TrainingSchedule("growth", "epoch", epochs, self.steps, epochs, epochs, 1, "facts")

    def step(self, number: int) -> tuple[Tensor, int]:
        """Learn from the next facts, in an order that depends on seed and epoch alone."""
        with breakable():
            loss, examples = self._follow(number)
        self.optimizer.step()
        return loss, examples

    def _follow(self, number: int) -> tuple[Tensor, int]:
        """The loss of a step, with gradients at the rows."""
        epoch, place = divmod(number, self.steps)
        generator = torch.Generator().manual_seed(seed_of(self.seed, epoch, place))
        if self._order[0] != epoch:
            order = torch.randperm(len(self.triples), generator=generator).to(self.triples.device)
            self._order = epoch, torch.split(order, BATCH)
        batch, drawn, weights = self._drawn(self.triples[self._order[1][place]], generator)
        heads, relations, tails = batch.T.contiguous()
        rows = (
            self.rows("entities", heads),
            self.rows("relations", relations),
            self.rows(self.tail, tails),
        )
        queries = self.model.compose(rows[0], rows[1])
        right = self.model.match_pairs(queries, rows[2])
        wrong = self.model.match(queries, self.rows(self.tail, drawn))
        with torch.no_grad():
            loss, by_right, by_wrong = sampled_softmax(
                right, wrong + weights.log(), drawn, tails, self.shards
            )
            own = len(self._order[1][place])
            if own < len(batch):  # what few are drawn stands for all of the others
                by_wrong[own:] *= len(self.others) / len(self.triples) * own / (len(batch) - own)
        pulled: list[tuple[Tensor, Tensor | None]] = [(right, by_right), (wrong, by_wrong)]
        if self.reg:
            pulled.append((self.reg * self.penalty(self.model.squares(*rows)), None))
        self.optimizer.zero_grad()
        roots, seeds = zip(*(pair for pair in pulled if pair[0].requires_grad), strict=True)
        torch.autograd.backward(roots, seeds)
        return loss * len(heads), len(heads)

    def _drawn(self, batch: Tensor, generator: torch.Generator) -> tuple[Tensor, Tensor, Tensor]:
        """A batch with some other facts behind it, and weighted entities to compare with.

        Half of the entities are new ones, which are few: the weights correct for it.
        """
        old = self.model.num_entities
        device = batch.device
        new = self.shards.total - old
        if new and len(self.others):
            chosen = torch.randint(len(self.others), (BATCH // 2,), generator=generator).to(device)
            batch = torch.cat((batch, self.others[chosen]))
        drawn = list[Tensor]()
        weights = list[Tensor]()
        many = NEGATIVES // 2 if new else 0
        for start, stop, count in ((0, old, NEGATIVES - many), (old, old + new, many)):
            if count:
                drawn.append(torch.randint(start, stop, (count,), generator=generator))
                weights.append(
                    torch.full((count,), (stop - start) / self.shards.total * NEGATIVES / count)
                )
        return batch, torch.cat(drawn).to(device), torch.cat(weights).to(device)

    def rows(self, table: str, ids: Tensor) -> Tensor:
        """The rows of ids, `[B] -> [B, D]`: constant old ones and fitted new ones."""
        old = self.old[table]
        rows: Tensor = old.index_select(0, ids.clamp(max=len(old) - 1))
        fresh = ids >= len(old)
        rows[fresh] = self.fresh[table][ids[fresh] - len(old)]
        return rows

    def tables(self) -> dict[str, Tensor]:
        """All rows of each table."""
        return {
            name: torch.cat((rows, self.fresh[name].detach())) for name, rows in self.old.items()
        }
