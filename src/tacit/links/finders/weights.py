"""Which weights a run has: a fingerprint for the files that are of use with them alone."""

from __future__ import annotations

import json
from contextlib import suppress
from hashlib import sha256
from pathlib import Path
from typing import Any

from tacit.disk import from_json, write_text
from tacit.errors import RunError, TacitError
from tacit.run.folder import MODEL, WEIGHTS, RunFolder

FileState = tuple[tuple[str, int, int], ...]


def weights_state(run: RunFolder) -> FileState:
    """Name, size and time of the files of a run's weights: one, or as many as there were processes to train them."""
    files = sorted(run.path.glob(f"{Path(MODEL).stem}*.safetensors"))
    stats = [path.stat() for path in files]
    return tuple((path.name, stat.st_size, stat.st_mtime_ns) for path, stat in zip(files, stats, strict=True))


def weights_fingerprint(run: RunFolder, opened: FileState) -> str:
    """A hash of every byte of a run's weights, which must be those that were `opened`.

    To hash a gigabyte takes half a second. So `weights.json` keeps the hash beside size and time of the files, and is
    believed as long as these are the same: a file that is written anew has another time.
    """
    if not opened:
        raise RunError(f"run '{run.path}' has no {MODEL}; train it first")
    if weights_state(run) != opened:
        raise RunError(f"the weights of run '{run.path}' were changed since it was opened; open it again")
    kept, state = _kept(run.path / WEIGHTS), [list(file) for file in opened]
    if kept.get("files") == state:
        return str(kept["sha256"])
    hashed = sha256()
    for name, _, _ in opened:
        with (run.path / name).open("rb") as file:
            while block := file.read(2**22):
                hashed.update(block)
    made = {"files": state, "sha256": hashed.hexdigest()}
    with suppress(TacitError):  # a run may lie where one may only read
        write_text(run.path / WEIGHTS, json.dumps(made))
    return hashed.hexdigest()


def _kept(path: Path) -> dict[str, Any]:
    try:
        kept = from_json(path.read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return {}
    return kept if isinstance(kept, dict) and isinstance(kept.get("sha256"), str) else {}
