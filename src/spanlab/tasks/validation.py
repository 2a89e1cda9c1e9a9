"""What is wrong with one labelled example: told by `spanlab data check`, refused or dropped by training."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from spanlab.errors import InputError
from spanlab.tasks.formats.row import Row


@dataclass(frozen=True, kw_only=True)
class Problem:
    """One fault of one row."""

    kind: str
    """A few words that are the same for all faults of a kind, such as `misaligned span`: what counts are made of."""
    cause: str
    """The fault itself, with the offending value."""
    fix: str | None = None
    serious: bool = True
    """Whether training must not take the row; a problem that is not is only told."""
    repaired: Mapping[str, Any] | None = None
    """The row's values with all that can be mended without guessing mended; None: the row must be dropped."""

    def error(self, row: Row) -> InputError:
        """The problem as the error that stops a run."""
        return row.error(self.cause, self.fix)
