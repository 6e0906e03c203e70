"""How files of facts are read."""

from __future__ import annotations

import os
from dataclasses import dataclass

from tacit.settings import Settings, setting

STANDARD_INPUT = "-"  # where the path of a file is expected


@dataclass(frozen=True)
class ReadSettings(Settings):
    """What to make of the files of a graph."""

    noun = "reading"

    literals: bool = setting(False, "Keep the literals of RDF files as entities.")
    labels: str | None = setting(None, "A table of two columns, label and readable name.", read=os.fspath)
    language: str = setting("en", "The language of names in RDF files that comes first.")
    columns: str | None = setting(
        None, "Head, relation and tail in a table: their names or positions, as in head,tail,relation or 1,3,2."
    )
    format: str = setting("tsv", "What standard input holds, as an extension says it: csv, ttl, nt.gz.")
