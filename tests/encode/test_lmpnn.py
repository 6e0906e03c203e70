"""LMPNN against messages sent by hand, over a frozen link predictor that stays as it is."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from random import Random
from typing import Any

import pytest
import torch
from safetensors.torch import load_file
from torch import Tensor, nn

import tacit
from family_runs import families
from tacit.encode.encoder import Drawn, Slots
from tacit.encode.networks.lmpnn import LMPNN
from tacit.encode.settings import EncodeSettings
from tacit.encode.training.encoder_training import EncoderTraining
from tacit.errors import PlanError, SettingsError
from tacit.links.factors import Embeddings, FactorModel
from tacit.links.models import make_model
from tacit.query.formula import And, Atom, Entity, Exists, Not, Query, atoms, parts_of
from tacit.query.plans.compile import compile_query
from tacit.query.plans.plan import Complement
from tacit.query.sampling.shapes import SHAPES
from tacit.query.text import parse
from tacit.run_folder.folder import RunFolder
from writings import rewritten

N = 12
R = 6
RANK = 3
ENTITIES = [f"e{i}" for i in range(N)]
RELATIONS = ["r", "q", "p"]
Said = tuple[str, str | None, str, int]  # an atom, or the denial of a variable, with its sign


def encoder(model: str = "complex", **changes: Any) -> LMPNN:
    predictor = make_model(model, N, R, RANK)
    predictor.reset(1.0, torch.Generator().manual_seed(1))
    made = LMPNN(N, R, EncodeSettings("lmpnn", hidden=5, **changes).with_derived(N), predictor)
    made.reset(torch.Generator().manual_seed(2))
    with torch.no_grad():  # lean starts at nothing
        made.network[2].weight.copy_(
            torch.randn(made.network[2].weight.shape, generator=torch.Generator())
        )
    return made


def complex_(row: Tensor) -> Tensor:
    return torch.complex(*row.chunk(2))


def by_hand(made: LMPNN, said: Sequence[Said], rounds: int) -> Tensor:
    """All variables hear all their atoms, round after round, in complex arithmetic."""
    names = {end for s, _, o, _ in said for end in (s, o)}
    targets = {"t", *(s for s, relation, _, _ in said if relation is None)}
    x = {}
    for name in names:
        start = made.asked if name in targets else made.between
        x[name] = made.entities[ENTITIES.index(name)] if name in ENTITIES else start.detach()
    for _ in range(rounds):
        heard = {name: 0.1 * vector for name, vector in x.items() if name not in ENTITIES}
        for s, relation, o, sign in said:
            if relation is None:
                heard[o] = heard[o] + sign * x[s]
                continue
            r = 2 * RELATIONS.index(relation)
            for sender, receiver, id_ in ((s, o, r), (o, s, r + 1)):
                if receiver in heard:
                    product = complex_(x[sender]) * complex_(made.relations[id_])
                    heard[receiver] = heard[receiver] + sign * torch.cat(
                        (product.real, product.imag)
                    )
        for name, total in heard.items():
            hidden = (made.network[0].weight @ total + made.network[0].bias).clamp(min=0)
            x[name] = (
                made.network[2].weight @ hidden
                + made.network[2].bias
                + (total if made.residual else 0)
            )
    return x["t"]


def state(made: LMPNN, query: Query) -> Tensor:
    prepared = compile_query(query)
    entities = torch.tensor([[ENTITIES.index(name) for name in prepared.entities]]).long()
    relations = torch.tensor([[2 * RELATIONS.index(name) for name in prepared.relations]]).long()
    (branches,) = made.states([Slots(prepared.plan, entities, relations)])
    return torch.stack([branch[0] for branch in branches])


def said_by(query: Query) -> list[Said]:
    """The atoms of a conjunction of literals, as they are written."""
    said: list[Said] = []
    formula = query.formula
    while isinstance(formula, Exists):
        formula = formula.part
    for literal in parts_of(formula, And):
        (atom,) = atoms(literal)
        said.append(
            (
                atom.subject.name,
                str(atom.relation),
                atom.object.name,
                -1 if isinstance(literal, Not) else 1,
            )
        )
    return said


CONJUNCTIONS = {
    "?t : r(e0, ?t)": 1,
    "?t : r(?t, e0)": 1,
    "?t : r(e0, ?x) & q(?t, ?x)": 2,
    "?t : r(e0, ?t) & !q(e1, ?t) & p(?t, e2)": 1,
    "?t : r(e0, ?x) & !q(?x, e1) & p(?x, ?y) & r(?y, ?t)": 3,
    "?t : r(e0, ?x) & q(?x, ?t) & p(?t, ?x)": 2,  # parallel atoms
    "?t : r(e0, ?x) & q(?x, ?t) & !p(?x, ?t)": 2,
    "?t : r(?t, ?t) & q(e0, ?t)": 1,  # a loop
    "?t : r(e0, ?x) & q(?x, ?y) & p(?y, ?t) & r(?t, ?x)": 2,  # a triangle
    "?t : r(?x, ?t) & q(?t, e0)": 1,  # a variable that nothing else is said of
}


@pytest.mark.parametrize("recipe", ["lean", "paper"])
def test_messages_are_those_of_the_atoms(recipe: str) -> None:
    made = encoder(recipe=recipe)
    for question, rounds in CONJUNCTIONS.items():
        query = parse(question)
        expected = by_hand(made, said_by(query), rounds)
        torch.testing.assert_close(
            state(made, query), expected[None], msg=lambda message, q=question: f"{q}: {message}"
        )
        for seed in range(2):  # however it is written
            torch.testing.assert_close(state(made, rewritten(query, Random(seed))), expected[None])


def test_a_negated_path_is_a_question_of_its_own() -> None:
    made = encoder()
    said = [("e0", "r", "v", 1), ("v", "q", "w", 1), ("w", None, "t", -1), ("e1", "p", "t", 1)]
    found = state(made, parse("?t : p(e1, ?t) & !(exists ?v . r(e0, ?v) & q(?v, ?t))"))
    torch.testing.assert_close(found, by_hand(made, said, 3)[None])
    path = SHAPES["2p"].plan
    denied = replace(path, root=Complement(path.root))  # where nothing else is said, either
    ((alone,),) = made.states([Slots(denied, torch.tensor([[0]]), torch.tensor([[0, 2]]))])
    torch.testing.assert_close(alone, by_hand(made, said[:3], 3)[None])


@torch.no_grad()
def test_of_branches_the_best_counts_and_logits_are_cosines() -> None:
    made = encoder()
    union, left, right = (
        state(made, parse(question))
        for question in ("?t : r(e0, ?t) | q(e1, ?t)", "?t : r(e0, ?t)", "?t : q(e1, ?t)")
    )
    torch.testing.assert_close(union.sort(0).values, torch.cat((left, right)).sort(0).values)
    logits = made.logits(SHAPES["2u"].plan, torch.tensor([[0, 1]]), torch.tensor([[0, 2]]))[0]
    for entity in range(N):
        cosines = [torch.cosine_similarity(branch, made.entities[entity], 0) for branch in union]
        assert float(logits[entity]) == pytest.approx(
            float(max(cosines)) / made.settings.temperature, abs=1e-4
        )


def test_a_state_meets_entities_of_its_own() -> None:
    made = encoder()
    own = torch.tensor([[0, 3], [2, 2], [4, 1]])
    states = torch.randn(3, made.entities.shape[1], generator=torch.Generator().manual_seed(0))
    torch.testing.assert_close(made.match_of(states, own), made.match(states).gather(1, own))


def test_a_mix_of_shapes_is_encoded_as_each_is_alone() -> None:
    made = encoder()
    generator = torch.Generator().manual_seed(0)
    mix = []
    for number, shape in enumerate(SHAPES.values()):
        entities = torch.randint(0, N, (2 + number % 2, shape.num_entities), generator=generator)
        relations = torch.randint(0, R, (len(entities), shape.num_relations))
        mix.append(Slots(shape.plan, entities, relations))
    for together, slots in zip(made.states(mix), mix, strict=True):
        (alone,) = made.states([slots])
        for one, other in zip(together, alone, strict=True):
            torch.testing.assert_close(one, other)


@pytest.mark.parametrize("model", ["complex", "distmult"])
def test_only_the_network_and_first_vectors_learn(model: str) -> None:
    made = encoder(model)
    before = [made.entities.clone(), made.relations.clone()]
    assert {name.split(".")[0] for name in made.state_dict()} == {"asked", "between", "network"}
    plan = SHAPES["2p"].plan
    batch = [
        Drawn(plan, torch.tensor([[1]]), torch.tensor([[0, 3]]), torch.tensor([[4]]), torch.ones(1))
    ]
    made.loss(batch, torch.arange(N)).backward()
    assert all(
        parameter.grad is not None and parameter.grad.abs().sum() > 0
        for parameter in made.parameters()
    )
    with torch.no_grad():
        for parameter in made.parameters():
            parameter.sub_(parameter.grad)
    assert torch.equal(made.entities, before[0])
    assert torch.equal(made.relations, before[1])


def copied(predictor: FactorModel, other: FactorModel) -> None:
    predictor.load_state_dict(other.state_dict())


def assigned(predictor: FactorModel, other: FactorModel) -> None:
    predictor.load_state_dict(other.state_dict(), assign=True)


def replaced(predictor: FactorModel, other: FactorModel) -> None:
    for table, new in zip(predictor.modules(), other.modules(), strict=True):
        if isinstance(table, Embeddings) and isinstance(new, Embeddings):
            table.storage = nn.Parameter(new.storage.detach().clone())


def pointed_elsewhere(predictor: FactorModel, other: FactorModel) -> None:
    for weight, new in zip(predictor.parameters(), other.parameters(), strict=True):
        weight.data = new.detach().clone()


@pytest.mark.parametrize("load", [copied, assigned, replaced, pointed_elsewhere])
def test_what_a_link_predictor_is_loaded_with_counts_from_the_next_question_on(
    load: Callable[[FactorModel, FactorModel], None],
) -> None:
    predictor = make_model("complex", N, R, RANK)
    predictor.reset(1.0, torch.Generator().manual_seed(1))
    settings = EncodeSettings("lmpnn", hidden=5).with_derived(N)
    made = LMPNN(N, R, settings, predictor)
    made.reset(torch.Generator().manual_seed(2))
    made.requires_grad_(False).eval()
    queries = SHAPES["2i"].plan, torch.tensor([[0, 1]]), torch.tensor([[0, 2]])
    before = made.logits(*queries)
    other = make_model("complex", N, R, RANK)
    other.reset(1.0, torch.Generator().manual_seed(3))
    load(predictor, other)
    fresh = LMPNN(N, R, settings, other)
    fresh.load_state_dict(made.state_dict())
    assert torch.equal(made.logits(*queries), fresh.eval().logits(*queries))
    assert not torch.equal(made.logits(*queries), before)


@pytest.mark.parametrize("model", ["cp", "transe", "rotate"])
def test_other_predictors_are_refused_by_name(model: str) -> None:
    with pytest.raises(
        SettingsError, match="complex or distmult link predictor; that of the run is"
    ) as caught:
        encoder(model)
    assert caught.value.parameter == "model"
    with pytest.raises(SettingsError, match="works on a link predictor"):
        LMPNN(N, R, EncodeSettings("lmpnn").with_derived(N))
    with pytest.raises(PlanError, match="no answer occurs in"):
        encoder().check(compile_query(Query((), Atom("r", Entity("e0"), Entity("e1")))).plan)


def test_it_learns_a_small_graph_by_heart() -> None:
    graph = families()
    predictor = make_model("complex", graph.num_entities, graph.num_relations, 16)
    predictor.reset(1.0, torch.Generator().manual_seed(0))
    settled = EncodeSettings("lmpnn", hidden=128).with_derived(graph.num_entities)
    made = LMPNN(graph.num_entities, graph.num_relations, settled, predictor)
    made.reset(torch.Generator().manual_seed(0))
    facts = torch.from_numpy(graph.split("train")).long()
    batch = [
        Drawn(SHAPES["1p"].plan, facts[:, :1], facts[:, 1:2], facts[:, 2:], torch.ones(len(facts)))
    ]
    optimizer = torch.optim.Adam(made.parameters(), 5e-3)
    for _ in range(60):
        optimizer.zero_grad()
        made.loss(batch, torch.arange(graph.num_entities)).backward()
        optimizer.step()
    ranks = []
    for head, relation, tail in facts.tolist():
        known = graph.index("train").tails(head, relation)
        logits = made.logits(SHAPES["1p"].plan, torch.tensor([[head]]), torch.tensor([[relation]]))[
            0
        ]
        others = torch.ones(graph.num_entities, dtype=torch.bool)
        others[torch.from_numpy(known).long()] = False
        ranks.append(1 / (1 + int((logits[others] > logits[tail]).sum())))
    assert sum(ranks) / len(ranks) > 0.95


def test_a_step_takes_more_work_the_wider_the_predictor_is() -> None:
    """By which it gets as many threads as it is worth."""
    graph = families()
    settings = EncodeSettings("lmpnn", device="cpu").with_derived(40)
    predictors = (
        make_model("complex", graph.num_entities, graph.num_relations, rank) for rank in (4, 8)
    )
    work = [
        EncoderTraining(graph, settings, valid={}, scorer=predictor).flops
        for predictor in predictors
    ]
    assert work[1] == 2 * work[0] > 30 * settings.batch * graph.num_entities * 8


def test_a_run_keeps_it_beside_its_predictor_and_answers_cycles(run: RunFolder) -> None:
    opened = tacit.open(run.path)
    predictor = opened.engine.scorer
    assert isinstance(predictor, nn.Module)
    before = {name: weight.clone() for name, weight in predictor.state_dict().items()}
    opened.encode(
        model="lmpnn", steps=3, hidden=8, batch=16, validate_queries=4, device="cpu", progress=False
    )
    weights = load_file(run.path / "encoder.safetensors")
    assert {name.split(".")[0] for name in weights} == {"asked", "between", "network"}
    again = tacit.open(run.path, search="encoder")
    for name, weight in again.engine.scorer.state_dict().items():  # type: ignore[attr-defined]
        assert torch.equal(weight, before[name])
    triangle = "?t : sibling(p4, ?x) & knows(?x, ?y) & lives(?y, ?t) & lives(?x, ?t)"
    found = again.ask(triangle, top=3)
    assert (
        found.entities
        == opened.engine.with_settings(search="encoder").ask(triangle, top=3).entities
    )
    assert again.engine.config["encoder"] == "LMPNN"
    evaluation = again.evaluate(by_missing=True)
    assert set(evaluation.by_missing["1p"]) == {1}
