"""`tacit sample`: queries with easy and hard answers, from any graph."""

from __future__ import annotations

import json
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

import typer

if TYPE_CHECKING:
    from tacit.graph.graph import Graph
    from tacit.query.sampling import Sample
    from tacit.query.shapes import Encoding, Shape


def sample(
    graph: Annotated[str, typer.Argument(help="A data set (world), a folder or a file of facts.", metavar="GRAPH")],
    out: Annotated[Path, typer.Option("--out", help="The BetaE folder to write; other splits in it stay.")],
    shapes: str = typer.Option(
        "", "--shapes", help="Shapes, as in 2i,3i,2in; or all (the default), positive, negative."
    ),
    template: Annotated[
        list[str] | None,
        typer.Option(
            "--template", help="A question with slots for names: '?t : r(a, ?t) & !s(b, ?t)'; may be repeated."
        ),
    ] = None,
    split: Literal["train", "valid", "test"] = typer.Option("train", "--split", help="The facts to ask about."),
    count: int = typer.Option(1000, "--count", help="Queries of each shape."),
    max_answers: int | None = typer.Option(
        None, "--max-answers", help="Hard answers of a query, at most: 80 by default, any number in train."
    ),
    seed: int = typer.Option(0, "--seed", min=0, help="Seed of all draws."),
    waste: float = typer.Option(
        0.999, "--waste", help="Share of tries that may be in vain before a shape is given up."
    ),
    force: bool = typer.Option(False, "--force", help="Replace queries of the split in the folder."),
) -> None:
    """Sample queries with easy and hard answers, and write them with the graph as a BetaE folder."""
    from tacit.cli.data import loaded
    from tacit.errors import DataError, SettingsError
    from tacit.graph.build import counted
    from tacit.query.queries import write_queries

    if (out / f"{split}-queries.pkl").exists() and not force:
        raise DataError(f"holds {split} queries; choose another folder, or replace them with --force", out)
    wanted = _wanted(shapes, template or [])
    source = loaded(graph)
    samples = _sampled(source, wanted, split, count, max_answers, seed, waste)
    found = [one.queries for one in samples if len(one.queries)]
    if not found:
        raise SettingsError(f"no query found; {'; '.join(map(str, samples))}")
    _write_graph(source, out)
    write_queries(out, split, found)
    settings = {"graph": source.name, "split": split, "count": count, "max_answers": max_answers, "seed": seed}
    _write_report(out / f"{split}-sample.json", settings | {"waste": waste}, samples)
    _print(samples)
    typer.echo(
        f"wrote {sum(map(len, found)):,} {split} queries of {counted(len(found), 'shape')} and the graph to {out}"
    )


def _wanted(names: str, templates: list[str]) -> dict[str, Shape]:
    """The shapes asked for by name and by template, as the folder will call them; all 14 where nothing is said."""
    from tacit.query.shapes import SHAPES, Shape, parse_shapes
    from tacit.query.tuples import label

    chosen = parse_shapes(names or "all") if names or not templates else ()
    shapes = {name: SHAPES[name.removesuffix("-DM")] for name in chosen}
    if templates:
        from tacit.query.text import parse

        for text in templates:
            shape = Shape.of(text, parse(text))
            name = label(shape.encoded())
            shapes.setdefault(name, SHAPES.get(name, replace(shape, name=name)))
    return shapes


def _sampled(
    graph: Graph, shapes: dict[str, Shape], split: str, count: int, max_answers: int | None, seed: int, waste: float
) -> list[Sample]:
    from rich.console import Console
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

    from tacit.query.sampling import sample as draw

    columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeRemainingColumn())
    console = Console(stderr=True)
    samples = []
    with Progress(*columns, console=console, transient=True, disable=not console.is_terminal) as bar:
        task = bar.add_task("", total=count * len(shapes))
        for position, (name, shape) in enumerate(shapes.items()):
            bar.update(task, description=name, completed=position * count)
            step = partial(bar.advance, task)
            one = draw(graph, shape, split, count, max_answers, seed, waste, progress=step)
            encoding: Encoding = "dm" if name != shape.name else "dnf"
            samples.append(replace(one, queries=replace(one.queries, encoding=encoding)))
    return samples


def _write_graph(graph: Graph, out: Path) -> None:
    """Writes the graph beside its queries; a folder that holds another graph is left alone."""
    import numpy as np

    from tacit.errors import DataError
    from tacit.graph.betae import is_betae, read_betae, write_betae
    from tacit.graph.graph import PARTS

    if not is_betae(out):
        return write_betae(graph, out)
    there = read_betae(out, out.name)
    same = (there.entities, there.relations) == (graph.entities, graph.relations)
    if not same or any(not np.array_equal(there.part(part), graph.part(part)) for part in PARTS):
        raise DataError("holds another graph; choose another folder", out)
    return None


def _write_report(path: Path, settings: dict[str, object], samples: list[Sample]) -> None:
    from tacit import __version__
    from tacit.graph.files import atomic_file

    shapes = {
        one.queries.name: {"queries": len(one.queries), "tries": one.tries, "turned_down": one.turned_down}
        for one in samples
    }
    with atomic_file(path) as file:
        file.write(json.dumps({"tacit": __version__, **settings, "shapes": shapes}, indent=2).encode() + b"\n")


def _print(samples: list[Sample]) -> None:
    """A line per shape, and why a sample is smaller than asked for."""
    width = max(len("shape"), *(len(one.queries.name) for one in samples))
    typer.echo(f"{'shape':{width}}  queries    tries   good    easy    hard")
    for one in samples:
        queries = one.queries
        easy, hard = (part.counts.mean() if len(part) else 0.0 for part in (queries.easy, queries.hard))
        typer.echo(
            f"{queries.name:{width}}  {len(queries):7,}  {one.tries:7,}  {one.share:5.1%}  {easy:6.1f}  {hard:6.1f}"
        )
    for one in samples:
        if not one.complete:
            typer.echo(f"note: fewer than asked for: {one}", err=True)
