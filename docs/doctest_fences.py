"""Doctests of docstrings as blocks of code, which the site's Markdown would take for quotations."""

from __future__ import annotations

import re
from typing import Any

import griffe

DOCTEST = re.compile(r"^>>> .*?(?=\n\s*\n|\Z)", re.MULTILINE | re.DOTALL)


class DoctestFences(griffe.Extension):
    """Puts a fence around every doctest before a docstring is rendered."""

    def on_object(self, *, obj: griffe.Object, **_: Any) -> None:
        """Rewrite the docstring of a module, class, function or attribute."""
        if obj.docstring and not obj.is_alias:
            obj.docstring.value = DOCTEST.sub(
                lambda shown: f"```pycon\n{shown[0]}\n```", obj.docstring.value
            )
