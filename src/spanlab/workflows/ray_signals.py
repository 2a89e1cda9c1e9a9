"""Signals between the workers of a Ray run and the driver, the process that started it.

They go through an actor on the driver's machine, which outlives any worker and ends with the driver.
"""

import signal
from dataclasses import dataclass
from typing import Any

from spanlab.workflows.run import RunResult

Outcome = RunResult | Exception


@dataclass(frozen=True, kw_only=True)
class RunState:
    """The state of a Ray run, as known to the actor."""

    outcome: Outcome | None = None
    """The result or the error of the run, once it has ended."""
    stop_signal: signal.Signals | None = None
    """The signal that asks the run to write a checkpoint and end."""
    closed: bool = False
    """The driver no longer waits for the run."""


class RunSignals:
    """The actor: holds the stop signal for the workers and the outcome for the driver."""

    def __init__(self) -> None:
        self._outcome: Outcome | None = None
        self._stop_signal: signal.Signals | None = None

    def read(self) -> RunState:
        """The current state."""
        return RunState(outcome=self._outcome, stop_signal=self._stop_signal)

    def end(self, outcome: Outcome) -> None:
        """Set the outcome of the run; the first one counts."""
        if self._outcome is None:
            self._outcome = outcome

    def request_stop(self, signum: signal.Signals) -> None:
        """Ask the run to write a checkpoint and end."""
        self._stop_signal = signum


@dataclass(frozen=True)
class RemoteRunSignals:
    """The handle of a `RunSignals` actor, usable anywhere in the cluster."""

    actor: Any

    @classmethod
    def open(cls) -> "RemoteRunSignals":
        """Start a new actor on the machine of this process."""
        import ray
        from ray.util.scheduling_strategies import NodeAffinitySchedulingStrategy

        this_node = NodeAffinitySchedulingStrategy(ray.get_runtime_context().get_node_id(), soft=False)
        return cls(ray.remote(num_cpus=0, scheduling_strategy=this_node)(RunSignals).remote())

    def read(self) -> RunState:
        """The current state; `closed` once the actor is gone."""
        import ray

        try:
            state = ray.get(self.actor.read.remote())
        except ray.exceptions.RayActorError:
            return RunState(closed=True)
        assert isinstance(state, RunState)
        return state

    def end(self, outcome: Outcome) -> None:
        """Report the outcome of the run."""
        import ray

        ray.get(self.actor.end.remote(outcome))

    def request_stop(self, signum: signal.Signals) -> None:
        """Ask the run to write a checkpoint and end."""
        self.actor.request_stop.remote(signum)

    def close(self) -> None:
        """Kill the actor: workers that are still running end at once."""
        import ray

        ray.kill(self.actor)
