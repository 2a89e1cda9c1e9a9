"""Operations that break at a chosen moment, as a kill or a full disk breaks them."""

from collections.abc import Callable
from typing import Any


class Killed(BaseException):
    """Ends a run as a kill would: nothing in the product catches it."""


class Fuse:
    """Lets so many operations on files happen, then breaks the next one, before or after it is done."""

    def __init__(self, operations: int, break_with: Callable[[], BaseException], *, halfway: bool) -> None:
        self.left, self.break_with, self.halfway = operations, break_with, halfway
        self.broken = False

    def guard(self, operation: Callable[..., Any]) -> Callable[..., Any]:
        def guarded(*arguments: Any, **options: Any) -> Any:
            self.left -= 1
            if self.left < 0:
                self.broken = True
                if self.halfway:
                    operation(*arguments, **options)
                raise self.break_with()
            return operation(*arguments, **options)

        return guarded
