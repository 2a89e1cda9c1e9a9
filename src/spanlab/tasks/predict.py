"""Examples to results, the same way for dev scores, evaluation, prediction and serving."""

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import groupby
from typing import Any

from spanlab.tasks.base import AnyTask
from spanlab.tasks.network import MultiTaskNetwork
from spanlab.tasks.outputs import compute_outputs
from spanlab.tasks.result import Result
from spanlab.tasks.sample import Sample
from spanlab.training.place import ProcessContext


@dataclass(frozen=True, kw_only=True)
class Computed:
    """Examples with their samples and the head's outputs, by example."""

    examples: Sequence[Any]
    samples: Sequence[Sequence[Sample]]
    outputs: Sequence[Sequence[Any]]

    def decode(self, task: AnyTask, *, first: int = 0) -> list[Result]:
        """A result each, numbered from `first`."""
        parts = zip(self.examples, self.samples, self.outputs, strict=True)
        return [task.decode(first + number, *part) for number, part in enumerate(parts)]

    def tune(self, task: AnyTask) -> AnyTask:
        """The task with thresholds tuned on these examples."""
        return task.tune(self.examples, self.samples, self.outputs)


def compute(
    network: MultiTaskNetwork,
    examples: Sequence[Any],
    samples: Sequence[Sample],
    *,
    name: str,
    batch_tokens: int,
    process: ProcessContext,
) -> Computed:
    """Run the model on examples, of which `samples` were encoded."""
    outputs = compute_outputs(network, samples, task=name, batch_tokens=batch_tokens, process=process)
    return group_outputs(examples, samples, outputs)


def group_outputs(examples: Sequence[Any], samples: Sequence[Sample], outputs: Sequence[Any]) -> Computed:
    """Samples and the head's outputs put together by their examples."""
    by_example: list[list[Sample]] = [[] for _ in examples]
    outputs_by_example: list[list[Any]] = [[] for _ in examples]
    numbered = zip(samples, outputs, strict=True)
    for number, group in groupby(numbered, key=lambda pair: pair[0].example):
        for sample, output in group:
            by_example[number].append(sample)
            outputs_by_example[number].append(output)
    return Computed(examples=examples, samples=by_example, outputs=outputs_by_example)
