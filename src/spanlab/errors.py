"""The errors a user can cause.

Each is a `SpanlabError`: one line that names the file and line, the cause and the fix. The command line turns it into
exit code 2; in Python it is a `ValueError`. Programming mistakes are plain assertions.

What a message echoes comes from files that may be damaged or hostile: every message is one line of limited length, and
characters that would move the cursor or reorder the text of a terminal are shown escaped.
"""

import unicodedata
from collections.abc import Iterable
from itertools import islice
from pathlib import Path
from typing import Any

_CAUSE, _FIX, _PATH = 400, 220, 1000
"""The most characters of a cause, a fix, and a path, which a file may name, too: no real one is that long."""


class SpanlabError(ValueError):
    """The user's input is wrong; the message is one line and names the fix."""

    def __init__(self, message: str = "") -> None:
        super().__init__(escape(message))


class InputError(SpanlabError):
    """A file (or a line of it) cannot be used.

    The message reads `path:line:column: cause; fix`, with the parts that are known. A cause or fix that is far too
    long, because it echoes what a file holds, is clipped in its middle.
    """

    def __init__(
        self,
        cause: str,
        *,
        path: str | Path | None = None,
        line: int | None = None,
        column: int | None = None,
        fix: str | None = None,
    ) -> None:
        cause, fix = clip(escape(cause), _CAUSE), fix and clip(escape(fix), _FIX)
        position = [clip(escape(str(part)), _PATH) for part in (path, line, column) if part is not None]
        message = ": ".join([":".join(position), cause]) if position else cause
        super().__init__(f"{message}; {fix}" if fix else message)
        self.path, self.line, self.column, self.cause, self.fix = path, line, column, cause, fix


class ConfigError(InputError):
    """A configuration has an unknown key, a value of the wrong type or out of bounds, or incompatible values."""


class WeightsError(InputError):
    """A weight file is damaged, or its tensors do not fit the model."""


class MissingHeadError(SpanlabError):
    """A model has no head for what it was asked to do."""


class MissingExtraError(SpanlabError):
    """An optional dependency is needed and not installed."""

    def __init__(self, extra: str, purpose: str) -> None:
        super().__init__(f"{purpose} needs the '{extra}' extra; pip install 'spanlab[{extra}]'")
        self.extra, self.purpose = extra, purpose

    def __reduce__(self) -> tuple[type["MissingExtraError"], tuple[str, str]]:
        """Pickled by its arguments, not its message, to pass between processes."""
        return MissingExtraError, (self.extra, self.purpose)


class LoadWarning(UserWarning):
    """Something about a model that does not stop it from being loaded, and that its user should know."""


class UnknownTokensWarning(UserWarning):
    """Texts have many tokens that the tokenizer does not know."""


class RunError(RuntimeError):
    """A run had to stop for a reason that is not in the user's input."""


def did_you_mean(name: str, known: Iterable[str]) -> str:
    """The hint ` (did you mean 'x'?)` for the known name nearest to `name`; empty when none is near."""
    near = nearest(name, known)
    return f" (did you mean '{near}'?)" if near is not None else ""


def nearest(name: str, known: Iterable[str]) -> str | None:
    """The known name that `name` is probably meant to be: a typing error away, or with the same beginning."""
    typed = name.lower()
    if len(typed) > _LONGEST_NAME:
        return None
    distances = {other: _edits(typed, other.lower()) for other in known if _may_be_near(typed, other.lower())}
    return min(distances, key=lambda other: distances[other], default=None)


_LONGEST_NAME = 100


def _may_be_near(typed: str, known: str) -> bool:
    pairs = enumerate(zip(typed, known, strict=False))
    beginning = next((index for index, (a, b) in pairs if a != b), min(len(typed), len(known)))
    if beginning >= max(3, 0.6 * len(typed)) or (beginning == len(known) and beginning >= 4):
        return True
    allowed = max(1, len(typed) // 4)
    return abs(len(typed) - len(known)) <= allowed and _edits(typed, known) <= allowed


def _edits(a: str, b: str) -> int:
    """The number of characters to insert, delete, replace or swap with their neighbour to turn `a` into `b`."""
    before: list[int] = []
    row = list(range(len(b) + 1))
    for i, character in enumerate(a, 1):
        before, previous, row = row, before, [i]
        for j, other in enumerate(b, 1):
            cost = min(before[j] + 1, row[j - 1] + 1, before[j - 1] + (character != other))
            if i > 1 and j > 1 and character == b[j - 2] and a[i - 2] == other:
                cost = min(cost, previous[j - 2] + 1)
            row.append(cost)
    return row[-1]


def clip_repr(value: Any, limit: int = 60) -> str:  # noqa: ANN401 (anything a file holds)
    """A value for an error message, clipped if it is long."""
    text = repr(_shortened(value, limit, depth=4))
    return text if len(text) <= limit else f"{text[: limit - 3]}…"


def escape(text: str) -> str:
    """The text on one line, with control characters, line breaks and marks of direction written as Python does."""
    if text.isprintable():
        return text
    return "".join(character if _is_harmless(character) else repr(character)[1:-1] for character in text)


def _is_harmless(character: str) -> bool:
    # Not: control characters, overrides of direction, halves of surrogate pairs, line separators, what is unassigned.
    return character.isprintable() or unicodedata.category(character) == "Zs"


def clip(text: str, limit: int) -> str:
    """A text without its middle if it is long."""
    return text if len(text) <= limit else f"{text[: limit * 2 // 3]} … {text[-(limit // 3) :]}"


def _shortened(value: Any, limit: int, depth: int) -> Any:  # noqa: ANN401
    """As much of a value as can be seen of it, since the representation of all may be huge or nested too deeply."""
    if isinstance(value, str | bytes):
        return value[: limit + 1]
    if isinstance(value, int) and value.bit_length() > 4 * limit:
        return _Number(value.bit_length())
    if depth == 0:
        return value if value is None or isinstance(value, int | float) else ...
    if isinstance(value, list | tuple):
        return type(value)([_shortened(item, limit, depth - 1) for item in value[:limit]])
    if isinstance(value, dict):
        items = islice(value.items(), limit)
        return {_shortened(key, limit, 1): _shortened(item, limit, depth - 1) for key, item in items}
    return value


class _Number:
    """Stands for an integer of so many bits that its digits would fill the message."""

    def __init__(self, bits: int) -> None:
        self._digits = int(bits * 0.30103) + 1

    def __repr__(self) -> str:
        return f"a number of {self._digits:,} digits"
