"""Small quickstarts for tests: a few steps on little text, in this process or in one that is killed."""

import os
import signal
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

from spanlab.quickstart import plan
from spanlab.quickstart.folder import QuickstartEvents
from spanlab.quickstart.plan import QuickstartSettings
from spanlab.quickstart.results import Answer, Continuation, FilledSpan, QuickstartResults, Reading, Row, Sample, Span
from spanlab.quickstart.run import run_quickstart
from spanlab.tasks.model import load_task_model, save_task_model
from spanlab.training.loop import Training
from spanlab.training.records import Record

MULTITASK = Path(__file__).parents[1] / "compat/data/tasks/multitask"


def small(out: Path, text: Path, reader: Path | None = None, **changes: Any) -> QuickstartSettings:
    """Settings of a quickstart that takes a moment."""
    given: dict[str, Any] = {"steps": 2, "minilm": False, "reader": None if reader is None else str(reader), **changes}
    return QuickstartSettings(out=out, text=(str(text),), **given)


def count_every_run() -> None:
    """Leave out no run for having learned too little."""
    plan.FLOOR, plan.STEEP, plan.FEWEST_STEPS = -1.0, 1000.0, 1


def save_reader(folder: Path) -> Path:
    """A tiny model with two of the reader's tasks, by their names."""
    model = load_task_model(MULTITASK)
    names = {"entities": "names", "qa": "who"}
    tasks, heads, adapters = (
        {name: parts[old] for name, old in names.items() if old in parts}
        for parts in (model.tasks, model.heads, model.adapters)
    )
    save_task_model(folder, replace(model, tasks=tasks, heads=heads, adapters=adapters))
    return folder


def results_of(before: float, after: float, *left_out: str) -> QuickstartResults:
    """Findings with these scores from random weights and from spanbert-mini-en."""
    text = "Ana <b> sleeps in Rome."
    name, place = (Span(start=0, end=3, label="PER"), Span(start=18, end=22, label="LOC"))
    return QuickstartResults(
        reading=Reading(
            text=text,
            answers=(Answer(question="Where does Ana sleep?", text="Rome"),),
            entities=(name,),
            clusters=((Span(start=0, end=3), Span(start=8, end=14)),),
        ),
        continuation=Continuation(
            steps=200,
            epochs=2.0,
            before={"mlm": 5.5, "sbo": 6.25},
            after={"mlm": 4.5, "sbo": 5.75},
            filled=(FilledSpan(left="Ana", gold="<sleeps> in", right="Rome.", before="is to", after="was in"),),
        ),
        rows=(_row(plan.RANDOM, before), _row(plan.SPANBERT, after)),
        left_out=left_out,
        tested=33,
        samples=(Sample(id="a", text=text, gold=(name, place), predicted={plan.RANDOM: (), plan.SPANBERT: (name,)}),),
        seconds=361.0,
    )


def _row(initial_weights: str, score: float) -> Row:
    return Row(initial_weights=initial_weights, steps=160, epochs=11.0, dev_f1=score + 1, f1=score)


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
    folder, source, reader, event = sys.argv[1:]
    count_every_run()
    run_quickstart(small(Path(folder), Path(source), Path(reader)), Killer(int(event)))
