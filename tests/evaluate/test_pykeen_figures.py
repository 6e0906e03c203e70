"""The mean per fact is what PyKEEN's own evaluator says."""

from __future__ import annotations

import logging
import warnings
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest
import torch

from tacit.engine.engine import Engine
from tacit.evaluate.protocol import evaluate, one_hop_queries
from tacit.evaluate.settings import EvaluateSettings
from tacit.graph.graph import Graph, directed
from tacit.graph.labels.vocabulary import Vocabulary
from tacit.links.pykeen import from_pykeen


@pytest.fixture(scope="module")
def nations() -> Iterator[Any]:
    """PyKEEN's Nations; PyKEEN warns and logs on import."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        logging.disable(logging.CRITICAL)
        yield pytest.importorskip("pykeen.datasets").Nations()
        logging.disable(logging.NOTSET)


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("kind", ["ComplEx", "DistMult"])
@pytest.mark.parametrize("split", ["valid", "test"])
def test_per_fact_is_what_pykeen_measures_on_both_sides(
    nations: Any, kind: str, split: str
) -> None:
    from pykeen.evaluation import RankBasedEvaluator
    from pykeen.models import model_resolver

    model = model_resolver.make(
        kind, triples_factory=nations.training, embedding_dim=8, random_seed=1
    )
    parts = [
        factory.mapped_triples
        for factory in (nations.training, nations.validation, nations.testing)
    ]
    at = ("train", "valid", "test").index(split)
    theirs = RankBasedEvaluator(filtered=True).evaluate(
        model, parts[at], additional_filter_triples=parts[:at], use_tqdm=False, batch_size=64
    )

    train, valid, test = (
        (triples * torch.tensor([1, 2, 1])).numpy().astype(np.int32) for triples in parts
    )
    labels = [
        sorted(ids, key=ids.get)
        for ids in (nations.training.entity_to_id, nations.training.relation_to_id)
    ]
    graph = Graph(Vocabulary(labels[0]), directed(labels[1]), train, valid, test)
    engine = Engine(
        graph,
        from_pykeen(model),
        search="exact",
        calibration="sigmoid",
        observed="none",
        loops=True,
    )
    queries = one_hop_queries(graph, split)
    ours = evaluate(engine.reasoner, {"1p": queries}, EvaluateSettings(mean="fact"))
    assert len(queries.hard.ids) == 2 * len(parts[at])
    assert ours.mrr["1p"] == pytest.approx(
        theirs.get_metric("both.realistic.inverse_harmonic_mean_rank"), abs=1e-6
    )
    assert ours.metric("hits@3")["1p"] == pytest.approx(
        theirs.get_metric("both.realistic.hits_at_3"), abs=1e-6
    )
    assert abs(ours.metric("mrr", "question")["1p"] - ours.mrr["1p"]) > 1e-3  # the means do differ
