"""Best-first search beside the beam: rows scored, share of proven answers, processor time.

    python benchmarks/certified.py [world|NELL995|FB15k-237] --threads 1 --runs .bench/runs

Weights of rank 100 are trained on the processor with sampled negatives, once, and kept under
--runs; those of `world` by its defaults. Questions are BetaE's validation queries, sampled ones of
the shapes that a folder lacks; training facts are known. A row is the scores of one candidate's
tails; the beam scores k of them for every variable, exact search one of every entity. Every
question is asked alone by both searches in turns, then all of a shape together. The first --exact
of them are answered by exact search, too; what is not certified is held against the beam's answer.

    python benchmarks/certified.py NELL995 --relations 4 --count 3 --threads 1 --runs .bench/runs

compares with exact answers by brute force instead, which takes half a minute for the edges of one
relation on NELL995: --count test questions of a shape for each of so many relations that their hops
go over. Of questions with two hops, the last ones go over the first of these relations.
"""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from functools import partial
from pathlib import Path
from typing import Any, cast

import numpy as np

import tacit
from brute_force import CALIBRATIONS, BruteForce, hops
from scaffold import Benchmark, Measured, data_folder, graph_of, timed
from tacit.engine.answers.answers import Answers
from tacit.engine.engine import Engine
from tacit.engine.questions import BoundQuery
from tacit.links.models import ComplEx
from tacit.query.plans.compile import compile_template
from tacit.query.plans.traits import is_hop_free
from tacit.query.sampling.queries import QuerySet, read_queries
from tacit.query.sampling.sampling import sample
from tacit.query.sampling.shapes import SHAPES
from tacit.sources import is_run

# of --runs, and epochs
FOLDERS = {"world": ("world", 0), "NELL995": ("nell", 15), "FB15k-237": ("fb", 10)}
# of k, for 2p
MEDIAN = 1 / 16
P90 = 1 / 4
WORST = 1.3  # times the beam's processor time, for a shape
ROUNDING = 1e-5  # of log-scores, whose logits are sums of 200 products in 32 bits


def trained(args: argparse.Namespace) -> tacit.Run:
    """The run of the graph, trained where there is none yet."""
    folder, epochs = FOLDERS[args.graph]
    path = (args.scratch if args.tiny else args.runs) / folder
    if is_run(path):
        return tacit.open(path, device="cpu")
    settings: dict[str, Any] = {
        "rank": 100,
        "batch": 1000,
        "negatives": 2000,
        "epochs": epochs,
        "validate_facts": 5000,
    }
    if args.tiny or args.graph == "world":
        settings = {"rank": 4, "epochs": 1} if args.tiny else {}
    return tacit.train(
        graph_of(args), path, device="cpu", precision="float32", seed=args.seed, **settings
    )


def questions(args: argparse.Namespace, run: tacit.Run) -> dict[str, list[BoundQuery]]:
    """Some questions of every shape."""
    read = {} if args.graph == "world" else read_queries(data_folder(args, args.graph), "valid")
    chosen = {}
    for name in args.shapes.split(",") if args.shapes else SHAPES:
        shape = SHAPES[name]
        count = args.count
        drawn = read.get(name) or sample(run.graph, shape, "valid", count, seed=args.seed).queries
        order = np.random.default_rng(args.seed).permutation(len(drawn))[:count]
        chosen[name] = bound_queries(drawn.subset(np.sort(order)))
    return {name: some for name, some in chosen.items() if some}


def bound_queries(queries: QuerySet) -> list[BoundQuery]:
    """Queries as questions that are ready to run."""
    compiled = compile_template(queries.shape.query)
    slots = zip(queries.entities.tolist(), queries.relations.tolist(), strict=True)
    return [
        BoundQuery(queries.shape.query, compiled=compiled, entities=entities, relations=relations)
        for entities, relations in slots
    ]


def unlike(found: Answers, other: Answers) -> bool:
    """Whether two lists differ in scores; entities of equal score may change places."""
    one, two = ([answer.score for answer in answers] for answers in (found, other))
    return len(one) != len(two) or not np.allclose(one, two, rtol=0, atol=1e-6)


def figures_of(
    args: argparse.Namespace, engine: Engine, some: list[BoundQuery]
) -> dict[str, float]:
    """The figures of one shape."""
    ways = [engine.with_settings(k=args.k, search=search) for search in ("certified", "beam")]
    for variant in ways:
        variant.ask_many(some[:1], args.top)
    alone = [
        [timed(partial(variant.ask_many, [question], args.top)) for variant in ways]
        for question in some
    ]
    found, beam = ([each.made[0] for each in column] for column in zip(*alone, strict=True))
    ms, beam_ms = (
        np.array([each.processor_ms for each in column]) for column in zip(*alone, strict=True)
    )
    together, beam_together = (timed(partial(variant.ask_many, some, args.top)) for variant in ways)
    rows = np.array([answers.rows for answers in found])
    unproven = np.array([not answers.certified for answers in found])
    figures = {
        "median, rows": float(np.median(rows)),
        "p90, rows": float(np.quantile(rows, 0.9)),
        "most, rows": float(rows.max()),
        "certified, share": float(1 - unproven.mean()),
        "ms": float(ms.mean()),
        "beam, ms": float(beam_ms.mean()),
        "of the beam, share": float(ms.sum() / beam_ms.sum()),
        "together, ms": together.processor_ms / len(some),
        "beam together, ms": beam_together.processor_ms / len(some),
        "of the beam together, share": together.processor / beam_together.processor,
        "not certified, not the beam's": sum(
            bool(not_) and unlike(*each) for not_, *each in zip(unproven, found, beam, strict=True)
        ),
        "together unlike alone": sum(map(unlike, together.made, found)),
    }
    if unproven.any():
        figures["of the beam where not certified, share"] = float(
            ms[unproven].sum() / beam_ms[unproven].sum()
        )
    if args.exact:
        exact = engine.with_settings(search="exact").ask_many(some[: args.exact], args.top)
        pairs = [(one, other) for one, other in zip(found, exact, strict=False) if one.certified]
        figures |= {"compared": len(pairs), "wrong": sum(unlike(*pair) for pair in pairs)}
        if pairs:
            figures["same order, share"] = float(
                np.mean([one.entities == other.entities for one, other in pairs])
            )
    return figures


def over_few_relations(
    args: argparse.Namespace, run: tacit.Run, exact: BruteForce
) -> dict[str, list[BoundQuery]]:
    """Test questions of every shape whose hops all go over few relations.

    As many go over each; where there are two hops, the second goes over the first relation of all.
    Known answers do not fill the list of any: that would be a proof without a search.
    """
    random = np.random.default_rng(args.seed)
    read = read_queries(data_folder(args, args.graph), "test")
    names = args.shapes.split(",") if args.shapes else SHAPES
    drawn = {
        name: [
            (hops(each), each)
            for each in bound_queries(read[name])
            if len(exact.first(each)) < args.top
        ]
        for name in names
        if not is_hop_free(SHAPES[name].plan.root)
    }
    counts = np.zeros((len(drawn), run.graph.num_relations), dtype=int)
    for row, some in zip(counts, drawn.values(), strict=True):
        np.add.at(row, [over[-1] for over, _ in some], 1)
    order = random.permutation(run.graph.num_relations)
    few = order[np.argsort(-counts.clip(max=args.count).sum(axis=0)[order], kind="stable")][
        : args.relations
    ]
    chosen: dict[str, list[BoundQuery]] = {name: [] for name in drawn}
    for name, some in drawn.items():
        for relation in few:
            fit = [
                each
                for over, each in some
                if over[0] == relation and (len(over) == 1 or over[-1] == few[0])
            ]
            chosen[name] += [fit[i] for i in random.permutation(len(fit))[: args.count]]
    return {name: each for name, each in chosen.items() if each}


def against_brute_force(args: argparse.Namespace) -> Measured:
    """How far what is proven is what brute force finds."""
    run = trained(args)
    exact = BruteForce(run.graph, cast(ComplEx, run.engine.scorer))
    chosen = over_few_relations(args, run, exact)
    values = iter(exact.values([question for some in chosen.values() for question in some]))
    tables = {shape: [next(values) for _ in some] for shape, some in chosen.items()}
    figures = {}
    missed = []
    for place, calibration in enumerate(CALIBRATIONS):
        engine = run.engine.with_settings(
            observed="train", calibration=calibration, search="certified", k=args.k
        )
        for shape, some in chosen.items():
            pairs = zip(some, tables[shape], strict=True)
            row = f"{calibration} {shape}"
            lists = [exact.listed(one, table[place], args.top) for one, table in pairs]
            figures[row] = held_against(engine.ask_many(some, args.top), lists)
            missed += (
                [f"equality of {row}"]
                if figures[row]["wrong"] or figures[row]["wrong in part"]
                else []
            )
    settings = {
        "observed": "train",
        "split": "test",
        "entities": run.graph.num_entities,
        "passes": exact.passes,
    }
    return Measured(figures, settings, missed, kind=f"{args.graph.lower()}-exact")


def held_against(found: Sequence[Answers], exact: Sequence[dict[int, float]]) -> dict[str, float]:
    """Figures of one shape: certified lists and proven answers beside the exact ones."""
    pairs = list(zip(found, exact, strict=True))
    whole = [pair for pair in pairs if pair[0].certified]
    others = [pair for pair in pairs if not pair[0].certified]
    part = [pair for pair in others if pair[0].proven]
    order = [
        [a.id for a in one[: one.proven]] == list(other)[: one.proven]
        for one, other in whole + part
    ]
    return {
        "compared": len(whole),
        "wrong": sum(
            len(one) != len(other) or max(apart(one, other), default=0.0) > ROUNDING
            for one, other in whole
        ),
        "not certified": len(others),
        "with some proven": len(part),
        "wrong in part": sum(max(apart(*pair)) > ROUNDING for pair in part),
        "answers proven, of not certified, mean": float(np.mean([one.proven for one, _ in others]))
        if others
        else 0.0,
        "exact though not certified": sum(
            [a.id for a in one] == list(other) for one, other in others
        ),
        "same order, share": float(np.mean(order)) if order else 1.0,
        "rows, median": float(np.median([answers.rows for answers in found])),
        "log-scores apart, most": max(
            (gap for pair in whole + part for gap in apart(*pair)), default=0.0
        ),
    }


def apart(found: Answers, exact: dict[int, float]) -> list[float]:
    """The distance in log-score of proven answers from exact ones, in any order of ties."""
    return [
        abs(one.log_score - other)
        for one, other in zip(found[: found.proven], exact.values(), strict=False)
    ]


def measure(args: argparse.Namespace) -> Measured:
    """The figures of every calibration and shape, and the goals."""
    if args.relations:
        return against_brute_force(args)
    figures = {}
    missed = []
    run = trained(args)
    chosen = questions(args, run)
    for calibration in CALIBRATIONS:
        engine = run.engine.with_settings(observed="train", calibration=calibration)
        for shape, some in chosen.items():
            row = f"{calibration} {shape}"
            figures[row] = found = figures_of(args, engine, some)
            if shape == "2p" and (
                found["median, rows"] > MEDIAN * args.k or found["p90, rows"] > P90 * args.k
            ):
                missed.append(f"rows of {row}")
            missed += (
                [f"equality of {row}"]
                if found.get("wrong") or found["not certified, not the beam's"]
                else []
            )
            missed += [f"time of {row}"] if found["of the beam, share"] > WORST else []
    settings = {"observed": "train", "split": "valid", "entities": run.graph.num_entities}
    return Measured(figures, settings, missed, kind=args.graph.lower())


def main(argv: Sequence[str] | None = None) -> None:
    """Print a table, write it as JSON, and fail where a goal is missed."""
    benchmark = Benchmark(__file__, __doc__)
    benchmark.add_argument(
        "graph", nargs="?", default="NELL995", choices=list(FOLDERS), help="world, or of --data"
    )
    benchmark.add_argument(
        "--runs", type=Path, default=Path(".bench/runs"), help="where runs are kept"
    )
    benchmark.add_argument("--k", type=int, default=256)
    benchmark.add_argument("--top", type=int, default=10)
    benchmark.add_argument(
        "--shapes", help="some shapes, joined by commas; all where none are given"
    )
    benchmark.size("--count", 20, tiny=2, help="questions of each shape")
    benchmark.size("--exact", 4, tiny=1, help="questions that exact search answers too")
    benchmark.add_argument(
        "--relations", type=int, default=0, help="compare with brute force over so many relations"
    )
    benchmark.run(measure, argv)


if __name__ == "__main__":
    main()
