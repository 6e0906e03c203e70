"""Rules as text: what they mean by ids, in any order, and what is no rule."""

from __future__ import annotations

from itertools import permutations

import pytest

from tacit.errors import QueryError, TacitError, UnknownName
from tacit.graph.graph import Graph
from tacit.links.rules.rule_set import NONE, Rule
from tacit.query.rule_text import parse_rule

GRAPH = Graph.of(
    [
        ("France", "borders", "Spain"),
        ("Spain", "in_continent", "Europe"),
        ("Spain", "speaks", "Spanish"),
        ("New York", "lies in", "USA"),
    ]
).named({"France": ["République"], "borders": ["is next to"]})
BORDERS, CONTINENT, SPEAKS, LIES = 0, 2, 4, 6
FRANCE, SPAIN, EUROPE, SPANISH, NEW_YORK, USA = range(6)


@pytest.mark.parametrize(
    ("text", "body", "relation", "end", "tail"),
    [
        ("borders(?x, ?y) => in_continent(?x, ?y)", (0,), 2, NONE, NONE),
        ("borders(?y, ?x) => borders(?x, ?y)", (1,), 0, NONE, NONE),
        ("borders(?x, ?y) => borders(?y, ?x)", (1,), 0, NONE, NONE),
        ("borders(?x, ?z) & in_continent(?z, ?y) => in_continent(?x, ?y)", (0, 2), 2, NONE, NONE),
        ("borders(?a, ?b) and in_continent(?b, ?c) ⇒ speaks(?c, ?a)", (3, 1), 4, NONE, NONE),
        ("borders^-1(?x, ?z) & speaks(?z, ?y) => speaks(?x, ?y)", (1, 4), 4, NONE, NONE),
        ("borders(?x, ?y) => in_continent^-1(?y, ?x)", (0,), 2, NONE, NONE),
        ("speaks(?x, Spanish) => in_continent(?x, Europe)", (4,), 2, SPANISH, EUROPE),
        ("borders(?x, ?z) & speaks(?z, Spanish) => borders(Spain, ?x)", (0, 4), 1, SPANISH, SPAIN),
        ("speaks(?x, ?_) => in_continent(?x, Europe)", (4,), 2, NONE, EUROPE),
        ("speaks(?x, ?z) => in_continent(?x, Europe)", (4,), 2, NONE, EUROPE),
        ("borders(?x, ?z) & speaks(?z, ?_) => in_continent(?x, Europe)", (0, 4), 2, NONE, EUROPE),
        ("in_continent(?x, ?_) => in_continent(?x, Europe)", (2,), 2, NONE, EUROPE),
        ("in_continent(?x, Spain) => in_continent(?x, Europe)", (2,), 2, SPAIN, EUROPE),
        ("'is next to'(?x, République) => \"lies in\"(?x, USA)", (0,), 6, FRANCE, USA),
        ("Borders(?x, 'new york') => speaks(?x, Spanish)", (0,), 4, NEW_YORK, SPANISH),
        ("borders(?x, ?a) & borders(?a, ?b) & speaks(?b, ?y) => speaks(?x, ?y)",
         (0, 0, 4), 4, NONE, NONE),
    ],
)  # fmt: skip
def test_a_rule_means_a_path(
    text: str, body: tuple[int, ...], relation: int, end: int, tail: int
) -> None:
    assert parse_rule(text, GRAPH) == Rule(body, relation, end, tail)


def test_the_order_of_atoms_and_the_names_of_variables_do_not_matter() -> None:
    atoms = ["borders(?u, ?v)", "borders(?w, ?v)", "speaks(?w, ?_)"]
    rules = {
        parse_rule(f"{' & '.join(order)} => in_continent(?u, Europe)", GRAPH)
        for order in permutations(atoms)
    }
    assert rules == {Rule((0, 1, 4), 2, NONE, EUROPE)}


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("",
         "the rule is empty at column 1; a rule is written as atoms that imply one, as"),
        ("borders(?x, ?y)", "the rule ends without '=>' at column 16; a rule is written"),
        ("borders(?x, ?y) =>", "the rule ends, where an? .* should follow"),
        ("borders(?x, ?y) => speaks(?x, ?y", r"the rule ends, where '\)' should follow"),
        ("borders(?x ?y) => speaks(?x, ?y)",
         r"unexpected '\?y', where ',' should follow at column 12"),
        ("borders(?x, ?y) | speaks(?x, ?y) => speaks(?x, ?y)",
         r"unexpected '\|', where '&' or '=>' should follow at column 17"),
        ("borders(?x, ?y) => speaks(?x, ?y) & borders(?x, ?y)",
         "unexpected '&', where the end should follow at column 35"),
        ("borders(?x, ?y) = speaks(?x, ?y)", "unexpected '=' at column 17; the atoms and what"),
        ("borders(?x, ?y) => borders(?x, ?y)", "implies itself"),
        ("speaks(?x, Spanish) => speaks(?x, Spanish)", "implies itself"),
        ("borders^-1(?y, ?x) => borders(?x, ?y)", "implies itself"),
        ("borders(?x, ?z) & speaks(?w, ?y) => speaks(?x, ?y)",
         r"speaks\(\?w, \?y\) is not connected at \?z at column 26"),
        ("speaks(?w, ?v) => speaks(?x, ?y)",
         r"not connected from \?x, the first variable of the head, on at column 8"),
        ("borders(?x, ?z) & speaks(?x, ?y) => speaks(?x, ?y)",
         r"\?x is in 2 atoms that go on from it at column 9; .* without branches"),
        ("borders(?x, ?z) => speaks(?x, ?y)",
         r"leads from \?x to \?z, and the head goes on to \?y at column 31"),
        ("borders(?x, ?y) & speaks(?y, ?z) => speaks(?x, ?y)", r"leads from \?x to \?z"),
        ("speaks(?x, Spanish) => speaks(?x, ?y)", r"leads from \?x to Spanish, and the head"),
        ("borders(?x, ?z) & borders(?z, ?x) => speaks(?x, Spanish)",
         r"\?x is in 2 atoms"),
        ("borders(?x, ?z) & borders(?z, ?v) & borders(?v, ?z) => speaks(?x, Spanish)",
         r"\?z is in 2 atoms"),
        ("borders(?x, ?z) & borders(?z, ?x) & speaks(?z, ?y) => speaks(?x, ?y)", r"in 2 atoms"),
        ("borders(?x, France) & speaks(France, ?y) => speaks(?x, ?y)",
         "France is in the middle of the body"),
        ("borders(?x, ?a) & borders(?a, ?b) & borders(?b, ?c) & speaks(?c, ?y) => speaks(?x, ?y)",
         "the body has 4 atoms; a rule has at most 3"),
        ("borders(?x, ?y) => speaks(France, Spanish)",
         r"speaks\(France, Spanish\) has no variable; a rule implies more"),
        ("borders(?x, ?y) => speaks(?x, ?x)", r"speaks\(\?x, \?x\) is about one thing twice"),
        ("borders(?x, ?x) => speaks(?x, Spanish)", "about one thing twice"),
        ("borders(?x, ?y) => speaks(?x, ?_)", r"the head says \?_, anything at column 31"),
        ("borders(?x, ?_) & speaks(?_, ?y) => speaks(?x, ?y)", "not connected"),
        ("borders(France, Spain) => speaks(?x, Spanish)", "is a fact, which needs no rule"),
        ("?r(?x, ?y) => speaks(?x, ?y)", r"the relation of \?r\(\?x, \?y\) is a variable"),
        ("borders(?x, $who) => speaks(?x, Spanish)", "no parameters such as \\$who"),
        ("borders(?x, 'a\\q') => speaks(?x, Spanish)", "is no escape"),
    ],
)  # fmt: skip
def test_what_is_no_rule_is_refused(text: str, message: str) -> None:
    with pytest.raises(QueryError, match=message):
        parse_rule(text, GRAPH)


def test_misspelt_names_are_pointed_at() -> None:
    with pytest.raises(UnknownName, match="unknown relation 'boarders' at line 2, column 1; did"):
        parse_rule("speaks(?z, ?y) &\nboarders(?x, ?z) => speaks(?x, ?y)", GRAPH)
    with pytest.raises(UnknownName, match="unknown entity 'Spanisch' at column 12; did you mean"):
        parse_rule("speaks(?x, Spanisch) => in_continent(?x, Europe)", GRAPH)


@pytest.mark.parametrize("text", ["(" * 300, "borders(?x, 'y) => a(?x, ?y)", "=>", "x" * 30_000])
def test_nonsense_is_one_of_our_errors(text: str) -> None:
    with pytest.raises(TacitError):
        parse_rule(text, GRAPH)
