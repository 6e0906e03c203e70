"""Published systems as settings: scores against formulas, and precedence of settings."""

from __future__ import annotations

import math
import pickle
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor
from typer.testing import CliRunner

import tacit
from tables import FactorScorer
from tacit.cli import app
from tacit.engine.atoms.atoms import Atoms
from tacit.engine.atoms.calibration import SoftmaxObserved
from tacit.engine.atoms.known_facts import KnownFacts
from tacit.engine.engine import Engine
from tacit.engine.logic import Logic
from tacit.engine.presets import PRESETS
from tacit.engine.reasoner import Reasoner
from tacit.engine.search.hop import Hop
from tacit.engine.settings import EngineSettings
from tacit.errors import SettingsError
from tacit.evaluate.evaluation import evaluate_engine
from tacit.evaluate.settings import EvaluateSettings
from tacit.graph.graph import Graph
from tacit.query.plans.plan import Plan
from tacit.run_folder.folder import RunFolder

N = 7
FACTS = [(0, 0, 1), (0, 0, 2), (3, 0, 1), (1, 1, 4), (2, 1, 5), (2, 1, 4), (6, 1, 0), (5, 0, 6)]
GRAPH = Graph.of(
    [(f"e{h}", "rq"[r], f"e{t}") for h, r, t in FACTS],
    [("e3", "r", "e6")],
    [("e0", "q", "e3")],
    "seven",
)
TABLES = np.random.default_rng(5).uniform(0.02, 0.98, (2, N, N))


def ids(*labels: str) -> list[int]:
    return [GRAPH.entities.id(label) for label in labels]


def logit(relation: str, head: int, tail: int) -> float:
    chance = TABLES["rq".index(relation)][head, tail]
    return math.log(chance / (1 - chance))


def matrix(preset: str, relation: str) -> list[list[float]]:
    """The published score of every atom, by its formula."""
    rows = []
    splits = PRESETS[preset].observed
    for head in range(N):
        known = [
            t
            for h, r, t in (fact for split in splits for fact in labelled(split))
            if (h, r) == (head, relation)
        ]
        raw = [logit(relation, head, tail) for tail in range(N)]
        soft = [math.exp(x) / sum(map(math.exp, raw)) for x in raw]
        if preset == "qto":
            row = [min(1 - 2**-10, max(1, len(known)) * p) for p in soft]
        elif preset == "fit":
            scale = len(known) / sum(soft[t] for t in known) if known else 1.0
            row = [min(1 - 0.001, scale * p) for p in soft]
        else:
            row = [0.9 * (x - min(raw)) / (max(raw) - min(raw)) for x in raw]
        rows.append([1.0 if tail in known else score for tail, score in enumerate(row)])
    return rows


def labelled(split: str) -> list[tuple[int, str, int]]:
    return [(h, GRAPH.relations[r], t) for h, r, t in GRAPH.split(split).tolist()]


@pytest.mark.parametrize("preset", PRESETS)
def test_a_preset_scores_as_its_formula_says(preset: str) -> None:
    engine = Engine(
        GRAPH,
        FactorScorer(list(TABLES)),
        preset=preset,
        observed=PRESETS[preset].observed,
        loops=True,
    )
    r = matrix(preset, "r")
    q = matrix(preset, "q")
    strength = 6.0 if preset == "qto" else 1.0
    (first, second) = ids("e0", "e3")
    for question, by_hand in {
        "?t : r(e0, ?t)": [r[first][t] for t in range(N)],
        "?t : r(e0, ?v) & q(?v, ?t)": [
            max(r[first][v] * q[v][t] for v in range(N)) for t in range(N)
        ],
        "?t : r(e0, ?t) & !q(e3, ?t)": [
            r[first][t] * (1 - min(1, strength * q[second][t])) for t in range(N)
        ],
        "?t : r(e0, ?t) | q(e3, ?t)": [
            1 - (1 - r[first][t]) * (1 - q[second][t]) for t in range(N)
        ],
    }.items():
        scores = {answer.id: answer.score for answer in engine.ask(question, top=None)}
        assert [scores.get(t, 0.0) for t in range(N)] == pytest.approx(by_hand, abs=2e-6), question
    assert engine.config["preset"] == preset


def test_known_tails_score_one_in_the_mean_and_gradients_are_those_of_the_formula() -> None:
    facts = KnownFacts(GRAPH.index("train"))
    heads = torch.arange(N).repeat(2)
    relations = torch.tensor([0, 2]).repeat_interleave(N)
    generator = torch.Generator().manual_seed(0)
    logits = torch.randn(2 * N, N, generator=generator).double().requires_grad_()
    weights = torch.randn(2 * N, N, generator=generator).double()
    scores = SoftmaxObserved(facts)(logits, heads, relations)
    parts = []
    for row, (head, relation) in enumerate(zip(heads.tolist(), relations.tolist(), strict=True)):
        tails = facts.tails(torch.tensor([head]), torch.tensor([relation]))[1].tolist()
        mean = (
            sum(logits[row, t].exp() for t in tails) / len(tails)
            if tails
            else logits[row].exp().sum()
        )
        parts.append((logits[row].exp() / mean).clamp(max=0.999).log())
    by_hand = torch.stack(parts)
    torch.testing.assert_close(scores, by_hand)
    found, expected = (
        torch.autograd.grad((values * weights).sum(), logits)[0] for values in (scores, by_hand)
    )
    torch.testing.assert_close(found, expected)


def test_what_is_impossible_has_no_part_in_the_scale() -> None:
    facts = KnownFacts(GRAPH.index("train"))
    none = -torch.inf
    head = torch.tensor(ids("e0"))
    relation = torch.tensor([0])
    tails = facts.tails(head, relation)[1]
    logits = torch.zeros(1, N).index_fill(1, tails, none)
    scores = SoftmaxObserved(facts)(logits.clone(), head, relation)
    torch.testing.assert_close(
        scores.exp(), torch.full((1, N), 1 / (N - 2)).index_fill(1, tails, 0.0)
    )
    assert SoftmaxObserved(facts)(torch.full((1, N), none), head, relation).isneginf().all()


@pytest.mark.parametrize("calibration", ["sigmoid", "minmax", "softmax-count"])
def test_a_ceiling_is_what_a_sure_prediction_is_worth(calibration: str) -> None:
    """A sigmoid hop goes by odds unless a fact is worth more than any prediction."""
    plain = Engine(GRAPH, FactorScorer(list(TABLES)), calibration=calibration, observed="none", k=3)
    for observed in ("none", "train"):
        low = plain.with_settings(ceiling=0.5, observed=observed)
        wholes = {answer.id: answer.score for answer in plain.ask("?t : r(e0, ?t)", top=None)}
        for answer in low.ask("?t : r(e0, ?t)", top=None):
            if answer.known:
                assert answer.score == pytest.approx(1 - 2**-10)
            elif calibration != "softmax-count":  # which counts what is observed
                assert answer.score == pytest.approx(0.5 * wholes[answer.id])
    atoms = Atoms(
        FactorScorer(list(TABLES)),
        plain.atoms.calibration,
        KnownFacts(GRAPH.index("train")),
        ceiling=0.5,
    )
    source = torch.randn(2, N, generator=torch.Generator().manual_seed(1)).sigmoid().log()
    relations = torch.tensor([0, 2])
    hop = Hop(atoms, Logic(), N, 10**6)
    rows = torch.stack([atoms.rows(torch.arange(N), r.expand(N)) for r in relations])
    torch.testing.assert_close(hop.over(source, relations), (source[:, :, None] + rows).amax(1))


def test_what_is_given_wins_and_both_are_said() -> None:
    # the usual values, yet given
    settings = EngineSettings(preset="qto", search="beam", strength=1.0)
    assert (settings.search, settings.strength, settings.observed_score) == ("beam", 1.0, 1.0)
    assert EngineSettings.of({"preset": "qto"}).search == "exact"
    assert EngineSettings.of(settings.to_dict()) == settings == pickle.loads(pickle.dumps(settings))
    engine = Engine(GRAPH, FactorScorer(list(TABLES)), preset="cqd-hybrid", k=3)
    assert {name: engine.config[name] for name in ("preset", "k", "ceiling", "calibration")} == {
        "preset": "cqd-hybrid",
        "k": 3,
        "ceiling": 0.9,
        "calibration": "minmax",
    }
    other = pickle.loads(pickle.dumps(engine.settings)).changed(preset="fit")
    assert (other.k, other.ceiling, other.calibration) == (3, None, "softmax-observed")
    assert other.changed(preset=None) == EngineSettings(k=3)
    for make in (
        lambda: EngineSettings(preset="cqa"),
        lambda: EngineSettings().changed(preset="cqa"),
    ):
        with pytest.raises(
            SettingsError, match="preset is 'cqa'; it must be one of qto, fit, cqd-hybrid"
        ):
            make()
    with pytest.raises(
        SettingsError, match=r"ceiling is 1\.0, above `observed_score`, 0.99.*, of a known fact"
    ):
        EngineSettings(ceiling=1.0)
    for preset in PRESETS.values():
        EngineSettings.of(preset.settings)
        assert preset.differs.endswith(".")


class ByDegree(Reasoner):
    """A stand-in for an encoder that scores entities by their number of facts."""

    def __init__(self, graph: Graph) -> None:
        self.num_entities = graph.num_entities
        self.liked = torch.bincount(
            torch.from_numpy(graph.split("train")[:, 2]).long(), minlength=graph.num_entities
        )

    def scores(self, plan: Plan, entities: Tensor, relations: Tensor) -> Tensor:
        return -1 / (1.0 + self.liked.expand(len(relations), -1))


def test_missing_links_are_counted_for_presets_and_for_what_is_no_search(run: RunFolder) -> None:
    opened = tacit.open(run.path, preset="qto")
    sets = {
        name: found.queries
        for name, found in opened.sample(shapes="1p,2i", split="test", count=8).items()
    }
    by_preset = opened.evaluate(sets, by_missing=True)
    engine = Engine(
        opened.graph, opened.engine.scorer, reasoner=ByDegree(opened.graph), observed="train"
    )
    by_encoder = evaluate_engine(engine, sets, EvaluateSettings(by_missing=True))
    for name in sets:
        rows = [
            {links: row["answers"] for links, row in e.by_missing[name].items()}
            for e in (by_preset, by_encoder)
        ]
        assert rows[0] == rows[1]  # the links are those of the graph, whoever ranks
        assert sum(rows[0].values()) == len(sets[name].hard.ids)
        mrr = [[row["mrr"] for row in e.by_missing[name].values()] for e in (by_preset, by_encoder)]
        assert mrr[0] != mrr[1]


def test_a_run_is_evaluated_as_the_system_was(run: RunFolder, tmp_path: Path) -> None:
    opened = tacit.open(run.path)
    said: dict[tuple[str, str], Any] = {
        (preset, split): opened.evaluate(preset=preset, split=split).settings
        for preset in PRESETS
        for split in ("test", "valid", "train")
    }
    observed = {each: settings["observed"] for each, settings in said.items()}
    for preset in ("qto", "fit"):
        assert [observed[preset, split] for split in ("test", "valid", "train")] == [
            "train",
            "train",
            "none",
        ]
    hybrid = [observed["cqd-hybrid", split] for split in ("test", "valid", "train")]
    assert hybrid == ["train+valid", "train", "none"]
    assert said["fit", "test"]["preset"] == "fit"
    assert tacit.open(run.path, preset="fit").engine.settings.observed == ("train", "valid", "test")
    result = CliRunner().invoke(
        app, ["eval", str(run.path), "--preset", "qto", "--k", "3", "--search", "beam"]
    )
    assert result.exit_code == 0, result.output
    assert "preset qto, search beam, k 3" in result.output
