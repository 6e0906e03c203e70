"""`tacit ask`: text and SPARQL, tables and JSON, and what it says when something is wrong."""

from __future__ import annotations

import errno
import io
import json
import re
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
import torch
from rich.console import Console
from typer.testing import CliRunner, Result

from tacit.cli import app, main
from tacit.cli.ask import announce, show_on
from tacit.engine.answers.answers import Answer, Answers, Count
from tacit.engine.answers.witnesses import Witness, WitnessAtom, WitnessPart
from tacit.engine.engine import Engine
from tacit.errors import QueryError, SettingsError, UnknownName
from tacit.links.scorer import GraphScorer
from tacit.sources import load

FACTS = "France borders Spain|France borders Germany|Germany speaks German|Spain speaks Spanish"
SPARQL = "PREFIX : <tacit:> SELECT ?c { :France :borders ?c MINUS { ?c :speaks :German } }"


@pytest.fixture
def facts(tmp_path: Path) -> str:
    path = tmp_path / "facts.tsv"
    path.write_text(FACTS.replace(" ", "\t").replace("|", "\n") + "\n", encoding="utf-8")
    return str(path)


def ask(*arguments: str) -> Result:
    return CliRunner().invoke(app, ["ask", *arguments])


@pytest.mark.parametrize("question", ["?c : borders(France, ?c) & !speaks(?c, German)", SPARQL])
def test_facts_alone_answer_text_and_sparql(facts: str, question: str) -> None:
    done = ask(facts, question, "--symbolic")
    assert (
        done.output == "?c : borders(France, ?c) & !speaks(?c, German)\n   1. Spain  1.000  known\n"
    )


@pytest.mark.parametrize(
    ("question", "shown"),
    [
        (": borders(France, Spain)", "   yes:  1.000  known\n"),
        ("count ?c : borders(France, ?c)", "  2 known, 2.0 expected with predictions\n"),
        ("?r : ?r(France, Spain)", "   1. borders  1.000  known\n"),
        (
            "?c, ?l : borders(France, ?c) & speaks(?c, ?l)",
            "      ?c       ?l\n   1. Spain    Spanish  1.000  known\n   2. Germany  German   "
            "1.000  known\n",
        ),
    ],
)
def test_every_kind_of_question_has_its_table(facts: str, question: str, shown: str) -> None:
    assert ask(facts, question, "--symbolic").output == f"{question}\n{shown}"
    reply = json.loads(ask(facts, question, "--symbolic", "--json").output)
    written = io.StringIO()
    answers = Engine.of_facts(load(facts)).ask(question)
    show_on(Console(file=written, width=100, highlight=False, markup=False), answers)
    assert reply == answers.to_dict()
    names = [name for answer in answers for name in answer.values.values()]
    assert all(
        name in written.getvalue()
        for name in [*names, *(["yes"] if answers.kind == "truth" else [])]
    )


def test_a_question_that_takes_long_says_so_and_what_takes_less(
    capsys: pytest.CaptureFixture[str],
) -> None:
    graph = load("world")
    engine = Engine(
        graph, GraphScorer(graph.index(), graph.num_entities), calibration="sigmoid", search="exact"
    )
    knot = "?x, ?y : (borders(?x, ?a) | speaks(?y, ?b)) & borders(?a, ?b) & borders(?x, ?y)"
    announce(engine, engine.prepare(knot))
    assert capsys.readouterr().err.endswith("; an atom that names an entity narrows a variable\n")
    dear = (
        f"{knot} & in_continent(?x, Europe) & in_continent(?a, Europe) & "
        "official_language(France, ?b)"
    )
    announce(engine, engine.prepare(dear))
    streams = capsys.readouterr()
    assert streams.out == ""
    assert re.fullmatch(
        r"this may take .*, and Ctrl-C stops it; --search beam --k \d+ takes seconds.*\n",
        streams.err,
    )
    (k,) = map(int, re.findall(r"--k (\d+)", streams.err))
    assert (
        (engine.with_settings(search="beam", k=k).seconds(dear) or 0)
        < 10
        < 60
        < (engine.seconds(dear) or 0)
    )
    announce(engine.with_settings(search="beam", k=k), engine.prepare(dear))
    announce(Engine.of_facts(graph), engine.prepare(dear))  # facts are sets, and quickly joined
    assert capsys.readouterr().err == ""


def test_a_label_commands_no_terminal(tmp_path: Path) -> None:
    (tmp_path / "facts.tsv").write_text("\x1b[2Ja\tr\t\x1b]0;owned\x07\n", encoding="utf-8")
    engine = Engine.of_facts(load(tmp_path / "facts.tsv"))
    console = Console(file=io.StringIO(), width=80, markup=False)
    show_on(console, engine.ask("?x : r($who, ?x)", who="\x1b[2Ja"))
    shown = console.file.getvalue()  # type: ignore[attr-defined]
    assert "\x1b" not in shown
    assert "\\x1b]0;owned\\x07  1.000" in shown


@pytest.mark.parametrize("top", ["--5", "-", "x", "1.5", ""])
def test_a_number_of_answers_that_is_none_is_refused(facts: str, top: str) -> None:
    done = ask(facts, SPARQL, "--symbolic", f"--top={top}")
    assert isinstance(done.exception, SettingsError)
    assert f"top is '{top}'" in str(done.exception)


def test_limit_goes_before_top(facts: str) -> None:
    everything = "PREFIX : <tacit:> SELECT ?c { :France :borders ?c }"
    both = json.loads(ask(facts, everything, "--symbolic", "--json").output)
    one = json.loads(ask(facts, f"{everything} LIMIT 1", "--symbolic", "--json").output)
    assert {row["entity"] for row in both["answers"]} == {"Spain", "Germany"}
    assert one["answers"] == both["answers"][:1]


def test_sparql_without_rdflib_names_the_extra(facts: str, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in [name for name in sys.modules if name.startswith("rdflib")]:
        monkeypatch.delitem(sys.modules, name)
    monkeypatch.setitem(sys.modules, "rdflib", None)
    error = ask(facts, SPARQL, "--symbolic").exception
    assert isinstance(error, QueryError)
    assert "pip install 'tacit-kg[rdf]'" in str(error)


@pytest.mark.parametrize(
    ("question", "error", "says"),
    [
        (
            "?c : boarders(France, ?c)",
            UnknownName,
            "unknown relation 'boarders' at column 6; did you mean 'borders'?",
        ),
        (SPARQL.replace("SELECT ?c", "DESCRIBE ?c"), QueryError, "DESCRIBE is not supported"),
        (
            "INSERT DATA { <tacit:a> <tacit:b> <tacit:c> }",
            QueryError,
            "add and remove facts by run.add",
        ),
    ],
)
def test_mistakes_are_explained(
    facts: str, question: str, error: type[Exception], says: str
) -> None:
    raised = ask(facts, question, "--symbolic").exception
    assert isinstance(raised, error)
    assert says in str(raised)


def test_tables_of_sparql_are_printed_and_written(facts: str, tmp_path: Path) -> None:
    extended = "OPTIONAL { ?c :speaks ?l FILTER(?l != :German) } ?c rdfs:label ?n }"
    query = (
        "PREFIX rdfs: <http://www.w3.org/2000/01/rdf-schema#> PREFIX : <tacit:> "
        f"SELECT ?c ?l ?n {{ :France :borders ?c {extended}"
    )
    printed = ask(facts, query, "--symbolic").output.splitlines()[1:]
    assert [line.split() for line in printed] == [
        ["?c", "?l", "?n"],
        ["1.", "Spain", "Spanish", "Spain", "1.000", "known"],
        ["2.", "Germany", "Germany", "1.000", "known"],
    ]
    reply = json.loads(ask(facts, query, "--symbolic", "--json").output)
    assert [answer["values"] for answer in reply["answers"]] == [
        {"c": "Spain", "l": "Spanish", "n": "Spain"}, {"c": "Germany", "n": "Germany"}
    ]  # fmt: skip
    for name in ("out.csv", "out.nt"):
        assert ask(facts, query, "--symbolic", "--out", str(tmp_path / name)).exit_code == 0
    table = (tmp_path / "out.csv").read_text().splitlines()
    assert table[1:] == ["1,Spain,Spanish,Spain,1,true", "2,Germany,,Germany,1,true"]
    written = (tmp_path / "out.nt").read_text()
    values = re.findall(r"#value> (.*) \.", written)
    assert values == [
        "<tacit:Spain>", "<tacit:Spanish>", '"Spain"', "<tacit:Germany>", '"Germany"'
    ]  # fmt: skip
    lines = tmp_path / "questions.txt"
    lines.write_text(f"{query}\n{SPARQL}\n")
    assert "Spanish" in ask(facts, "--file", str(lines), "--symbolic").output


def test_an_unknown_iri_is_a_note_below_no_answer(facts: str) -> None:
    printed = ask(facts, SPARQL.replace("borders", "boarders"), "--symbolic").output
    note = "unknown relation 'boarders' at column 39; did you mean 'borders'?"
    assert printed.splitlines()[1:] == ["  no answer", note]


@pytest.mark.parametrize(("width", "bar"), [(80, "━━━━━━  "), (50, "")])
def test_a_terminal_shows_a_line_for_each_answer_and_whole_reasons_below(
    width: int, bar: str
) -> None:
    atoms = [WitnessAtom("Köln", "in", "[red]NRW", score, False) for score in (0.5, 0.25)]
    first, second = (
        Witness(atom.score, {}, WitnessPart("atom", atom.score, atom=atom)) for atom in atoms
    )
    answers = Answers(
        "?x : in(Köln, ?x)",
        (Answer("Q1", 1, 0.5, -0.69, False, (first, second), "[red]NRW"),),
        False,
    )
    console = Console(file=io.StringIO(), width=width, markup=False)
    show_on(console, answers)
    assert console.file.getvalue().splitlines()[1:5] == [  # type: ignore[attr-defined]
        f"  1. [red]NRW  0.500  {bar and f'{bar:14}'}predicted",
        "       in(Köln, [red]NRW)  0.500 predicted".ljust(width),
        "     or 0.250, because".ljust(width),
        "       in(Köln, [red]NRW)  0.250 predicted".ljust(width),
    ]


@pytest.mark.parametrize(
    ("certified", "leading", "says"),
    [
        (False, 2, "; the first 2 of 3 are proven"),
        (False, 1, "; the first is proven"),
        (False, 0, ""),
        (True, 2, ""),
    ],
)
def test_a_terminal_says_how_many_of_the_first_answers_are_proven(
    certified: bool, leading: int, says: str
) -> None:
    answers = Answers(
        "?x : q(?x)", (Answer("a", 1, 0.5, -0.69, False),) * 3, certified, leading=leading
    )
    console = Console(file=io.StringIO(), width=160)
    show_on(console, answers)
    shown = console.file.getvalue()  # type: ignore[attr-defined]
    assert says in shown
    assert says or "proven" not in shown


def test_letters_a_terminal_cannot_show_are_escaped(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "g.tsv").write_text("Łódź\tin\tPolska\n", encoding="utf-8")
    terminal = io.TextIOWrapper(io.BytesIO(), encoding="latin-1")
    monkeypatch.setattr(sys, "stdout", terminal)
    monkeypatch.setattr(
        sys, "argv", ["tacit", "ask", "--symbolic", str(tmp_path / "g.tsv"), "?x : in(?x, Polska)"]
    )
    with pytest.raises(SystemExit) as done:
        main()
    assert not done.value.code
    terminal.flush()
    assert b"\\u0141" in terminal.buffer.getvalue()  # type: ignore[attr-defined]


def test_facts_that_are_not_observed_are_not_known_to_symbolic_search(tmp_path: Path) -> None:
    for part, fact in (("train", "a\tr\tb\n"), ("valid", "a\tr\tc\n"), ("test", "a\tr\td\n")):
        (tmp_path / f"{part}.tsv").write_text(fact)
    for observed, entities in (
        ("all", {"b", "c", "d"}),
        ("train+valid", {"b", "c"}),
        ("train", {"b"}),
        ("none", set()),
    ):
        shown = ask(
            str(tmp_path), "?x : r(a, ?x)", "--symbolic", "--observed", observed, "--json"
        ).stdout
        assert {answer["entity"] for answer in json.loads(shown)["answers"]} == entities
    error = ask(str(tmp_path), "?x : r(a, ?x)", "--symbolic", "--search", "beam").exception
    assert "--search is 'beam', but facts alone are searched symbolically" in str(error)


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="has no device that is always full")
def test_what_cannot_be_printed_is_one_line(
    facts: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(
        sys, "argv", ["tacit", "ask", facts, "?c : borders(France, ?c)", "--symbolic"]
    )
    with Path("/dev/full").open("w", encoding="utf-8") as full, monkeypatch.context() as patch:
        patch.setattr(sys, "stdout", full)
        with pytest.raises(SystemExit) as done:
            main()
    assert done.value.code == 2
    assert (
        capsys.readouterr().err
        == "error: what is printed cannot be written (No space left on device)\n"
    )


# refused in other ways
@pytest.mark.parametrize("take", [lambda: bytes(1 << 60), lambda: torch.empty(1 << 58)])
def test_what_does_not_fit_in_memory_is_one_line(
    facts: str,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    take: Callable[[], object],
) -> None:
    monkeypatch.setattr("tacit.engine.engine.Engine.of_facts", lambda *_, **__: take())
    monkeypatch.setattr(
        sys, "argv", ["tacit", "ask", facts, "?c : borders(France, ?c)", "--symbolic"]
    )
    with pytest.raises(SystemExit) as done:
        main()
    assert done.value.code == 2
    assert capsys.readouterr().err == "error: out of memory; lower --memory or --k or --top\n"


@pytest.mark.parametrize(
    "fault",
    [
        OSError("libx.so: cannot open"),
        OSError(errno.ENOMEM, "Cannot allocate memory"),
        RuntimeError("CUDA error: an illegal memory access was encountered"),
    ],
)
def test_a_fault_of_something_else_is_none_of_printing_or_memory(
    facts: str, monkeypatch: pytest.MonkeyPatch, fault: Exception
) -> None:
    def fail(*arguments: object, **settings: object) -> None:
        raise fault

    monkeypatch.setattr(
        sys, "argv", ["tacit", "ask", facts, "?c : borders(France, ?c)", "--symbolic"]
    )
    monkeypatch.setattr("tacit.engine.engine.Engine.of_facts", fail)
    with pytest.raises(type(fault), match=r"cannot open|allocate|illegal") as raised:
        main()
    assert raised.value is fault


def test_streams_that_were_closed_are_empty(facts: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "argv", ["tacit", "ask", facts, "--symbolic", "--file", "-"])
    for name in ("stdin", "stdout"):
        monkeypatch.setattr(sys, name, None)
    with pytest.raises(SystemExit) as done:
        main()
    assert done.value.code == 0
    sys.stdin.close()
    sys.stdout.close()


@pytest.mark.parametrize(
    ("certified", "says"), [(False, "not certified: the beam dropped"), (True, ""), (None, "")]
)
def test_a_terminal_says_that_a_count_is_not_proven(certified: bool | None, says: str) -> None:
    console = Console(file=io.StringIO(), width=120)
    show_on(
        console, Answers("count ?x : q(?x)", (), certified, kind="count", counted=Count(1, 2.5))
    )
    _, counted, *beyond = console.file.getvalue().splitlines()  # type: ignore[attr-defined]
    assert counted == "1 known, 2.5 expected with predictions"
    assert [line[: len(says)] for line in beyond] == [says] * bool(says)


def test_a_count_that_is_written_is_told_as_one(facts: str, tmp_path: Path) -> None:
    out = tmp_path / "count.csv"
    wrote = ask(facts, "count ?c : borders(France, ?c)", "--symbolic", "--out", str(out))
    assert wrote.output == f"wrote a count to {out}\n"
    assert out.read_text(encoding="utf-8").splitlines()[1].startswith("2,")
