"""The batches of a training: the queries of each step, and the entities to compare with."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor

from tacit.encode.encoder import Drawn
from tacit.encode.settings import EncodeSettings
from tacit.encode.training.draws import GivenQueries, OnlineQueries
from tacit.fitting.task import seed_of

# steps whose queries are drawn together, since a draw takes many small operations
BLOCK = 16


class Batches:
    """What each step learns from; it depends on seed and number alone, so nothing is stored.

    `samplers` draw the queries of a block of steps. They are written to where those of the block
    before lie, so that a recorded step finds them.
    """

    def __init__(
        self,
        samplers: Sequence[GivenQueries | OnlineQueries],
        settings: EncodeSettings,
        num_entities: int,
        device: torch.device,
    ) -> None:
        self.samplers = samplers
        self.settings = settings
        self.num_entities = num_entities
        self.device = device
        # shared negatives that answer other queries
        self.num_likely = round(settings.likely * settings.negatives)
        self.log_frequencies = self._log_frequencies()
        self._block = -1
        self._drawn = list[Drawn]()
        self._place = torch.zeros(1, dtype=torch.long, device=device)  # of a step in its block

    def draw(self, number: int) -> bool:
        """Draw for a step, and set its random seed; False if no query of the first block counts."""
        block, place = divmod(number, BLOCK)
        if block != self._block:
            self._seed(block, 0)
            fresh = [sampler() for sampler in self.samplers]
            if not self._drawn and not any(bool(drawn.weights.any()) for drawn in fresh):
                return False
            for before, drawn in zip(self._drawn, fresh, strict=False):
                for old, new in zip(before.columns, drawn.columns, strict=True):
                    old.copy_(new)
            self._drawn = self._drawn or fresh
            self._block = block
        self._place.fill_(place)
        self._seed(block, 1 + place)
        return True

    def _seed(self, *numbers: int) -> None:
        seed = seed_of(self.settings.seed, *numbers)
        torch.default_generator.manual_seed(seed)
        if self.device.type == "cuda":
            torch.cuda.default_generators[torch.cuda.current_device()].manual_seed(seed)

    def queries(self) -> list[Drawn]:
        """The queries of a step."""
        return [
            Drawn(
                drawn.plan,
                *(
                    column.unflatten(0, (BLOCK, -1)).index_select(0, self._place)[0]
                    for column in drawn.columns
                ),
            )
            for drawn in self._drawn
        ]

    def negatives(self, answers: Tensor) -> Tensor:
        """Entities to compare with, by an answer `[n]` to each query of a batch.

        `[n, K]` where they are private; else `[K]`, all of them where there are no more, and
        *likely* ones among them, which answer other queries: of the kinds that questions are about,
        and so the hardest to tell from right ones.
        """
        settings = self.settings
        many = self.num_entities
        if settings.private:
            return torch.randint(many, (len(answers), settings.negatives), device=self.device)
        if settings.negatives >= many:
            return torch.arange(many, device=self.device)
        places = torch.randint(len(answers), (self.num_likely,), device=self.device)
        anywhere = torch.randint(many, (settings.negatives - self.num_likely,), device=self.device)
        return torch.cat((answers[places], anywhere))

    def _log_frequencies(self) -> Tensor | None:
        """The logs of how often each entity is to be drawn among the negatives of a step, `[N]`.

        None where the loss is no softmax, whose sum over all entities what is drawn stands for, or
        all are there.
        """
        settings = self.settings
        many = self.num_entities
        shared = not settings.private and settings.negatives < many
        if settings.loss != "softmax" or not shared or not self.num_likely:
            return None
        answers = torch.stack([each.count * each.shares(many) for each in self.samplers]).sum(0)
        likely = self.num_likely * answers / answers.sum()
        uniform = (settings.negatives - self.num_likely) / many
        return (uniform + likely).log().float().to(self.device)
