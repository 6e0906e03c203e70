"""A worker of pytest-xdist whose test hangs is missed, whatever processes it has forked."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

HANGS = """
import os, time

def test_hangs():
    if not os.fork():
        time.sleep(60)
        os._exit(0)
    time.sleep(60)
"""
LIMITS = ("-o", "faulthandler_timeout=1", "-o", "faulthandler_exit_on_timeout=true")


@pytest.mark.skipif(not Path("/proc/self/fd").is_dir(), reason="needs /proc")
def test_a_forked_process_keeps_nobody_waiting_for_a_worker_that_died(tmp_path: Path) -> None:
    (tmp_path / "pytest.ini").write_text("[pytest]\n")
    (tmp_path / "test_it.py").write_text(HANGS)
    options = ("-p", "forks", "-p", "no:cacheprovider", "-n", "1", "--max-worker-restart", "0")
    command = [sys.executable, "-m", "pytest", "-q", *options, *LIMITS, "test_it.py"]
    told = tmp_path / "told.txt"
    with told.open("w") as out:  # a pipe would be kept open by what is forked
        done = subprocess.run(
            command,
            cwd=tmp_path,
            env=os.environ | {"PYTHONPATH": str(Path(__file__).parent)},
            stdin=subprocess.DEVNULL,
            stdout=out,
            stderr=subprocess.STDOUT,
            timeout=25,
            check=False,
        )
    assert done.returncode == 1, told.read_text()
    assert "worker 'gw0' crashed while running" in told.read_text()
