"""Errors on the command line name flags of that command, and never a parameter of Python."""

from __future__ import annotations

import ast
import re
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import typer
from typer.testing import CliRunner

from source_tree import modules
from tacit.adapt.settings import AdaptSettings
from tacit.cli import app, options
from tacit.encode.settings import EncodeSettings
from tacit.engine.settings import EngineSettings
from tacit.errors import RunError, SettingsError, TacitError
from tacit.evaluate.settings import EvaluateSettings
from tacit.links.rules.settings import RuleSettings
from tacit.links.settings import TrainSettings
from tacit.query.sampling.settings import SampleSettings
from tacit.server.settings import Limits, ServerSettings
from tacit.settings import Settings, settings_of

COMMANDS: Any = typer.main.get_command(app).commands  # type: ignore[attr-defined]
WITH_SETTINGS: list[tuple[str, type[Settings]]] = [
    ("train", TrainSettings), ("train", RuleSettings),
    ("adapt", AdaptSettings), ("encode", EncodeSettings),
    ("ask", EngineSettings), ("complete", EngineSettings), ("eval", EngineSettings),
    ("eval", EvaluateSettings), ("compare", EvaluateSettings), ("sample", SampleSettings),
    ("serve", EngineSettings), ("serve", ServerSettings), ("serve", Limits),
    ("mcp", EngineSettings), ("mcp", Limits),
]  # fmt: skip
QUESTION = "?x : r(e0, ?x)"
FACTS = [f"e{i}\tr\te{(i + 1) % 12}\n" for i in range(12)]
# Mistakes in a folder with facts.tsv, a trained `run`, an empty folder and one of queries.
MISTAKES = [
    ("train facts.tsv --out run",
     "'run' holds a run; go on with it by --resume, replace it by --force, or"),
    ("train facts.tsv --out run --resume --force",
     "--resume goes on with a run and --force replaces it; leave one"),
    ("train facts.tsv --out run --resume --lr 0.3",
     "--lr is 0.3, and the run has 0.1; leave it out to go on, or train "
     "anew with --force (only --epochs, --memory, --device, --patience, --rules, "
     "--checkpoint-seconds may change)"),
    ("train facts.tsv --out new --optimizer adam --negatives 5",
     "--optimizer is adam, which cannot learn from --neg"),
    ("train facts.tsv --out new --rank 10000000000",
     "lower --rank or use --negatives or use --optimizer rowwise"),
    ("train facts.tsv --out new --rank 10000000000 --negatives 2",
     "lower --rank or use --optimizer rowwise"),
    ("train facts.tsv --out new --model rules --rank 4",
     "--rank is a setting of models with vectors, and --model rules has none; leave it out"),
    ("train facts.tsv --out new --no-rules --length 1",
     "--length says how rules are mined, and with --no-rules none are; leave it out"),
    ("train facts.tsv --out run --model rules --resume",
     "run 'run' does not predict by rules alone; replace it by --force, or choose another"),
    ("ask run Q --columns 1,2,3",
     "--columns says how facts are read, and those of a run were; leave it out"),
    ("serve run --columns 1,2,3",
     "--columns says how facts are read, and those of a run were; leave it out"),
    ("train facts.tsv --out new --device cuda:99", "--device is 'cuda:99' but"),
    ("adapt run --calibration minmax",
     "--calibration is 'minmax', under which an adapter on 'p' does nothing"),
    ("adapt run --recipe paper --loss log",
     "--loss is log, and with --recipe paper it must be 1vsall; leave one out"),
    ("adapt run --queries queries --held-out",
     "but train queries; learn from those by --no-held-out"),
    ("adapt run --queries nowhere --held-out",
     "nowhere: there is no such folder; a folder of queries is needed"),
    ("encode run --queries facts.tsv", "facts.tsv: is a file; a folder of queries is needed"),
    ("encode run --checkpoint run --steps 3 --model ultra",
     "--steps is given beside --checkpoint, whose weights are"),
    ("encode facts.tsv",
     "'facts.tsv' is no run to add the encoder to; name the run to make by --out"),
    ("encode facts.ts",
     "there is no run or graph 'facts.ts'; give a run, a data set, or a file or folder of facts"),
    ("ask run ?x:r($top,?x)",
     "parameter $top has no value; give it the label it stands for, as in --param top=LABEL"),
    ("plan ?x:r($who,?x)", "the label it stands for, as in --param who=LABEL"),
    ("ask run Q --param k=e1",
     "the question has no parameter 'k'; in the text syntax it would be written $k"),
    ("encode run --drop --out new",
     "--drop deletes the encoder of the run that is given; leave --out out"),
    ("eval run --shapes 2i", "sample queries and give their folder as --queries"),
    ("eval run --queries nowhere",
     "nowhere: there is no such folder; a folder of queries is needed"),
    ("eval run --candidates index",
     "--candidates is 'index', but an evaluation ranks all entities; leave it out"),
    ("ask run Q --observed tomorrow",
     "--observed names no split 'tomorrow'; it must be all, none, or some of train+"),
    ("ask run Q --observed none --new",
     "--new leaves out what is known, and with --observed none nothing is"),
    ("ask run Q --search exact --candidates scan", "not --search exact; leave one out"),
    ("ask run Q --search encoder",
     "--search is 'encoder', and there is none here; train one first"),
    ("ask run Q --param x", "--param is 'x'; it must be NAME=LABEL, as in"),
    ("ask run Q --file facts.tsv", "a question and --file are given; leave one out"),
    ("ask run", "no question is given; write one after 'run', or give many with --file"),
    ("ask Q run",
     f"'{QUESTION}' is a question where a run is needed; the run comes first, then the question"),
    ("ask Q", f"'{QUESTION}' is a question where a run is needed"),
    ("plan run", "'run' is a graph or run, and plan takes a question; name the graph by --graph"),
    ("report run --out page.pdf", "--out is 'page.pdf'; it must end in .html or .md"),
    ("serve run --cors ftp", "--cors is 'ftp'; it must be '*' or start with http:// or https://"),
    ("serve run --trust-host a*", "--trust-host is 'a*'; a star must stand in front"),
    ("serve run run", "two runs are called 'run'; give each a name of its own, as in NAME=RUN"),
]  # fmt: skip


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    Path("facts.tsv").write_text("".join(FACTS))
    Path("empty").mkdir()
    done = CliRunner().invoke(
        app, ["train", "facts.tsv", "--out", "run", "--epochs", "1", "--rank", "2"]
    )
    assert done.exit_code == 0
    Path("queries").mkdir()
    Path("queries/train-queries.pkl").touch()
    return tmp_path


def refused(line: str) -> TacitError:
    """Return the output of a command, with its question written as Q."""
    error = (
        CliRunner()
        .invoke(app, [QUESTION if word == "Q" else word for word in line.split()])
        .exception
    )
    assert isinstance(error, TacitError), line
    return error


def flags(command: str) -> set[str]:
    return {
        flag for each in COMMANDS[command].params for flag in (*each.opts, *each.secondary_opts)
    }


def test_what_the_shell_says_names_flags_of_the_command(folder: Path) -> None:
    for line, message in MISTAKES:
        error = refused(line)
        assert message in str(error), line
        helps = (error.command or "").split()[:1]
        named = set(re.findall(r"(?<![\w-])--[a-z-]+", str(error)))
        assert named <= {
            flag for command in (line.split()[0], *helps) for flag in flags(command)
        }, line
        assert not re.search(r"`|=True|=False|\w_\w", str(error).replace(str(folder), "")), line


@pytest.mark.parametrize(
    "command", ["adapt", "ask", "compare", "complete", "eval", "index", "report", "serve", "add"]
)
def test_what_is_no_run_is_said_with_what_may_have_been_meant(folder: Path, command: str) -> None:
    Path("runs").mkdir()
    Path("run").rename("runs/small")
    rest = {"ask": " Q", "add": " facts.tsv"}.get(command, "")
    takes_facts = command in ("ask", "complete", "serve")
    absent = "there is no run or graph" if takes_facts else "there is no run"
    train = "train one on a graph first", "train GRAPH --out RUN"
    anything = "give a run, a data set, or a file or folder of facts", None
    advice, helping = anything if takes_facts else train
    for name, message, helps in (
        ("runs/smal", f"{absent} 'runs/smal'; did you mean 'runs/small'?", None),
        ("small", f"{absent} 'small'; did you mean 'runs/small'?", None),
        ("quite-else", f"{absent} 'quite-else'; {advice}", helping),
        (
            "runs",
            "'runs' is no run but a folder of runs; name one of them, such as 'runs/small'",
            None,
        ),
        ("empty", "'empty' is no run but an empty folder; train one on a graph first", "train"),
        (
            "facts.tsv",
            "'facts.tsv' is no run but a file; if it holds facts, train a run",
            "train facts.tsv --out RUN",
        ),
        (
            "queries",
            "'queries' is no run but a folder without settings.toml; if it",
            "train queries --out RUN",
        ),
    ):
        if name in ("facts.tsv", "queries") and takes_facts:
            continue
        error = refused(f"{command} {name}{rest}")
        assert isinstance(error, RunError)
        assert str(error).startswith(message)
        assert error.command == helps


@pytest.mark.parametrize(("command", "kind"), WITH_SETTINGS)
def test_a_wrong_value_of_each_setting_is_one_of_a_flag(command: str, kind: type[Settings]) -> None:
    made = COMMANDS[command]
    tried = 0
    arguments = [
        word for each in made.params if each.param_type_name == "argument" for word in ["x"]
    ]
    required = [
        word
        for each in made.params
        if each.required and each.opts[0][:2] == "--"
        for word in (each.opts[0], "x")
    ]
    for field in settings_of(kind):
        about = field.metadata
        wrong = {"str": "nonsense", "float": "-1e9", "int": "-1000000000"}
        option = next((each for each in made.params if each.help == about["help"]), None)
        annotation = str(field.type).removesuffix(" | None")
        if (
            option is None
            or about["read"]
            or annotation not in wrong
            or (annotation == "str" and not about["choices"])
        ):
            continue
        words = [command, *arguments, *required, option.opts[0], wrong[annotation]]
        error = CliRunner().invoke(app, words).exception
        assert isinstance(error, SettingsError), field.name
        assert str(error).startswith(f"{option.opts[0]} is "), field.name
        tried += 1
    assert tried > 0


def messages() -> Iterator[tuple[str, str]]:
    """List the text of each literal in errors of the package, with the name of its module."""
    for name, path in modules().items():
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            made = isinstance(node, ast.Call) and getattr(node.func, "id", "").endswith("Error")
            for part in ast.walk(node) if made or isinstance(node, ast.Raise) else ():
                if isinstance(part, ast.Constant) and isinstance(part.value, str):
                    yield name, part.value


def test_what_messages_put_in_backquotes_is_a_flag_somewhere() -> None:
    every = {**COMMANDS, **COMMANDS["data"].commands}
    known = {
        name
        for command in every.values()
        if hasattr(command, "params")
        for name in options.flags_of(command)
    }
    quoted = [
        (module, name)
        for module, text in messages()
        for name in re.findall(r"`(\w+)(?:=[^`]*)?`", text)
    ]
    assert {"force", "resume", "search", "queries"} <= {name for _, name in quoted}
    assert [(module, name) for module, name in quoted if name not in known] == []


def test_the_flags_of_the_command_that_helps_are_named_as_well(folder: Path) -> None:
    Path("run/model.safetensors").unlink()
    error = refused("ask run Q")
    assert (
        str(error)
        == "run 'run' has no model.safetensors: its training has not finished; go on with --resume"
    )
    assert error.command == "train"


@pytest.mark.parametrize(
    "header",
    [
        "Subject name,kind of it,Object name",
        "source;x,type (of it),target",
        "source,kind & more,target",
        "from,$kind,to",
    ],
)
def test_flags_in_messages_can_be_pasted_into_a_shell(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, header: str
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("g.csv").write_text(f"{header}\na,r,b\n", encoding="utf-8")
    message = str(refused("data describe g.csv"))
    advised = re.search(r"such as (--columns .*), or delete it", message)
    assert advised is not None
    echoed = subprocess.run(
        ["sh", "-c", f"printf '%s\n' {advised[1]}"], capture_output=True, text=True, check=True
    )
    flag, *value = echoed.stdout.splitlines()
    assert (flag, value) == ("--columns", [header])
    done = CliRunner().invoke(app, ["data", "describe", "g.csv", flag, *value])
    assert done.exit_code == 0, done.exception


def test_words_that_are_too_many_are_said_with_what_may_be_wrong() -> None:
    for line, hint in (
        (["plan", "run", QUESTION], "; quote what has spaces; name a graph by --graph"),
        (["ask", "run", "?x", QUESTION], "; quote what has spaces"),
    ):
        done = CliRunner().invoke(app, line)
        assert done.exit_code == 2
        assert hint in " ".join(done.output.replace("│", "").split())
