"""The service under load: speed, waiting times, memory, batching, and a killed worker.

    python benchmarks/service.py [--run world] [--seconds 60] [--clients 32] \\
        [--shapes 2p,2i,2in,pi] [--kill]

32 clients ask one question after the other, of several shapes in equal parts, over entities drawn
from the graph. What batching brings is the ratio to the same load answered one question at a time,
for a quarter of the time: once for the mix, where a batch finds few questions of its structure, and
once where all clients ask questions of one structure. Last comes how long a question waits behind
four heavy ones whose clients have hung up. With --kill a worker is killed every five seconds, and
only the mix is measured. Clients and service share the cores.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import random
import re
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from itertools import count
from pathlib import Path
from urllib.error import HTTPError
from urllib.request import Request, urlopen

import psutil

from scaffold import Benchmark, Measured, run_of
from tacit.graph.graph import Graph
from tacit.query.formula import quoted
from tacit.run_folder.folder import RunFolder

# over all entities, with the reasons of each answer
HEAVY = {"search": "exact", "k": 4096, "top": 1000, "paths": 5}
SINGLY = ("--batch", "1", "--patience", "0")
# goals
PER_SECOND = 300.0
P99 = 250.0
BATCHING = 2.0
GROWN = 1.05
# The entities of a template: at which end of which relation they stand.
SLOTS = {"c": ("borders", 0), "d": ("borders", 0), "l": ("speaks", 2), "s": ("in_subregion", 2)}
# Shapes of the BetaE benchmarks over the relations of `world`.
TEMPLATES = {
    "1p": "?x : borders({c}, ?x)",
    "1p-inverse": "?x : speaks(?x, {l})",
    "2p": "?x : exists ?y . borders({c}, ?y) & official_language(?y, ?x)",
    "2i": "?x : borders({c}, ?x) & speaks(?x, {l})",
    "3i": "?x : borders({c}, ?x) & speaks(?x, {l}) & in_subregion(?x, {s})",
    "2in": "?x : borders({c}, ?x) & !speaks(?x, {l})",
    "2u": "?x : borders({c}, ?x) | speaks(?x, {l})",
    "pi": "?x : (exists ?y . borders({c}, ?y) & official_language(?y, ?x)) & speaks({d}, ?x)",
}


@dataclass
class Tally:
    """What the clients saw."""

    seconds: list[float] = field(default_factory=list)
    errors: list[str] = field(default_factory=list)
    # MB of the service and its workers, once a second
    memory: list[float] = field(default_factory=list)
    processor: float = 0.0  # seconds of the service and its workers

    def percentile(self, share: float) -> float:
        """A waiting time in milliseconds."""
        ordered = sorted(self.seconds)
        return 1000 * ordered[min(len(ordered) - 1, int(share * len(ordered)))]


def questions(graph: Graph, shapes: Sequence[str], seed: int = 0) -> list[bytes]:
    """Requests of some shapes, in random order."""
    draw = random.Random(seed)
    facts = graph.facts()
    texts = list[str]()
    ends = {
        slot: [
            quoted(graph.entities[i])
            for i in sorted(set(facts[facts[:, 1] == relation][:, column].tolist()))
        ]
        for slot, (name, column) in SLOTS.items()
        if (relation := graph.relations.get(name)) is not None
    }
    for template in (TEMPLATES[shape] for shape in shapes):
        texts += [
            template.format(**{slot: draw.choice(labels) for slot, labels in ends.items()})
            for _ in range(500)
        ]
    draw.shuffle(texts)
    return [json.dumps({"query": text}).encode() for text in texts]


@contextmanager
def service(run: Path, *flags: str) -> Iterator[tuple[psutil.Process, int]]:
    """`tacit serve` in a process of its own: its process and its port."""
    command = [sys.executable, "-m", "tacit", "serve", str(run), "--port", "0", *flags]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        try:
            line = process.stdout.readline() if process.stdout else ""
            found = re.search(r"http://[\d.]+:(\d+)/", line)
            if not found:
                sys.exit(f"the service did not start: {line}")
            yield psutil.Process(process.pid), int(found[1])
        finally:
            process.send_signal(signal.SIGINT)
            process.wait(30)


def megabytes(process: psutil.Process) -> float:
    """The memory that the service and its workers have to themselves."""
    total = 0.0
    for one in [process, *process.children(recursive=True)]:
        try:
            total += one.memory_full_info().uss / 1e6
        except psutil.NoSuchProcess:
            continue
    return total


async def client(port: int, requests: list[bytes], start: int, until: float, tally: Tally) -> None:
    """One client: a connection that asks one question after the other, and at least one."""
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    for at in count(start):
        body = requests[at % len(requests)]
        begun = time.perf_counter()
        writer.write(
            b"POST /ask HTTP/1.1\r\nhost: 127.0.0.1\r\ncontent-type: application/json\r\n"
            b"content-length: %d\r\n\r\n%b" % (len(body), body)
        )
        head = await reader.readuntil(b"\r\n\r\n")
        length = int(re.search(rb"content-length: (\d+)", head)[1])  # type: ignore[index]
        reply = await reader.readexactly(length)
        tally.seconds.append(time.perf_counter() - begun)
        if not head.startswith(b"HTTP/1.1 200"):
            tally.errors.append(reply.decode()[:200])
        if time.monotonic() >= until:
            break
    writer.close()


async def watch(process: psutil.Process, until: float, tally: Tally, kill: bool) -> None:
    """Note the memory every second; with `kill`, end a worker every five."""
    tally.memory.append(megabytes(process))
    while time.monotonic() < until - 1:
        await asyncio.sleep(1)
        tally.memory.append(megabytes(process))
        if kill and len(tally.memory) % 5 == 1:
            busiest = max(process.children(recursive=True), key=lambda one: one.cpu_times().user)
            os.kill(busiest.pid, signal.SIGKILL)


async def load(
    process: psutil.Process,
    port: int,
    requests: list[bytes],
    clients: int,
    seconds: float,
    kill: bool = False,
) -> Tally:
    """What clients see who ask one question after the other for some seconds."""
    tally = Tally()
    until = time.monotonic() + seconds
    step = max(1, len(requests) // clients)
    asking = [client(port, requests, i * step, until, tally) for i in range(clients)]
    used = processor_seconds(process)
    await asyncio.gather(*asking, watch(process, until, tally, kill))
    tally.processor = processor_seconds(process) - used
    tally.memory.append(megabytes(process))
    return tally


def processor_seconds(process: psutil.Process) -> float:
    """The processor time of the service and its workers."""
    times = [one.cpu_times() for one in [process, *process.children(recursive=True)]]
    return float(sum(each.user + each.system for each in times))


def measured(
    process: psutil.Process, port: int, requests: list[bytes], args: argparse.Namespace
) -> dict[str, float]:
    """The figures of one load, after a short one to warm up."""
    asyncio.run(load(process, port, requests, args.clients, args.warm_up))
    begun = time.monotonic()
    tally = asyncio.run(load(process, port, requests, args.clients, args.seconds, args.kill))
    taken = time.monotonic() - begun
    with urlopen(f"http://127.0.0.1:{port}/metrics") as counted:
        restarts = re.search(r"worker_restarts_total(?:{.*})? (\d+)", counted.read().decode())
    for error in sorted(set(tally.errors))[:5]:
        print(f"error: {error}", file=sys.stderr)
    return {
        "per_second": len(tally.seconds) / taken,
        "p50_ms": tally.percentile(0.50),
        "p99_ms": tally.percentile(0.99),
        "processor_ms": 1000 * tally.processor / len(tally.seconds),
        "questions": len(tally.seconds),
        "errors": len(tally.errors),
        "restarts": int(restarts[1]) if restarts else 0,
        "memory_10s_mb": tally.memory[min(10, len(tally.memory) - 1)],
        "memory_last_mb": tally.memory[-1],
    }


def abandoned(port: int) -> dict[str, float]:
    """How long a question waits behind four heavy ones whose clients hung up, and what it gets."""
    heavy = (
        "?x : exists ?a . exists ?b . exists ?c . speaks(?a, ?b) & speaks(?c, ?b) & "
        "borders(?c, ?x) & !borders(?a, ?x)"
    )
    body = json.dumps({"query": heavy, **HEAVY}).encode()
    head = (
        b"POST /explain HTTP/1.1\r\nhost: 127.0.0.1\r\ncontent-type: application/json\r\n"
        b"content-length: %d\r\n\r\n"
    )
    clients = [socket.create_connection(("127.0.0.1", port)) for _ in range(4)]
    for number, each in enumerate(clients):
        other = body.replace(b"1000", b"%d" % (1000 - number))  # each a batch of its own
        each.sendall(head % len(other) + other)
    time.sleep(0.5)
    for each in clients:
        each.close()
    question = b'{"query": "?x : borders(France, ?x)"}'
    light = Request(f"http://127.0.0.1:{port}/ask", question, {"content-type": "application/json"})
    begun = time.perf_counter()
    try:
        with urlopen(light) as answered:
            status = answered.status
    except HTTPError as error:
        status = error.code
    return {"s": time.perf_counter() - begun, "status": status}


def measure(args: argparse.Namespace) -> Measured:
    """The loads with and without batches, and the goals."""
    run = run_of(args, args.run)
    shapes = args.shapes.split(",")
    graph = RunFolder.open(run).graph()
    loads = {
        "mixed": questions(graph, shapes, args.seed),
        "alike": questions(graph, shapes[:1], args.seed),
    }
    quarter = argparse.Namespace(**vars(args) | {"seconds": args.seconds / 4})
    figures: dict[str, dict[str, float]] = {}
    with service(run, "--workers", str(args.workers)) as (process, port):
        figures["mixed, batched"] = batched = measured(process, port, loads["mixed"], args)
        missed = ["no error"] if batched["errors"] else []
        if args.kill:
            return Measured(figures, missed=missed, kind="killed")
        figures["alike, batched"] = measured(process, port, loads["alike"], quarter)
        figures["behind four that were abandoned"] = abandoned(port)
    with service(run, "--workers", str(args.workers), *SINGLY) as (process, port):
        for name, requests in loads.items():
            figures[f"{name}, one by one"] = alone = measured(process, port, requests, quarter)
            together = figures[f"{name}, batched"]
            together["times one by one"] = together["per_second"] / alone["per_second"]
    goals = {
        "questions a second": batched["per_second"] >= PER_SECOND,
        "p99": batched["p99_ms"] < P99,
        "flat memory": batched["memory_last_mb"] <= GROWN * batched["memory_10s_mb"],
        "batching": figures["alike, batched"]["times one by one"] >= BATCHING,
    }
    return Measured(figures, missed=[*missed, *(name for name, met in goals.items() if not met)])


def main(argv: Sequence[str] | None = None) -> None:
    """Print a table, write it as JSON, and fail where a goal is missed."""
    benchmark = Benchmark(__file__, __doc__)
    benchmark.add_argument("--run", default="world", help="a run, or world")
    benchmark.add_argument("--kill", action="store_true", help="kill a worker every five seconds")
    benchmark.size("--shapes", "2p,2i,2in,pi", tiny="1p,2in", help=f"of {', '.join(TEMPLATES)}")
    benchmark.size("--seconds", 60.0, tiny=0.4)
    benchmark.size("--warm-up", 2.0, tiny=0.1, help="seconds")
    benchmark.size("--clients", 32, tiny=2)
    benchmark.size("--workers", 2, tiny=1)
    benchmark.run(measure, argv)


if __name__ == "__main__":
    main()
