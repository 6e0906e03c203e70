"""Options are made of settings, one for each field, and a command gets those on its line."""

from __future__ import annotations

from typing import Annotated, Any

import pytest
import typer
from typer.testing import CliRunner

from tacit.adapt.settings import AdaptSettings
from tacit.cli import app as tacit
from tacit.cli import options
from tacit.engine.settings import LOGICS, EngineSettings
from tacit.errors import SettingsError
from tacit.graph.settings import ReadSettings
from tacit.links.settings import TrainSettings
from tacit.server.settings import ServerSettings
from tacit.settings import Settings, settings_of

COMMANDS: Any = typer.main.get_command(tacit)
USES = [("train", ReadSettings), ("sample", ReadSettings), ("plan", ReadSettings),
        ("import", ReadSettings), ("train", TrainSettings), ("adapt", AdaptSettings),
        ("ask", EngineSettings), ("eval", EngineSettings), ("serve", ServerSettings),
        ("serve", EngineSettings)]  # fmt: skip


@pytest.mark.parametrize(("command", "kind"), USES)
def test_every_setting_is_an_option(command: str, kind: type[Settings]) -> None:
    parameters = {parameter.name: parameter for parameter in COMMANDS.commands[command].params}
    for field in settings_of(kind):
        option = parameters[field.name]
        assert option.help == field.metadata["help"]
        assert option.opts[0] in (
            f"--{field.name.replace('_', '-')}",
            "--source",
            "--trust-host",
            "--trust-proxy",
        )
        # what is to be predicted is not handed over
        if (command, field.name) != ("eval", "observed"):
            assert option.default in (
                field.default,
                list(field.default or ()) if field.default == () else None,
            )


def command() -> tuple[typer.Typer, list[dict[str, Any]]]:
    """Return a command with engine settings, and the arguments of its calls."""
    app = typer.Typer()
    heard = []

    @app.command(cls=options.FlagCommand)
    @options.of_settings(EngineSettings, flags={"strength": "--force-of-not"})
    def ask(
        query: Annotated[str, typer.Argument()], settings: dict[str, Any], top: int = 3
    ) -> None:
        heard.append({"query": query, "top": top, **settings})
        EngineSettings.of(settings)
        if top < 1:
            raise SettingsError(f"top is {top}; it must be at least 1", "top")

    return app, heard


def test_only_what_was_given_reaches_a_command() -> None:
    app, heard = command()
    CliRunner().invoke(app, ["q"], catch_exceptions=False)
    CliRunner().invoke(
        app, ["q", "--k", "256", "--observed", "none", "--top", "9"], catch_exceptions=False
    )
    assert heard == [
        {"query": "q", "top": 3},
        {"query": "q", "top": 9, "k": 256, "observed": "none"},
    ]


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--logic", "fuzzy"], f"--logic is 'fuzzy'; it must be one of {', '.join(LOGICS)}"),
        (["--force-of-not", "0"], "--force-of-not is 0.0; it must be above 0"),
        (["--observed-score", "2"], "--observed-score is 2.0; it must be at most 1"),
        (["--top", "0"], "--top is 0; it must be at least 1"),
    ],
)
def test_an_error_about_a_parameter_names_its_flag(arguments: list[str], message: str) -> None:
    error = CliRunner().invoke(command()[0], ["q", *arguments]).exception
    assert isinstance(error, SettingsError)
    assert str(error) == message


def test_a_command_without_settings_names_flags_too() -> None:
    fetch = ["data", "fetch", "http://localhost", "--out", "facts.nt", "--timeout", "1e9"]
    error = CliRunner().invoke(tacit, fetch).exception
    assert isinstance(error, SettingsError)
    assert str(error) == "--timeout is 1000000000.0; it must be from 0.1 to 86400"
