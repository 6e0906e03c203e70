"""Rule files of AnyBURL: a rule a line, with how often it predicted and was right."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

import numpy as np

from tacit import disk
from tacit.errors import DataError
from tacit.graph.graph import Graph
from tacit.links.rules.editing import forms, mirrored
from tacit.links.rules.rule_set import LONGEST, NONE, SAMPLED, Rule, RuleSet

_LONGEST_LINE = 10_000  # characters of a rule
_ARROW = " <= "
_VARIABLE = re.compile(r"[A-Z]")
_INNER = "ABCDEFGHIJ"  # variables between the ends of a path
_UNWRITABLE = re.compile(r"[\t\n\r]")
_DOUBTFUL = re.compile(r"[(),]|<=|^\s|\s$|^[A-Z]$")  # in labels that may be read otherwise


class RuleAtom(NamedTuple):
    """An atom of a rule file: variables are capital letters, all else are labels."""

    relation: str
    left: str
    right: str


@dataclass(frozen=True, eq=False)
class RuleFile:
    """The rules of a file, and how many lines were left out for each reason."""

    rules: RuleSet
    left_out: dict[str, int]

    @property
    def notes(self) -> list[str]:
        """What was left out, a line for each reason."""
        return [f"{count:,} left out: {why}" for why, count in self.left_out.items()]


def read_rules(path: str | Path, graph: Graph) -> RuleFile:
    """Read the rules of a file that speak of a graph.

    A rule about two variables becomes two, since it predicts both ends. Counts are marked as
    sampled, as AnyBURL samples them. Rules of other forms, and those about labels that the graph
    does not have, are counted.
    """
    path = Path(path)
    reader = _LineReader(graph)
    found: dict[Rule, Rule] = {}  # by what they say
    reasons: Counter[str] = Counter()
    try:
        with path.open(encoding="utf-8") as file:
            for number, line in enumerate(file, 1):
                if not line.strip():
                    continue
                columns = line.rstrip("\r\n").split("\t", 3)
                counts = _counts(columns)
                if counts is None:
                    raise DataError(
                        f"{line.strip()[:80]!r} is no rule; expected predictions, support, "
                        "confidence and a rule, with tabs between them",
                        path,
                        number,
                    )
                rule = reader.rule(columns[3])
                if isinstance(rule, str):
                    reasons[rule] += 1
                    continue
                predictions, support, confidence = counts
                for form in forms(rule):
                    found[form] = form._replace(
                        support=support,
                        groundings=predictions,
                        confidence=confidence,
                        flags=SAMPLED,
                    )
    except (OSError, UnicodeDecodeError) as error:
        raise DataError(f"it cannot be read ({error})", path) from None
    return RuleFile(RuleSet.of(list(found.values())), dict(reasons))


def write_rules(path: str | Path, graph: Graph, rules: RuleSet) -> int:
    """Write the rules that are not switched off; return how many could not be.

    A rule and its mirror image are one line. Labels that the format cannot tell from variables or
    from its own marks keep a rule out.
    """
    reader = _LineReader(graph)
    lines: dict[str, str] = {}
    absent = 0
    for place in np.flatnonzero(rules.active).tolist():
        rule = rules[place]
        if rule.tail == NONE and rule.relation & 1:
            rule = mirrored(rule) or rule
        text = rule_line(graph, rule)
        labels = _labels(graph, rule)
        if any(map(_UNWRITABLE.search, labels)) or (
            any(map(_DOUBTFUL.search, labels)) and reader.rule(text) != _what(rule)
        ):
            absent += 1
            continue
        confidence = str(np.float32(rule.confidence))
        counts = f"{rule.groundings}\t{rule.support}\t{confidence}"
        lines.setdefault(text, f"{counts}\t{text}\n")
    disk.write_text(Path(path), "".join(lines.values()))
    return absent


def rule_line(graph: Graph, rule: Rule) -> str:
    """A rule as AnyBURL writes it.

    >>> graph = Graph.of([("France", "borders", "Spain")])
    >>> rule_line(graph, Rule((0, 1), 0)), rule_line(graph, Rule((0,), 1, tail=1))
    ('borders(X,Y) <= borders(X,A), borders(Y,A)', 'borders(Spain,Y) <= borders(Y,A)')
    """
    entities = graph.entities
    first, last = "X", "Y"
    if rule.tail != NONE:
        last = entities[rule.tail]
        first = "Y" if rule.relation & 1 else "X"
    inner = _INNER[: len(rule.body) - 1]
    if rule.tail == NONE:
        end = last
    elif rule.end == NONE:
        end = _INNER[len(inner)]
    else:
        end = entities[rule.end]
    path = [first, *inner, end]
    steps = zip(rule.body, path, path[1:], strict=False)
    body = ", ".join(_atom(graph, *step) for step in steps)
    return f"{_atom(graph, rule.relation, first, last)}{_ARROW}{body}"


def _atom(graph: Graph, relation: int, left: str, right: str) -> str:
    ends = f"{right},{left}" if relation & 1 else f"{left},{right}"
    return f"{graph.relations[relation & ~1]}({ends})"


def _labels(graph: Graph, rule: Rule) -> list[str]:
    entities = [graph.entities[each] for each in (rule.end, rule.tail) if each != NONE]
    return [*entities, *(graph.relations[each & ~1] for each in (*rule.body, rule.relation))]


def _what(rule: Rule) -> Rule:
    """What a rule says, without its counts."""
    return Rule(*rule[:4])


def _counts(columns: list[str]) -> tuple[int, int, float] | None:
    """Predictions, support and confidence of a line; None where they are no such numbers."""
    try:
        predictions, support = int(columns[0]), int(columns[1])
        confidence = float(columns[2])
    except (ValueError, IndexError):
        return None
    sound = 0 <= support <= predictions < 2**31 and 0 <= confidence <= 1
    return (predictions, support, confidence) if sound and len(columns) == 4 else None


class _LineReader:
    """Reads rules whose labels may hold any of the marks of the format."""

    def __init__(self, graph: Graph) -> None:
        self.graph = graph

    def rule(self, text: str) -> Rule | str:
        """The rule of a line, or why it is none of ours."""
        unknown = "labels that the graph does not have"
        reason = ""
        if len(text) > _LONGEST_LINE:
            return f"lines of more than {_LONGEST_LINE:,} characters"
        for head, body in self._readings(text):
            rule = self._rule(head, body)
            if isinstance(rule, Rule):
                return rule
            reason = reason or rule
        if reason:
            return reason
        simple = _simple_reading(text)
        if simple is None:
            return "lines of another form"
        return "bodies of no atom or of more than three" if not 0 < simple <= LONGEST else unknown

    def _readings(self, text: str) -> Iterator[tuple[RuleAtom, list[RuleAtom]]]:
        """The ways to read a line so that all labels are known."""
        for head, rest in self._atoms(text):
            if rest.startswith(_ARROW):
                for body in self._bodies(rest[len(_ARROW) :], LONGEST):
                    yield head, body

    def _bodies(self, text: str, most: int) -> Iterator[list[RuleAtom]]:
        for atom, rest in self._atoms(text) if most else ():
            if not rest.strip():
                yield [atom]
            elif rest.startswith(","):
                for more in self._bodies(rest[1:].removeprefix(" "), most - 1):
                    yield [atom, *more]

    def _atoms(self, text: str) -> Iterator[tuple[RuleAtom, str]]:
        """The atoms that a text may begin with, and what follows each."""
        for bracket in _places("(", text):
            relation = text[:bracket]
            if relation not in self.graph.relations:
                continue
            for comma in _places(",", text, bracket + 1):
                left = text[bracket + 1 : comma]
                if not self._is_term(left):
                    continue
                for end in _places(")", text, comma + 1):
                    if self._is_term(right := text[comma + 1 : end]):
                        yield RuleAtom(relation, left, right), text[end + 1 :]

    def _is_term(self, text: str) -> bool:
        return _VARIABLE.fullmatch(text) is not None or text in self.graph.entities

    def _rule(self, head: RuleAtom, body: list[RuleAtom]) -> Rule | str:
        """The rule of some atoms, or why it is none of ours."""
        left, right = (_VARIABLE.fullmatch(each) is not None for each in head[1:])
        relation = self._relation(head)
        if not (left or right):
            return "heads about two constants"
        if head.left == head.right:
            return "heads about one thing twice"
        start, last = head[1:]
        if not left:
            start, last = last, start
            relation ^= 1
        remaining = list(body)
        at = start
        passed = {start}
        path: list[int] = []
        while remaining:
            onward = [atom for atom in remaining if at in atom[1:] and atom.left != atom.right]
            if len(onward) != 1 or (path and not _VARIABLE.fullmatch(at)):
                return "bodies that are no path from the head's variable"
            remaining.remove(onward[0])
            forward = onward[0].left == at
            at = onward[0].right if forward else onward[0].left
            path.append(self._relation(onward[0]) ^ (not forward))
            if at in passed:
                return "bodies that are no path from the head's variable"
            passed.add(at)
        is_constant = _VARIABLE.fullmatch(at) is None
        if left and right:
            if at != last:
                return "bodies that do not end in the head's last variable"
            rule = Rule(tuple(path), relation)
        else:
            entities = self.graph.entities
            end = entities.id(at) if is_constant else NONE
            rule = Rule(tuple(path), relation, end, entities.id(last))
        if rule.body == (relation,) and rule.end == rule.tail:
            return "rules that imply themselves"
        return rule

    def _relation(self, atom: RuleAtom) -> int:
        return self.graph.relations.id(atom.relation)


def _places(mark: str, text: str, start: int = 0) -> Iterator[int]:
    at = text.find(mark, start)
    while at >= 0:
        yield at
        at = text.find(mark, at + 1)


def _simple_reading(text: str) -> int | None:
    """How many atoms the body of a plain line has; None where it is no rule."""
    plain = r"[^\s(),]+\([^(),]+,[^(),]+\)"
    if re.fullmatch(rf"{plain}\s*<=\s*", text):
        return 0
    if re.fullmatch(rf"{plain}\s*<=\s*{plain}(, {plain})*\s*", text) is None:
        return None
    return len(re.findall(plain, text)) - 1
