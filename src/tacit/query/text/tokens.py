"""The words of the text syntax, written once for its grammar, its readers and writers, and the page.

`\\w` stands in brackets throughout, so that `javascript` can spell it out.
"""

from __future__ import annotations

LETTER = r"[\w]"
INSIDE = r"[\w.:/+'-]"  # a name goes on with these, and ends with a letter
NAME = rf"[+/-]*{LETTER}(?:{INSIDE}*{LETTER})?"
STRING = r""""(?:[^"\\]|\\.)*"|'(?:[^'\\]|\\.)*'"""
# A quote without an end reaches to the end: looking for one from every quote on would take the square of the length.
UNCLOSED = STRING.replace('*"', '*"?').replace("*'", "*'?")
VARIABLE = rf"\?{LETTER}+"
PARAMETER = rf"\${LETTER}+"
INVERSE = r"\^-1|⁻¹"
KEYWORDS = ("and", "or", "not", "exists")


def javascript(pattern: str) -> str:
    r"""A pattern of this module as JavaScript reads it, with the flags `s` and `u`: its `\w` knows ASCII alone.

    >>> print(javascript(VARIABLE))
    \?[\p{L}\p{N}_]+
    """
    return pattern.replace(r"\w", r"\p{L}\p{N}_")
