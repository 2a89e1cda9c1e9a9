"""MkDocs hooks of `make docs`: formulas as MathML.

Browsers render MathML natively, so the pages need no script and no network.
"""

import re
from html import unescape

from latex2mathml.converter import convert

_FORMULA = re.compile(r'<(span|div) class="arithmatex">\\([(\[])(?P<tex>.*?)\\[)\]]</\1>', re.DOTALL)


def on_page_content(html: str, **_: object) -> str:
    """Turn the formulas of a page into MathML."""
    return _FORMULA.sub(_mathml, html)


def _mathml(match: re.Match[str]) -> str:
    whole_line = match[2] == "["
    formula = convert(unescape(match["tex"]), display="block" if whole_line else "inline")
    return f"<p>{formula}</p>" if whole_line else formula
