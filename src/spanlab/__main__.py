"""`python -m spanlab`, the same as the `spanlab` command; torchrun needs this form."""

import os
import sys

from spanlab.cli.main import main


def leave_at_once(code: object) -> None:
    """End the process without taking the interpreter down; what `main` returned or raised decides the exit code."""
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(code if isinstance(code, int) else int(code is not None))


if __name__ == "__main__":
    if "TORCHELASTIC_RUN_ID" not in os.environ:
        main()
    else:
        # Threads of gloo may still release tensors, which aborts a process whose interpreter is being taken down, and
        # torchrun then reports a finished run as failed.
        try:
            main()
        except SystemExit as exit_:
            leave_at_once(exit_.code)
        leave_at_once(None)
