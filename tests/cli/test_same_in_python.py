"""What a command does, one call does in Python: the same files, numbers and refusals."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
import torch
from typer.testing import CliRunner

import tacit
from tacit.cli import app, main
from tacit.errors import DataError, SettingsError
from tacit.fitting.progress import Event
from tacit.graph.graph import Graph
from tacit.links.models import make_model, save_model
from tacit.run_folder.folder import RunFolder

# Each knows the next two of ten.
KNOWS = [(f"e{i}", "knows", f"e{(i + step) % 10}") for i in range(10) for step in (1, 2)]
GRAPH = Graph.of(KNOWS[:16], valid=KNOWS[16:18], test=KNOWS[18:], name="ten")


def run(*arguments: str) -> str:
    """Return the output of a command."""
    result = CliRunner().invoke(app, list(arguments), catch_exceptions=False)
    assert result.exit_code == 0, result.output
    return result.stdout


def files(folder: Path) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in folder.iterdir() if path.is_file()}


@pytest.fixture
def facts(tmp_path: Path) -> Path:
    GRAPH.write(tmp_path / "ten")
    return tmp_path / "ten"


@pytest.fixture
def trained(tmp_path: Path) -> Path:
    """A run of random weights."""
    folder = RunFolder.create(tmp_path / "run", GRAPH, {"model": "complex", "rank": 2})
    torch.manual_seed(0)
    save_model(folder, make_model("complex", 10, 2, 2))
    return folder.path


def test_a_graph_is_split_written_and_described(facts: Path, tmp_path: Path) -> None:
    run(
        "data",
        "split",
        str(facts),
        "--out",
        str(tmp_path / "there"),
        "--valid",
        "0.2",
        "--test",
        "0.2",
        "--seed",
        "3",
    )
    drawn = tacit.split(facts, tmp_path / "here", valid=0.2, test=0.2, seed=3)
    assert files(tmp_path / "here") == files(tmp_path / "there")
    assert tacit.load(tmp_path / "here").statistics().facts == drawn.statistics().facts
    assert sum(drawn.statistics().facts.values()) == 20
    shown = json.loads(run("data", "describe", str(tmp_path / "there"), "--json"))
    assert (
        shown["relations"]
        == json.loads(json.dumps(tacit.load(tmp_path / "there").statistics().to_json()))[
            "relations"
        ]
    )
    run("data", "world", "--out", str(tmp_path / "world.tsv"))
    tacit.load("world").write(tmp_path / "again.tsv")
    assert (tmp_path / "again.tsv").read_bytes() == (tmp_path / "world.tsv").read_bytes()


def test_a_split_may_be_empty_unless_it_is_written(facts: Path, tmp_path: Path) -> None:
    assert not len(tacit.split(GRAPH, valid=0, test=0.2).valid)
    with pytest.raises(DataError, match="ten: has no facts to spare for valid"):
        tacit.split(facts, tmp_path / "none", valid=0)
    for name, reason in (
        ("ten", "exists already"),
        ("a.tsv", "must name a folder; leave the extension '.tsv' out"),
    ):
        with pytest.raises(DataError, match=reason):
            tacit.split(facts, tmp_path / name)
    with pytest.raises(SettingsError, match="seed is -1; it must be 0 or more"):
        tacit.split(facts, seed=-1)
    assert not (tmp_path / "none").exists()


def test_a_question_is_described_and_facts_alone_answer_it(facts: Path) -> None:
    question = "?x : knows($who, ?n) & knows(?n, ?x)"
    shown = run("plan", question, "--graph", str(facts), "--k", "3", "--param", "who=e0")
    assert shown == tacit.parse(question, {"who": "e0"}).plan(facts, k=3) + "\n"
    plain = "?x : knows(e0, ?x)"
    assert run("plan", plain) == tacit.parse(plain).plan() + "\n"
    assert (
        run("ask", str(facts), plain, "--symbolic")
        == f"{tacit.Engine.of_facts(facts).ask(plain)}\n"
    )


def test_missing_links_are_counted(facts: Path, tmp_path: Path) -> None:
    heard: list[Event] = []
    options: dict[str, Any] = {"shapes": "1p,2p", "count": 5}
    counts = tacit.hardness(facts, progress=heard.append, **options)
    printed_counts = json.loads(
        run("data", "hardness", str(facts), "--shapes", "1p,2p", "--count", "5", "--json")
    )
    assert printed_counts == {
        name: {str(links): number for links, number in row.items()} for name, row in counts.items()
    }
    assert set(counts["1p"]) == {1}  # a missing link is all that one hop can lack
    assert {event.where for event in heard} == {"1p", "2p"}
    samples = tacit.sample(GRAPH, tmp_path / "queries", split="test", **options)
    sets = {name: drawn.queries for name, drawn in samples.items()}
    assert (
        tacit.hardness(GRAPH, sets)
        == tacit.hardness(tmp_path / "queries", tmp_path / "queries")
        == counts
    )
    assert tacit.hardness(tmp_path / "queries", count=1) == counts  # its own queries, none drawn
    printed_counts = json.loads(
        run("data", "hardness", str(tmp_path / "queries"), "--observed", "train", "--json")
    )
    known = tacit.hardness(GRAPH, sets, observed="train")
    assert printed_counts == {
        name: {str(links): number for links, number in row.items()} for name, row in known.items()
    }
    with pytest.raises(SettingsError, match="cannot be observed"):
        tacit.hardness(GRAPH, sets, observed="all")


def test_questions_of_a_file_are_asked(trained: Path, tmp_path: Path) -> None:
    questions = tmp_path / "questions.txt"
    questions.write_text(
        "?x : knows($who, ?x)\n?x : nobody(e0, ?x)\n?x : knows(?x, $who)\n", encoding="utf-8"
    )
    command = ["ask", str(trained), "--file", str(questions), "--top", "3", "--param", "who=e1"]
    done = CliRunner().invoke(app, [*command, "--out", str(tmp_path / "there.jsonl")])
    assert done.exit_code == 1  # one line is no question
    many = tacit.open(trained).ask_file(questions, top=3, parameters={"who": "e1"})
    tally = many.write(tmp_path / "here.jsonl")
    assert (tmp_path / "here.jsonl").read_bytes() == (tmp_path / "there.jsonl").read_bytes()
    assert (tally.asked, tally.failed) == (3, 1)
    (first, wrong, _) = many
    assert first.result == tacit.open(trained).ask("?x : knows(e1, ?x)", top=3)
    assert isinstance(wrong.result, tacit.TacitError)
    with pytest.raises(SettingsError, match="a file of answers must end in"):
        many.write(tmp_path / "answers.docx")


def test_a_model_is_imported(facts: Path, tmp_path: Path) -> None:
    torch.manual_seed(1)
    tables = {"embeddings.0.weight": torch.randn(10, 4), "embeddings.1.weight": torch.randn(2, 4)}
    torch.save(tables, tmp_path / "kbc.pt")
    shown = run(
        "import", str(tmp_path / "kbc.pt"), "--graph", str(facts), "--out", str(tmp_path / "there")
    )
    imported = tacit.import_model(tmp_path / "kbc.pt", tmp_path / "here", facts)
    assert shown == f"{tmp_path / 'there'}: complex of rank 2 for {imported.graph}\n"
    cli_run = tacit.open(tmp_path / "there")
    assert cli_run.settings["import"] == imported.settings["import"] == {"source": "kbc.pt"}
    assert [answer.score for answer in imported.ask("?x : knows(e0, ?x)")][-1] > 0
    assert imported.ask("?x : knows(e0, ?x)") == cli_run.ask("?x : knows(e0, ?x)")
    with pytest.raises(
        DataError, match="does not hold the graph it was trained on; give it as `graph`"
    ):
        tacit.import_model(tmp_path / "kbc.pt", tmp_path / "none")
    with pytest.raises(
        SettingsError, match="reciprocal is 'mixed'; it must be one of interleaved, stacked"
    ):
        tacit.import_model(tmp_path / "kbc.pt", tmp_path / "none", facts, reciprocal="mixed")


def test_what_was_just_trained_is_read_when_it_is_asked(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    small: dict[str, Any] = {"rank": 2, "epochs": 1, "batch": 8, "device": "cpu"}
    run_of = tacit.train(GRAPH, tmp_path / "run", progress=False, **small)
    with monkeypatch.context() as patch:
        patch.setattr("tacit.run.run.read_weights", lambda *_: pytest.fail("nothing is asked"))
        assert run_of.results["train"]["epochs"] == 1
        assert run_of.settings["train"]["rank"] == 2
    assert run_of.plan("?x : knows($who, ?x)", who="e0") == run_of.plan("?x : knows(e0, ?x)")
    assert run_of.ask("?x : knows(e0, ?x)") == tacit.open(tmp_path / "run").ask(
        "?x : knows(e0, ?x)"
    )


def test_what_was_replaced_before_it_was_asked_is_read_as_it_is(tmp_path: Path) -> None:
    small: dict[str, Any] = {
        "progress": False,
        "force": True,
        "rank": 2,
        "epochs": 1,
        "batch": 8,
        "device": "cpu",
    }
    former = tacit.train(GRAPH, tmp_path / "run", **small)
    # of the same sizes
    backwards = Graph.of([(tail, relation, head) for head, relation, tail in KNOWS], name="back")
    latter = tacit.train(backwards, tmp_path / "run", **small)
    assert former.ask("?x : knows(e0, ?x)") == latter.ask("?x : knows(e0, ?x)")
    assert former.graph.name == "back"


def test_all_progress_is_told_as_events(
    trained: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    opened = tacit.open(trained)
    heard = list[Event]()

    def last(where: str) -> tuple[int, int]:
        (last_event,) = [
            event for event in heard[-1:] if (event.what, event.where) == ("count", where)
        ]
        heard.clear()
        return last_event.done, last_event.total

    samples = opened.sample(shapes="1p", split="test", count=4, progress=heard.append)
    assert last("1p") == (len(samples["1p"].queries), 4)
    queries = {"1p": samples["1p"].queries}
    opened.evaluate(queries, progress=heard.append)
    assert last("1p") == (len(queries["1p"]), len(queries["1p"]))
    tacit.compare([trained], queries, progress=heard.append)
    assert last("1p") == (len(queries["1p"]), len(queries["1p"]))
    assert list(opened.complete(min_score=0.01, progress=heard.append)) == list(
        opened.complete(min_score=0.01)
    )
    assert last("relations") == (1, 1)
    list(opened.complete(entities=["e1", "e2"], progress=heard.append))
    assert last("entities") == (2, 2)
    opened.evaluate(queries)  # False by default, which is quiet
    assert capsys.readouterr().err == ""


@pytest.mark.parametrize(
    ("words", "says"),
    [
        (
            ["import", "RUN", "--out", "o", "--reciprocal", "x"],
            "--reciprocal is 'x'; it must be one of interleaved",
        ),
        (
            ["data", "hardness", "RUN", "--split", "train"],
            "--split is 'train'; it must be one of valid, test",
        ),
        (["data", "hardness", "RUN", "--count", "0"], "--count is 0; it must be at least 1"),
        (
            ["data", "split", "RUN", "--out", "o", "--seed", "-1"],
            "--seed is -1; it must be 0 or more",
        ),
        (["compare", "RUN", "--seed", "-1"], "--seed is -1; it must be 0 or more"),
        (["index", "RUN", "--nlist", "0"], "--nlist is 0; it must be"),
    ],
    ids=lambda value: " ".join(value[:1] + value[-2:]) if isinstance(value, list) else "",
)
def test_a_wrong_choice_is_one_line(
    words: list[str],
    says: str,
    trained: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.chdir(trained.parent)
    monkeypatch.setattr(
        "sys.argv", ["tacit", *(str(trained) if word == "RUN" else word for word in words)]
    )
    with pytest.raises(SystemExit) as ended:
        main()
    (line,) = capsys.readouterr().err.splitlines()
    assert line.startswith(f"error: {says}")
    assert ended.value.code == 2
