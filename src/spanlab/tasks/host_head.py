"""What a head does around its layers, on the host: arrays of a sample in, the input of the task's `decode` out.

The layers themselves are run by whoever calls: torch computes a batch at a time, ONNX Runtime a sample. What is done
with their logits is the same functions, so both decode alike. Most heads have one graph of layers, `logits`; those that
choose between layers, on the host, have several.

Shapes: T tokens of a sample's sequences, end to end, B its sequences, D width.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from spanlab.tasks.sample import Sample, SampleBatch

Array = NDArray[Any]
LOGITS = "logits"
"""The name of a head's only graph."""


class Layers(Protocol):
    """Runs a graph of a head by its name; inputs that it does not have are left out."""

    def __call__(self, graph: str, inputs: Mapping[str, Array]) -> list[Array]:
        """Its outputs, in their order."""


@dataclass(frozen=True, kw_only=True, eq=False)
class EncodedSample:
    """A sample with the encoder's output."""

    sample: Sample
    hidden_TD: NDArray[np.float32]
    pooled_BD: NDArray[np.float32] | None

    @property
    def inputs(self) -> dict[str, Array]:
        """What a graph may take: hidden states, their sequences, and the sample's features as integers."""
        lengths = np.array([len(sequence) for sequence in self.sample.sequences], np.int64)
        inputs: dict[str, Array] = {
            "hidden": self.hidden_TD,
            "lengths": lengths,
            "sequence": np.repeat(np.arange(len(lengths)), lengths),
        }
        if self.pooled_BD is not None:
            inputs["pooled"] = self.pooled_BD
        return inputs | {name: array.astype(np.int64, copy=False) for name, array in self.sample.features.items()}

    @property
    def as_batch(self) -> SampleBatch:
        """The batch of this sample alone."""
        return SampleBatch(task="", samples=(self.sample,))


HostHead = Callable[[Layers, EncodedSample], Any]
"""The output of a sample, from the graphs of its head."""


def one_graph(split: Callable[[Array, SampleBatch], Sequence[Any]]) -> HostHead:
    """A head whose logits are computed by one graph; `split` gives the outputs of the samples of a batch."""

    def output(layers: Layers, encoded: EncodedSample) -> Any:  # noqa: ANN401 (the task's own)
        (logits,) = layers(LOGITS, encoded.inputs)
        return split(logits, encoded.as_batch)[0]

    return output


def by_row(logits_S: Array, batch: SampleBatch) -> list[Array]:
    """A row a sample."""
    return list(logits_S)


def by_feature(name: str) -> Callable[[Array, SampleBatch], list[Array]]:
    """As many rows a sample as a feature of that name has."""

    def split(logits: Array, batch: SampleBatch) -> list[Array]:
        return np.split(logits, np.cumsum(batch.feature_counts(name))[:-1])

    return split
