"""The service under load: questions a second, waiting times, memory, what batching brings, and a killed worker.

python benchmarks/service.py [--run world] [--seconds 60] [--clients 32] [--shapes 2p,2i,2in,pi] [--kill]
python benchmarks/service.py --against CHECKOUT [--seconds 8]

32 clients ask one question after the other, of several shapes in equal parts, over entities drawn from the graph. What
batching brings is the ratio to the same load answered one question at a time, for a quarter of the time: once for the
mix, where a batch finds few questions of its structure, and once where all clients ask questions of one structure. With
--kill a worker is killed every five seconds. Clients and service share the cores.

With --against the sources of another checkout are served in turns with these, and only the ratios count: questions a
second, waiting times, processor time of a question, and how long a question waits behind four heavy ones whose clients
have hung up.
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
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from urllib.error import HTTPError
from urllib.request import Request, urlopen

import psutil

from tacit.graph.graph import Graph
from tacit.query.formula import quoted

SOURCES = Path(__file__).parents[1] / "src"
HEAVY = {"search": "exact", "k": 4096, "top": 1000, "paths": 5}  # over all entities, with the reasons of each answer
SINGLY = ("--batch", "1", "--patience", "0")
GOALS = {"per_second": 300.0, "p99_ms": 250.0, "batching": 2.0}
# Shapes of the BetaE benchmarks over the relations of `world`: {c} a country, {l} a language, {s} a subregion.
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
    memory: list[float] = field(default_factory=list)  # MB of the service and its workers, once a second

    def percentile(self, share: float) -> float:
        """A waiting time in milliseconds."""
        ordered = sorted(self.seconds)
        return 1000 * ordered[min(len(ordered) - 1, int(share * len(ordered)))]


def questions(graph: Graph, shapes: list[str], seed: int = 0) -> list[bytes]:
    """Requests of some shapes, in random order."""
    draw, facts = random.Random(seed), graph.facts()

    def ends(relation: str, column: int) -> list[str]:
        found = facts[facts[:, 1] == graph.relations.id(relation)][:, column]
        return [quoted(graph.entities[int(i)]) for i in sorted(set(found.tolist()))]

    countries, languages, regions = ends("borders", 0), ends("speaks", 2), ends("in_subregion", 2)
    texts = [
        template.format(
            c=draw.choice(countries), d=draw.choice(countries), l=draw.choice(languages), s=draw.choice(regions)
        )
        for template in (TEMPLATES[shape] for shape in shapes)
        for _ in range(500)
    ]
    draw.shuffle(texts)
    return [json.dumps({"query": text}).encode() for text in texts]


@contextmanager
def service(run: str, *flags: str, sources: Path = SOURCES):  # type: ignore[no-untyped-def]
    """`tacit serve` of some sources in a process of its own: its process and its port."""
    command = [sys.executable, "-m", "tacit", "serve", run, "--port", "0", *flags]
    environment = os.environ | {"PYTHONPATH": str(sources)}
    process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True, env=environment)
    try:
        line = process.stdout.readline()  # type: ignore[union-attr]
        found = re.search(r"http://[\d.]+:(\d+)/", line)
        if not found:
            sys.exit(f"the service did not start: {line}")
        yield psutil.Process(process.pid), int(found[1])
    finally:
        process.send_signal(signal.SIGINT)
        process.wait(30)
        process.stdout.close()  # type: ignore[union-attr]


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
    """One client: a connection that asks one question after the other."""
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    at = start
    while time.monotonic() < until:
        body = requests[at % len(requests)]
        at += 1
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
    writer.close()


async def watch(process: psutil.Process, until: float, tally: Tally, kill: bool) -> None:
    """Note the memory every second; with `kill`, end a worker every five."""
    second = 0
    while time.monotonic() < until - 1:
        await asyncio.sleep(1)
        second += 1
        tally.memory.append(megabytes(process))
        if kill and second % 5 == 0:
            busiest = max(process.children(recursive=True), key=lambda one: one.cpu_times().user)
            os.kill(busiest.pid, signal.SIGKILL)


async def load(process: psutil.Process, port: int, requests: list[bytes], options: argparse.Namespace) -> Tally:
    """The load for some seconds, after two to warm up."""
    for seconds, kill in ((2.0, False), (options.seconds, options.kill)):
        tally, until = Tally(), time.monotonic() + seconds
        step = len(requests) // options.clients
        clients = [client(port, requests, i * step, until, tally) for i in range(options.clients)]
        await asyncio.gather(*clients, watch(process, until, tally, kill))
    return tally


def processor_seconds(process: psutil.Process) -> float:
    """The processor time of the service and its workers."""
    times = [one.cpu_times() for one in [process, *process.children(recursive=True)]]
    return float(sum(each.user + each.system for each in times))


def measured(
    requests: list[bytes], options: argparse.Namespace, *flags: str, sources: Path = SOURCES
) -> dict[str, float | int]:
    """The figures of one load."""
    with service(options.run, "--workers", str(options.workers), *flags, sources=sources) as (process, port):
        begun, used = time.monotonic(), processor_seconds(process)
        tally = asyncio.run(load(process, port, requests, options))
        seconds, used = time.monotonic() - begun - 2.0, processor_seconds(process) - used
        with urlopen(f"http://127.0.0.1:{port}/metrics") as counted:
            restarts = re.search(r"worker_restarts_total(?:{.*})? (\d+)", counted.read().decode())
    for error in sorted(set(tally.errors))[:5]:
        print(f"error: {error}", file=sys.stderr)
    early = tally.memory[min(9, len(tally.memory) - 1)]
    return {
        "per_second": round(len(tally.seconds) / seconds, 1),
        "p50_ms": round(tally.percentile(0.50), 1),
        "p99_ms": round(tally.percentile(0.99), 1),
        "processor_ms": round(1000 * used / len(tally.seconds), 3),  # that of the warm-up, too
        "questions": len(tally.seconds),
        "errors": len(tally.errors),
        "restarts": int(restarts[1]) if restarts else 0,
        "memory_10s_mb": round(early, 1),
        "memory_last_mb": round(tally.memory[-1], 1),
    }


def abandoned(options: argparse.Namespace, sources: Path) -> str:
    """How long a question waits behind four heavy ones whose clients hung up, and what it gets."""
    heavy = (
        "?x : exists ?a . exists ?b . exists ?c . speaks(?a, ?b) & speaks(?c, ?b) & borders(?c, ?x) & !borders(?a, ?x)"
    )
    body = json.dumps({"query": heavy, **HEAVY}).encode()
    head = b"POST /explain HTTP/1.1\r\nhost: 127.0.0.1\r\ncontent-type: application/json\r\ncontent-length: %d\r\n\r\n"
    with service(options.run, "--workers", str(options.workers), sources=sources) as (_, port):
        clients = [socket.create_connection(("127.0.0.1", port)) for _ in range(4)]
        for number, each in enumerate(clients):
            other = body.replace(b"1000", b"%d" % (1000 - number))  # each a batch of its own
            each.sendall(head % len(other) + other)
        time.sleep(0.5)
        for each in clients:
            each.close()
        light = Request(
            f"http://127.0.0.1:{port}/ask",
            b'{"query": "?x : borders(France, ?x)"}',
            {"content-type": "application/json"},
        )
        begun = time.perf_counter()
        try:
            with urlopen(light) as answered:
                status = answered.status
        except HTTPError as error:
            status = error.code
        return f"{time.perf_counter() - begun:.2f} s, status {status}"


def compared(requests: list[bytes], options: argparse.Namespace) -> None:
    """Print the ratios of these sources to those of another checkout, measured in turns."""
    places = {"these": SOURCES, "those": options.against / "src"}
    rounds: dict[str, list[dict[str, float | int]]] = {name: [] for name in places}
    for _ in range(2):
        for name, sources in places.items():
            rounds[name].append(measured(requests, options, sources=sources))
            print(name, rounds[name][-1])
    for figure in ("per_second", "p50_ms", "p99_ms", "processor_ms"):
        these, those = (sum(row[figure] for row in rounds[name]) for name in places)
        print(f"{figure:18}  these / those {these / those:.2f}")
    for name, sources in places.items():
        print(f"behind four abandoned questions, {name}: {abandoned(options, sources)}")


def main() -> None:
    """Print a table and write `benchmarks/results/service.json`."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--run", default="world")
    parser.add_argument("--seconds", type=float, default=60)
    parser.add_argument("--clients", type=int, default=32)
    parser.add_argument("--workers", type=int, default=2)
    parser.add_argument("--shapes", default="2p,2i,2in,pi", help=f"of {', '.join(TEMPLATES)}")
    parser.add_argument("--kill", action="store_true", help="kill a worker every five seconds")
    parser.add_argument("--against", type=Path, metavar="CHECKOUT", help="print the ratios to its sources alone")
    options = parser.parse_args()

    from tacit.folder import RunFolder
    from tacit.training import world_run

    run = world_run() if options.run == "world" else options.run
    graph = RunFolder.open(run).graph()
    mixed, alike = questions(graph, options.shapes.split(",")), questions(graph, [options.shapes.split(",")[0]])
    if options.against is not None:
        compared(mixed, options)
        return
    quarter = argparse.Namespace(**vars(options) | {"seconds": max(5.0, options.seconds / 4), "kill": False})
    rows = {"mixed, batched": measured(mixed, options)}
    if not options.kill:
        rows["mixed, one by one"] = measured(mixed, quarter, *SINGLY)
        rows["alike, batched"] = measured(alike, quarter)
        rows["alike, one by one"] = measured(alike, quarter, *SINGLY)
    for name, row in rows.items():
        print(f"{name:18}" + "".join(f"  {key} {value:,}" for key, value in row.items()))
    ratios = {
        load: round(rows[f"{load}, batched"]["per_second"] / rows[f"{load}, one by one"]["per_second"], 2)
        for load in ("mixed", "alike")
        if f"{load}, one by one" in rows
    }
    if ratios:
        print(
            f"batching answers so many times as many questions: {ratios}, on {os.cpu_count()} cores with their clients"
        )
    results = {"settings": vars(options), "rows": rows, "batching": ratios, "goals": GOALS}
    folder = Path(__file__).parent / "results"
    folder.mkdir(exist_ok=True)
    name = "service-killed.json" if options.kill else "service.json"
    (folder / name).write_text(json.dumps(results, indent=2) + "\n", encoding="utf-8")
    batched = rows["mixed, batched"]
    goals = {"no error": batched["errors"] == 0}
    if not options.kill:
        goals |= {
            "questions a second": batched["per_second"] >= GOALS["per_second"],
            "p99": batched["p99_ms"] < GOALS["p99_ms"],
            "flat memory": batched["memory_last_mb"] <= 1.05 * batched["memory_10s_mb"],
            "batching": ratios["alike"] >= GOALS["batching"],
        }
    missed = [name for name, met in goals.items() if not met]
    if missed:
        sys.exit(f"goals missed: {', '.join(missed)}")


if __name__ == "__main__":
    main()
