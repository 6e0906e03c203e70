"""Trainings of encoders: what is learned, kept, stopped and gone on with."""

from __future__ import annotations

import signal
from pathlib import Path

import numpy as np
import pytest
import torch

from tacit.encode.models import load_encoder, make_encoder
from tacit.encode.settings import ENCODERS, EncodeSettings
from tacit.encode.training.encoder_training import EncoderTraining
from tacit.encode.training.encoding import EncodeResult, encode
from tacit.engine.engine import Engine
from tacit.engine.ranking import mean_reciprocal_ranks
from tacit.errors import LimitError, PlanError, RunError, SettingsError, TrainingError
from tacit.fitting.progress import Event
from tacit.graph.graph import Graph
from tacit.query.sampling.queries import AnswerSets, QuerySet
from tacit.query.sampling.sampling import sample
from tacit.query.sampling.shapes import SHAPES, Shape
from tacit.query.text.text import parse
from tacit.run_folder.files import ENCODER, ENCODING
from tacit.run_folder.folder import RunFolder

QUICK = {
    "steps": 12, "width": 4, "batch": 16, "negatives": 8, "validate_queries": 5,
    "validate_every": 0.5, "device": "cpu",
}  # fmt: skip


@pytest.fixture(scope="module")
def graph() -> Graph:
    """Thirty entities in five rows of six, with the next of a row and that below."""
    facts = [(f"e{i}", "next", f"e{i + 1}") for i in range(30) if i % 6 < 5]
    facts += [(f"e{i}", "leap", f"e{i + 6}") for i in range(24)]
    return Graph.of(facts, valid=[("e0", "next", "e2"), ("e3", "leap", "e5"), ("e7", "next", "e9")])


def trained_on(graph: Graph) -> dict[str, QuerySet]:
    return {name: sample(graph, SHAPES[name], "train", 60).queries for name in ("1p", "2p", "2i")}


@pytest.mark.parametrize("model", ["gqe", "q2b", "betae", "cone", "fuzzqe"])
def test_a_small_graph_is_learned_by_heart(model: str, graph: Graph) -> None:
    settings = EncodeSettings(
        model, steps=150, width=32, margin=6.0, batch=96, negatives=30, adversarial=1.0, lr=0.02,
        shapes="1p,2p,2i", validate_every=1.0, device="cpu", hidden=32, bases=4,
    )  # fmt: skip
    learned = encode(graph, settings, valid={})
    figures = mean_reciprocal_ranks(learned.encoder.reasoner(), trained_on(graph))
    assert min(figures.values()) > 0.95, figures


def same(left: EncodeResult, right: EncodeResult) -> bool:
    ours = left.encoder.state_dict()
    theirs = right.encoder.state_dict()
    return ours.keys() == theirs.keys() and all(
        torch.equal(ours[name], theirs[name]) for name in ours
    )


@pytest.mark.parametrize(("model", "step"), [("cone", 1), ("q2b", 6), ("q2b", 11)])
def test_a_stopped_training_goes_on_to_the_very_same_weights(
    model: str, step: int, graph: Graph, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    settings = EncodeSettings(model, **QUICK | {"batch": 64})
    whole = encode(graph, settings)
    run = RunFolder.create(tmp_path / "run", graph, {})

    original = EncoderTraining.step

    def interrupted(training: EncoderTraining, number: int) -> tuple[torch.Tensor, int]:
        if number == step - 1:
            signal.raise_signal(signal.SIGINT)
        return original(training, number)

    monkeypatch.setattr(EncoderTraining, "step", interrupted)
    with pytest.raises(KeyboardInterrupt, match=rf"at step ({step - 1}|{step}) of 12 and saved"):
        encode(graph, settings, run=run)
    monkeypatch.undo()
    assert run.has(ENCODING)
    assert not run.has(ENCODER)
    with pytest.raises(RunError, match="go on with `resume=True`"):
        load_encoder(run, graph)
    with pytest.raises(RunError, match="other settings"):
        encode(graph, settings.changed(lr=1.0), run=run, resume=True)
    for other in ({"queries": trained_on(graph)}, {"valid": trained_on(graph)}):
        with pytest.raises(RunError, match=r"made with other (validation )?queries; give those"):
            encode(graph, settings, run=run, resume=True, **other)
    again = encode(graph, settings, run=run, resume=True)
    assert same(whole, again)
    assert [line["valid_mrr"] for line in again.trace] == [
        line["valid_mrr"] for line in whole.trace
    ]
    assert not run.has(ENCODING)
    loaded, kept = load_encoder(run, graph)
    assert kept == again.settings
    assert all(
        torch.equal(tensor, again.encoder.state_dict()[name])
        for name, tensor in loaded.state_dict().items()
    )
    assert run.settings["encode"]["model"] == model
    assert run.results()["encode"]["steps"] == 12


@pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a GPU")
def test_a_training_goes_on_where_steps_are_recorded(graph: Graph, tmp_path: Path) -> None:
    """ConE has a weight that is a single number, whose moments must be on the GPU, too."""
    settings = EncodeSettings("cone", **QUICK | {"device": "cuda", "checkpoint_seconds": 0.0})
    run = RunFolder.create(tmp_path / "run", graph, {})

    def stopped(event: Event) -> None:
        if event.what == "validation":
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        encode(graph, settings, run=run, progress=stopped)
    again = encode(graph, settings, run=run, resume=True)
    assert again.summary["steps"] == 12
    assert np.isfinite(again.trace[-1]["loss"])


def test_time_instead_of_steps(graph: Graph) -> None:
    settings = EncodeSettings(
        "gqe", **QUICK | {"steps": None, "validate_every": 0.25}, minutes=0.4 / 60
    )
    result = encode(graph, settings)
    assert result.summary["seconds"] >= 0.4
    assert 1 <= len(result.trace) <= 4
    assert result.trace[-1]["step"] == result.summary["steps"] > 0


def test_draws_leave_the_generator_of_others_alone(graph: Graph) -> None:
    torch.manual_seed(5)
    before = torch.get_rng_state()
    encode(graph, EncodeSettings("gqe", **QUICK), valid={})
    assert torch.equal(torch.get_rng_state(), before)


def test_what_is_learned_from(graph: Graph) -> None:
    given = trained_on(graph)
    assert encode(graph, EncodeSettings("gqe", **QUICK), valid={}).summary[
        "learned_from"
    ] == dict.fromkeys(("1p", "2p", "3p", "2i", "3i"), "drawn")
    of_given = encode(graph, EncodeSettings("gqe", **QUICK), queries=given, valid={})
    assert of_given.summary["learned_from"] == dict.fromkeys(given, "given")
    mixed = encode(graph, EncodeSettings("gqe", **QUICK, shapes="2i,3i"), queries=given, valid={})
    assert mixed.summary["learned_from"] == {"2i": "given", "3i": "drawn"}
    with pytest.raises(PlanError, match="GQE has no complement"):
        encode(graph, EncodeSettings("gqe", **QUICK, shapes="1p,2in"))
    negated = {"2in": sample(graph, SHAPES["2in"], "train", 5).queries}
    with pytest.raises(TrainingError, match="can learn from none of the shapes 2in"):
        encode(graph, EncodeSettings("gqe", **QUICK), queries=negated)


def given(question: str, entities: list[list[int]], relations: list[list[int]]) -> QuerySet:
    """Queries of the shape of a question, all answered by entity 3."""
    number = len(relations)
    slots = np.array(entities, np.int32).reshape(number, -1), np.array(relations, np.int32)
    return QuerySet(
        Shape.of("some", parse(question)),
        *slots,
        AnswerSets.none(number),
        AnswerSets.of([{3}] * number),
    )


def test_queries_that_name_no_entity_are_learned_from(graph: Graph) -> None:
    """Whatever `next` leads to: the state of all entities, and a hop."""
    queries = {"open": given("?x : exists ?y . next(?y, ?x)", [], [[0], [2]])}
    learned = encode(
        graph, EncodeSettings("fuzzqe", **QUICK | {"steps": 60}), queries=queries, valid={}
    )
    first = encode(
        graph, EncodeSettings("fuzzqe", **QUICK | {"steps": 1}), queries=queries, valid={}
    )
    plan = queries["open"].shape.plan
    asked = (torch.empty(1, 0, dtype=torch.long), torch.tensor([[0]]))
    ranks = [
        int((found > found[0, 3]).sum())
        for found in (r.encoder.logits(plan, *asked) for r in (first, learned))
    ]
    assert ranks[1] == 0 < ranks[0]


def test_graph_networks_answer_more_than_they_learn_from(graph: Graph) -> None:
    cycle = given("?x : exists ?y . next(e0, ?y) & leap(?y, ?x) & next(?y, ?x)", [[0]], [[0, 2, 0]])
    settings = EncodeSettings("gnnqe", **QUICK | {"steps": 1}, layers=1, hidden=4)
    result = encode(
        graph, settings, queries={"two": cycle, "1p": trained_on(graph)["1p"]}, valid={"two": cycle}
    )
    assert result.summary["learned_from"] == {"1p": "given"}
    assert result.summary["mrr"].keys() == {"two"}


def test_unions_in_the_other_encoding_are_the_same_questions(graph: Graph) -> None:
    """De Morgan's form exists in files alone; asked for by name it is learned as the union."""
    plain, other = (
        encode(graph, EncodeSettings("fuzzqe", **QUICK, shapes=f"1p,{name}"), valid={})
        for name in ("2u", "2u-DM")
    )
    assert other.summary["learned_from"] == {"1p": "drawn", "2u-DM": "drawn"}
    assert same(plain, other)


def test_shapes_that_the_facts_do_not_have_are_named(tmp_path: Path) -> None:
    """The one fact leads nowhere on: there is no chain of two; the encoder that is there stays."""
    alone = Graph.of([("a", "r", "b")])
    run = RunFolder.create(tmp_path / "run", alone, {})
    assert (
        encode(alone, EncodeSettings("gqe", **QUICK, shapes="1p,3p"), run=run).summary["steps"]
        == 12
    )
    with pytest.raises(
        TrainingError, match="no 2p or 3p query with an answer could be drawn from the train facts"
    ):
        encode(alone, EncodeSettings("gqe", **QUICK, shapes="2p,3p"), run=run)
    assert run.has(ENCODER)


@pytest.mark.parametrize(
    ("model", "exploding", "advice"),
    [
        (
            "gqe",
            {"weight_decay": 1e9},
            r"lower `lr` \(it is 0.005\), or lower `weight_decay` \(it is 1e\+09\)",
        ),
        ("gqe", {"margin": 1e38}, r"lower `margin` \(it is 1e\+38\)"),
        (
            "fuzzqe",
            {"temperature": 1e-42},
            r"lower `lr` \(it is 0.005\), or raise `temperature` \(it is 1e-42\)$",
        ),
    ],
)
def test_what_explodes_says_what_to_change(
    model: str, exploding: dict[str, float], advice: str, graph: Graph
) -> None:
    with pytest.raises(TrainingError, match=f"not a number.*{advice}"):
        encode(graph, EncodeSettings(model, **QUICK | exploding), valid={})


def test_validation_is_of_what_the_model_can_express(graph: Graph) -> None:
    result = encode(graph, EncodeSettings("q2b", **QUICK))
    figures = result.trace[-1]["mrr"]
    assert {"1p", "2p", "2i", "2u"} <= figures.keys()
    assert not {"2in", "pni"} & figures.keys()


def test_the_published_recipe_runs(graph: Graph) -> None:
    settings = EncodeSettings("q2b", "paper", steps=2, device="cpu", width=8)
    result = encode(graph, settings, valid={})
    assert (result.settings.private, result.settings.lr, result.settings.decay) == (
        True,
        1e-4,
        "steps",
    )
    assert np.isfinite(result.trace[-1]["loss"])


@pytest.mark.parametrize("model", ["gqe", "q2b"])
def test_an_encoder_is_a_link_predictor(model: str, graph: Graph) -> None:
    """Each atom by hand from the weights, and an engine that searches over it."""
    encoder = make_encoder(EncodeSettings(model, width=5).with_derived(30), graph)
    encoder.reset(torch.Generator().manual_seed(1))
    scorer = encoder.scorer()
    weights = encoder.state_dict()
    heads = torch.tensor([0, 3])
    relations = torch.tensor([1, 2])
    tails = torch.tensor([7, 3])
    row = scorer.logits(heads, relations)
    for i, (h, r, t) in enumerate(
        zip(heads.tolist(), relations.tolist(), tails.tolist(), strict=True)
    ):
        moved = weights["relations"][r]
        gap = (weights["entities"][t] - weights["entities"][h] - moved[:5]).abs()
        if model == "q2b":
            offset = moved[5:]
            gap = (gap - offset).clamp(min=0) + 0.02 * torch.minimum(gap, offset).abs()
        assert float(row[i, t]) == pytest.approx(encoder.margin - float(gap.sum()), rel=1e-5)
    assert torch.allclose(scorer.logits_of(heads, relations, tails), row[[0, 1], tails])
    engine = Engine(graph, scorer, calibration="sigmoid", observed="none")
    assert len(engine.ask("?x : exists ?y . next(e0, ?y) & leap(?y, ?x)", top=3)) == 3


@pytest.mark.parametrize("model", ["gqe", "q2b"])
def test_intersections_by_hand(model: str, graph: Graph) -> None:
    encoder = make_encoder(EncodeSettings(model, width=3).with_derived(30), graph)
    encoder.reset(torch.Generator().manual_seed(1))
    states = torch.randn(2, 3, encoder.width, generator=torch.Generator().manual_seed(2))
    w = encoder.state_dict()
    for row, found in zip(states, encoder.intersect(states), strict=True):
        points = row[:, :3]
        hidden = [
            (w["attention.inner.weight"] @ x + w["attention.inner.bias"]).clamp(min=0)
            for x in points
        ]
        raw = [w["attention.outer.weight"] @ h + w["attention.outer.bias"] for h in hidden]
        total = sum(torch.exp(one) for one in raw)
        centre = sum(torch.exp(one) / total * x for one, x in zip(raw, points, strict=True))
        assert torch.allclose(found[:3], centre, atol=1e-6)
        if model == "q2b":
            inner = (
                sum((w["inner.weight"] @ o + w["inner.bias"]).clamp(min=0) for o in row[:, 3:]) / 3
            )
            shrink = 1 / (1 + torch.exp(-(w["outer.weight"] @ inner + w["outer.bias"])))
            assert torch.allclose(found[3:], row[:, 3:].min(0).values * shrink, atol=1e-6)


def test_what_does_not_fit_in_memory_says_what_to_lower(
    graph: Graph, monkeypatch: pytest.MonkeyPatch
) -> None:
    def exhausted(*_: object) -> None:
        raise torch.OutOfMemoryError("CUDA out of memory.")

    monkeypatch.setattr(EncoderTraining, "step", exhausted)
    told = (
        "out of memory at model gqe, batch 16 and answers 1; "
        "lower those numbers, `negatives`, `width`"
    )
    with pytest.raises(LimitError, match=told):
        encode(graph, EncodeSettings("gqe", **QUICK), valid={})


def test_more_negation_is_for_large_graphs_and_so_are_likely_negatives_of_betae() -> None:
    for model in ENCODERS:
        small, large = (EncodeSettings(model).with_derived(many) for many in (19_999, 20_000))
        assert (small.likely, small.negated) == (0.5 * (model in ("cone", "fuzzqe")), 0.2)
        assert large.likely == 0.5 * (model in ("betae", "cone", "fuzzqe"))
        assert large.negated == {"betae": 0.7, "cone": 0.5}.get(model, 0.2)
        assert (small.answers, large.answers) == {
            "cone": (4, 4),
            "betae": (1, 4),
            "fuzzqe": (4, 1),
        }.get(model, (1, 1))


def test_a_step_has_as_many_answers_as_are_set(graph: Graph) -> None:
    training = EncoderTraining(
        graph, EncodeSettings("gqe", **QUICK, answers=3).with_derived(graph.num_entities), valid={}
    )
    training.step(0)
    assert {drawn.answers.shape[1] for drawn in training.batches.queries()} == {3}


def test_a_loss_over_sets_is_one_of_graph_networks_alone(graph: Graph) -> None:
    with pytest.raises(
        SettingsError, match="loss is 'sets', by which gnnqe and ultra alone learn, not gqe"
    ):
        encode(graph, EncodeSettings("gqe", loss="sets", **QUICK))


def test_graph_networks_do_not_compute_in_bfloat16(graph: Graph) -> None:
    with pytest.raises(
        SettingsError,
        match="precision is 'bf16', in which gnnqe cannot compute; give `precision='tf32'`",
    ):
        encode(graph, EncodeSettings("gnnqe", precision="bf16", **QUICK))


@pytest.mark.parametrize("model", ["gqe", "q2b", "betae", "cone", "fuzzqe"])
def test_bfloat16_is_near_and_for_learning_alone(model: str, graph: Graph) -> None:
    trainings = [
        EncoderTraining(
            graph, EncodeSettings(model, precision=precision, **QUICK).with_derived(30), valid={}
        )
        for precision in ("float32", "bf16")
    ]
    losses = [[float(training.step(number)[0]) for number in range(5)] for training in trainings]
    assert losses[0] != losses[1]
    assert losses[0] == pytest.approx(losses[1], rel=0.02)
    plan = SHAPES["2i"].plan
    slots = torch.tensor([[0, 7], [3, 9]]), torch.tensor([[0, 2], [1, 3]])
    trainings[1].module.load_state_dict(trainings[0].module.state_dict())
    for learns in (False, True):  # whatever mode a module is left in
        exact, near = (training.module.train(learns).logits(plan, *slots) for training in trainings)
        assert torch.equal(exact, near)


def test_likely_negatives_answer_other_queries_and_the_rest_is_anything(graph: Graph) -> None:
    settings = EncodeSettings(
        "gqe", **QUICK | {"negatives": 20}, likely=0.75, loss="softmax"
    ).with_derived(30)
    training = EncoderTraining(graph, settings, valid={})
    answers = torch.tensor([4, 4, 9])
    drawn = torch.stack([training.batches.negatives(answers) for _ in range(60)])
    assert set(drawn[:, :15].flatten().tolist()) == {4, 9}
    assert set(drawn[:, 15:].flatten().tolist()) == set(range(30))
    every = EncoderTraining(graph, settings.changed(negatives=30), valid={})
    assert every.batches.negatives(answers).tolist() == list(range(30))


def test_what_is_drawn_stands_for_all_entities_in_a_softmax(graph: Graph) -> None:
    """The importance-weighted sum over negatives has the mean of that over all entities."""
    settings = EncodeSettings(
        "gqe", **QUICK | {"negatives": 12}, likely=0.5, loss="softmax"
    ).with_derived(30)
    training = EncoderTraining(graph, settings, valid={})
    seen: dict[str, torch.Tensor] = {}

    def loss(batch: object, negatives: torch.Tensor, often: torch.Tensor) -> torch.Tensor:
        seen.update(negatives=negatives, often=often)
        return training.module.entities.sum()

    training.module.loss = loss  # type: ignore[method-assign,assignment]
    training.step(0)
    facts = graph.train
    ends = [0.0] * 30
    for head, _, tail in facts.tolist():
        ends[head] += 0.5 / len(facts)
        ends[tail] += 0.5 / len(facts)
    expected = [12 * (0.5 / 30 + 0.5 * ends[entity]) for entity in seen["negatives"].tolist()]
    assert seen["often"].exp().tolist() == pytest.approx(expected, rel=1e-5)
    worth = torch.rand(30, generator=torch.Generator().manual_seed(0))
    drawn = torch.Generator().manual_seed(1)
    answers = torch.tensor([end for head, _, tail in facts.tolist() for end in (head, tail)])
    sums = []
    for _ in range(4000):
        some = training.batches.negatives(
            answers[torch.randint(len(answers), (16,), generator=drawn)]
        )
        sums.append(float((worth[some] / training.batches.log_frequencies[some].exp()).sum()))  # type: ignore[index]
    assert np.mean(sums) == pytest.approx(float(worth.sum()), rel=0.02)
    by_margin = EncoderTraining(graph, settings.changed(loss="margin"), valid={})
    assert by_margin.batches.log_frequencies is None


@pytest.mark.parametrize("likely", [0.04, 0.5, 1.0])
def test_answers_of_given_queries_count_as_often_as_they_are_drawn(
    likely: float, graph: Graph
) -> None:
    """Half of the batch is stored queries, drawn by their 4 and 2 answers, half are facts."""
    ids = np.array([[0], [1]], np.int32)
    hard = AnswerSets.of([{4}, {4, 9, 29}])
    given = QuerySet(SHAPES["1p"], ids, ids, AnswerSets.none(2), hard)
    settings = EncodeSettings(
        "gqe", **QUICK | {"negatives": 12}, likely=likely, loss="softmax", shapes="1p,2p"
    )
    training = EncoderTraining(graph, settings.with_derived(30), {"1p": given}, valid={})
    often = training.batches.log_frequencies
    shares = [0.0] * 30
    for entity, share in ((4, 2 / 3), (9, 1 / 6), (29, 1 / 6)):
        shares[entity] += share / 2
    for head, _, tail in graph.train.tolist():
        shares[head] += 1 / 4 / len(graph.train)
        shares[tail] += 1 / 4 / len(graph.train)
    many = round(12 * likely)
    expected = [(12 - many) / 30 + many * share for share in shares]
    assert (often is None) == (many == 0)
    assert often is None or often.exp().tolist() == pytest.approx(expected, rel=1e-5)


def test_files_that_do_not_fit_are_refused(graph: Graph, tmp_path: Path) -> None:
    run = RunFolder.create(tmp_path / "run", graph, {})
    with pytest.raises(RunError, match="train an encoder first"):
        load_encoder(run, graph)
    encode(graph, EncodeSettings("gqe", **QUICK), valid={}, run=run)
    tensors = run.tensors(ENCODER)
    about = run.metadata(ENCODER)
    run.write_tensors(ENCODER, {name: tensor[:1] for name, tensor in tensors.items()}, about)
    with pytest.raises(RunError, match="does not fit the run"):
        load_encoder(run, graph)
    run.write_tensors(ENCODER, {name: tensor / 0 for name, tensor in tensors.items()}, about)
    with pytest.raises(RunError, match="weights that are not finite numbers"):
        load_encoder(run, graph)


def test_angles_in_another_unit_are_refused(graph: Graph, tmp_path: Path) -> None:
    """A file of lean ConE tables that does not name its unit is of an earlier version."""
    run = RunFolder.create(tmp_path / "run", graph, {})
    encode(graph, EncodeSettings("cone", **QUICK), valid={}, run=run)
    load_encoder(run, graph)
    tensors = run.tensors(ENCODER)
    about = run.metadata(ENCODER)
    run.write_tensors(
        ENCODER, {name: tensor for name, tensor in tensors.items() if name != "unit"}, about
    )
    with pytest.raises(RunError, match="does not fit the run"):
        load_encoder(run, graph)


def test_a_width_that_overflows_is_a_limit() -> None:
    with pytest.raises(
        LimitError, match="; lower those numbers, `negatives`, `width`, `hidden` or `bases`"
    ):
        encode(
            Graph.of([("a", "r", "b"), ("b", "r", "a")]),
            EncodeSettings("gqe", width=2**63 - 1, steps=1),
        )
