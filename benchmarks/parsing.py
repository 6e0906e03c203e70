"""Speed of reading questions: texts a second through parsing, then with planning and naming.

    python benchmarks/parsing.py [--queries 6000]

Questions are the 14 benchmark shapes as text, each with its own names. Seconds are of processor
time on one core, so that other work on the machine does not count.
"""

from __future__ import annotations

import argparse
import random
from collections.abc import Callable, Sequence

from scaffold import Benchmark, Measured, timed
from tacit.graph.datasets import load
from tacit.query.plans.compile import compile_query
from tacit.query.question import bind
from tacit.query.sampling.shapes import SHAPES
from tacit.query.sparql.sparql import parse_sparql
from tacit.query.text import parse

SPARQL = (
    "PREFIX : <tacit:> SELECT ?c { :France :borders ?n . ?n :borders ?c "
    "MINUS { ?c :speaks :German } } LIMIT 10"
)


def texts(count: int, entities: Sequence[str], relations: Sequence[str], seed: int) -> list[str]:
    """Questions of every shape in turn, over random names of a graph."""
    draw = random.Random(seed)
    shapes = [str(shape.query) for shape in SHAPES.values()]
    questions = []
    for i in range(count):
        text = shapes[i % len(shapes)]
        for slot in range(1, 4):
            text = text.replace(f"e{slot}", f'"{draw.choice(entities)}"')
            text = text.replace(f"r{slot}(", f"{draw.choice(relations)}(")
        questions.append(text)
    return questions


def per_second(work: Callable[[str], object], questions: list[str]) -> float:
    """Questions a second of processor time; the first one loads the parser and is not counted."""
    work(questions[0])
    return len(questions) / timed(lambda: [work(question) for question in questions]).processor


def measure(args: argparse.Namespace) -> Measured:
    """Questions a second, by what is done with them."""
    graph = load("world")
    questions = texts(args.queries, graph.entities.labels, graph.relations.labels[::2], args.seed)
    parsed = {text: parse(text) for text in questions}
    rates = {
        "text": per_second(parse, questions),
        "plan": per_second(lambda text: compile_query(parsed[text]), questions),
        "text, plan and names": per_second(
            lambda text: bind(compile_query(parse(text)), graph), questions
        ),
        "SPARQL": per_second(parse_sparql, [SPARQL] * max(1, args.queries // 20)),
    }
    return Measured({name: {"per_s": rate} for name, rate in rates.items()})


def main(argv: Sequence[str] | None = None) -> None:
    """Print a table and write the figures as JSON."""
    benchmark = Benchmark(__file__, __doc__)
    benchmark.size("--queries", 6000, tiny=28)
    benchmark.run(measure, argv)


if __name__ == "__main__":
    main()
