"""Training validates on questions, drawn once and kept with the run."""

from __future__ import annotations

import statistics
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch

import tacit
from ring_runs import GRAPH, SMALL, interrupt_at, new_run
from tacit.evaluate.question_validation import (
    FEWEST,
    VALIDATED,
    QuestionValidation,
    affordable,
    validation,
)
from tacit.graph.graph import Graph
from tacit.links.training.link_training import Training
from tacit.query.sampling.queries import QuerySet
from tacit.run_folder.files import QUESTIONS
from tacit.run_folder.folder import RunFolder

SETTINGS = {name: value for name, value in SMALL.to_dict().items() if value is not None}


def steps(graph: Graph, *splits: str) -> dict[tuple[int, int], set[int]]:
    """The tails of every head and relation, inverses included, by sets alone."""
    tails: dict[tuple[int, int], set[int]] = {}
    for split in splits:
        for head, relation, tail in graph.split(split).tolist():
            tails.setdefault((head, relation), set()).add(tail)
            tails.setdefault((tail, relation ^ 1), set()).add(head)
    return tails


def test_questions_need_a_validation_fact_and_know_nothing_of_the_test() -> None:
    questions = QuestionValidation(GRAPH, SMALL.with_derived(42, 24)).questions
    assert {"1p", "2p", "2i"} <= set(questions) <= set(VALIDATED)
    queries = questions["2p"]
    for number in range(len(queries)):
        start = int(queries.entities[number, 0])
        (first, second) = queries.relations[number].tolist()
        found = []
        for splits in (("train",), ("train", "valid")):
            tails = steps(GRAPH, *splits)
            found.append(
                {t for m in tails.get((start, first), ()) for t in tails.get((m, second), ())}
            )
        assert set(queries.easy[number].tolist()) == found[0]
        assert set(queries.hard[number].tolist()) == found[1] - found[0] != set()


def test_the_figure_of_one_atom_is_its_filtered_rank() -> None:
    ask = QuestionValidation(GRAPH, SMALL.with_derived(42, 24))
    model = Training(GRAPH, replace(SMALL, init=1.0)).module
    queries = ask.questions["1p"]
    reciprocal = []
    for number in range(len(queries)):
        head = queries.entities[number]
        relation = queries.relations[number]
        scores = (
            model.logits(torch.from_numpy(head).long(), torch.from_numpy(relation).long())[0]
            .detach()
            .numpy()
        )
        # No relation of the ring loops, so that the entity asked about does not compete either.
        answers = {*queries.easy[number].tolist(), *queries.hard[number].tolist(), int(head[0])}
        wrong = np.array([scores[e] for e in range(GRAPH.num_entities) if e not in answers])
        ranks = [
            1 + (wrong > scores[e]).sum() + (wrong == scores[e]).sum() / 2
            for e in queries.hard[number].tolist()
        ]
        reciprocal.append(np.mean(1 / np.array(ranks)))
    assert ask(model)["1p"] == pytest.approx(np.mean(reciprocal), abs=1e-6)


def test_questions_are_drawn_once_and_kept_with_the_run(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    settings = SMALL.with_derived(42, 24)
    run = new_run(tmp_path / "run", settings)
    drawn = QuestionValidation(GRAPH, settings, run).questions
    monkeypatch.setattr(
        "tacit.evaluate.question_validation.sample",
        lambda *args, **options: pytest.fail("drawn again"),
    )
    stored_questions = QuestionValidation(GRAPH, settings, RunFolder.open(run.path)).questions

    def plain(queries: QuerySet) -> list[object]:
        answers = queries.easy.to_sets(), queries.hard.to_sets()
        return [queries.shape, queries.entities.tolist(), queries.relations.tolist(), *answers]

    assert list(stored_questions) == list(drawn)
    assert all(plain(stored_questions[name]) == plain(drawn[name]) for name in drawn)


def test_questions_decide_and_results_say_which(tmp_path: Path) -> None:
    tacit.train(GRAPH, tmp_path / "run", progress=False, **SETTINGS)
    run = RunFolder.open(tmp_path / "run")
    lines = [
        event
        for event in run.events()
        if event["event"] == "epoch" and event["valid_mrr"] is not None
    ]
    assert [line["epoch"] for line in lines] == [2, 4, 6]
    assert all(
        line["valid_mrr"] == pytest.approx(statistics.fmean(line["mrr"].values())) for line in lines
    )
    best = max(lines, key=lambda line: line["valid_mrr"])
    results = run.results()["train"]
    assert (results["best_epoch"], results["valid_mrr"], results["mrr"]) == (
        best["epoch"],
        best["valid_mrr"],
        best["mrr"],
    )
    assert {"1p", "2p", "2i"} <= set(results["mrr"])
    tacit.train(
        GRAPH, tmp_path / "run", progress=False, force=True, **{**SETTINGS, "validate_on": "facts"}
    )
    assert set(RunFolder.open(tmp_path / "run").results()["train"]["mrr"]) == {"1p"}
    assert not run.has(QUESTIONS)  # it went with the run that was replaced


def test_going_on_ends_where_an_unstopped_training_does(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    whole = tacit.train(GRAPH, tmp_path / "whole", progress=False, **SETTINGS)
    with monkeypatch.context() as patch:
        interrupt_at(patch, 30)  # of 54, after the first validation
        with pytest.raises(KeyboardInterrupt):
            tacit.train(GRAPH, tmp_path / "cut", progress=False, **SETTINGS)
    cut = tacit.train(GRAPH, tmp_path / "cut", progress=False, resume=True)
    assert cut.results["train"]["mrr"] == whole.results["train"]["mrr"]
    weights = [run.folder.tensors("model.safetensors") for run in (whole, cut)]
    assert all(torch.equal(weights[0][name], weights[1][name]) for name in weights[0])


def test_without_validation_facts_nothing_is_asked() -> None:
    graph = Graph(GRAPH.entities, GRAPH.relations, GRAPH.train)
    assert validation(graph, SMALL) is None
    assert validation(GRAPH, replace(SMALL, validate_on="facts")) is None


def test_a_validation_takes_a_tenth_of_the_epochs_between_two() -> None:
    facts = np.zeros((10_000, 3), dtype=np.int32)
    graph = replace(Graph.of([(f"e{i}", "r", f"e{i + 1}") for i in range(999)]), train=facts)
    settings = replace(SMALL, validate_every=5, validate_questions=10_000)
    # Products: 3 for each of 20,000 triples in 5 epochs; 1 + 33 + 65 + 2 + 3 + 34 + 34 rows for a
    # question of each shape, each counted twice.
    assert affordable(graph, settings) == int(0.1 * 3 * 20_000 * 5 / (2 * 172))
    assert affordable(graph, replace(settings, negatives=500)) == int(
        0.1 * 3 * 20_000 * 5 / 2 / (2 * 172)
    )
    assert affordable(graph, replace(settings, validate_questions=7)) == max(7, FEWEST)
    assert affordable(GRAPH, SMALL.with_derived(42, 24)) == FEWEST
