"""One object to ask: a graph, a link predictor, and a way to search."""

from __future__ import annotations

import math
from collections.abc import Iterable
from functools import cached_property
from typing import Any, NamedTuple

import torch
from torch import Tensor

from tacit.engine.answers import Answer, Answers, Reason, Witness
from tacit.engine.atoms import Atoms
from tacit.engine.calibration import Calibration, calibration
from tacit.engine.continuous import ContinuousReasoner
from tacit.engine.facts import Facts
from tacit.engine.logic import Logic
from tacit.engine.reasoner import MessageReasoner, Reasoner
from tacit.engine.settings import EngineSettings
from tacit.engine.symbolic import SymbolicReasoner
from tacit.engine.witness import Explainer, Step
from tacit.errors import QueryError, SettingsError
from tacit.graph.graph import Graph, no_triples
from tacit.graph.index import Index
from tacit.links.scorer import Scorer
from tacit.query.compile import compile_query
from tacit.query.formula import Query
from tacit.query.names import bind
from tacit.query.plan import Plan, Prepared, Row
from tacit.query.reading import read
from tacit.query.symbolic import answers as symbolic_sets


class Asked(NamedTuple):
    """A question ready to run: its plan, the ids that fill the plan's slots, and its LIMIT where SPARQL set one."""

    text: str
    prepared: Prepared
    entities: list[int]
    relations: list[int]
    limit: int | None = None


class Engine:
    """Answers questions over a graph that is missing facts.

    >>> from tacit.links.scorer import GraphScorer
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
        adapted: Calibration | None = None,
        **changes: Any,
    ) -> None:
        if scorer.num_entities != graph.num_entities:
            raise SettingsError(
                f"the link predictor knows {scorer.num_entities:,} entities, the graph has {graph.num_entities:,}; "
                "open the run that was trained on this graph"
            )
        if scorer.num_relations != graph.num_relations:
            raise SettingsError(
                f"the link predictor knows {scorer.num_relations:,} relation ids, the graph has "
                f"{graph.num_relations:,}, inverses included; open the run that was trained on this graph"
            )
        self.graph, self.scorer, self.adapted = graph, scorer, adapted
        self.options = (settings or EngineSettings()).changed(**changes)
        self.settings = self.options.to_dict() | {"adapted": adapted is not None}

    def using(self, **changes: Any) -> Engine:
        """The same engine with other settings; weights and facts are shared."""
        if not changes:
            return self
        adapted = None if "calibration" in changes else self.adapted
        return Engine(self.graph, self.scorer, self.options, adapted=adapted, **changes)

    @cached_property
    def facts(self) -> Facts | None:
        """The facts that count as known, on the scorer's device."""
        if not self.options.observed:
            return None
        return Facts(self.graph.index(*self.options.observed), self.scorer.device)

    @cached_property
    def logic(self) -> Logic:
        """The logic that combines scores."""
        return Logic(self.options.logic, self.options.negation, self.options.strength)

    @cached_property
    def atoms(self) -> Atoms:
        """Calibrated scores of atoms."""
        options = self.options
        counted = self.facts or Facts(self.graph.index("train"), self.scorer.device)
        return Atoms(
            self.scorer,
            (self.adapted or calibration(options.calibration, counted)).counting(counted),
            self.facts,
            observed=options.observed_score,
            precision=options.precision,
        )

    @cached_property
    def reasoner(self) -> Reasoner:
        """What turns plans into scores."""
        options = self.options
        if options.search == "symbolic":
            known = (
                self.graph.index(*options.observed)
                if options.observed
                else Index(no_triples(), self.graph.num_relations)
            )
            return SymbolicReasoner(known, self.graph.num_entities)
        if options.search == "continuous":
            return ContinuousReasoner(
                self.atoms, self.logic, steps=options.steps, step_size=options.step_size, reg=options.vector_reg
            )
        k = None if options.search == "exact" else options.k
        return MessageReasoner(self.atoms, self.logic, k, options.memory)

    def ask(self, query: str | Query, top: int = 10, *, explain: bool = False, paths: int = 1) -> Answers:
        """The `top` best answers to a question; with `explain`, why each of them came.

        A string is a question in the text syntax or in SPARQL, whose LIMIT, where it is lower, goes before `top`.
        """
        return self.ask_many([query], top, explain=explain, paths=paths)[0]

    def explain(self, query: str | Query, top: int = 10, paths: int = 1) -> Answers:
        """The best answers with their reasons, and whether the search provably missed nothing."""
        return self.ask(query, top, explain=True, paths=paths)

    @torch.no_grad()
    def ask_many(
        self, queries: Iterable[str | Query], top: int = 10, *, explain: bool = False, paths: int = 1
    ) -> list[Answers]:
        """The answers to many questions; those of one structure run as one batch."""
        if top < 1:
            raise SettingsError(f"top must be at least 1, not {top}")
        if paths < 1:
            raise SettingsError(f"paths must be at least 1, not {paths}")
        if isinstance(queries, str):
            raise QueryError("ask_many takes a list of questions; ask takes one")
        asked = [self.prepare(query) for query in queries]
        groups: dict[Plan, list[int]] = {}
        for i, one in enumerate(asked):
            groups.setdefault(one.prepared.plan, []).append(i)
        results: dict[int, Answers] = {}
        for plan, members in groups.items():
            entities = torch.tensor([asked[i].entities for i in members], dtype=torch.long).view(len(members), -1)
            relations = torch.tensor([asked[i].relations for i in members], dtype=torch.long).view(len(members), -1)
            most = min(top, self.graph.num_entities)
            ranked = self._ranked(plan, entities, relations, most)
            known = self._known(plan, entities, relations)
            for row, i in enumerate(members):
                one = asked[i]
                ids, scores = (column[: one.limit] for column in ranked[row])
                slots = entities[row : row + 1], relations[row : row + 1]
                cut_off = len(ids) == (most if one.limit is None else min(most, one.limit))
                results[i] = self._answers(one, slots, ids, scores, known[row], paths if explain else 0, cut_off)
        return [results[i] for i in range(len(asked))]

    def prepare(self, query: str | Query) -> Asked:
        """A question with its names looked up, ready to run."""
        if not isinstance(query, str | Query):
            raise QueryError(f"a question is a text or a Query, not {type(query).__name__}")
        asked, limit = read(query, self.graph) if isinstance(query, str) else (query, None)
        prepared = compile_query(asked)
        return Asked(str(asked), prepared, *bind(prepared, self.graph), limit)

    def _ranked(self, plan: Plan, entities: Tensor, relations: Tensor, top: int) -> list[tuple[Tensor, Tensor]]:
        """Ids and log-scores of the best entities of each query, entities of score zero left out."""
        step = self.reasoner.batch(plan) if isinstance(self.reasoner, MessageReasoner) else 256
        ranked = []
        for start in range(0, len(relations), step):
            slots = entities[start : start + step], relations[start : start + step]
            scores = self.reasoner.scores(plan, *slots)
            # Only a single atom has a finer order than its scores: it decides between equal ones.
            finer = self.reasoner.ranking(plan, *slots) if isinstance(plan.root, Row) else scores
            for row in range(len(scores)):
                ids = _best(scores[row], finer[row], top)
                values = scores[row, ids]
                kept = values > -math.inf
                ranked.append((ids[kept].cpu(), values[kept].cpu()))
        return ranked

    def _known(self, plan: Plan, entities: Tensor, relations: Tensor) -> list[set[int]]:
        """The answers that the observed facts alone imply, for each query."""
        if not self.options.observed:
            return [set() for _ in relations]
        index = self.graph.index(*self.options.observed)
        found = symbolic_sets(plan, entities.numpy(), relations.numpy(), index, self.graph.num_entities)
        return [set(found[row].tolist()) for row in range(len(relations))]

    def _answers(
        self,
        asked: Asked,
        slots: tuple[Tensor, Tensor],
        ids: Tensor,
        scores: Tensor,
        known: set[int],
        paths: int,
        cut_off: bool,
    ) -> Answers:
        """The answers to one question; unless they were `cut_off`, nothing else has a score."""
        prepared, graph = asked.prepared, self.graph
        plan = prepared.plan
        steps: list[list[Step]] = [[] for _ in ids]
        certified = None
        if paths and isinstance(self.reasoner, MessageReasoner):
            messages = self.reasoner.messages(*slots)
            messages.keep = True
            explainer = Explainer(messages)
            steps = [explainer.witnesses(plan.root, int(i), paths) for i in ids]
            certified = self._certified(plan, slots, ids, cut_off)
        answers = tuple(
            Answer(
                graph.entities[int(i)],
                int(i),
                math.exp(float(score)),
                float(score),
                int(i) in known,
                tuple(self._witness(prepared, step) for step in why),
            )
            for i, score, why in zip(ids, scores, steps, strict=True)
        )
        return Answers(asked.text, answers, certified, self.settings)

    def _certified(self, plan: Plan, slots: tuple[Tensor, Tensor], ids: Tensor, cut_off: bool) -> bool:
        """Whether nothing the beam dropped could change these answers or their order, or add to them."""
        assert isinstance(self.reasoner, MessageReasoner)
        lower, upper = (bound[0].cpu() for bound in self.reasoner.bounds(plan, *slots))
        for i in ids.tolist():
            upper[i] = -math.inf  # from here on only compared with what comes after
            if float(upper.max()) > float(lower[i]):
                return False
        return cut_off or float(upper.max()) == -math.inf

    def _witness(self, prepared: Prepared, step: Step) -> Witness:
        entities, relations = self.graph.entities, self.graph.relations
        reasons = tuple(
            Reason(
                entities[a.subject], relations[a.relation], entities[a.object], math.exp(a.score), a.observed, a.negated
            )
            for a in step.atoms()
        )
        variables = {prepared.variables[v]: entities[e] for v, e in sorted(step.substitution().items())}
        return Witness(math.exp(step.score), variables, reasons)

    def __repr__(self) -> str:
        return f"Engine({self.graph!r}, {self.options.search}, k={self.options.k}, {self.options.logic})"


def _best(values: Tensor, finer: Tensor, top: int) -> Tensor:
    """The positions of the largest values, ties by their finer values, then by position."""
    cut = values.topk(top).values[-1]
    picked = (values >= cut).nonzero()[:, 0]
    picked = picked[finer[picked].argsort(descending=True, stable=True)]
    return picked[values[picked].argsort(descending=True, stable=True)][:top]
