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
    fitting = VectorFitting(model, graph, settings)
    if len(fitting.triples):
        fit(fitting, settings, progress)
    larger = make_like(model, graph.num_entities, graph.num_relations)
    larger.load_state_dict({f"{table}.weight": rows for table, rows in fitting.tables().items()})
    return larger.to(model.device).requires_grad_(False).eval()


class VectorFitting(Task):
    """The training of new rows: a step is a batch of the facts that touch them."""

    name = "growth"
    unit = "epoch"
    examples = "facts"
    faster = "fewer facts at a time would be faster"
    remedy = "the facts added are too unlike those trained on; train the graph anew"

    def __init__(self, model: FactorModel, graph: Graph, settings: TrainSettings) -> None:
        self.model = model
        self.settings = settings.with_derived(len(graph.train), graph.num_entities)
        self.shards = Shards(graph.num_entities)
        generator = torch.Generator().manual_seed(settings.seed)
        sizes = {
            "entities": graph.num_entities,
            "tails": graph.num_entities,
            "relations": graph.num_relations,
        }
        self.old = {name.removesuffix(".weight"): rows for name, rows in model.state_dict().items()}
        self.module: ParameterDict = ParameterDict()
        for name, rows in self.old.items():
            new_rows = torch.randn(sizes[name] - len(rows), rows.shape[1], generator=generator)
            self.module[name] = nn.Parameter(new_rows.mul_(settings.init).to(rows.device))
        self.optimizer = torch.optim.Adagrad(self.module.parameters(), lr=LR)
        triples = torch.from_numpy(graph.triples().astype(np.int64)).to(model.device)
        first = torch.tensor(
            [model.num_entities, model.num_relations, model.num_entities], device=model.device
        )
        touching = (triples >= first).any(1)
        self.triples = triples[touching]
        self.others = triples[~touching]
        # an epoch, and the facts of its steps
        self._order: tuple[int, tuple[Tensor, ...]] = -1, ()

    @property
    def flops(self) -> float:
        """The floating-point operations of the products of a step."""
        return 6.0 * BATCH * NEGATIVES * self.model.tail_table.width

    @property
    def steps(self) -> int:
        """The number of steps of an epoch."""
        return -(-len(self.triples) // BATCH)

    def schedule(self) -> TrainingSchedule:
        """Epochs by the number of facts, without validation."""
        epochs = max(EPOCHS, min(MOST, EXAMPLES // len(self.triples)))
        return TrainingSchedule(epochs, self.steps, epochs, epochs, patience=1)

    def step(self, number: int) -> tuple[Tensor, int]:
        """Learn from the next facts, in an order that depends on seed and epoch alone."""
        with breakable():
            loss, examples = self._add_gradients(number)
        self.optimizer.step()
        return loss, examples

    def _add_gradients(self, number: int) -> tuple[Tensor, int]:
        """The loss of a step, with gradients at the rows."""
        epoch, place = divmod(number, self.steps)
        generator = torch.Generator().manual_seed(seed_of(self.settings.seed, epoch, place))
        if self._order[0] != epoch:
            order = torch.randperm(len(self.triples), generator=generator).to(self.triples.device)
            self._order = epoch, torch.split(order, BATCH)
        own = self._order[1][place]
        batch, sample, weights = self._samples(self.triples[own], generator)
        heads, relations, tails = batch.T.contiguous()
        tail_table = "tails" if "tails" in self.old else "entities"
        rows = (
            self.rows("entities", heads),
            self.rows("relations", relations),
            self.rows(tail_table, tails),
        )
        queries = self.model.compose(rows[0], rows[1])
        right = self.model.match_pairs(queries, rows[2])
        wrong = self.model.match(queries, self.rows(tail_table, sample))
        with torch.no_grad():
            loss, by_right, by_wrong = sampled_softmax(
                right, wrong + weights.log(), sample, tails, self.shards
            )
            if len(own) < len(batch):  # the few of them stand for all of the others
                of_others = len(batch) - len(own)
                by_wrong[len(own) :] *= len(self.others) / len(self.triples) * len(own) / of_others
        terms: list[tuple[Tensor, Tensor | None]] = [(right, by_right), (wrong, by_wrong)]
        if self.settings.reg:
            penalty = REGULARISERS[self.settings.regulariser](self.model.squares(*rows))
            terms.append((self.settings.reg * penalty, None))
        self.optimizer.zero_grad()
        roots, seeds = zip(*(pair for pair in terms if pair[0].requires_grad), strict=True)
        torch.autograd.backward(roots, seeds)
        return loss * len(heads), len(heads)

    def _samples(self, batch: Tensor, generator: torch.Generator) -> tuple[Tensor, Tensor, Tensor]:
        """A batch with some other facts behind it, and weighted entities to compare with.

        Half of the entities are new ones, which are few: the weights correct for it.
        """
        old = self.model.num_entities
        total = self.shards.total
        device = batch.device
        if total > old and len(self.others):
            ids = torch.randint(len(self.others), (BATCH // 2,), generator=generator).to(device)
            batch = torch.cat((batch, self.others[ids]))
        sample = list[Tensor]()
        weights = list[Tensor]()
        of_new = NEGATIVES // 2 if total > old else 0
        for start, stop, count in ((0, old, NEGATIVES - of_new), (old, total, of_new)):
            if count:
                sample.append(torch.randint(start, stop, (count,), generator=generator))
                weights.append(torch.full((count,), (stop - start) / total * NEGATIVES / count))
        return batch, torch.cat(sample).to(device), torch.cat(weights).to(device)

    def rows(self, table: str, ids: Tensor) -> Tensor:
        """The rows of ids, `[B] -> [B, D]`: constant old ones and fitted new ones."""
        old = self.old[table]
        rows: Tensor = old.index_select(0, ids.clamp(max=len(old) - 1))
        is_new = ids >= len(old)
        rows[is_new] = self.module[table][ids[is_new] - len(old)]
        return rows

    def tables(self) -> dict[str, Tensor]:
        """All rows of each table."""
        return {
            name: torch.cat((rows, self.module[name].detach())) for name, rows in self.old.items()
        }
