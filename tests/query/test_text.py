"""The text syntax: parsing, refusals with their place, and round trips."""

from __future__ import annotations

import os
import random
import string
import time

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from formulas import queries, tuple_queries
from tacit.errors import PlanError, QueryError, TacitError
from tacit.query.formula import Atom, Entity, Exists, Formula, Inequality, Query, Variable, quoted
from tacit.query.plans.compile import compile_query
from tacit.query.text import MAX_CHARACTERS, parse

C, T, V, X, Y = (Variable(name) for name in "ctvxy")


def atom(relation: str, subject: str | Variable, object_: str | Variable) -> Atom:
    ends = [Entity(end) if isinstance(end, str) else end for end in (subject, object_)]
    return Atom(relation, ends[0], ends[1])


READ: dict[str, Formula] = {
    "borders(France, ?c) & !speaks(?c, German)": atom("borders", "France", C)
    & ~atom("speaks", C, "German"),
    "borders(France, ?c) AND Not speaks(?c, German)": atom("borders", "France", C)
    & ~atom("speaks", C, "German"),
    "p(a, ?c) | q(b, ?c) & !r(d, ?c)": atom("p", "a", C) | (atom("q", "b", C) & ~atom("r", "d", C)),
    "(p(a, ?c) or q(b, ?c)) ∧ ¬r(d, ?c)": (atom("p", "a", C) | atom("q", "b", C))
    & ~atom("r", "d", C),
    "exists ?x . p(a, ?x) & q(?x, ?c)": Exists(X, atom("p", "a", X) & atom("q", X, C)),
    "p(a, ?c) & exists ?x . q(?x, ?c) | r(?x, ?c)": atom("p", "a", C)
    & Exists(X, atom("q", X, C) | atom("r", X, C)),
    "!exists ?x . q(?x, ?c) & r(?x, a)": ~Exists(X, atom("q", X, C) & atom("r", X, "a")),
    "∃ ?x, ?y . p(?x, ?y) & q(?y, ?c)": Exists(X, Exists(Y, atom("p", X, Y) & atom("q", Y, C))),
    "exists ?x ?y . p(?x, ?y)": Exists(X, Exists(Y, atom("p", X, Y))),
    "borders^-1(?c, France)": atom("borders", "France", C),
    "borders⁻¹ (France, ?c)": atom("borders", C, "France"),
    "in('New York', \"it's\")": atom("in", "New York", "it's"),
    r'"say \"hi\""(?c, "tab\there")': atom('say "hi"', C, "tab\there"),
    r"""'T\u016bhoe'(?c, "\U0001F600 \\u016b")""": atom("Tūhoe", C, r"😀 \u016b"),
    "+/location/country(/m/027rn, ?c)": atom("+/location/country", "/m/027rn", C),
    "concept:teamplays(concept:team:a-b_c, ?c)": atom("concept:teamplays", "concept:team:a-b_c", C),
    "android(or, ?c)": atom("android", "or", C),
    "p(1990, ?c)": atom("p", "1990", C),
}


@pytest.mark.parametrize("text", READ)
def test_reads(text: str) -> None:
    assert parse("?c : " + text) == Query(C, READ[text])


@pytest.mark.parametrize(
    ("text", "meant"),
    [
        ("p(a, ?v) & q(?v, ?t)", "exists ?v . p(a, ?v) & q(?v, ?t)"),
        ("!(p(a, ?v) & q(?v, ?t)) & r(b, ?t)", "!(exists ?v . p(a, ?v) & q(?v, ?t)) & r(b, ?t)"),
        ("r(b, ?t) & !q(?v, ?t)", "r(b, ?t) & !(exists ?v . q(?v, ?t))"),
        ("p(a, ?v) & !q(?v, ?t)", "exists ?v . p(a, ?v) & !q(?v, ?t)"),
        ("p(?v, ?t) | q(?v, ?t)", "exists ?v . p(?v, ?t) | q(?v, ?t)"),
        ("p(?v, ?t) | q(b, ?t)", "(exists ?v . p(?v, ?t)) | q(b, ?t)"),
        ("p(?x, ?y) & q(?y, ?t)", "exists ?y . (exists ?x . p(?x, ?y)) & q(?y, ?t)"),
        ("exists ?y . p(?y, ?t) & q(?v, ?y)", "exists ?y . p(?y, ?t) & (exists ?v . q(?v, ?y))"),
    ],
)
def test_loose_variables_are_bound_at_the_narrowest_place(text: str, meant: str) -> None:
    assert parse("?t : " + text) == parse("?t : " + meant)
    assert str(parse("?t : " + text)) == "?t : " + meant


@pytest.mark.parametrize(
    ("text", "line", "column", "words"),
    [
        ("", 1, 1, "starts with the variable it asks for"),
        ("borders(France, ?c)", 1, 1, "starts with the variable it asks for"),
        ("?c borders(France, ?c)", 1, 4, "':'"),
        ("?c : borders(New York, ?c)", 1, 18, "quotes"),
        ("?c : population(?c) >", 1, 22, "a number, a date"),
        ("?c : population(?c) > 5 & ?c = 5", 1, 30, "the entity in place"),
        ("?c : population(?c) > 'x y'", 1, 21, "since it is quoted"),
        ("?c : population(?c) < Asia", 1, 21, "no number, date or duration"),
        ("?c : ?r(?c) > 5", 1, 6, "asks for an attribute"),
        ("?c : borders(France, ?c, ?d)", 1, 24, "two arguments"),
        ("?c : borders", 1, 13, "arguments in brackets"),
        ("?c : borders(France, ?c", 1, 24, "')'"),
        ("?c : borders(France, ?c) speaks(?c, German)", 1, 26, "'&', '|' or the end"),
        ("?c : p(a, ?c) &\n  & q(b, ?c)", 2, 3, "an atom such as"),
        ("?c : exists x . p(x, ?c)", 1, 13, "a variable such as ?x"),
        ("?c : borders('France, ?c)", 1, 14, "has no end"),
        ("?c : p(a, ?c))", 1, 14, "the end"),
        (r"?c : p('a\qb', ?c)", 1, 10, r"'\q' is no escape"),
        (r'?c : p("\u16b", ?c)', 1, 9, r"'\u' is no escape"),
        (r'?c : "\\\x41"(a, ?c)', 1, 9, r"'\x' is no escape"),
        (r'?c : p("\ud83d\ude00", ?c)', 1, 9, r"'\ud83d' is no escape"),
        (r'?c : p("\U00110000", ?c)', 1, 9, r"'\U00110000' is no escape"),
        ('?c : p("a\nb\\\n", ?c)', 2, 2, "'\\' is no escape"),
    ],
)
def test_a_mistake_is_located_and_explained(text: str, line: int, column: int, words: str) -> None:
    with pytest.raises(QueryError) as caught:
        parse(text)
    assert (caught.value.line, caught.value.column) == (line, column)
    assert words in str(caught.value)
    assert "\n" not in str(caught.value)


@given(queries())
@settings(max_examples=200, deadline=None)
def test_printing_reads_back(query: Query) -> None:
    assert parse(str(query)) == query


@given(st.text(max_size=12))
def test_every_name_reads_back(name: str) -> None:
    assert parse(f"?t : {quoted(name)}({quoted(name)}, ?t)") == Query(
        T, Atom(name, Entity(name), T)
    )


MARKS = [
    "“{}”",
    "„{}“",
    "„{}”",
    "”{}”",
    "‘{}’",
    "‚{}‘",
    "«{}»",
    "« {} »",
    "«\u202f{}\u00a0»",
    '"{}"',
    "'{}'",
]


@pytest.mark.parametrize("marks", MARKS)
def test_every_kind_of_quotes_is_read(marks: str) -> None:
    relation = marks.format("part of")
    entity = marks.format("New York, NY")
    assert parse(f"?t : {relation}({entity}, ?t)") == Query(
        T, Atom("part of", Entity("New York, NY"), T)
    )
    assert parse(f"?t : r({marks.format('')}, ?t)") == Query(T, Atom("r", Entity(""), T))


@given(
    st.text(st.sampled_from("“”„‘’‚«»<>'\" a\\\n!=≠"), max_size=8),
    st.sampled_from(["“”", "‘’", "«»", "''", '""']),
)
def test_a_label_that_holds_such_marks_is_read_in_quotes(name: str, marks: str) -> None:
    """As `str()` writes it, and between any marks where its own are escaped."""
    query = Query(T, Atom(name, Entity(name), T))
    assert parse(str(query)) == query
    if marks != "«»" or name == name.strip():  # which may have spaces inside
        written = name.replace("\\", r"\\")
        for mark in "“”„‘’‚»'\"":
            written = written.replace(mark, f"\\{mark}")
        assert parse(f"?t : r({marks[0]}{written}{marks[1]}, ?t)") == Query(
            T, Atom("r", Entity(name), T)
        )


@pytest.mark.parametrize(
    ("text", "meant"),
    [
        ("?t : r(a, ?t) & ?t != b", Atom("r", Entity("a"), T) & Inequality(T, Entity("b"))),
        ("?t : r(a, ?t) and 'b' ≠ ?t", Atom("r", Entity("a"), T) & Inequality(Entity("b"), T)),
        ("?t : r(a, ?t) & !(?t!=b)", Atom("r", Entity("a"), T) & ~T.differs_from(Entity("b"))),
        ("?t : r(a, ?t) & !?t != b", Atom("r", Entity("a"), T) & ~T.differs_from(Entity("b"))),
        (
            "?t : r(a, ?t) & a != b",
            Atom("r", Entity("a"), T) & Entity("a").differs_from(Entity("b")),
        ),
    ],
)
def test_inequalities_are_read(text: str, meant: Formula) -> None:
    assert parse(text) == Query(T, meant)
    assert parse(str(parse(text))) == parse(text)


def test_inequalities_take_parameters_and_bind_variables() -> None:
    query = parse("?t : r(?x, ?t) & ?x != $who", {"who": "a b"})
    assert str(query) == '?t : exists ?x . r(?x, ?t) & ?x != "a b"'
    assert query.same_as(parse("?s : 'a b' != ?z & r(?z, ?s)"))
    assert not query.same_as(parse("?s : 'a b' != ?s & r(?z, ?s)"))


@pytest.mark.parametrize(
    ("text", "error", "says"),
    [
        ("?t : r(a, ?t) & ?t != ?t", QueryError, "holds of nothing"),
        ("?t : ?t != a", PlanError, r"\?t occurs only under negation or in an inequality"),
        ("?t : !(?t != a)", PlanError, "in an inequality"),
        ("?t : r(a, ?t) | ?t != a", PlanError, r"one alternative of an 'or' leaves \?t open"),
        (
            "?t : r(a, ?t) & ?x != ?t",
            PlanError,
            r"\?x occurs only under negation or in an inequality",
        ),
        (
            "?t : r(a, ?t) & ?t = b",
            QueryError,
            "unexpected '=' at column 20; write the entity in place of the variable",
        ),
        (
            "?t : r(a, ?t) & ?t != ",
            QueryError,
            "the question ends, where a variable such as .* or a name should follow",
        ),
        ("?t : r(a, ?t) & ?r != b(a, ?t)", QueryError, "unexpected"),
        ("?t : " + "?t != a & " * 64 + "r(a, ?t)", QueryError, "more than 64 atoms"),
    ],
)
def test_inequalities_that_no_search_can_answer_are_refused(
    text: str, error: type[TacitError], says: str
) -> None:
    with pytest.raises(error, match=says):
        compile_query(parse(text))


@pytest.mark.parametrize(
    "text",
    [
        "?c : " + "!" * 1000 + "p(a, ?c)",
        "?c : " + "(" * 1000 + "p(a, ?c)" + ")" * 1000,
        "?c : " + "exists ?x . " * 1000 + "p(a, ?c)",
        "?c : " + "p(a, ?c) & " * 64 + "p(a, ?c)",
        "?c : p(" + "a" * 100_000 + ", ?c)",
        "?c : " + "p(a, ?c) & (" * 1000,
        "(" * 100_000,
        "(" * 101 + '"' + '\\"' * 9000,
        '?c : "' + "\\" * (MAX_CHARACTERS - 10),
    ],
)
def test_what_is_too_large_is_refused_at_once(text: str) -> None:
    start = time.process_time()
    with pytest.raises(QueryError):
        parse(text)
    assert time.process_time() - start < 0.5


PIECES = [
    *"?:&|!(),.'\"\\^-1 \n\t~",
    *(
        "?c",
        "?x",
        "exists",
        "and",
        "or",
        "not",
        "∧",
        "∨",
        "¬",
        "∃",
        "^-1",
        "borders",
        "France",
        "a b",
        "\x00",
        "é",
    ),
]
SEEDS = ["?c : " + text for text in READ]


def mutated(rng: random.Random) -> str:
    """A question with pieces dropped, doubled, swapped or inserted, or random pieces."""
    if rng.random() < 0.3:
        pieces = rng.choices(
            PIECES if rng.random() < 0.5 else list(string.printable), k=rng.randrange(40)
        )
        return ("?c : " if rng.random() < 0.5 else "") + "".join(pieces)
    text = rng.choice(SEEDS)
    for _ in range(rng.randrange(1, 5)):
        i, j = sorted(rng.randrange(len(text) + 1) for _ in range(2))
        text = rng.choice(
            [
                text[:i] + text[j:],
                text[:j] + text[i:],
                text[:i] + rng.choice(PIECES) + text[i:],
                text[j:] + text[:j],
            ]
        )[:2000]
    return text


def test_any_text_is_a_query_or_an_error_of_ours() -> None:
    rng = random.Random(4)
    read = 0
    messages = set[str]()
    for _ in range(int(os.environ.get("TACIT_FUZZ", "3000"))):
        text = mutated(rng)
        start = time.process_time()
        try:
            query = parse(text)
            read += 1
            assert parse(str(query)) == query, text
            compile_query(query)
        except TacitError as error:
            messages.add(str(error))
        assert time.process_time() - start < 1, text
    assert read > 100
    assert not [message for message in messages if "\n" in message]


@given(st.integers(0, 3).flatmap(tuple_queries), st.booleans())
@settings(max_examples=60, deadline=None)
def test_what_asks_for_several_or_for_none_reads_back(query: Query, counting: bool) -> None:
    if counting and len(query.targets) == 1:
        query = Query(query.targets, query.formula, count=True)
    assert parse(str(query)) == query


@pytest.mark.parametrize(
    ("text", "meant"),
    [
        ("?x ?y : p(?x, ?y)", Query((X, Y), atom("p", X, Y))),
        (
            "?x, ?y : p(?x, ?v) & q(?v, ?y)",
            Query((X, Y), Exists(V, atom("p", X, V) & atom("q", V, Y))),
        ),
        (":p(a, ?x)", Query((), Exists(X, atom("p", "a", X)))),
        ("COUNT ?x : count(count, ?x)", Query(X, atom("count", "count", X), count=True)),
        ("?x : ?x(a, b)", Query(X, Atom(X, Entity("a"), Entity("b")))),
    ],
)
def test_what_stands_before_the_colon_is_asked_for(text: str, meant: Query) -> None:
    assert parse(text) == meant
    assert parse(str(meant)) == meant


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("?x, : p(?x, a)", "a variable such as ?x"),
        ("p(a, ?x)", "a question starts with the variable it asks for"),
        ("count(a, ?x)", "a question starts with the variable it asks for"),
        ("?x, ?y p(?x, ?y)", "a question goes on with ':'"),
    ],
)
def test_a_forgotten_variable_or_colon_is_no_other_question(text: str, says: str) -> None:
    with pytest.raises(QueryError) as raised:
        parse(text)
    assert says in str(raised.value)
