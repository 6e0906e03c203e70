"""`Run`: a graph and its trained models, to ask, adapt, sample from and evaluate."""

from __future__ import annotations

import logging
from collections.abc import Iterable, Mapping
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tacit.errors import RunError, SettingsError
from tacit.fitting.gradients import with_gradients
from tacit.graph.graph import Graph
from tacit.loaded_run import LoadedRun, LoadedWeights, read_weights
from tacit.query.sampling.query_folder import sample
from tacit.run.changes import Change, add_facts, remove_facts
from tacit.run.world import find_run
from tacit.run_folder.files import ENCODING, MODEL
from tacit.run_folder.folder import RunFolder
from tacit.sources import NameOrPath

# Imports of torch are local, since loading a graph should not wait for it.
if TYPE_CHECKING:
    from tacit.distributed.shards import Shards
    from tacit.engine.answers.answers import Answer, Answers, Count
    from tacit.engine.answers.completion import Completion
    from tacit.engine.answers.entity_facts import EntityFacts
    from tacit.engine.answers.paging import ListLength
    from tacit.engine.answers.question_files import AskedFile
    from tacit.engine.engine import Engine
    from tacit.engine.questions import Question
    from tacit.evaluate.evaluation import Evaluation
    from tacit.fitting.progress import Progress
    from tacit.query.sampling.queries import QuerySet
    from tacit.query.sampling.sampling import Sample
    from tacit.run.changes import Triples

log = logging.getLogger("tacit.run")


class Run:
    """A graph and the models trained on it: a link predictor, an adapter, an encoder.

    `tacit.open` returns a run, and so do the training functions, which leave its weights to be read
    at the first use.
    """

    def __init__(
        self, folder: RunFolder, *, device: str = "auto", adapted: bool = True, **settings: Any
    ) -> None:
        self._opened = LoadedRun(folder, device, adapted, settings)

    def __repr__(self) -> str:
        about = "; ".join([repr(self.engine), *self.notes])
        return f"Run({str(self.folder.path)!r}, {about})"

    @property
    def folder(self) -> RunFolder:
        """The folder of the run."""
        return self._opened.folder

    @property
    def weights(self) -> LoadedWeights:
        """The trained models of the run."""
        return self._opened.weights

    @property
    def engine(self) -> Engine:
        """The engine that answers questions; `engine.with_settings(k=1024)` changes a setting."""
        return self._opened.engine

    @property
    def notes(self) -> tuple[str, ...]:
        """The limitations of the run's answers, one per line, such as a stopped training."""
        return self._opened.notes

    @property
    def graph(self) -> Graph:
        """The graph of the run."""
        return self.engine.graph

    @property
    def settings(self) -> dict[str, dict[str, Any]]:
        """The tables of the run's `settings.toml`, with the settings of each training."""
        return self.folder.settings

    @property
    def results(self) -> dict[str, Any]:
        """The measurements of training, adaptation and evaluation."""
        return self.folder.results()

    def ask(
        self,
        question: Question,
        /,
        top: ListLength = "auto",
        *,
        offset: int = 0,
        min_score: float = 0.0,
        explain: bool = False,
        paths: int = 1,
        new: bool = False,
        **parameters: str,
    ) -> Answers:
        """Return the `top` best answers to a question in text, SPARQL or as a formula.

        The default is ten answers from `offset` on. `top=None` returns all, and `top="likely"` the
        ten best and all that are known or score at least 0.5, as SPARQL without LIMIT does.
        `explain` adds the reasons of each answer, the `paths` best ones. `min_score` leaves out
        answers that score lower, and `new` those that the known facts imply already. `parameters`
        are the labels that `$name` stands for in a text:
        `run.ask("?c : borders($who, ?c)", who="France")`. A parameter with the name of an option
        goes into a pair: `run.ask(("?c : borders($top, ?c)", {"top": "France"}))`.
        """
        return self.engine.ask(
            question,
            top,
            offset=offset,
            min_score=min_score,
            explain=explain,
            paths=paths,
            new=new,
            **parameters,
        )

    def explain(
        self,
        question: Question,
        /,
        top: ListLength = "auto",
        paths: int = 1,
        *,
        offset: int = 0,
        min_score: float = 0.0,
        new: bool = False,
        **parameters: str,
    ) -> Answers:
        """Return the best answers, each with its `paths` best reasons.

        The answers also say whether the search provably missed nothing.
        """
        return self.engine.explain(
            question, top, paths, offset=offset, min_score=min_score, new=new, **parameters
        )

    def ask_many(
        self,
        questions: Iterable[Question],
        top: ListLength = "auto",
        *,
        offset: int = 0,
        min_score: float = 0.0,
        explain: bool = False,
        paths: int = 1,
        new: bool = False,
    ) -> list[Answers]:
        """Answer many questions; those of one structure run as one batch.

        A text with parameters is a pair: `("?c : borders($who, ?c)", {"who": "France"})`.
        """
        return self.engine.ask_many(
            questions,
            top,
            offset=offset,
            min_score=min_score,
            explain=explain,
            paths=paths,
            new=new,
        )

    def ask_file(
        self,
        path: NameOrPath,
        top: ListLength = "likely",
        *,
        parameters: Mapping[str, str] | None = None,
        **options: Any,
    ) -> AskedFile:
        """Ask the questions of a file, one per line in text, SPARQL or JSON, one by one.

        `run.ask_file("questions.txt").write("answers.jsonl")` writes them and says how many could
        not be answered. A list holds all answers that are known or score at least 0.5, and the ten
        best, unless `top` is given. `parameters` are the labels that `$name` stands for in every
        line; the other options are those of `ask_many`.
        """
        from tacit.engine.answers.question_files import AskedFile

        return AskedFile(self.engine, Path(path), parameters or {}, {"top": top, **options})

    def score(
        self, head: str, relation: str, tail: str, *, explain: bool = False, paths: int = 1
    ) -> Answer:
        """The `score` in [0, 1] of a fact and whether it is `known`; with `explain`, why."""
        return self.engine.score(head, relation, tail, explain=explain, paths=paths)

    def count(self, question: Question) -> Count:
        """The number of `known` answers to a question, and of answers `expected` in all."""
        return self.engine.count(question)

    def complete(
        self,
        relations: str | Iterable[str] = (),
        entities: str | Iterable[str] = (),
        *,
        min_score: float = 0.5,
        top: int | None = None,
        typed: bool = True,
        progress: Progress | bool = False,
        **settings: Any,
    ) -> Completion:
        """Predict the most probable missing facts of all or some relations and entities.

        One iterates over them, or has them written:
        `run.complete(min_score=0.8).write("facts.ttl")`. `top` keeps the best of all; settings are
        those of `EngineSettings`. `progress` hears an `Event` after each relation or entity, or
        True shows it.
        """
        from tacit.engine.answers.completion import Completion

        # single links need calibrated scores, which an encoder has too
        engine = self.engine.with_settings(**{"search": "beam", "typed": typed, **settings})
        chosen = ([names] if isinstance(names, str) else names for names in (relations, entities))
        return Completion(engine, *chosen, min_score=min_score, top=top, progress=progress)

    def plan(self, question: Question, /, **parameters: str) -> str:
        """The plan of a question, as a tree of steps with their costs."""
        engine = self.engine
        query = engine.prepare(question, **parameters)
        return f"{query.query}\n\n{engine.describe(query)}"

    def paraphrase(self, question: str) -> dict[str, Any]:
        """Restate a question as `query`, `sentence`, `outline` and `sparql`.

        A question without an outline has no sentence, and `undrawable` says why; `sparql` is None
        where SPARQL cannot express the question.
        """
        from tacit.query.words.paraphrase import QuestionReader

        return QuestionReader(self.graph).told(question)

    def entities(
        self, typed: str = "", limit: int = 10, *, relation: str | None = None, end: str = "object"
    ) -> list[dict[str, str]]:
        """The entities that complete a typed text, each with `label`, `name` and `text`.

        `text` is the entity as a question writes it. Entities at the `end`, `subject` or `object`,
        of the facts of a `relation` come first.
        """
        from tacit.query.words.completions import Completions

        return Completions(self.graph).entities(typed, limit, relation, end)

    def relations(self, typed: str = "", limit: int = 10) -> list[dict[str, str]]:
        """The relations that complete a typed text, also with their `words` in a sentence."""
        from tacit.query.words.completions import Completions

        return Completions(self.graph).relations(typed, limit)

    def examples(self) -> list[dict[str, str]]:
        """Questions with known answers to start with: `query`, `shape` and `title` of each."""
        from tacit.query.words.examples import examples

        return examples(self.graph)

    def facts(
        self,
        entity: str,
        relation: str | None = None,
        *,
        predicted: bool = False,
        min_score: float = 0.1,
    ) -> EntityFacts:
        """The known facts about an entity, or `predicted` ones that score at least `min_score`.

        They are grouped by relation and direction. `relation` selects a single one, such as
        `speaks^-1` for the subjects that speak the entity.
        """
        from tacit.engine.answers.entity_facts import known_facts, predicted_facts

        if not predicted:
            return known_facts(self.engine, entity, relation)
        return predicted_facts(
            self.engine.with_settings(typed=True), entity, relation, min_score=min_score
        )

    def sample(self, out: NameOrPath | None = None, **options: Any) -> dict[str, Sample]:
        """Draw queries with easy and hard answers from the graph, as `tacit.sample` does."""
        return sample(self.graph, out, **options)

    @with_gradients
    def adapt(
        self,
        queries: NameOrPath | Mapping[str, QuerySet] | None = None,
        *,
        count: int = 5000,
        variant: str | None = None,
        resume: bool = False,
        progress: Progress | bool = False,
        **settings: Any,
    ) -> dict[str, Any]:
        """Train an adapter on complex queries, and keep it if it improves the run.

        It learns from `queries` (a query folder, or query sets by shape), or else from `count`
        sampled ones of each shape. Validation compares it with the run's own adapter and with none;
        what is returned says so under `verdict` and `kept`. A `variant` of the paper's ablation
        (`f`, `af`, `r`, `c`) becomes a run of its own within the run. `resume` goes on where the
        same call was stopped; `progress` hears of every `Event`, or True shows them. Settings are
        those of `AdaptSettings`: recipe, shapes, condition, loss, calibration, steps, device and so
        on.
        """
        from tacit.adapt.adaptation import adapt
        from tacit.adapt.settings import AdaptSettings
        from tacit.adapt.training_queries import training_queries, validation_queries
        from tacit.adapt.variants import check_variant
        from tacit.links.loading import pick_device

        chosen = AdaptSettings.of(settings)
        check_variant(variant)  # before queries are drawn
        opened = self._opened
        folder = opened.folder
        with folder.in_use():
            engine = opened.engine
            moves = "device" in settings and engine.scorer.device != pick_device(chosen.device)
            weights = read_weights(folder, chosen.device) if moves else opened.weights
            folder.check_weights(weights.files)
            learned = training_queries(engine.graph, chosen, queries, count)
            valid = validation_queries(engine.graph, chosen, queries)
            result = adapt(
                engine.graph,
                weights.scorer,
                learned,
                chosen,
                valid=valid,
                run=folder,
                progress=progress,
                resume=resume,
                variant=variant,
            )
        if result.summary["kept"] and variant is None:
            own = chosen.engine  # which are the defaults from now on
            others = {name: value for name, value in opened.settings.items() if name not in own}
            self._take(read=opened.weights, adapted=True, settings=others)
        return result.summary

    def encode(
        self, queries: NameOrPath | Mapping[str, QuerySet] | None = None, **options: Any
    ) -> dict[str, Any]:
        """Train an encoder on the run's graph; `search="encoder"` then answers with it.

        The arguments are those of `tacit.train_encoder`; what is returned says how long it took and
        how well it did.
        """
        from tacit.run.training import train_encoder  # which makes runs

        train_encoder(self.folder.path, queries=queries, **{"progress": False, **options})
        self._reread()
        summary: dict[str, Any] = self.results["encode"]
        return summary

    def drop_encoder(self) -> None:
        """Delete the run's encoder or its stopped training; a link predictor must remain."""
        if not self.folder.has(MODEL):
            raise RunError(
                f"run '{self.folder.path}' holds an encoder alone; delete the folder instead"
            )
        stopped = self.folder.has(ENCODING)
        if not self.folder.drop("encode") and not stopped:
            raise RunError(f"run '{self.folder.path}' has no encoder to drop")
        settings = self._opened.settings.items()
        others = {name: value for name, value in settings if (name, value) != ("search", "encoder")}
        read = replace(self.weights, encoder=None, unfit=None) if self._opened.is_read else None
        self._take(read=read, settings=others)

    def index(self, *, nlist: int | None = None, seed: int = 0) -> dict[str, Any]:
        """Build and store an index for large graphs, in `nlist` clusters (`4 √N` by default).

        What is returned says how many entities and clusters it has, its bytes and the seconds it
        took. Graphs of more than 200,000 entities are asked through it from now on; below that,
        exact search is faster.
        """
        if not self.folder.has(MODEL):
            raise RunError(
                f"run '{self.folder.path}' holds an encoder alone; an index is one of a link "
                "predictor"
            )
        weights = self.weights
        built = weights.finders.build(weights.scorer, nlist, seed)
        self._take(read=weights)
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
        their facts; what was learned before stays as it is, to the bit. What is returned says how
        many facts, entities and relations are new, and which.

        A new relation, or a new entity with nearly the name of a known one, must be agreed to with
        `new`; a name that differs from a known one in case or spaces alone with `force`. `dry_run`
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
        self._take(folder=RunFolder.open(self.folder.path), read=None)

    def drop_adapter(self) -> None:
        """Delete the run's adapter; later answers do without it."""
        if not self.folder.drop("adapt"):
            raise RunError(f"run '{self.folder.path}' has no adapter to drop")
        self._take(read=self.weights if self._opened.is_read else None)

    def _take(self, **changes: Any) -> None:
        """Replace the loaded run by a changed one, once that is read as a whole."""
        opened = replace(self._opened, **changes)
        if self._opened.is_read:
            _ = opened.engine
        self._opened = opened

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
        from tacit.evaluate.evaluation import check_writable, evaluate_run, kept_in
        from tacit.evaluate.settings import EvaluateSettings

        settings["split"] = split
        protocol = EvaluateSettings.taken(settings)
        if (candidates := settings.get("candidates")) in ("scan", "index"):
            raise SettingsError(
                f"candidates is '{candidates}', but an evaluation ranks all entities; leave it out",
                "candidates",
            )
        if out is not None:
            check_writable(Path(out))
        opened = self._opened  # one snapshot of facts and weights, even if the run changes
        evaluation = evaluate_run(
            opened.folder,
            opened.weights,
            queries,
            shapes,
            protocol,
            opened.adapted if adapted is None else adapted,
            opened.settings | settings,
            progress,
            processes,
        )
        if processes is not None and not processes.leads:
            return evaluation
        evaluation = kept_in(opened.folder, evaluation)
        if out is not None:
            evaluation.write(out)
        return evaluation

    def report(self, out: NameOrPath) -> Path:
        """Write settings, tables and figures of the run to one page, .html or .md."""
        from tacit.evaluate.report import write_report

        return write_report(self.folder, out)


def open(source: NameOrPath, *, device: str = "auto", adapted: bool = True, **settings: Any) -> Run:
    """Open the run in a folder, or `world`, which is trained at its first use and cached.

    Settings are those of `EngineSettings`; where the run has an adapter, those it was trained for
    are the defaults, and another `calibration` is refused. `adapted=False` leaves the adapter out,
    and so does a `preset`.
    """
    run = Run(find_run(source), device=device, adapted=adapted, **settings)
    _ = run.engine  # raises errors of the run here
    for note in run.notes:
        log.warning("%s", note)
    return run
