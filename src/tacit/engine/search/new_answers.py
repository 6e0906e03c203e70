"""Answers that are not known already: what any reasoner scores, without what the observed facts imply."""

from __future__ import annotations

import torch
from torch import Tensor

from tacit.engine.logic import ZERO
from tacit.engine.reasoner import Around, Reasoner
from tacit.graph.fact_index import FactIndex
from tacit.query.plans.plan import Plan
from tacit.query.plans.symbolic import answers


class NewAnswers(Around):
    """The scores of a reasoner, with minus infinity for every answer that the facts of an index imply."""

    def __init__(self, reasoner: Reasoner, index: FactIndex) -> None:
        super().__init__(reasoner)
        self.index = index

    def left(self, plan: Plan, entities: Tensor, relations: Tensor, *tables: Tensor) -> list[Tensor]:
        """Tables `[B, N]` without the known answers, in memory of their own: a reasoner may hand out what it keeps."""
        known = answers(plan, entities.cpu().numpy(), relations.cpu().numpy(), self.index, self.num_entities)
        rows, ids = (torch.from_numpy(column).long() for column in (known.rows, known.ids))
        held, columns = self.shards.inside(ids)
        rows, columns, value = rows[held], columns[held], torch.tensor(ZERO)
        return [table.index_put((rows.to(table.device), columns.to(table.device)), value.to(table)) for table in tables]
