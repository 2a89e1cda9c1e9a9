"""The errors a user can cause.

Each is a `SpanlabError`: one line that names the file and line, the cause and the fix. The command line turns it into
exit code 2; in Python it is a `ValueError`. Programming mistakes are plain assertions.
"""

from collections.abc import Iterable
from difflib import get_close_matches
from pathlib import Path


class SpanlabError(ValueError):
    """The user's input is wrong; the message is one line and names the fix."""


class InputError(SpanlabError):
    """A file (or a line of it) cannot be used.

    The message reads `path:line:column: cause; fix`, with the parts that are known.
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
        position = [str(part) for part in (path, line, column) if part is not None]
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


class RunError(RuntimeError):
    """A run had to stop for a reason that is not in the user's input."""


def did_you_mean(name: str, known: Iterable[str]) -> str:
    """The hint ` (did you mean 'x'?)` for the known name nearest to `name`; empty when none is near."""
    near = get_close_matches(name, list(known), n=1, cutoff=0.6)
    return f" (did you mean '{near[0]}'?)" if near else ""
