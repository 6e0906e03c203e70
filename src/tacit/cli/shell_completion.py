"""Shell completion of runs, choices of a setting, shapes and relations."""

from __future__ import annotations

import shlex
from collections.abc import Callable, Iterator, Sequence
from itertools import islice
from pathlib import Path

import typer

_MOST = 200  # words that are offered
_LOOKED_AT = 1000  # folders that are read per key press


def choice(words: Sequence[str]) -> Callable[[str], list[str]]:
    """A completer of one of some words."""
    return lambda incomplete: [word for word in words if word.startswith(incomplete)]


def runs(incomplete: str) -> list[str]:
    """World, and the run folders that begin so or lie in a folder that does."""
    from tacit.sources import is_run

    typed = Path(incomplete)
    folder = typed if incomplete.endswith("/") else typed.parent
    names = ["world"] if "world".startswith(incomplete) else []
    for path in _folders(folder):
        if str(path).startswith(incomplete.removeprefix("./")):
            names += [str(run) for run in (path, *_folders(path)) if is_run(run)]
    return names[:_MOST]


def shapes(incomplete: str) -> list[str]:
    """Names of shapes, for the last item of a list with commas."""
    from tacit.query.sampling.shapes import SHAPES

    before, comma, last = incomplete.rpartition(",")
    words = [*SHAPES] if comma else [*SHAPES, "positive", "negative", "all"]
    return [before + comma + word for word in words if word.startswith(last)]


def relations(context: typer.Context, incomplete: str) -> list[str]:
    """Relations of the run on the command line that a shell can write without quotes."""
    from tacit.errors import TacitError
    from tacit.sources import load, names_run

    # Click parses no arguments while an option lacks its value, as the completed one does.
    source = str(context.params.get("source") or next(iter(context.args), ""))
    if not names_run(source):
        return []
    try:
        graph = load(source)
    except TacitError:
        return []
    labels = (label for label in graph.relations.labels[0::2] if label.startswith(incomplete))
    return list(islice((label for label in labels if shlex.quote(label) == label), _MOST))


def _folders(path: Path) -> Iterator[Path]:
    try:
        inside = islice(path.iterdir(), _LOOKED_AT)
        yield from sorted(
            folder for folder in inside if folder.is_dir() and not folder.name.startswith(".")
        )
    except OSError:  # no such folder, or no permission
        return
