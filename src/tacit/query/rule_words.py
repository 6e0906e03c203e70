"""Rules in words and as formulas, and what their counts say."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

from tacit.graph.graph import Graph
from tacit.query.formula import quoted
from tacit.query.outline import Statement
from tacit.query.wording import fact_in_words, infinitive

# Imported for types alone, since the arrays of rules are torch's.
if TYPE_CHECKING:
    from tacit.links.rules.rule_set import Rule

_VARIABLES = ("x", "z", "w")  # along a body, but for its end


def rule_formula(graph: Graph, rule: Rule) -> str:
    """A rule as people write it: `borders(?x, ?z) & in_continent(?z, ?y) => in_continent(?x, ?y)`.

    Relations are written forward and labels as questions quote them; `?_` is anything. Variables
    stand for different entities, none of which the rule names. A rule and its mirror image, which
    implies the inverse relation, are written alike.
    """

    def atom(relation: int, start: str, end: str) -> str:
        ends = f"{end}, {start}" if relation % 2 else f"{start}, {end}"
        return f"{quoted(graph.relations[relation & ~1])}({ends})"

    *body, head = _atoms(rule, "?{}".format, "?_", lambda i: quoted(graph.entities[i]))
    return f"{' & '.join(atom(*each) for each in body)} => {atom(*head)}"


def named_rule(graph: Graph, rule: Rule, id: int) -> str:
    """A rule as errors name it: by its id and formula."""
    return f"rule {id}, {rule_formula(graph, rule)},"


def rule_in_words(graph: Graph, rule: Rule) -> str:
    """A rule as a sentence: "if X borders Z, and Z speaks Y, then X speaks Y"."""
    *body, head = _atoms(rule, str.upper, "something", graph.entities.name)
    clauses = listed([_clause(graph, *each) for each in body])
    return f"if {clauses}, then {_clause(graph, *head)}"


def path_in_words(graph: Graph, rule: Rule, path: Sequence[int]) -> str:
    """The facts of a body along a path of entities: "Estonia borders Latvia, and Latvia …"."""
    rule, path = read_forward(rule, path)
    names = [graph.entities.name(entity) for entity in path]
    clauses = [_clause(graph, *step) for step in zip(rule.body, names, names[1:], strict=False)]
    if rule.tail >= 0 and rule.end < 0:
        any_end = _clause(graph, rule.body[-1], names[-2], "something")
        clauses[-1] = f"{any_end}, such as {names[-1]}"
    return listed(clauses)


def statistic_in_words(graph: Graph, rule: Rule) -> str:
    """How often a rule held: "speaks is known for 61 of 214 such pairs"; empty if not counted."""
    if not rule.groundings:
        return ""
    about = "" if rule.exact else "about "
    support = f"{about}{rule.support:,}"
    total = f"{about}{rule.groundings:,} such"
    relation = relation_name(graph, rule.relation)
    if rule.tail < 0:
        return f"{relation} is known for {support} of {total} pairs"
    head = Statement(relation, graph.entities.name(rule.tail), bool(rule.relation % 2))
    verb = "is" if rule.support == 1 else "are"
    return f"{support} of {total} entities {verb} known to {infinitive(head)}"


def relation_name(graph: Graph, relation: int) -> str:
    """The readable name of a relation as stored, or its label where others share the name."""
    forward = relation & ~1
    name = graph.relations.name(forward)
    return name if graph.relations.resolve(name) == [forward] else graph.relations[forward]


def read_forward(rule: Rule, path: Sequence[int] = ()) -> tuple[Rule, Sequence[int]]:
    """A rule that implies pairs, and a path of its body, from the subject of its head on."""
    if rule.tail >= 0 or rule.relation % 2 == 0:
        return rule, path
    body = tuple(relation ^ 1 for relation in reversed(rule.body))
    return rule._replace(body=body, relation=rule.relation ^ 1), path[::-1]


def listed(clauses: Sequence[str]) -> str:
    """Clauses as one, each of which may have an *and* or a comma of its own."""
    return ", and ".join(clauses)


def _atoms(
    rule: Rule, variable: Callable[[str], str], anything: str, constant: Callable[[int], str]
) -> list[tuple[int, str, str]]:
    """The body of a rule and then its head, each as a directed relation with both of its ends."""
    rule, _ = read_forward(rule)
    start = variable("x")
    if rule.tail < 0:
        end = head = variable("y")
    else:
        head = constant(rule.tail)
        end = anything if rule.end < 0 else constant(rule.end)
    nodes = [variable(name) for name in _VARIABLES[: len(rule.body)]] + [end]
    return [*zip(rule.body, nodes, nodes[1:], strict=False), (rule.relation, start, head)]


def _clause(graph: Graph, relation: int, start: str, end: str) -> str:
    """A directed relation between two ends in words, read forward."""
    ends = (end, start) if relation % 2 else (start, end)
    return fact_in_words(relation_name(graph, relation), *ends)
