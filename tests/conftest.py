"""Lets tests in any folder import the modules beside this file, and the scripts of `benchmarks`.

Random examples are the same in every run, so that a change fails by its own fault; `make nightly`
draws new ones.
"""

import os
import signal
import sys
from collections.abc import Iterator
from functools import cache
from pathlib import Path

import pytest
from hypothesis import settings

sys.path.insert(0, str(Path(__file__).parent))
sys.path.append(str(Path(__file__).parents[1] / "benchmarks"))

# Programs started in the background ignore interrupts, and so do those that they start: the tests
# of Ctrl-C would wait for ever.
if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)

settings.register_profile("steady", derandomize=True, deadline=None)  # machines may be busy
settings.register_profile("nightly", print_blob=True, deadline=None)
settings.load_profile(os.environ.get("HYPOTHESIS_PROFILE", "steady"))

# What processes of tests need beside what workers need. An optimizer of torch loads torch._dynamo
# when it is made, and that takes as long as torch itself.
PRELOADED = ["torch._dynamo", "hypothesis", "pytest", "typer"]

# fixtures of runs that several files ask for, and what forked processes leave alone
pytest_plugins = ["family_runs", "encoder_runs", "forks"]


@pytest.fixture(scope="session", autouse=True)
def commands_are_made_once() -> Iterator[None]:
    """All commands and options, which `CliRunner` would make anew for each call."""
    import typer.testing

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(typer.testing, "_get_command", cache(typer.testing._get_command))
        yield


@pytest.fixture(scope="session", autouse=True)
def forked_processes_have_all_loaded() -> Iterator[None]:
    """One fork server serves services and tests, so it loads what either needs."""
    from multiprocessing.context import BaseContext

    needs = BaseContext.set_forkserver_preload
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(
            BaseContext,
            "set_forkserver_preload",
            lambda self, names: needs(self, [*names, *PRELOADED]),
        )
        yield
