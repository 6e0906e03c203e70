"""`tacit rules`: the rules of a run or graph, to read and to change."""

from __future__ import annotations

import json
import shutil
import sys
import textwrap
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer
from typer import Option

from tacit.cli import options
from tacit.cli.data import check_unread, read_graph
from tacit.cli.terminal import complete_relations, say
from tacit.errors import SettingsError
from tacit.graph.settings import ReadSettings

if TYPE_CHECKING:
    from tacit.graph.graph import Graph
    from tacit.links.rules.rule_set import RuleSet
    from tacit.run.rules import ListedRule
    from tacit.run_folder.folder import RunFolder

_SHOWN = 20  # rules, where no number is asked for


@options.of_settings(ReadSettings, "reading")
def rules(
    source: Annotated[
        str, options.run_argument("A run, world, or any graph, whose rules are mined.", "RUN|GRAPH")
    ],
    reading: options.Values,
    relation: Annotated[
        str | None,
        Option(autocompletion=complete_relations, help="Only rules that imply this relation."),
    ] = None,
    top: Annotated[int, Option(help="How many rules; the surest come first.")] = _SHOWN,
    written: Annotated[bool, Option("--written", help="Only rules that a person wrote.")] = False,
    examples: Annotated[
        int,
        Option(help="Facts each rule is right about, and pairs where it may be wrong."),
    ] = 0,
    json_: Annotated[bool, Option("--json", help="Print JSON.")] = False,
    off: Annotated[
        list[int] | None, Option(metavar="ID", help="Switch a rule off; may be repeated.")
    ] = None,
    on: Annotated[
        list[int] | None, Option(metavar="ID", help="Switch a rule on again; may be repeated.")
    ] = None,
    write: Annotated[
        str | None,
        Option(metavar="FORMULA", help="Add an own rule: 'borders(?x, ?y) => borders(?y, ?x)'."),
    ] = None,
    confidence: Annotated[
        float | None,
        Option(
            help="That of the rule to write: above 0, and 1 for one without exception; by default "
            "what the facts say."
        ),
    ] = None,
    drop: Annotated[
        list[int] | None, Option(metavar="ID", help="Drop a written rule; may be repeated.")
    ] = None,
    import_: Annotated[
        Path | None, Option("--import", metavar="FILE", help="Add the rules of a file of AnyBURL.")
    ] = None,
    export: Annotated[
        Path | None,
        Option(metavar="FILE", help="Write the rules that are on to a file of AnyBURL."),
    ] = None,
) -> None:
    """Read and change the rules of a run.

    A graph without a run has the rules that are mined from it; they can only be read.

    A service that serves the run answers by the rules before until it gets SIGHUP.
    """
    from tacit.run.mined import find_or_mine, holds_facts
    from tacit.run.rules import add_rule, drop_rules, rules_of, switch_rules

    if confidence is not None and write is None:
        raise SettingsError("confidence is that of a rule to write; give `write` too", "confidence")
    of_facts = holds_facts(source)
    if not of_facts:
        check_unread(reading, "those of a run were")
    facts = read_graph(source, **reading) if of_facts else source
    folder = find_or_mine(facts, progress=True)
    if import_ is not None:
        _import(folder, import_)
    if off or on:
        switch_rules(folder.path, off or (), on or ())
        for ids, state in ((off, "off"), (on, "on")):
            if ids:
                say(f"switched {state}: {_listed(ids)}")
    if drop:  # after the others, since it changes ids
        drop_rules(folder.path, drop)
        say(f"dropped: {_listed(drop)}")
    if write is not None:
        _print(add_rule(folder.path, write, confidence), examples)
    current = rules_of(folder)
    if export is not None:
        _export(export, source, folder.graph(), current)
    if not any((import_, off, on, drop, write, export)):
        _list(source, folder.graph(), current, relation, top, written, examples, json_)


def _import(run: RunFolder, file: Path) -> None:
    """Add the rules of a file to a run, and say how many."""
    from tacit.graph.builder import counted
    from tacit.run.rules import import_rules

    count, notes = import_rules(run.path, file)
    say(f"{counted(count, 'rule')} added from {file}")
    for note in notes:
        say(note)


def _export(file: Path, source: str, graph: Graph, rules: RuleSet) -> None:
    """Write rules to a file, and say which are left out."""
    from tacit.graph.builder import counted
    from tacit.links.rules.anyburl import write_rules

    absent = write_rules(file, graph, rules)
    say(f"wrote the rules of {source} to {file}")
    if absent:
        say(f"{counted(absent, 'rule')} left out: labels that the format cannot hold")


def _list(
    source: str,
    graph: Graph,
    rules: RuleSet,
    relation: str | None,
    top: int,
    written: bool,
    examples: int,
    as_json: bool,
) -> None:
    """Print rules, or say that there are none."""
    from tacit.run.rules import list_rules

    listed = list_rules(graph, rules, relation, top, written=written)
    if as_json:
        data = [rule.to_dict(examples) for rule in listed]
        typer.echo(json.dumps(data, ensure_ascii=False, indent=2))
        return
    for rule in listed:
        _print(rule, examples)
    if not len(rules):
        say(f"{source} has no rules; --write adds one")
    elif not listed:
        implying = "" if relation is None else f" implies {relation}"
        say(f"no rule{' that a person wrote' * written}{implying}")


def _listed(ids: list[int]) -> str:
    return ", ".join(f"rule {id}" for id in ids)


def _print(rule: ListedRule, examples: int) -> None:
    """Print a rule in words, as a formula and with its counts; on a terminal, in its width."""
    marks = ["written by a person"] * rule.written + ["off"] * rule.off
    _print_wrapped(f"rule {rule.id}  {rule.confidence:.3f}  {'  '.join([rule.words, *marks])}", 0)
    lines = [rule.formula, rule.statistic]
    for what, facts in (
        ("right", rule.examples(examples)),
        ("not known", rule.counter_examples(examples)),
    ):
        if facts:
            lines.append(f"{what}: {'; '.join(map(str, facts))}")
    for line in filter(None, lines):
        _print_wrapped(line, 4)


def _print_wrapped(line: str, indent: int) -> None:
    """Print a line; where a terminal needs several for it, those after the first are indented."""
    if sys.stdout.isatty():
        wrapped = textwrap.wrap(
            line,
            shutil.get_terminal_size().columns,
            initial_indent=" " * indent,
            subsequent_indent=" " * (indent or 4),
            break_on_hyphens=False,
        )
    else:
        wrapped = [f"{' ' * indent}{line}"]
    for part in wrapped:
        say(part)
