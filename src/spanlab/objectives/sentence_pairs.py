"""What next-sentence prediction and sentence order share: two classes from the pooled vector of a pair.

Needs a label for each pair, and an encoder with a pooler. A sequence labelled -1 is asked nothing.

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
    """The pair head and its loss; a subclass says which question the labels answer."""

    name: str

    def __init__(self, head: SentencePairHead) -> None:
        super().__init__()
        self.head = head

    def count(self, examples: ExampleBatch) -> int:
        """The pairs that have a label."""
        return 0 if examples.pairs is None else int((examples.pairs.labels >= 0).sum())

    def require_targets(self, examples: ExampleBatch) -> None:
        """Refuse examples of one segment."""
        if examples.pairs is None:
            fix = f"read the data as sentence pairs, or set objectives.{self.name}=0"
            raise InputError(f"the examples have one segment each, and the {self.name} objective needs pairs", fix=fix)

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
    """BERT's question about a pair."""

    name = "nsp"


class SentenceOrder(PairClassification):
    """ALBERT's question about a pair."""

    name = "sop"
