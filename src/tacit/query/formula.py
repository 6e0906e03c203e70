"""Questions as frozen first-order formulas; `str()` writes what the text syntax reads back."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from functools import reduce
from typing import TYPE_CHECKING

from tacit.errors import QueryError
from tacit.query.terms import Entity as Entity
from tacit.query.terms import Term as Term
from tacit.query.terms import Variable as Variable
from tacit.query.terms import quoted as quoted

if TYPE_CHECKING:
    from tacit.graph.datasets import Facts
    from tacit.query.comparison import Ordering, Value

MAX_DEPTH = 100
MAX_ATOMS = 64
MAX_TARGETS = 3  # answer variables: each one more multiplies the tuples to try


class Formula:
    """A formula; `&`, `|` and `~` build larger ones, nested at most `MAX_DEPTH` deep."""

    depth: int  # the nesting depth; 1 for an atom
    free: frozenset[Variable]  # its free variables

    def __post_init__(self) -> None:
        if isinstance(self, And | Or):
            vars(self).update(parts=tuple(self.parts))  # a list will do
        parts = children(self)
        for part in parts:
            if not isinstance(part, Formula):
                raise QueryError(
                    f"a formula is made of formulas such as Atom(...), not of {part!r}"
                )
        if isinstance(self, And | Or) and len(parts) < 2:
            raise QueryError(
                f"'{type(self).__name__}' joins two formulas or more, not {len(parts)}"
            )
        depth = 1 + max((part.depth for part in parts), default=0)
        self._set(depth, (variable for part in parts for variable in part.free))

    def _set(self, depth: int, free: Iterable[Variable]) -> None:
        """Sets the depth and the free variables; refuses what is too deep for recursion."""
        if depth > MAX_DEPTH:
            raise QueryError(f"the formula is nested deeper than {MAX_DEPTH} levels")
        vars(self).update(depth=depth, free=frozenset(free))

    def __repr__(self) -> str:
        return f"<{self}>"

    def same_as(self, other: Formula) -> bool:
        """Whether two formulas are equal up to bound names and the order within `&` and `|`."""
        from tacit.query.plans.canonical import signature

        return signature(self) == signature(other)

    def __and__(self, other: Formula) -> And:
        return And((*parts_of(self, And), *parts_of(other, And)))

    def __or__(self, other: Formula) -> Or:
        return Or((*parts_of(self, Or), *parts_of(other, Or)))

    def __invert__(self) -> Not:
        return Not(self)


class Leaf(Formula):
    """A formula without smaller formulas inside: it speaks of terms."""

    @property
    @abstractmethod
    def terms(self) -> tuple[Term, ...]:
        """The entities and variables that it speaks of."""

    @abstractmethod
    def with_terms(self, terms: Sequence[Term]) -> Leaf:
        """The same formula about other terms, in the order of `terms`."""

    def _check_terms(self, problem: str) -> None:
        """Sets the depth and the free variables; refuses what is no term."""
        for term in self.terms:
            if not isinstance(term, Entity | Variable):
                raise QueryError(f"{problem} {term!r}")
        self._set(1, (term for term in self.terms if isinstance(term, Variable)))


@dataclass(frozen=True, repr=False)
class Atom(Leaf):
    """`relation(subject, object)`.

    The atom of an inverse relation is that of the forward one with its arguments swapped. The
    relation may be a variable where the atom is the whole question: `?r : ?r(Paris, France)`.

    >>> france, german, c = Entity("France"), Entity("German"), Variable("c")
    >>> print(Atom("borders", france, c) & ~Atom("speaks", c, german))
    borders(France, ?c) & !speaks(?c, German)
    """

    relation: str | Variable
    subject: Term
    object: Term

    def __post_init__(self) -> None:
        if not isinstance(self.relation, str | Variable):
            raise QueryError(
                f"the relation of an atom is a label or Variable(...), not {self.relation!r}"
            )
        self._check_terms("an atom is about Entity(...) and Variable(...), not about")
        if isinstance(self.relation, Variable):
            self._set(1, self.free | {self.relation})

    @property
    def terms(self) -> tuple[Term, Term]:
        """The two ends of the atom."""
        return self.subject, self.object

    def with_terms(self, terms: Sequence[Term]) -> Atom:
        """The same relation between other ends."""
        return Atom(self.relation, *terms)

    def __str__(self) -> str:
        relation = quoted(self.relation) if isinstance(self.relation, str) else self.relation
        return f"{relation}({self.subject}, {self.object})"


@dataclass(frozen=True, repr=False)
class Inequality(Leaf):
    """Two terms stand for different entities: its value is 1 where they do, else 0.

    >>> Variable("c").differs_from(Entity("France"))
    <?c != France>
    """

    left: Term
    right: Term

    def __post_init__(self) -> None:
        self._check_terms("an inequality is between Entity(...) and Variable(...), not")
        if self.left == self.right and isinstance(self.left, Variable):
            raise QueryError(f"'{self}' holds of nothing; an inequality must be between two terms")

    @property
    def terms(self) -> tuple[Term, Term]:
        """The two sides, whose order means nothing."""
        return self.left, self.right

    def with_terms(self, terms: Sequence[Term]) -> Inequality:
        """The inequality of other sides."""
        return Inequality(*terms)

    def __str__(self) -> str:
        return f"{self.left} != {self.right}"


@dataclass(frozen=True, repr=False)
class And(Formula):
    """All of the parts hold; there are two or more."""

    parts: tuple[Formula, ...]

    def __str__(self) -> str:
        return " & ".join(_bracketed(part, And) for part in self.parts)


@dataclass(frozen=True, repr=False)
class Or(Formula):
    """At least one of the parts holds; there are two or more."""

    parts: tuple[Formula, ...]

    def __str__(self) -> str:
        return " | ".join(_bracketed(part, Or) for part in self.parts)


@dataclass(frozen=True, repr=False)
class Not(Formula):
    """The part does not hold."""

    part: Formula

    def __str__(self) -> str:
        return f"!{_bracketed(self.part, Not)}"


@dataclass(frozen=True, repr=False)
class Exists(Formula):
    """The part holds for some entity in place of the variable."""

    variable: Variable
    part: Formula

    def __post_init__(self) -> None:
        if not isinstance(self.variable, Variable):
            raise QueryError(f"what exists is a Variable(...), not {self.variable!r}")
        super().__post_init__()
        self._set(self.depth, self.free - {self.variable})

    def __str__(self) -> str:
        return f"exists {self.variable} . {self.part}"


@dataclass(frozen=True, repr=False, init=False)
class Query:
    """Which entities, in place of the target variables, make the formula hold?

    One target asks for entities, several for tuples of them, none whether the formula holds;
    `count` asks how many entities there are, and a target in place of a relation for relations.

    >>> a, c = Variable("a"), Variable("c")
    >>> print(Query(c, Atom("borders", Entity("France"), c)))
    ?c : borders(France, ?c)
    >>> print(Query((a, c), Atom("borders", a, c)))
    ?a, ?c : borders(?a, ?c)
    >>> print(Query((), Atom("borders", Entity("France"), Entity("Spain"))))
    : borders(France, Spain)
    """

    targets: tuple[Variable, ...]
    formula: Formula
    count: bool = False
    text: str = field(default="", compare=False)  # the source, for messages that point at a name
    order: tuple[Ordering, ...] = ()  # of the answers, by values; without one it is by score

    def __init__(
        self,
        targets: Variable | Iterable[Variable],
        formula: Formula,
        count: bool = False,
        text: str = "",
        order: Iterable[Ordering] = (),
    ) -> None:
        variables = tuple(targets) if isinstance(targets, Iterable) else (targets,)
        if not all(isinstance(v, Variable) for v in variables) or not isinstance(formula, Formula):
            raise QueryError(
                f"a query is Query(Variable(...), formula), not Query({targets!r}, {formula!r})"
            )
        order = tuple(order)
        vars(self).update(targets=variables, formula=formula, count=count, text=text, order=order)
        _check_targets(self)
        if self.order or _compares(formula):
            from tacit.query.comparison import check_values

            check_values(self)

    @property
    def target(self) -> Variable:
        """The single target variable; an error where there are several or none."""
        if len(self.targets) != 1:
            raise QueryError(f"one variable is asked for here, not {len(self.targets)}: {self}")
        return self.targets[0]

    @property
    def kind(self) -> str:
        """The kind of question: `entities`, `tuples`, `truth`, `count` or `relations`."""
        if isinstance(self.formula, Atom) and isinstance(self.formula.relation, Variable):
            return "relations"
        by_targets = {0: "truth", 1: "entities"}.get(len(self.targets), "tuples")
        return "count" if self.count else by_targets

    @property
    def values(self) -> dict[str, Value]:
        """The values that are asked for beside the targets, by the names of their variables."""
        if not _compares(self.formula):
            return {}
        from tacit.query.comparison import asserted_comparisons

        return {leaf.name: leaf.left for leaf in asserted_comparisons(self.formula) if leaf.name}

    def __str__(self) -> str:
        targets = ", ".join([*map(str, self.targets), *(f"?{name}" for name in self.values)])
        order = f"order by {', '.join(map(str, self.order))}" if self.order else ""
        return " ".join(filter(None, ["count" * self.count, targets, f": {self.formula}", order]))

    def __repr__(self) -> str:
        return f"<{self}>"

    def plan(self, graph: Facts | None = None, k: int = 256) -> str:
        """Describes the plan at `k` candidates, as a tree of steps with their costs.

        With a `graph` or a run, names are resolved in it and its entities counted.
        """
        from tacit.query.describe import describe_query

        return describe_query(self, graph, k)

    def same_as(self, other: Query) -> bool:
        """Whether two queries are equal up to variable names and the order within `&` and `|`.

        >>> t, x, a = Variable("t"), Variable("x"), Entity("a")
        >>> one = Query(t, Atom("r", a, t) & Atom("q", t, t))
        >>> one.same_as(Query(x, Atom("q", x, x) & Atom("r", a, x)))
        True
        >>> one.same_as(Query(x, one.formula))
        False
        """
        from tacit.query.plans.canonical import signature

        def signed(query: Query) -> tuple[object, ...]:
            written = signature(query.formula, query.targets)
            return query.count, len(query.targets), written, query._ordered

        return signed(self) == signed(other)

    @property
    def _ordered(self) -> list[tuple[object, ...]]:
        """The order, with the places of targets for their names."""
        terms: list[Term] = list(self.targets)
        values = [(each.value.attribute, each.value.term, each.descending) for each in self.order]
        return [(a, terms.index(t) if t in terms else t, descending) for a, t, descending in values]


def _compares(formula: Formula) -> bool:
    """Whether a formula has a comparison in it."""
    return any(not isinstance(leaf, Atom | Inequality) for leaf in leaves(formula))


def _check_targets(query: Query) -> None:
    """Refuses targets that no search can list."""
    names = ", ".join(map(str, query.targets))
    if len(set(query.targets)) < len(query.targets):
        raise QueryError(f"the variables that are asked for, {names}, must differ")
    if len(query.targets) > MAX_TARGETS:
        raise QueryError(
            f"a question asks for at most {MAX_TARGETS} variables, not for {names}; ask it in parts"
        )
    if query.count and len(query.targets) != 1:
        raise QueryError(f"a count must be of one variable, not of {names or 'none'}")
    for atom in atoms(query.formula):
        if isinstance(atom.relation, Variable) and (
            query.formula != atom
            or query.targets != (atom.relation,)
            or query.count
            or Variable in map(type, atom.terms)
        ):
            raise QueryError(
                f"{atom.relation} stands for a relation; a question can ask for one between two "
                f"entities, as in '{atom.relation} : {atom.relation}(Paris, France)', and for "
                "nothing beside it"
            )


def _bracketed(part: Formula, around: type[Formula]) -> str:
    loose: dict[type, tuple[type, ...]] = {Or: (Or, Exists), And: (And, Or, Exists)}
    open_ = isinstance(part, loose.get(around, (And, Or, Exists, Leaf)))
    return f"({part})" if open_ and not isinstance(part, Atom) else str(part)


def children(formula: Formula) -> tuple[Formula, ...]:
    """The formulas directly inside a formula."""
    if isinstance(formula, Not | Exists):
        return (formula.part,)
    return formula.parts if isinstance(formula, And | Or) else ()


def map_children(formula: Formula, change: Callable[[Formula], Formula]) -> Formula:
    """Applies `change` to every formula directly inside a formula."""
    if isinstance(formula, And | Or):
        return type(formula)(tuple(map(change, formula.parts)))
    if isinstance(formula, Exists):
        return type(formula)(formula.variable, change(formula.part))
    return Not(change(formula.part)) if isinstance(formula, Not) else formula


def exists(variables: Sequence[Variable], formula: Formula) -> Formula:
    """Quantifies a formula over variables, the first of them outermost."""
    return reduce(lambda part, variable: Exists(variable, part), reversed(variables), formula)


def parts_of(formula: Formula, kind: type[And] | type[Or]) -> tuple[Formula, ...]:
    """The parts of a conjunction or disjunction, or the formula itself where it is none."""
    return formula.parts if isinstance(formula, kind) else (formula,)


def flat(formula: Formula, kind: type[And] | type[Or]) -> Iterator[Formula]:
    """Yields the parts of a conjunction or disjunction, nested ones of its kind flattened."""
    for part in parts_of(formula, kind):
        yield from flat(part, kind) if isinstance(part, kind) else (part,)


def walk(formula: Formula) -> Iterator[Formula]:
    """Yields a formula and all formulas inside it, from left to right."""
    yield formula
    for part in children(formula):
        yield from walk(part)


def atoms(formula: Formula) -> Iterator[Atom]:
    """Yields the atoms of a formula, from left to right."""
    return (leaf for leaf in leaves(formula) if isinstance(leaf, Atom))


def leaves(formula: Formula) -> Iterator[Leaf]:
    """Yields the atoms, inequalities and comparisons of a formula, from left to right."""
    return (part for part in walk(formula) if isinstance(part, Leaf))
