"""Next-sentence prediction (BERT) and sentence order prediction (ALBERT): two classes from the pooled vector of a pair.

Needs a label for each pair, and an encoder with a pooler. Sequences labelled -1 are ignored.

Shapes: B sequences, D width.
"""

import torch.nn.functional as F
from torch import nn

from spanlab.corruption.examples import ExampleBatch
from spanlab.encoder import SentencePairHead
from spanlab.errors import ConfigError, InputError
from spanlab.objectives.batch import TensorBatch
from spanlab.objectives.objective import Encoded, ObjectiveLoss, in_full_precision, loss_and_accuracy


class PairClassification(nn.Module):
    """The pair head and its loss; subclasses differ in the meaning of the labels."""

    name: str

    def __init__(self, head: SentencePairHead) -> None:
        super().__init__()
        self.head = head

    def count(self, examples: ExampleBatch) -> int:
        """The number of labelled pairs."""
        return 0 if examples.pairs is None else int((examples.pairs.labels >= 0).sum())

    def require_targets(self, examples: ExampleBatch) -> None:
        """Reject examples of one segment."""
        if examples.pairs is None:
            fix = f"read the data as sentence pairs, or set objectives.{self.name}=0"
            raise InputError(
                f"the {self.name} objective needs sentence pairs, but the examples have one segment", fix=fix
            )

    def forward(self, encoded: Encoded, batch: TensorBatch) -> ObjectiveLoss:
        """The cross-entropy summed over the labelled pairs."""
        self.require_targets(batch.examples)
        assert batch.pairs is not None
        labels_B = batch.pairs.labels
        if encoded.pooled_BD is None:
            fix = "set encoder.pooler=true"
            raise ConfigError(f"the {self.name} objective needs an encoder with a pooler", fix=fix)
        logits_B2 = in_full_precision(self.head(encoded.pooled_BD))
        total = F.cross_entropy(logits_B2, labels_B, ignore_index=-1, reduction="sum")
        correct = (logits_B2.argmax(dim=-1) == labels_B).sum()
        return ObjectiveLoss(total=total, count=self.count(batch.examples), tallies={"correct": correct})

    def metrics(self, loss: ObjectiveLoss) -> dict[str, float]:
        """Mean loss and accuracy of the pairs."""
        return loss_and_accuracy(loss)


class NextSentence(PairClassification):
    """Whether the second segment follows the first in the text."""

    name = "nsp"


class SentenceOrder(PairClassification):
    """Whether two consecutive segments are in their original order."""

    name = "sop"
