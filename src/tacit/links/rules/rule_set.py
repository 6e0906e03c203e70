"""Rules `body => head` over a graph: what they say, and how often they held."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, fields
from typing import TYPE_CHECKING, NamedTuple, Self

import numpy as np
from numpy.typing import NDArray

from tacit.graph.fact_index import Flags, Ids, Integers

# Imports of torch are local, since the settings of a command import this module.
if TYPE_CHECKING:
    from torch import Tensor

NONE = -1  # where a relation or a constant is absent
LONGEST = 3  # atoms of a body
PRIOR = 5  # groundings without support that every rule is charged with
OFF, WRITTEN, SAMPLED = 1, 2, 4  # bits of `flags`


class Rule(NamedTuple):
    """A rule by ids: a path of relations from x implies `relation(x, y)` or `relation(x, tail)`.

    The path ends in y, in the constant `end`, or in anything. Relations are directed, and the
    variables of a rule stand for distinct entities, none of which is one of its constants.
    """

    body: tuple[int, ...]
    relation: int
    end: int = NONE  # the constant at the end of the path
    tail: int = NONE  # the constant that the head ends in; the end of the path where there is none
    support: int = 0  # groundings of the body for which the head is a fact
    groundings: int = 0  # distinct pairs (x, y), or entities x, that the body holds for
    confidence: float = 0.0
    flags: int = 0

    @property
    def off(self) -> bool:
        """Whether a person switched the rule off."""
        return bool(self.flags & OFF)

    @property
    def written(self) -> bool:
        """Whether a person wrote the rule."""
        return bool(self.flags & WRITTEN)

    @property
    def exact(self) -> bool:
        """Whether support and groundings were counted over the whole graph."""
        return not self.flags & SAMPLED


@dataclass(frozen=True, eq=False)
class RuleSet:
    """Rules as arrays with an element for each; the place of a rule is its id."""

    body: Ids  # [n, LONGEST], from x on, padded with NONE
    relation: Ids  # [n]
    end: Ids
    tail: Ids
    support: Ids
    groundings: Ids
    confidence: NDArray[np.float32]
    flags: NDArray[np.uint8]

    def __len__(self) -> int:
        return len(self.relation)

    def __getitem__(self, place: int) -> Rule:
        return Rule(
            tuple(int(each) for each in self.body[place] if each != NONE),
            int(self.relation[place]),
            int(self.end[place]),
            int(self.tail[place]),
            int(self.support[place]),
            int(self.groundings[place]),
            float(self.confidence[place]),
            int(self.flags[place]),
        )

    @property
    def active(self) -> Flags:
        """Which rules are not switched off."""
        on: Flags = (self.flags & OFF) == 0
        return on

    @classmethod
    def of(cls, rules: list[Rule]) -> Self:
        """The set of some rules, in their order."""
        body = np.full((len(rules), LONGEST), NONE, dtype=np.int32)
        for place, rule in enumerate(rules):
            body[place, : len(rule.body)] = rule.body
        rest = zip(*(rule[1:] for rule in rules), strict=True) if rules else [()] * 7
        types = [np.int32] * 5 + [np.float32, np.uint8]
        columns = (np.array(column, kind) for column, kind in zip(rest, types, strict=True))
        return cls(body, *columns)

    def take(self, places: NDArray[np.integer] | Flags) -> Self:
        """The rules at some places."""
        return type(self)(*(getattr(self, field.name)[places] for field in fields(self)))

    def joined(self, other: RuleSet) -> Self:
        """These rules and others after them."""
        names = [field.name for field in fields(self)]
        return type(self)(
            *(np.concatenate([getattr(self, name), getattr(other, name)]) for name in names)
        )

    def to_tensors(self) -> dict[str, Tensor]:
        """The arrays as tensors by name."""
        import torch

        return {
            field.name: torch.from_numpy(np.ascontiguousarray(getattr(self, field.name)))
            for field in fields(self)
        }

    @classmethod
    def from_tensors(cls, tensors: Mapping[str, Tensor]) -> Self:
        """The rules of `to_tensors`."""
        return cls(*(tensors[field.name].numpy() for field in fields(cls)))


def confidence_of(support: Integers, groundings: Integers) -> NDArray[np.float32]:
    """`support / (groundings + PRIOR)`, which trusts a rule seen seldom less."""
    return (support / (groundings + PRIOR)).astype(np.float32)
