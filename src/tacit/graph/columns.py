"""Which column of a table is head, relation and tail: told by the user, by a header, or doubted by what is in them."""

from __future__ import annotations

import re
from collections.abc import Sequence

from tacit.errors import SettingsError
from tacit.graph.delimited import COLUMNS

Order = tuple[int, int, int]  # the positions of head, relation and tail
USUAL: Order = (0, 1, 2)
ENOUGH = 100  # lines to judge columns by
FEWER = 5  # times fewer distinct values than the relations are far fewer
SHARED = 0.1  # of the relations that are entities, too, are too many
_WORDS = {
    "head": "head h subject subj s source src from start node1 entity1 arg1",
    "relation": "relation rel r relationship predicate pred p property type edge label link interaction",
    "tail": "tail t object obj o target tgt dst dest destination to end node2 entity2 arg2",
}
_ROLES = {word: role for role, words in _WORDS.items() for word in words.split()}
_TELLING = ("relation", "relationship", "predicate")  # hardly the label of anything
_NEO4J = re.compile(r":(START_ID|END_ID|TYPE)\b.*")


def column_order(columns: str) -> Order:
    """The order that names in the order of the file give, or the positions of head, relation and tail.

    >>> column_order("head,tail,relation"), column_order("subject object predicate"), column_order("2,3,1")
    ((0, 2, 1), (0, 2, 1), (1, 2, 0))
    """
    words = re.split(r"[,\s]+", columns.strip())
    if sorted(words) == ["1", "2", "3"]:
        head, relation, tail = (int(word) - 1 for word in words)
        return head, relation, tail
    order = header_order(words)
    if order is None:
        raise SettingsError(
            f"columns '{columns}' must name the three columns, as in 'head,tail,relation', "
            "or give the positions of head, relation and tail, as in '1,3,2'",
            "columns",
        )
    return order


def header_order(words: Sequence[str]) -> Order | None:
    """The order that a header gives: three words, one for each role; None where it is none.

    >>> header_order([":START_ID(Person)", ":END_ID", ":TYPE"]), header_order(["France", "type", "country"])
    ((0, 2, 1), None)
    """
    roles = [_role(word) for word in words]
    if sorted(map(str, roles)) != sorted(COLUMNS):
        return None
    return roles.index("head"), roles.index("relation"), roles.index("tail")


def is_half_a_header(fields: Sequence[str]) -> bool:
    """Whether the first line of a table (three fields a line) looks like a header, though not of which columns.

    Two of its words, or one that is hardly a label, name columns; and none of the three is in its column again.
    """
    first = fields[:3]
    words = [word for word in first if len(word) > 1 and _role(word)]
    telling = [word for word in first if word.lower() in _TELLING or _NEO4J.fullmatch(word)]
    return (len(words) > 1 or bool(telling)) and not any(word in fields[i + 3 :: 3] for i, word in enumerate(first))


def _role(word: str) -> str | None:
    """What a word of a header stands for: `source_id`, `Head entity` and `:START_ID(City)` for the head."""
    plain = re.sub(r"\(.*\)|[\W_]", "", word.casefold())
    return _ROLES.get(plain) or _ROLES.get(re.sub(r"(?<=.)(id|uri|iri|name|label|entity|node|type)$", "", plain))
