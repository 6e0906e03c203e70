"""Comparisons of values and the order of answers, in words."""

from __future__ import annotations

import re
from collections.abc import Sequence

from tacit.graph.attributes import Attribute
from tacit.query.outline import OtherValue, ValueCondition
from tacit.query.value_text import value_text

_NUMBER_WORDS = {
    "<": "of less than", "<=": "of at most", "=": "of", ">=": "of at least", ">": "of more than"
}  # fmt: skip
_DATE_WORDS = {"<": "before", "<=": "up to", "=": "in", ">=": "from", ">": "after"}
_OTHER_WORDS = {
    "<": "below", "<=": "not above", "=": "equal to", ">=": "not below", ">": "above"
}  # fmt: skip
_OTHER_DATES = {"<": "before", "<=": "not after", "=": "equal to", ">=": "not before", ">": "after"}
# what happens to a thing, rather than what it has
_EVENT = re.compile(r"\w\w+ed|born|built|begun|sold|made")
_ORDERS = {
    "number": ("smallest first", "largest first"),
    "date": ("earliest first", "latest first"),
    "duration": ("shortest first", "longest first"),
}


def _is_event(words: str, kind: str) -> bool:
    return kind == "date" and bool(_EVENT.fullmatch(words))


def value_predicate(conditions: Sequence[ValueCondition], words: str, others: Sequence[str]) -> str:
    """Words comparisons of one value of a thing, as the predicate of a sentence.

    The words are those of the attribute, and of those that it is compared with.

    >>> from tacit.graph.quantities import Quantity
    >>> low = ValueCondition("area", ">", (Quantity(5000.0, unit="km²"),))
    >>> high = ValueCondition("area", "<=", (Quantity(9000.0, unit="km²"),))
    >>> value_predicate([low, high], "area", ["", ""])
    'has an area of more than 5,000 km² and at most 9,000 km²'
    >>> year = Quantity.parse("1950", "date")
    >>> denied = ValueCondition("founded", "<", (year,), None, True, "date")
    >>> value_predicate([denied], "founded", [""])
    'was not founded before 1950'
    """
    first = conditions[0]
    is_event = _is_event(words, first.kind)
    pairs = zip(conditions, others, strict=True)
    limits = " and ".join(filter(None, (_limits(each, other, is_event) for each, other in pairs)))
    limits = limits.replace(" and of ", " and ")
    if is_event:
        return f"was {'not ' * first.denied}{words} {limits}".rstrip()
    has = "does not have" if first.denied else "has"
    article = "an" if words[:1] in "aeio" else "a"
    return f"{has} {article} {words} {limits}".rstrip()


def _limits(condition: ValueCondition, other_words: str, is_event: bool) -> str:
    """What is said of a value; nothing where it is enough that there is one."""
    is_date = condition.kind == "date"
    if condition.other is not None:
        same = condition.other.attribute == condition.attribute
        other = _other_phrase(condition.other, other_words, same, is_event)
        if is_event and condition.operator == "=":
            return f"at the same time as {other}"
        return f"{(_OTHER_DATES if is_date else _OTHER_WORDS)[condition.operator]} {other}"
    texts = [value_text(quantity) for quantity in condition.literals]
    if len(texts) > 1:
        return f"from {texts[0]} to {texts[1]}"
    if not texts:
        return ""
    moment = condition.literals[0].precision in ("day", "second")
    if is_date and condition.operator == "=" and moment:
        return f"on {texts[0]}"
    return f"{(_DATE_WORDS if is_date else _NUMBER_WORDS)[condition.operator]} {texts[0]}"


def _other_phrase(other: OtherValue, words: str, same: bool, is_event: bool) -> str:
    """What a value is compared with: a value of the same attribute, or of another one."""
    if other.entity is None and not other.outer:
        return f"its {words}"
    owner = "the thing before" if other.entity is None else other.entity
    if same:
        return owner if is_event else f"that of {owner}"
    return f"the {words} of {owner}"


def shown_values(columns: Sequence[Attribute], order: Sequence[tuple[Attribute, bool]]) -> str:
    """Words the values that follow a question: those that are shown, and those that order it.

    Attributes have words as their names; those of the order come with whether it descends.

    >>> shown_values([Attribute("founded", "date")], [(Attribute("area"), True)])
    ', with when it was founded, by area, largest first'
    """
    shown = [
        f"when it was {each.name}" if _is_event(each.name, each.kind) else f"its {each.name}"
        for each in columns
    ]
    with_ = " and ".join(filter(None, [", ".join(shown[:-1]), *shown[-1:]]))
    keys = [f"{each.name}, {_ORDERS[each.kind][down]}" for each, down in order]
    return f", with {with_}" * bool(shown) + f", by {', then by '.join(keys)}" * bool(keys)
