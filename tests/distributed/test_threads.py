"""Threads follow the size of the work and the free cores, and are restored after it."""

from __future__ import annotations

import math
import os
import subprocess
import sys
import threading
from collections.abc import Callable
from pathlib import Path
from threading import Thread
from typing import Any

import pytest
import torch

from rank_processes import in_processes
from source_tree import SRC
from tacit.distributed import threads as chosen
from tacit.distributed.threads import (
    Watch,
    busy,
    choose_again,
    free_cores,
    quota,
    spread,
    threads_for,
    wait_asleep,
)
from tacit.engine.questions import reset_threads_after_fork


@pytest.mark.parametrize(
    ("cores", "free"),
    [
        ({"allowed": 1}, 1),
        ({"allowed": 8}, 8),
        ({"allowed": 8, "quota": 2.0}, 2),
        ({"allowed": 8, "quota": 0.5}, 1),
        ({"allowed": 2, "others": 0.2}, 2),
        # what one busy process gets beside two threads of ours
        ({"allowed": 2, "others": 0.67}, 1),
        ({"allowed": 2, "others": 1.0}, 1),
        ({"allowed": 2, "others": 2.0}, 1),
        ({"allowed": 8, "quota": 6.0, "others": 5.0}, 3),
    ],
)
def test_free_cores_are_those_allowed_less_those_in_use(cores: dict[str, Any], free: int) -> None:
    assert free_cores(**cores) == free


def watch(free: Callable[[], int]) -> Any:
    """Return an observer that reports a number of free cores."""
    return type("", (), {"free": lambda self: free()})()


def write(folder: Path, **files: str) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    for name, text in files.items():
        folder.joinpath(name.replace("_", ".", 1)).write_text(text, encoding="utf-8")


def test_the_tightest_control_group_counts(tmp_path: Path) -> None:
    mounted = tmp_path / "cgroup"
    groups = tmp_path / "self"
    groups.write_text("0::/service/worker\n", encoding="utf-8")
    assert quota(groups, mounted) == math.inf
    write(mounted / "service", cpu_max="150000 100000\n")
    write(mounted / "service" / "worker", cpu_max="max 100000\n")
    assert quota(groups, mounted) == 1.5
    write(mounted / "service" / "worker", cpu_max="50000 100000\n")
    assert quota(groups, mounted) == 0.5
    # as a container names what it cannot see
    groups.write_text("0::/elsewhere/outside\n", encoding="utf-8")
    write(mounted, cpu_max="200000 100000\n")
    assert quota(groups, mounted) == 2.0
    for odd in ("", "\n", "nothing of the kind\n", "0:\n", "0::/../..\n"):
        groups.write_text(odd, encoding="utf-8")
        assert quota(groups, mounted) in (2.0, math.inf)
    for odd in ("max\n", "\n", "0 100000\n", "-1 100000\n", "100000 0\n", "1 2 3\n"):
        write(mounted, cpu_max=odd)
        assert quota(groups, mounted) == math.inf
    assert quota(tmp_path / "nothing", mounted) == math.inf


@pytest.mark.parametrize("mount", ["cpu,cpuacct", "cpu"])
def test_control_groups_of_version_1(tmp_path: Path, mount: str) -> None:
    groups = tmp_path / "self"
    groups.write_text("5:memory:/box\n4:cpu,cpuacct:/box/inner\n0::/\n", encoding="utf-8")
    write(tmp_path / mount / "box", cpu_cfs_quota_us="300000\n", cpu_cfs_period_us="100000\n")
    write(tmp_path / mount / "box" / "inner", cpu_cfs_quota_us="-1\n", cpu_cfs_period_us="100000\n")
    write(tmp_path / "memory" / "box", cpu_cfs_quota_us="100\n", cpu_cfs_period_us="100000\n")
    assert quota(groups, tmp_path) == 3.0


STAT = """cpu  300 10 40 5000 60 5 6 7 0 0
cpu0 100 4 20 2500 30 2 3 5 9 9
cpu1 200 6 20 2500 30 3 3 2 9 9
cpu10 1 0 0 0 0 0 0 0 0 0
intr 12 3
procs_running 4
"""


def test_busy_time_is_that_of_the_cores_allowed() -> None:
    assert busy(STAT, {0}) == (134.0, 4)
    assert busy(STAT, {0, 1}) == (134.0 + 234.0, 4)
    assert busy("", {0, 1}) == (0.0, 0)
    # as a sandbox may write it
    assert busy("\ncpu0 7 0 1\ncpu1\nprocs_running\ncpufreq x\n", {0, 1}) == (8.0, 0)


@pytest.mark.skipif(not hasattr(os, "sched_getaffinity"), reason="without affinity")
def test_what_others_used_is_what_this_process_did_not(monkeypatch: pytest.MonkeyPatch) -> None:
    moments = {
        "now": 100.0,
        "own": 5.0,
        "stat": "cpu0 0 0 0 0 0 0 0 0\ncpu1 0 0 0 0 0 0 0 0\nprocs_running 3\n",
    }
    monkeypatch.setattr(chosen.os, "sched_getaffinity", lambda _: {0, 1, 2, 3})
    monkeypatch.setattr(chosen.os, "cpu_count", lambda: 4)
    monkeypatch.setattr(chosen.os, "sysconf", lambda _: 100)
    monkeypatch.setattr(chosen.time, "monotonic", lambda: moments["now"])
    monkeypatch.setattr(chosen.time, "process_time", lambda: moments["own"])
    monkeypatch.setattr(
        chosen, "_text", lambda path: moments["stat"] if path.name == "stat" else ""
    )
    watched = Watch()
    assert watched.free() == 2  # three run, and one of them asks
    moments |= {"now": 100.05, "stat": ""}
    assert watched.free() == 2  # too soon to look again
    # In half a second the cores worked 80 ticks, 0.8 s, of which 0.3 s were this process: another
    # one used a core.
    moments |= {
        "now": 100.5,
        "own": 5.3,
        "stat": "cpu0 50 0 0 0 0 0 0 0\ncpu1 0 0 30 20 0 0 0 0\nprocs_running 9\n",
    }
    assert watched.free() == 3


def test_a_section_follows_the_cores_and_puts_threads_back(monkeypatch: pytest.MonkeyPatch) -> None:
    others = [0.0]
    monkeypatch.setattr(chosen, "_WATCH", watch(lambda: free_cores(2, others=others[0])))
    before = torch.get_num_threads()
    torch.set_num_threads(2)
    try:
        with threads_for(1e12):
            assert torch.get_num_threads() == 2
            others[0] = 2.0
            choose_again()
            assert torch.get_num_threads() == 1
            with threads_for(1.0):  # small work inside, which ends
                choose_again()
            others[0] = 0.0
            choose_again()
            assert torch.get_num_threads() == 2
            others[0] = 1.5
            choose_again()
        assert torch.get_num_threads() == 2
        choose_again()  # nothing is under way
        assert torch.get_num_threads() == 2
        torch.set_num_threads(1)  # who asks for one thread gets no more
        others[0] = 0.0
        with threads_for(1e12):
            assert torch.get_num_threads() == 1
    finally:
        torch.set_num_threads(before)


def test_threads_of_python_share_the_cores_and_each_gets_back_what_it_had(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Torch starts a new thread with the number of threads that another one has set."""
    monkeypatch.setattr(chosen, "_WATCH", watch(lambda: 4))
    before = torch.get_num_threads()
    seen = dict[str, int]()
    torch.set_num_threads(4)

    def ask() -> None:
        with threads_for(1e12):
            seen["beside"] = torch.get_num_threads()
        seen["after"] = torch.get_num_threads()

    try:
        for work, beside in ((1.0, 2), (1e12, 2)):
            with threads_for(work):
                other = Thread(target=ask, daemon=True)
                other.start()
                other.join()
                assert seen == {"beside": beside, "after": 4}
        with threads_for(1e12):
            assert torch.get_num_threads() == 4  # nobody else is at work
        with pytest.raises(ValueError, match="wrong"), threads_for(1.0), threads_for(1e12):
            raise ValueError("wrong")
        assert torch.get_num_threads() == 4
        assert not chosen._AT_WORK
    finally:
        torch.set_num_threads(before)


def threads_of_a_fork(number: int) -> int:
    """The threads that large work uses in a process forked while another thread worked."""
    chosen._WATCH = watch(lambda: 4)
    torch.set_num_threads(4)
    reset_threads_after_fork()
    inside = threading.Event()
    done = threading.Event()

    def work() -> None:
        with threads_for(1e12):
            inside.set()
            done.wait()

    other = Thread(target=work, daemon=True)
    other.start()
    inside.wait()
    child = os.fork()
    if not child:
        with threads_for(1e12):
            os._exit(torch.get_num_threads())
    ended = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
    done.set()
    other.join()
    return ended


@pytest.mark.skipif(not hasattr(os, "fork"), reason="without forks")
def test_a_forked_process_stays_on_its_one_thread(tmp_path: Path) -> None:
    """Other threads of the parent are gone after a fork, and so is the team of OpenMP."""
    assert in_processes(1, tmp_path, threads_of_a_fork) == [1]


def test_waiting_is_left_to_who_has_said_how() -> None:
    for variables, expected in (
        ({}, chosen.WAITING),
        ({"GOMP_SPINCOUNT": "7"}, chosen.WAITING | {"GOMP_SPINCOUNT": "7"}),
        ({"OMP_WAIT_POLICY": "active"}, {"OMP_WAIT_POLICY": "active"}),
    ):
        environment = dict(variables)
        wait_asleep(environment)
        assert environment == expected


def test_the_library_leaves_the_environment_and_the_threads_alone() -> None:
    ask = (
        "import os; before = dict(os.environ); import tacit, torch; threads = "
        "torch.get_num_threads();from tacit.links.scorer import GraphScorer; import "
        "tacit.cli;graph = tacit.Graph.of([('a', 'r', 'b'), ('b', 'r', 'c')]);engine = "
        "tacit.Engine(graph, GraphScorer(graph.index(), graph.num_entities), "
        "calibration='sigmoid');engine.ask('?c : exists ?n . r(a, ?n) & r(?n, ?c)');assert "
        "dict(os.environ) == before and torch.get_num_threads() == threads"
    )
    subprocess.run(
        [sys.executable, "-c", ask], check=True, env=os.environ | {"PYTHONPATH": str(SRC)}
    )


def test_the_command_lets_threads_sleep_before_torch_is_loaded() -> None:
    command = (
        "import os, sys; sys.argv = ['tacit', '--version']; from tacit.cli import main\n"
        "try: main()\n"
        "finally: print('torch' in sys.modules, os.environ['GOMP_SPINCOUNT'])"
    )
    environment = {name: value for name, value in os.environ.items() if name not in chosen.WAITING}
    environment = environment | {"PYTHONPATH": str(SRC)}
    environment.pop("OMP_WAIT_POLICY", None)
    done = subprocess.run(
        [sys.executable, "-c", command], check=True, env=environment, capture_output=True, text=True
    )
    assert done.stdout.splitlines()[-1] == f"False {chosen.WAITING['GOMP_SPINCOUNT']}"


def test_pieces_are_spread_over_threads_each_done_once_and_alone() -> None:
    done = list[tuple[int, int, bool, str]]()
    before = torch.get_num_threads()
    torch.set_num_threads(2)
    # the first two pieces wait for each other, so that one thread alone would not end
    met = threading.Barrier(2)

    def record_piece(piece: int) -> None:
        if piece < 2:
            met.wait(30)
        done.append(
            (
                piece,
                torch.get_num_threads(),
                torch.is_grad_enabled(),
                threading.current_thread().name,
            )
        )

    try:
        with torch.no_grad():
            spread(record_piece, range(9))
        assert sorted(piece for piece, *_ in done) == list(range(9))
        assert {(at_once, grad) for _, at_once, grad, _ in done} == {(1, False)}
        assert len({name for *_, name in done}) == 2
        assert torch.get_num_threads() == 2
        for bad in (0, 1, 5):  # whichever thread it happens in
            with pytest.raises(ValueError, match="of no use"):
                spread(lambda piece, bad=bad: _refuse(piece == bad), range(6))
            assert torch.get_num_threads() == 2
    finally:
        torch.set_num_threads(before)


def _refuse(it: bool) -> None:
    if it:
        raise ValueError("of no use")
