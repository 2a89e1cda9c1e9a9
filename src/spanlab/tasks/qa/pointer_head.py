"""`head=pointers`: logits of where an answer begins and where it ends, as BERT has them.

Shapes: N tokens, B windows, T longest window.
"""

import torch
import torch.nn.functional as F
from torch import Tensor
from typing_extensions import override

from spanlab.encoder import EncoderConfig
from spanlab.encoder.heads import AnswerHead
from spanlab.objectives.objective import ObjectiveLoss, in_full_precision
from spanlab.tasks.head import Encoded, Head, StandardHead
from spanlab.tasks.heads import on_host, pad_rows
from spanlab.tasks.qa.band import best_pointers
from spanlab.tasks.qa.config import QaConfig
from spanlab.tasks.qa.decode import WindowAnswers
from spanlab.tasks.tensor_batch import TensorBatch


class PointerHead(Head):
    """transformers' answer head with a loss; without an answer, both pointers are at the null position."""

    def __init__(self, encoder: EncoderConfig, config: QaConfig) -> None:
        super().__init__()
        self.ends = AnswerHead(encoder)
        self.max_answer, self.n_best = config.max_answer, config.n_best

    @property
    @override
    def standard(self) -> StandardHead:
        return StandardHead(kind="answer", layer=self.ends)

    @override
    def forward(self, encoded: Encoded) -> Tensor:
        """(N, 2) logits of start and end."""
        return self.ends(encoded.hidden_ND)  # type: ignore[no-any-return]

    @override
    def loss(self, logits: Tensor, batch: TensorBatch) -> ObjectiveLoss:
        """Half the cross-entropy of both ends over the tokens of each window, summed over the windows."""
        start_BT, end_BT = pad_rows(in_full_precision(logits), batch.lengths_B, -torch.inf).unbind(-1)
        first_B, last_B = batch.targets["first"], batch.targets["last"]
        total = F.cross_entropy(start_BT, first_B, reduction="sum") + F.cross_entropy(end_BT, last_B, reduction="sum")
        correct = ((start_BT.argmax(-1) == first_B) & (end_BT.argmax(-1) == last_B)).sum()
        return ObjectiveLoss(total=total / 2, count=len(first_B), tallies={"correct": correct})

    @override
    def split(self, logits: Tensor, batch: TensorBatch) -> list[WindowAnswers]:
        """The best spans of each window."""
        return best_pointers(on_host(logits), batch.batch, max_answer=self.max_answer, count=self.n_best)
