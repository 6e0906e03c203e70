"""`--source` and `--as-of`, as a user types them, and over HTTP."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import pytest
from typer.testing import CliRunner, Result

from served import running
from tacit.cli import app, main
from tacit.run.mined import find_or_mine
from tacit.run.run import Run
from tacit.server.served_run import ServedRun
from tacit.server.settings import ServerSettings

ROWS = [
    "head,relation,tail,source,valid_from,valid_until,confidence",
    "France,president,Hollande,Wikidata,2012-05-15,2017-05-14,",
    "France,president,Macron,Wikidata,2017-05-14,,",
    "France,president,Macron,a newspaper,2017,,0.9",
    "Spain,president,Azaña,an atlas,1936,1939,0.5",
    "France,borders,Spain,,,,",
]
QUESTION = "?who : president(France, ?who)"


@pytest.fixture(autouse=True)
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TACIT_CACHE", str(tmp_path / "cache"))


@pytest.fixture
def facts(tmp_path: Path) -> str:
    path = tmp_path / "offices.csv"
    path.write_text("\n".join(ROWS) + "\n", encoding="utf-8")
    return str(path)


def tacit(*arguments: str) -> Result:
    done = CliRunner().invoke(app, arguments)
    assert done.exit_code == 0, (done.output, done.exception)
    return done


def known(*arguments: str) -> list[str]:
    answers = json.loads(tacit("ask", *arguments, "--json").stdout)["answers"]
    return sorted(answer["name"] for answer in answers if answer["known"])


def test_facts_of_a_source_and_a_time_are_known(facts: str) -> None:
    assert known(facts, QUESTION) == ["Hollande", "Macron"]
    assert known(facts, QUESTION, "--as-of", "2015") == ["Hollande"]
    assert known(facts, QUESTION, "--as-of", "2017-06") == ["Macron"]
    assert known(facts, QUESTION, "--source", "a newspaper", "--as-of", "2016") == []
    assert known(facts, QUESTION, "--source", "an atlas", "--symbolic") == []
    both = ("--source", "an atlas", "--source", "a newspaper", "--symbolic")
    assert known(facts, "?who : president(?where, ?who)", *both) == ["Azaña", "Macron"]
    assert known(facts, "?x : borders(France, ?x)", "--as-of", "1500") == ["Spain"]
    assert known(facts, "?x : borders(France, ?x)", "--source", "Wikidata") == []
    shown = tacit("ask", facts, QUESTION, "--explain").stdout
    assert (
        "president(France, Macron)  0.999 known, from Wikidata, since 2017-05-14; "
        "from a newspaper, since 2017, confidence 0.9"
    ) in shown


def test_edited_dates_are_other_facts(facts: str) -> None:
    assert known(facts, QUESTION, "--as-of", "2030") == ["Macron"]
    Path(facts).write_text("\n".join(ROWS).replace("2017-05-14,,", "2017-05-14,2027,") + "\n")
    assert known(facts, QUESTION, "--as-of", "2030", "--source", "Wikidata") == []


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (["--source", "Wikidta"], "--source names 'Wikidta', from which no fact comes; did you"),
        (["--as-of", "yesterday"], "--as-of is 'yesterday'; expected a date such as 2019"),
        (["--as-of", ""], "--as-of is empty; expected a date"),
    ],
)
def test_errors_name_the_flags(
    facts: str,
    options: list[str],
    message: str,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(sys, "argv", ["tacit", "ask", facts, QUESTION, *options])
    with pytest.raises(SystemExit) as ended:
        main()
    assert ended.value.code == 2
    assert message in capsys.readouterr().err


def test_graphs_without_dates_say_so(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    words = ["ask", "world", "--symbolic", QUESTION, "--as-of", "2015"]
    monkeypatch.setattr(sys, "argv", ["tacit", *words])
    with pytest.raises(SystemExit):
        main()
    assert "--as-of is '2015', and no fact says when it holds; tables" in capsys.readouterr().err


def test_describe_counts_statements(facts: str) -> None:
    shown = tacit("data", "describe", facts).stdout
    sources = "Wikidata (2), a newspaper (1), an atlas (1)"
    assert f"4 statements about facts, 4 dated; sources: {sources}\n" in shown
    described = json.loads(tacit("data", "describe", facts, "--json").stdout)
    assert described["sources"] == [["Wikidata", 2], ["a newspaper", 1], ["an atlas", 1]]


def test_a_service_answers_as_of_a_day_and_says_where_facts_come_from(facts: str) -> None:
    run = Run(find_or_mine(facts, False), as_of="2015", fact_sources=["Wikidata"])
    with running(ServedRun.of(run), ServerSettings(workers=1)) as service:
        reply = service.client.post("/explain", json={"query": QUESTION, "top": 1})
        (answer,) = reply.json()["answers"]
        assert answer["name"] == "Hollande"
        (atom,) = answer["witnesses"][0]["atoms"]
        assert atom["statements"] == [
            {
                "source": "Wikidata",
                "valid_from": "2012-05-15",
                "valid_until": "2017-05-14",
                "confidence": None,
                "text": "from Wikidata, 2012-05-15 to 2017-05-14",
            }
        ]
