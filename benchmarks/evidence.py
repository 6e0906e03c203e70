"""Evidence of predictions: how many have it, how far it can be trusted, and what it costs.

    python benchmarks/evidence.py [world|NELL995|FB15k-237] [--run RUN] --threads 1
    python benchmarks/evidence.py NELL995 --rank 100 --epochs 20 --negatives 1000 --reg 0.02 \\
        --batch 1000 --validate-on facts --threads 1

A link predictor with rules is trained, or opened with --run; training facts are known. Questions
`?t : r(h, ?t)` are drawn from test facts in both directions.

- coverage: of the test facts with a filtered rank of 10 or better, the share that a rule speaks
  for, and a rule of some confidence at least;
- confidence: of the first ten predictions that are no training facts, the share that validation or
  test facts state, by the confidence of the best rule. Others may be true as well, and merely
  unknown: the share is a lower bound. `chance` is the mean probability by rules in the mixture;
- grounding: the shown facts of rules, all of which have to be training facts;
- cost: processor time of ten explained answers, with and without the search for evidence. Goal: it
  takes at most twice the time of the rest.
- new: with --new a twentieth of the entities is held out and added with its training facts, as in
  benchmarks/add.py. Their validation and test facts are ranked by the mixture, by others that are
  fitted with a fixed `few` (heads of few facts have larger shares of rules; 0: all have the same),
  by the link predictor and by rules alone. Goal: the mixture is no worse than that of `few = 0`,
  beyond two standard errors.
"""

from __future__ import annotations

import argparse
import itertools
from collections.abc import Sequence
from functools import partial
from statistics import median
from typing import Any
from unittest.mock import patch

import numpy as np
import torch
from numpy.typing import NDArray

import tacit
from add import parts, whole
from scaffold import Benchmark, Measured, graph_of, timed
from tacit.adapt.mixing import fit_mixture
from tacit.engine.answers.evidence import NO_EVIDENCE, AtomEvidence
from tacit.engine.answers.evidence_finder import EvidenceFinder
from tacit.engine.atoms.mixture import RuleMixture
from tacit.engine.engine import Engine
from tacit.graph.fact_index import Ints
from tacit.graph.graph import Graph
from tacit.links.ranking import ranks
from tacit.links.rules.rule_scorer import FLOOR
from walks import Walks

TOP = 10
BATCH = 64
BOUNDS = (0.0, 0.1, 0.25, 0.5, 0.75, 1.0)  # of the confidences of the best rules
FACTS = {"1": (1, 1), "2-3": (2, 3), "4 and more": (4, 1 << 30)}  # known ones of a new entity
FEW = (0.0, 1.0, 4.0)
DEAREST = 2.0  # times the explained answer without evidence
Row = dict[str, Any]


def trained(args: argparse.Namespace, graph: Graph, name: str) -> tacit.Run:
    """A run of a link predictor with rules."""
    names = ("rank", "epochs", "batch", "reg", "negatives")
    settings = {each: getattr(args, each) for each in names if getattr(args, each) is not None}
    settings |= {"validate_on": args.validate_on, "device": args.device, "seed": args.seed}
    return tacit.train(graph, args.scratch / name, progress=False, **settings)


def filtered_ranks(engine: Engine, graph: Graph, atoms: Ints) -> NDArray[np.float64]:
    """The rank of each directed atom's tail among those that no split of the graph states."""
    known = graph.index()
    places = np.empty(len(atoms))
    order = np.lexsort(atoms.T[:2])
    for start in range(0, len(order), BATCH):
        chosen = order[start : start + BATCH]
        heads, relations, tails = atoms[chosen].T
        scores = engine.atoms.rows(torch.from_numpy(heads), torch.from_numpy(relations))
        answers = (np.arange(len(chosen)), tails, *known.neighbours(heads, relations))
        row, hard, known_row, others = map(torch.from_numpy, map(np.ascontiguousarray, answers))
        found = ranks(scores, row, hard, known_row, others)
        places[chosen] = found.numpy()
    return places


def drawn_atoms(graph: Graph, questions: int, seed: int) -> tuple[Ints, Ints]:
    """Distinct (head, relation) of test facts, and all test facts that answer them."""
    index = graph.index("test")
    pairs = np.stack([index.heads, index.relations], axis=1).astype(np.int64)
    pairs = np.random.default_rng(seed).permutation(pairs)[: questions or None]
    rows, tails = index.neighbours(*pairs.T)
    return pairs, np.column_stack([pairs[rows], tails.astype(np.int64)])


def first_predictions(engine: Engine, pairs: Ints) -> list[tuple[Ints, float]]:
    """The first ten new tails of each row as directed atoms, with their log-scores."""
    known = engine.graph.index("train")
    found = []
    for head, relation in pairs.tolist():
        scores = engine.atoms.rows(torch.tensor([head]), torch.tensor([relation]))[0].clone()
        scores[torch.from_numpy(known.tails(head, relation).astype(np.int64))] = -torch.inf
        best = scores.topk(min(TOP, len(scores)))
        for score, tail in zip(best.values.tolist(), best.indices.tolist(), strict=True):
            if score > -torch.inf:
                found.append((np.array([head, relation, tail]), score))
    return found


def evidence(finder: EvidenceFinder, atom: Ints, score: float | None = None) -> AtomEvidence:
    """The rules that speak for an atom; as for a denied one, no analogies are looked for."""
    head, relation, tail = atom.tolist()
    return finder.of(head, relation, tail, True, score)


def coverage(engine: Engine, graph: Graph, atoms: Ints) -> Row:
    """Of the test facts among the first ten, those that a rule speaks for."""
    right = atoms[filtered_ranks(engine, graph, atoms) <= TOP]
    finder = EvidenceFinder(engine.parts)
    found = [evidence(finder, atom).rules for atom in right]
    best = np.array([max((e.rule.confidence for e in rules), default=-1.0) for rules in found])
    counts = {
        "with a rule": (best >= 0).sum(),
        "of 0.1 and more": (best >= 0.1).sum(),
        "of 0.25 and more": (best >= 0.25).sum(),
    }
    return {
        "test facts": len(atoms),
        "among ten": len(right),
        **{name: float(count / max(1, len(right))) for name, count in counts.items()},
    }


def reliability(engine: Engine, graph: Graph, pairs: Ints) -> tuple[dict[str, Row], Row]:
    """How often predictions are right by the confidence of their best rule, and the groundings."""
    held_out, train = graph.index("valid", "test"), set(map(tuple, graph.train.tolist()))
    finder = EvidenceFinder(engine.parts)
    mixture = engine.parts.mixture
    assert mixture is not None
    rows: list[tuple[float, float, bool]] = []  # confidence, chance, right
    shown = stated = own = 0
    for atom, score in first_predictions(engine, pairs):
        found = evidence(finder, atom, score).rules
        right = bool(held_out.contains(*atom[:, None])[0])
        ids = torch.from_numpy(atom)[:, None]
        scored = mixture.scorer.logits_of(*ids)
        chance = float(mixture.chances(scored.double().sigmoid())) * bool(scored > FLOOR)
        confidence = max((each.rule.confidence for each in found), default=-1.0)
        rows.append((confidence, chance, right))
        for fact in (fact for each in found for path in each.paths for fact in path.facts):
            entities, relations = graph.entities, graph.relations
            triple = (
                entities.get(fact.subject_label),
                relations.get(fact.relation_label),
                entities.get(fact.object_label),
            )
            shown += 1
            stated += triple in train
            head, relation, tail = atom.tolist()
            forward = (tail, relation ^ 1, head) if relation & 1 else (head, relation, tail)
            own += triple == forward
    table = np.array(rows, dtype=np.float64).reshape(-1, 3)
    buckets = {"no rule": table[:, 0] < 0}
    for low, high in itertools.pairwise(BOUNDS):
        inside = (table[:, 0] >= low) & (table[:, 0] < high + (high == BOUNDS[-1]))
        buckets[f"confidence {low:g} to {high:g}"] = inside
    buckets["any rule"] = table[:, 0] >= 0
    figures = {
        name: {
            "predictions": int(inside.sum()),
            "right": float(table[inside, 2].mean()),
            "confidence": float(table[inside, 0].clip(0.0).mean()),
            "chance": float(table[inside, 1].mean()),
        }
        for name, inside in buckets.items()
        if inside.any()
    }
    return figures, {"facts shown": shown, "in the graph": stated, "what they show": own}


def cost(engine: Engine, args: argparse.Namespace) -> dict[str, Row]:
    """Processor milliseconds of answers, of explained ones, and of those with evidence."""
    walks = Walks(engine, args.seed)
    figures: dict[str, Row] = {}
    for shape in ("1p", "2p", "2i"):
        times: dict[str, list[float]] = {"answer": [], "explained": [], "with evidence": []}
        texts = walks.questions(shape, args.asked)
        engine.ask(texts[0], TOP, explain=True)
        for text in texts:
            ask = partial(engine.ask, text, TOP, new=True)
            engine.ask(text, TOP, new=True)  # rows of rules that are cached are so for all
            times["answer"].append(timed(ask).processor_ms)
            with patch.object(EvidenceFinder, "of", lambda *_: NO_EVIDENCE):
                times["explained"].append(timed(partial(ask, explain=True)).processor_ms)
            times["with evidence"].append(timed(partial(ask, explain=True)).processor_ms)
        sums = {name: sum(taken) for name, taken in times.items()}
        spent = np.subtract(times["with evidence"], times["explained"])
        figures[f"cost, {shape}"] = {
            **{f"{name} ms": total / len(texts) for name, total in sums.items()},
            "median evidence ms": median(spent.tolist()),
            "evidence / explained": (sums["with evidence"] - sums["explained"]) / sums["explained"],
            "evidence / answer": (sums["with evidence"] - sums["explained"]) / sums["answer"],
        }
    return figures


def mixtures(run: tacit.Run) -> dict[str, RuleMixture]:
    """The mixture of a run, and those that are fitted with a fixed `few`."""
    engine = run.engine
    mixture = engine.parts.mixture
    assert mixture is not None
    found = {"mixed": mixture}
    for few in FEW:
        with patch("tacit.adapt.mixing.FEW", (few,)):
            fitted = fit_mixture(engine.graph, engine.scorer, mixture.scorer)
        found[f"few = {few:g}"] = fitted
    return found


def new_entities(graph: Graph, args: argparse.Namespace) -> dict[str, Row]:
    """The MRR of facts of entities that a run was given later, by the facts known of them."""
    rest, added = parts(graph, args.seed)
    full = whole(graph, rest, added)
    run = trained(args, rest, "rest")
    before = mixtures(run)
    run.add(added, force=True)
    engine = run.engine.with_settings(observed="train")
    mixture = engine.parts.mixture
    assert mixture is not None
    engines = {
        name: Engine(
            engine.graph,
            engine.scorer,
            engine.settings,
            rules=RuleMixture.from_tensors(mixture.scorer, each.to_tensors()),
        )
        for name, each in before.items()
    }
    engines["predictor"] = engine.with_settings(rules=False)
    engines["rules"] = Engine(engine.graph, mixture.scorer, engine.settings, calibration="sigmoid")
    atoms = full.triples("valid", "test").astype(np.int64)
    degrees = np.bincount(full.train[:, [0, 2]].ravel(), minlength=full.num_entities)
    atoms = atoms[(atoms[:, [0, 2]] >= rest.num_entities).any(axis=1)]
    placed = {name: 1.0 / filtered_ranks(each, full, atoms) for name, each in engines.items()}
    figures: dict[str, Row] = {}
    for end, column in (("head", 0), ("tail", 2)):
        new = atoms[:, column] >= rest.num_entities
        for facts, (least, most) in {**FACTS, "any": (0, 1 << 30)}.items():
            number = degrees[atoms[:, column]]
            chosen = np.flatnonzero(new & (number >= least) & (number <= most))
            if len(chosen):
                means = {f"{name} MRR": float(each[chosen].mean()) for name, each in placed.items()}
                gain = placed["mixed"][chosen] - placed["few = 0"][chosen]
                error = float(gain.std() / len(chosen) ** 0.5)
                figures[f"new {end}, {facts} known"] = {
                    "atoms": len(chosen),
                    **means,
                    "gain": float(gain.mean()),
                    "error": error,
                }
    for name, each in before.items():
        figures[f"weights, {name}"] = {"few": each.few, "share": float(each.shares.mean())}
    return figures


def measure(args: argparse.Namespace) -> Measured:
    """The figures of each part, and the goals that were missed."""
    if args.new:
        figures = new_entities(graph_of(args), args)
        missed = [
            f"{name}: larger shares for few facts cost {-row['gain']:.4f} MRR"
            for name, row in figures.items()
            if row.get("gain", 0.0) < -2 * row.get("error", 0.0)
        ]
        return Measured(figures, missed=missed, kind=f"new-{args.graph.lower()}")
    run = tacit.open(args.run, device=args.device) if args.run else None
    run = run or trained(args, graph_of(args), "run")
    engine = run.engine.with_settings(observed="train")
    graph = engine.graph
    pairs, atoms = drawn_atoms(graph, args.questions, args.seed)
    buckets, grounding = reliability(engine, graph, pairs)
    costs = cost(engine, args)
    figures = {
        "coverage": coverage(engine, graph, atoms),
        **buckets,
        "grounding": grounding,
        **costs,
    }
    missed = [
        f"{name}: evidence takes {row['evidence / explained']:.1f} times the answer"
        for name, row in costs.items()
        if row["evidence / explained"] > DEAREST
    ]
    if grounding["in the graph"] < grounding["facts shown"] or grounding["what they show"]:
        missed.append("facts are shown that the graph does not state")
    mixture = engine.parts.mixture
    assert mixture is not None
    about = {
        "mean share": float(mixture.shares.mean()),
        "rules": len(mixture.scorer.rules),
        "trained": run.folder.settings["train"],
    }
    return Measured(figures, about, missed=missed, kind=args.graph.lower())


def main(argv: Sequence[str] | None = None) -> None:
    """Print a table and write the figures as JSON."""
    benchmark = Benchmark(__file__, __doc__)
    benchmark.add_argument("graph", nargs="?", default="world", help="world, or a folder of --data")
    benchmark.add_argument("--run", help="a run of the graph, in place of a training")
    benchmark.add_argument("--new", action="store_true", help="measure entities added later")
    benchmark.add_argument("--validate-on", default="questions", choices=("questions", "facts"))
    for flag in ("--batch", "--negatives", "--rank", "--epochs"):
        benchmark.add_argument(flag, type=int, help="by the size of the graph by default")
    benchmark.add_argument("--reg", type=float)
    benchmark.tiny |= {"rank": 4, "epochs": 1}
    benchmark.size("--questions", 1000, tiny=10, help="drawn from test facts; 0: all")
    benchmark.size("--asked", 30, tiny=2, help="questions of each shape that are timed")
    benchmark.run(measure, argv)


if __name__ == "__main__":
    main()
