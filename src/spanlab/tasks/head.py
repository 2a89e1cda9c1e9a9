"""The base class of a task's head: the layers between hidden states and what the task decodes.

Shapes: N tokens, B sequences, D width, V vocabulary, E width of the word table.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar, Literal

from torch import Tensor, nn

from spanlab.encoder import Encoder
from spanlab.objectives.objective import ObjectiveLoss, loss_and_accuracy
from spanlab.tasks.sample import SampleBatch
from spanlab.tasks.tensor_batch import TensorBatch

if TYPE_CHECKING:
    from spanlab.tasks.head_graphs import HeadGraph


@dataclass(frozen=True, kw_only=True)
class Encoded:
    """The encoder's output for a batch of samples."""

    hidden_ND: Tensor
    """The hidden states of all sequences, end to end; split by `batch.lengths_B`."""
    pooled_BD: Tensor | None
    """None without a pooler."""
    batch: TensorBatch
    word_table_VE: Tensor | None = None
    """The output embeddings of a causal encoder, or for a head that uses the words of any encoder; else None."""


@dataclass(frozen=True, kw_only=True)
class StandardHead:
    """A layer of `encoder.heads` that transformers has a class for; a model of one task is saved as that class."""

    kind: Literal["sequence", "token", "answer", "clm"]
    layer: nn.Module
    labels: tuple[str, ...] = ()
    """`id2label` of transformers' config; empty for a score, an answer or tokens."""


class Head(nn.Module):
    """The layers of one task; `forward` is shared by training and prediction.

    Losses are sums over terms, and the terms of a batch are counted before the forward pass: training divides by the
    terms of the whole step, so that neither gradient accumulation nor several processes change the result.
    """

    features: ClassVar[tuple[str, ...]] = ()
    """The features of samples that `forward` reads in prediction: inputs of its exported graph."""
    generates: ClassVar[bool] = False
    """Whether prediction calls `generate`, which runs the encoder once per token, in place of `forward`."""

    @property
    def standard(self) -> StandardHead | None:
        """The layer that transformers has a class for, if that is the whole head."""
        return None

    @property
    def uses_pooler(self) -> bool:
        """Whether `Encoded.pooled_BD` is used; where no head uses it, the pooler is frozen."""
        return False

    @property
    def uses_words(self) -> bool:
        """Whether `Encoded.word_table_VE` is used on encoders that are not causal, too."""
        return False

    def count(self, batch: SampleBatch) -> int:
        """The number of loss terms of this batch; by default one per sample."""
        return len(batch.samples)

    def forward(self, encoded: Encoded) -> Any:  # noqa: ANN401 (each head's own tensors)
        """Logits, or whatever `loss` and `split` take."""
        raise NotImplementedError

    def loss(self, logits: Any, batch: TensorBatch) -> ObjectiveLoss:  # noqa: ANN401
        """The sum over the batch's terms; its one tally is "correct"."""
        raise NotImplementedError

    def metrics(self, loss: ObjectiveLoss) -> dict[str, float]:
        """Metrics of summed losses, by default mean loss and accuracy; empty if there was no term."""
        return loss_and_accuracy(loss)

    def split(self, logits: Any, batch: TensorBatch) -> list[Any]:  # noqa: ANN401
        """The output of each sample, in order, as numpy arrays on the host: the input of the task's `decode`."""
        raise NotImplementedError

    def graphs(self) -> "Mapping[str, HeadGraph]":
        """The graphs that a head with more than one, or with other inputs than `features`, is exported as."""
        return {}

    def generate(self, encoder: Encoder, batch: TensorBatch) -> Any:  # noqa: ANN401
        """What `split` takes, in place of `forward`, where `generates` is true."""
        raise NotImplementedError
