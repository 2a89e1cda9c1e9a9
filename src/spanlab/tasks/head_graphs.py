"""The layers of a head as they are exported: a graph takes one sample, as tensors by name, without loops over samples.

What `TensorBatch` computes from the samples of a batch, with lengths that differ, is an input here, so that a graph can
be traced once for samples of any length. `host_head.py` has the names of the inputs and what is done with the outputs.

Shapes: T tokens of the sample, B its sequences, D width, S entries of a feature.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass

import torch
from torch import Tensor, nn
from typing_extensions import override

from spanlab.tasks.head import Encoded, Head
from spanlab.tasks.host_head import LOGITS
from spanlab.tasks.sample import Sample, SampleBatch
from spanlab.tasks.tensor_batch import TensorBatch

_ALONE = SampleBatch(task="", samples=(Sample(example=0, sequences=()),))


@dataclass(frozen=True, kw_only=True, eq=False)
class HeadGraph:
    """One graph of a head."""

    compute: Callable[[Encoded], Tensor | tuple[Tensor, ...]]
    examples: Mapping[str, Tensor]
    """Its inputs beside hidden states, by their names in `Encoded.batch.features`; all axes may grow but a width."""


class OneSample(TensorBatch):
    """A batch of one sample, whose derived indices are given."""

    @property
    @override
    def token_sequences(self) -> Tensor:
        return self.features["sequence"]

    @property
    @override
    def sequence_samples(self) -> Tensor:
        return torch.zeros_like(self.lengths_B)

    @override
    def packed(self, name: str) -> Tensor:
        return self.features[name]


def indices(*names: str) -> dict[str, Tensor]:
    """Examples of features that are positions, labels or counts, one for each entry."""
    return {name: torch.ones(3, dtype=torch.long) for name in names}


def graphs_of(head: Head) -> dict[str, HeadGraph]:
    """The graphs of a head by name."""
    return dict(head.graphs()) or {LOGITS: HeadGraph(compute=head, examples=indices(*head.features))}


class GraphModule(nn.Module):
    """A graph whose inputs are the tensors of `names`, in this order."""

    def __init__(self, head: Head, graph: HeadGraph, names: tuple[str, ...], pool: nn.Module | None) -> None:
        """`pool`: the task's own pooler, in place of the encoder's."""
        super().__init__()
        self.head, self.graph, self.names, self.pool = head, graph, names, pool

    def forward(self, *tensors: Tensor) -> tuple[Tensor, ...]:
        """The outputs of the graph."""
        inputs = dict(zip(self.names, tensors, strict=True))
        hidden_TD, lengths_B = inputs.pop("hidden"), inputs.pop("lengths")
        pooled_BD = inputs.pop("pooled", None)
        if self.pool is not None:
            starts_B = torch.cumsum(lengths_B, 0) - lengths_B
            pooled_BD = torch.tanh(self.pool(hidden_TD.index_select(0, starts_B)))
        ids_T = torch.zeros_like(inputs["sequence"])
        batch = OneSample(
            batch=_ALONE, input_ids_N=ids_T, segment_ids_N=None, lengths_B=lengths_B, features=inputs, prefixes_B=None
        )
        output = self.graph.compute(Encoded(hidden_ND=hidden_TD, pooled_BD=pooled_BD, batch=batch))
        return output if isinstance(output, tuple) else (output,)


def example_inputs(graph: HeadGraph, *, width: int, has_pooler: bool) -> dict[str, Tensor]:
    """Tensors to trace a graph with: a sample of two sequences."""
    inputs = {
        "hidden": torch.randn(5, width),
        "lengths": torch.tensor([2, 3]),
        "sequence": torch.tensor([0, 0, 1, 1, 1]),
    }
    if has_pooler:
        inputs["pooled"] = torch.randn(2, width)
    return inputs | dict(graph.examples)
