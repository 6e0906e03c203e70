"""Facts without a run: their rules are mined at the first use and kept in the user's cache."""

from __future__ import annotations

import atexit
import os
import shutil
import tempfile
from contextlib import ExitStack, suppress
from hashlib import sha256
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeGuard

from tacit import __version__, disk
from tacit.engine.answers.aligned_cells import escape_control_chars
from tacit.errors import LimitError, RunError, SettingsError, TacitError
from tacit.graph.builder import counted
from tacit.graph.formats.frames import is_frame
from tacit.graph.formats.label_tables import is_rows
from tacit.graph.graph import Graph
from tacit.graph.stored import fingerprint
from tacit.links.rules.settings import RuleSettings
from tacit.run.world import find_run, no_run, runs_in
from tacit.run_folder.files import FORMAT
from tacit.run_folder.folder import RunFolder
from tacit.run_folder.run_cache import cache_folder, check_not_saved, shrink_cache, sole_writer
from tacit.sources import is_data_set, is_run, is_saved, is_world, load

# Imports of torch are local.
if TYPE_CHECKING:
    from tacit.fitting.progress import Progress
    from tacit.graph.datasets import Facts
    from tacit.links.rules.rule_set import RuleSet

MINER = 1  # raised with every change that finds other rules
PREFIX = "rules-"  # of the folders in the cache
_TEMPORARY = "tacit-rules-"  # of the folders of those that cannot be cached


def find_or_mine(source: Any, progress: Progress | bool = False, **reading: Any) -> RunFolder:
    """The run that a source names, or the run of the rules of its facts.

    Options are those of `load`, for facts alone. `progress` hears how many rules were mined, or
    that they were there already.
    """
    if not holds_facts(source):
        for name in reading:
            raise SettingsError(
                f"{name} says how facts are read, and those of a run were; leave it out", name
            )
        return find_run(source)
    return run_of_rules(load(source, **reading), progress)


def holds_facts(source: Any) -> TypeGuard[Facts]:
    """Whether a source is facts rather than a run; a `RunError` where there is neither."""
    if isinstance(source, str) and source == "-":
        return True
    if not isinstance(source, str | Path):
        return isinstance(source, Graph) or is_frame(source) or is_rows(source)
    if is_world(source) or is_run(source) or is_saved(source):
        return False
    path = Path(source)
    if not disk.exists(source) and not is_data_set(source):
        raise no_run(path, "run or graph")
    if path.is_dir() and (runs_in(path) or not any(path.iterdir())):
        raise no_run(path)
    return True


def run_of_rules(
    graph: Graph, progress: Progress | bool = False, settings: RuleSettings | None = None
) -> RunFolder:
    """The run of the rules of a graph in the user's cache, mined by the first process to ask.

    A damaged one is mined again. Where the cache cannot be written, the run lies in a temporary
    folder, which is deleted at the end of the process.
    """
    from tacit.fitting.progress import Event, shown

    config = settings or RuleSettings()
    path = cached_path(graph, config)
    with shown(progress) as tell, ExitStack() as stack:

        def note(text: str) -> None:
            tell(Event("note", 0, 0, note=escape_control_chars(text)))

        found = _cached(path, graph)
        unwritable: TacitError | None = None
        if found is None:
            try:
                stack.enter_context(sole_writer(path))
                found = _cached(path, graph)
            except (RunError, LimitError) as error:
                unwritable = error
        if found is not None:
            folder, number = found
            note(f"{counted(number, 'rule')} of {graph.name} to predict by, from the cache")
            return folder
        return _mine(graph, path, config, unwritable, tell, note)


def _mine(
    graph: Graph,
    path: Path,
    config: RuleSettings,
    unwritable: TacitError | None,
    tell: Progress,
    note: Any,
) -> RunFolder:
    """Mine the rules of a graph, and write them to the cache or else to a temporary folder."""
    from tacit.links.rules.rule_files import mine_timed, write_rules_run

    rules, seconds = mine_timed(graph, config, tell)
    number = counted(len(rules), "rule")
    mined = f"mined {number} from {graph.name} to predict by, in {seconds:.1f} s"
    if unwritable is None:
        try:
            folder = write_rules_run(path, graph, config, rules, seconds)
            note(f"{mined}; they are kept in {path.parent}")
            shrink_cache(PREFIX)
            return folder
        except (RunError, LimitError) as error:
            unwritable = error
    note(f"{mined}; they are not kept: {unwritable}")
    temporary = Path(tempfile.mkdtemp(prefix=_TEMPORARY))
    atexit.register(shutil.rmtree, temporary, ignore_errors=True)
    return write_rules_run(temporary / path.name, graph, config, rules, seconds)


def cached_path(graph: Graph, settings: RuleSettings) -> Path:
    """The folder for the rules of a graph by these settings and this version."""
    hashed = sha256(f"{FORMAT} {MINER} {__version__} {fingerprint(graph)} {settings}".encode())
    # what a reader sees beside the facts
    shown = graph.name, graph.names, dict(graph.prefixes)
    hashed.update(repr(shown).encode("utf-8", "surrogatepass"))
    return cache_folder() / f"{PREFIX}{hashed.hexdigest()[:24]}"


def is_cached(folder: RunFolder) -> bool:
    """Whether a run is one of facts without a run of their own."""
    parent = folder.path.parent.resolve()
    temporary = parent.parent == Path(tempfile.gettempdir()).resolve()
    temporary &= parent.name.startswith(_TEMPORARY)
    return folder.path.name.startswith(PREFIX) and (temporary or parent == cache_folder().resolve())


def check_own(folder: RunFolder) -> None:
    """Raise a `RunError` for a run that lies in the cache, which nobody else may change."""
    check_not_saved(folder)
    if is_cached(folder):
        raise RunError(
            f"the rules of {folder.graph().name} are in Tacit's cache, which may drop them; train "
            "a run of your own first; with `model='rules'` that takes seconds",
            command="train GRAPH --out RUN",
        )


def _cached(path: Path, graph: Graph) -> tuple[RunFolder, int] | None:
    """A whole run of a graph's rules and how many they are, or None."""
    from tacit.links.rules.rule_files import load_rules

    if not is_run(path):
        return None
    try:
        with disk.reading(path):
            folder = RunFolder.open(path)
            folder.check(graph)
            folder.graph()
            rules: RuleSet = load_rules(folder)[0]
    except TacitError:
        return None
    with suppress(OSError):  # so that it counts as used
        os.utime(path)
    return folder, len(rules)
