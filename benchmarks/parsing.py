"""Reading questions: texts a second through parsing, and through parsing, planning and naming.

    python benchmarks/parsing.py [--queries 6000]

Questions are the 14 benchmark shapes as text, each with its own names. Seconds are of processor time on one core, so
that other work on the machine does not count.
"""

from __future__ import annotations

import argparse
import json
import random
import time
from collections.abc import Callable
from pathlib import Path

from tacit.graph.datasets import load
from tacit.query.compile import compile_query
from tacit.query.names import bind
from tacit.query.shapes import SHAPES
from tacit.query.sparql import parse_sparql
from tacit.query.text import parse

SPARQL = "PREFIX : <tacit:> SELECT ?c { :France :borders ?n . ?n :borders ?c MINUS { ?c :speaks :German } } LIMIT 10"


def texts(count: int, entities: list[str], relations: list[str]) -> list[str]:
    """Questions of every shape in turn, over random names of a graph."""
    rng = random.Random(0)
    shapes = [str(shape.query) for shape in SHAPES.values()]
    found = []
    for i in range(count):
        text = shapes[i % len(shapes)]
        for slot in range(1, 4):
            text = text.replace(f"e{slot}", f'"{rng.choice(entities)}"').replace(
                f"r{slot}(", f"{rng.choice(relations)}("
            )
        found.append(text)
    return found


def per_second(work: Callable[[str], object], questions: list[str]) -> float:
    """Questions a second of processor time; the first one loads the parser and is not counted."""
    work(questions[0])
    start = time.process_time()
    for question in questions:
        work(question)
    return len(questions) / (time.process_time() - start)


def main() -> None:
    """Print a table and write the figures as JSON."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--queries", type=int, default=6000)
    parser.add_argument("--out", type=Path, default=Path(__file__).parent / "results")
    given = parser.parse_args()
    graph = load("world")
    questions = texts(given.queries, graph.entities.labels, graph.relations.labels[::2])
    parsed = {text: parse(text) for text in questions}
    results = {
        "text": per_second(parse, questions),
        "plan": per_second(lambda text: compile_query(parsed[text]), questions),
        "text, plan and names": per_second(lambda text: bind(compile_query(parse(text)), graph), questions),
        "SPARQL": per_second(parse_sparql, [SPARQL] * 300),
    }
    for name, rate in results.items():
        print(f"{name:24}{rate:10,.0f} a second")
    given.out.mkdir(exist_ok=True)
    report = {"settings": {"queries": given.queries}, "per_second": results}
    (given.out / "parsing.json").write_text(json.dumps(report, indent=2) + "\n")


if __name__ == "__main__":
    main()
