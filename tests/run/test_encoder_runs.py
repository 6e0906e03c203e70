"""Runs that hold an encoder: every door opens, or says by name what is missing."""

from __future__ import annotations

import pickle
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch

import tacit
from encoder_runs import TINY
from family_runs import families
from tacit.distributed.shards import Shards
from tacit.encode.networks.ultra import import_checkpoint
from tacit.encode.settings import ENCODERS
from tacit.errors import DataError, PlanError, RunError, SettingsError
from tacit.evaluate.protocol import one_hop_queries
from tacit.loaded_run import read_weights
from tacit.query.sampling.shapes import SHAPES
from tacit.run_folder.files import ENCODER, ENCODING, MODEL
from tacit.run_folder.folder import RunFolder

GRAPH = families()
KNOWN = "?x : lives(p1, ?x)"
PRINTED = {
    "gqe": "GQE", "q2b": "Query2Box", "betae": "BetaE", "cone": "ConE", "fuzzqe": "FuzzQE",
    "gnnqe": "GNN-QE", "ultra": "UltraQuery", "lmpnn": "LMPNN",
}  # fmt: skip


def encode_folder(*arguments: Any, **settings: Any) -> RunFolder:
    return tacit.train_encoder(*arguments, **settings).folder


@pytest.fixture
def gqe(gqe_run: Path, tmp_path: Path) -> Path:
    """A copy of the run, to change."""
    return Path(shutil.copytree(gqe_run, tmp_path / "gqe"))


def ranks(reasoner: Any, queries: Any) -> float:
    """The mean reciprocal rank of hard answers, each counted by hand among non-answers."""
    found = []
    for i in range(len(queries)):
        entities = torch.from_numpy(queries.entities[i : i + 1]).long()
        relations = torch.from_numpy(queries.relations[i : i + 1]).long()
        logits = reasoner.ranking(queries.shape.plan, entities, relations)[0]
        hard = set(queries.hard[i].tolist())
        easy = set(queries.easy[i].tolist())
        others = [e for e in range(len(logits)) if e not in hard | easy]
        each = [1 + sum(bool(logits[o] > logits[h]) for o in others) for h in hard]
        found.append(sum(1 / rank for rank in each) / len(each))
    return sum(found) / len(found)


def test_a_run_of_an_encoder_alone_is_asked_by_it(gqe_run: Path) -> None:
    run = tacit.open(gqe_run, device="cpu")
    assert not run.folder.has(MODEL)
    assert run.engine.settings.search == "encoder"
    entity = GRAPH.entities.id("p1")
    relation = GRAPH.relations.id("lives")
    logits = run.weights.encoder.logits(
        SHAPES["1p"].plan, torch.tensor([[entity]]), torch.tensor([[relation]])
    )[0]  # type: ignore[union-attr]
    new = run.ask(KNOWN, top=3, new=True)
    known = GRAPH.entities.id("t0")
    order = [i for i in logits.argsort(descending=True).tolist() if i != known]
    assert new.entities == [GRAPH.entities[i] for i in order[:3]]
    assert new[0].score == pytest.approx(float(logits[order[0]].sigmoid()), rel=1e-5)
    assert run.ask(KNOWN)[0].entity == "t0"
    assert "no probabilities" in str(run.ask(KNOWN))


def test_an_engine_over_an_encoder_can_be_pickled(gqe_run: Path) -> None:
    engine = tacit.open(gqe_run, device="cpu").engine
    assert pickle.loads(pickle.dumps(engine)).ask(KNOWN).to_dict() == engine.ask(KNOWN).to_dict()


@pytest.mark.parametrize("model", [model for model in ENCODERS if model != "lmpnn"])
def test_a_run_of_each_model_opens_and_answers(model: str, tmp_path: Path) -> None:
    settings = TINY | {
        "model": model,
        "steps": 2,
        "validate_queries": 1,
        "hidden": 8,
        "layers": 1,
        "bases": 2,
    }
    run = tacit.train_encoder(GRAPH, tmp_path / model, progress=False, **settings)
    answers = run.ask(KNOWN, top=2)
    assert answers.entities[0] == "t0"
    assert answers.settings["encoder"] == PRINTED[model]


@pytest.mark.parametrize("search", ["beam", "exact", "certified"])
def test_other_searches_work_over_its_link_predictions(gqe_run: Path, search: str) -> None:
    run = tacit.open(gqe_run, device="cpu", search=search)
    answers = run.explain("?x : exists ?y . sibling(p1, ?y) & lives(?y, ?x)", top=1)
    assert (answers.entities, answers.explained) == (["t0"], True)
    assert answers[0].witnesses[0].predicted == 0
    assert "no probabilities" not in str(answers)


def test_an_evaluation_ranks_by_the_encoder_and_is_kept_by_its_name(gqe: Path) -> None:
    run = tacit.open(gqe, device="cpu")
    queries = one_hop_queries(GRAPH, "test")
    evaluation = run.evaluate(by_missing=True, reliability=True)
    assert evaluation.mrr["1p"] == pytest.approx(ranks(run.engine.search, queries))
    linked = run.evaluate(search="beam")
    evaluations = [entry["settings"] for entry in RunFolder.open(gqe).results()["eval"]]
    assert [entry["search"] for entry in evaluations] == ["encoder", "beam"]
    steps, minutes = (run.results["encode"][name] for name in ("steps", "seconds"))
    assert (
        evaluations[0]["encoding"] == f"gqe, recipe lean, {steps} steps, {minutes / 60:.1f} minutes"
    )
    assert evaluations[0]["encoder"] == "GQE"
    assert "calibration" not in evaluations[0]
    assert set(evaluation.by_missing["1p"]) == {1}
    assert evaluation.reliability["ten best answers"].to_json()["count"] > 0
    assert linked.settings["calibration"] == "softmax-count"
    assert "GQE" in tacit.open(gqe, device="cpu").report(gqe / "report.md").read_text(
        encoding="utf-8"
    )


def test_shapes_that_it_cannot_express_are_named_before_anything_is_ranked(gqe_run: Path) -> None:
    run = tacit.open(gqe_run, device="cpu")
    drawn = {
        name: one.queries
        for name, one in run.sample(shapes="1p,pin", split="test", count=3).items()
    }
    with pytest.raises(PlanError, match=r"GQE cannot express pin .*; shapes that it can: 1p"):
        run.evaluate(drawn)


def test_settings_of_other_searches_are_refused_by_name(gqe_run: Path) -> None:
    with pytest.raises(
        SettingsError, match=r"k is 8, which means nothing to an encoder.* `search='beam'`"
    ):
        tacit.open(gqe_run, device="cpu", k=8)
    assert tacit.open(gqe_run, device="cpu", k=8, search="beam").engine.settings.k == 8


def test_an_encoder_beside_a_link_predictor(run: RunFolder) -> None:
    both = tacit.open(run.path, device="cpu")
    with pytest.raises(SettingsError, match="there is none here"):
        both.engine.with_settings(search="encoder")
    linked = both.ask(KNOWN, new=True).to_dict()
    summary = both.encode(**TINY)
    assert summary["steps"] == TINY["steps"]
    assert both.engine.settings.search != "encoder"  # the link predictor answers, as before
    assert both.ask(KNOWN, new=True).to_dict() == linked
    assert both.engine.with_settings(search="encoder").ask(KNOWN).settings["encoder"] == "GQE"
    with pytest.raises(RunError, match="has an encoder, gqe; replace it with `force=True`"):
        both.encode(**TINY)
    with pytest.raises(RunError, match="its encoder learns no others; drop it, or train anew"):
        both.add([("p1", "lives", "Atlantis")])
    both.drop_encoder()
    assert not run.has(ENCODER)
    assert "encode" not in RunFolder.open(run.path).settings
    with pytest.raises(RunError, match="has no encoder to drop"):
        both.drop_encoder()


def test_what_needs_a_link_predictor_says_so(gqe_run: Path) -> None:
    run = tacit.open(gqe_run, device="cpu")
    refused: dict[str, Callable[[], object]] = {
        "an index is one of a link predictor": run.index,
        "holds an encoder alone; delete the folder": run.drop_encoder,
        "no link predictor to go on with": lambda: tacit.train(
            GRAPH, gqe_run, resume=True, progress=False
        ),
    }
    for why, call in refused.items():
        with pytest.raises(RunError, match=why):
            call()
    for source in (GRAPH, [GRAPH, GRAPH]):
        with pytest.raises(
            SettingsError, match="model is 'lmpnn', which works on a link predictor"
        ):
            encode_folder(source, gqe_run.parent / "none", model="lmpnn", device="cpu")


def test_links_are_completed_by_calibrated_scores(gqe_run: Path) -> None:
    run = tacit.open(gqe_run, device="cpu")
    facts = list(run.complete("lives", min_score=0.001, top=3))
    engine = run.engine.with_settings(search="exact", typed=True)
    head = facts[0].subject
    tail = facts[0].object
    ends = engine.score(head, "lives", tail).score, engine.score(tail, "lives^-1", head).score
    assert facts[0].score == pytest.approx((ends[0] * ends[1]) ** 0.5, rel=1e-4)


def test_an_adapter_over_an_encoder_serves_the_other_searches(gqe: Path) -> None:
    run = tacit.open(gqe, device="cpu")
    run.adapt(count=20, steps=4, validate_every=2, batch=16, shapes="2i", recipe="paper")
    again = tacit.open(gqe, device="cpu")
    assert again.engine.config["adapted"] is False  # the encoder answers
    assert again.engine.with_settings(search="beam").config["adapted"] is True
    with pytest.raises(RunError, match="has an encoder"):
        again.encode(**TINY)
    again.encode(force=True, **TINY | {"steps": 2})
    assert not RunFolder.open(gqe).has("adapter.safetensors")  # it was one of other weights


def test_known_entities_may_get_facts_and_others_are_refused(gqe: Path) -> None:
    run = tacit.open(gqe, device="cpu")
    before = run.weights.encoder.state_dict()  # type: ignore[union-attr]
    with pytest.raises(
        RunError, match=r"1 entity and 0 relations that run .* its encoder .* others; train anew"
    ):
        run.add([("p1", "lives", "Atlantis")])
    run.add([("p1", "lives", "t5")])
    assert {a.entity for a in run.ask(KNOWN) if a.known} == {"t0", "t5"}
    after = run.weights.encoder.state_dict()  # type: ignore[union-attr]
    assert all(torch.equal(before[name], after[name]) for name in before)
    run.remove([("p1", "lives", "t5")])
    assert [a.entity for a in run.ask(KNOWN) if a.known] == ["t0"]


def test_an_encoder_of_other_facts_is_refused(gqe: Path, tmp_path: Path) -> None:
    other = encode_folder(
        tacit.Graph.of([("a", "r", "b"), ("b", "r", "a")]),
        tmp_path / "other",
        progress=False,
        **TINY | {"steps": 1},
    )
    shutil.copyfile(other.path / ENCODER, gqe / ENCODER)
    with pytest.raises(RunError, match="trained on another vocabulary"):
        tacit.open(gqe, device="cpu")


def test_an_encoder_with_other_settings_than_the_run_is_refused(gqe: Path) -> None:
    """As one that was copied from another run of the same facts."""
    folder = RunFolder(gqe)
    table = folder.settings["encode"]
    folder.write_settings("encode", table | {"steps": table["steps"] + 1})  # it may go on
    assert tacit.open(gqe, device="cpu").notes == ()
    folder.write_settings("encode", table | {"seed": 99})
    with pytest.raises(RunError, match=r"the table \[encode\] of settings.toml has other settings"):
        tacit.open(gqe, device="cpu")


def test_what_a_run_lacks_is_said_where_it_is_opened(run: RunFolder) -> None:
    encode_folder(run.path, progress=False, **TINY | {"steps": 1})
    assert tacit.open(run.path, device="cpu").notes == ()
    (run.path / ENCODING).touch()  # of one that replaces it, whose process was killed
    (note,) = tacit.open(run.path, device="cpu").notes
    assert "the training of an encoder" in note
    assert f"tacit encode {run.path} --drop" in note
    (run.path / ENCODING).unlink()
    (run.path / MODEL).unlink()
    (note,) = tacit.open(run.path, device="cpu").notes
    assert "has no model.safetensors, and its encoder answers instead" in note


def test_an_imported_checkpoint_answers_as_the_weights_it_was_made_of(
    tmp_path: Path, gqe_run: Path
) -> None:
    settings = TINY | {
        "model": "ultra",
        "steps": 1,
        "layers": 1,
        "hidden": 16,
        "validate_queries": 1,
    }
    trained = tacit.train_encoder(GRAPH, tmp_path / "trained", progress=False, **settings)
    torch.save({"model": trained.folder.tensors(ENCODER)}, tmp_path / "weights.pth")
    options: dict[str, Any] = {
        "checkpoint": tmp_path / "weights.pth",
        "model": "ultra",
        "device": "cpu",
    }
    run = tacit.train_encoder(GRAPH, tmp_path / "imported", **options)
    assert run.engine.config["encoding"] == "ultra, imported from weights.pth"
    one, other = (each.ask(KNOWN, new=True) for each in (run, trained))
    assert one.entities == other.entities
    assert [a.score for a in one] == pytest.approx([a.score for a in other])
    with pytest.raises(RunError, match="holds a run"):
        tacit.train_encoder(GRAPH, tmp_path / "imported", **options)
    other = tacit.Graph.of(
        [("a", "likes", "b"), ("b", "likes", "c"), ("c", "hates", "a"), ("a", "hates", "d")]
    )
    expected = (
        import_checkpoint(tmp_path / "weights.pth", other)[0]
        .scorer()
        .logits(torch.tensor([0]), torch.tensor([0]))
    )
    # a run is as good
    for number, source in enumerate((tmp_path / "trained", tmp_path / "trained" / ENCODER)):
        elsewhere = tacit.train_encoder(
            other, tmp_path / f"o{number}", **options | {"checkpoint": source}
        )
        assert torch.equal(
            elsewhere.weights.scorer.logits(torch.tensor([0]), torch.tensor([0])), expected
        )
    with pytest.raises(DataError, match="no relation_model and entity_model"):
        tacit.train_encoder(other, tmp_path / "none", **options | {"checkpoint": gqe_run})


def test_processes_share_out_no_encoder(gqe_run: Path) -> None:
    folder = RunFolder.open(gqe_run)
    with pytest.raises(RunError, match="holds an encoder alone, which processes cannot share out"):
        read_weights(folder, "cpu", Shards(folder.graph().num_entities))
