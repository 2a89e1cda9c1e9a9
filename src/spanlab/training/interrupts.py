"""Ctrl-C and SIGTERM during a run: the step at hand is finished, the state saved, and only then the run ends.

A second Ctrl-C ends it at once; checkpoints are written whole, so that loses no more than the steps since the last.
"""

import signal
import threading
from types import FrameType, TracebackType


class Interrupts:
    """Notes the signals that ask a run to end, while it is entered; outside the main thread it hears none."""

    def __init__(self) -> None:
        self.received: signal.Signals | None = None
        self._before: dict[signal.Signals, signal.Handlers] = {}

    def __enter__(self) -> "Interrupts":
        if threading.current_thread() is threading.main_thread():
            for number in (signal.SIGINT, signal.SIGTERM):
                self._before[number] = signal.signal(number, self._note)  # type: ignore[assignment]
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        for number, handler in self._before.items():
            signal.signal(number, handler)

    def _note(self, number: int, frame: FrameType | None) -> None:
        # A launcher that is itself interrupted sends SIGTERM after the terminal's SIGINT: that is no second Ctrl-C.
        if number == signal.SIGINT and self.received == signal.SIGINT:
            raise KeyboardInterrupt
        if self.received is None:
            self.received = signal.Signals(number)
