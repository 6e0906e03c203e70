"""`tacit data`: graphs one can point Tacit at."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from typer import Argument, Option

from tacit.cli import options
from tacit.cli.terminal import say
from tacit.engine.answers.aligned_cells import escape_control_chars
from tacit.errors import SettingsError
from tacit.graph.settings import ReadSettings

if TYPE_CHECKING:
    from rich.table import Table

    from tacit.graph.graph import Graph
    from tacit.graph.statistics import RelationStatistics, Statistics, ValueRelation
    from tacit.graph.value_statistics import AttributeStatistics

app = typer.Typer(
    help="List, describe and write graphs.", no_args_is_help=True, rich_markup_mode=None
)

Graphs = Annotated[
    list[str],
    Argument(
        metavar="GRAPH...",
        help="A data set (world), a folder or file of facts, or - for standard input; several are "
        "one graph.",
    ),
]
_MISSING = "Missing: the share without a value, of the entities that have the relation beside it."
MOST_SOURCES = 10
MOST_RELATIONS = 25  # more fill a screen; `--json` has them all


@app.command("list", cls=options.FlagCommand)
def list_() -> None:
    """List the graphs that come with Tacit."""
    from tacit.graph.datasets import DATASETS, load

    for name, description in DATASETS.items():
        graph = load(name)
        names = f"{graph.num_entities:,} entities, {graph.num_relations // 2} relations"
        numbers = f"{len(graph.facts()):,} facts, {len(graph.attributes):,} values"
        say(f"{name}  {names}, {numbers}: {description}")
    say("Any file or folder of facts does as well: tacit data describe FILE")


@app.command(cls=options.FlagCommand)
@options.of_settings(ReadSettings, "reading")
def describe(
    graph: Graphs,
    reading: options.Values,
    as_json: bool = Option(False, "--json", help="Print everything as JSON."),
) -> None:
    """Describe a graph: its splits, relations, attributes, degrees and hubs."""
    statistics = read_graph(graph, **reading).statistics()
    if as_json:
        typer.echo(json.dumps(statistics.to_json(), ensure_ascii=False, indent=2))
    else:
        _print(statistics)


@app.command(cls=options.FlagCommand)
def world(
    out: str = Option(..., help="A .tsv file for all facts, or a folder for its three splits."),
) -> None:
    """Write the graph of the world, to look at or to change."""
    from tacit.graph.datasets import load

    graph = load("world")
    graph.write(out)
    say(f"wrote {len(graph.facts()):,} facts and {len(graph.attributes):,} values to {out}")


@app.command("split", cls=options.FlagCommand)
@options.of_settings(ReadSettings, "reading")
def split_(
    graph: Graphs,
    reading: options.Values,
    out: str = Option(..., help="The folder to write train.tsv, valid.tsv and test.tsv to."),
    valid: float = Option(0.1, help="The share of the facts to validate with."),
    test: float = Option(0.1, help="The share of the facts to test with."),
    seed: int = Option(0, help="Seed of the draw."),
) -> None:
    """Draw train, valid and test splits that do not give each other away."""
    import numpy as np

    from tacit.graph.graph import SPLITS
    from tacit.sources import split

    parts = split(read_graph(graph, **reading), out, valid=valid, test=test, seed=seed)
    for note in parts.notes:
        say(f"note: {note}", err=True)
    facts = ", ".join(f"{len(parts.split(name)):,} {name}" for name in SPLITS)
    sizes = np.bincount(parts.attributes.rows["split"], minlength=len(SPLITS)).tolist()
    values = ", ".join(f"{size:,} {name}" for size, name in zip(sizes, SPLITS, strict=True))
    also = f" and {values} values" if len(parts.attributes) else ""
    say(f"wrote {facts} facts{also} to {out}")


@app.command("fetch", cls=options.FlagCommand)
def fetch_(
    url: str = Argument(..., help="The address of a SPARQL endpoint.", metavar="URL"),
    out: str = Option(..., help="The .nt file to write."),
    pattern: str = Option("?s ?p ?o", help="A graph pattern: the facts ?s ?p ?o to fetch."),
    most: int = Option(1_000_000, help="Facts to fetch, at most."),
    page: int = Option(10_000, help="Facts to ask for at a time."),
    delay: float = Option(1.0, help="Seconds between two pages."),
    timeout: float = Option(60.0, help="Seconds to wait for a page."),
) -> None:
    """Fetch the facts of a SPARQL endpoint, page by page; the same command goes on once stopped."""
    from tacit.sources import fetch

    try:
        count, is_complete = fetch(
            url,
            out,
            most=most,
            progress=True,
            pattern=pattern,
            page=page,
            delay=delay,
            timeout=timeout,
        )
    except KeyboardInterrupt:
        part = Path(f"{out}.part")
        has_facts = part.is_file() and part.stat().st_size > 0
        note = f"; the facts so far are in {part}, and the same command goes on from there"
        say(f"interrupted{note * has_facts}", err=True)
        raise typer.Exit(130) from None
    say(
        f"wrote {count:,} facts to {out}"
        + ("" if is_complete else f"; there may be more than --most {most:,}")
    )


@app.command(cls=options.FlagCommand)
@options.of_settings(ReadSettings, "reading")
def hardness(
    reading: options.Values,
    source: str = Argument(
        ...,
        help="A graph with splits, or a folder of queries with its graph.",
        metavar="GRAPH|QUERIES",
    ),
    split: Annotated[
        str, options.one_of(("valid", "test"), "The facts that are asked about.")
    ] = "test",
    shapes: options.Shapes = None,
    observed: str | None = Option(
        None, help="Splits whose facts are known, joined by +; all before the split by default."
    ),
    count: int = Option(200, help="Queries of each shape to draw where the folder has none."),
    seed: int = Option(0, help="Seed of the draw."),
    as_json: bool = Option(False, "--json", help="Print the numbers as JSON."),
) -> None:
    """Count how many links must be predicted for the hard answers of queries."""
    from rich.console import Console

    from tacit.evaluate.evaluation import hardness as links_of
    from tacit.query.sampling.queries import has_queries

    missing = links_of(
        read_graph(source, **reading),
        source if has_queries(source, split) else None,
        split,
        shapes,
        observed=observed,
        count=count,
        seed=seed,
        progress=True,
    )
    if as_json:
        typer.echo(json.dumps(missing, indent=2))
        return
    numbers = {links for counts in missing.values() for links in counts}
    columns = range(min(numbers | {1}), max(numbers) + 1)
    rows = []
    for name, counts in missing.items():
        total = sum(counts.values())
        numbered = {links: f"{number:,}  {number / total:6.1%}" for links, number in counts.items()}
        rows.append((name, *(numbered.get(links, "-") for links in columns)))
    title = "Hard answers by the links that must be predicted"
    Console(highlight=False).print(_table(title, ("shape", *map(str, columns)), rows))


def read_graph(source: str | list[str], **reading: Any) -> Graph:
    """The graph of a command's GRAPH; notes on it are printed to standard error."""
    from tacit.sources import load

    graph = load(source, **reading)
    for note in graph.notes:
        say(f"note: {options.with_flags(note)}", err=True)
    return graph


def check_unread(reading: Mapping[str, Any], why: str) -> None:
    """Refuse settings of how facts are read if no facts are read."""
    for name in reading:
        raise SettingsError(f"{name} says how facts are read, and {why}; leave it out", name)


def _print(statistics: Statistics) -> None:
    from rich.console import Console

    from tacit.graph.builder import counted
    from tacit.graph.statistics import ADVICE

    console = Console(highlight=False, markup=False, emoji=False)
    if not console.is_terminal:
        console.width = 200  # a file or a pipe has no edge to fold names at
    total = sum(statistics.facts.values())
    sizes = f"{statistics.num_entities:,} entities, {statistics.num_relations:,} relations"
    name = escape_control_chars(statistics.name)
    number = sum(sum(each.values.values()) for each in statistics.attributes)
    values = f", {counted(number, 'value')} of attributes" if statistics.attributes else ""
    console.print(f"{name}: {sizes}, {total:,} facts{values}", soft_wrap=True)
    can_be = {split: f"{count:,}" for split, count in statistics.evaluable.items()} | {"train": "-"}
    splits = [(split, f"{count:,}", can_be[split]) for split, count in statistics.facts.items()]
    console.print(_table("Facts by split", ("split", "facts", "can be predicted"), splits))
    console.print(_relations(statistics.relations[:MOST_RELATIONS]))
    if len(statistics.relations) > MOST_RELATIONS:
        console.print(
            f"  ... and {len(statistics.relations) - MOST_RELATIONS} more relations: --json lists "
            "them all\n"
        )
    if statistics.statements:
        console.print(f"{_statements(statistics)}\n", soft_wrap=True)
    if statistics.attributes:
        console.print(_attributes(statistics.attributes))
        console.print(f"{_MISSING}\n", soft_wrap=True)
    if statistics.values:
        console.print(_values(statistics.values))
        console.print(f"{options.with_flags(ADVICE)}\n", soft_wrap=True)
    names = {"p0": "fewest", "p50": "median", "p100": "most"}
    columns = [names.get(p, f"{p[1:]} %") for p in statistics.degrees]
    numbers = [f"{degree:,.0f}" for degree in statistics.degrees.values()]
    degrees = _table("Facts per entity (its degree)", columns, [numbers])
    degrees.columns[0].justify = "right"
    console.print(degrees)
    hubs = [(name, f"{degree:,}") for name, degree in statistics.hubs]
    console.print(_table("Largest hubs", ("entity", "facts"), hubs))
    if (others := statistics.num_entities - len(hubs)) > 0:
        console.print(f"  ... and {others:,} more {'entity' if others == 1 else 'entities'}")


def _table(
    title: str, columns: Sequence[str], rows: Iterable[Sequence[str]], words: Sequence[str] = ()
) -> Table:
    """A table of a column of names, columns of numbers, and columns of text from `words`."""
    from rich import box
    from rich.table import Table

    table = Table(
        title=title,
        title_justify="left",
        title_style="bold",
        box=box.SIMPLE_HEAD,
        padding=(0, 1, 0, 0),
        pad_edge=False,
    )
    for i, column in enumerate(columns):
        table.add_column(column, justify="right" if i else "left", overflow="fold", no_wrap=bool(i))
    for column in words:
        table.add_column(column, overflow="fold")
    for row in rows:
        table.add_row(*map(escape_control_chars, row))
    return table


def _relations(relations: Sequence[RelationStatistics]) -> Table:
    rows = []
    for relation in relations:
        counts = [f"{count:,}" for count in relation.facts.values()]
        spread = f"{relation.tails_per_head:.1f}", f"{relation.heads_per_tail:.1f}"
        remarks = ["symmetric"] * relation.symmetric + [
            f"repeats {other}" for other in relation.repeats
        ]
        rows.append((relation.name, *counts, *spread, ", ".join(remarks)))
    columns = ("relation", "train", "valid", "test", "tails/head", "heads/tail")
    return _table("Relations", columns, rows, ["remarks" if any(row[-1] for row in rows) else ""])


def _statements(statistics: Statistics) -> str:
    """What is said about facts, in a line."""
    from tacit.graph.builder import counted

    sources = [f"{name} ({count:,})" for name, count in statistics.sources[:MOST_SOURCES]]
    more = ", ..." if len(statistics.sources) > MOST_SOURCES else ""
    said = f"{counted(statistics.statements, 'statement')} about facts, {statistics.dated:,} dated"
    return escape_control_chars(said + f"; sources: {', '.join(sources)}{more}" * bool(sources))


def _attributes(attributes: Iterable[AttributeStatistics]) -> Table:
    rows = []
    for each in attributes:
        counts = [f"{count:,}" for count in each.values.values()]
        spread = [each.lowest, each.median, each.highest]
        if each.kind == "number":
            spread = [text and _shortened(float(text)) for text in spread]
        missing = f"{each.missing:.0%}"
        kind = each.unit or ("" if each.kind == "number" else each.kind)
        among = each.among or "all"
        bars = f"{each.bars}{' (log)' * each.is_log}"
        rows.append((each.name, *counts, *spread, missing, among, kind, bars))
    columns = ("attribute", "train", "valid", "test", "lowest", "median", "highest", "missing")
    return _table("Attributes", columns, rows, ("of", "in", "values"))


def _shortened(number: float) -> str:
    """A number with six digits, or all digits of a whole one."""
    is_whole = abs(number) < 1e15 and number == int(number)
    return f"{number:,.0f}" if is_whole else f"{number:.6g}"


def _values(relations: Iterable[ValueRelation]) -> Table:
    rows = []
    for each in relations:
        advice = "may stay: many facts share each" if each.shared else "leave out, or use ranges"
        kind = each.kind if each.end == "tail" else f"{each.kind} as heads"
        counts = f"{each.facts:,}", f"{each.distinct:,}"
        rows.append((each.relation, *counts, kind, ", ".join(each.examples), advice))
    title = "Numbers and dates as entities"
    columns = ("relation", "facts", "different")
    return _table(title, columns, rows, ("", "such as", "advice"))
