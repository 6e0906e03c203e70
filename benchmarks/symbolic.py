"""Exact answers of official queries beside the stored ones, timed beside dicts of sets.

    python benchmarks/symbolic.py [--data FOLDER]

The folder holds NELL995 and FB15k-237 as BetaE folders with their queries. Every query of every
type is answered on both graphs of its split; De Morgan forms are taken literally as well.
"""

from __future__ import annotations

import argparse
import sys
from collections import defaultdict
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from scaffold import Benchmark, Measured, seconds
from tacit.graph.datasets import load
from tacit.graph.graph import Graph
from tacit.query.plans.sets import AnswerSets
from tacit.query.sampling.queries import GRAPHS, QuerySet, easy_and_hard, read_queries
from tacit.query.sampling.shapes import Shape

FILES = (("NELL995", "test"), ("NELL995", "valid"), ("FB15k-237", "valid"))
GOAL = 20.0  # seconds for NELL995's test queries on both graphs, on 2 cores


class DictsOfSets:
    """The usual way: `facts[head][relation]` is a set, and a query one set after the other."""

    def __init__(self, graph: Graph, *parts: str) -> None:
        self.everything = set(range(graph.num_entities))
        self.facts: dict[int, dict[int, set[int]]] = defaultdict(lambda: defaultdict(set))
        for head, relation, tail in graph.triples(*parts).tolist():
            self.facts[head][relation].add(tail)

    def answers(self, query: Any) -> set[int]:
        """The answers of a BetaE tuple."""
        if isinstance(query, int):
            return {query}
        if not all(isinstance(step, int) and step != -1 for step in query[-1]):
            sets = [self.answers(part) for part in query if part != (-1,)]
            return set.union(*sets) if query[-1] == (-1,) else set.intersection(*sets)
        reached = self.answers(query[0])
        for step in query[1]:
            reached = self.everything - reached if step == -2 else self.tails(reached, step)
        return reached

    def tails(self, heads: set[int], relation: int) -> set[int]:
        """The tails of a relation from some heads."""
        return set().union(
            *(
                self.facts[h][relation]
                for h in heads
                if h in self.facts and relation in self.facts[h]
            )
        )


class Split:
    """The graph and the queries of one split, and the dicts of sets of its two graphs."""

    def __init__(self, folder: Path, split: str, few: int) -> None:
        self.graph = load(folder)
        self.split = split
        self.few = few
        self.queries = read_queries(folder, split)
        self.dicts = [DictsOfSets(self.graph, *parts) for parts in GRAPHS[split]]
        for parts in GRAPHS[split]:
            self.graph.index(*parts)

    def answers(
        self, queries: QuerySet, shape: Shape | None = None
    ) -> tuple[AnswerSets, AnswerSets]:
        """The easy and the hard answers, by the shape of the queries or another reading of them."""
        plan = (shape or queries.shape).plan
        return easy_and_hard(plan, queries.entities, queries.relations, self.graph, self.split)

    def compare(self, queries: QuerySet) -> dict[str, float]:
        """The number of queries with wrong answers, and the time beside that of dicts of sets."""
        readings: list[tuple[AnswerSets, AnswerSets]] = []
        taken = seconds(lambda: readings.append(self.answers(queries)))
        if queries.encoding == "dm":
            readings.append(self.answers(queries, Shape.of_structure(queries.shape.encoded("dm"))))
        answers = [zip(easy.to_sets(), hard.to_sets(), strict=True) for easy, hard in readings]
        stored = zip(queries.easy.to_sets(), queries.hard.to_sets(), strict=True)
        wrong = sum(
            any(reading != right for reading in each)
            for right, *each in zip(stored, *answers, strict=True)
        )
        number = sum(len(answers.ids) for answers in readings[0])
        return {
            "queries": len(queries),
            "answers": number,
            "wrong": wrong,
            "s": taken,
            "dicts ratio": self.ratio(queries),
        }

    def ratio(self, queries: QuerySet) -> float:
        """The time of dicts of sets over Tacit's, on some of the queries and both graphs."""
        few = queries.share(self.few / len(queries)) if len(queries) > self.few else queries
        tuples = few.tuples()
        theirs = list[list[set[int]]]()
        ours = list[tuple[AnswerSets, AnswerSets]]()
        slow = seconds(
            lambda: theirs.extend(
                [facts.answers(query) for query in tuples] for facts in self.dicts
            )
        )
        fast = seconds(lambda: ours.append(self.answers(few)))
        easy, every = theirs
        if [answers.to_sets() for answers in ours[0]] != [
            easy,
            [a - b for a, b in zip(every, easy, strict=True)],
        ]:
            sys.exit(f"{queries.name}: the answers differ from those of dicts of sets")
        return slow / fast


def measure(args: argparse.Namespace) -> Measured:
    """All files of queries that are there."""
    figures: dict[str, dict[str, float]] = {}
    for name, split in FILES:
        folder = args.data / name
        if not (folder / f"{split}-queries.pkl").exists():
            print(f"{folder} has no {split} queries: skipped (set TACIT_DATA or --data)")
            continue
        files = Split(folder, split, args.few)
        rows = {
            f"{name} {split} {kind}": files.compare(queries)
            for kind, queries in files.queries.items()
        }
        total = {
            key: sum(row[key] for row in rows.values())
            for key in ("queries", "answers", "wrong", "s")
        }
        figures |= rows | {f"{name} {split} total": total}
    missed = [
        f"{row['wrong']} wrong answers in {name}" for name, row in figures.items() if row["wrong"]
    ]
    slow = figures.get("NELL995 test total", {"s": 0.0})["s"] > GOAL
    return Measured(
        figures, missed=[*missed, f"NELL995's test queries took over {GOAL} s"] if slow else missed
    )


def main(argv: Sequence[str] | None = None) -> None:
    """Print a table and write the figures as JSON."""
    benchmark = Benchmark(__file__, __doc__)
    benchmark.size("--few", 500, tiny=2, help="queries of a type that the dicts of sets answer too")
    benchmark.run(measure, argv)


if __name__ == "__main__":
    main()
