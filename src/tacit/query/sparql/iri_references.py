"""Resolves IRI references against a base, by RFC 3986."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any

_PARTS = re.compile(  # of an IRI reference, by RFC 3986, appendix B
    r"(?:([A-Za-z][A-Za-z0-9+.-]*):)?(?://([^/?#]*))?([^?#]*)(?:\?([^#]*))?(?:#(.*))?", re.DOTALL
)


def resolve_iri(reference: str, base: str) -> str:
    """Resolves an IRI reference against a base, by RFC 3986, section 5.2.

    >>> resolve_iri("", "http://e/x#f"), resolve_iri("../g", "http://a/b/c/d;p?q")
    ('http://e/x', 'http://a/b/g')
    """
    scheme, authority, path, query, fragment = _parts(reference)
    of_scheme, of_authority, of_path, of_query, _ = _parts(base)
    if scheme is not None or of_scheme is None:
        return reference
    if authority is None:
        authority = of_authority
        if not path:
            query = of_query if query is None else query
            path = of_path
        else:
            if not path.startswith("/"):
                rootless = of_authority is not None and not of_path
                path = ("/" if rootless else of_path[: of_path.rfind("/") + 1]) + path
            path = _without_dots(path)
    else:
        path = _without_dots(path)
    written = (("//", authority), ("", path), ("?", query), ("#", fragment))
    return f"{of_scheme}:" + "".join(f"{mark}{part}" for mark, part in written if part is not None)


def _parts(reference: str) -> Sequence[Any]:
    """Scheme, authority, path, query and fragment; None for absent parts."""
    match = _PARTS.fullmatch(reference)
    assert match is not None  # any text has a path
    return match.groups()


def _without_dots(path: str) -> str:
    """Removes the segments `.` and `..` from a path, by RFC 3986, section 5.2.4."""
    parts: list[str] = []
    rooted = path.startswith("/")
    segments = path[rooted:].split("/")
    for segment in segments:
        if segment == "..":
            del parts[-1:]
        elif segment != ".":
            parts.append(segment)
    open_ = segments[-1] in (".", "..") and bool(parts)  # it names a folder
    return "/" * rooted + "/".join(parts) + "/" * open_
