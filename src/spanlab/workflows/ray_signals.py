"""Where the workers of a Ray run and the process that started it leave word for each other.

The desk is an actor beside that process, so it outlives any worker; when the process is gone, so is the desk.
"""

import signal
from dataclasses import dataclass
from typing import Any

from spanlab.workflows.run import RunResult

Outcome = RunResult | Exception


@dataclass(frozen=True, kw_only=True)
class RunState:
    """What was left at the desk."""

    outcome: Outcome | None = None
    """How the run has ended, once it has."""
    stop_signal: signal.Signals | None = None
    """The signal by which the run is asked to save its state and end."""
    closed: bool = False
    """Nobody waits for the run any more."""


class RunSignals:
    """The actor itself."""

    def __init__(self) -> None:
        self._outcome: Outcome | None = None
        self._stop_signal: signal.Signals | None = None

    def read(self) -> RunState:
        """Everything that was left here."""
        return RunState(outcome=self._outcome, stop_signal=self._stop_signal)

    def end(self, outcome: Outcome) -> None:
        """The run is over; what was said first counts."""
        if self._outcome is None:
            self._outcome = outcome

    def ask_to_stop(self, number: signal.Signals) -> None:
        """The run is to end."""
        self._stop_signal = number


@dataclass(frozen=True)
class RemoteRunSignals:
    """A desk as it is reached from anywhere in the cluster."""

    actor: Any

    @classmethod
    def open(cls) -> "RemoteRunSignals":
        """A new desk on the machine of this process."""
        import ray
        from ray.util.scheduling_strategies import NodeAffinitySchedulingStrategy

        here = NodeAffinitySchedulingStrategy(ray.get_runtime_context().get_node_id(), soft=False)
        return cls(ray.remote(num_cpus=0, scheduling_strategy=here)(RunSignals).remote())

    def read(self) -> RunState:
        """Everything that was left at the desk."""
        import ray

        try:
            word = ray.get(self.actor.read.remote())
        except ray.exceptions.RayActorError:
            return RunState(closed=True)
        assert isinstance(word, RunState)
        return word

    def end(self, outcome: Outcome) -> None:
        """Tell how the run has ended."""
        import ray

        ray.get(self.actor.end.remote(outcome))

    def ask_to_stop(self, number: signal.Signals) -> None:
        """Ask the run to save its state and end."""
        self.actor.ask_to_stop.remote(number)

    def close(self) -> None:
        """Wait for the run no more: what is left of it ends at once."""
        import ray

        ray.kill(self.actor)
