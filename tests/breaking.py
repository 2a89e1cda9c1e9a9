"""Operations that break at a chosen moment, as a kill or a full disk breaks them."""

import resource
import signal
from collections.abc import Callable, Iterator
from contextlib import contextmanager
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


@contextmanager
def file_size_limit(size: int) -> Iterator[None]:
    """No file may grow beyond `size` bytes, as on a disk that is full; needs no file system of its own."""
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    handler = signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
    resource.setrlimit(resource.RLIMIT_FSIZE, (size, before[1]))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)
        signal.signal(signal.SIGXFSZ, handler)
