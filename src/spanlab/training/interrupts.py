"""Ctrl-C and SIGTERM during a run: it finishes the current step, writes a checkpoint and ends.

A second Ctrl-C ends it at once, which loses the steps since the last checkpoint. A signal that came too late to stop
its run, such as during the last evaluation, is passed on to whoever started the run and may start others. Where a
launcher owns the main thread and no signal arrives, `request_stop` takes its place.
"""

import signal
import threading
from types import FrameType, TracebackType
from typing import ClassVar


class Interrupts:
    """Context that records stop signals; outside the main thread only those of `request_stop`."""

    active: ClassVar[list["Interrupts"]] = []

    def __init__(self) -> None:
        self.received: signal.Signals | None = None
        self._previous: dict[signal.Signals, signal.Handlers] = {}

    def __enter__(self) -> "Interrupts":
        self.active.append(self)
        if threading.current_thread() is threading.main_thread():
            for signum in (signal.SIGINT, signal.SIGTERM):
                self._previous[signum] = signal.signal(signum, self._handle)  # type: ignore[assignment]
        return self

    def __exit__(
        self, error_type: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.active.remove(self)
        for signum, handler in self._previous.items():
            signal.signal(signum, handler)

    def pass_on(self) -> None:
        """End the caller, too, if a signal was received."""
        if self.received == signal.SIGINT:
            raise KeyboardInterrupt
        if self.received is not None:
            raise SystemExit(128 + self.received)

    def _handle(self, signum: int, frame: FrameType | None) -> None:
        # An interrupted launcher sends SIGTERM after the terminal's SIGINT: that is not a second Ctrl-C.
        if signum == signal.SIGINT and self.received == signal.SIGINT:
            raise KeyboardInterrupt
        if self.received is None:
            self.received = signal.Signals(signum)


def request_stop(signum: signal.Signals) -> None:
    """Stop the runs of this process as the signal would; idempotent."""
    for interrupts in Interrupts.active:
        interrupts.received = interrupts.received or signum
