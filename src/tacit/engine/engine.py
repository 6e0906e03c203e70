"""One object to ask: a graph, a link predictor, and a way to search."""

from __future__ import annotations

import math
import os
from collections.abc import Iterable
from functools import cache, cached_property
from typing import Any, NamedTuple

import torch
from torch import Tensor

from tacit.distributed.shards import Shards
from tacit.engine.answers import Answer, Answers, Witness, WitnessAtom, WitnessPart
from tacit.engine.atoms import Atoms
from tacit.engine.calibration import Calibration, calibration
from tacit.engine.continuous import ContinuousReasoner
from tacit.engine.known_facts import KnownFacts
from tacit.engine.logic import Logic
from tacit.engine.possible import Possible
from tacit.engine.reasoner import Explanation, MessageReasoner, Reasoner, SymbolicReasoner
from tacit.engine.reasons import Proof
from tacit.engine.settings import EngineSettings
from tacit.engine.sharded import at, held, largest, merged
from tacit.errors import QueryError, SettingsError
from tacit.graph.graph import Graph, no_triples
from tacit.graph.index import Index
from tacit.links.scorer import Scorer, shards_of
from tacit.query.compile import compile_query
from tacit.query.describe import describe
from tacit.query.formula import Query
from tacit.query.names import bind
from tacit.query.plan import Complement, Plan, Prepared, Row
from tacit.query.reading import read
from tacit.query.symbolic import answers as symbolic_sets

ZERO = -math.inf


class Asked(NamedTuple):
    """A question ready to run: its plan, the ids that fill the plan's slots, and its LIMIT where SPARQL set one."""

    query: Query
    prepared: Prepared
    entities: list[int]
    relations: list[int]
    limit: int | None = None


class Engine:
    """Answers questions over a graph that is missing facts. Threads may share one; it can be pickled and forked.

    `adapter` is a calibration with a trained adapter in it, which `settings.calibration` must name; `reasoner` takes
    the place of the search that the settings name.

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
        adapter: Calibration | None = None,
        reasoner: Reasoner | None = None,
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
        self._given = reasoner
        wanted = self.settings.calibration
        if adapter is not None and wanted != adapter.kind:
            raise SettingsError(
                f"calibration is '{wanted}', and the adapter was trained for '{adapter.kind}'; leave the adapter out "
                "with adapted=False, or leave calibration as it is",
                "calibration",
            )
        _survive_forks()

    def using(self, *, adapted: bool = True, **changes: Any) -> Engine:
        """The same engine with other settings, and without its adapter unless `adapted`; all else is shared."""
        adapter = self.adapter if adapted else None
        if not changes and adapter is self.adapter:
            return self
        return Engine(self.graph, self.scorer, self.settings, adapter=adapter, reasoner=self._given, **changes)

    @property
    def about(self) -> dict[str, Any]:
        """All that decides the answers beside the weights, as plain data; facts alone are not calibrated."""
        scored: dict[str, Any] = {"adapted": self.adapter is not None}
        if self.settings.search == "symbolic":
            scored = {"adapted": False, "calibration": "none"}
        return self.settings.to_dict() | scored

    @cached_property
    def facts(self) -> KnownFacts | None:
        """The facts that count as known, on the scorer's device."""
        if not self.settings.observed:
            return None
        return KnownFacts(self.graph.index(*self.settings.observed), self.scorer.device)

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
            observed=settings.observed_score,
            precision=settings.precision,
            possible=Possible(graph, device, loops=settings.loops, typed=settings.typed),
            below=True,
        )

    @cached_property
    def reasoner(self) -> Reasoner:
        """What turns plans into scores."""
        settings = self.settings
        if self._given is not None:
            return self._given
        if settings.search == "symbolic":
            nothing = Index(no_triples(), self.graph.num_relations)
            observed = self.graph.index(*settings.observed) if settings.observed else nothing
            return SymbolicReasoner(observed, self.graph.num_entities)
        if settings.search == "continuous":
            return ContinuousReasoner(
                self.atoms, self.logic, steps=settings.steps, step_size=settings.step_size, reg=settings.vector_reg
            )
        k = None if settings.search == "exact" else settings.k
        return MessageReasoner(self.atoms, self.logic, k, settings.memory)

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
        self, queries: Iterable[str | Query | Asked], top: int = 10, *, explain: bool = False, paths: int = 1
    ) -> list[Answers]:
        """The answers to many questions; those of one structure run as one batch."""
        for name, number in (("top", top), ("paths", paths)):
            if number < 1:
                raise SettingsError(f"{name} must be at least 1, not {number}", name)
        if isinstance(queries, str):
            raise QueryError("ask_many takes a list of questions; ask takes one")
        asked = [self.prepare(query) for query in queries]
        groups: dict[Plan, list[int]] = {}
        for i, question in enumerate(asked):
            groups.setdefault(question.prepared.plan, []).append(i)
        results: dict[int, Answers] = {}
        for plan, members in groups.items():
            step = self.reasoner.batch(plan)
            for start in range(0, len(members), step):
                part = members[start : start + step]
                answered = self._answered(plan, [asked[i] for i in part], top, paths if explain else 0)
                results |= dict(zip(part, answered, strict=True))
        return [results[i] for i in range(len(asked))]

    def describe(self, query: str | Query | Asked) -> str:
        """How a question would be answered, as an indented tree with what each step costs."""
        k = self.graph.num_entities if self.settings.search == "exact" else self.settings.k
        return describe(self.prepare(query).prepared, k, self.graph.num_entities)

    def prepare(self, query: str | Query | Asked) -> Asked:
        """A question with its names looked up, ready to run; one that is ready stays as it is."""
        if isinstance(query, Asked):
            return query
        if not isinstance(query, str | Query):
            raise QueryError(f"a question is a text or a Query, not {type(query).__name__}")
        asked, limit = read(query, self.graph) if isinstance(query, str) else (query, None)
        prepared = compile_query(asked)
        return Asked(asked, prepared, *bind(prepared, self.graph), limit)

    def _answered(self, plan: Plan, asked: list[Asked], top: int, paths: int) -> list[Answers]:
        """The answers to questions of one plan; with `paths`, as many reasons for each answer."""
        entities = torch.tensor([question.entities for question in asked], dtype=torch.long).view(len(asked), -1)
        relations = torch.tensor([question.relations for question in asked], dtype=torch.long).view(len(asked), -1)
        slots = [(entities[i : i + 1], relations[i : i + 1]) for i in range(len(asked))]
        told = [self.reasoner.explain(plan, *slot) if paths else None for slot in slots]
        rows = [each.scores for each in told if each is not None]
        rows = rows if len(rows) == len(asked) else list(self.reasoner.scores(plan, entities, relations))
        # Only a single atom has a finer order than its scores: it decides between equal ones.
        finer = list(self.reasoner.ranking(plan, entities, relations)) if isinstance(plan.root, Row) else rows
        known, shards = self._known(plan, entities, relations), self.reasoner.shards
        results = []
        for i, question in enumerate(asked):
            most = min(top, self.graph.num_entities, math.inf if question.limit is None else question.limit)
            first = known[i] if not plan.has(Complement) else []  # what is not known to be true may yet be
            ahead = held(shards, first)
            scores = self._lifted(plan, rows[i].cpu(), ahead)
            found = merged(shards, *_best(scores, finer[i].cpu(), ahead, int(most)), int(most))
            certified, explanation = None, told[i]
            if paths:
                bounds = self._bounds(plan, slots[i], explanation)
                if bounds is not None:
                    lower, upper = (self._lifted(plan, bound, ahead) for bound in bounds)
                    certified = _certified(shards, lower, upper, list(found), first, len(found) == most)
            implied = set(known[i])
            answers = [
                self._answer(question.prepared, j, score, j in implied, explanation, paths)
                for j, score in found.items()
            ]
            explained = explanation is not None if paths else None
            results.append(Answers(str(question.query), tuple(answers), certified, self.about, explained))
        return results

    def _known(self, plan: Plan, entities: Tensor, relations: Tensor) -> list[list[int]]:
        """The answers that the observed facts alone imply, for each query."""
        if not self.settings.observed:
            return [[] for _ in relations]
        index = self.graph.index(*self.settings.observed)
        implied = symbolic_sets(plan, entities.numpy(), relations.numpy(), index, self.graph.num_entities)
        return [implied[row].tolist() for row in range(len(relations))]

    def _lifted(self, plan: Plan, scores: Tensor, ids: Tensor) -> Tensor:
        """Scores of what is known, at least what that many observed facts are worth, whatever a beam has dropped."""
        if not len(ids):
            return scores
        least = self.logic.all([torch.tensor(math.log(self.settings.observed_score))] * max(1, plan.num_relations))
        return scores.index_put((ids,), scores[ids].clamp(min=float(least)))

    def _bounds(
        self, plan: Plan, slots: tuple[Tensor, Tensor], explanation: Explanation | None
    ) -> tuple[Tensor, Tensor] | None:
        if explanation is not None:
            return explanation.lower.cpu(), explanation.upper.cpu()
        bounds = self.reasoner.bounds(plan, *slots)
        return None if bounds is None else (bounds[0][0].cpu(), bounds[1][0].cpu())

    def _answer(
        self, prepared: Prepared, i: int, score: float, known: bool, why: Explanation | None, paths: int
    ) -> Answer:
        entities = self.graph.entities
        proofs = why.proofs(i, paths) if why is not None else []
        witnesses = tuple(self._witness(prepared, proof) for proof in proofs)
        return Answer(entities[i], i, math.exp(score), score, known, witnesses, entities.name(i))

    def _witness(self, prepared: Prepared, proof: Proof) -> Witness:
        tree = self._part(prepared, proof)
        name = self.graph.entities.name
        variables = {prepared.variables[v]: name(e) for v, e in sorted(proof.substitution().items())}
        return Witness(math.exp(proof.score), variables, tree)

    def _part(self, prepared: Prepared, proof: Proof, negated: bool = False, carried: bool = True) -> WitnessPart:
        """A proof with names in place of ids."""
        name, atom = self.graph.entities.name, None
        if proof.atom is not None:
            a = proof.atom
            relation = self.graph.relations.name(a.relation)
            atom = WitnessAtom(name(a.subject), relation, name(a.object), math.exp(a.score), a.observed, negated)
        best = max((part.score for part in proof.parts), default=0.0)
        parts = tuple(
            self._part(prepared, part, negated ^ (proof.kind == "not"), proof.kind != "or" or part.score == best)
            for part in proof.parts
        )
        variables = {prepared.variables[v]: name(e) for v, e in proof.values}
        return WitnessPart(proof.kind, math.exp(proof.score), parts, atom, variables, carried)

    def __repr__(self) -> str:
        return f"Engine({self.graph!r}, {self.settings.search}, k={self.settings.k}, {self.settings.logic})"


def _best(scores: Tensor, finer: Tensor, ahead: Tensor, top: int) -> tuple[Tensor, Tensor]:
    """The best scores, those to come `ahead` before all others; of equal ones by their finer values, then by id.

    Their ids, and what decides about their order: whether ahead, the score, the finer value, `[m, 3]`. What has no
    score is no answer.
    """
    ids = _sorted(ahead, scores, finer)[: max(0, top)]
    before = len(ids)
    if before < top:
        rest = scores.clone()
        rest[ahead] = ZERO
        cut = rest.topk(min(top - before, len(rest))).values[-1]
        ids = torch.cat([ids, _sorted((rest >= cut).nonzero()[:, 0], rest, finer)])[:top]
    first = torch.arange(len(ids)) < before
    return ids, torch.stack([first.double(), scores[ids].double(), finer[ids].double()], dim=1)


def _sorted(ids: Tensor, scores: Tensor, finer: Tensor) -> Tensor:
    ids = ids[scores[ids] > ZERO]
    ids = ids[finer[ids].argsort(descending=True, stable=True)]
    return ids[scores[ids].argsort(descending=True, stable=True)]


def _certified(shards: Shards, lower: Tensor, upper: Tensor, ids: list[int], first: list[int], cut_off: bool) -> bool:
    """Whether nothing the beam dropped could change these answers or their order, or add to them.

    What is known comes first and is known completely; so the answers among it and those after it are settled apart.
    """
    listed, ahead = torch.tensor(ids, dtype=torch.long), torch.zeros(len(upper), dtype=torch.bool)
    ahead[held(shards, first)] = True
    left = upper.index_fill(0, held(shards, ids), ZERO)  # of what was not listed
    rests = torch.stack([left.masked_fill(~ahead, ZERO).max(), left.masked_fill(ahead, ZERO).max()])
    rests = largest(shards, rests)
    low, high = (at(shards, bound[None], torch.zeros_like(listed), listed).tolist() for bound in (lower, upper))
    known = set(first)
    for rest, there in zip(rests.tolist(), (True, False), strict=True):
        group = [place for place, i in enumerate(ids) if (i in known) == there]
        after = rest  # the most that anything after an answer can be worth
        for place in reversed(group):
            if after > low[place]:
                return False
            after = max(after, high[place])
        if cut_off and (not there or len(group) == len(ids)):
            return True
        if rest > ZERO:  # something is left that was not listed
            return False
    return True


@cache
def _survive_forks() -> None:
    """Let a forked process compute on its one thread: those of its parent are gone, and OpenMP would wait for them."""
    if hasattr(os, "register_at_fork"):
        os.register_at_fork(after_in_child=lambda: torch.set_num_threads(1))
