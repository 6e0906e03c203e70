"""Answers that are not known already: what any reasoner scores, without what the observed facts imply."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor

from tacit.engine.found import Found, Wanted
from tacit.engine.logic import ZERO
from tacit.engine.reasoner import Explanation, Reasoner
from tacit.graph.index import Index
from tacit.query.plan import Plan
from tacit.query.symbolic import answers


class NewAnswers(Reasoner):
    """The scores of a reasoner, with minus infinity for every answer that the facts of an index imply.

    Bounds are those of the reasoner with the same taken out: a list of new answers is certified where no other new one
    could be better, however good a known one is.
    """

    def __init__(self, reasoner: Reasoner, index: Index) -> None:
        self.reasoner, self.index, self.num_entities = reasoner, index, reasoner.num_entities
        self.shards = reasoner.shards

    def scores(self, plan: Plan, entities: Tensor, relations: Tensor) -> Tensor:
        """Log-scores; known answers have none."""
        return self._new(plan, entities, relations, self.reasoner.scores(plan, entities, relations))[0]

    def ranking(self, plan: Plan, entities: Tensor, relations: Tensor) -> Tensor:
        """What ranks the entities, known answers last."""
        return self._new(plan, entities, relations, self.reasoner.ranking(plan, entities, relations))[0]

    def batch(self, plan: Plan) -> int:
        """As many queries at once as the reasoner takes."""
        return self.reasoner.batch(plan)

    def bounds(self, plan: Plan, entities: Tensor, relations: Tensor) -> tuple[Tensor, Tensor] | None:
        """The bounds of the reasoner; known answers have none."""
        bounds = self.reasoner.bounds(plan, entities, relations)
        if bounds is None:
            return None
        lower, upper = self._new(plan, entities, relations, *bounds)
        return lower, upper

    def top(self, plan: Plan, entities: Tensor, relations: Tensor, wanted: Sequence[Wanted]) -> list[Found]:
        """What the reasoner finds: what is wanted says which answers are known."""
        return self.reasoner.top(plan, entities, relations, wanted)

    def explain(self, plan: Plan, entities: Tensor, relations: Tensor, wanted: Wanted) -> Explanation | None:
        """What the reasoner explains: what is wanted says which answers are known."""
        return self.reasoner.explain(plan, entities, relations, wanted)

    def _new(self, plan: Plan, entities: Tensor, relations: Tensor, *tables: Tensor) -> list[Tensor]:
        """Tables `[B, N]` without the known answers, in memory of their own: a reasoner may hand out what it keeps."""
        known = answers(plan, entities.cpu().numpy(), relations.cpu().numpy(), self.index, self.num_entities)
        rows, ids = (torch.from_numpy(column).long() for column in (known.rows, known.ids))
        held, columns = self.shards.inside(ids)
        rows, columns, value = rows[held], columns[held], torch.tensor(ZERO)
        return [table.index_put((rows.to(table.device), columns.to(table.device)), value.to(table)) for table in tables]
