"""Exact answers of the official queries, compared with the stored ones and timed beside dicts of sets.

python benchmarks/symbolic.py [--data FOLDER]

The folder (or the variable TACIT_DATA, `.bench` by default) holds NELL995 and FB15k-237 as BetaE folders with their
queries. Every query of every type is answered on both graphs of its split; De Morgan forms are taken literally as well.
"""

from __future__ import annotations

import argparse
import json
import os
import sys
import time
from collections import defaultdict
from pathlib import Path
from typing import Any

from tacit.graph.datasets import load
from tacit.graph.graph import Graph
from tacit.query.queries import QuerySet, read_queries
from tacit.query.shapes import Shape
from tacit.query.symbolic import GRAPHS, easy_and_hard

FILES = (("NELL995", "test"), ("NELL995", "valid"), ("FB15k-237", "valid"))
GOAL = 20.0  # seconds for NELL995's test queries on both graphs, on 2 cores
FEW = 500  # queries of a type that the dicts of sets answer too


def compare(queries: QuerySet, graph: Graph, split: str) -> dict[str, float]:
    """How many queries have other answers than the stored ones, and the time of one pass over both graphs."""
    start = time.perf_counter()
    easy, hard = easy_and_hard(queries.shape.plan, queries.entities, queries.relations, graph, split)
    seconds = time.perf_counter() - start
    wrong = ~(easy.same(queries.easy) & hard.same(queries.hard))
    if queries.encoding == "dm":
        literal = Shape.of_structure(queries.shape.encoded("dm")).plan
        easy, hard = easy_and_hard(literal, queries.entities, queries.relations, graph, split)
        wrong |= ~(easy.same(queries.easy) & hard.same(queries.hard))
    return {"queries": len(queries), "answers": len(easy.ids) + len(hard.ids), "wrong": int(wrong.sum()), "s": seconds}


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
        found = self.answers(query[0])
        for step in query[1]:
            found = self.everything - found if step == -2 else self.reached(found, step)
        return found

    def reached(self, heads: set[int], relation: int) -> set[int]:
        """The tails of a relation from some heads."""
        return set().union(*(self.facts[h][relation] for h in heads if h in self.facts and relation in self.facts[h]))


def ratio(queries: QuerySet, graph: Graph, split: str, dicts: list[DictsOfSets]) -> float:
    """The time of dicts of sets over Tacit's, on some of the queries and both graphs."""
    few = queries.share(FEW / len(queries)) if len(queries) > FEW else queries
    tuples = few.tuples()
    start = time.perf_counter()
    easy, every = ([one.answers(query) for query in tuples] for one in dicts)
    slow = time.perf_counter() - start
    start = time.perf_counter()
    found = easy_and_hard(few.shape.plan, few.entities, few.relations, graph, split)
    fast = time.perf_counter() - start
    if [one.to_sets() for one in found] != [easy, [a - b for a, b in zip(every, easy, strict=True)]]:
        sys.exit(f"{queries.name}: the answers differ from those of dicts of sets")
    return slow / fast


def main() -> None:
    """Print a table and write `benchmarks/results/symbolic.json`."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", type=Path, default=Path(os.environ.get("TACIT_DATA", ".bench")))
    data = parser.parse_args().data
    results: dict[str, Any] = {}
    for name, split in FILES:
        if not (data / name / f"{split}-queries.pkl").exists():
            print(f"{data / name} has no {split} queries: skipped (set TACIT_DATA or --data)")
            continue
        graph, sets = load(data / name), read_queries(data / name, split)
        dicts = [DictsOfSets(graph, *parts) for parts in GRAPHS[split]]
        for parts in GRAPHS[split]:
            graph.index(*parts)
        print(f"\n{name} {split:10} queries    answers  wrong       s   dicts of sets")
        rows = {}
        for kind, queries in sets.items():
            row = compare(queries, graph, split) | {"ratio": ratio(queries, graph, split, dicts)}
            rows[kind] = row
            print(
                f"{kind:18} {row['queries']:7,} {row['answers']:10,} {row['wrong']:6} {row['s']:7.2f} "
                f"{row['ratio']:9.1f} x"
            )
        total = {key: sum(row[key] for row in rows.values()) for key in ("queries", "answers", "wrong", "s")}
        print(f"{'total':18} {total['queries']:7,} {total['answers']:10,} {total['wrong']:6} {total['s']:7.2f}")
        results[f"{name} {split}"] = {"total": total, "types": rows}
    if not results:
        return
    folder = Path(__file__).parent / "results"
    folder.mkdir(exist_ok=True)
    (folder / "symbolic.json").write_text(json.dumps(results, indent=2) + "\n", encoding="utf-8")
    wrong = sum(one["total"]["wrong"] for one in results.values())
    slow = results.get("NELL995 test", {"total": {"s": 0.0}})["total"]["s"] > GOAL
    if wrong or slow:
        sys.exit(f"{wrong} queries with wrong answers" if wrong else f"NELL995's test queries took over {GOAL} s")


if __name__ == "__main__":
    main()
