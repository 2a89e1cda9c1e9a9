"""The outputs of heads to results, by example; and those of windows to the vectors of texts.

Shapes: D width, E texts.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from spanlab.tasks.base import AnyTask
from spanlab.tasks.result import Result
from spanlab.tasks.sample import Sample
from spanlab.tasks.windows import Windower


@dataclass(frozen=True, kw_only=True)
class ExampleOutputs:
    """Examples with their samples and the head's outputs, each a list by example."""

    examples: Sequence[Any]
    samples: Sequence[Sequence[Sample]]
    outputs: Sequence[Sequence[Any]]

    def decode(self, task: AnyTask, *, first: int = 0) -> list[Result]:
        """A result per example; indices count from `first`."""
        parts = zip(self.examples, self.samples, self.outputs, strict=True)
        return [
            task.empty_result(index, part[0]) if task.is_empty(part[0]) else task.decode(index, *part)
            for index, part in enumerate(parts, first)
        ]

    def tune(self, task: AnyTask) -> AnyTask:
        """The task with thresholds tuned on these examples."""
        return task.tune(self.examples, self.samples, self.outputs)


def group_by_example(examples: Sequence[Any], samples: Sequence[Sample], outputs: Sequence[Any]) -> ExampleOutputs:
    """Samples and outputs of one task grouped by their examples."""
    grouped_samples: list[list[Sample]] = [[] for _ in examples]
    grouped_outputs: list[list[Any]] = [[] for _ in examples]
    for sample, output in zip(samples, outputs, strict=True):
        grouped_samples[sample.example].append(sample)
        grouped_outputs[sample.example].append(output)
    return ExampleOutputs(examples=examples, samples=grouped_samples, outputs=grouped_outputs)


def embedding_samples(windower: Windower, texts: Sequence[str]) -> list[Sample]:
    """A sample for each window of each text; an empty text has none."""
    return [
        Sample(example=index, sequences=(window.sequence,))
        for index, tokens in enumerate(windower.tokenize(texts))
        if texts[index].strip()
        for window in windower.single(tokens)
    ]


def embedding_vectors(
    samples: Sequence[Sample], sums: Sequence[NDArray[np.float32]], *, count: int, width: int
) -> NDArray[np.float32]:
    """(E, D) from what `TokenSumHead` gave for the samples of `count` texts."""
    vectors_ED = np.zeros((count, width), np.float32)
    np.add.at(vectors_ED, [sample.example for sample in samples], np.array(sums).reshape(-1, width))
    # The direction of the sum is that of the mean.
    vectors_ED /= np.maximum(np.linalg.norm(vectors_ED, axis=-1, keepdims=True), 1e-12)
    return vectors_ED
