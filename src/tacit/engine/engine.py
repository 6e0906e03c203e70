"""The engine: answers questions over a graph, by a link predictor and a search."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import replace
from typing import TYPE_CHECKING, Any, cast, overload

from tacit.engine.answers.answers import Answer, Answers, Count
from tacit.engine.answers.execute import execute
from tacit.engine.answers.tables import answer_table
from tacit.engine.atoms.atoms import Atoms
from tacit.engine.atoms.calibration import Calibration
from tacit.engine.atoms.mixture import RuleMixture
from tacit.engine.parts import EngineParts
from tacit.engine.questions import (
    AnyQuestion,
    AskOptions,
    BoundQuery,
    ListLength,
    Question,
    bind_any,
    bind_for_ask,
    bind_question,
    reset_threads_after_fork,
)
from tacit.engine.reasoner import NewAnswers, Reasoner
from tacit.engine.settings import AdapterChoice, EngineSettings
from tacit.errors import QueryError, RunError, SettingsError
from tacit.graph.graph import Graph
from tacit.links.run_retrievers import RunRetrievers
from tacit.links.scorer import GraphScorer, Scorer
from tacit.links.values.predictor import ValuePredictor
from tacit.query.describe import describe
from tacit.query.formula import Atom, Entity, Query
from tacit.query.plans.traits import listable, sets_in
from tacit.query.sparql.table_query import TableQuery
from tacit.sources import load, take_reading

if TYPE_CHECKING:
    from tacit.graph.datasets import Facts

_SECONDS = 2e-8, 2e-10  # to combine a score with others: on a core, on a GPU


class Engine:
    """Answers questions over a graph that is missing facts.

    Threads may share one; it can be pickled and forked.

    `adapter` is a calibration with a trained adapter in it, which `settings.calibration` must name;
    `reasoner` replaces the search that the settings name; `retrievers` find candidates by a run's
    index and lists; `encoder` is the reasoner behind `search="encoder"`, or the error it raises;
    `rules` are mixed into scores, and True or False says whether those of a run are; `values`
    predicts missing values of attributes, which comparisons ask for.
    Weights may change between questions; see `forget` for writes that torch cannot see.

    >>> graph = Graph.of([("France", "borders", "Spain"), ("Spain", "borders", "Portugal")])
    >>> facts = GraphScorer(graph.index(), graph.num_entities)
    >>> engine = Engine(graph, facts, calibration="sigmoid")
    >>> engine.ask("?c : exists ?n . borders(France, ?n) & borders(?n, ?c)", top=1).entities
    ['Portugal']
    """

    def __init__(
        self,
        graph: Graph,
        scorer: Scorer,
        settings: EngineSettings | None = None,
        *,
        adapter: Calibration | None = None,
        reasoner: Reasoner | None = None,
        retrievers: RunRetrievers | None = None,
        encoder: Reasoner | RunError | None = None,
        rules: RuleMixture | bool | None = None,
        values: ValuePredictor | None = None,
        **changes: Any,
    ) -> None:
        self.graph = graph
        self.scorer = scorer
        self.adapter = adapter
        if isinstance(rules, bool):
            changes["rules"] = rules
            rules = None
        self.settings = _changed(settings or EngineSettings(), reasoner, changes)
        self.parts = EngineParts(
            graph, scorer, self.settings, adapter, reasoner, retrievers, encoder, rules, values
        )
        self.logic = self.parts.logic
        self._adapter_choice = AdapterChoice(adapter, adapter is not None)
        reset_threads_after_fork()

    @classmethod
    def of_facts(cls, source: Facts, **settings: Any) -> Engine:
        """An engine that predicts nothing and searches a graph's observed facts symbolically.

        Settings are those of `EngineSettings`, and options of `tacit.load` that say how the graph
        is read.
        """
        reading = take_reading(settings)
        if settings.get("search", "symbolic") != "symbolic":
            raise SettingsError(
                f"search is '{settings['search']}', but facts alone are searched symbolically; "
                "leave it out",
                "search",
            )
        graph = load(source, **reading)
        own = EngineSettings.of({"calibration": "sigmoid", **settings, "search": "symbolic"})
        facts = graph.selected(own.selection).index(*own.observed)
        return cls(graph, GraphScorer(facts, graph.num_entities), own)

    def with_settings(self, *, adapted: bool | None = None, **changes: Any) -> Engine:
        """Return an engine of the same parts with other settings.

        With `adapted=False` it leaves its adapter out until `adapted=True` is passed. It also
        leaves it out as long as there is a preset, or a search that takes another calibration than
        the adapter's and none is given.
        """
        choice, settings = self._adapter_choice.with_changes(self.settings, adapted, changes)
        if not changes and choice == self._adapter_choice:
            return self
        parts = self.parts
        engine = Engine(
            self.graph,
            self.scorer,
            _changed(settings, parts.reasoner, changes),
            adapter=choice.adapter if choice.used else None,
            reasoner=parts.reasoner,
            retrievers=parts.retrievers,
            encoder=parts.encoder,
            rules=parts.rules,
            values=parts.values,
        )
        engine._adapter_choice = choice
        return engine

    def forget(self) -> None:
        """Drop everything derived from the weights.

        Call it after writes to some of them through `.data` or NumPy.
        """
        parts = self.parts
        for part in (parts.atoms, parts.retrievers, parts.reasoner, parts.encoder_reasoner):
            if part is not None:
                part.forget()

    @property
    def config(self) -> dict[str, Any]:
        """Everything that decides the answers beside the weights, as plain data."""
        return dict(self.parts.config)

    @property
    def resolved_search(self) -> str:
        """The search in use; by default certified, or a beam where no proof is possible."""
        return self.parts.resolved_search

    @property
    def atoms(self) -> Atoms:
        """Calibrated scores of atoms."""
        return self.parts.atoms

    @property
    def search(self) -> Reasoner:
        """The reasoner that turns plans into scores, those of known answers included."""
        return self.parts.search

    @property
    def reasoner(self) -> Reasoner:
        """The reasoner that ranks all entities.

        With the setting `new`, answers that the observed facts imply come last; those that follow
        by a rule may be what an evaluation asks for.
        """
        settings = self.settings
        if not (settings.new and settings.observed):
            return self.search
        facts = self.parts.selected.index(*settings.observed)
        return NewAnswers(self.search, facts, self.parts.known_values)

    def ask(
        self,
        query: AnyQuestion,
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
        """Return the `top` best answers to a question, from `offset` on.

        With `explain`, each comes with its reasons. `top` is ten by default, `None` for all, and
        `"likely"` for all that are known or score at least 0.5, and the ten best. A string is a
        question in the text syntax or in SPARQL, whose LIMIT and OFFSET choose among all answers
        first; without a LIMIT it asks for the likely ones. `min_score` leaves out lower scores,
        `new` known answers. `parameters` are the labels that `$name` stands for in a text.
        """
        bound = bind_for_ask(query, self.graph, parameters)
        options = AskOptions(top, offset, min_score, paths, explain, new)
        if isinstance(bound, BoundQuery):
            return execute(self.parts, [bound], options)[0]
        return answer_table(self.parts, bound, options)

    def explain(
        self,
        query: Question,
        /,
        top: ListLength = "auto",
        paths: int = 1,
        *,
        offset: int = 0,
        min_score: float = 0.0,
        new: bool = False,
        **parameters: str,
    ) -> Answers:
        """Return the best answers with reasons, and whether the search provably missed none."""
        bound = bind_for_ask(query, self.graph, parameters)
        options = AskOptions(top, offset, min_score, paths, True, new)
        if isinstance(bound, BoundQuery):
            return execute(self.parts, [bound], options)[0]
        return answer_table(self.parts, bound, options)

    def score(
        self, head: str, relation: str, tail: str, *, explain: bool = False, paths: int = 1
    ) -> Answer:
        """Score a fact in [0, 1], say whether it is known, and with `explain` why."""
        fact = Query((), Atom(relation, Entity(head), Entity(tail)))
        return self.ask(fact, explain=explain, paths=paths)[0]

    def count(self, query: Question) -> Count:
        """Count the answers to a question for entities: known ones, and expected ones.

        Expected ones include predictions.
        """
        bound = self.prepare(query)
        counting = Query(bound.query.targets, bound.query.formula, count=True)
        bound = replace(bound, query=counting)
        (answers,) = execute(self.parts, [bound], AskOptions())
        return cast(Count, answers.counted)

    def ask_many(
        self,
        queries: Iterable[AnyQuestion],
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
        options = AskOptions(top, offset, min_score, paths, explain, new)
        if isinstance(queries, str) or not isinstance(queries, Iterable):
            raise QueryError("ask_many takes a list of questions; ask takes one")
        questions = [self.read(query) for query in queries]
        bound = [each for each in questions if isinstance(each, BoundQuery)]
        answers = iter(execute(self.parts, bound, options))
        return [
            next(answers)
            if isinstance(each, BoundQuery)
            else answer_table(self.parts, each, options)
            for each in questions
        ]

    @overload
    def likely(self, question: BoundQuery) -> BoundQuery: ...
    @overload
    def likely(self, question: BoundQuery | TableQuery) -> BoundQuery | TableQuery: ...
    def likely(self, question: BoundQuery | TableQuery) -> BoundQuery | TableQuery:
        """Restrict a question to known and likely answers, unless it sets its own limit.

        A LIMIT or a minimal score is such a limit.
        """
        if question.limit is not None or question.min_score:
            return question
        if isinstance(question, TableQuery):
            return replace(question, likely=True)
        if question.query.kind in ("truth", "count"):
            return question
        if not self.search.probabilities:
            raise QueryError(
                f"scores of {self.search.name} are no probabilities, so nothing says where likely "
                "answers end; say how many are wanted, by LIMIT"
            )
        return replace(question, likely=True)

    def describe(self, query: str | Query | BoundQuery) -> str:
        """Describe the plan of a question, as an indented tree with the cost of each step."""
        compiled = self.prepare(query).compiled
        attributes = self.graph.attributes.listed
        override = self.parts.override
        if override is not None:
            override.check(compiled.plan)
            return describe(compiled, None, attributes=attributes)
        k = self.graph.num_entities if self.resolved_search == "exact" else self.settings.k
        return describe(compiled, k, self.graph.num_entities, attributes)

    def seconds(self, query: Question) -> float | None:
        """Estimate the seconds that a question takes on one core, or on a GPU.

        It counts the sets over all entities that the plan combines; proofs may spare most of them.
        None for a search that combines none, as one over lists.
        """
        question = self.prepare(query)
        size = self.graph.num_entities
        plan = question.compiled.plan
        over_lists = self.parts.candidates != "rows" and question.query.kind == "entities"
        by_sets = self.resolved_search in ("certified", "beam", "exact")
        if not by_sets or (over_lists and listable(plan)):
            return None
        k = size if self.resolved_search == "exact" else min(self.settings.k, size)
        return sets_in(plan, k, size) * size * _SECONDS[self.scorer.device.type == "cuda"]

    def prepare(self, query: Question, /, **parameters: str) -> BoundQuery:
        """Bind a question to the graph, ready to run; a bound one stays as it is."""
        return bind_question(query, self.graph, parameters)

    def read(self, query: AnyQuestion, /, **parameters: str) -> BoundQuery | TableQuery:
        """Bind a question like `prepare`, or read SPARQL that is no single formula."""
        return bind_any(query, self.graph, parameters)

    def __repr__(self) -> str:
        settings = f"k={self.settings.k}, {self.settings.logic}"
        return f"Engine({self.graph!r}, {self.resolved_search}, {settings})"


def _changed(
    settings: EngineSettings, reasoner: Reasoner | None, changes: Mapping[str, Any]
) -> EngineSettings:
    """The settings after changes, none of which may be in vain."""
    after = settings.changed(**changes)
    after.check_explicit(changes)
    if reasoner is not None and "search" in changes:
        raise SettingsError(
            f"search is given beside {reasoner.name}, a reasoner that takes its place; leave one "
            "out",
            "search",
        )
    return after
