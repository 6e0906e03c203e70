"""`tacit demo`: its steps print what the commands print that it shows, and stop where one fails."""

from __future__ import annotations

import re
import shlex
import shutil
import sys
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner, Result

from quick_world import quick_world
from tacit.cli import app, main
from tacit.errors import RunError
from tacit.run.run import Run


@pytest.fixture(autouse=True)
def elsewhere(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)


def walk(*words: str) -> Result:
    return CliRunner().invoke(app, ["demo", *words])


def test_each_step_prints_what_its_command_prints(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    trained = quick_world(tmp_path / "cache")
    shutil.copytree(trained, tmp_path / "runs" / "demo")  # the walk goes on with it
    adapt = Run.adapt

    def adapt_quickly(run: Run, *given: Any, **settings: Any) -> Any:
        small = {"steps": 2, "count": 30, "validate_every": 1, "batch": 32}
        return adapt(run, *given, **settings | small)

    monkeypatch.setattr(Run, "adapt", adapt_quickly)
    done = walk()
    assert done.exit_code == 0, done.output
    steps = re.findall(
        r"^(\d)\. .+\n(?s:.*?)^\$ (tacit .+)\n((?s:.*?))\n(?=\d\. |That was)", done.output, re.M
    )
    assert [number for number, _, _ in steps] == list("12345678")
    commands = [shlex.split(command) for _, command, _ in steps]
    names = [words[1] for words in commands]
    assert names == ["data", "plan", "train", "ask", "adapt", "ask", "ask", "ask"]
    assert all("runs/demo" in words for words in commands[2:])
    for (_, _, printed), words in zip(steps, commands, strict=True):
        if words[1] == "plan" or words[1] == "data" or words in commands[5:7]:
            alone = CliRunner().invoke(app, words[1:])
            assert alone.output.strip() == printed.strip()
    assert steps[-1][2] == (
        "error: unknown relation 'boarders' at column 6; did you mean 'borders'?\n"
    )


def test_a_folder_that_cannot_hold_the_run_ends_the_walk(tmp_path: Path) -> None:
    (tmp_path / "taken").write_text("")
    done = walk("--out", "taken")
    assert isinstance(done.exception, RunError)
    assert "'taken' is a file" in str(done.exception)
    assert done.output.count("$ tacit") == 3


@pytest.mark.parametrize(
    ("interrupt", "said"),
    [
        (
            KeyboardInterrupt("stopped in epoch 5 of 30 and saved"),
            "stopped in epoch 5 of 30 and saved; go on with: tacit train world --out 'a b' "
            "--resume\n",
        ),
        (KeyboardInterrupt(), "interrupted\n"),
    ],
    ids=["saved", "nothing-to-save"],
)
def test_ctrl_c_says_how_to_go_on(
    interrupt: KeyboardInterrupt,
    said: str,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    def stop(*_: object, **__: object) -> None:
        raise interrupt

    monkeypatch.setattr("tacit.run.training.train", stop)
    monkeypatch.setattr(sys, "argv", ["tacit", "demo", "--out", "a b"])
    with pytest.raises(SystemExit) as end:
        main()
    assert end.value.code == 130
    assert capsys.readouterr().err.endswith(said)
    assert sys.argv == ["tacit", "demo", "--out", "a b"]


def test_what_comes_next_names_the_command_as_it_can_be_called(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("tacit.cli.demo._steps", lambda run: ())
    monkeypatch.setattr(sys, "argv", [".venv/bin/tacit", "demo"])
    monkeypatch.setenv("PATH", "")
    assert f"{Path('.venv/bin/tacit')} serve runs/mine" in walk("--out", "runs/mine").output
    monkeypatch.setattr(sys, "argv", ["/somewhere/tacit/__main__.py", "demo"])
    assert " tacit serve runs/demo, " in walk().output
