"""One table of what commands, questions and training take in two checkouts.

    python benchmarks/before_after.py --against CHECKOUT [--data FOLDER] [--turns 5] [--minutes 5]
    make compare AGAINST=CHECKOUT

The table takes five minutes. The scripts that measure each of them run over both source trees in
turns, so that what else the machine does disturbs both alike, on the embedded graph and on NELL995
and FB15k-237 where the folder of data holds them. The best of all turns counts. `spread` is how far
the worst turn of a tree is from its best, as a share of it: a ratio within that is noise. What does
not depend on the tree, such as `import torch` or the bare loop, tells how even the machine was.
"""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from pathlib import Path

from comparison import compare
from scaffold import Benchmark

HERE = Path(__file__).parent
# Arguments by script, and by graph where it runs twice; `ask` trains `world` for the others.
PARTS = {
    "ask": "--rounds 3",
    "startup": "--rounds 1",
    "load": "--triples 400000 --rounds 1",
    "engine world": "--graph world --types 1p,2i,2in,2p,pi,3p --queries 64 --peaks= --block "
    "512 1024",
    "train_step world": "--graph world --steps 5 --turns 3 --epochs 1",
}
DATA_SETS = ("NELL995", "FB15k-237")
ON_DATA = {
    "engine": "--types 1p,2in,2p --queries 16 --peaks= --block 512 1024",
    "train_step": "--rank 50 --steps 1 --turns 2",
}


def parts(args: argparse.Namespace) -> dict[str, list[str]]:
    """The commands to run over both trees, by name."""
    named = dict(PARTS)
    for name in DATA_SETS:
        if (args.data / name).is_dir() and not args.tiny:
            named |= {
                f"{script} {name}": f"--graph {name} {words}" for script, words in ON_DATA.items()
            }
    shared = ["--device", args.device, "--seed", str(args.seed)]
    shared += ["--threads", str(args.threads)] if args.threads else []
    shared += ["--tiny"] if args.tiny else ["--data", str(args.data.resolve())]
    return {
        name: [str(HERE / f"{script}.py"), *shared, *([] if args.tiny else words.split())]
        for name, words in named.items()
        if (script := name.split()[0]) in args.parts.split(",")
    }


def main(argv: Sequence[str] | None = None) -> None:
    """Print a table and write it as JSON."""
    benchmark = Benchmark(__file__, __doc__)
    scripts = dict.fromkeys(name.split()[0] for name in PARTS)
    benchmark.add_argument(
        "--parts", default=",".join(scripts), help="some of them, joined by commas"
    )
    benchmark.add_argument("--turns", type=int, default=5, help="at most")
    benchmark.add_argument(
        "--minutes",
        type=float,
        default=5.0,
        help="after two turns, none is begun that may end later",
    )
    args = benchmark.parse_args(argv)
    if args.against is None:
        benchmark.error("say with which: --against CHECKOUT")
    compare(parts(args), args.against, args.out / "before_after.json", args.turns, args.minutes)


if __name__ == "__main__":
    main()
