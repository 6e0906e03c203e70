"""Log lines with control characters escaped, so that no client can forge one."""

from __future__ import annotations

import logging
import sys
from logging.handlers import WatchedFileHandler

from tacit.engine.answers.aligned_cells import escape_control_chars
from tacit.errors import SettingsError


class LogLines(logging.Formatter):
    """One line a record; a traceback follows it, indented."""

    def __init__(self) -> None:
        super().__init__("%(levelname)s: %(message)s")

    def formatMessage(self, record: logging.LogRecord) -> str:  # noqa: N802
        """The line, with control characters written out."""
        return escape_control_chars(super().formatMessage(record))

    def formatException(self, ei: object) -> str:  # noqa: N802
        """The traceback, each line of it indented."""
        lines = super().formatException(ei).split("\n")  # type: ignore[arg-type]
        return "\n".join(f"    {escape_control_chars(line)}" for line in lines)


def write_log_lines() -> None:
    """Write warnings and errors of this process to standard error."""
    handler = logging.StreamHandler()
    handler.setFormatter(LogLines())
    logging.basicConfig(handlers=[handler], level=logging.WARNING)


def access_log(place: str | None) -> logging.Logger | None:
    """The log of requests, appended to a file, or to standard error for `-`.

    A file that is moved away is created again.
    """
    if place is None:
        return None
    try:
        handler = (
            logging.StreamHandler(sys.stderr)
            if place == "-"
            else WatchedFileHandler(place, encoding="utf-8")
        )
    except OSError as error:
        raise SettingsError(
            f"access_log is '{place}', which cannot be written ({error.strerror})", "access_log"
        ) from None
    log = logging.Logger("tacit.access")  # of its own: two services in one process write apart
    log.addHandler(handler)
    return log
