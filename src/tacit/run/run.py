"""`Run`: a graph and its trained models, to ask, train further, change and evaluate."""

from __future__ import annotations

import logging
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tacit.errors import RunError, SettingsError
from tacit.fitting.gradients import with_gradients
from tacit.fitting.tracking import check_tracker, tracked
from tacit.loaded_run import LoadedRun, LoadedWeights, read_weights
from tacit.query.sampling.query_folder import sample
from tacit.run.changes import Change, add_facts, remove_facts
from tacit.run.mined import check_own, find_or_mine
from tacit.run.sharing import RunSharing
from tacit.run_folder.files import ENCODING, MODEL, RULES
from tacit.run_folder.folder import RunFolder, predicting_parts
from tacit.run_folder.run_cache import check_not_saved
from tacit.sources import NameOrPath, take_reading

# Imports of torch are local, since loading a graph should not wait for it.
if TYPE_CHECKING:
    from tacit.distributed.shards import Shards
    from tacit.engine.engine import Engine
    from tacit.evaluate.evaluation import Evaluation
    from tacit.evaluate.value_evaluation import ValueEvaluation
    from tacit.fitting.progress import Progress
    from tacit.graph.datasets import Facts
    from tacit.query.sampling.queries import QuerySet
    from tacit.query.sampling.sampling import Sample
    from tacit.run.changes import Triples

log = logging.getLogger("tacit.run")


class Run(RunSharing):
    """A graph and the models trained on it: a link predictor, an adapter, an encoder.

    `tacit.open` returns a run, and so do the training functions, which leave its weights to be read
    at the first use.
    """

    def __init__(
        self, folder: RunFolder, *, device: str = "auto", adapted: bool = True, **settings: Any
    ) -> None:
        self._loaded = LoadedRun(folder, device, adapted, settings)

    def __repr__(self) -> str:
        about = "; ".join([repr(self.engine), *self.notes])
        return f"Run({str(self.folder.path)!r}, {about})"

    @property
    def folder(self) -> RunFolder:
        """The folder of the run."""
        return self._loaded.folder

    @property
    def weights(self) -> LoadedWeights:
        """The trained models of the run."""
        return self._loaded.weights

    @property
    def engine(self) -> Engine:
        """The engine that answers questions; `engine.with_settings(k=1024)` changes a setting."""
        return self._loaded.engine

    @property
    def notes(self) -> tuple[str, ...]:
        """The limitations of the run's answers, one per line, such as a stopped training."""
        return self._loaded.notes

    @property
    def settings(self) -> dict[str, dict[str, Any]]:
        """The tables of the run's `settings.toml`, with the settings of each training."""
        return self.folder.settings

    @property
    def results(self) -> dict[str, Any]:
        """The measurements of training, adaptation and evaluation."""
        return self.folder.results()

    def sample(self, out: NameOrPath | None = None, **options: Any) -> dict[str, Sample]:
        """Draw queries with easy and hard answers from the graph, as `tacit.sample` does."""
        return sample(self.graph, out, **options)

    @with_gradients
    def adapt(
        self,
        queries: NameOrPath | Mapping[str, QuerySet] | None = None,
        *,
        count: int = 5000,
        resume: bool = False,
        progress: Progress | bool = False,
        track: str | None = None,
        **settings: Any,
    ) -> dict[str, Any]:
        """Train an adapter on complex queries, and keep it if it improves the run.

        It learns from `queries` (a query folder, or query sets by shape), or else from `count`
        sampled ones of each shape. Validation compares it with the run's own adapter and with none;
        the result says so under `verdict` and `kept`. `resume` goes on where the same call
        was stopped; `progress` hears of every `Event`, or True shows them, and `track` logs them as
        `tacit.train` does. Settings are those of `AdaptSettings`: recipe, shapes, condition, loss,
        calibration, steps, device and so on.
        """
        from tacit.adapt.adaptation import adapt
        from tacit.adapt.settings import AdaptSettings
        from tacit.adapt.training_queries import training_queries, validation_queries
        from tacit.links.models import pick_device

        config = AdaptSettings.of(settings)
        check_tracker(track)
        loaded = self._loaded
        folder = loaded.folder
        check_own(folder)
        with folder.in_use(), folder.training("adapt"):
            engine = loaded.engine
            moves = "device" in settings and engine.scorer.device != pick_device(config.device)
            weights = read_weights(folder, config.device) if moves else loaded.weights
            folder.check_weights(weights.files)
            weights.check_unwritten(*predicting_parts(weights.files))
            train_queries = training_queries(engine.graph, config, queries, count)
            valid_queries = validation_queries(engine.graph, config, queries)
            with tracked(
                track, progress, folder, "adapt", config.to_dict(), resume
            ) as tracked_progress:
                result = adapt(
                    engine.graph,
                    weights.scorer,
                    train_queries,
                    config,
                    valid=valid_queries,
                    rules=weights.mixture,
                    run=folder,
                    progress=tracked_progress,
                    resume=resume,
                )
        if result.summary["kept"]:
            own = config.engine  # which are the defaults from now on
            others = {
                name: value for name, value in loaded.engine_settings.items() if name not in own
            }
            self._reload(
                preloaded=self._unchanged_weights(loaded), adapted=True, engine_settings=others
            )
        return result.summary

    def encode(
        self, queries: NameOrPath | Mapping[str, QuerySet] | None = None, **options: Any
    ) -> dict[str, Any]:
        """Train an encoder on the run's graph; `search="encoder"` then answers with it.

        The arguments are those of `tacit.train_encoder`; the result says how long it took and
        how well it did.
        """
        from tacit.run.training import train_encoder  # which makes runs

        check_own(self.folder)
        train_encoder(self.folder.path, queries=queries, **{"progress": False, **options})
        self._reread()
        summary: dict[str, Any] = self.results["encode"]
        return summary

    def drop_encoder(self) -> None:
        """Delete the run's encoder or its stopped training; a link predictor must remain."""
        check_own(self.folder)
        if not self.folder.has_predictor:
            raise RunError(
                f"run '{self.folder.path}' holds an encoder alone; delete the folder instead"
            )
        with self.folder.training("encode"):
            had_checkpoint = self.folder.has(ENCODING)
            existed = self.folder.drop("encode")
        if not (existed or had_checkpoint):
            raise RunError(f"run '{self.folder.path}' has no encoder to drop")
        settings = self._loaded.engine_settings.items()
        others = {name: value for name, value in settings if (name, value) != ("search", "encoder")}
        remaining = self._loaded.weights_in_memory
        if remaining is not None:
            remaining = replace(remaining, encoder=None, encoder_error=None)
        self._reload(preloaded=remaining, engine_settings=others)

    def index(self, *, nlist: int | None = None, seed: int = 0) -> dict[str, Any]:
        """Build and store an index for large graphs, in `nlist` clusters (`4 √N` by default).

        The result says how many entities and clusters it has, its bytes and the seconds it
        took. Graphs of more than 200,000 entities are asked through it from now on; below that,
        exact search is faster.
        """
        check_not_saved(self.folder)
        if not self.folder.has(MODEL):
            problem = (
                "predicts by rules; an index is one of vectors"
                if self.folder.has(RULES)
                else "holds an encoder alone; an index is one of a link predictor"
            )
            raise RunError(f"run '{self.folder.path}' {problem}")
        loaded = self._loaded
        built = loaded.weights.retrievers.build(loaded.weights.scorer, nlist, seed)
        self._reload(preloaded=self._unchanged_weights(loaded))
        return built

    def add(
        self,
        facts: Triples,
        *,
        new: bool = False,
        force: bool = False,
        dry_run: bool = False,
        progress: Progress | bool = False,
        **options: Any,
    ) -> Change:
        """Add facts to the train facts of the run, in its folder and in memory.

        They are a file or folder, with the options of `tacit.load`, a DataFrame, a graph, or
        triples of labels. Entities and relations that the run does not know get vectors, fitted to
        their facts; what was learned before stays as it is, to the bit. The result says how
        many facts, entities and relations are new, and which.

        A new relation, or a new entity with nearly the name of a known one, must be agreed to with
        `new`; a name that differs from another in case or spaces alone with `force`. `dry_run`
        says what would change, and writes nothing.
        """
        consent = {"new": new, "force": force, "dry_run": dry_run}
        change = add_facts(self.folder.path, facts, progress=progress, **consent, **options)
        if not dry_run:
            self._reread()
        return change

    def remove(self, facts: Triples, *, dry_run: bool = False, **options: Any) -> Change:
        """Remove facts from the run, in its folder and in memory.

        Entities, relations and vectors stay. So predictions still carry what was learned of the
        facts, and are likely to bring them back as predicted ones; only training anew forgets them.
        `dry_run` writes nothing.
        """
        change = remove_facts(self.folder.path, facts, dry_run=dry_run, **options)
        if not dry_run:
            self._reread()
        return change

    def _reread(self) -> None:
        """Open the folder again, since another process may have changed it."""
        self._reload(folder=RunFolder.open(self.folder.path), preloaded=None)

    def drop_adapter(self) -> None:
        """Delete the run's adapter; later answers do without it."""
        check_own(self.folder)
        with self.folder.training("adapt"):
            existed = self.folder.drop("adapt")
        if not existed:
            raise RunError(f"run '{self.folder.path}' has no adapter to drop")
        self._reload(preloaded=self._loaded.weights_in_memory)

    def _unchanged_weights(self, loaded: LoadedRun) -> LoadedWeights | None:
        """The weights in memory; None where another thread has changed the run since."""
        return loaded.weights if self._loaded is loaded else None

    def _reload(self, **changes: Any) -> None:
        """Replace the loaded run by a changed one, once that is read as a whole."""
        changed = replace(self._loaded, **changes)
        if self._loaded.is_read:
            _ = changed.engine
        self._loaded = changed

    @with_gradients
    def evaluate(
        self,
        queries: NameOrPath | Mapping[str, QuerySet] | None = None,
        split: str = "test",
        shapes: str | None = None,
        *,
        adapted: bool | None = None,
        out: NameOrPath | None = None,
        progress: Progress | bool = False,
        processes: Shards | None = None,
        **settings: Any,
    ) -> Evaluation:
        """Rank the hard answers of queries by BetaE's protocol, and keep the results in the run.

        `queries` are a query folder or query sets by name; by default the facts of the split, as 1p
        queries. The engine is never handed facts of the split: it observes the training facts, or
        those that `observed` names of the splits before the split, or what the system of a `preset`
        is handed. `adapted=False`, or a preset, leaves the adapter out. `out` is a JSON file to
        write. `progress` hears an `Event` of each shape as its queries are ranked, or True shows
        it. Several `processes` that hold the whole run share the queries out, and the first of them
        writes.

        Settings are those of `EvaluateSettings`: `ties`, the `mean` per question or per fact, the
        `limit` of queries of each shape, `batch`, and what is measured as well: `per_relation`,
        `by_missing` links, and `reliability`. All others are those of `EngineSettings`; with `new`,
        answers that the observed facts imply are ranked last.
        """
        from tacit.evaluate.evaluation import check_writable, evaluate_run, store_evaluation
        from tacit.evaluate.settings import EvaluateSettings

        settings["split"] = split
        protocol = EvaluateSettings.pop_from(settings)
        if (candidates := settings.get("candidates")) in ("scan", "index"):
            raise SettingsError(
                f"candidates is '{candidates}', but an evaluation ranks all entities; leave it out",
                "candidates",
            )
        if out is not None:
            check_writable(Path(out))
        loaded = self._loaded  # one snapshot of facts and weights, even if the run changes
        evaluation = evaluate_run(
            loaded.folder,
            loaded.weights,
            queries,
            shapes,
            protocol,
            loaded.adapted if adapted is None else adapted,
            loaded.engine_settings | settings,
            progress,
            processes,
        )
        if processes is not None and not processes.leads:
            return evaluation
        evaluation = store_evaluation(loaded.folder, evaluation, loaded.weights)
        if out is not None:
            evaluation.write(out)
        return evaluation

    def evaluate_values(
        self, split: str = "test", *, out: NameOrPath | None = None
    ) -> ValueEvaluation:
        """Compare predicted values of attributes with those of a split, and keep the results.

        Beside them stand two guesses: the median of all training values, and that of the values of
        an entity's neighbours. `out` is a JSON file to write.
        """
        from tacit.engine.entity_values import fitted_values
        from tacit.evaluate.evaluation import check_writable
        from tacit.evaluate.value_evaluation import evaluate_values, store_values

        if out is not None:
            check_writable(Path(out))
        loaded = self._loaded
        values = fitted_values(loaded.engine)
        evaluation = evaluate_values(loaded.engine.graph, values, split)
        evaluation = store_values(loaded.folder, evaluation)
        if out is not None:
            evaluation.write(out)
        return evaluation

    def report(self, out: NameOrPath) -> Path:
        """Write settings, tables and figures of the run to one page, .html or .md."""
        from tacit.evaluate.report import write_report

        return write_report(self.folder, out)


def open(
    source: NameOrPath | Facts,
    *,
    device: str = "auto",
    adapted: bool = True,
    progress: Progress | bool = False,
    **settings: Any,
) -> Run:
    """Open the run in a folder, `world`, or facts alone, which are predicted by their rules.

    A saved run is opened by its file, `*.tacit`, or by `hf://OWNER/NAME@REVISION`, where a revision
    is a branch, a tag or a commit; it is unpacked to the cache once, and only read.
    `world` is trained at its first use, and the rules of a file, a folder, a DataFrame, a graph or
    rows of labels are mined at theirs; both are cached. `progress` hears of the mining, or True
    shows it. Settings are those of `EngineSettings`; where the run has an adapter, those it was
    trained for are the defaults, and another `calibration` is refused. `adapted=False` leaves the
    adapter out, and so does a `preset`. Options of `tacit.load` say how facts are read.
    """
    folder = find_or_mine(source, progress, **take_reading(settings))
    run = Run(folder, device=device, adapted=adapted, **settings)
    _ = run.engine  # raises errors of the run here
    for note in run.notes:
        log.warning("%s", note)
    return run
