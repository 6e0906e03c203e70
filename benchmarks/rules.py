"""Mining rules: seconds, peak memory, numbers of rules, and how well they predict alone.

    python benchmarks/rules.py [--graphs world,NELL995,FB15k-237] [--entities 1000000]

MRR is that of BetaE's 1p questions: every (head, relation) with a fact in a split, in both
directions, its answers ranked among non-answers, the mean of a question. Rules are mined from
training facts. Peak memory is that of mining alone, beside the graph and its index.
"""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from functools import partial
from multiprocessing import get_context
from typing import Any

import numpy as np
import torch

from scaffold import Benchmark, Measured, graph_of, status_bytes, timed
from scale import generated
from tacit.evaluate.protocol import one_hop_queries, sample
from tacit.graph.graph import Graph
from tacit.links.ranking import by_query, ranks
from tacit.links.rules.mining import mine
from tacit.links.rules.rule_scorer import RuleScorer
from tacit.links.rules.rule_set import NONE, SAMPLED, RuleSet
from tacit.links.rules.settings import RuleSettings

BATCH = 64
# seconds on 2 cores, and the MRR of rules alone
GOALS = {"world": (1.0, 0.0), "NELL995": (20.0, 0.56), "FB15k-237": (20.0, 0.43)}


def mined(graph: Graph, settings: RuleSettings) -> tuple[RuleSet, dict[str, Any]]:
    """The rules of a graph, and what mining them took."""
    graph.index("train")
    before = status_bytes("VmRSS")
    done = timed(partial(mine, graph, settings))
    rules = done.made
    lengths = (rules.body != NONE).sum(axis=1)
    closed = rules.tail == NONE
    return rules, {
        "s": done.wall,
        "cpu_s": done.processor,
        "peak_gb": max(0, status_bytes("VmHWM") - before) / 1e9,
        **{f"closed {n}": int((closed & (lengths == n)).sum()) for n in (1, 2, 3)},
        "existence": int((~closed & (rules.end == NONE)).sum()),
        "constant": int((rules.end != NONE).sum()),
        "sampled": int((rules.flags & SAMPLED > 0).sum()),
    }


def mrr(graph: Graph, rules: RuleSet, split: str, limit: int) -> float:
    """The mean reciprocal rank of 1p questions that rules alone answer."""
    scorer = RuleScorer(rules, graph.index("train"), graph.num_entities)
    queries = sample(one_hop_queries(graph, split), limit or None)
    known = graph.index(*(("train", "valid") if split == "valid" else ("train", "valid", "test")))
    total = 0.0
    # rows of one relation side by side share joins
    order = np.lexsort((queries.entities[:, 0], queries.relations[:, 0]))
    queries = queries.subset(order)
    for start in range(0, len(queries), BATCH):
        part = queries[start : start + BATCH]
        heads, relations = (
            column[:, 0].astype(np.int64) for column in (part.entities, part.relations)
        )
        rows = np.repeat(np.arange(len(part)), part.hard.counts)
        scores = scorer.logits(torch.from_numpy(heads), torch.from_numpy(relations))
        answers = (rows, np.asarray(part.hard.ids), *known.neighbours(heads, relations))
        row, hard, known_row, others = map(torch.from_numpy, answers)
        found = ranks(scores, row, hard, known_row, others)
        total += float(by_query(found, torch.from_numpy(rows))["mrr"].sum())
    return total / max(1, len(queries))


def figures_of(name: str, given: argparse.Namespace) -> dict[str, Any]:
    """The figures of one graph, in a process whose peak memory is that of this graph."""
    settings = RuleSettings(length=given.length, seconds=given.seconds, seed=given.seed)
    if name == "generated":
        graph = generated(given.entities, 5 * given.entities, given.relations, given.seed)
        return mined(graph, settings)[1]
    graph = graph_of(given, name)
    rules, figures = mined(graph, settings)
    for split in ("valid", "test"):
        figures[f"{split}_mrr"] = mrr(graph, rules, split, given.questions)
    return figures


def measure(given: argparse.Namespace) -> Measured:
    """The figures of all graphs, and the aims that were missed."""
    names = [name for name in given.graphs.split(",") if name]
    names += ["generated"] * (given.entities > 0)
    figures: dict[str, dict[str, Any]] = {}
    for name in names:
        if given.tiny:
            figures[name] = figures_of(name, given)
            continue
        with get_context("spawn").Pool(1) as pool:
            figures[name] = pool.apply(figures_of, (name, given))
    missed = []
    for name, (seconds, least) in GOALS.items():
        row = figures.get(name)
        if row is not None and row["s"] > seconds:
            missed.append(f"{name} takes {row['s']:.1f} s")
        if row is not None and row["test_mrr"] < least and not given.questions:
            missed.append(f"{name} has an MRR of {row['test_mrr']:.3f}")
    return Measured(figures, missed=missed)


def main(argv: Sequence[str] | None = None) -> None:
    """Print a table, write it as JSON, and fail where an aim is missed."""
    benchmark = Benchmark(__file__, __doc__)
    benchmark.size("--graphs", "world,NELL995,FB15k-237", tiny="NELL995")
    benchmark.size("--entities", 0, tiny=300, help="of a generated graph, with five facts each")
    benchmark.size("--relations", 100, tiny=3, help="of that graph")
    benchmark.size("--questions", 0, tiny=20, help="1p questions of a split; 0: all")
    benchmark.add_argument("--length", type=int, default=RuleSettings().length)
    benchmark.size("--seconds", RuleSettings().seconds, tiny=0.1)
    benchmark.run(measure, argv)


if __name__ == "__main__":
    main()
