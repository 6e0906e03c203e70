"""The contract of query embeddings: spaces whose points stand for questions, and operators on them."""

from __future__ import annotations

from abc import abstractmethod

from torch import Tensor

from tacit.encode.encoder import Encoder
from tacit.errors import PlanError


class Space(Encoder):
    """Where questions live: a state is one row of numbers, and operators map states to states, row by row.

    A model is these functions and nothing else. How plans become batches of operators is the schedule's business, how
    logits become a loss that of the losses.
    """

    name: str  # as it is printed
    width: int  # numbers of a state, W
    unions = False  # whether it has a union of its own; else the branches of a union are kept apart

    @abstractmethod
    def anchor(self, entities: Tensor) -> Tensor:
        """The states of entities, `[n] -> [n, W]`."""

    @abstractmethod
    def project(self, states: Tensor, relations: Tensor) -> Tensor:
        """Where relations lead, `[n, W] x [n] -> [n, W]`."""

    @abstractmethod
    def intersect(self, states: Tensor) -> Tensor:
        """What k states have in common, `[n, k, W] -> [n, W]`."""

    def union(self, states: Tensor) -> Tensor:
        """What any of k states holds, `[n, k, W] -> [n, W]`; only where `unions`."""
        raise PlanError(f"{self.name} has no union of its own")

    def complement(self, states: Tensor) -> Tensor:
        """What a state leaves out, `[n, W] -> [n, W]`."""
        raise PlanError(f"{self.name} has no complement; ask without negation, or another model")

    def everything(self) -> Tensor:
        """The state of all entities, `[W]`."""
        raise PlanError(f"{self.name} has no state of all entities; every variable needs an atom to an entity")

    @abstractmethod
    def match(self, states: Tensor, entities: Tensor | None = None) -> Tensor:
        """Logits of some entities, or of all, for each state, `[n, W] x [m] -> [n, m]`."""

    @abstractmethod
    def match_of(self, states: Tensor, entities: Tensor) -> Tensor:
        """Logits of one entity for each state, `[n, W] x [n] -> [n]`."""
