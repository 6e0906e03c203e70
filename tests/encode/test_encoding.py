"""Trainings of encoders: what is learned, kept, stopped and gone on with."""

from __future__ import annotations

import signal
from pathlib import Path

import numpy as np
import pytest
import torch

from encoder_runs import QUICK, grid
from tacit.encode.models import load_encoder
from tacit.encode.settings import ENCODERS, EncodeSettings
from tacit.encode.training.encoder_training import EncoderTraining
from tacit.encode.training.encoding import EncodeResult, encode
from tacit.engine.ranking import mean_reciprocal_ranks
from tacit.errors import LimitError, PlanError, RunError, SettingsError, TrainingError
from tacit.fitting.progress import Event
from tacit.graph.graph import Graph
from tacit.query.plans.sets import AnswerSets
from tacit.query.sampling.queries import QuerySet
from tacit.query.sampling.sampling import sample
from tacit.query.sampling.shapes import SHAPES, Shape
from tacit.query.text import parse
from tacit.run_folder.files import ENCODER, ENCODING
from tacit.run_folder.folder import RunFolder


@pytest.fixture(scope="module")
def graph() -> Graph:
    return grid()


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
    loaded, loaded_settings = load_encoder(run, graph)
    assert loaded_settings == again.settings
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
    queries = trained_on(graph)
    assert encode(graph, EncodeSettings("gqe", **QUICK), valid={}).summary[
        "learned_from"
    ] == dict.fromkeys(("1p", "2p", "3p", "2i", "3i"), "drawn")
    of_given = encode(graph, EncodeSettings("gqe", **QUICK), queries=queries, valid={})
    assert of_given.summary["learned_from"] == dict.fromkeys(queries, "given")
    mixed = encode(graph, EncodeSettings("gqe", **QUICK, shapes="2i,3i"), queries=queries, valid={})
    assert mixed.summary["learned_from"] == {"2i": "given", "3i": "drawn"}
    with pytest.raises(PlanError, match="GQE has no complement"):
        encode(graph, EncodeSettings("gqe", **QUICK, shapes="1p,2in"))
    negated = {"2in": sample(graph, SHAPES["2in"], "train", 5).queries}
    with pytest.raises(TrainingError, match="can learn from none of the shapes 2in"):
        encode(graph, EncodeSettings("gqe", **QUICK), queries=negated)


def queries_of(question: str, entities: list[list[int]], relations: list[list[int]]) -> QuerySet:
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
    """The query starts from the state of all entities and takes one hop of `next`."""
    queries = {"open": queries_of("?x : exists ?y . next(?y, ?x)", [], [[0], [2]])}
    learned = encode(
        graph, EncodeSettings("fuzzqe", **QUICK | {"steps": 60}), queries=queries, valid={}
    )
    first = encode(
        graph, EncodeSettings("fuzzqe", **QUICK | {"steps": 1}), queries=queries, valid={}
    )
    plan = queries["open"].shape.plan
    slots = (torch.empty(1, 0, dtype=torch.long), torch.tensor([[0]]))
    ranks = [
        int((found > found[0, 3]).sum())
        for found in (r.encoder.logits(plan, *slots) for r in (first, learned))
    ]
    assert ranks[1] == 0 < ranks[0]


def test_graph_networks_answer_more_than_they_learn_from(graph: Graph) -> None:
    cycle = queries_of(
        "?x : exists ?y . next(e0, ?y) & leap(?y, ?x) & next(?y, ?x)", [[0]], [[0, 2, 0]]
    )
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


def test_what_does_not_fit_in_memory_says_what_to_lower(
    graph: Graph, monkeypatch: pytest.MonkeyPatch
) -> None:
    def exhausted(*_: object) -> None:
        raise torch.OutOfMemoryError("CUDA out of memory.")

    monkeypatch.setattr(EncoderTraining, "step", exhausted)
    message = (
        "out of memory at model gqe, batch 16 and answers 1; "
        "lower those numbers, `negatives`, `width`"
    )
    with pytest.raises(LimitError, match=message):
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
