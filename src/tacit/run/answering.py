"""What a graph and its models answer: questions, links, counts, facts and completions."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tacit.graph.graph import Graph
from tacit.sources import NameOrPath

# Imports of torch are local, since loading a graph should not wait for it.
if TYPE_CHECKING:
    from tacit.engine.answers.answers import Answer, Answers, Count
    from tacit.engine.completion import Completion
    from tacit.engine.engine import Engine
    from tacit.engine.entity_facts import EntityFacts
    from tacit.engine.entity_values import EntityValue, ValueCompletion
    from tacit.engine.question_files import AskedFile
    from tacit.engine.questions import ListLength, Question
    from tacit.fitting.progress import Progress


class QuestionAnswering(ABC):
    """A graph and an engine that answers over it; a `Run` is one."""

    @property
    @abstractmethod
    def engine(self) -> Engine:
        """The engine that answers questions."""

    @property
    def graph(self) -> Graph:
        """The graph that questions are about."""
        return self.engine.graph

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
        from tacit.engine.question_files import AskedFile

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
        explain: bool = False,
        progress: Progress | bool = False,
        **settings: Any,
    ) -> Completion:
        """Predict the most probable missing facts of all or some relations and entities.

        One iterates over them, or has them written:
        `run.complete(min_score=0.8).write("facts.ttl")`. `top` keeps the best of all; with
        `explain` each says which rule speaks for it best, or which known facts are most similar.
        Settings are those of `EngineSettings`. `progress` hears an `Event` after each relation or
        entity, or True shows it.
        """
        from tacit.engine.completion import Completion

        # single links need calibrated scores, which an encoder has too
        engine = self.engine.with_settings(**{"search": "beam", "typed": typed, **settings})
        labels = ([names] if isinstance(names, str) else names for names in (relations, entities))
        options: dict[str, Any] = {"top": top, "explain": explain, "progress": progress}
        return Completion(engine, *labels, min_score=min_score, **options)

    def value(self, entity: str, attribute: str, *, level: float = 0.8) -> EntityValue | None:
        """The value of an attribute of an entity: known, or predicted with an interval.

        `level` is the share of true values that intervals are to hold. `evidence` lists the known
        values that a prediction was made of. None where nothing is known and none is predicted.
        """
        from tacit.engine.entity_values import find_value

        return find_value(self.engine, entity, attribute, level)

    def complete_values(
        self,
        attributes: str | Iterable[str] = (),
        entities: str | Iterable[str] = (),
        *,
        min_presence: float = 0.5,
        level: float = 0.8,
        top: int | None = None,
        progress: Progress | bool = False,
    ) -> ValueCompletion:
        """Predict the missing values of all or some attributes and entities, the surest first.

        One iterates over them, or has them written, as with `complete`. `min_presence` is the least
        probability that an entity has a value at all, and `level` that of the intervals.
        """
        from tacit.engine.entity_values import ValueCompletion

        labels = ([names] if isinstance(names, str) else names for names in (attributes, entities))
        return ValueCompletion(
            self.engine,
            *labels,
            min_presence=min_presence,
            level=level,
            top=top,
            progress=progress,
        )

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
        from tacit.query.question_reader import QuestionReader

        return QuestionReader(self.graph).describe(question)

    def entities(
        self, typed: str = "", limit: int = 10, *, relation: str | None = None, end: str = "object"
    ) -> list[dict[str, str]]:
        """The entities that complete a typed text, each with `label`, `name` and `text`.

        `text` is the entity as a question writes it. Entities at the `end`, `subject` or `object`,
        of the facts of a `relation` come first.
        """
        from tacit.query.suggestions import Completions

        return Completions(self.graph).entities(typed, limit, relation, end)

    def relations(self, typed: str = "", limit: int = 10) -> list[dict[str, str]]:
        """The relations that complete a typed text, also with their `words` in a sentence."""
        from tacit.query.suggestions import Completions

        return Completions(self.graph).relations(typed, limit)

    def examples(self) -> list[dict[str, str]]:
        """Questions with known answers to start with: `query`, `shape` and `title` of each."""
        from tacit.query.suggestions import examples

        return examples(self.graph)

    def facts(
        self,
        entity: str,
        relation: str | None = None,
        *,
        predicted: bool = False,
        min_score: float = 0.1,
        explain: bool = False,
    ) -> EntityFacts:
        """The known facts about an entity, or `predicted` ones that score at least `min_score`.

        They are grouped by relation and direction. `relation` selects a single one, such as
        `speaks^-1` for the subjects that speak the entity. With `explain`, each predicted one has
        the best rule that speaks for it, or the most similar known facts.
        """
        from tacit.engine.entity_facts import known_facts, predicted_facts, with_evidence

        if not predicted:
            return known_facts(self.engine, entity, relation)
        engine = self.engine.with_settings(typed=True)
        found = predicted_facts(engine, entity, relation, min_score=min_score)
        return with_evidence(engine, found) if explain else found
