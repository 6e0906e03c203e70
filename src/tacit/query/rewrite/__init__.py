"""Rules that rewrite a formula into another with the same Boolean answers.

They are steps of ordinary logic. A fuzzy value need not survive them (under the product, `x ⊤ x` is not `x`), so plans
never use them on their own; whoever asks a question may.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace

from tacit.query.formula import Formula, Query
from tacit.query.rewrite.clauses import disjunctive_normal_form
from tacit.query.rewrite.negation import negation_normal_form
from tacit.query.rewrite.parallel import merge_parallel_atoms
from tacit.query.rewrite.quantifiers import narrow_quantifiers

Rule = Callable[[Formula], Formula]

RULES: tuple[Rule, ...] = (
    negation_normal_form,
    narrow_quantifiers,
    merge_parallel_atoms,
    disjunctive_normal_form,
)


def rewrite(query: Query, rules: Sequence[Rule] = RULES) -> Query:
    """The query after each of the rules in turn.

    >>> from tacit.query.text import parse
    >>> rewrite(parse("?t : !(!p(a, ?t) & !q(b, ?t)) & r(c, ?t)"))
    <?t : p(a, ?t) & r(c, ?t) | q(b, ?t) & r(c, ?t)>
    """
    formula = query.formula
    for rule in rules:
        formula = rule(formula)
    return replace(query, formula=formula)


__all__ = [
    "RULES",
    "Rule",
    "disjunctive_normal_form",
    "merge_parallel_atoms",
    "narrow_quantifiers",
    "negation_normal_form",
    "rewrite",
]
