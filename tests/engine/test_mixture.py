"""Rules beside an embedding: the mixture against its formula, and every search over it."""

from __future__ import annotations

import pickle
from typing import Any

import numpy as np
import pytest
import torch

from bruteforce import Interpreter, Values
from random_engine import CYCLES, KINDS, questions, same
from random_rules import mixed_by_hand, random_mixture
from tacit.adapt.adapter import Adapter
from tacit.adapt.calibrated import Adapted
from tacit.distributed.shards import Shards
from tacit.engine.atoms.calibration import EVERY, SoftmaxCount
from tacit.engine.atoms.known_facts import KnownFacts
from tacit.engine.atoms.mixture import Mixed, RuleMixture
from tacit.engine.engine import Engine
from tacit.engine.logic import NORMS
from tacit.engine.settings import EngineSettings
from tacit.errors import SettingsError
from tacit.graph.graph import Graph
from tacit.links.models import ComplEx
from tacit.query.plans import plan as p
from tacit.query.sampling.shapes import SHAPES

SIZE = 17
NUMBERS: tuple[dict[str, float], ...] = (
    {},
    {"few": 2.0},
    {"few": 1.0, "scale": 1.3, "shift": 0.5},
    {"scale": 0.8, "shift": -0.7},
)


def graph_of(seed: int) -> Graph:
    random = np.random.default_rng(seed)
    facts = np.unique(random.integers(0, [SIZE, 3, SIZE], (50, 3)), axis=0)
    facts = facts[(facts[:, 1] > 0) | (facts[:, 0] != facts[:, 2])]  # no loops of one relation
    return Graph.of([(f"e{s}", "rqp"[r], f"e{t}") for s, r, t in facts])


def mixed_engine(seed: int = 0, numbers: dict[str, float] | None = None, **changes: Any) -> Engine:
    graph = graph_of(seed)
    model = ComplEx(graph.num_entities, graph.num_relations, 4)
    model.reset(1.0, torch.Generator().manual_seed(seed))
    return Engine(graph, model, rules=random_mixture(graph, seed, **(numbers or {})), **changes)


def every_row(engine: Engine) -> tuple[torch.Tensor, torch.Tensor]:
    n, r = engine.graph.num_entities, engine.graph.num_relations
    return torch.arange(n).repeat(r), torch.arange(r).repeat_interleave(n)


@pytest.mark.parametrize("numbers", NUMBERS)
@pytest.mark.parametrize("seed", range(3))
def test_scores_are_those_of_the_formula(seed: int, numbers: dict[str, float]) -> None:
    engine = mixed_engine(seed, numbers, observed="none")
    assert engine.parts.rules is not None
    by_hand = mixed_by_hand(engine.graph, engine.scorer, engine.parts.rules)
    n, r = engine.graph.num_entities, engine.graph.num_relations
    heads, relations = every_row(engine)
    found = engine.atoms.rows(heads, relations).exp().view(r, n, n).double().numpy()
    assert found == pytest.approx(by_hand, rel=2e-5, abs=1e-9)
    alone = engine.with_settings(rules=False).atoms.rows(heads, relations).exp()
    assert np.abs(found - alone.view(r, n, n).numpy()).max() > 0.1
    single = engine.atoms.pairs(heads, relations, (heads + 3) % n)
    assert torch.equal(single, engine.atoms.rows(heads, relations)[range(n * r), (heads + 3) % n])
    assert float(engine.atoms.rows(heads, relations).max()) <= engine.atoms.calibration.supremum


def test_parts_of_rows_and_single_atoms_are_those_of_whole_rows() -> None:
    graph = graph_of(1)
    mixed = Mixed(SoftmaxCount(KnownFacts(graph.index())), random_mixture(graph, few=1.0))
    heads, relations = torch.arange(6), torch.arange(6)
    logits = torch.randn(6, graph.num_entities)
    whole = mixed(logits.clone(), heads, relations)
    sums = mixed.log_sums(logits)
    for columns in (slice(0, 5), slice(5, graph.num_entities), EVERY):
        part = mixed.summed(logits[:, columns].clone(), heads, relations, columns, sums)
        assert torch.equal(part, whole[:, columns])
    for tails in (torch.arange(6), torch.full((6,), 3)):
        each = logits.gather(1, tails[:, None])
        found = mixed.summed(each, heads, relations, tails, sums)
        assert torch.equal(found[:, 0], whole[range(6), tails])
    for rank in range(3):
        shards = Shards(graph.num_entities, rank, 3)
        own = slice(shards.start, shards.stop)
        shared = mixed.counting(KnownFacts(graph.index()), shards)
        part = shared.summed(logits[:, own].clone(), heads, relations, EVERY, sums)
        assert torch.equal(part, whole[:, own])


class Directed(Interpreter):
    """An interpreter whose tables are those of directed relations, `[R, N, N]`."""

    def read(self, plan: p.Plan, entities: list[int], relations: list[int]) -> Values:
        self.of_slots = relations
        return np.asarray(self.of(plan.root, entities))

    def of(self, node: Any, slots: list[int]) -> Values:
        if isinstance(node, p.Relation):
            return np.asarray(self.tables_of_ids[self.of_slots[node.slot] ^ int(node.flip)])
        return super().of(node, slots)

    def __init__(self, tables: Values, logic: str) -> None:
        super().__init__({"any": tables[0]}, logic, "standard")
        self.tables_of_ids = tables


@pytest.mark.parametrize("observed", ["none", "all"])
@pytest.mark.parametrize("norm", NORMS)
def test_exact_search_is_brute_force_over_the_formula(norm: str, observed: str) -> None:
    engine = mixed_engine(4, NUMBERS[2], observed=observed, logic=norm, search="exact")
    graph = engine.graph
    assert engine.parts.rules is not None
    tables = mixed_by_hand(graph, engine.scorer, engine.parts.rules)
    if observed == "all":
        tables *= engine.settings.observed_score  # the ceiling
        for head, relation, tail in graph.train.tolist():
            tables[relation, head, tail] = engine.settings.observed_score
            tables[relation ^ 1, tail, head] = engine.settings.observed_score
    oracle = Directed(tables, norm)
    for question in questions(engine, 1, count=2):
        compiled = question.compiled
        entities, relations = (
            torch.tensor([ids]) for ids in (question.entities, question.relations)
        )
        found = engine.reasoner.scores(compiled.plan, entities, relations)[0].exp()
        values = oracle.read(compiled.plan, list(question.entities), list(question.relations))
        assert found.double().numpy() == pytest.approx(values, rel=1e-4, abs=1e-6)


@pytest.mark.parametrize("observed", ["none", "all"])
@pytest.mark.parametrize("norm", NORMS)
@pytest.mark.parametrize("numbers", NUMBERS[1:])
def test_what_is_certified_is_what_exact_search_finds(
    norm: str, observed: str, numbers: dict[str, float], monkeypatch: pytest.MonkeyPatch
) -> None:
    engine = mixed_engine(3, numbers, logic=norm, observed=observed)
    asked = [*questions(engine, 5, count=2), *CYCLES, *KINDS]
    exact = engine.with_settings(search="exact").ask_many(asked, 4)
    everything = engine.with_settings(search="certified", k=SIZE).ask_many(asked, 4)
    for one, other in zip(everything, exact, strict=True):
        assert one.certified
        same(one, other)
    monkeypatch.setattr("tacit.engine.search.best_first._FEW", 0)  # as on a large graph
    proven = 0
    for one, other in zip(engine.with_settings(k=5).ask_many(asked, 4), exact, strict=True):
        same(one[: one.proven], other[: one.proven])
        proven += bool(one.certified)
    assert proven > len(asked) / 3


def test_a_beam_of_all_entities_is_exact_and_batches_change_nothing() -> None:
    engine = mixed_engine(5, NUMBERS[1])
    asked = questions(engine, 2, count=3)
    exact = engine.with_settings(search="exact")
    beam = engine.with_settings(search="beam", k=engine.graph.num_entities)
    for one, other in zip(beam.ask_many(asked, 5), exact.ask_many(asked, 5), strict=True):
        same(one, other)
    for question, answers in zip(asked, exact.ask_many(asked, 5), strict=True):
        same(exact.ask_many([question], 5)[0], answers)


def test_single_atoms_are_ranked_by_the_mixture_and_not_by_logits() -> None:
    graph = graph_of(2)
    model = ComplEx(graph.num_entities, graph.num_relations, 4)
    model.reset(1.0, torch.Generator().manual_seed(2))
    rules = random_mixture(graph, 2)
    rules = RuleMixture(rules.scorer, torch.ones(graph.num_relations))  # rules alone, nearly
    engine = Engine(graph, model, rules=rules, observed="none")
    heads, relations = every_row(engine)
    plan = SHAPES["1p"].plan
    ranking = engine.reasoner.ranking(plan, heads[:, None], relations[:, None])
    found = rules.scorer.entries(heads.numpy(), relations.numpy())
    for row in np.unique(found.rows).tolist():
        places = found.rows == row
        if found.tails[places].tolist() == [int(heads[row])]:
            continue
        best = found.tails[places][found.scores[places] > found.scores[places].max() - 1e-6]
        assert int(ranking[row].argmax()) in best.tolist()


def test_settings_say_whether_rules_are_mixed_in() -> None:
    engine = mixed_engine()
    assert engine.config["rules"] is True
    assert engine.parts.rule_scorer is engine.parts.rules.scorer  # type: ignore[union-attr]
    for change in (
        {"preset": "qto"},
        {"calibration": "sigmoid"},
        {"search": "continuous"},
        {"search": "symbolic"},
        {"rules": False},
    ):
        without = engine.with_settings(**change)  # type: ignore[arg-type]
        assert without.config["rules"] is False
        assert not isinstance(without.atoms.calibration, Mixed) or change == {"search": "symbolic"}
    back = engine.with_settings(calibration="sigmoid").with_settings(calibration="softmax-count")
    assert back.config["rules"] is True
    assert engine.with_settings(preset="qto").parts.rule_scorer is None
    for values in ({"preset": "qto"}, {"calibration": "minmax"}, {"search": "continuous"}):
        with pytest.raises(SettingsError, match=r"^rules is True, and with"):
            EngineSettings(rules=True, **values)  # type: ignore[arg-type]
    assert EngineSettings(calibration="minmax").rules is False
    graph = engine.graph
    assert Engine(graph, engine.scorer).config["rules"] is False
    scorer = engine.parts.rules.scorer  # type: ignore[union-attr]
    assert Engine(graph, scorer, calibration="sigmoid").parts.rule_scorer is scorer


def test_rules_of_another_graph_are_refused() -> None:
    other = Graph.of([("a", "r", "b")])
    engine = mixed_engine()
    with pytest.raises(SettingsError, match=r"^the rules knows? 2 entities"):
        Engine(engine.graph, engine.scorer, rules=random_mixture(other))


def test_an_adapter_moves_the_odds_of_the_mixture() -> None:
    engine = mixed_engine(1, NUMBERS[1], observed="none")
    rules = engine.parts.rules
    assert rules is not None
    adapter = Adapter(engine.scorer, "p")
    adapted = Adapted(Mixed(SoftmaxCount(), rules), adapter).eval()
    heads, relations = every_row(engine)
    unadapted = engine.atoms.rows(heads, relations)
    with_it = Engine(engine.graph, engine.scorer, adapter=adapted, rules=rules, observed="none")
    with torch.no_grad():
        assert torch.equal(with_it.atoms.rows(heads, relations), unadapted)
        adapter.bias += torch.tensor([0.5, -1.0])
    chances = unadapted.double().exp()
    by_hand = torch.sigmoid(1.5 * torch.logit(chances) - 1.0)
    moved = with_it.atoms.rows(heads, relations)
    assert torch.allclose(moved.exp().double(), by_hand, atol=1e-6)
    assert float(moved.detach().max()) <= with_it.atoms.calibration.supremum
    adapter.train()
    loss = with_it.atoms.rows(heads, relations)[:, 3].clamp(min=-50).sum()
    loss.backward()  # type: ignore[no-untyped-call]
    assert adapter.bias.grad is not None
    assert bool((adapter.bias.grad != 0).all())
    adapter.eval()
    asked = questions(with_it, 3)
    exact = with_it.with_settings(search="exact").ask_many(asked, 4)
    for one, other in zip(with_it.with_settings(k=SIZE).ask_many(asked, 4), exact, strict=True):
        assert one.certified
        same(one, other)


def test_an_adapter_and_rules_go_together_as_they_were_trained() -> None:
    engine = mixed_engine()
    rules = engine.parts.rules
    assert rules is not None
    plain = Adapted(SoftmaxCount(), Adapter(engine.scorer, "p"))
    mixed = Adapted(Mixed(SoftmaxCount(), rules), Adapter(engine.scorer, "p"))
    graph, scorer = engine.graph, engine.scorer
    with pytest.raises(SettingsError, match=r"^rules are used, and the adapter .* without them"):
        Engine(graph, scorer, adapter=plain, rules=rules)
    with pytest.raises(SettingsError, match=r"^rules are not used, and the adapter .* with them"):
        Engine(graph, scorer, EngineSettings(rules=False), adapter=mixed, rules=rules)
    assert Engine(graph, scorer, EngineSettings(rules=False), adapter=plain, rules=rules).adapter
    both = Engine(graph, scorer, adapter=mixed, rules=rules)
    assert both.config["rules"]
    assert both.config["adapted"]
    with pytest.raises(SettingsError, match=r"^rules are not used"):
        both.with_settings(rules=False)
    assert both.with_settings(rules=False, adapted=False).config["rules"] is False


def test_a_pickled_engine_answers_the_same() -> None:
    engine = mixed_engine(2, NUMBERS[2])
    asked = questions(engine, 4)
    copied = pickle.loads(pickle.dumps(engine))
    engine.forget()
    for one, other in zip(copied.ask_many(asked, 5), engine.ask_many(asked, 5), strict=True):
        same(one, other)


def test_weights_come_back_from_tensors_and_fit_a_larger_graph() -> None:
    graph = graph_of(0)
    rules = random_mixture(graph, few=1.5, scale=0.9, shift=-0.25)
    back = RuleMixture.from_tensors(rules.scorer, rules.to_tensors())
    assert torch.equal(back.shares, rules.shares)
    assert (back.few, back.scale, back.shift) == (1.5, 0.9, -0.25)
    entities, relations = graph.entities, graph.relations
    facts = [(entities[s], relations[r], entities[t]) for s, r, t in graph.train.tolist()]
    larger = Graph.of([*facts, ("e0", "fresh", "e1")])
    scorer = random_mixture(larger).scorer
    grown = RuleMixture.from_tensors(scorer, rules.to_tensors())
    assert torch.equal(grown.shares[:-2], rules.shares)
    assert grown.shares[-2:].tolist() == pytest.approx([float(rules.shares.mean())] * 2)
    assert float(grown.shares_of(torch.tensor([0]), torch.tensor([7]))) < 1.0


def test_an_entity_without_facts_is_scored_by_rules() -> None:
    graph = graph_of(0)
    rules = random_mixture(graph, few=1.0)
    degrees = np.zeros(graph.num_entities)
    for head, _, tail in graph.train.tolist():
        degrees[head] += 1
        degrees[tail] += 1
    heads = torch.arange(graph.num_entities)
    shares = rules.shares_of(heads, torch.zeros_like(heads))
    rest = (1 - float(rules.shares[0])) * degrees / (1 + degrees)
    assert (1 - shares).numpy() == pytest.approx(rest.clip(1e-3), rel=1e-5)
