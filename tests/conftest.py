"""Lets tests in any folder import the modules beside this file, and the scripts of `benchmarks`.

Random examples are the same in every run, so that a change fails by its own fault; `HYPOTHESIS_PROFILE=default` draws
new ones.
"""

import os
import sys
from pathlib import Path

from hypothesis import settings

sys.path.insert(0, str(Path(__file__).parent))
sys.path.append(str(Path(__file__).parents[1] / "benchmarks"))

settings.register_profile("steady", derandomize=True)
settings.load_profile(os.environ.get("HYPOTHESIS_PROFILE", "steady"))

pytest_plugins = ["family_runs", "encoder_runs"]  # fixtures of runs that several files ask for
