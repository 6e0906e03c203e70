"""Changes of a set of rules that a person makes: own rules, and rules that are off."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace

import numpy as np

from tacit.errors import RunError
from tacit.graph.fact_index import Flags, Ints
from tacit.links.rules.rule_set import NONE, OFF, WRITTEN, Rule, RuleSet


def mirrored(rule: Rule) -> Rule | None:
    """The rule of the inverse relation that says the same; None for a head with a constant.

    >>> mirrored(Rule((0, 4), 6))[:2]
    ((5, 1), 7)
    """
    if rule.tail != NONE:
        return None
    body = tuple(relation ^ 1 for relation in reversed(rule.body))
    return rule._replace(body=body, relation=rule.relation ^ 1)


def forms(rule: Rule) -> list[Rule]:
    """The rules of a statement: a rule, and its mirror image where it has one."""
    other = mirrored(rule)
    return [rule] if other is None else [rule, other]


def same_statement(rules: RuleSet, rule: Rule) -> Ints:
    """The ids of the rules that say what a rule says, in either direction."""
    same = np.zeros(len(rules), dtype=bool)
    for form in forms(rule):
        same |= _same_form(rules, form)
    return np.flatnonzero(same)


def _same_form(rules: RuleSet, rule: Rule) -> Flags:
    heads = (rules.relation == rule.relation) & (rules.tail == rule.tail)
    places = np.flatnonzero(heads & (rules.end == rule.end))
    body = np.full(rules.body.shape[1], NONE)
    body[: len(rule.body)] = rule.body
    same = np.zeros(len(rules), dtype=bool)
    same[places[(rules.body[places] == body).all(axis=1)]] = True
    return same


def first_forms(rules: RuleSet, places: Ints) -> Ints:
    """Leave out rules whose mirror image is before them among the rules at some places."""
    closed = rules.tail[places] == NONE
    seen = set[bytes]()
    first = np.ones(len(places), dtype=bool)
    for at in np.flatnonzero(closed).tolist():
        rule = rules[int(places[at])]
        key = min(np.array([*form.body, NONE, form.relation]).tobytes() for form in forms(rule))
        key += bytes([rule.written])
        first[at] = key not in seen
        seen.add(key)
    return places[first]


def with_rule(rules: RuleSet, rule: Rule) -> RuleSet:
    """Add a written rule in both directions; mined ones that say the same are switched off."""
    same = same_statement(rules, rule)
    for place in same.tolist():
        if rules.flags[place] & WRITTEN:
            raise RunError(
                f"rule {place} says so already; drop it first, if its confidence is another"
            )
    return _flagged(rules, same, OFF, on=False).joined(RuleSet.of(forms(rule)))


def without_rules(rules: RuleSet, ids: Sequence[int]) -> RuleSet:
    """Drop written rules; mined ones that say the same are switched on again."""
    check_ids(rules, ids)
    dropped = np.zeros(len(rules), dtype=bool)
    for place in ids:
        rule = rules[place]
        if not rule.written:
            raise RunError(
                f"rule {place} was not written by a person, and cannot be dropped; switch it off"
            )
        same = same_statement(rules, rule)
        written = (rules.flags[same] & WRITTEN) != 0
        dropped[same[written]] = True
        rules = _flagged(rules, same[~written], OFF, on=True)
    return rules.take(~dropped)


def switched(rules: RuleSet, off: Sequence[int] = (), on: Sequence[int] = ()) -> RuleSet:
    """Switch rules off and on, in both directions.

    Of mined rules and a written one that says the same, only the latter is switched on.
    """
    check_ids(rules, (*off, *on))
    for ids, is_on in ((off, False), (on, True)):
        for place in ids:
            same = same_statement(rules, rules[place])
            written = same[(rules.flags[same] & WRITTEN) != 0]
            places = written if is_on and len(written) else same
            rules = _flagged(rules, places, OFF, on=is_on)
    return rules


def with_own(mined: RuleSet, own: RuleSet) -> RuleSet:
    """Mined rules, and those that a person wrote or imported before they were mined."""
    written = (own.flags & WRITTEN) != 0
    for place in np.flatnonzero(written).tolist():
        mined = _flagged(mined, same_statement(mined, own[place]), OFF, on=False)
    return with_others(mined.joined(own.take(written)), own.take(~written))[0]


def with_others(rules: RuleSet, others: RuleSet) -> tuple[RuleSet, int]:
    """Add rules that are not among some already; return how many those are, too."""
    known = {rules[place][:4] for place in range(len(rules))}
    fresh = [place for place in range(len(others)) if others[place][:4] not in known]
    return rules.joined(others.take(np.array(fresh, dtype=np.int64))), len(fresh)


def check_ids(rules: RuleSet, ids: Iterable[int]) -> None:
    """Raise a `RunError` for an id that no rule has."""
    for place in ids:
        if isinstance(place, bool) or not isinstance(place, int | np.integer):
            raise RunError(f"a rule is given by its id, a whole number, not {place!r}")
        if not 0 <= place < len(rules):
            last = f"ids go from 0 to {len(rules) - 1:,}" if len(rules) else "there are no rules"
            raise RunError(f"there is no rule {place}; {last}")


def _flagged(rules: RuleSet, places: Ints, flag: int, on: bool) -> RuleSet:
    """Clear a flag of some rules if they are `on`, else set it."""
    flags = rules.flags.copy()
    flags[places] = flags[places] & ~np.uint8(flag) if on else flags[places] | np.uint8(flag)
    return replace(rules, flags=flags)
