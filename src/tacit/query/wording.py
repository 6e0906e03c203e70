"""Questions in words: as sentences, for every outline and any relation labels."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import lru_cache
from itertools import groupby

from tacit.query.outline import Conditions, Part, Statement, ValueCondition
from tacit.query.value_words import value_predicate

_JOINTS = re.compile(r"[\s_\-.]+|(?<=[a-z0-9])(?=[A-Z])")
_PREPOSITIONS = {
    "of", "in", "by", "for", "from", "to", "at", "on", "with", "near", "under", "over",
    "into", "as",
}  # fmt: skip
_CACHED = 4096  # relations whose wording is kept
_LONGEST = 14  # letters of one word; a longer one is several without a space
_NO_VERBS = {
    "alias",
    "species",
    "series",
    "news",
    "status",
    "bus",
    "gas",
    "address",
    "class",
    "process",
    "business",
}
# past tenses of what the subject does itself: it is not "died in" a place
_INTRANSITIVE = {
    "arrived": "arrive", "belonged": "belong", "competed": "compete", "died": "die",
    "graduated": "graduate", "lived": "live", "participated": "participate", "played": "play",
    "resided": "reside", "served": "serve", "studied": "study", "worked": "work",
}  # fmt: skip
# words without an article
_BARE = re.compile(
    r"(?:\w+(?:ed|en|rn)|held|found|made|built|set|sung|cast|known|adjacent|next|close|similar)"
)
# openings that need a comma before what follows
_OPEN = re.compile(r"\bthat\b|^(?:either|both|at once)\b")


@dataclass(frozen=True)
class Words:
    """The wording of a relation's label: a `verb`, a state (`being`), a `place`, or a `noun`.

    Verbs are borders, plays for, and uses with the noun currency; capital of is a state; in
    continent is a place.
    """

    kind: str
    verb: str = ""
    noun: str = ""

    @property
    def plain(self) -> str:
        """The verb without its third-person ending."""
        first, _, remainder = self.verb.partition(" ")
        if first == "has":
            first = "have"
        elif first in _INTRANSITIVE:
            first = _INTRANSITIVE[first]
        elif re.search(r"(?:ss|sh|ch|x|zz|o)es$", first):
            first = first[:-2]
        elif first.endswith("ies") and len(first) > 4:  # carries, but not lies
            first = f"{first[:-3]}y"
        else:
            first = first[:-1]
        return f"{first} {remainder}".strip()

    @property
    def leads(self) -> bool:
        """Whether the relation's object can be called something of its subject."""
        return self.kind in ("noun", "place")


def in_words(label: str) -> str:
    """A relation's label in words: no namespace, split at underscores and capitals.

    >>> in_words("capital_of"), in_words("concept:athletePlaysFor")
    ('capital of', 'athlete plays for')
    >>> in_words("/people/person/nationality")
    'nationality'
    """
    last = re.split(r"[/#:]", label.strip("<>/#: "))[-1] or label
    return " ".join(word for word in _JOINTS.split(last) if word).lower() or label


def sentence(question: Conditions) -> str:
    """Words a question as a sentence, by the names in its conditions.

    >>> from tacit.query.outline import outline
    >>> from tacit.query.text import parse
    >>> print(sentence(outline(parse("?c : borders(?c, Brazil) & !speaks(?c, Spanish)"))))
    What borders Brazil but does not speak Spanish?
    >>> print(sentence(outline(parse("?c : capital(France, ?c)"))))
    What is the capital of France?
    >>> print(sentence(outline(parse("?c : eats(Tom, ?c)"))))
    What does Tom eat?
    """
    if not question.parts:
        return "What is there?"
    if (step := _lone_clause(question)) is not None:
        return f"What {_inverse_question(step)}?"
    return f"What {_predicates(question)}?"


@lru_cache(_CACHED)
def words_of(relation: str) -> Words:
    """The wording of a relation's label.

    >>> words_of("uses_currency")
    Words(kind='verb', verb='uses', noun='currency')
    >>> words_of("in_continent").kind, words_of("capital_of").kind, words_of("has_timezone")
    ('place', 'being', Words(kind='noun', verb='', noun='timezone'))
    """
    words = in_words(relation)
    first, _, remainder = words.partition(" ")
    if first in ("is", "was") and remainder:
        return Words("being", remainder)
    if first == "has" and remainder:
        return Words("noun", noun=remainder)
    if first in _PREPOSITIONS and remainder:
        return Words("place", first, remainder)
    if re.fullmatch(r"[a-z]+[^s\W]s", first) and len(first) <= _LONGEST and first not in _NO_VERBS:
        apart = remainder and remainder.split(" ")[0] not in _PREPOSITIONS
        return Words("verb", first, remainder) if apart else Words("verb", words)
    if remainder and words.split(" ")[-1] in _PREPOSITIONS:
        if first in _INTRANSITIVE:
            return Words("verb", words)
        # of "athlete plays for", what the athlete does
        clause = re.search(r" ([a-z]+[^s\W]s [a-z]+)$", words)
        if clause:
            return Words("verb", clause[1])
        return Words("being", words if _BARE.match(first) else f"{_article(first)} {words}")
    return Words(
        "noun", noun=words if all(len(word) <= _LONGEST for word in words.split()) else f"“{words}”"
    )


def fact_in_words(relation: str, subject: str, other: str) -> str:
    """Words a fact by the names in it.

    >>> fact_in_words("borders", "France", "Spain"), fact_in_words("capital", "France", "Paris")
    ('France borders Spain', 'France has Paris as its capital')
    """
    return f"{subject} {_predicate(Statement(relation, other))}"


def infinitive(step: Statement) -> str:
    """Words a statement about several things, after "to".

    >>> infinitive(Statement("speaks", "German")), infinitive(Statement("currency", "Euro"))
    ('speak German', 'have Euro as their currency')
    """
    words = words_of(step.relation)
    other = _object_phrase(step)
    if step.inverse:
        return f"be {words.noun} of {other}" if words.leads else f"be what {_clause(step)}"
    if words.kind == "noun":
        return f"have {other} as their {words.noun}"
    noun = f" {words.noun}" * bool(words.noun)
    if words.kind == "verb":
        return f"{words.plain}{noun} {other}"
    return f"be {words.verb}{noun} {other}"


def _article(word: str) -> str:
    return "an" if word[:1] in "aeio" else "a"


def _can_be_subject(step: Statement) -> bool:
    """Whether the thing in question can be the subject of a statement's sentence."""
    return not step.inverse or words_of(step.relation).leads


def _lone_clause(group: Conditions) -> Statement | None:
    """The only statement of a group, where its subject is the other end."""
    if len(group.parts) == 1 and isinstance(step := group.parts[0], Statement):
        return None if _can_be_subject(step) else step
    return None


def _inverse_question(step: Statement) -> str:
    """The predicate of a question for the object of a single statement."""
    words = words_of(step.relation)
    other = _object_phrase(step)
    negated = "not " * step.denied
    if words.kind == "verb":
        return f"{words.noun} does {other} {negated}{words.plain}".strip()
    return f"is {other} {negated}{words.verb}"


def _predicate(part: Part) -> str:
    """Words a statement about a thing, as the predicate of a sentence."""
    if isinstance(part, Conditions):
        return "is nothing that " * part.denied + _grouped(part)
    if isinstance(part, ValueCondition):
        return _value_predicate([part])
    words = words_of(part.relation)
    other = _object_phrase(part)
    negated = part.denied
    if not part.relation:
        return f"is {'not ' * negated}{other}"
    if part.inverse:
        if words.leads:
            return f"is {'not ' * negated}the {words.noun} of {other}"
        what = "nothing" if negated else "something"
        if words.noun:
            what = f"{'no' if negated else _article(words.noun)} {words.noun}"
        return f"is {what} that {_clause(part)}"
    noun = f" {words.noun}" if words.noun and isinstance(part.other, str) else ""
    match words.kind:
        case "noun":
            return f"{'does not have' if negated else 'has'} {other} as its {words.noun}"
        case "verb":
            return (
                f"does not {words.plain}{noun} {other}"
                if negated
                else f"{words.verb}{noun} {other}"
            )
    return f"is {'not ' * negated}{words.verb}{noun} {other}"


def _value_predicate(parts: Sequence[ValueCondition]) -> str:
    """Words comparisons of one value."""
    others = [in_words(part.other.attribute) if part.other else "" for part in parts]
    return value_predicate(parts, in_words(parts[0].attribute), others)


def _predicate_texts(parts: Iterable[Part], join: str) -> list[str]:
    """Words parts in their order; what must hold of one value is said at once."""

    def value(part: Part) -> object:
        is_limit = isinstance(part, ValueCondition) and join == "and" and not part.denied
        return part.attribute if is_limit else id(part)  # type: ignore[union-attr]

    texts = []
    for _, grouped in groupby(parts, key=value):
        same = list(grouped)
        limits = [part for part in same if isinstance(part, ValueCondition)]
        texts.append(_value_predicate(limits) if limits else _predicate(same[0]))
    return texts


def _clause(step: Statement) -> str:
    """Words a clause with the other end as its subject: "Brazil borders"."""
    words = words_of(step.relation)
    return f"{_object_phrase(step)} {'is ' * (words.kind == 'being')}{words.verb}"


def _object_phrase(step: Statement) -> str:
    """The other end of a relation."""
    if isinstance(step.other, str):
        return step.other
    if not step.other.parts:
        return "something"
    clause = _lone_clause(step.other)
    if clause is not None and not clause.denied:
        return f"something that {_clause(clause)}"
    return f"something that {_grouped(step.other)}"


def _predicates(group: Conditions) -> str:
    """Words all statements about the thing in question, negated ones last."""
    if group.join == "or":
        return _listing(_predicate_texts(group.parts, "or"), "or")
    listings = [
        _listing(_predicate_texts(parts, "and"), "and")
        for _, parts in groupby(_ordered(group), key=lambda part: part.denied)
    ]
    return f"{',' * bool(_OPEN.search(listings[0]))} but ".join(listings)


def _grouped(group: Conditions) -> str:
    """Words a group inside a sentence, opened by a word that keeps it apart."""
    parts = _predicate_texts(_ordered(group), group.join)
    if len(parts) == 1:
        return parts[0]
    if group.join == "or":
        return f"either {_listing(parts, 'or')}"
    return f"{'both' if len(parts) == 2 else 'at once'} {_listing(parts, 'and')}"


def _ordered(group: Conditions) -> list[Part]:
    """Orders a group: predicates of the thing first, then clauses, negations last."""

    def clauses(part: Part) -> int:
        if isinstance(part, Conditions):
            return 3
        if isinstance(part, ValueCondition):
            return 0
        return 2 if isinstance(part.other, Conditions) else int(not _can_be_subject(part))

    return sorted(group.parts, key=lambda part: (part.denied, clauses(part)))


def _listing(parts: Sequence[str], word: str) -> str:
    before = ", ".join(parts[:-1])
    return f"{before}{',' * bool(_OPEN.search(before))} {word} {parts[-1]}" if before else parts[0]
