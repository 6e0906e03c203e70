"""The engine: answers questions over a graph, by a link predictor and a search."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from functools import cached_property
from typing import TYPE_CHECKING, Any, cast

import torch
from torch import Tensor

from tacit.engine.answers.answers import Answer, Answers, Count
from tacit.engine.answers.execute import answered
from tacit.engine.answers.paging import ListLength, Page, check_flag, check_number
from tacit.engine.atoms.atoms import Atoms
from tacit.engine.atoms.calibration import Calibration, calibration
from tacit.engine.atoms.constraints import AtomConstraints
from tacit.engine.atoms.known_facts import KnownFacts
from tacit.engine.logic import Logic
from tacit.engine.questions import (
    BoundQuery,
    Question,
    asked_with,
    prepared,
    reset_threads_after_fork,
    threads_to_answer,
)
from tacit.engine.reasoner import CertifiedReasoner, MessageReasoner, Reasoner, SymbolicReasoner
from tacit.engine.search.continuous import ContinuousReasoner
from tacit.engine.search.exclusion import NewAnswers
from tacit.engine.search.list_search import ListReasoner
from tacit.engine.settings import EngineSettings
from tacit.errors import QueryError, RunError, SettingsError
from tacit.graph.fact_index import FactIndex
from tacit.graph.graph import Graph, no_triples
from tacit.links.finders.codes import shared_codes
from tacit.links.finders.finders import Finders, checked
from tacit.links.finders.index import WORTH
from tacit.links.finders.retriever import TopKRetriever
from tacit.links.finders.scan import ScanTop
from tacit.links.scorer import GraphScorer, Scorer, check_sizes, shards_of
from tacit.query.formula import Atom, Entity, Query
from tacit.query.plans.describe import describe
from tacit.query.plans.plan import Plan
from tacit.query.plans.symbolic import answers as symbolic_sets
from tacit.query.plans.traits import listable, sets_in
from tacit.sources import load, take_reading

if TYPE_CHECKING:
    from tacit.graph.datasets import Facts

_SECONDS = 2e-8, 2e-10  # to combine a score with others: on a core, on a GPU


class Engine:
    """Answers questions over a graph that is missing facts.

    Threads may share one; it can be pickled and forked.

    `adapter` is a calibration with a trained adapter in it, which `settings.calibration` must name;
    `reasoner` replaces the search that the settings name; `finders` find candidates by a run's
    index and lists; `encoder` is the reasoner behind `search="encoder"`, or the error it raises.
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
        finders: Finders | None = None,
        encoder: Reasoner | RunError | None = None,
        **changes: Any,
    ) -> None:
        check_sizes("link predictor", scorer, graph)
        for name, part in (("adapter", adapter), ("reasoner", reasoner), ("encoder", encoder)):
            check_sizes(name, part, graph)
        self.graph = graph
        self.scorer = scorer
        self.adapter = adapter
        self.settings = (settings or EngineSettings()).changed(**changes)
        self.settings.check_given(changes)
        self._reasoner = reasoner
        self._finders = finders
        self._encoder = encoder
        if reasoner is not None and "search" in changes:
            raise SettingsError(
                f"search is given beside {reasoner.name}, a reasoner that takes its place; leave "
                "one out",
                "search",
            )
        if (
            self.settings.search == "encoder"
            and reasoner is None
            and not isinstance(encoder, Reasoner)
        ):
            absent = "search is 'encoder', and there is none here; train one first"
            raise encoder or SettingsError(absent, "search", command="encode RUN")
        kind = self.settings.calibration
        if adapter is not None and kind != adapter.kind:
            raise SettingsError(
                f"calibration is '{kind}', and the adapter was trained for '{adapter.kind}'; "
                "leave the adapter out with `adapted=False`, or leave `calibration` out",
                "calibration",
            )
        self._wants_adapter = True  # whether an adapter is used where it fits
        # the adapter left out, with the settings that it brought
        self._unused_adapter: tuple[Calibration | None, dict[str, Any]] = None, {}
        # the settings changed since the adapter was last taken or left out
        self._changed_since = frozenset[str]()
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
        return cls(graph, GraphScorer(graph.index(*own.observed), graph.num_entities), own)

    def with_settings(self, *, adapted: bool | None = None, **changes: Any) -> Engine:
        """Return the same engine with other settings; computed values are shared.

        With `adapted=False` it leaves its adapter out until `adapted=True` is passed. It also
        leaves it out as long as there is a preset, or a search that takes another calibration than
        the adapter's and none is given.
        """
        wants_adapter = self._wants_adapter if adapted is None else adapted
        after = self.settings.changed(**changes)
        own, brought = (self.adapter, {}) if self.adapter is not None else self._unused_adapter
        restored = {
            name: value
            for name, value in brought.items()
            if name not in changes and not after.decides(name)
            if adapted or name not in self._changed_since
        }
        # An adapter in use is kept, so that another calibration beside it is refused.
        insists = self.adapter is not None or bool(adapted)
        preset = after.preset if self.adapter is None else changes.get("preset")
        fits = own is not None and wants_adapter and not preset
        if fits and own is not None and not (insists and "calibration" in changes):
            fits = after.changed(**restored).calibration == own.kind
        same = wants_adapter == self._wants_adapter and fits == (self.adapter is not None)
        if not changes and same:
            return self
        before = self.settings.changed(**restored) if fits else self.settings
        if self.adapter is not None and not fits:
            brought = {name: getattr(before, name) for name in self.adapter.unadapted_defaults}
            defaults = self.adapter.unadapted_defaults.items()
            changed = self._changed_since
            before = before.changed(**{name: v for name, v in defaults if name not in changed})
        shared: dict[str, Any] = {
            "reasoner": self._reasoner,
            "finders": self._finders,
            "encoder": self._encoder,
        }
        engine = Engine(
            self.graph, self.scorer, before, adapter=own if fits else None, **shared, **changes
        )
        engine._wants_adapter = wants_adapter
        engine._unused_adapter = (None, {}) if fits else (own, brought)
        if fits == (self.adapter is not None):
            engine._changed_since = self._changed_since.union(changes)
        elif fits:
            engine._changed_since = frozenset(changes)
        return engine

    def forget(self) -> None:
        """Drop everything derived from the weights.

        Call it after writes to some of them through `.data` or NumPy.
        """
        self.atoms.forget()
        if self._finders is not None:
            self._finders.forget()
        for reasoner in filter(None, (self._reasoner, self.encoder_reasoner)):
            reasoner.forget()

    def ranking(self) -> Engine:
        """Return the same engine, set to rank all entities rather than candidates."""
        return self if self.reasoner_override is not None else self.with_settings(candidates="rows")

    @property
    def config(self) -> dict[str, Any]:
        """Everything that decides the answers beside the weights, as plain data.

        Facts alone are not calibrated.
        """
        return dict(self._config)

    @cached_property
    def _config(self) -> dict[str, Any]:
        override = self.reasoner_override
        calibrated = self.settings.search != "symbolic"
        if override is not None:
            calibrated = override.calibrated
        config = self.settings.to_dict() | {"adapted": calibrated and self.adapter is not None}
        if not calibrated:
            config["calibration"] = "none"
        if override is not None:
            config |= override.config
        return config | {"candidates": self.candidates, "search": self.resolved_search}

    @property
    def reasoner_override(self) -> Reasoner | None:
        """The reasoner that replaces the search: the one passed in, or the encoder."""
        if self._reasoner is None and self.settings.search == "encoder":
            return self.encoder_reasoner
        return self._reasoner

    @property
    def encoder_reasoner(self) -> Reasoner | None:
        """The reasoner behind `search="encoder"`; None where there is none to use."""
        return self._encoder if isinstance(self._encoder, Reasoner) else None

    @property
    def model(self) -> str:
        """The name of what answers: a reasoner that replaces the search, or the link predictor."""
        override = self.reasoner_override
        return type(self.scorer).__name__ if override is None else override.name

    @property
    def index(self) -> FactIndex | None:
        """The facts that count as known; None where none do."""
        return self.graph.index(*self.settings.observed) if self.settings.observed else None

    @cached_property
    def facts(self) -> KnownFacts | None:
        """The known facts on the scorer's device."""
        return None if self.index is None else KnownFacts(self.index, self.scorer.device)

    @cached_property
    def logic(self) -> Logic:
        """The logic that combines scores."""
        return Logic(self.settings.logic, self.settings.negation, self.settings.strength)

    @cached_property
    def atoms(self) -> Atoms:
        """Calibrated scores of atoms."""
        settings = self.settings
        graph = self.graph
        device = self.scorer.device
        facts = self.facts or KnownFacts(graph.index("train"), device)
        kind = self.adapter or calibration(settings.calibration, facts)
        return Atoms(
            self.scorer,
            kind.counting(facts, shards_of(self.scorer)),
            self.facts,
            observed=settings.observed_score,
            precision=settings.precision,
            ceiling=settings.ceiling or (1.0 if self.facts is None else settings.observed_score),
            possible=AtomConstraints(graph, device, loops=settings.loops, typed=settings.typed),
            coded=shared_codes if self._finders is None else self._finders.codes,
        )

    @cached_property
    def reasoner(self) -> Reasoner:
        """The reasoner that ranks all entities.

        With the setting `new`, known answers come last.
        """
        new = self.index if self.settings.new else None
        return self.search if new is None else NewAnswers(self.search, new)

    @cached_property
    def search(self) -> Reasoner:
        """The reasoner that turns plans into scores, those of known answers included."""
        settings = self.settings
        graph = self.graph
        if self.reasoner_override is not None:
            return self.reasoner_override.bind(self)
        if settings.search == "symbolic":
            return SymbolicReasoner(
                self.index or FactIndex(no_triples(), graph.num_relations), graph.num_entities
            )
        if settings.search == "continuous":
            return ContinuousReasoner(
                self.atoms,
                self.logic,
                steps=settings.steps,
                step_size=settings.step_size,
                reg=settings.vector_reg,
            )
        if self.resolved_search == "certified" and self.atoms.shards.world > 1:
            raise SettingsError(
                "search is 'certified', which processes that share the entities out do not follow "
                "together; use `search='beam'` or `search='exact'`, whose explained answers say "
                "whether they are certified",
                "search",
            )
        k = None if self.resolved_search == "exact" else settings.k
        arguments = self.atoms, self.logic, k, settings.memory
        if self.resolved_search == "certified":
            by_rows: MessageReasoner = CertifiedReasoner(*arguments, settings.budget)
        else:
            by_rows = MessageReasoner(*arguments)
        if self.candidates == "rows":
            return by_rows
        return ListReasoner(by_rows, self._finder(self.candidates))

    @cached_property
    def resolved_search(self) -> str:
        """The search in use; by default certified, or a beam where no proof is possible.

        No proof is possible over shards, which do not expand candidates together, or over an index,
        which may miss some.
        """
        if self._reasoner is not None:
            return self._reasoner.name
        if self.settings.search != "auto":
            return self.settings.search
        provable = self.atoms.shards.world == 1 and self.candidates != "index"
        return "certified" if provable else "beam"

    @cached_property
    def candidates(self) -> str:
        """The source of candidates: `rows`, `scan` or `index`.

        By default a large graph takes its index, unless a proof is asked for.
        """
        candidates = self.settings.candidates
        if self.reasoner_override is not None:
            return "rows"
        if candidates == "auto":
            large = self.graph.num_entities > WORTH
            indexed = self._finders is not None and large and self._finders.indexed
            unproven = self.settings.search in ("auto", "beam")
            return "index" if indexed and unproven and self.atoms.listable else "rows"
        if candidates != "rows" and not self.atoms.listable:
            raise SettingsError(
                f"candidates is '{candidates}', and lists cannot serve what the engine asks for: "
                "they take a model that scores by products, on the CPU, sigmoid or softmax-count, "
                "nothing typed, no adapter by tail; leave it out",
                "candidates",
            )
        return candidates

    def _finder(self, kind: str) -> TopKRetriever:
        """The retriever that lists the tails of rows."""
        settings = self.settings
        constraints = self.atoms.possible
        loopless = torch.zeros(0, dtype=torch.bool)
        if constraints is not None:
            loopless = constraints.without_loops
        if self._finders is not None:
            return self._finders.finder(
                kind,
                self.scorer,
                loopless,
                nprobe=settings.nprobe,
                sums=self.atoms.calibration.by_sum,
                cached=settings.cached,
            )
        if kind == "index":
            raise SettingsError(
                "candidates is 'index', and only a run has one; open a run and build its index "
                "first",
                "candidates",
                command="index RUN",
            )
        return ScanTop(checked(self.scorer), loopless)

    def ask(
        self,
        query: Question,
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
        (answers,) = self.ask_many(
            [asked_with(query, self.graph, parameters)],
            top,
            offset=offset,
            min_score=min_score,
            explain=explain,
            paths=paths,
            new=new,
        )
        return answers

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
        bound = asked_with(query, self.graph, parameters)
        return self.ask(
            bound, top, offset=offset, min_score=min_score, explain=True, paths=paths, new=new
        )

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
        return cast(Count, self.ask_many([replace(bound, query=counting)])[0].counted)

    @torch.inference_mode(False)  # caches also serve callers outside of inference mode
    @torch.no_grad()
    def ask_many(
        self,
        queries: Iterable[Question],
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
        page = Page(top, offset, min_score)
        check_number("paths", paths, 1)
        for name, value in (("explain", explain), ("new", new)):
            check_flag(name, value)
        if isinstance(queries, str) or not isinstance(queries, Iterable):
            raise QueryError("ask_many takes a list of questions; ask takes one")
        if new:
            self.settings.changed(new=True)  # refused where no facts count as known
        new |= self.settings.new
        bound = [
            replace(each, new=new or each.new or each.known is False)
            for each in map(self.prepare, queries)
        ]
        groups: dict[tuple[str, Plan], list[int]] = {}
        for i, question in enumerate(bound):
            groups.setdefault((question.query.kind, question.prepared.plan), []).append(i)
        results: dict[int, Answers] = {}
        with threads_to_answer(
            (question.prepared.plan for question in bound), self.graph.num_entities
        ):
            for (_, plan), members in groups.items():
                step = self.search.batch(plan)
                for start in range(0, len(members), step):
                    batch = members[start : start + step]
                    questions = [bound[i] for i in batch]
                    listed = answered(self, questions, page, paths if explain else 0)
                    results |= zip(batch, listed, strict=True)
        return [results[i] for i in range(len(bound))]

    def likely(self, asked: BoundQuery) -> BoundQuery:
        """Restrict a question to known and likely answers, unless it sets its own limit.

        A LIMIT or a minimal score is such a limit.
        """
        if asked.limit is not None or asked.min_score or asked.query.kind in ("truth", "count"):
            return asked
        if not self.search.probabilities:
            raise QueryError(
                f"scores of {self.search.name} are no probabilities, so nothing says where likely "
                "answers end; say how many are wanted, by LIMIT"
            )
        return replace(asked, likely=True)

    def describe(self, query: str | Query | BoundQuery) -> str:
        """Describe the plan of a question, as an indented tree with the cost of each step."""
        prepared = self.prepare(query).prepared
        if self.reasoner_override is not None:
            self.reasoner_override.check(prepared.plan)
            return describe(prepared, None)
        k = self.graph.num_entities if self.resolved_search == "exact" else self.settings.k
        return describe(prepared, k, self.graph.num_entities)

    def seconds(self, query: Question) -> float | None:
        """Estimate the seconds that a question takes on one core, or on a GPU.

        It counts the sets over all entities that the plan combines; proofs may spare most of them.
        None for a search that combines none, as one over lists.
        """
        asked = self.prepare(query)
        size = self.graph.num_entities
        plan = asked.prepared.plan
        listed = self.candidates != "rows" and asked.query.kind == "entities" and listable(plan)
        if listed or self.resolved_search not in ("certified", "beam", "exact"):
            return None
        k = size if self.resolved_search == "exact" else min(self.settings.k, size)
        return sets_in(plan, k, size) * size * _SECONDS[self.scorer.device.type == "cuda"]

    def prepare(self, query: Question, /, **parameters: str) -> BoundQuery:
        """Bind a question to the graph, ready to run; a bound one stays as it is."""
        return prepared(query, self.graph, parameters)

    def known(self, plan: Plan, entities: Tensor, relations: Tensor) -> list[list[int]]:
        """The answers that the observed facts alone imply, for each query."""
        if self.index is None:
            return [[] for _ in relations]
        implied = symbolic_sets(
            plan, entities.numpy(), relations.numpy(), self.index, self.graph.num_entities
        )
        return [implied[row].tolist() for row in range(len(relations))]

    def __repr__(self) -> str:
        settings = f"k={self.settings.k}, {self.settings.logic}"
        return f"Engine({self.graph!r}, {self.resolved_search}, {settings})"
