"""Small quickstarts for tests: a few steps of tiny models on little text, in this process or in one that is killed."""

import os
import signal
import sys
from pathlib import Path
from typing import Any

from spanlab.quickstart import plan
from spanlab.quickstart.events import QuickstartEvents
from spanlab.quickstart.plan import QuickstartSettings
from spanlab.quickstart.results import ModelScores, QuickstartResults, Sample, SampleSpan
from spanlab.quickstart.run import run_quickstart
from spanlab.training.loop import Training
from spanlab.training.records import Record


def small(out: Path, text: Path, **changes: Any) -> QuickstartSettings:
    """Settings of a quickstart that takes a moment."""
    given: dict[str, Any] = {"size": "tiny", "vocabulary": 1000, "steps": 2, "minilm": False, **changes}
    return QuickstartSettings(out=out, text=(str(text),), **given)


def results_of(before: float, after: float, left_out: str = "") -> QuickstartResults:
    """Findings with these scores in every column, without and with pre-training, and one sample of each task."""
    text = "Ana <b> sleeps in Rome."
    name, place = (SampleSpan(start=0, end=3, label="PER"), SampleSpan(start=18, end=22, label="LOC"))
    answer = (SampleSpan(start=18, end=22),)
    predicted = {plan.UNTRAINED: (), plan.PRETRAINED: (name,)}
    return QuickstartResults(
        rows=(_row(plan.UNTRAINED, before), _row(plan.PRETRAINED, after)),
        left_out=left_out,
        tested={"entities": 33, "questions": 136},
        entities=(Sample(id="a", text=text, gold=(name, place), predicted=predicted),),
        questions=(
            Sample(
                id="b",
                text=text,
                question="Where does Ana sleep?",
                gold=answer,
                predicted={plan.UNTRAINED: (), plan.PRETRAINED: answer},
            ),
        ),
        seconds=361.0,
    )


def _row(initial_weights: str, score: float) -> ModelScores:
    scores = {task.name: dict.fromkeys(task.metrics, score) for task in plan.TASKS}
    return ModelScores(
        initial_weights=initial_weights,
        title=plan.TITLES[initial_weights],
        pretraining="some steps",
        scores=scores,
        steps=dict.fromkeys(scores, 5),
    )


class Listener(QuickstartEvents):
    """Keeps what a quickstart tells."""

    def __init__(self) -> None:
        self.said: list[str] = []
        self.runs = 0

    def say(self, line: str) -> None:
        self.said.append(line)

    def run_begins(self, training: Training[Any], notes: tuple[str, ...]) -> None:
        self.runs += 1


class Killer(QuickstartEvents):
    """Ends the process, as a power cut would, at the given event; what was done by an earlier session is none."""

    def __init__(self, last: int) -> None:
        self._left = last

    def say(self, line: str) -> None:
        if not line.endswith("already done"):
            self._event()

    def record(self, record: Record) -> None:
        self._event()

    def _event(self) -> None:
        self._left -= 1
        if self._left == 0:
            os.kill(os.getpid(), signal.SIGKILL)


if __name__ == "__main__":
    folder, source, event = sys.argv[1:]
    run_quickstart(small(Path(folder), Path(source)), Killer(int(event)))
