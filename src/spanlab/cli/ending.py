"""The end of a command: its process is left as it is, instead of being taken apart object by object.

Taking down an interpreter that has loaded torch takes half a second of a short command, and frees nothing that the end
of the process does not free. Everything that others have to do at the end is still done: threads are waited for, and
functions registered with `atexit` run. That is so because ours is registered first, and they run in reverse order.
"""

import atexit
import os
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

_ONE_PROCESS = {
    *("almanac", "data", "embed", "evaluate", "fill", "generate", "init", "inspect", "models"),
    *("predict", "recipe", "score", "tokenizer"),
}
"""Commands that start no processes which could still need this one."""

_PROGRAMS = {"spanlab", "spanlab.__main__", "spanlab.cli.main"}
"""The script that an install writes, and `python -m`."""


@contextmanager
def quick_ending(arguments: Sequence[str]) -> Iterator[None]:
    """Context of the whole program: with its SystemExit the process is over, if the command allows it."""
    ending = _Ending()
    if arguments and arguments[0] in _ONE_PROCESS and _is_the_program() and "TORCHELASTIC_RUN_ID" not in os.environ:
        atexit.register(ending)
    try:
        yield
    except SystemExit as exit_:
        ending.code = exit_.code or 0
        raise


def _is_the_program() -> bool:
    """Whether the process runs the command line and nothing else, unlike a test or a notebook."""
    module = sys.modules["__main__"]
    spec = getattr(module, "__spec__", None)
    return (spec.name if spec else Path(getattr(module, "__file__", "")).stem) in _PROGRAMS


class _Ending:
    """Ends the process with `code`; does nothing where that is not a number, as after an unexpected error."""

    code: object = None

    def __call__(self) -> None:
        if not isinstance(self.code, int) or "ray" in sys.modules:
            return
        try:
            sys.stdout.flush()
            sys.stderr.flush()
        except OSError:
            return  # Python says what it could not write
        os._exit(self.code)
