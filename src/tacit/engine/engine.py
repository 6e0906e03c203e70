"""One object to ask: a graph, a link predictor, and a way to search."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import replace
from functools import cached_property
from typing import TYPE_CHECKING, Any, cast

import torch
from torch import Tensor

from tacit.engine.answers.answers import LIKELY, Answer, Answers, Count
from tacit.engine.answers.kinds import answered
from tacit.engine.answers.paging import Page, check_number
from tacit.engine.asked import Asked, Question, survive_forks, threads_to_answer
from tacit.engine.atoms.atoms import Atoms
from tacit.engine.atoms.calibration import Calibration, calibration
from tacit.engine.atoms.known_facts import KnownFacts
from tacit.engine.atoms.possible import Possible
from tacit.engine.logic import Logic
from tacit.engine.reasoner import CertifiedReasoner, MessageReasoner, Reasoner, SymbolicReasoner
from tacit.engine.search.continuous import ContinuousReasoner
from tacit.engine.search.exclusion import NewAnswers
from tacit.engine.search.list_search import ListReasoner
from tacit.engine.settings import EngineSettings
from tacit.errors import QueryError, SettingsError
from tacit.graph.fact_index import FactIndex
from tacit.graph.graph import Graph, no_triples
from tacit.links.finders.codes import shared_codes
from tacit.links.finders.finder import TopScorer
from tacit.links.finders.finders import Finders, checked
from tacit.links.finders.index import WORTH
from tacit.links.finders.scan import ScanTop
from tacit.links.scorer import GraphScorer, Scorer, shards_of
from tacit.query.formula import Atom, Entity, Query
from tacit.query.names import bind
from tacit.query.plans.compile import compile_query
from tacit.query.plans.describe import describe
from tacit.query.plans.plan import Plan
from tacit.query.plans.symbolic import answers as symbolic_sets
from tacit.query.plans.traits import listable, sets_in
from tacit.query.reading import Reading, read
from tacit.query.text.parameters import check_unused
from tacit.sources import load

if TYPE_CHECKING:
    from tacit.graph.datasets import Facts

_SECONDS = 2e-8, 2e-10  # for a score that is combined with others: on a core, on a GPU


class Engine:
    """Answers questions over a graph that is missing facts. Threads may share one; it can be pickled and forked.

    `adapter` is a calibration with a trained adapter in it, which `settings.calibration` must name; `reasoner` takes
    the place of the search that the settings name; `finders` are what a run has to find candidates by; `encoder` is
    the reasoner that `search="encoder"` asks. Weights may be written to while it is asked; see `forget` for what torch
    cannot see.

    >>> graph = Graph.of([("France", "borders", "Spain"), ("Spain", "borders", "Portugal")])
    >>> engine = Engine(graph, GraphScorer(graph.index(), graph.num_entities), calibration="sigmoid")
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
        encoder: Reasoner | None = None,
        **changes: Any,
    ) -> None:
        for what, known, there in (
            ("entities", scorer.num_entities, graph.num_entities),
            ("relation ids, inverses included", scorer.num_relations, graph.num_relations),
        ):
            if known != there:
                raise SettingsError(
                    f"the link predictor knows {known:,} {what}, the graph has {there:,}; "
                    "open the run that was trained on this graph"
                )
        self.graph, self.scorer, self.adapter = graph, scorer, adapter
        self.settings = (settings or EngineSettings()).changed(**changes)
        self.settings.check_given(changes)
        self._given, self._finders, self.offered = reasoner, finders, encoder
        if reasoner is not None and "search" in changes:
            raise SettingsError(f"search is given beside {reasoner.name}, a reasoner that takes its place", "search")
        if self.settings.search == "encoder" and encoder is None and reasoner is None:
            raise SettingsError(
                "search is 'encoder', and there is none here; train one", "search", command="encode RUN"
            )
        wanted = self.settings.calibration
        if adapter is not None and wanted != adapter.kind:
            raise SettingsError(
                f"calibration is '{wanted}', and the adapter was trained for '{adapter.kind}'; leave the adapter out "
                "with adapted=False, or leave calibration as it is",
                "calibration",
            )
        survive_forks()

    @classmethod
    def of_facts(cls, source: Facts, **settings: Any) -> Engine:
        """An engine that predicts nothing: the observed facts of a graph or run, by symbolic search."""
        if settings.get("search", "symbolic") != "symbolic":
            raise SettingsError(
                f"search is '{settings['search']}', but facts alone are searched symbolically", "search"
            )
        graph = load(source)
        chosen = EngineSettings.of({"calibration": "sigmoid", **settings, "search": "symbolic"})
        return cls(graph, GraphScorer(graph.index(*chosen.observed), graph.num_entities), chosen)

    def using(self, *, adapted: bool = True, **changes: Any) -> Engine:
        """The same engine with other settings; without its adapter unless `adapted`, with a preset, and where a search
        takes another calibration than the adapter's, though none is given. What was computed is shared.
        """
        fits = "calibration" in changes or self.settings.changed(**changes).calibration == self.settings.calibration
        adapter = self.adapter if adapted and fits and not changes.get("preset") else None
        if not changes and adapter is self.adapter:
            return self
        instead = self.adapter.instead if self.adapter is not None and adapter is None else {}
        shared: dict[str, Any] = {"reasoner": self._given, "finders": self._finders, "encoder": self.offered}
        return Engine(self.graph, self.scorer, self.settings.changed(**instead), adapter=adapter, **shared, **changes)

    def forget(self) -> None:
        """Keep nothing of the weights: to be called after writes to some of them through `.data` or NumPy."""
        self.atoms.forget()

    def ranking(self) -> Engine:
        """The same engine, to rank all entities rather than candidates."""
        return self if self.instead is not None else self.using(candidates="rows")

    @property
    def about(self) -> dict[str, Any]:
        """All that decides the answers beside the weights, as plain data; facts alone are not calibrated."""
        return dict(self._about)

    @cached_property
    def _about(self) -> dict[str, Any]:
        asked, own = self.instead, {} if self.instead is None else self.instead.about
        calibrated = self.settings.search != "symbolic" if asked is None else asked.calibrated
        scored = {"adapted": self.adapter is not None} if calibrated else {"adapted": False, "calibration": "none"}
        return self.settings.to_dict() | scored | own | {"candidates": self.candidates, "search": self.way}

    @property
    def instead(self) -> Reasoner | None:
        """The reasoner in the place of a search: the one that was given, or the encoder where it is asked."""
        return self.offered if self._given is None and self.settings.search == "encoder" else self._given

    @property
    def model(self) -> str:
        """What answers, by its name: a reasoner in the place of a search, or the link predictor."""
        return type(self.scorer).__name__ if self.instead is None else self.instead.name

    @property
    def index(self) -> FactIndex | None:
        """The facts that count as known; None where none do."""
        return self.graph.index(*self.settings.observed) if self.settings.observed else None

    @cached_property
    def facts(self) -> KnownFacts | None:
        """The same on the scorer's device."""
        return None if self.index is None else KnownFacts(self.index, self.scorer.device)

    @cached_property
    def logic(self) -> Logic:
        """The logic that combines scores."""
        return Logic(self.settings.logic, self.settings.negation, self.settings.strength)

    @cached_property
    def atoms(self) -> Atoms:
        """Calibrated scores of atoms."""
        settings, graph, device = self.settings, self.graph, self.scorer.device
        counted = self.facts or KnownFacts(graph.index("train"), device)
        return Atoms(
            self.scorer,
            (self.adapter or calibration(settings.calibration, counted)).counting(counted, shards_of(self.scorer)),
            self.facts,
            observed=settings.observed_score, precision=settings.precision,
            ceiling=settings.ceiling or (1.0 if self.facts is None else settings.observed_score),
            possible=Possible(graph, device, loops=settings.loops, typed=settings.typed),
            coded=shared_codes if self._finders is None else self._finders.codes,
        )  # fmt: skip

    @cached_property
    def reasoner(self) -> Reasoner:
        """What ranks all entities; where only new answers are wanted, known ones come last."""
        new = self.index if self.settings.new else None
        return self.search if new is None else NewAnswers(self.search, new)

    @cached_property
    def search(self) -> Reasoner:
        """What turns plans into scores, those of known answers included."""
        settings, graph = self.settings, self.graph
        if self.instead is not None:
            return self.instead.asked_by(self)
        if settings.search == "symbolic":
            return SymbolicReasoner(self.index or FactIndex(no_triples(), graph.num_relations), graph.num_entities)
        if settings.search == "continuous":
            return ContinuousReasoner(
                self.atoms, self.logic, steps=settings.steps, step_size=settings.step_size, reg=settings.vector_reg
            )
        if self.way == "certified" and self.atoms.shards.world > 1:
            raise SettingsError(
                "search is 'certified', which processes that share the entities out do not follow together; "
                "use search beam or exact, whose explained answers say whether they are certified",
                "search",
            )
        given = self.atoms, self.logic, None if self.way == "exact" else settings.k, settings.memory
        rows = CertifiedReasoner(*given, settings.budget) if self.way == "certified" else MessageReasoner(*given)
        return rows if self.candidates == "rows" else ListReasoner(rows, self._finder(self.candidates))

    @cached_property
    def way(self) -> str:
        """How answers are looked for: by default certified, or by a beam where that is not to be had.

        Processes that share the entities out do not follow candidates together, and what an index finds is not proven.
        """
        if self._given is not None:
            return self._given.name
        if self.settings.search != "auto":
            return self.settings.search
        return "certified" if self.atoms.shards.world == 1 and self.candidates != "index" else "beam"

    @cached_property
    def candidates(self) -> str:
        """What finds candidates: `rows`, `scan` or `index`; a large graph is asked through its index unless a proof is
        asked for.
        """
        given, graph = self.settings.candidates, self.graph
        if self.instead is not None:
            return "rows"
        if given == "auto":
            large = self._finders is not None and graph.num_entities > WORTH and self._finders.indexed
            return "index" if large and self.settings.search in ("auto", "beam") and self.atoms.listable else "rows"
        if given != "rows" and not self.atoms.listable:
            raise SettingsError(
                f"candidates is '{given}', and lists cannot serve what the engine asks for: they take a model that "
                "scores by products, on the CPU, sigmoid or softmax-count, nothing typed, no adapter by tail; use auto",
                "candidates",
            )
        return given

    def _finder(self, kind: str) -> TopScorer:
        """What lists the tails of rows."""
        settings, possible = self.settings, self.atoms.possible
        loopless = possible.without_loops if possible is not None else torch.zeros(0, dtype=torch.bool)
        if self._finders is not None:
            sums = self.atoms.calibration.by_sum
            options: dict[str, Any] = {"nprobe": settings.nprobe, "sums": sums, "cached": settings.cached}
            return self._finders.finder(kind, self.scorer, loopless, **options)
        if kind == "index":
            raise SettingsError(
                "candidates is 'index', which a run has: open one, and build it with index", "candidates"
            )
        return ScanTop(checked(self.scorer), loopless)

    def ask(
        self, query: Question, /, top: int | None = 10, *, offset: int = 0, min_score: float = 0.0,
        explain: bool = False, paths: int = 1, new: bool = False, **parameters: str,
    ) -> Answers:  # fmt: skip
        """The `top` best answers to a question from `offset` on, or all of them; with `explain`, why each of them came.

        A string is a question in the text syntax or in SPARQL, whose LIMIT and OFFSET choose among all answers first.
        `min_score` leaves out what scores lower, `new` what is known. `parameters` are the labels that `$name` stands
        for in a text.
        """
        options: dict[str, Any] = {"offset": offset, "min_score": min_score, "explain": explain, "paths": paths}
        return self.ask_many([self.prepare(query, **parameters)], top, **options, new=new)[0]

    def explain(self, query: Question, /, top: int | None = 10, paths: int = 1, **options: Any) -> Answers:
        """The best answers with their reasons, and whether the search provably missed nothing."""
        return self.ask(query, top, explain=True, paths=paths, **options)

    def score(self, head: str, relation: str, tail: str, *, explain: bool = False, paths: int = 1) -> Answer:
        """How far a fact holds: its score in [0, 1], whether it is known, and with `explain` why."""
        fact = Query((), Atom(relation, Entity(head), Entity(tail)))
        return self.ask(fact, explain=explain, paths=paths)[0]

    def count(self, query: Question) -> Count:
        """How many answers a question for entities has: known ones, and how many are expected with predictions."""
        asked = self.prepare(query)
        counting = Query(asked.query.targets, asked.query.formula, count=True)
        return cast(Count, self.ask_many([replace(asked, query=counting)])[0].counted)

    @torch.inference_mode(False)  # what is kept serves those who ask outside of it, too
    @torch.no_grad()
    def ask_many(
        self, queries: Iterable[Question], top: int | None = 10, *, offset: int = 0, min_score: float = 0.0,
        explain: bool = False, paths: int = 1, new: bool = False,
    ) -> list[Answers]:  # fmt: skip
        """The answers to many questions; those of one structure run as one batch.

        A text with parameters is a pair: `("?c : borders($who, ?c)", {"who": "France"})`.
        """
        page = Page(top, offset, min_score)
        check_number("paths", paths, 1)
        if isinstance(queries, str):
            raise QueryError("ask_many takes a list of questions; ask takes one")
        if new:
            self.settings.changed(new=True)  # which is refused where nothing is known
        new |= self.settings.new
        asked = [replace(each, new=new or each.new or each.known is False) for each in map(self.prepare, queries)]
        groups: dict[tuple[str, Plan], list[int]] = {}
        for i, question in enumerate(asked):
            groups.setdefault((question.query.kind, question.prepared.plan), []).append(i)
        results: dict[int, Answers] = {}
        with threads_to_answer((question.prepared.plan for question in asked), self.graph.num_entities):
            for (_, plan), members in groups.items():
                step = self.search.batch(plan)
                for start in range(0, len(members), step):
                    part = members[start : start + step]
                    listed = answered(self, [asked[i] for i in part], page, paths if explain else 0)
                    results |= zip(part, listed, strict=True)
        return [results[i] for i in range(len(asked))]

    def likely(self, asked: Asked) -> Asked:
        """A question with its likely answers alone, where it says neither how many are wanted nor how good ones."""
        if asked.limit is not None or asked.min_score or asked.query.kind in ("truth", "count"):  # of all answers
            return asked
        if not self.search.probabilities:
            raise QueryError(
                f"scores of {self.search.name} are no probabilities, so nothing says where likely answers end; "
                "say how many are wanted, by LIMIT"
            )
        return replace(asked, min_score=LIKELY)

    def describe(self, query: str | Query | Asked) -> str:
        """How a question would be answered, as an indented tree with what each step costs."""
        prepared = self.prepare(query).prepared
        if self.instead is not None:
            self.instead.check(prepared.plan)
            return describe(prepared, None)
        k = self.graph.num_entities if self.way == "exact" else self.settings.k
        return describe(prepared, k, self.graph.num_entities)

    def seconds(self, query: Question) -> float | None:
        """About how long one core takes for a question, or a GPU, by the sets over all entities that its plan combines.

        Proofs may spare most of it. None of a search that combines none, as one over lists does.
        """
        asked, size = self.prepare(query), self.graph.num_entities
        plan = asked.prepared.plan
        listed = self.candidates != "rows" and asked.query.kind == "entities" and listable(plan)
        if listed or self.way not in ("certified", "beam", "exact"):
            return None
        k = size if self.way == "exact" else min(self.settings.k, size)
        return sets_in(plan, k, size) * size * _SECONDS[self.scorer.device.type == "cuda"]

    def prepare(self, query: Question, /, **parameters: str) -> Asked:
        """A question with its names looked up, ready to run; one that is ready stays as it is."""
        if isinstance(query, tuple):
            if len(query) != 2 or not isinstance(query[1], Mapping):
                raise QueryError("a question with parameters is a pair: a text, and a dict of labels by name")
            return self.prepare(query[0], **{**query[1], **parameters})
        if not isinstance(query, str):
            check_unused(parameters)
        if isinstance(query, Asked):
            return query
        if not isinstance(query, str | Query):
            raise QueryError(f"a question is a text or a Query, not {type(query).__name__}")
        reading = read(query, self.graph, parameters) if isinstance(query, str) else Reading(query)
        prepared = compile_query(reading.query)
        entities, relations = bind(prepared, self.graph)
        return Asked(**vars(reading), prepared=prepared, entities=entities, relations=relations)

    def known(self, plan: Plan, entities: Tensor, relations: Tensor) -> list[list[int]]:
        """The answers that the observed facts alone imply, for each query."""
        if self.index is None:
            return [[] for _ in relations]
        implied = symbolic_sets(plan, entities.numpy(), relations.numpy(), self.index, self.graph.num_entities)
        return [implied[row].tolist() for row in range(len(relations))]

    def __repr__(self) -> str:
        return f"Engine({self.graph!r}, {self.way}, k={self.settings.k}, {self.settings.logic})"
