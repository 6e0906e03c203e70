"""The reasoner over lists: answers without rows of all entities, where a question allows it."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import takewhile

import torch
from torch import Tensor

from tacit.engine.atoms.weights_memo import Kept
from tacit.engine.logic import ZERO
from tacit.engine.reasoner import Around, MessageReasoner, Reasoner
from tacit.engine.search.best_answers import BestAnswers, Wanted
from tacit.engine.search.list_search import Listing, Lists
from tacit.engine.search.row_lists import RowLists
from tacit.links.finders.finder import TopScorer
from tacit.query.plans.plan import Plan, Row
from tacit.query.plans.traits import listable


class ListReasoner(Around):
    """Best-first search over what a finder lists; questions that lists cannot answer go to another reasoner, over rows.

    So do the scores of all entities that an evaluation ranks, reasons, and everything once weights were written to.
    """

    def __init__(self, rows: MessageReasoner, finder: TopScorer) -> None:
        super().__init__(rows)
        self.rows, self.finder = rows, finder
        self._weights = Kept().now(rows.atoms.scorer)

    def bounds(self, plan: Plan, entities: Tensor, relations: Tensor) -> tuple[Tensor, Tensor]:
        """A lower and an upper bound of every exact score, over rows."""
        return self.rows.bounds(plan, entities, relations)

    def explaining(self, by_scores: bool = False) -> Reasoner:
        """What explains over rows."""
        return self.rows.explaining(by_scores)

    def _current(self) -> bool:
        """Whether nobody has written to the weights, as far as that can be seen: what finders keep is of these."""
        atoms, weights = self.rows.atoms, self._weights
        return not atoms.forgotten and weights.now(atoms.scorer) is weights and weights.believable

    def top(self, plan: Plan, entities: Tensor, relations: Tensor, wanted: Sequence[Wanted]) -> list[BestAnswers]:
        """The best answers to each query; certified where the finder knows what it has not listed."""
        if not listable(plan) or not self._current():
            return self.rows.top(plan, entities, relations, wanted)
        slots = zip(entities.tolist(), relations.tolist(), wanted, strict=True)
        return [self._listed(plan, *each) for each in slots]

    def _listed(self, plan: Plan, entities: list[int], relations: list[int], wanted: Wanted) -> BestAnswers:
        """The best answers to one query: what goes first is valued whether a search would find it or not."""
        rows, k = RowLists(self.rows.atoms, self.finder), self.rows.k or self.num_entities
        lists = Lists(rows, self.rows.logic, entities, relations, k)
        first = torch.tensor(wanted.first, dtype=torch.long)
        more = not wanted.only and (len(first) < wanted.count or wanted.least < wanted.floor)  # some may not do
        unwanted = torch.tensor(wanted.without, dtype=torch.long)
        listing = lists.top(plan.root, wanted.count + len(unwanted)) if more else Listing.empty()
        listing = listing.leaving_out(unwanted)
        unlisted = first[~torch.isin(first, listing.ids)]
        valued = lists.valued(plan.root, unlisted, wanted.least)
        # By rising id, so that equal ones are told apart by it; a row comes by logits, which are finer than scores.
        ids, order = torch.cat([listing.ids, unlisted]).sort()
        low, high = torch.cat([listing.low, valued.low])[order], torch.cat([listing.high, valued.high])[order]
        finer = -order.float() if isinstance(plan.root, Row) else None
        best = wanted.best_among(ids, low, finer, (low, high)) if len(ids) else BestAnswers((), (), True)
        beyond, ahead, sure = listing.rest, set(wanted.first), rows.sure and not rows.estimated
        full = len(best.ids) == wanted.count and best.ids
        settled = beyond < best.scores[-1] if full else beyond == ZERO or beyond < wanted.floor
        certified = bool(best.certified) and settled and sure
        listed = zip(best.ids[: best.proven], best.scores, strict=False)
        leading = len(list(takewhile(lambda each: each[0] in ahead or beyond < each[1], listed))) if sure else 0
        return BestAnswers(best.ids, best.scores, certified, len(lists.followed), rows.estimated, leading)
