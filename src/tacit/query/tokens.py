"""Token patterns of the text syntax, shared by grammar, readers, writers and the page.

`\\w` stands in brackets throughout, so that `javascript` can spell it out.
"""

from __future__ import annotations

LETTER = r"[\w]"
INSIDE = r"[\w.:/+'-]"  # a name goes on with these, and ends with a letter
NAME = rf"[+/-]*{LETTER}(?:{INSIDE}*{LETTER})?"
# what opens a quoted name, and what closes it
QUOTES = {'"': '"', "'": "'", "“„”": "“”", "‘‚’": "‘’", "«": "»"}
STRING = "|".join(rf"[{start}](?:[^{end}\\]|\\.)*[{end}]" for start, end in QUOTES.items())
# An open quote reaches to the end; a search from every quote would take quadratic time.
UNCLOSED = "|".join(rf"[{start}](?:[^{end}\\]|\\.)*[{end}]?" for start, end in QUOTES.items())
OPENING = "".join(QUOTES)
CLOSING = "".join(QUOTES.values())
IRI = r"<[^<>\s]*>"
VARIABLE = rf"\?{LETTER}+"
PARAMETER = rf"\${LETTER}+"
INVERSE = r"\^-1|⁻¹"
COMPARE = "<=|>=|==|!=|[≤≥≠<>=]"
KEYWORDS = ("and", "or", "not", "exists")


def javascript(pattern: str) -> str:
    r"""Translates a pattern of this module to JavaScript, whose `\w` knows only ASCII.

    The flags `s` and `u` are assumed.

    >>> print(javascript(VARIABLE))
    \?[\p{L}\p{N}_]+
    """
    return pattern.replace(r"\w", r"\p{L}\p{N}_")
