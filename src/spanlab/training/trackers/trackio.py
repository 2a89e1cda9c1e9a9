"""trackio: its database is where trackio keeps all (TRACKIO_DIR), so that its dashboard shows runs side by side."""

import os
import secrets
import sys
from contextlib import redirect_stdout

from spanlab.training.records import Record
from spanlab.training.trackers.tracker import TrackedRun, numbers


class Trackio:
    """Logs to one trackio run, in the project TRACKIO_PROJECT or `spanlab`."""

    def __init__(self, run: TrackedRun) -> None:
        import trackio

        # trackio knows a run by its name alone; two run folders may have the same.
        name = run.identity("trackio") or f"{run.name}-{secrets.token_hex(3)}"
        self._finish = trackio.finish  # the run's own `finish` leaves it to be ended once more, aloud, at exit
        with redirect_stdout(sys.stderr):  # stdout is for results, and trackio prints its greetings there
            self._run = trackio.init(
                project=os.environ.get("TRACKIO_PROJECT", "spanlab"),
                name=name,
                config=run.flat_config(),
                resume="allow",
            )
        run.remember("trackio", name)

    def log(self, record: Record) -> None:
        """One row a record."""
        self._run.log({**numbers(record), "epoch": record.epoch}, step=record.step)

    def close(self) -> None:
        """Wait until all is written."""
        with redirect_stdout(sys.stderr):
            self._finish()
