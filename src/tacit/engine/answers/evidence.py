"""Evidence of predicted atoms by names: rules that speak for them, and analogous known facts."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np

from tacit.graph.graph import Graph
from tacit.graph.qualifiers import Statement, in_words
from tacit.query.rule_words import rule_formula, rule_in_words, statistic_in_words
from tacit.query.wording import fact_in_words

# Imported for types alone, since the service loads no torch.
if TYPE_CHECKING:
    from tacit.links.rules.rule_set import Rule

_SHOWN = 2  # rules of an atom in a text
_WHOLE = 0.995  # a share of a score that is not worth mentioning

Triple = tuple[int, int, int]


@dataclass(frozen=True)
class EvidenceFact:
    """A known fact by names, and the labels to look it up by."""

    subject: str
    relation: str
    object: str
    subject_label: str
    relation_label: str
    object_label: str
    statements: tuple[Statement, ...] = ()  # where it comes from, and when it holds

    def __str__(self) -> str:
        said = f" ({in_words(self.statements)})" if self.statements else ""
        return fact_in_words(self.relation, self.subject, self.object) + said

    def to_dict(self) -> dict[str, Any]:
        """The fact as plain data for JSON; only one about which there are statements has them."""
        data = {name: value for name, value in vars(self).items() if name != "statements"}
        if self.statements:
            data["statements"] = [statement.to_dict() for statement in self.statements]
        return data

    @classmethod
    def of(cls, graph: Graph, triple: Triple) -> EvidenceFact:
        """A forward fact by names."""
        s, r, o = triple
        entities = graph.entities
        names = entities.name(s), graph.relations.name(r), entities.name(o)
        labels = entities[s], graph.relations[r], entities[o]
        return cls(*names, *labels, graph.qualifiers.statements(s, r, o))


@dataclass(frozen=True)
class EvidencePath:
    """A grounding of a rule: known facts, and how they read together."""

    text: str
    facts: tuple[EvidenceFact, ...]


@dataclass(frozen=True)
class NamedRule:
    """A rule by names: in words and as a formula, and how often it held."""

    id: int
    words: str
    formula: str
    statistic: str  # the counts in words; empty where nothing was counted
    support: int
    groundings: int
    confidence: float
    exact: bool  # whether the counts are no estimates
    written: bool  # whether a person wrote it

    @classmethod
    def of(cls, graph: Graph, rule: Rule, id: int) -> NamedRule:
        """The rule with an id by the names of a graph."""
        texts = rule_in_words(graph, rule), rule_formula(graph, rule)
        return cls(
            id,
            *texts,
            statistic_in_words(graph, rule),
            rule.support,
            rule.groundings,
            float(str(np.float32(rule.confidence))),  # its shortest digits: 0.52, not 0.519999980
            rule.exact,
            rule.written,
        )

    @property
    def hard(self) -> bool:
        """Whether a person wrote that it holds without exception."""
        return self.written and self.confidence >= 1.0


@dataclass(frozen=True)
class Evidence:
    """A rule that speaks for an atom, and the groundings that it rests on here.

    No grounding is shown twice, not even by two rules.
    """

    rule: NamedRule
    paths: tuple[EvidencePath, ...]
    more: int = 0  # groundings beside these
    more_at_least: bool = False  # whether there may be still more

    def lines(self, denied: bool = False) -> list[str]:
        """The evidence as lines of text, one for each grounding; for a `denied` atom or not."""
        rule = self.rule
        facts = self.paths[0].text if self.paths else "the same facts"
        opening = "against it: " if denied else "because " if self.paths else "because of "
        marks = [f"confidence {100 * rule.confidence:.0f} %", f"rule {rule.id}"]
        if rule.hard:
            opening = f"{'against it: ' * denied}follows by rule {rule.id}: "
            marks = []
        marks += ["written by a person"] * rule.written
        counts = f": {rule.statistic}" * bool(rule.statistic)
        lines = [f"{opening}{facts}{counts} ({', '.join(marks)})"]
        lines += [f"  also {path.text}" for path in self.paths[1:]]
        if self.more:
            least = "at least " * self.more_at_least
            lines[-1] += f"; and in {least}{self.more:,} more way{'s' * (self.more > 1)}"
        return lines

    @property
    def text(self) -> str:
        """The rule and its first grounding as one line of text."""
        return replace(self, paths=self.paths[:1], more=0).lines()[0]

    def to_dict(self) -> dict[str, Any]:
        """The evidence as plain data for JSON."""
        paths = [
            {"text": path.text, "facts": [fact.to_dict() for fact in path.facts]}
            for path in self.paths
        ]
        more = {"more": self.more, "more_at_least": self.more_at_least}
        return {"text": self.text, "rule": vars(self.rule) | {}, "paths": paths, **more}


@dataclass(frozen=True)
class AtomEvidence:
    """The evidence of an atom by rules, and how much of its score these carry, from 0 to 1.

    Where no rule speaks for it, `analogies` are the most similar known facts of its relation. The
    `share` is None where there are no rules at all.
    """

    rules: tuple[Evidence, ...] = ()
    analogies: tuple[EvidenceFact, ...] = ()
    share: float | None = None

    def lines(self, denied: bool = False) -> Iterator[str]:
        """Yield the best rules that rest on facts of their own as lines of text."""
        own = [evidence for evidence in self.rules if evidence.paths] or self.rules
        for evidence in own[: 1 if denied else _SHOWN]:
            yield from evidence.lines(denied)
        if self.rules and self.share is not None and self.share < _WHOLE:
            carried = f"{100 * self.share:.0f} %" if self.share >= 0.005 else "less than 1 %"
            carried = carried if self.share else "none"
            yield f"rules carry {carried} of the score"
        notes = ["no rule speaks for it"] * (self.share is not None and not self.rules)
        if self.analogies:
            notes.append(f"nearest analogies: {'; '.join(map(str, self.analogies))}")
        if notes:
            yield "; ".join(notes)

    def to_dict(self) -> dict[str, Any]:
        """The parts that are present, as plain data for JSON."""
        data: dict[str, Any] = {}
        if self.rules or self.share is not None:
            data["evidence"] = [evidence.to_dict() for evidence in self.rules]
        if self.share is not None:
            data["rule_share"] = self.share
        if self.analogies:
            data["analogies"] = [fact.to_dict() for fact in self.analogies]
        return data


NO_EVIDENCE = AtomEvidence()
