"""The parts of an engine: what it is given, and what it builds from that at the first use."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import torch

from tacit.engine.atoms.atoms import Atoms
from tacit.engine.atoms.calibration import Calibration, calibration
from tacit.engine.atoms.comparisons import Comparisons
from tacit.engine.atoms.known_facts import AtomConstraints, KnownFacts
from tacit.engine.atoms.mixture import RuleMixture, mixed
from tacit.engine.logic import Logic
from tacit.engine.reasoner import Reasoner, SymbolicReasoner
from tacit.engine.search.continuous import ContinuousReasoner
from tacit.engine.search.list_search import ListReasoner
from tacit.engine.search.message_reasoner import CertifiedReasoner, MessageReasoner
from tacit.engine.settings import EngineSettings
from tacit.errors import RunError, SettingsError
from tacit.graph.fact_index import FactIndex
from tacit.graph.graph import Graph, no_triples
from tacit.graph.value_index import ValueIndex
from tacit.links.codes import shared_codes
from tacit.links.index import WORTH
from tacit.links.retrievers import ScanRetriever, TopKRetriever
from tacit.links.rules.deduction import Deductions
from tacit.links.rules.rule_scorer import RuleScorer
from tacit.links.run_retrievers import RunRetrievers, require_bilinear
from tacit.links.scorer import Scorer, check_sizes, shards_of
from tacit.links.values.predictor import ValuePredictor
from tacit.query.rule_words import named_rule


@dataclass(frozen=True, eq=False)
class EngineParts:
    """A graph, a scorer and settings, checked together, and the parts built from them.

    `adapter` is a calibration with a trained adapter, `reasoner` replaces the search, `retrievers`
    belong to a run, `encoder` is the reasoner behind `search="encoder"` or the error it raises,
    `rules` are mixed into scores where the settings say so, and `values` predicts missing values of
    attributes.
    """

    graph: Graph
    scorer: Scorer
    settings: EngineSettings
    adapter: Calibration | None = None
    reasoner: Reasoner | None = None
    retrievers: RunRetrievers | None = None
    encoder: Reasoner | RunError | None = None
    rules: RuleMixture | None = None
    values: ValuePredictor | None = None

    def __post_init__(self) -> None:
        check_sizes("link predictor", self.scorer, self.graph)
        _ = self.selected  # an unknown source is an error
        if self.rules is not None:
            check_sizes("rules", self.rules.scorer, self.graph)
        for name in ("adapter", "reasoner", "encoder"):
            check_sizes(name, getattr(self, name), self.graph)
        if self.settings.search == "encoder" and self.override is None:
            absent = "search is 'encoder', and there is none here; train one first"
            error = self.encoder if isinstance(self.encoder, RunError) else None
            raise error or SettingsError(absent, "search", command="encode RUN")
        kind = self.settings.calibration
        if self.adapter is not None and kind != self.adapter.kind:
            raise SettingsError(
                f"calibration is '{kind}', and the adapter was trained for '{self.adapter.kind}'; "
                "leave the adapter out with `adapted=False`, or leave `calibration` out",
                "calibration",
            )
        if self.adapter is not None and (self.adapter.rules is None) != (self.mixture is None):
            without = "without" if self.adapter.rules is None else "with"
            present = "not used" if self.mixture is None else "used"
            raise SettingsError(
                f"rules are {present}, and the adapter was trained {without} them; leave the "
                "adapter out with `adapted=False`, or leave `rules` out",
                "rules",
            )

    @cached_property
    def selected(self) -> Graph:
        """The graph of the facts that may count as known, by their sources and times."""
        return self.graph.selected(self.settings.selection)

    @cached_property
    def mixture(self) -> RuleMixture | None:
        """The rules that the settings mix into scores; None where there are none.

        An index that a large graph takes by default has its lists by the link predictor alone.
        """
        if self.rules is None or not self.settings.rules or self._prefers_index:
            return None
        if self.selected is self.graph:
            return self.rules
        return replace(self.rules, scorer=_over(self.selected, self.rules.scorer))

    @cached_property
    def predictor(self) -> Scorer:
        """The scorer; if it is one of rules, its bodies are looked up in the selected facts."""
        if self.selected is self.graph or not isinstance(self.scorer, RuleScorer):
            return self.scorer
        return _over(self.selected, self.scorer)

    @cached_property
    def _prefers_index(self) -> bool:
        """Whether a run's index serves by default, where lists serve the engine at all."""
        settings = self.settings
        large = self.graph.num_entities > WORTH
        indexed = self.retrievers is not None and large and self.retrievers.indexed
        unproven = settings.candidates == "auto" and settings.search in ("auto", "beam")
        lists = self.scorer.device.type == "cpu" and not settings.typed
        with_rules = self.adapter is not None and self.adapter.rules is not None
        return indexed and unproven and lists and not with_rules and self.override is None

    @property
    def rule_scorer(self) -> RuleScorer | None:
        """The rules that scores come from, mixed with a link predictor's or alone."""
        if isinstance(self.predictor, RuleScorer):
            return self.predictor
        return None if self.mixture is None else self.mixture.scorer

    @property
    def encoder_reasoner(self) -> Reasoner | None:
        """The reasoner behind `search="encoder"`; None where there is none to use."""
        return self.encoder if isinstance(self.encoder, Reasoner) else None

    @property
    def override(self) -> Reasoner | None:
        """The reasoner that replaces the search: the one passed in, or the encoder."""
        if self.reasoner is None and self.settings.search == "encoder":
            return self.encoder_reasoner
        return self.reasoner

    @cached_property
    def config(self) -> dict[str, Any]:
        """Everything that decides the answers beside the weights, as plain data.

        Facts alone are not calibrated.
        """
        override = self.override
        calibrated = self.settings.search != "symbolic" if override is None else override.calibrated
        config = self.settings.to_dict() | {
            "adapted": calibrated and self.adapter is not None,
            "rules": calibrated and self.mixture is not None,
        }
        if not calibrated:
            config["calibration"] = "none"
        if override is not None:
            config |= override.config
        return config | {"candidates": self.candidates, "search": self.resolved_search}

    @cached_property
    def deductions(self) -> Deductions | None:
        """What follows from the known facts by rules that hold without exception."""
        rules = self.rule_scorer
        if rules is None or not self.settings.observed:
            return None
        facts = self.selected.index(*self.settings.observed)
        return rules.deductions(facts, lambda id: named_rule(self.graph, rules.rules[id], id))

    def deduced_by(self, head: int, relation: int, tail: int) -> int | None:
        """The id of the rule that a known triple follows by; None where it is a fact."""
        deductions = self.deductions
        return None if deductions is None else deductions.rule_of(head, relation, tail)

    @cached_property
    def index(self) -> FactIndex | None:
        """The facts that count as known, with what follows from them; None where none do."""
        if not self.settings.observed:
            return None
        deductions = self.deductions
        facts = self.selected.index(*self.settings.observed)
        return facts if deductions is None else deductions.index

    @cached_property
    def facts(self) -> KnownFacts | None:
        """The known facts on the scorer's device."""
        return None if self.index is None else KnownFacts(self.index, self.scorer.device)

    @property
    def known_values(self) -> ValueIndex:
        """The values of attributes that count as known."""
        return self.graph.values(*self.settings.observed)

    @cached_property
    def comparisons(self) -> Comparisons:
        """The scores of comparisons; facts alone predict no value."""
        predictor = None if self.settings.search == "symbolic" else self.values
        return Comparisons(self.known_values, predictor, self.scorer.device)

    @cached_property
    def logic(self) -> Logic:
        """The logic that combines scores."""
        return Logic(self.settings.logic, self.settings.negation, self.settings.strength)

    @cached_property
    def atoms(self) -> Atoms:
        """Calibrated scores of atoms."""
        settings = self.settings
        device = self.scorer.device
        facts = self.facts or KnownFacts(self.selected.index("train"), device)
        kind = mixed(calibration(settings.calibration, facts), self.mixture)
        if self.adapter is not None:
            kind = self.adapter.with_rules(self.mixture)
        return Atoms(
            self.predictor,
            kind.counting(facts, shards_of(self.scorer)),
            self.facts,
            observed=settings.observed_score,
            precision=settings.precision,
            ceiling=settings.ceiling or (1.0 if self.facts is None else settings.observed_score),
            possible=AtomConstraints(
                self.graph, device, loops=settings.loops, typed=settings.typed
            ),
            coded=shared_codes if self.retrievers is None else self.retrievers.codes,
            comparisons=self.comparisons,
        )

    @cached_property
    def candidates(self) -> str:
        """The source of candidates: `rows`, `scan` or `index`.

        By default a large graph takes its index, unless a proof is asked for.
        """
        candidates = self.settings.candidates
        if self.override is not None:
            return "rows"
        if candidates == "auto":
            by_index = self._prefers_index and self.atoms.capabilities.listable
            return "index" if by_index else "rows"
        if candidates != "rows" and not self.atoms.capabilities.listable:
            raise SettingsError(
                f"candidates is '{candidates}', and lists cannot serve what the engine asks for: "
                "they take a model that scores by products, on the CPU, sigmoid or softmax-count, "
                "nothing typed, no adapter by tail, no rules; leave it out",
                "candidates",
            )
        return candidates

    @cached_property
    def resolved_search(self) -> str:
        """The search in use; by default certified, or a beam where no proof is possible.

        No proof is possible over shards, which do not expand candidates together, or over an index,
        which may miss some.
        """
        if self.reasoner is not None:
            return self.reasoner.name
        if self.settings.search != "auto":
            return self.settings.search
        provable = self.atoms.shards.world == 1 and self.candidates != "index"
        return "certified" if provable else "beam"

    @cached_property
    def search(self) -> Reasoner:
        """The reasoner that turns plans into scores, those of known answers included."""
        settings = self.settings
        if self.override is not None:
            return self.override.bind(self)
        if settings.search == "symbolic":
            index = self.index or FactIndex(no_triples(), self.graph.num_relations)
            return SymbolicReasoner(index, self.graph.num_entities, self.known_values)
        if settings.search == "continuous":
            return ContinuousReasoner(
                self.atoms,
                self.logic,
                steps=settings.steps,
                step_size=settings.step_size,
                reg=settings.vector_reg,
            )
        certified = self.resolved_search == "certified"
        if certified and self.atoms.shards.world > 1:
            raise SettingsError(
                "search is 'certified', which processes that share the entities out do not follow "
                "together; use `search='beam'` or `search='exact'`, whose explained answers say "
                "whether they are certified",
                "search",
            )
        k = None if self.resolved_search == "exact" else settings.k
        arguments = self.atoms, self.logic, k, settings.memory
        by_rows = (
            CertifiedReasoner(*arguments, settings.budget)
            if certified
            else MessageReasoner(*arguments)
        )
        return by_rows if self.candidates == "rows" else ListReasoner(by_rows, _retriever(self))


def _over(facts: Graph, rules: RuleScorer) -> RuleScorer:
    """The rules, whose bodies are looked up in the training facts of a graph."""
    return replace(rules, index=facts.index("train"))


def _retriever(parts: EngineParts) -> TopKRetriever:
    """The retriever that lists the best tails of rows."""
    constraints = parts.atoms.possible
    loopless = torch.zeros(0, dtype=torch.bool)
    if constraints is not None:
        loopless = constraints.without_loops
    if parts.retrievers is not None:
        return parts.retrievers.retriever(
            parts.candidates,
            parts.scorer,
            loopless,
            nprobe=parts.settings.nprobe,
            sums=parts.atoms.calibration.capabilities.by_sum,
        )
    if parts.candidates == "index":
        raise SettingsError(
            "candidates is 'index', and only a run has one; open a run and build its index first",
            "candidates",
            command="index RUN",
        )
    return ScanRetriever(require_bilinear(parts.scorer), loopless)
