"""Lets tests in any folder import the modules beside this file, and the scripts of `benchmarks`."""

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent))
sys.path.append(str(Path(__file__).parents[1] / "benchmarks"))

pytest_plugins = ["family_runs", "encoder_runs"]  # fixtures of runs that several files ask for
