"""Text from users' data in a Markdown page: labels, file names and settings are shown as they are, never interpreted.

A label may hold HTML, a table's separator, a link or a backtick. Renderers differ in what they let through, so nothing
is left to them.
"""

import html
import re

_SPECIAL = re.compile(r"[\\`*\[\]|~]|(?<![^\W_])_|_(?![^\W_])|^[#+-]|^\d+(?=[.)])")
"""Characters with a meaning, but for underscores inside a word, and what only has one at the start of a line."""


def plain(text: str) -> str:
    """Text for a line or a table's cell."""
    escaped = _SPECIAL.sub(lambda match: match[0] + "\\" if match[0].isdigit() else "\\" + match[0], _one_line(text))
    return html.escape(escaped, quote=False)


def code(text: str, *, cell: bool = False) -> str:
    """Text in fixed-width letters; `cell`: inside a table, where a bar would end the cell even here."""
    line = _one_line(text) or " "
    fence = _fence(line, 1)
    space = " " if "`" in (line[0], line[-1]) else ""
    return f"{fence}{space}{line.replace('|', chr(92) + '|') if cell else line}{space}{fence}"


def code_block(text: str, language: str) -> str:
    """Several lines in fixed-width letters."""
    fence = _fence(text, 3)
    return f"{fence}{language}\n{text}\n{fence}"


def _one_line(text: str) -> str:
    return " ".join("".join(character if character.isprintable() else " " for character in text).split())


def _fence(text: str, shortest: int) -> str:
    """A run of backticks longer than any in the text."""
    longest = max(map(len, re.findall("`+", text)), default=0)
    return "`" * max(shortest, longest + 1)
