"""How well questions with comparisons are answered where values are missing, and what they cost.

    python benchmarks/value_questions.py [--count 300] [--asked 60]

Test questions of 2ia (a hop and a comparison), pa (two hops) and ina (a hop, where the comparison
must not hold) on `world`, by a run trained with the defaults, and on FB15k-237 with its numbers, by
rules alone; training facts and values are known. `predicted` is the MRR of the hard answers where
missing values are predicted, `missing is false` where they satisfy no comparison, and `without`
that of the same answers to the question without its comparison. `held out` counts the answers whose
value is none of training; `value` and `link` are the MRR of these and of the others. Milliseconds
are the median processor time of a question: its hops, asked again, and then asked for the first
time with the comparison, and with an atom in its place.
"""

from __future__ import annotations

import argparse
from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from statistics import median
from typing import Any

import numpy as np

import tacit
from scaffold import Benchmark, Measured, data_folder, timed
from tacit.engine.engine import Engine
from tacit.engine.questions import BoundQuery
from tacit.evaluate.protocol import measure as rank
from tacit.evaluate.results import Figures
from tacit.graph.fact_index import Flags, Ids
from tacit.graph.graph import SPLITS, Graph
from tacit.query.comparison import Comparison
from tacit.query.formula import And, Atom, Entity, Formula, Not, Query, leaves
from tacit.query.plans.compile import compile_query
from tacit.query.sampling.comparison_shapes import COMPARISON_SHAPES
from tacit.query.sampling.queries import QuerySet
from tacit.query.sampling.shapes import Shape
from values import NUMBERS, invented_numbers, read_numbers

NOISE = 1.05  # of medians on a machine that others use
MODELS = {"world": "complex", "FB15k-237": "rules"}  # the second takes minutes else


def graph_with_values(args: argparse.Namespace, name: str) -> Graph:
    """`world`, or FB15k-237 with its numbers."""
    if args.tiny:
        return invented_numbers(tacit.load(data_folder(args, "FB15k-237")))
    if name == "world":
        return tacit.load(name)
    folder = data_folder(args, name)
    return read_numbers(tacit.load(folder), folder / "entity-names.tsv", data_folder(args, NUMBERS))


def engines_of(args: argparse.Namespace, name: str) -> dict[str, Engine]:
    """A run's engine that knows training facts and values, with and without predicted values."""
    folder: Path = args.scratch / name
    model = "rules" if args.tiny else MODELS[name]
    graph = graph_with_values(args, name)
    run = tacit.train(graph, folder, model=model, progress=False, seed=args.seed)
    engine = run.engine.with_settings(observed="train", candidates="rows")
    parts = engine.parts
    return {
        "predicted": engine,
        "missing is false": Engine(parts.graph, parts.scorer, parts.settings, rules=parts.rules),
    }


def parts_of(queries: QuerySet) -> tuple[Formula, Formula]:
    """The hops of a shape, and what it compares."""
    formula = queries.shape.query.formula
    assert isinstance(formula, And)
    hops, compared = formula.parts
    return hops, compared


def with_formula(
    queries: QuerySet,
    formula: Formula,
    entities: Mapping[str, Ids] | None = None,
    relations: Mapping[str, Ids] | None = None,
) -> QuerySet:
    """Another question by the names of the shape, and further ones, with the same answers."""
    query = Query(queries.shape.query.target, formula)
    own, other = compile_query(queries.shape.query), compile_query(query)
    columns = (
        dict(zip(own.entities, queries.entities.T, strict=True)) | dict(entities or {}),
        dict(zip(own.relations, queries.relations.T, strict=True)) | dict(relations or {}),
    )
    return replace(
        queries,
        shape=Shape(queries.shape.name, query, other.plan),
        entities=np.stack([columns[0][name] for name in other.entities], axis=1),
        relations=np.stack([columns[1][name] for name in other.relations], axis=1),
    )


def with_atom(graph: Graph, queries: QuerySet, draw: np.random.Generator) -> QuerySet:
    """The questions with an atom in place of the comparison: a fact of the first hard answer."""
    index = graph.index()
    answers = queries.hard.ids[queries.hard.offsets[:-1]]
    at = draw.integers(*np.searchsorted(index.heads, [answers, answers + 1]))
    hops, compared = parts_of(queries)
    atom: Formula = Atom("r", Entity("e"), queries.shape.query.target)
    atom = Not(atom) if isinstance(compared, Not) else atom
    ends = {"e": index.all_tails[index.offsets[at]]}
    return with_formula(queries, hops & atom, ends, {"r": index.relations[at] ^ 1})


def is_held_out(graph: Graph, queries: QuerySet) -> Flags:
    """Which hard answers have a value of the compared attribute, and none in training."""
    compared = next(
        leaf for leaf in leaves(queries.shape.query.formula) if isinstance(leaf, Comparison)
    )
    attribute = compared.left.attribute
    held_out = graph.values(*SPLITS).known(attribute) & ~graph.values("train").known(attribute)
    flags: Flags = held_out[queries.hard.ids]
    return flags


def means(name: str, figures: Sequence[Figures], masks: Sequence[Flags]) -> dict[str, float]:
    """The MRR of the questions of several shapes, and of their answers that masks tell apart."""
    found = {name: float(np.concatenate([each.by_query["mrr"] for each in figures]).mean())}
    groups = [each.grouped(mask.astype(int)) for each, mask in zip(figures, masks, strict=True)]
    for key, about in ((1, "value"), (0, "link")):
        rows = [group[key] for group in groups if key in group]
        if rows:
            weights = [row["queries"] for row in rows]
            found[f"{name}, {about}"] = float(
                np.average([row["mrr"] for row in rows], weights=weights)
            )
    return found


def ranked(engines: Mapping[str, Engine], sets: Sequence[QuerySet]) -> dict[str, Any]:
    """The MRR of all questions of a shape, with and without predictions or the comparison."""
    engine = engines["predicted"]
    masks = [is_held_out(engine.graph, each) for each in sets]
    row: dict[str, Any] = {
        "questions": sum(map(len, sets)),
        "answers": sum(map(len, masks)),
        "held out": int(sum(mask.sum() for mask in masks)),
    }
    bare = [with_formula(each, parts_of(each)[0]) for each in sets]
    row |= means("without", [rank(engine.reasoner, each) for each in bare], masks)
    for name, each in engines.items():
        row |= means(name, [rank(each.reasoner, queries) for queries in sets], masks)
    return row


def costs(
    engine: Engine, sets: Sequence[QuerySet], asked: int, draw: np.random.Generator
) -> dict[str, float]:
    """The median processor time of questions asked alone, in turns."""
    taken: dict[str, list[float]] = {"hops ms": [], "atom ms": [], "comparison ms": []}
    for queries in sets:
        few = queries.subset(draw.permutation(len(queries))[: -(-asked // len(sets))])
        ways = (with_formula(few, parts_of(few)[0]), with_atom(engine.graph, few, draw), few)
        for row in range(len(few)):
            for times, way in zip(taken.values(), ways, strict=True):
                question = BoundQuery(
                    way.shape.query,
                    compiled=compile_query(way.shape.query),
                    entities=way.entities[row].tolist(),
                    relations=way.relations[row].tolist(),
                )
                if way is ways[0]:
                    engine.ask(question)  # what was found of the hops serves all three
                times.append(timed(partial(engine.ask, question)).processor_ms)
    return {name: median(times) for name, times in taken.items()}


def measure(args: argparse.Namespace) -> Measured:
    """A row for each graph and shape."""
    figures = dict[str, dict[str, Any]]()
    missed = list[str]()
    draw = np.random.default_rng(args.seed)
    for name in MODELS:
        engines = engines_of(args, name)
        engine = engines["predicted"]
        drawn = {
            shape: tacit.sample(
                engine.graph, shapes=shape, split="test", count=args.count, seed=args.seed
            )
            for shape in COMPARISON_SHAPES
        }
        for shape, samples in drawn.items():
            sets = [each.queries for each in samples.values() if len(each.queries)]
            row = ranked(engines, sets) | costs(engine, sets, args.asked, draw)
            figures[f"{name}, {shape}"] = row
            print(f"{name}, {shape}", row, flush=True)
            if row["predicted"] <= max(row["without"], row["missing is false"]):
                missed.append(f"predictions for {name}, {shape}")
            if row["comparison ms"] > NOISE * row["atom ms"]:
                missed.append(f"cost of {name}, {shape}")
    return Measured(
        figures, {"models": {"world": "ComplEx with rules", "FB15k-237": "rules"}}, missed
    )


def main(argv: Sequence[str] | None = None) -> None:
    """Measure, print the table and write it."""
    benchmark = Benchmark(__file__, __doc__)
    benchmark.size("--count", 300, tiny=4, help="questions of each shape")
    benchmark.size("--asked", 60, tiny=2, help="questions of each shape that are timed")
    benchmark.run(measure, argv)


if __name__ == "__main__":
    main()
