"""Scores by rules against their definition in plain loops, and against SPARQL."""

from __future__ import annotations

import pickle
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from rule_oracle import FLOOR, RuleOracle, facts_of, random_facts, random_rules
from tacit.distributed.shards import Shards
from tacit.graph.fact_index import FactIndex
from tacit.links.rules import groundings, rule_joins
from tacit.links.rules.row_cache import RowCache
from tacit.links.rules.rule_scorer import RuleScorer
from tacit.links.rules.rule_set import NONE, OFF, Rule, RuleSet

SIZE = 9
DIRECTED = 6


def scorer_of(seed: int, rules: int = 60, facts: int = 25) -> tuple[RuleScorer, RuleOracle]:
    random = np.random.default_rng(seed)
    index = FactIndex(random_facts(random, SIZE, DIRECTED // 2, facts), DIRECTED)
    chosen = random_rules(random, SIZE, DIRECTED, rules)
    return RuleScorer(RuleSet.of(chosen), index, SIZE), RuleOracle(chosen, facts_of(index))


def every_row() -> tuple[np.ndarray, np.ndarray]:
    keys = np.arange(SIZE * DIRECTED)
    return keys // DIRECTED, keys % DIRECTED


def expected(oracle: RuleOracle, heads: np.ndarray, relations: np.ndarray) -> np.ndarray:
    pairs = list(zip(heads.tolist(), relations.tolist(), strict=True))
    return np.array([[oracle.score(h, r, t) for t in range(SIZE)] for h, r in pairs])


@given(st.integers(0, 10_000), st.sampled_from([0, 5, 60, 150]), st.sampled_from([0, 8, 25, 60]))
@settings(max_examples=40, deadline=None)
def test_entries_are_those_of_the_definition(seed: int, rules: int, facts: int) -> None:
    scorer, oracle = scorer_of(seed, rules, facts)
    heads, relations = every_row()
    found = scorer.entries(heads, relations)
    table = np.zeros((len(heads), SIZE))
    table[found.rows, found.tails] = found.scores
    scores = expected(oracle, heads, relations)
    np.testing.assert_array_equal(table.astype(np.float32), scores.astype(np.float32))
    places = found.rows * SIZE + found.tails
    assert (np.diff(places) > 0).all(), "sorted, and each atom once"
    assert {int(each) for each in places} >= set(np.flatnonzero(scores).tolist())


@given(st.integers(0, 10_000))
@settings(max_examples=15, deadline=None)
def test_rows_come_in_any_order_and_number(seed: int) -> None:
    scorer, oracle = scorer_of(seed)
    random = np.random.default_rng(seed)
    heads, relations = random.integers(0, SIZE, 30), random.integers(0, DIRECTED, 30)
    for _ in range(2):  # from the cache, too
        found = scorer.entries(heads, relations)
        table = np.zeros((30, SIZE))
        table[found.rows, found.tails] = found.scores
        np.testing.assert_allclose(table, expected(oracle, heads, relations), atol=1e-6)
        assert (np.diff(found.rows * SIZE + found.tails) > 0).all()


@given(st.integers(0, 10_000))
@settings(max_examples=15, deadline=None)
def test_logits_are_log_odds_of_the_definition(seed: int) -> None:
    scorer, oracle = scorer_of(seed)
    tables = oracle.tables(SIZE, DIRECTED)
    heads, relations = map(torch.from_numpy, every_row())
    torch.testing.assert_close(scorer.logits(heads, relations), tables[relations, heads])
    atoms = torch.cartesian_prod(*map(torch.arange, (SIZE, DIRECTED, SIZE)))
    atoms = atoms[torch.randperm(len(atoms), generator=torch.Generator().manual_seed(seed))]
    h, r, t = atoms.unbind(dim=1)
    torch.testing.assert_close(scorer.logits_of(h, r, t), tables[r, h, t])
    out = torch.full((len(heads), SIZE), 3.0)
    assert scorer.logits(heads, relations, out=out) is out
    torch.testing.assert_close(out, tables[relations, heads])


@pytest.mark.parametrize("held", [1, 7])
def test_parts_of_any_size_give_the_same(held: int, monkeypatch: pytest.MonkeyPatch) -> None:
    heads, relations = every_row()
    whole = [scorer_of(seed, 150)[0].entries(heads, relations) for seed in range(4)]
    monkeypatch.setattr(rule_joins, "_SPREAD", held)
    monkeypatch.setattr(rule_joins, "_PENDING", 3 * held)
    monkeypatch.setattr(rule_joins, "_LARGEST", 2**8 * SIZE * 5)  # five rows at a time
    for seed, entries in enumerate(whole):
        parts = scorer_of(seed, 150)[0].entries(heads, relations)
        for mine, other in zip(parts, entries, strict=True):
            np.testing.assert_array_equal(mine, other)


@given(st.integers(0, 10_000))
@settings(max_examples=15, deadline=None)
def test_firings_are_the_best_rules_with_their_paths(seed: int) -> None:
    scorer, oracle = scorer_of(seed, 100)
    random = np.random.default_rng(seed)
    for _ in range(40):
        h, r, t = (int(random.integers(size)) for size in (SIZE, DIRECTED, SIZE))
        best = oracle.firing(h, r, t)
        found = scorer.firings(h, r, t, top=4, paths=2)
        assert [(each.id, each.paths, each.total) for each in found] == [
            (place, paths[:2], len(paths)) for place, paths in best[:4]
        ]
        assert all(each.exact and each.rule == scorer.rules[each.id] for each in found)


def test_many_paths_are_counted_up_to_a_bound(monkeypatch: pytest.MonkeyPatch) -> None:
    """A head with 40 middles, each with a way to the tail."""
    middles = range(2, 42)
    facts = [(0, 0, m) for m in middles] + [(m, 2, 1) for m in middles]
    facts += [(t, r + 1, h) for h, r, t in facts]
    index = FactIndex(np.array(facts), 6)
    rules = RuleSet.of([Rule((0, 2), 4, confidence=0.5)])
    (firing,) = RuleScorer(rules, index, 42).firings(0, 4, 1, paths=2)
    assert (firing.paths, firing.total, firing.exact) == ([(0, 2, 1), (0, 3, 1)], 40, True)
    monkeypatch.setattr(rule_joins, "_SPREAD", 5)
    monkeypatch.setattr(groundings, "_PARTS", 2)
    facts = [(0, 0, m) for m in middles] + [(m, 2, m + 50) for m in middles]
    facts += [(m + 50, 4, 1) for m in middles]
    facts += [(1, 0, 1000 + each) for each in range(100)]  # so that it is followed from the head
    facts += [(t, r + 1, h) for h, r, t in facts]
    rules = RuleSet.of([Rule((0, 2, 4), 0, confidence=0.5)])
    (firing,) = RuleScorer(rules, FactIndex(np.array(facts), 6), 2000).firings(0, 0, 1, paths=1)
    assert firing.paths == [(0, 2, 52, 1)]
    assert firing.total == 40 if firing.exact else 1 <= firing.total < 40


def test_variables_are_distinct_and_no_constants() -> None:
    """Worked out by hand: 0 -a-> 1 -b-> 0, 1 -b-> 2, 2 -a-> 2, 0 -a-> 2."""
    a, b, c = 0, 2, 4
    facts = [(0, a, 1), (1, b, 0), (1, b, 2), (2, a, 2), (0, a, 2)]
    facts += [(t, r + 1, h) for h, r, t in facts]
    index = FactIndex(np.array(facts), 6)

    def tails(head: int, *rules: Rule) -> dict[int, float]:
        found = RuleScorer(RuleSet.of(list(rules)), index, 4).entries(
            np.array([head]), np.array([c])
        )
        return dict(zip(found.tails.tolist(), found.scores.tolist(), strict=True))

    assert tails(0, Rule((a, b), c, confidence=0.5)) == {2: 0.5}  # not back to 0
    assert tails(2, Rule((a,), c, confidence=0.5)) == {}  # a loop has no two entities
    assert tails(0, Rule((a,), c, end=1, tail=3, confidence=0.5)) == {3: 0.5}
    assert tails(0, Rule((a,), c, end=1, tail=1, confidence=0.5)) == {1: 0.5}  # constants may equal
    assert tails(0, Rule((a,), c, end=1, tail=0, confidence=0.5)) == {}  # x is the constant
    assert tails(0, Rule((a,), c, tail=1, confidence=0.5)) == {1: 0.5}  # by 2, not by 1 itself
    assert tails(1, Rule((b,), c, tail=2, confidence=0.5)) == {2: 0.5}  # by 0
    assert tails(1, Rule((b,), c, tail=2, confidence=0.5, flags=OFF)) == {}
    assert tails(0, Rule((a, b), c, end=2, tail=1, confidence=0.5)) == {}  # by way of 1 alone
    # three ways, of which the best counts whole, the next half and the last a quarter
    three = [Rule((a,), c, end=e, tail=3, confidence=x) for e, x in ((1, 0.4), (2, 0.8))]
    three += [Rule((a,), c, tail=3, confidence=0.2), Rule((a,), c, tail=3, confidence=0.1)]
    assert tails(0, *three) == {3: pytest.approx(1 - 0.2 * 0.76 * 0.928 * 0.9784)}


def test_a_rule_is_counted_once_however_many_paths_it_has() -> None:
    facts = [(0, 0, m) for m in (1, 2, 3)] + [(m, 2, 4) for m in (1, 2, 3)]
    facts += [(t, r + 1, h) for h, r, t in facts]
    rules = RuleSet.of([Rule((0, 2), 4, confidence=0.5)])
    scorer = RuleScorer(rules, FactIndex(np.array(facts), 6), 5)
    assert scorer.entries(np.array([0]), np.array([4])).scores.tolist() == [0.5]
    assert scorer.firings(0, 4, 4)[0].total == 3


def test_pickled_scorers_and_threads_give_the_same() -> None:
    scorer, _ = scorer_of(3)
    heads, relations = every_row()
    whole = scorer.entries(heads, relations)
    copy = pickle.loads(pickle.dumps(scorer))
    assert len(scorer._rows)
    assert not len(copy._rows)
    with ThreadPoolExecutor(8) as pool:
        found = list(pool.map(lambda _: copy.entries(heads, relations), range(40)))
    for entries in found:
        for mine, other in zip(entries, whole, strict=True):
            np.testing.assert_array_equal(mine, other)


def test_shares_of_entities_make_up_the_rows() -> None:
    scorer, _ = scorer_of(4)
    heads, relations = map(torch.from_numpy, every_row())
    parts = [
        RuleScorer(scorer.rules, scorer.index, SIZE, shards=Shards(SIZE, rank, 2)).logits(
            heads, relations
        )
        for rank in range(2)
    ]
    torch.testing.assert_close(torch.cat(parts, dim=1), scorer.logits(heads, relations))


def test_the_cache_holds_the_rows_used_last_within_its_size() -> None:
    cache = RowCache(1000)
    row = np.arange(34), np.zeros(34, dtype=np.float32)
    for key in range(100):
        cache.add(key, row)
        cache.rows([0])  # which is used all along
    assert cache.rows([0])[0] is row
    assert cache.rows([99])[0] is row
    assert cache.rows([50]) == [None]
    assert len(cache) * 34 <= 1000
    cache.add(7, (np.arange(600), np.zeros(600, dtype=np.float32)))
    assert cache.rows([7]) == [None]


def test_no_rules_and_no_facts_give_the_floor() -> None:
    empty = FactIndex(np.zeros((0, 3), dtype=np.int64), DIRECTED)
    scorer = RuleScorer(RuleSet.of([]), empty, SIZE)
    heads, relations = map(torch.from_numpy, every_row())
    assert bool((scorer.logits(heads, relations) == FLOOR).all())
    assert bool((scorer.logits_of(heads, relations, heads) == FLOOR).all())
    assert scorer.firings(0, 0, 1) == []
    assert len(scorer.entries(np.zeros(0, dtype=int), np.zeros(0, dtype=int)).rows) == 0


@given(st.integers(0, 10_000))
@settings(max_examples=20, deadline=None)
def test_the_tails_of_a_rule_are_those_of_a_sparql_query(seed: int) -> None:
    pyoxigraph = pytest.importorskip("pyoxigraph")
    random = np.random.default_rng(seed)
    triples = random_facts(random, SIZE, DIRECTED // 2, 30)
    store = pyoxigraph.Store()

    def node(kind: str, number: int) -> pyoxigraph.NamedNode:
        return pyoxigraph.NamedNode(f"x:{kind}{number}")

    for h, r, t in triples.tolist():
        store.add(pyoxigraph.Quad(node("e", h), node("r", r), node("e", t)))
    (rule,) = random_rules(random, SIZE, DIRECTED, 1)
    rule = rule._replace(flags=0, confidence=0.5)
    length = len(rule.body)
    last = f"<x:e{rule.end}>" if rule.end != NONE else f"?v{length}"
    names = [*(f"?v{place}" for place in range(length)), last]
    body = " . ".join(
        f"{s} <x:r{p}> {o}" for s, p, o in zip(names, rule.body, names[1:], strict=False)
    )
    variables = [name for name in names if name.startswith("?")]
    constants = [f"<x:e{each}>" for each in (rule.end, rule.tail) if each != NONE]
    pairs = [(v, w) for place, v in enumerate(variables) for w in variables[:place]]
    pairs += [(v, c) for v in variables for c in constants]
    filters = " && ".join(f"{v} != {w}" for v, w in pairs) or "true"
    tail = f"<x:e{rule.tail}>" if rule.tail != NONE else last
    text = f"SELECT DISTINCT ?v0 ?t {{ {body} FILTER({filters}) BIND({tail} AS ?t) }}"
    implied = {
        tuple(int(row[name].value.removeprefix("x:e")) for name in ("v0", "t"))
        for row in store.query(text)
    }
    scorer = RuleScorer(RuleSet.of([rule]), FactIndex(triples, DIRECTED), SIZE)
    found = scorer.entries(np.arange(SIZE), np.full(SIZE, rule.relation))
    assert set(zip(found.rows.tolist(), found.tails.tolist(), strict=True)) == implied
