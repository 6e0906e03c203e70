"""What every benchmark shares: arguments, clocks, tables and files of results.

A script makes a `Benchmark`, adds arguments of its own, and hands over the function that measures.
All of them take `--tiny` (smallest sizes on a graph made for it: whether a script runs, not how
fast) and `--against CHECKOUT` (the same measurement over the sources of another checkout, in turns
with these, and the ratios).
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Any, Generic, NamedTuple, TypeVar

from comparison import compare, show

if TYPE_CHECKING:
    from tacit.graph.graph import Graph
    from tacit.links.factors import FactorModel
    from tacit.links.settings import TrainSettings

RESULTS = Path(__file__).with_name("results")
SHARED = ("tiny", "against", "data", "device", "threads", "seed", "out", "scratch")

# row -> column -> value; the column is a unit, or ends in one
Figures = Mapping[str, Mapping[str, Any]]
Work = Callable[[], object]
T = TypeVar("T")


@dataclass(frozen=True)
class Measured:
    """What a script measured: figures, settings beside its arguments, and missed goals."""

    figures: Figures
    settings: Mapping[str, Any] = field(default_factory=dict)
    missed: Sequence[str] = ()
    kind: str = ""  # where a script measures several things, part of the name of the file


class Benchmark(argparse.ArgumentParser):
    """The arguments of a script, those that all share among them."""

    def __init__(self, script: str, about: str | None) -> None:
        super().__init__(description=about, formatter_class=argparse.RawDescriptionHelpFormatter)
        self.script = Path(script)
        self.tiny = dict[str, Any]()
        data = os.environ.get("TACIT_DATA", ".bench")
        add = self.add_argument
        add(
            "--tiny",
            action="store_true",
            help="the smallest sizes on a graph made for it: does it run?",
        )
        add(
            "--against",
            type=Path,
            metavar="CHECKOUT",
            help="measure its sources too, in turns, and print the ratios",
        )
        add(
            "--data",
            type=Path,
            default=Path(data),
            help="the folder that holds NELL995 and FB15k-237; TACIT_DATA",
        )
        add("--device", default="cpu", help="cpu or cuda")
        add("--threads", type=int, help="of torch")
        add("--seed", type=int, default=0)
        add("--out", type=Path, default=RESULTS, help="the folder for the results")

    def size(
        self, flag: str, default: float | str, tiny: float | str, help: str | None = None
    ) -> None:
        """Add an argument that says how much to do, and how much of that is tiny."""
        self.add_argument(flag, type=type(default), default=default, help=help)
        self.tiny[flag.removeprefix("--").replace("-", "_")] = tiny

    def run(
        self,
        measure: Callable[[argparse.Namespace], Measured | None],
        argv: Sequence[str] | None = None,
    ) -> None:
        """Measure, print a table, write results; missed goals fail unless all is tiny."""
        argv = sys.argv[1:] if argv is None else list(argv)
        if "--tiny" in argv:
            self.set_defaults(**self.tiny)
        args = self.parse_args(argv)
        if args.against is not None:
            without = argparse.ArgumentParser(add_help=False, allow_abbrev=False)
            without.add_argument("--against")
            command = [str(self.script), *without.parse_known_args(argv)[1]]
            return compare(
                {self.script.stem: command},
                args.against,
                args.out / f"{self.script.stem}-against.json",
            )
        with tempfile.TemporaryDirectory() as scratch:
            args.scratch = Path(scratch)
            if args.tiny:
                self._make_tiny(args)
            if args.threads and not args.tiny:
                import torch

                torch.set_num_threads(args.threads)
            measured = measure(args)
            if measured is not None:
                self._finish(measured, args)
        return None

    def _make_tiny(self, args: argparse.Namespace) -> None:
        if args.data == self.get_default("data"):
            from tiny import write_data

            args.data = write_data(args.scratch / "data")
        if args.out == RESULTS:  # nobody wants to keep what tiny sizes say
            args.out = args.scratch / "results"

    def _finish(self, measured: Measured, args: argparse.Namespace) -> None:
        show(measured.figures)
        own = {name: value for name, value in vars(args).items() if name not in SHARED}
        name = "-".join(
            filter(None, (self.script.stem, measured.kind, "cuda" if args.device == "cuda" else ""))
        )
        results = {
            "settings": {**own, **measured.settings},
            **provenance(args),
            "figures": measured.figures,
        }
        write(args.out / f"{name}.json", results)
        if measured.missed and not args.tiny:
            sys.exit(f"goals missed: {', '.join(measured.missed)}")


def write(path: Path, results: Mapping[str, Any]) -> None:
    """Write results as JSON; of a path, its name."""
    path.parent.mkdir(parents=True, exist_ok=True)
    text = json.dumps(results, indent=1, default=lambda value: getattr(value, "name", str(value)))
    path.write_text(text + "\n", encoding="utf-8")


def read_results(path: str | Path) -> dict[str, Any]:
    """The results in a file written by `tacit eval --json`, their form checked."""
    from tacit.disk import from_json
    from tacit.errors import DataError
    from tacit.evaluate.results import is_results

    path = Path(path)
    try:
        results = from_json(path.read_text(encoding="utf-8"))
    except OSError as error:
        raise DataError(f"cannot be read ({error.strerror or error})", path) from None
    except ValueError as error:
        raise DataError(f"is not JSON ({error})", path) from None
    if not is_results(results):
        raise DataError(
            "holds no results; write those of an evaluation", path, command="eval RUN --json FILE"
        )
    return dict(results)


def provenance(args: argparse.Namespace) -> dict[str, Any]:
    """What figures depend on beside settings: seed, device, threads, versions and git head."""
    from tacit.run_folder.folder import versions

    torch = sys.modules.get("torch")  # a script that has not loaded it does not depend on it
    return {
        "seed": args.seed,
        "device": torch.cuda.get_device_name()
        if torch is not None and args.device == "cuda"
        else f"{os.cpu_count()} cores",
        "threads": torch.get_num_threads() if torch is not None else None,
        "versions": versions(),
    }


def data_folder(args: argparse.Namespace, name: str) -> Path:
    """The folder of a data set; a script that needs one that is not there ends here."""
    folder: Path = args.data / name
    if not folder.is_dir():
        sys.exit(
            f"no folder {folder}; give --data, or set TACIT_DATA to the folder that holds {name}"
        )
    return folder


def installed(library: str, what: str) -> bool:
    """Whether there is a library; what needs it is left out else, and that is said."""
    if find_spec(library):
        return True
    print(f"{what}: left out, since {library} is not installed")
    return False


def graph_of(args: argparse.Namespace, name: str | None = None) -> Graph:
    """The graph of a name, by default that of the arguments: `world` or a folder of --data."""
    import tacit

    name = name or args.graph
    return tacit.load("world" if name == "world" else data_folder(args, name))


def run_of(args: argparse.Namespace, source: str | Path = "world") -> Path:
    """A run folder: that of `world`, another one, or a hardly trained one for `--tiny`."""
    if args.tiny:
        from tiny import write_run

        path: Path = args.scratch / "world-tiny"
        return path if path.exists() else write_run(path)
    import tacit

    return tacit.open("world", device="cpu").folder.path if str(source) == "world" else Path(source)


def world_cache(args: argparse.Namespace) -> Path:
    """The folder that keeps a trained `world`: TACIT_CACHE, or an unused one."""
    return Path(os.environ.get("TACIT_CACHE") or args.scratch)


def trained(
    args: argparse.Namespace, graph: Graph, **settings: Any
) -> tuple[FactorModel, TrainSettings]:
    """A link predictor of the sizes that the arguments name, and its settings."""
    from tacit.links.settings import TrainSettings
    from tacit.links.training.link_training import train

    names = ("rank", "epochs", "reg", "batch", "device", "seed")
    named = {name: getattr(args, name) for name in names if name in args}
    chosen = TrainSettings(**named | settings)
    return train(graph, chosen), chosen


class Timed(NamedTuple, Generic[T]):
    """What a call returned, and its seconds: by the clock, and of the processor."""

    made: T
    wall: float
    processor: float

    @property
    def ms(self) -> float:
        """Milliseconds by the clock."""
        return 1e3 * self.wall

    @property
    def processor_ms(self) -> float:
        """Milliseconds of the processor, of all threads together."""
        return 1e3 * self.processor


def timed(work: Callable[[], T], device: str = "cpu") -> Timed[T]:
    """Call, and look at both clocks."""
    wait(device)
    wall = time.perf_counter()
    processor = time.process_time()
    made = work()
    wait(device)
    return Timed(made, time.perf_counter() - wall, time.process_time() - processor)


def seconds(work: Work, device: str = "cpu") -> float:
    """The time of one call, by the clock."""
    return timed(work, device).wall


def in_turns(
    works: Mapping[str, Work], rounds: int, device: str = "cpu", warm_up: bool = True
) -> dict[str, list[float]]:
    """Seconds of each piece of work in each round, so that noise disturbs all of them alike."""
    times: dict[str, list[float]] = {name: [] for name in works}
    for _ in range(rounds + warm_up):
        for name, work in works.items():
            times[name].append(seconds(work, device))
    return {name: taken[int(warm_up) :] for name, taken in times.items()}


def wait(device: str) -> None:
    """Wait until a GPU has done what it was given."""
    if device == "cuda":
        import torch

        torch.cuda.synchronize()


def python(*arguments: str, **variables: str) -> Work:
    """A command of this Python in a process of its own, with some environment variables changed."""
    command = [sys.executable, *arguments]
    env = os.environ | variables
    return lambda: subprocess.run(command, env=env, check=True, capture_output=True)


def peak_gb() -> float:
    """The peak memory of this process; `ru_maxrss` would include that of its parent."""
    return status_bytes("VmHWM") / 1e9


def status_bytes(field: str) -> int:
    """A size of this process by the system's name, such as `VmRSS` or its peak `VmHWM`."""
    lines = Path("/proc/self/status").read_text(encoding="utf-8").splitlines()
    return next(int(line.split()[1]) * 1024 for line in lines if line.startswith(field))
