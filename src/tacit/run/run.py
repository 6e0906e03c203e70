"""The first door: a graph with what was trained on it, to ask, adapt, sample from and evaluate."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tacit.errors import RunError, SettingsError
from tacit.graph.graph import Graph
from tacit.query.sampling.query_folder import sample
from tacit.run.changes import Change, add_facts, remove_facts
from tacit.run.folder import ENCODING, MODEL, RunFolder
from tacit.run.opened import Opened, RunWeights, read_weights
from tacit.run.world import find_run
from tacit.sources import NameOrPath

# What needs torch is imported where it is used: whoever only loads a graph need not wait for it.
if TYPE_CHECKING:
    from tacit.distributed.shards import Shards
    from tacit.engine.answers.answers import Answer, Answers, Count
    from tacit.engine.answers.completion import Completion
    from tacit.engine.answers.entity_facts import EntityFacts
    from tacit.engine.answers.question_files import AskedFile
    from tacit.engine.asked import Question
    from tacit.engine.engine import Engine
    from tacit.evaluate.evaluation import Evaluation
    from tacit.fitting.progress import Progress
    from tacit.query.sampling.queries import QuerySet
    from tacit.query.sampling.sampling import Sample
    from tacit.run.changes import Triples


class Run:
    """A graph, and what was trained on it: a link predictor, maybe with an adapter, an encoder, or both.

    `tacit.open` makes it, and so does training, which leaves the weights to be read when they are first needed.
    """

    def __init__(self, folder: RunFolder, *, device: str = "auto", adapted: bool = True, **settings: Any) -> None:
        self._opened = Opened(folder, device, adapted, settings)

    def __repr__(self) -> str:
        return f"Run({str(self.folder.path)!r}, {self.engine!r})"

    @property
    def folder(self) -> RunFolder:
        """Where it is kept."""
        return self._opened.folder

    @property
    def weights(self) -> RunWeights:
        """What was trained."""
        return self._opened.weights

    @property
    def engine(self) -> Engine:
        """What answers its questions; `engine.using(k=1024)` is the same with other settings."""
        return self._opened.engine

    @property
    def graph(self) -> Graph:
        """The graph of the run."""
        return self.engine.graph

    @property
    def settings(self) -> dict[str, dict[str, Any]]:
        """The tables of the run's `settings.toml`: what it was trained, and maybe adapted, with."""
        return self.folder.settings

    @property
    def results(self) -> dict[str, Any]:
        """What was measured while training, adapting and evaluating."""
        return self.folder.results()

    def ask(
        self, question: Question, /, top: int | None = 10, *, offset: int = 0, min_score: float = 0.0,
        explain: bool = False, paths: int = 1, new: bool = False, **parameters: str,
    ) -> Answers:  # fmt: skip
        """The `top` best answers to a question in text, SPARQL or as a formula; with `explain`, why each came.

        They are those from `offset` on, or with `top=None` all; `min_score` leaves out what scores lower, and `new`
        what the known facts imply already. `parameters` are the labels that `$name` stands for in a text:
        `run.ask("?c : borders($who, ?c)", who="France")`.
        """
        return self.engine.ask(
            question, top, offset=offset, min_score=min_score, explain=explain, paths=paths, new=new, **parameters
        )

    def explain(self, question: Question, /, top: int | None = 10, paths: int = 1, **options: Any) -> Answers:
        """The best answers, each with its `paths` best reasons, and whether the search provably missed nothing."""
        return self.ask(question, top, explain=True, paths=paths, **options)

    def ask_many(
        self, questions: Iterable[Question], top: int | None = 10, *, offset: int = 0, min_score: float = 0.0,
        explain: bool = False, paths: int = 1, new: bool = False,
    ) -> list[Answers]:  # fmt: skip
        """The answers to many questions; those of one structure run as one batch.

        A text with parameters is a pair: `("?c : borders($who, ?c)", {"who": "France"})`.
        """
        return self.engine.ask_many(
            questions, top, offset=offset, min_score=min_score, explain=explain, paths=paths, new=new
        )

    def ask_file(
        self, path: NameOrPath, top: int | None = 10, *, parameters: Mapping[str, str] | None = None, **options: Any
    ) -> AskedFile:
        """The questions of a file, one a line in text, SPARQL or JSON, asked as one iterates over what comes of each.

        `run.ask_file("questions.txt").write("answers.jsonl")` writes them and says how many could not be answered.
        `parameters` are the labels that `$name` stands for in every line; the other options are those of `ask_many`.
        """
        from tacit.engine.answers.question_files import AskedFile

        return AskedFile(self.engine, Path(path), parameters or {}, {"top": top, **options})

    def score(self, head: str, relation: str, tail: str, *, explain: bool = False, paths: int = 1) -> Answer:
        """How far a fact holds: its `score` in [0, 1], whether it is `known`, and with `explain` why."""
        return self.engine.score(head, relation, tail, explain=explain, paths=paths)

    def count(self, question: Question) -> Count:
        """How many answers a question for entities has: `known` ones, and how many are `expected` with predictions."""
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
        """The facts that the graph is most probably missing, of all relations, one or some, about all entities or some.

        One iterates over them, or has them written: `run.complete(min_score=0.8).write("facts.ttl")`. `top` keeps the
        best of all; settings are those of `EngineSettings`. `progress` hears an `Event` after each relation or
        entity, or True shows it.
        """
        from tacit.engine.answers.completion import Completion

        # Links are completed one by one, by scores that are calibrated: by an encoder's of single links too.
        engine = self.engine.using(**{"search": "beam", "typed": typed, **settings})
        given = ([names] if isinstance(names, str) else names for names in (relations, entities))
        return Completion(engine, *given, min_score=min_score, top=top, progress=progress)

    def plan(self, question: Question, /, **parameters: str) -> str:
        """How a question would be answered, as a tree of steps with what each costs."""
        engine = self.engine
        asked = engine.prepare(question, **parameters)
        return f"{asked.query}\n\n{engine.describe(asked)}"

    def paraphrase(self, question: str) -> dict[str, Any]:
        """A text or SPARQL as it is understood: as a `query`, a `sentence`, an `outline` of conditions and as `sparql`.

        What has no outline has no sentence, and `undrawable` says why; what SPARQL cannot say has None there.
        """
        from tacit.query.words.paraphrase import QuestionReader

        return QuestionReader(self.graph).told(question)

    def entities(
        self, typed: str = "", limit: int = 10, *, relation: str | None = None, end: str = "object"
    ) -> list[dict[str, str]]:
        """The entities that complete what was typed, each with its `label`, its `name` and the `text` of a question.

        Those come first that facts of a `relation` have at their `end`, `subject` or `object`.
        """
        from tacit.query.words.completions import Completions

        return Completions(self.graph).entities(typed, limit, relation, end)

    def relations(self, typed: str = "", limit: int = 10) -> list[dict[str, str]]:
        """The same of relations, each with its `words` in a sentence."""
        from tacit.query.words.completions import Completions

        return Completions(self.graph).relations(typed, limit)

    def examples(self) -> list[dict[str, str]]:
        """Questions to start with, which the graph has some answers to: `query`, `shape` and `title` of each."""
        from tacit.query.words.examples import examples

        return examples(self.graph)

    def facts(
        self, entity: str, relation: str | None = None, *, predicted: bool = False, min_score: float = 0.1
    ) -> EntityFacts:
        """The known facts about an entity by relation and direction, or the `predicted` ones of at least `min_score`.

        A `relation` is one alone, `speaks^-1` for what speaks the entity.
        """
        from tacit.engine.answers.entity_facts import known_facts, predicted_facts

        if not predicted:
            return known_facts(self.engine, entity, relation)
        return predicted_facts(self.engine.using(typed=True), entity, relation, min_score=min_score)

    def sample(self, out: NameOrPath | None = None, **options: Any) -> dict[str, Sample]:
        """Queries with easy and hard answers, drawn from the run's graph; the arguments are those of `tacit.sample`."""
        return sample(self.graph, out, **options)

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
        """Train an adapter for the way the run is asked, and keep it where it is better than what the run has.

        It learns from `queries` (a query folder, or query sets by shape), or else from `count` sampled ones of each
        shape. Validation compares it with the run's own adapter and with none; what is returned says so under `verdict`
        and `kept`. A `variant` of the paper's ablation (`f`, `af`, `r`, `c`) becomes a run of its own within the run.
        `resume` goes on where the same call was stopped; `progress` hears of every `Event`, or True shows them.
        Settings are those of `AdaptSettings`: recipe, shapes, condition, loss, calibration, steps, device and so on.
        """
        from tacit.adapt.adaptation import adapt
        from tacit.adapt.settings import AdaptSettings
        from tacit.adapt.training_queries import training_queries, validation_queries
        from tacit.adapt.variants import check_variant
        from tacit.links.loading import pick_device

        chosen = AdaptSettings.of(settings)
        check_variant(variant)  # before queries are drawn
        opened = self._opened
        folder, engine = opened.folder, opened.engine
        elsewhere = "device" in settings and engine.scorer.device != pick_device(chosen.device)
        scorer = read_weights(folder, chosen.device).scorer if elsewhere else engine.scorer
        learned = training_queries(engine.graph, chosen, queries, count)
        valid = validation_queries(engine.graph, chosen, queries)
        result = adapt(
            engine.graph, scorer, learned, chosen, valid=valid, run=folder, progress=progress, resume=resume,
            variant=variant,
        )  # fmt: skip
        if result.summary["kept"] and variant is None:
            own = chosen.engine  # which are the defaults from now on
            given = {name: value for name, value in opened.settings.items() if name not in own}
            self._take(read=opened.weights, adapted=True, settings=given)
        return result.summary

    def encode(self, queries: NameOrPath | Mapping[str, QuerySet] | None = None, **options: Any) -> dict[str, Any]:
        """Train an encoder on the run's graph, and keep it in the run: `search="encoder"` asks it.

        The arguments are those of `tacit.train_encoder`; what is returned says how long it took and how well it did.
        """
        from tacit.run.training import train_encoder  # which makes runs

        train_encoder(self.folder.path, queries=queries, **{"progress": False, **options})
        self._reread()
        summary: dict[str, Any] = self.results["encode"]
        return summary

    def drop_encoder(self) -> None:
        """Delete the run's encoder, or one whose training was stopped; it must have a link predictor beside it."""
        if not self.folder.has(MODEL):
            raise RunError(f"run '{self.folder.path}' holds an encoder alone; delete the folder instead")
        stopped = self.folder.has(ENCODING)
        if not self.folder.drop("encode") and not stopped:
            raise RunError(f"run '{self.folder.path}' has no encoder to drop")
        asked = self._opened.settings
        given = {name: value for name, value in asked.items() if (name, value) != ("search", "encoder")}
        self._take(read=replace(self.weights, encoder=None), settings=given)

    def index(self, *, nlist: int | None = None, seed: int = 0) -> dict[str, Any]:
        """Build the index by which large graphs are asked, in `nlist` clusters (`4 √N` by default), and keep it.

        What is returned says how many entities and clusters it has, its bytes and the seconds it took. Graphs of more
        than 200,000 entities are asked through it from now on; below that, exact search is faster.
        """
        if not self.folder.has(MODEL):
            raise RunError(f"run '{self.folder.path}' holds an encoder alone; an index is one of a link predictor")
        weights = self.weights
        built = weights.finders.build(weights.scorer, nlist, seed)
        self._take(read=weights)
        return built

    def add(self, facts: Triples, *, progress: Progress | bool = False, **options: Any) -> Change:
        """Add facts to the run, in its folder and here: they are known from now on, as train facts.

        They are a file or folder, with the options of `tacit.load`, a DataFrame, a graph, or triples of labels.
        Entities and relations that the run does not know get vectors, fitted to their facts; what was learned before
        stays as it is, to the bit. What is returned says how many facts, entities and relations are new.
        """
        change = add_facts(self.folder.path, facts, progress=progress, **options)
        self._reread()
        return change

    def remove(self, facts: Triples, **options: Any) -> Change:
        """Take facts out of the run, in its folder and here: they are not known from now on.

        Entities, relations and vectors stay. So predictions still carry what was learned of the facts, and are likely
        to bring them back as predicted ones; only training anew forgets them.
        """
        change = remove_facts(self.folder.path, facts, **options)
        self._reread()
        return change

    def _reread(self) -> None:
        """Take up what the folder holds; another process may have changed it before."""
        self._take(folder=RunFolder.open(self.folder.path), read=None)

    def drop_adapter(self) -> None:
        """Delete the run's adapter, and answer without it from now on."""
        if not self.folder.drop("adapt"):
            raise RunError(f"run '{self.folder.path}' has no adapter to drop")
        self._take(read=self.weights)

    def _take(self, **changes: Any) -> None:
        """Answer by what changed from now on; until it is read as a whole, whoever asks has what was there before."""
        opened = replace(self._opened, **changes)
        _ = opened.engine
        self._opened = opened

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

        `queries` are a query folder or query sets by name; by default the facts of the split, as 1p queries. The engine
        is never handed facts of the split: it observes the training facts, or those that `observed` names of the splits
        before the split, or what the system of a `preset` is handed. `adapted=False`, or a preset, leaves the adapter
        out. `out` is a JSON file to write. `progress` hears an `Event` of each shape as its queries are ranked, or True
        shows it. Several `processes` that hold the whole run share the queries out, and the first of them writes.

        Settings are those of `EvaluateSettings`: `ties`, the `mean` per question or per fact, the `limit` of queries of
        each shape, `batch`, and what is measured as well: `per_relation`, `by_missing` links, and `reliability`. All
        others are those of `EngineSettings`; with `new`, answers that the observed facts imply are ranked last.
        """
        from tacit.evaluate.evaluation import check_writable, evaluate_run, kept_in
        from tacit.evaluate.settings import EvaluateSettings

        settings["split"] = split
        how = EvaluateSettings.taken(settings)
        if (given := settings.get("candidates")) in ("scan", "index"):
            raise SettingsError(f"candidates is '{given}', but an evaluation ranks all entities; drop it", "candidates")
        if out is not None:
            check_writable(Path(out))
        opened = self._opened  # facts and weights of one moment, whoever changes the run meanwhile
        evaluation = evaluate_run(
            opened.folder, opened.weights, queries, shapes, how, opened.adapted if adapted is None else adapted,
            opened.settings | settings, progress, processes,
        )  # fmt: skip
        if processes is not None and not processes.leads:
            return evaluation
        if out is not None:
            evaluation.write(out)
        return kept_in(opened.folder, evaluation)

    def report(self, out: NameOrPath) -> Path:
        """Write settings, tables and figures of the run as one page, .html or .md, that needs no other file."""
        from tacit.evaluate.report import write_report

        return write_report(self.folder, out)


def open(source: NameOrPath, *, device: str = "auto", adapted: bool = True, **settings: Any) -> Run:
    """The run in a folder, or that of `world`, which is trained on first use and kept in the user's cache.

    Settings are those of `EngineSettings`; where the run has an adapter, those it was trained for are the defaults, and
    another `calibration` is refused. `adapted=False` leaves the adapter out, and so does a `preset`.
    """
    run = Run(find_run(source), device=device, adapted=adapted, **settings)
    _ = run.engine  # what is wrong with it is said at once
    return run
