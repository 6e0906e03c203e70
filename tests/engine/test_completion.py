"""The facts a graph is missing, against every pair tried one by one, and how they are written."""

from __future__ import annotations

import csv
import gzip
import math
import re
import signal
from pathlib import Path
from threading import Event
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor
from typer.testing import CliRunner

import tacit
from family_runs import families
from tables import FactorScorer, SparseScorer, TableScorer
from tacit.cli import app
from tacit.engine import completion
from tacit.engine.atoms.atoms import Atoms
from tacit.engine.completion import Completion, Prediction
from tacit.engine.engine import Engine
from tacit.errors import SettingsError, TacitError, UnknownName
from tacit.graph.formats.writing import write_scored
from tacit.graph.graph import Graph
from tacit.graph.labels.prefixes import Prefixes, n_triples
from tacit.sources import load

NAMES = [f"e{i}" for i in range(9)]
FACTS = [
    ("e1", "r0", "e1"),
    *((f"e{i % 9}", f"r{i // 9 + i % 2}", f"e{(5 * i + 3 + i // 9) % 9}") for i in range(14)),
]
GRAPH = Graph.of(FACTS[:-3], valid=FACTS[-3:-1], test=FACTS[-1:])


def make_engine(kind: type[TableScorer] = FactorScorer, **settings: object) -> Engine:
    """Scores without any symmetry: each direction of each relation has a table of its own."""
    scorer = kind([np.full((9, 9), 0.5)] * 3)
    scorer._logits = torch.randn(6, 9, 9, generator=torch.Generator().manual_seed(3)) * 2.0
    return Engine(GRAPH, scorer, **({"observed": "train"} | settings))


def one_by_one(engine: Engine, least: float) -> dict[tuple[str, str, str], float]:
    """Every pair and relation that is no train fact, by two one-atom questions each."""
    known = {
        (GRAPH.entities[h], GRAPH.relations[r], GRAPH.entities[t])
        for h, r, t in GRAPH.train.tolist()
    }
    out = {}
    for relation in GRAPH.relations.labels[0::2]:
        ahead = {
            s: {a.entity: a.score for a in engine.ask(f"?o : {relation}({s}, ?o)", top=9)}
            for s in NAMES
        }
        back = {
            o: {a.entity: a.score for a in engine.ask(f"?s : {relation}(?s, {o})", top=9)}
            for o in NAMES
        }
        for s in NAMES:
            for o in NAMES:
                score = math.sqrt(ahead[s].get(o, 0.0) * back[o].get(s, 0.0))
                if score >= least and (s, relation, o) not in known:
                    out[s, relation, o] = score
    return out


def by_fact(predictions: list[Prediction]) -> dict[tuple[str, str, str], float]:
    out = {fact[:3]: fact.score for fact in predictions}
    assert len(out) == len(predictions)  # none twice
    return out


@pytest.mark.parametrize("kind", [TableScorer, FactorScorer, SparseScorer])
@pytest.mark.parametrize("how", ["sigmoid", "softmax-count", "minmax"])
@pytest.mark.parametrize("typed", [False, True])
@pytest.mark.parametrize("least", [0.05, 0.4])
def test_every_missing_fact_of_a_score_comes_once(
    kind: type[TableScorer], how: str, typed: bool, least: float
) -> None:
    engine = make_engine(kind, calibration=how, typed=typed)
    expected = one_by_one(engine, least)
    assert by_fact(list(Completion(engine, min_score=least))) == pytest.approx(expected, rel=1e-5)


def test_what_is_found_does_not_depend_on_how_many_rows_are_held(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    whole = by_fact(list(Completion(make_engine(), min_score=0.05)))
    monkeypatch.setattr("tacit.engine.completion._ROWS", {"cpu": 2})
    monkeypatch.setattr("tacit.engine.completion._PAIRS", 3)
    assert by_fact(list(Completion(make_engine(), min_score=0.05))) == pytest.approx(whole)


def test_what_is_printed_says_how_to_get_the_facts() -> None:
    shown = repr(Completion(make_engine(), min_score=0.25))
    assert "at least 0.25" in shown
    calls = re.findall(r"`(\w+)\(", shown)
    assert calls == ["to_pandas", "write"]
    assert all(hasattr(Completion, call) for call in calls)


def test_facts_about_entities_and_of_relations() -> None:
    every = one_by_one(make_engine(), 0.05)
    about = by_fact(list(Completion(make_engine(), entities=["e2", "e7"], min_score=0.05)))
    assert about == pytest.approx(
        {fact: s for fact, s in every.items() if {fact[0], fact[2]} & {"e2", "e7"}}, rel=1e-5
    )
    both = by_fact(list(Completion(make_engine(), ["r1"], ["e2"], min_score=0.05)))
    assert both == pytest.approx(
        {f: s for f, s in about.items() if f[1] == "r1" and "e2" in f}, rel=1e-5
    )


def test_loops_about_an_entity_come_once() -> None:
    every = one_by_one(make_engine(), 0.01)
    about = by_fact(list(Completion(make_engine(), entities=["e0"], min_score=0.01)))
    assert ("e0", "r0", "e0") in about
    assert about == pytest.approx(
        {fact: score for fact, score in every.items() if "e0" in fact}, rel=1e-5
    )


def test_the_best_of_all_come_in_order_and_those_of_each_relation_too() -> None:
    every = sorted(one_by_one(make_engine(), 0.05).items(), key=lambda item: -item[1])
    best = list(Completion(make_engine(), min_score=0.05, top=7))
    assert [fact[:3] for fact in best] == [fact for fact, _ in every[:7]]
    streamed = list(Completion(make_engine(), min_score=0.05))
    for relation in ("r0", "r1", "r2"):
        scores = [fact.score for fact in streamed if fact.relation == relation]
        assert scores == sorted(scores, reverse=True)


def test_no_more_is_held_than_the_best_asked_for(monkeypatch: pytest.MonkeyPatch) -> None:
    expected = list(Completion(make_engine(), min_score=1e-6, top=3))
    held = []
    add = completion._BestFacts.add

    def counting(best: completion._BestFacts, triples: Tensor, scores: Tensor) -> None:
        held.append(len(best.scores) + len(scores))
        add(best, triples, scores)

    monkeypatch.setattr(completion, "_ROWS", {"cpu": 1})
    monkeypatch.setattr(completion, "_PAIRS", 1)
    monkeypatch.setattr(completion._BestFacts, "add", counting)
    assert list(Completion(make_engine(), min_score=1e-6, top=3)) == expected
    assert max(held) <= 3 + len(NAMES)  # the best so far, and those of a row


def test_shares_of_a_run_do_not_complete_it() -> None:
    engine = make_engine()
    engine.scorer.shards = SimpleNamespace(world=2, start=0, stop=5, size=5, total=9)
    with pytest.raises(SettingsError, match="without `shards`"):
        Completion(engine)


def test_known_facts_and_loops_are_not_missing() -> None:
    engine = make_engine(observed="all")
    facts = by_fact(list(Completion(engine, min_score=0.001)))
    assert not facts.keys() & set(FACTS)
    # only r0 loops in train
    assert not [fact for fact in facts if fact[0] == fact[2] and fact[1] != "r0"]
    assert [fact for fact in facts if fact[0] == fact[2] and fact[1] == "r0"]


@pytest.mark.parametrize(
    ("arguments", "error"),
    [
        ({"min_score": 0.0}, SettingsError),
        ({"min_score": 1.5}, SettingsError),
        ({"top": 0}, SettingsError),
        ({"relations": ["r9"]}, UnknownName),
        ({"entities": ["e99"]}, UnknownName),
    ],
)
def test_what_cannot_be_asked_is_refused_at_once(
    arguments: dict[str, object], error: type[TacitError]
) -> None:
    with pytest.raises(error):
        Completion(make_engine(), **arguments)  # type: ignore[arg-type]


RDF = Prefixes({"geo": "http://example.org/geo/", "xsd": "http://www.w3.org/2001/XMLSchema#"})
ODD = [
    ('geo:O"slo', "geo:in", "geo:Norway", 0.75),
    ("_:b1", "geo:since", '"1814"^^xsd:gYear', 0.5),
    ('"1814"^^xsd:gYear', "geo:in", "geo:Norway", 0.25),
]


def test_literals_that_quote_a_datatype_stay_what_they_are() -> None:
    oxigraph = pytest.importorskip("pyoxigraph")
    for label in (r'"x\"^^y"', r'"x\"^^y"@en', r'"x\"^^y"^^xsd:gYear'):
        quad = next(
            iter(
                oxigraph.parse(
                    f"<a:b> <a:c> {n_triples(label, RDF)} .", oxigraph.RdfFormat.N_TRIPLES
                )
            )
        )
        assert quad.object.value == 'x"^^y'


def test_every_line_end_within_a_field_of_csv_is_quoted(tmp_path: Path) -> None:
    facts = [("a\rb", "r\nr", "c\r\nd", 0.5), ("e", "r", "f", 0.25)]
    write_scored(tmp_path / "facts.csv", facts, Prefixes())
    with (tmp_path / "facts.csv").open(newline="") as file:
        rows = list(csv.reader(file))
    assert [(*row[:3], float(row[3])) for row in rows[1:]] == facts


def test_tables_read_back_as_graphs(tmp_path: Path) -> None:
    facts = [("New York, NY", "in", "USA", 0.75), ('"quoted"', "of", "é\\n", 0.125)]
    for name in ("facts.tsv", "facts.csv", "facts.tsv.gz"):
        assert write_scored(tmp_path / name, facts, Prefixes()) == 2
    assert (
        gzip.decompress((tmp_path / "facts.tsv.gz").read_bytes())
        == (tmp_path / "facts.tsv").read_bytes()
    )
    pandas = pytest.importorskip("pandas")
    for name, separator in (("facts.tsv", "\t"), ("facts.csv", ",")):
        quoting = 3 if separator == "\t" else 0  # a table of tabs has no quotes
        table = pandas.read_csv(tmp_path / name, sep=separator, quoting=quoting)
        assert list(table.itertuples(index=False, name=None)) == facts
    duckdb = pytest.importorskip("duckdb")
    write_scored(tmp_path / "facts.parquet", facts, Prefixes())
    assert duckdb.sql(f"SELECT * FROM '{tmp_path / 'facts.parquet'}'").fetchall() == facts
    assert not [path for path in tmp_path.iterdir() if path.name.startswith(".")]


def test_rdf_says_each_score_beside_its_fact(tmp_path: Path) -> None:
    oxigraph = pytest.importorskip("pyoxigraph")
    assert write_scored(tmp_path / "facts.ttl", ODD, RDF) == 2  # RDF has no literal as a subject
    quads = list(oxigraph.parse(path=str(tmp_path / "facts.ttl")))
    scores = {
        str(q.subject): float(q.object.value) for q in quads if q.predicate.value == "tacit:score"
    }
    reified = {
        str(q.subject): str(q.object) for q in quads if q.predicate.value.endswith("#reifies")
    }
    assert {reified[node]: score for node, score in scores.items()} == {
        f"{q.subject} {q.predicate} {q.object}": score
        for q, score in zip(
            [q for q in quads if "example.org" in q.predicate.value], (0.75, 0.5), strict=True
        )
    }
    year = next(q.object for q in quads if q.predicate.value.endswith("since"))
    assert (year.value, year.datatype.value) == ("1814", "http://www.w3.org/2001/XMLSchema#gYear")
    assert write_scored(tmp_path / "facts.nt", ODD, RDF) == 2
    assert load(tmp_path / "facts.nt", literals=True).num_entities == 4


def test_the_command_writes_and_shows(tmp_path: Path) -> None:
    tacit.train(families(), tmp_path / "run", rank=8, epochs=20, progress=False)
    out = tmp_path / "facts.tsv"
    call = CliRunner().invoke(
        app, ["complete", str(tmp_path / "run"), "--min-score", "0.001", "--out", str(out)]
    )
    assert call.exit_code == 0, call.output
    lines = out.read_text(encoding="utf-8").splitlines()
    assert lines[0] == "subject\trelation\tobject\tscore"
    assert call.output.startswith(f"wrote {len(lines) - 1:,} predicted facts")
    shown = CliRunner().invoke(
        app, ["complete", str(tmp_path / "run"), "--min-score", "0.001", "--relation", "lives"]
    )
    *facts, more = shown.output.splitlines()
    assert len(facts) == 20
    assert all("lives(" in line for line in facts)
    assert (
        more
        == "20 shown, and more have a score of 0.001 or above; a higher --top or --out lists them"
    )
    every = tacit.open(tmp_path / "run").complete("lives", min_score=0.001)
    for top, says in ((len(list(every)), False), (len(list(every)) - 1, True)):
        options = ["--min-score", "0.001", "--relation", "lives", "--top", str(top)]
        listed = CliRunner().invoke(app, ["complete", str(tmp_path / "run"), *options]).output
        assert (len(listed.splitlines()), " shown, and more have " in listed) == (
            len(list(every)),
            says,
        )
        wrote = (
            CliRunner()
            .invoke(app, ["complete", str(tmp_path / "run"), *options, "--out", str(out)])
            .output
        )
        assert wrote.startswith(f"wrote {top} predicted facts to {out}")
        assert wrote.endswith("more have a score of 0.001 or above\n") == says
    for wrong in (["--out", str(tmp_path / "facts.doc")], ["--top", "0"]):
        assert isinstance(
            CliRunner().invoke(app, ["complete", str(tmp_path / "run"), *wrong]).exception,
            SettingsError,
        )
    none = CliRunner().invoke(app, ["complete", str(tmp_path / "run"), "--min-score", "1"]).output
    # a lower one takes longer, and is no way out
    assert none == "no missing fact has a score of 1.0 or above\n"


def interrupt(event: object) -> None:
    """Ctrl-C after the first relation."""
    signal.raise_signal(signal.SIGINT)


def test_what_was_found_before_ctrl_c_is_shown_and_kept_apart(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    run = tacit.train(families(), tmp_path / "run", rank=8, epochs=2, progress=False)
    every = list(run.complete(min_score=0.01))
    first = [fact for fact in every if fact.relation == every[0].relation]
    assert len(first) < len(every)
    out = tmp_path / "facts.csv"
    out.write_text("what was there before")
    with pytest.raises(
        KeyboardInterrupt,
        match=f"interrupted; {len(first)} facts found so far: .*partial-facts.csv",
    ):
        run.complete(min_score=0.01, progress=interrupt).write(out)
    assert out.read_text() == "what was there before"
    with (tmp_path / "partial-facts.csv").open(newline="") as file:
        rows = list(csv.reader(file))[1:]
    assert [tuple(row[:3]) for row in rows] == [fact[:3] for fact in first]
    assert run.complete(min_score=0.01).write(out) == len(every)

    complete = tacit.Run.complete
    monkeypatch.setattr(
        tacit.Run,
        "complete",
        lambda self, *arguments, **more: complete(
            self, *arguments, **more | {"progress": interrupt}
        ),
    )
    command = ["complete", str(tmp_path / "run"), "--min-score", "0.01"]
    for options, top in (([], 20), (["--top", "3"], 3)):
        shown = CliRunner().invoke(app, [*command, *options])
        best = sorted(first, key=lambda fact: -fact.score)[:top]
        assert shown.exit_code == 130
        assert [line[:5] for line in shown.stdout.splitlines()[: len(best)]] == [
            f"{fact.score:.3f}" for fact in best
        ]
        assert (
            shown.stderr
            == f"interrupted; {len(best)} facts found so far, and not all were looked at\n"
        )
    result = CliRunner().invoke(app, [*command, "--out", str(tmp_path / "more.csv")])
    assert (result.exit_code, (tmp_path / "more.csv").exists()) == (130, False)
    assert (
        result.stderr
        == f"interrupted; {len(first)} facts found so far: {tmp_path / 'partial-more.csv'}\n"
    )


def test_ctrl_c_is_obeyed_between_rows(monkeypatch: pytest.MonkeyPatch) -> None:
    """Not only between relations, but also after some rows of either direction."""
    monkeypatch.setattr(completion, "_rows_at_once", lambda engine: 2)
    monkeypatch.setattr(completion, "_PAIRS", 1)
    engine = make_engine()
    stop = Event()
    every = set(Completion(engine, min_score=0.01))
    rows = Atoms.blocks
    for most in range(1, 12):
        made: list[int] = []

        def blocks(self: Atoms, *arguments: Any, made: list[int] = made, most: int = most) -> Any:
            made.append(len(arguments[0]))
            if len(made) == most:
                stop.set()
            assert len(made) <= most
            return rows(self, *arguments)

        monkeypatch.setattr(Atoms, "blocks", blocks)
        found = set(Completion(engine, min_score=0.01).until(stop))
        assert stop.is_set()
        assert found < every
        stop.clear()


@pytest.mark.parametrize("wrong", [{"min_score": "0.5"}, {"top": "3"}, {"top": 2.5}])
def test_what_is_no_number_is_refused_by_its_name(wrong: dict[str, float]) -> None:
    engine = Engine.of_facts(Graph.of([("a", "r", "b")])).with_settings(calibration="sigmoid")
    with pytest.raises(SettingsError, match=f"{next(iter(wrong))} (is|must be) "):
        Completion(engine, **wrong)
