"""Learned strengths of negation: their meaning, training, storage and explanation."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

import tacit
from bruteforce import Interpreter, Values
from formulas import ENTITIES, RELATIONS, queries
from tables import FactorScorer
from tacit.adapt import strengths
from tacit.adapt.adaptation import adapt
from tacit.adapt.adapter import Adapter, save_adapter
from tacit.adapt.calibrated import Adapted
from tacit.adapt.settings import AdaptSettings
from tacit.adapt.strengths import FACTORS, best_strengths, negated
from tacit.adapt.training_queries import halved, training_queries
from tacit.engine.atoms.calibration import calibration
from tacit.engine.atoms.known_facts import KnownFacts
from tacit.engine.engine import Engine
from tacit.engine.logic import NEGATIONS, NORMS, Logic
from tacit.engine.search.top_k import TopKRequest
from tacit.errors import SettingsError, TacitError, TrainingError
from tacit.graph.fact_index import FactIndex
from tacit.graph.graph import Graph
from tacit.links.loading import load_model
from tacit.links.models import ComplEx
from tacit.links.scorer import Scorer
from tacit.query.formula import Query
from tacit.query.plans import plan as p
from tacit.query.plans.compile import compile_query
from tacit.query.sampling.queries import AnswerSets, QuerySet
from tacit.query.sampling.shapes import SHAPES
from tacit.run_folder.files import ADAPTER
from tacit.run_folder.folder import RunFolder

N = 6
R = len(RELATIONS)
RANDOM = np.random.default_rng(5)
TABLES: dict[str, Values] = {name: RANDOM.random((N, N)) * 0.9 + 0.02 for name in RELATIONS}
FACTS = FactIndex(np.array([[0, 0, 1], [0, 2, 3], [2, 2, 5], [1, 3, 4]]), 2 * R)
SHARED = 0.7  # the logarithm of the strength of negations that are about no single relation
OWN = RANDOM.normal(0.0, 1.0, 2 * R)  # and of that of each directed relation


def strong(scorer: Scorer) -> Adapter:
    """An adapter with those strengths, which leaves scores as they are."""
    adapter = Adapter(scorer, "p", learns="both")
    assert adapter.strengths is not None
    adapter.strengths.copy_(torch.tensor([*OWN, SHARED]))
    return adapter


def strong_engine(**options: Any) -> Engine:
    names = [*ENTITIES, *(f"x{i}" for i in range(len(ENTITIES), N))]
    graph = Graph.of(
        [
            (a, name, b)
            for name in RELATIONS
            for a, b in zip(names, names[1:] + names[:1], strict=True)
        ]
    )
    scorer = FactorScorer([TABLES[name] for name in RELATIONS])
    adapted = Adapted(
        calibration("sigmoid", KnownFacts(FACTS)), strong(scorer).requires_grad_(False).eval()
    )
    return Engine(
        graph,
        scorer,
        adapter=adapted,
        calibration="sigmoid",
        observed="none",
        loops=True,
        **options,
    )


class Strong(Interpreter):
    """The value of a plan by its table, with the strength of each negation applied first."""

    def answers(self, prepared: p.CompiledQuery) -> Values:
        self.names = prepared.relations
        return super().answers(prepared)

    def of(self, node: Any, slots: list[int]) -> Values:
        if not isinstance(node, p.Complement):
            return super().of(node, slots)
        inside = node.part
        edge = None
        about = inside.part if isinstance(inside, p.At | p.Best) else inside
        if isinstance(about, p.Row | p.Project):
            edge = about.edge
        elif isinstance(about, p.Relation):
            edge = about
        elif isinstance(about, p.Loop):
            edge = p.Relation(about.relation)
        strength = SHARED
        if isinstance(edge, p.Relation):
            strength = OWN[2 * RELATIONS.index(self.names[edge.slot]) + int(edge.flip)]
        return self.negate(np.minimum(1.0, math.exp(strength) * self.of(inside, slots)))


@given(
    queries(),
    st.sampled_from(sorted(NORMS)),
    st.sampled_from(sorted(NEGATIONS)),
    st.sampled_from([2, None]),
)
@settings(max_examples=60, deadline=None)
def test_every_question_is_valued_explained_and_bounded_by_the_strengths(
    query: Query, norm: str, negation: str, k: int | None
) -> None:
    prepared = compile_query(query, safe=False)
    engine = strong_engine(
        logic=norm, negation=negation, **({"k": k} if k else {"search": "exact"})
    )
    exact = Strong(TABLES, norm, negation).answers(prepared)
    entities = torch.tensor([[ENTITIES.index(name) for name in prepared.entities]]).long()
    relations = torch.tensor([[2 * RELATIONS.index(name) for name in prepared.relations]]).long()
    told = engine.reasoner.explain(prepared.plan, entities, relations, TopKRequest(N))
    bounds = engine.reasoner.bounds(prepared.plan, entities, relations)
    assert told is not None
    assert bounds is not None
    whole = engine.reasoner.scores(prepared.plan, entities, relations)
    scores, lower, upper = (rows[0].exp().numpy() for rows in (whole, *bounds))
    if k is None:
        np.testing.assert_allclose(scores, exact, atol=2e-5)
    assert (lower <= exact + 2e-5).all()
    assert (upper >= exact - 2e-5).all()
    for answer in range(N):
        proof = told.proofs(answer, 1)[0]
        assert math.exp(proof.score) == pytest.approx(scores[answer], abs=2e-5)


@given(queries(), st.sampled_from(sorted(NORMS)), st.sampled_from(["rows", "scan"]))
@settings(max_examples=60, deadline=None)
def test_best_first_searches_answer_as_exact_search_does(
    query: Query, norm: str, candidates: str
) -> None:
    engine = strong_engine(logic=norm, search="exact")
    try:
        exact = engine.ask(query, top=N)
    except TacitError:  # unsafe questions are refused by every search
        return
    found = engine.with_settings(search="certified", candidates=candidates).ask(query, top=N)
    assert {a.entity: a.score for a in found} == pytest.approx(
        {a.entity: a.score for a in exact}, abs=2e-5
    )


def test_the_witness_of_a_negated_atom_by_hand() -> None:
    a, b = ENTITIES[:2]
    first, second = RELATIONS[:2]
    engine = strong_engine(search="exact")
    answers = engine.explain(f"?t : {first}({a}, ?t) & !{second}({b}, ?t)", top=N)
    for answer in answers:
        x = TABLES[second][1, answer.id]
        refused = 1 - min(1.0, math.exp(OWN[2]) * x)
        assert answer.score == pytest.approx(TABLES[first][0, answer.id] * refused, rel=1e-4)
        negated = next(part for part in answer.witnesses[0].tree.parts if part.kind == "not")
        assert negated.score == pytest.approx(refused, rel=1e-4)
        # the atom itself is as likely as before
        assert negated.parts[0].score == pytest.approx(x, rel=1e-4)


@pytest.mark.parametrize("search", ["exact", "certified"])
def test_a_negated_atom_between_entities_is_about_its_relation(search: str) -> None:
    """A question for yes or no, and one for entities with such a condition, by hand."""
    a, b, c = ENTITIES[:3]
    first, second = RELATIONS[:2]
    engine = strong_engine(search=search)
    table = TABLES[second]
    holds = engine.ask(f": {first}({a}, {b}) & !{second}({a}, {c})")[0].score
    assert holds == pytest.approx(
        TABLES[first][0, 1] * (1 - min(1.0, math.exp(OWN[2]) * table[0, 2])), rel=1e-4
    )
    for answer in engine.ask(f"?t : {first}({a}, ?t) & !{second}({a}, {c})", top=N):
        assert answer.score == pytest.approx(
            holds / TABLES[first][0, 1] * TABLES[first][0, answer.id], rel=1e-4
        )
    nobody = engine.ask(f": {first}({a}, {b}) & !(exists ?y . {second}({a}, ?y))")[0].score
    refused = 1 - min(1.0, math.exp(OWN[2]) * table[0].max())
    assert nobody == pytest.approx(TABLES[first][0, 1] * refused, rel=1e-4, abs=1e-6)


def test_continuous_search_negates_as_strongly() -> None:
    """With no variable beside the answer it searches nothing and agrees with exact search."""
    engine = strong_engine()
    model = ComplEx(engine.graph.num_entities, 2 * R, 3)
    model.reset(1.0, torch.Generator().manual_seed(0))
    adapted = Adapted(
        calibration("sigmoid", KnownFacts(FACTS)),
        strong(model.requires_grad_(False)).requires_grad_(False),
    )
    slots = torch.tensor([[0, 1], [2, 0]]), torch.tensor([[0, 2], [5, 4]])
    exact, continuous = (
        Engine(
            engine.graph, model, engine.settings, adapter=adapted, search=search
        ).reasoner.scores(SHAPES["2in"].plan, *slots)
        for search in ("exact", "continuous")
    )
    torch.testing.assert_close(continuous, exact)


@pytest.mark.parametrize("negation", NEGATIONS)
def test_negation_turns_the_order_around_however_strong(negation: str) -> None:
    x = torch.linspace(-12.0, -1e-3, 200)
    for strength in (-4.0, 0.0, 3.0):
        values = Logic(negation_name=negation).negation(x, torch.tensor(strength)).exp()
        assert (values.diff() <= 0).all()
        assert (values.diff() < 0).any()


def test_the_best_factors_are_those_of_trying_them_all() -> None:
    random = np.random.default_rng(1)
    ranked = random.random((len(FACTORS), 90))
    about = random.integers(-1, 4, 90)
    found = best_strengths(ranked, about, 5)
    mean = [float(np.mean(row)) for row in ranked]
    assert found.shared == FACTORS[mean.index(max(mean))]
    for relation in range(5):
        own = [
            row[about == relation].sum() + (found.prior * m if m else 0)
            for row, m in zip(ranked, mean, strict=True)
        ]
        assert found.factors[relation] == (
            found.shared if math.isinf(found.prior) else FACTORS[own.index(max(own))]
        )
    assert found.factors[4] == found.shared  # which nothing negates
    taken = [
        ranked[FACTORS.index(found.shared if a < 0 else found.factors[a]), q]
        for q, a in enumerate(about)
    ]
    assert found.gained == pytest.approx(np.mean(taken) - mean[0])


def test_relations_that_do_not_differ_share_one_factor() -> None:
    random = np.random.default_rng(2)
    about = np.arange(400) % 40
    quality = np.array([0.1, 0.2, 0.5, 0.2, 0.1, 0.1, 0.1, 0.1, 0.1])
    alike = quality[:, None] + random.normal(0, 0.3, (len(FACTORS), 400))
    assert set(best_strengths(alike, about, 40).factors) == {4.0}
    differing = np.where(about % 2, quality[:, None], quality[::-1, None]) + random.normal(
        0, 0.1, alike.shape
    )
    factors = best_strengths(differing, about, 40).factors
    assert set(factors[1::2]) == {4.0}
    assert set(factors[::2]) == {FACTORS[-3]}


def test_which_relation_a_query_negates() -> None:
    def about(shape: str) -> list[int]:
        plan = SHAPES[shape].plan
        relations = np.array([[10 * (i + 1) for i in range(plan.num_relations)]], dtype=np.int32)
        nobody = np.zeros((1, plan.num_entities), dtype=np.int32)
        return negated(
            QuerySet(SHAPES[shape], nobody, relations, AnswerSets.of([[]]), AnswerSets.of([[1]]))
        ).tolist()

    # BetaE's order of relations: 2in (r, not q), 3in (r, r, not q), pni (not (p then q), r), …
    assert {shape: about(shape) for shape in ("2in", "3in", "inp", "pin", "pni")} == {
        "2in": [20], "3in": [30], "inp": [20], "pin": [30], "pni": [20],
    }  # fmt: skip
    assert about("2i") == [-1]


NEGATION = AdaptSettings(
    learn="negation",
    held_out=False,
    observed="none",
    steps=20,
    batch=32,
    validate_every=20,
    k=40,
    device="cpu",
)


@pytest.mark.parametrize("learn", ["negation", "both"])
def test_what_is_learned_comes_back_with_the_run(
    run: RunFolder, learn: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(strengths, "FACTORS", (3.0,))  # so that there is something to learn
    graph = run.graph()
    model = load_model(run)
    chosen = NEGATION.changed(learn=learn)
    result = adapt(graph, model, training_queries(graph, chosen, count=60), chosen, valid={})
    assert result.adapter is not None
    save_adapter(run, result.adapter, result.settings)
    learned = result.adapter.strengths
    assert learned is not None
    assert len(learned) == graph.num_relations + 1
    moving = (
        0
        if learn == "negation"
        else sum(parameter.numel() for parameter in result.adapter.parameters())
    )
    assert result.summary["parameters"] == moving + len(learned)
    assert learned.exp().tolist() == pytest.approx([3.0] * len(learned))
    assert result.summary["parameters"] == len(learned) + (
        2 * model.rank * 2 + 2 if learn == "both" else 0
    )
    assert run.has(ADAPTER)
    engine = tacit.open(run.path, device="cpu").engine
    again = engine.atoms.calibration.strengths(torch.arange(graph.num_relations))
    assert torch.equal(again, learned[:-1])
    plain = "?x : knows(p0, ?x)"
    negated = "?x : knows(p0, ?x) & !sibling(p1, ?x)"
    for question in (plain, negated):
        with_it, without = (
            [answer.score for answer in engine.with_settings(adapted=adapted).ask(question, top=8)]
            for adapted in (True, False)
        )
        assert (with_it == without) == (learn == "negation" and question == plain)


def test_strengths_learn_what_a_score_is_worth() -> None:
    """A score of 0.3 always means a fact of one relation, and nothing at all of the other."""
    size = 40
    random = np.random.default_rng(0)
    holds = random.random((2, size, size)) < 0.3  # [relation, head, tail]
    seen = np.stack([holds[0], random.permuted(holds[1], axis=1)])
    wanted = random.random((size, size)) < 0.3
    likely = np.where(wanted, random.uniform(0.2, 0.8, wanted.shape), 0.01)
    scorer = FactorScorer([likely, *np.where(seen, 0.3, 0.01)])
    asked = [(a, b, r) for a in range(size) for b in (a, (a + 7) % size) for r in (0, 1)]
    answers = [np.flatnonzero(wanted[a] & ~holds[r, b]).tolist() for a, b, r in asked]
    drawn = QuerySet(
        SHAPES["2in"],
        np.array([[a, b] for a, b, _ in asked], dtype=np.int32),
        np.array([[0, 2 * (r + 1)] for _, _, r in asked], dtype=np.int32),
        AnswerSets.of([[] for _ in asked]),
        AnswerSets.of(answers),
    )
    names = [f"e{i}" for i in range(size)]
    graph = Graph.of(
        [(a, r, b) for r in "abc" for a, b in zip(names, names[1:] + names[:1], strict=True)]
    )
    chosen = AdaptSettings(
        learn="negation",
        shapes="2in",
        calibration="sigmoid",
        observed="none",
        held_out=False,
        device="cpu",
    )
    result = adapt(graph, scorer, {"2in": drawn}, chosen, valid={})
    assert result.adapter is not None
    surely, loosely = result.adapter.strengths_of(torch.tensor([2, 4])).exp().tolist()  # type: ignore[union-attr]
    assert surely >= 2 > 1 >= loosely  # at 4 and above a score of 0.3 is excluded


def test_half_of_the_validation_facts_is_found_and_half_sought(run: RunFolder) -> None:
    graph = run.graph()
    inner = halved(graph)
    assert len(inner.valid) - len(inner.test) in (0, 1)
    facts = [set(map(tuple, part.tolist())) for part in (graph.valid, inner.valid, inner.test)]
    assert facts[0] == facts[1] | facts[2]
    assert not facts[1] & facts[2]
    drawn = training_queries(
        graph, AdaptSettings(halved=True, shapes="1p", device="cpu"), count=20
    )["1p"]
    sought = {(int(h), int(r), int(t)) for h, r, t in inner.test} | {
        (int(t), int(r) ^ 1, int(h)) for h, r, t in inner.test
    }
    for q in range(len(drawn)):
        (head,), (relation,) = drawn.entities[q].tolist(), drawn.relations[q].tolist()
        assert all((head, relation, tail) in sought for tail in drawn.hard[q].tolist())


@pytest.mark.parametrize(
    ("values", "message"),
    [
        (
            {"halved": True, "held_out": False},
            "halved learns from queries that need validation facts; leave `held_out=False`",
        ),
        (
            {"learn": "negation", "shapes": "2i,3i"},
            "learn is negation, and none of the shapes 2i,3i negates; add 2in",
        ),
        (
            {"learn": "both", "recipe": "paper"},
            "learn is both, and with `recipe='paper'` it must be scores",
        ),
        (
            {"learn": "everything"},
            "learn is 'everything'; it must be one of scores, negation, both",
        ),
    ],
)
def test_what_cannot_be_learned_is_refused(values: dict[str, Any], message: str) -> None:
    with pytest.raises(SettingsError, match=message):
        AdaptSettings.of(values)


@pytest.mark.parametrize("valid", [[], [("a", "r", "c")]])
def test_halving_takes_two_facts(valid: list[tuple[str, str, str]]) -> None:
    graph = Graph.of([("a", "r", "b"), ("b", "r", "c")], valid)
    with pytest.raises(
        SettingsError, match=f"at least two validation facts, and the graph has {len(valid)} valid"
    ):
        training_queries(graph, AdaptSettings(halved=True, device="cpu"))


@pytest.mark.parametrize("learn", ["negation", "both"])
def test_negation_is_not_learned_from_nothing(run: RunFolder, learn: str) -> None:
    graph = run.graph()
    chosen = NEGATION.changed(learn=learn)
    drawn = training_queries(graph, chosen.changed(learn="scores", shapes="2i"), count=20)
    with pytest.raises(TrainingError, match="no query with a negation"):
        adapt(graph, load_model(run), drawn, chosen)


def test_variants_learn_scores_alone(run: RunFolder) -> None:
    graph = run.graph()
    chosen = NEGATION.changed(learn="both")
    with pytest.raises(SettingsError, match="learn is both, and a `variant` learns scores alone"):
        adapt(
            graph, load_model(run), training_queries(graph, chosen, count=10), chosen, variant="f"
        )
