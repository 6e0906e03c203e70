"""How long commands take to start, beside a bare interpreter and `import torch`.

    python benchmarks/startup.py [--rounds 10]
    python benchmarks/startup.py --facts --rounds 3

The best of several rounds counts. Commands without torch stand beside a bare interpreter. `tacit
ask` and `tacit serve`, until the first answer is there, stand beside `import torch`, which both
have to do; a process of `python -c 'import torch'` also clears up after itself. The processor time
of `tacit serve` is that of all its processes: the service, the one that workers are forked from,
and the workers. `ready` is when it says its address, since workers have opened the run.

With `--facts`, the seconds from a file of facts to the first explained answer: cold, where the
rules are mined, and warm, where they are in the cache; of `world`, of a generated graph of the size
of WordNet, and of the train facts of NELL995.
"""

from __future__ import annotations

import argparse
import json
import os
import resource
import subprocess
import sys
import urllib.request
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from functools import partial
from pathlib import Path
from time import perf_counter

import numpy as np

from scaffold import Benchmark, Measured, graph_of, installed, python, seconds, world_cache

QUESTION = "?c : exists ?n . borders(France, ?n) & borders(?n, ?c)"
BARE = "python -c pass"
TORCH = "import torch"
COMMANDS = {
    BARE: ("-c", "pass"),
    "import tacit": ("-c", "import tacit"),
    "tacit --help": ("-m", "tacit", "--help"),
    "tacit data --help": ("-m", "tacit", "data", "--help"),
    TORCH: ("-c", "import torch"),
}
# the library without which a command is left out
NEEDED = {"tacit ask": "lark", "tacit serve": "fastapi"}
# milliseconds of each that loads no torch, and of `tacit ask` after `import torch`
LIMIT = 300.0
LATER = 800.0

# seconds from a file to its first explained answer, where the rules are mined
AIMS = {"world": 5.0, "wordnet": 15.0, "nell995": 20.0}

Labelled = list[tuple[str, str, str]]
Times = tuple[float, float]  # seconds by the clock, and of processor time


def first_answer_served(run: str, variables: Mapping[str, str]) -> dict[str, Times]:
    """Start the service, ask it once and end it; returns the times to be ready and to answer."""
    command = [sys.executable, "-m", "tacit", "serve", run, "--port", "0"]
    start = perf_counter()
    taken = {}
    with subprocess.Popen(
        command,
        env=os.environ | variables,
        stdout=subprocess.PIPE,
        text=True,
        start_new_session=True,
    ) as service:
        try:
            said = next(line for line in service.stdout or () if "http://" in line)
            taken["ready"] = perf_counter() - start, session_seconds(service.pid)
            address = said[said.index("http://") :].split()[0]
            body = json.dumps({"query": QUESTION}).encode()
            request = urllib.request.Request(
                f"{address}ask", body, {"Content-Type": "application/json"}
            )
            urllib.request.urlopen(request).read()
            taken["answered"] = perf_counter() - start, session_seconds(service.pid)
        finally:
            service.terminate()
    return taken


def session_seconds(session: int) -> float:
    """The processor time of all processes of a session, with those that have ended."""
    ticks = 0
    for path in Path("/proc").glob("[0-9]*/stat"):
        with suppress(OSError):  # it may have ended
            fields = path.read_text(encoding="utf-8").rpartition(")")[2].split()
            ticks += sum(map(int, fields[11:15])) if int(fields[3]) == session else 0
    return ticks / os.sysconf("SC_CLK_TCK")


def processor_seconds(work: Callable[[], object]) -> Times:
    """Wall seconds, and processor seconds of the processes that work starts and waits for."""
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    wall = seconds(work)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    return wall, after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime


def alone(name: str, work: Callable[[], object]) -> dict[str, Times]:
    """The times of a command that ends by itself."""
    return {name: processor_seconds(work)}


def on_world(cache: Path) -> dict[str, Callable[[], dict[str, Times]]]:
    """Commands that answer a question with the installed libraries; trains `world` if needed."""
    variables = {"TACIT_CACHE": str(cache)}
    works: dict[str, Callable[[], dict[str, Times]]] = {
        "tacit ask": partial(
            alone, "tacit ask", python("-m", "tacit", "ask", "world", QUESTION, **variables)
        ),
        "tacit serve": partial(first_answer_served, "world", variables),
    }
    works = {name: work for name, work in works.items() if installed(NEEDED[name], name)}
    if not any(cache.glob("world-*")):
        for work in works.values():
            work()
    return works


def taxonomy(entities: int, seed: int) -> Labelled:
    """A tree of kinds with most of its inverse, and pairs of alike things in both directions."""
    rng = np.random.default_rng(seed)
    parents = [int(rng.integers(0, child)) for child in range(1, entities)]
    facts = [(f"e{n + 1}", "kind_of", f"e{parent}") for n, parent in enumerate(parents)]
    said = rng.random(len(facts)) < 0.8
    facts += [(t, "includes", h) for (h, _, t), each in zip(facts, said, strict=True) if each]
    for one, other in rng.integers(0, entities, (7 * entities // 20, 2)).tolist():
        facts += [(f"e{one}", "similar", f"e{other}"), (f"e{other}", "similar", f"e{one}")]
    return list(dict.fromkeys(facts))


def measure_facts(args: argparse.Namespace) -> Measured:
    """Seconds from a file of facts to the first explained answer, the best of the rounds."""
    tables: dict[str, Labelled] = {"wordnet": taxonomy(args.entities, args.seed)}
    for name, source in () if args.tiny else (("world", "world"), ("nell995", "NELL995")):
        graph = graph_of(args, source)
        entities, relations = graph.entities, graph.relations
        tables[name] = [(entities[h], relations[r], entities[t]) for h, r, t in graph.train]
    figures = {}
    for name, facts in tables.items():
        path = args.scratch / f"{name}.tsv"
        path.write_text("".join("\t".join(fact) + "\n" for fact in facts), encoding="utf-8")
        head, relation, _ = (json.dumps(label) for label in facts[0])
        question = f"?x : {relation}({head}, ?x)"
        taken: dict[str, list[float]] = {"cold s": [], "warm s": []}
        for number in range(args.rounds):
            cache = str(args.scratch / f"cache-{name}-{number}")
            ask = python("-m", "tacit", "ask", str(path), question, "--explain", TACIT_CACHE=cache)
            for times in taken.values():
                times.append(seconds(ask))
        best = {kind: min(times) for kind, times in taken.items()}
        figures[name] = {"facts": float(len(facts)), **best, "aim s": AIMS[name]}
    missed = [name for name, row in figures.items() if row["cold s"] > row["aim s"]]
    return Measured(figures, kind="facts", missed=missed)


def measure(args: argparse.Namespace) -> Measured:
    """Milliseconds of each command: the shortest, since the rest is what else the machine did."""
    if args.facts:
        return measure_facts(args)
    works: dict[str, Callable[[], dict[str, Times]]] = {
        name: partial(alone, name, python(*arguments)) for name, arguments in COMMANDS.items()
    }
    if not args.tiny:
        works |= on_world(world_cache(args))
    taken: dict[str, list[Times]] = {}
    for _ in range(args.rounds):
        for name, work in works.items():
            for part, times in work().items():
                taken.setdefault(part if part == name else f"{name}, {part}", []).append(times)
    best = {
        name: [1e3 * min(times) for times in zip(*rounds, strict=True)]
        for name, rounds in taken.items()
    }
    light = [name for name in COMMANDS if name != TORCH]
    figures = {
        name: {"ms": wall, "processor_ms": processor}
        | (
            {"times bare": wall / best[BARE][0]}
            if name in light
            else {
                "times import torch": wall / best[TORCH][0],
                "processor times import torch": processor / best[TORCH][1],
            }
        )
        for name, (wall, processor) in best.items()
    }
    missed = [f"{name} over {LIMIT} ms" for name in light if best[name][0] > LIMIT]
    if "tacit ask" in best and best["tacit ask"][0] - best[TORCH][0] > LATER:
        missed.append(f"tacit ask over {LATER} ms after import torch")
    return Measured(figures, missed=missed)


def main(argv: Sequence[str] | None = None) -> None:
    """Print a table and write the figures as JSON."""
    benchmark = Benchmark(__file__, __doc__)
    benchmark.size("--rounds", 10, tiny=1)
    benchmark.size("--entities", 40_000, tiny=30, help="of the graph of WordNet's size")
    benchmark.add_argument("--facts", action="store_true", help="files of facts without a run")
    benchmark.run(measure, argv)


if __name__ == "__main__":
    main()
