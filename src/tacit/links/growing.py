"""Rows for entities and relations that a model was not trained on, fitted to their facts while all others stay."""

from __future__ import annotations

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn import ParameterDict

from tacit.distributed.shards import Shards
from tacit.fitting.checkpoint import Weights
from tacit.fitting.loop import Fitting, Schedule
from tacit.fitting.progress import Progress, shown
from tacit.graph.graph import Graph
from tacit.links.factors import FactorModel
from tacit.links.loading import make_model
from tacit.links.losses import sampled_softmax
from tacit.links.models import MODELS
from tacit.links.precision import threads_for
from tacit.links.regularisers import REGULARISERS
from tacit.links.settings import TrainSettings

# Chosen on entities held out of world and NELL995 by `benchmarks/add.py`.
EPOCHS, BATCH, NEGATIVES, LR = 10, 500, 200, 0.1
EXAMPLES, MOST = 15_000, 200  # facts to learn from in all, at least, which few facts are gone through more often for


def grown(model: FactorModel, graph: Graph, settings: TrainSettings, progress: Progress | bool = False) -> FactorModel:
    """The model with rows for what a graph has beyond it: entities and relations behind those the model knows.

    The rows of those are the same to the bit. The others are fitted to the facts that touch them, all splits, both
    directions, by the loss over sampled entities and the regulariser of the `settings`.
    """
    growth = Growth(model, graph, settings)
    if growth.steps:
        flops = 6.0 * BATCH * NEGATIVES * model.tail_table.width
        with shown(progress) as tell, threads_for(flops):
            fitting = Fitting(growth, growth.schedule(), tell)
            fitting.go()
            fitting.finish()
    name = next(name for name, kind in MODELS.items() if kind is type(model))
    larger = make_model(name, graph.num_entities, graph.num_relations, model.rank, getattr(model, "norm", 1))
    larger.load_state_dict({f"{table}.weight": rows for table, rows in growth.tables().items()})
    return larger.to(model.device).requires_grad_(False).eval()


class Growth:
    """The training of further rows of a model: a step is a batch of the facts that touch one of them."""

    faster = "fewer facts at a time would be faster"
    remedy = "the facts added are too unlike those trained on; train the graph anew"

    def __init__(self, model: FactorModel, graph: Graph, settings: TrainSettings) -> None:
        self.model, self.seed = model, settings.seed
        self.reg = settings.settled(len(graph.train), graph.num_entities).reg
        self.penalty = REGULARISERS[settings.regulariser]
        self.shards = Shards(graph.num_entities)
        generator = torch.Generator().manual_seed(settings.seed)
        more = {"entities": graph.num_entities, "tails": graph.num_entities, "relations": graph.num_relations}
        self.old = {name.removesuffix(".weight"): rows for name, rows in model.state_dict().items()}
        self.fresh = ParameterDict()
        for name, rows in self.old.items():
            drawn = torch.randn(more[name] - len(rows), rows.shape[1], generator=generator).mul_(settings.init)
            self.fresh[name] = nn.Parameter(drawn.to(rows.device))
        self.optimizer = torch.optim.Adagrad(self.fresh.parameters(), lr=LR)
        self.head, self.tail = "entities", "tails" if "tails" in self.old else "entities"
        triples = graph.triples().astype(np.int64)
        ends = triples[:, [0, 2]] >= model.num_entities
        touching = triples[ends.any(axis=1) | (triples[:, 1] >= model.num_relations)]
        self.triples = torch.from_numpy(touching).to(model.device)
        self.steps = -(-len(touching) // BATCH)  # of an epoch
        self._order: tuple[int, tuple[Tensor, ...]] = -1, ()

    @property
    def module(self) -> nn.Module:
        """What has the weights."""
        return self.fresh

    def schedule(self) -> Schedule:
        """A number of epochs that depends on the number of facts alone; nothing is validated."""
        epochs = max(EPOCHS, min(MOST, EXAMPLES // len(self.triples)))
        return Schedule("growth", "epoch", epochs, self.steps, epochs, epochs, 1, "facts")

    def step(self, number: int) -> tuple[Tensor, int]:
        """Learn from the next facts, in an order that depends on seed and epoch alone."""
        epoch, place = divmod(number, self.steps)
        generator = torch.Generator().manual_seed(hash((self.seed, epoch, place)) & (2**63 - 1))
        if self._order[0] != epoch:
            order = torch.randperm(len(self.triples), generator=generator).to(self.triples.device)
            self._order = epoch, torch.split(order, BATCH)
        heads, relations, tails = self.triples[self._order[1][place]].T.contiguous()
        drawn = torch.randint(self.shards.total, (NEGATIVES,), generator=generator).to(heads.device)
        rows = self.rows(self.head, heads), self.rows("relations", relations), self.rows(self.tail, tails)
        queries = self.model.compose(rows[0], rows[1])
        right = self.model.match_pairs(queries, rows[2])
        wrong = self.model.match(queries, self.rows(self.tail, drawn))
        with torch.no_grad():
            loss, by_right, by_wrong = sampled_softmax(right, wrong, drawn, tails, self.shards)
        roots, seeds = [right, wrong], [by_right, by_wrong]
        if self.reg:
            roots.append(self.reg * self.penalty(self.model.squares(*rows)))
            seeds.append(torch.ones_like(roots[-1]))
        self.optimizer.zero_grad()
        moving = [(root, seed) for root, seed in zip(roots, seeds, strict=True) if root.requires_grad]
        torch.autograd.backward([root for root, _ in moving], [seed for _, seed in moving])
        self.optimizer.step()
        return loss * len(heads), len(heads)

    def rows(self, table: str, ids: Tensor) -> Tensor:
        """The rows of ids, `[B] -> [B, D]`: constants of what was trained before, and those that are fitted."""
        old = self.old[table]
        rows: Tensor = old.index_select(0, ids.clamp(max=len(old) - 1))
        fresh = ids >= len(old)
        rows[fresh] = self.fresh[table][ids[fresh] - len(old)]
        return rows

    def tables(self) -> dict[str, Tensor]:
        """All rows of each table."""
        return {name: torch.cat((rows, self.fresh[name].detach())) for name, rows in self.old.items()}

    def validate(self) -> dict[str, float]:
        """Nothing: every fact is needed to learn from."""
        return {}

    def state(self) -> dict[str, Tensor]:
        """Nothing: batches and draws depend on seed, epoch and step alone."""
        return {}

    def restore(self, state: Weights) -> None:
        """Nothing to do."""
