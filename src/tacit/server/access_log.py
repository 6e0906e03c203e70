"""The access log: a line of JSON for each request, and never a key."""

from __future__ import annotations

import logging
import sys
from logging.handlers import WatchedFileHandler

from tacit.errors import SettingsError


def access_log(place: str | None) -> logging.Logger | None:
    """A log that appends its lines to a file, or to standard error for `-`; a file that is moved away is begun anew."""
    if place is None:
        return None
    try:
        handler = logging.StreamHandler(sys.stderr) if place == "-" else WatchedFileHandler(place, encoding="utf-8")
    except OSError as error:
        raise SettingsError(
            f"access_log is '{place}', which cannot be written ({error.strerror})", "access_log"
        ) from None
    log = logging.Logger("tacit.access")  # of its own: two services in one process write apart
    log.addHandler(handler)
    return log
