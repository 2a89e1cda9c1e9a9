"""Standard input, output and error as commands find them: open or closed, and of any encoding."""

import errno
import io
import os
import sys
from pathlib import Path
from typing import TextIO, cast

from typing_extensions import override


class ClosedOutputError(OSError):
    """A result was printed, and standard output is closed."""

    def __init__(self) -> None:
        super().__init__(errno.EBADF, "standard output is closed; redirect it to a file, or to /dev/null")


class _ClosedOutput(io.TextIOBase):
    """In place of a closed standard output, which Python drops silently with all that is printed."""

    @override
    def write(self, text: str) -> int:
        raise ClosedOutputError


def prepare_streams() -> None:
    """Make printing fail with one line where standard output is closed, and never because of a character.

    Closed descriptors are given to /dev/null, so that no file of ours gets the number that libraries print to.
    """
    for descriptor in range(3):
        try:
            os.fstat(descriptor)
        except OSError:
            os.open(os.devnull, os.O_RDWR)  # takes the lowest free number, which is this one
    if sys.stdout is None:
        sys.stdout = cast(TextIO, _ClosedOutput())
    if sys.stderr is None:
        sys.stderr = Path(os.devnull).open("w", encoding="utf-8")  # noqa: SIM115 (until the process ends)
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="backslashreplace")
