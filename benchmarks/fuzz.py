"""Fuzzing of every reader: it must read a damaged file or refuse it with an error of ours.

    python benchmarks/fuzz.py [--seconds 60] [--only tsv,pickle] [--keep FOLDER]

Files are valid ones, changed at random: bytes are flipped, cut out, repeated and moved, numbers
made huge, brackets nested; where a file carries lengths or checksums of itself, they are made right
again half of the time, as someone with bad intentions would. Each case runs in a process of its own
with limits: 10 s of processor time and 1 GB of memory. Anything but a graph, an answer or an error
of `tacit.errors` is a failure: another exception, a crash, a limit that was reached.
"""

from __future__ import annotations

import argparse
import bz2
import gzip
import lzma
import os
import random
import re
import resource
import shutil
import signal
import sys
import time
import tomllib
import traceback
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

import torch

import tacit
from scaffold import Benchmark, Measured
from tacit.adapt.adapter import Adapter, save_adapter
from tacit.adapt.settings import AdaptSettings
from tacit.disk import digest, to_toml
from tacit.errors import TacitError
from tacit.fitting.checkpoint import CheckpointStore
from tacit.fitting.tensor_files import RunFiles
from tacit.graph.datasets import load
from tacit.graph.formats.fact_files import write_facts
from tacit.links.imports import read_kbc
from tacit.query.sampling.queries import read_queries
from tacit.run_folder.files import CHECKPOINT, SETTINGS
from tacit.run_folder.folder import RunFolder
from tiny import graph as tiny_graph
from tiny import write_data, write_run

# of a case
SECONDS = 10
BYTES = 1 << 30
PATIENCE = 120  # seconds by the clock, on a machine that does other things, too
# how the process of a case ends; 0 is read
REFUSED = 1
FAILED = 2
ODD_NUMBERS = (
    b"-1",
    b"0",
    b"99999999999999999999",
    b"1e999",
    b"nan",
    b"-0.0",
    b"2147483648",
    b"9" * 5000,
    b"true",
)
QUESTION = "?x : borders(France, ?x)"

Damage = Callable[[random.Random, bytes], bytes]


@dataclass(frozen=True)
class Reader:
    """A valid folder, the files to damage, a function that mends checksums, and a reader."""

    make: Callable[[Path], object]
    files: tuple[str, ...]
    read: Callable[[Path], object]
    mend: Callable[[Path, str], object] | None = None
    # "gz" and the like: damage what is packed, half of the time; "safetensors": its header
    inside: str = ""


def flipped(draw: random.Random, data: bytes) -> bytes:
    """Some bytes are others."""
    changed = bytearray(data)
    for _ in range(draw.choice((1, 1, 2, 8, 64))):
        changed[draw.randrange(len(changed))] = draw.randrange(256)
    return bytes(changed)


def cut(draw: random.Random, data: bytes) -> bytes:
    """A piece is missing, or everything from some place on."""
    start, end = span(draw, data)
    return data[:start] + (data[end:] if draw.random() < 0.5 else b"")


def repeated(draw: random.Random, data: bytes) -> bytes:
    """A piece comes several times."""
    start, end = span(draw, data)
    return data[:start] + data[start:end] * draw.choice((2, 3, 100)) + data[end:]


def moved(draw: random.Random, data: bytes) -> bytes:
    """A piece stands elsewhere."""
    start, end = span(draw, data)
    rest = data[:start] + data[end:]
    at = draw.randrange(len(data))
    return rest[:at] + data[start:end] + rest[at:]


def odd_number(draw: random.Random, data: bytes) -> bytes:
    """A number in text is another, or eight bytes are one that is huge."""
    numbers = list(re.finditer(rb"\d+(\.\d+)?", data))
    if numbers and draw.random() < 0.7:
        chosen = draw.choice(numbers)
        return data[: chosen.start()] + draw.choice(ODD_NUMBERS) + data[chosen.end() :]
    at = draw.randrange(len(data))
    width = draw.choice((1, 4, 8))
    return data[:at] + draw.choice((b"\xff", b"\x7f", b"\x00")) * width + data[at + width :]


def nested(draw: random.Random, data: bytes) -> bytes:
    """Brackets without end, or what opens a nesting in a pickle, in the middle of it."""
    at = draw.randrange(len(data))
    return (
        data[:at]
        + draw.choice((b"[", b'{"a":', b"(", b"<<(", b"\x85", b"]", b"<a>", b"a.")) * 50_000
        + data[at:]
    )


def retyped(draw: random.Random, data: bytes) -> bytes:
    """A value or a word in text is of another kind."""
    words = list(re.finditer(rb"\"[^\"\n]*\"|\b\w+\b", data[:100_000]))
    if not words:
        return flipped(draw, data)
    chosen = draw.choice(words)
    other = draw.choice(
        (
            b"[]",
            b"{}",
            b"[1, 2]",
            b"null",
            b'""',
            b"{a = 1}",
            b"'x'",
            b"\xff",
            b"1979-05-27",
            b"inf",
        )
    )
    return data[: chosen.start()] + other + data[chosen.end() :]


DAMAGES: tuple[Damage, ...] = (
    flipped,
    flipped,
    cut,
    repeated,
    moved,
    odd_number,
    odd_number,
    nested,
    retyped,
)


def span(draw: random.Random, data: bytes) -> tuple[int, int]:
    """Where a piece starts and ends."""
    start = draw.randrange(len(data))
    return start, min(len(data), start + draw.choice((1, 4, 30, 300, len(data))))


def damaged(draw: random.Random, data: bytes, inside: str) -> bytes:
    """Data after one change or a few."""
    if inside in PACK and draw.random() < 0.5:
        pack, unpack = PACK[inside]
        return pack(damaged(draw, unpack(data), ""))
    if inside == "safetensors" and draw.random() < 0.6:
        length = int.from_bytes(data[:8], "little")
        header = damaged(draw, data[8 : 8 + length], "")
        return len(header).to_bytes(8, "little") + header + data[8 + length :]
    for _ in range(draw.choice((1, 1, 1, 2, 4))):
        data = draw.choice(DAMAGES)(draw, data) if data else b"\0"
    return data


PACK: dict[str, tuple[Callable[[bytes], bytes], Callable[[bytes], bytes]]] = {
    "gz": (gzip.compress, gzip.decompress),
    "bz2": (bz2.compress, bz2.decompress),
    "xz": (lzma.compress, lzma.decompress),
}


def table(name: str) -> Callable[[Path], object]:
    """Writes the tiny graph as a table, packed where the name says so."""

    def make(folder: Path) -> None:
        lines = "".join(f"{h}\t{r}\t{t}\n" for h, r, t in labelled()).encode()
        lines = lines.replace(b"\t", b",") if ".csv" in name else lines
        packing = PACK.get(name.rpartition(".")[2])
        (folder / name).write_bytes(packing[0](lines) if packing else lines)

    return make


def labelled() -> list[tuple[str, str, str]]:
    """The facts of the tiny graph."""
    graph = tiny_graph()
    return [
        (graph.entities[h], graph.relations[r], graph.entities[t])
        for h, r, t in graph.facts().tolist()
    ]


def rdf(name: str) -> Callable[[Path], object]:
    """Writes some facts in a format of RDF."""

    def make(folder: Path) -> None:
        import pyoxigraph as ox

        node = "http://a.example/{}".format
        facts = [
            ox.Quad(*(ox.NamedNode(node(label)) for label in fact)) for fact in labelled()[:40]
        ]
        facts += [
            ox.Quad(
                ox.NamedNode(node("France")),
                ox.NamedNode(node("said")),
                ox.Literal("un", language="fr"),
            )
        ]
        formats = {
            ".nt": "N_TRIPLES",
            ".ttl": "TURTLE",
            ".rdf": "RDF_XML",
            ".jsonld": "JSON_LD",
            ".trig": "TRIG",
        }
        ox.serialize(facts, str(folder / name), getattr(ox.RdfFormat, formats[Path(name).suffix]))

    return make


def neo4j(folder: Path) -> None:
    """Writes an export of nodes and relationships."""
    (folder / "nodes.csv").write_text(
        ":ID(Land),name,:LABEL\n1,France,Land\n2,Spain,Land\n", encoding="utf-8"
    )
    (folder / "ties.csv").write_text(
        ":START_ID(Land),:END_ID(Land),:TYPE\n1,2,BORDERS\n2,1,BORDERS\n", encoding="utf-8"
    )


def parquet(folder: Path) -> None:
    """Writes the facts as Parquet."""
    import duckdb

    with duckdb.connect() as connection:
        connection.execute("CREATE TABLE facts (head VARCHAR, relation VARCHAR, tail VARCHAR)")
        connection.executemany("INSERT INTO facts VALUES (?, ?, ?)", labelled()[:50])
        connection.execute(f"COPY facts TO '{folder / 'x.parquet'}' (FORMAT parquet)")


def named(folder: Path) -> None:
    """Writes a folder of tables with names and prefixes."""
    write_facts(tiny_graph(), folder)
    (folder / "names.tsv").write_text("France\tLa France\nSpain\tEspaña\n", encoding="utf-8")
    (folder / "prefixes.tsv").write_text(
        "geo:\thttp://a.example/\n:\thttp://b.example/\n", encoding="utf-8"
    )


def betae(folder: Path) -> None:
    """Writes a BetaE folder with queries."""
    shutil.copytree(write_data(folder / "data") / "NELL995", folder, dirs_exist_ok=True)
    shutil.rmtree(folder / "data")


def trained(folder: Path) -> None:
    """Writes a run with an adapter and an index."""
    write_run(folder / "run")
    run = tacit.open(folder / "run", device="cpu")
    settings = AdaptSettings()
    save_adapter(
        run.folder,
        Adapter(run.engine.scorer, settings.condition, settings.layers),
        settings,
    )
    run.index()
    run.folder.write_results({"eval": []})


def kbc(folder: Path) -> None:
    """Writes checkpoints of both kinds."""
    tables = {
        "embeddings.0.weight": torch.zeros(24, 8),
        "embeddings.1.weight": torch.zeros(6, 8),
        "epoch": 3,
    }
    torch.save(tables, folder / "new.pt")
    torch.save(tables, folder / "old.pt", _use_new_zipfile_serialization=False)


def read_graph(folder: Path) -> None:
    """Reads the only file of a folder, or the folder, and looks at what came out."""
    files = list(folder.iterdir())
    graph = load(files[0] if len(files) == 1 else folder)
    graph.index().tails(0, 0)
    str(graph)


def ask(folder: Path) -> None:
    """Opens the run and asks it something."""
    run = tacit.open(folder / "run", device="cpu")
    str(run.ask(QUESTION, top=3))
    _ = run.results
    _ = run.folder.events()


def ask_by_index(folder: Path) -> None:
    """Asks the run something with the index."""
    str(tacit.open(folder / "run", device="cpu", candidates="index").ask(QUESTION, top=3))


def read_checkpoint(folder: Path) -> None:
    """Reads what a training would go on from."""
    run = RunFolder.open(folder / "run")
    CheckpointStore(RunFiles(run), CHECKPOINT, {}).read()


def read_all_queries(folder: Path) -> None:
    """Reads the queries of every split."""
    for split in ("train", "valid", "test"):
        read_queries(folder, split)


def mend_run(folder: Path, name: str) -> None:
    """Writes the digest of a changed file into the settings of its run."""
    run = folder / Path(name).parent
    settings = tomllib.loads((run / SETTINGS).read_text(encoding="utf-8"))
    settings["files"][Path(name).name] = digest(folder / name)
    (run / SETTINGS).write_text(to_toml(settings), encoding="utf-8")


ARRAYS = ("facts", "index-keys", "index-offsets", "index-tails")
PICKLES = ("id2ent.pkl", "id2rel.pkl")
QUERIES = (
    "train-queries.pkl",
    "test-queries.pkl",
    "test-easy-answers.pkl",
    "test-hard-answers.pkl",
    "stats.txt",
)
READERS = {
    "tsv": Reader(table("x.tsv"), ("x.tsv",), read_graph),
    "csv": Reader(table("x.csv"), ("x.csv",), read_graph),
    **{
        kind: Reader(table(f"x.tsv.{kind}"), (f"x.tsv.{kind}",), read_graph, inside=kind)
        for kind in PACK
    },
    **{
        kind: Reader(rdf(f"x.{kind}"), (f"x.{kind}",), read_graph)
        for kind in ("nt", "ttl", "rdf", "jsonld", "trig")
    },
    "neo4j": Reader(neo4j, ("nodes.csv", "ties.csv"), read_graph),
    "parquet": Reader(parquet, ("x.parquet",), read_graph),
    "names": Reader(named, ("names.tsv", "prefixes.tsv"), read_graph),
    "id maps": Reader(betae, PICKLES, read_graph),
    "id triples": Reader(betae, ("train.txt", "stats.txt"), read_graph),
    "queries": Reader(betae, QUERIES, read_all_queries),
    "settings": Reader(trained, ("run/settings.toml",), ask),
    "arrays": Reader(trained, tuple(f"run/{name}.npy" for name in ARRAYS), ask, mend_run),
    "labels": Reader(trained, ("run/entities.txt", "run/relations.txt"), ask, mend_run),
    "model": Reader(trained, ("run/model.safetensors",), ask, inside="safetensors"),
    "adapter": Reader(trained, ("run/adapter.safetensors",), ask, inside="safetensors"),
    "checkpoint": Reader(
        trained, ("run/checkpoint.safetensors",), read_checkpoint, inside="safetensors"
    ),
    "results": Reader(trained, ("run/results.json", "run/trace.jsonl", "run/weights.json"), ask),
    "index": Reader(trained, ("run/index.faiss",), ask_by_index),
    "kbc": Reader(
        kbc,
        ("new.pt", "old.pt"),
        lambda folder: [read_kbc(path) for path in sorted(folder.iterdir())],
    ),
}


def tried(reader: Reader, valid: Path, work: Path, seed: str) -> tuple[str, str]:
    """The outcome of one case, `read`, `refused` or a kind of failure, and its message."""
    draw = random.Random(seed)
    shutil.rmtree(work, ignore_errors=True)
    shutil.copytree(valid, work)
    name = draw.choice(reader.files)
    (work / name).write_bytes(damaged(draw, (work / name).read_bytes(), reader.inside))
    if reader.mend is not None and draw.random() < 0.9:
        reader.mend(work, name)
    said = work.with_suffix(".txt")
    process = os.fork()
    if not process:
        os._exit(limited(reader, work, said))
    status = os.waitpid(process, 0)[1]
    if os.WIFSIGNALED(status):
        number = os.WTERMSIG(status)
        return "too slow" if number in (
            signal.SIGPROF,
            signal.SIGALRM,
        ) else "crash", signal.Signals(number).name
    code = os.WEXITSTATUS(status)
    return {0: "read", REFUSED: "refused"}.get(code, "other error"), said.read_text(
        encoding="utf-8"
    )


def limited(reader: Reader, work: Path, said: Path) -> int:
    """Read within limits, in a process of its own, and give how it ends."""
    here = (
        int(Path("/proc/self/statm").read_text(encoding="utf-8").split()[0])
        * resource.getpagesize()
    )
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    resource.setrlimit(resource.RLIMIT_AS, (here + BYTES, here + BYTES))
    signal.setitimer(signal.ITIMER_PROF, SECONDS)
    signal.setitimer(signal.ITIMER_REAL, PATIENCE)
    os.dup2(os.open(os.devnull, os.O_WRONLY), 2)
    message = ""
    code = 0
    try:
        reader.read(work)
    except TacitError as error:
        message = str(error)
        code = REFUSED
        if "\n" in message or len(message) > 1000 + len(str(work)):
            message = f"a message of {len(message)} characters: {message[:200]!r}"
            code = FAILED
    except BaseException:  # whatever else comes is what is looked for
        message = traceback.format_exc()[-1500:]
        code = FAILED
    said.write_text(message, encoding="utf-8", errors="replace")
    return code


def measure(args: argparse.Namespace) -> Measured:
    """The cases of each reader, and how they ended."""
    torch.set_num_threads(1)
    chosen = args.only.split(",") if args.only else list(READERS)
    figures = {}
    missed = []
    for name in chosen:
        valid = args.scratch / f"valid {name}"
        valid.mkdir()
        READERS[name].make(valid)
        READERS[name].read(valid)  # which must be possible
        ends: Counter[str] = Counter()
        stop = time.monotonic() + args.seconds
        number = 0
        while time.monotonic() < stop and number < args.cases:
            end, about = tried(
                READERS[name], valid, args.scratch / "case", f"{args.seed} {name} {number}"
            )
            ends[end] += 1
            if end not in ("read", "refused"):
                missed.append(f"{name} case {number}: {end}")
                print(f"{missed[-1]}\n{about}", file=sys.stderr)
                if args.keep is not None:
                    shutil.copytree(
                        args.scratch / "case", args.keep / f"{name} {number}", dirs_exist_ok=True
                    )
            number += 1
        failures = number - ends["read"] - ends["refused"]
        figures[name] = {
            "cases": number,
            "refused": ends["refused"],
            "read": ends["read"],
            "failures": failures,
        }
    return Measured(figures, {"seconds of a case": SECONDS, "bytes of a case": BYTES}, missed)


def main(argv: Sequence[str] | None = None) -> None:
    """Print a table and write the figures as JSON."""
    benchmark = Benchmark(__file__, __doc__)
    benchmark.size("--seconds", 60.0, tiny=1.0, help="for each reader")
    benchmark.size("--cases", 1_000_000, tiny=2, help="of each reader at most")
    benchmark.add_argument("--only", help=f"some of the readers: {', '.join(READERS)}")
    benchmark.add_argument("--keep", type=Path, help="a folder for the files that failed")
    benchmark.run(measure, argv)


if __name__ == "__main__":
    main()
