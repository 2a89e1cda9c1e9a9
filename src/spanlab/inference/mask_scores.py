"""What a model's heads think stands at masked places: log probabilities over the vocabulary.

Shapes: B rows, T tokens of each, D width, K places, V vocabulary.
"""

import torch
import torch.nn.functional as F
from torch import Tensor

from spanlab.encoder import MaskedLMHead, Model, SpanBoundaryHead
from spanlab.inference.masked_text import Span


class MaskScores:
    """The MLM head of a model, and its span boundary head if it has one."""

    def __init__(self, model: Model) -> None:
        mlm, sbo = model.head("mlm"), model.heads.get("sbo")
        assert isinstance(mlm, MaskedLMHead)
        assert sbo is None or isinstance(sbo, SpanBoundaryHead)
        self.encoder, self.mlm, self.sbo = model.encoder, mlm, sbo

    def encode(self, rows_BT: Tensor) -> Tensor:
        """(B, T, D)."""
        return self.encoder(rows_BT).hidden  # type: ignore[no-any-return]

    def by_mlm(self, hidden_KD: Tensor) -> Tensor:
        """(K, V) from the hidden states of the masked places themselves."""
        return F.log_softmax(self.mlm(hidden_KD, self.encoder.word_table), dim=-1)

    def known_places(self, span: Span, length: int) -> int:
        """How many of a span's places, from its first, the SBO head can be asked about in a row of `length` tokens."""
        if self.sbo is None:
            return 0
        config = self.sbo.config
        if config.boundaries == "external" and (span.first == 0 or span.last == length - 1):
            return 0
        return len(span) if config.max_span is None else min(len(span), config.max_span)

    def by_sbo(self, hidden_BTD: Tensor, span: Span, offset_K: Tensor) -> Tensor:
        """(B * K, V) for places of a span, row by row, from the span's boundaries as the head is configured."""
        assert self.sbo is not None
        outside = int(self.sbo.config.boundaries == "external")
        places = len(offset_K)
        left_KD = hidden_BTD[:, span.first - outside].repeat_interleave(places, dim=0)
        right_KD = hidden_BTD[:, span.last + outside].repeat_interleave(places, dim=0)
        offsets = offset_K.repeat(len(hidden_BTD))
        return F.log_softmax(self.sbo(left_KD, right_KD, offsets, self.encoder.word_table), dim=-1)

    def next_by_mlm(self, rows_BT: Tensor, span: Span) -> Tensor:
        """(B, V) for the first place of a masked span."""
        return self.by_mlm(self.encode(rows_BT)[:, span.first])

    def next_by_both(self, rows_BT: Tensor, span: Span) -> Tensor:
        """(B, V) for the first place of a masked span: the geometric mean of both heads, normalised.

        Training adds the two losses, so the product of the two probabilities is what it made large.
        """
        hidden_BTD = self.encode(rows_BT)
        by_mlm_BV = self.by_mlm(hidden_BTD[:, span.first])
        by_sbo_BV = self.by_sbo(hidden_BTD, span, torch.zeros(1, dtype=torch.long, device=rows_BT.device))
        return F.log_softmax((by_mlm_BV + by_sbo_BV) / 2, dim=-1)
