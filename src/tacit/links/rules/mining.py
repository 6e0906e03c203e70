"""Mining closed rules of length 1 and 2 by plain joins."""

from __future__ import annotations

from collections import defaultdict

from tacit.fitting.progress import Progress, counting
from tacit.graph.graph import Graph
from tacit.links.rules.rule_set import PRIOR, Rule, RuleSet
from tacit.links.rules.settings import RuleSettings


def mine(
    graph: Graph, settings: RuleSettings | None = None, *, progress: Progress | bool = False
) -> RuleSet:
    """The closed rules of a graph's train facts, by relation and in falling confidence."""
    config = settings or RuleSettings()
    facts = {(int(h), int(r), int(t)) for h, r, t in graph.triples("train")}
    by_head: dict[int, list[tuple[int, int]]] = defaultdict(list)
    heads_of: dict[tuple[int, int], set[int]] = defaultdict(set)
    for head, relation, tail in facts:
        by_head[head].append((relation, tail))
        heads_of[head, tail].add(relation)
    groundings: dict[tuple[int, ...], set[tuple[int, int]]] = defaultdict(set)
    for x, p, z in facts:
        if x != z:
            groundings[(p,)].add((x, z))
        for q, y in by_head[z] if config.length > 1 else ():
            if len({x, z, y}) == 3:
                groundings[p, q].add((x, y))
    rules = []
    with counting(progress) as counts:
        tell = counts("bodies", len(groundings))
        for done, (body, pairs) in enumerate(sorted(groundings.items()), 1):
            support: dict[int, int] = defaultdict(int)
            for pair in pairs:
                for relation in heads_of.get(pair, ()):
                    support[relation] += 1
            for relation, count in support.items():
                confidence = count / (len(pairs) + PRIOR)
                if count > 1 and confidence >= 0.01 and body != (relation,):
                    rule = Rule(body, relation, support=count, groundings=len(pairs))
                    rules.append(rule._replace(confidence=confidence))
            tell(done)
    rules.sort(key=lambda rule: (rule.relation, -rule.confidence, rule.body))
    return RuleSet.of(rules)
