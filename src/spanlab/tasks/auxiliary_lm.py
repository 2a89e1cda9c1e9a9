"""Classification with the language model kept alive: GPT's auxiliary loss (Radford et al. 2018).

On a causal encoder, the loss of a sample is that of its label plus a weight times the mean cross-entropy of its own
tokens, each from those before it. It changes training alone; what the model says is the inner head's.

Shapes: S samples, T tokens of a sample, D width, L labels.
"""

from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor
from typing_extensions import override

from spanlab.encoder import CausalLMHead, Encoder
from spanlab.errors import ConfigError
from spanlab.objectives.causal_lm import causal_lm_loss
from spanlab.objectives.objective import ObjectiveLoss
from spanlab.tasks.base import Encoded, Head
from spanlab.tasks.sample import SampleBatch, TensorBatch
from spanlab.tasks.sequence_head import SequenceTaskHead


@dataclass(frozen=True, kw_only=True, eq=False)
class LabelsAndTokens:
    """The inner head's logits, and what the next tokens are predicted from."""

    logits_SL: Tensor
    encoded: Encoded


class AuxiliaryLMHead(Head):
    """A sequence head whose loss has the language model's beside its own."""

    def __init__(self, inner: SequenceTaskHead, encoder: Encoder, weight: float) -> None:
        super().__init__()
        if not encoder.config.causal:
            cause = f"auxiliary_lm is for causal encoders, and this {encoder.config.architecture} sees what follows"
            raise ConfigError(cause, fix="take auxiliary_lm=0")
        self.inner, self.weight = inner, weight
        self.language_model = CausalLMHead(encoder.config)

    @property
    @override
    def uses_pooler(self) -> bool:
        return self.inner.uses_pooler

    @override
    def count(self, batch: SampleBatch) -> int:
        return self.inner.count(batch)

    @override
    def forward(self, encoded: Encoded) -> LabelsAndTokens:
        """The inner head's logits, and the hidden states beside."""
        return LabelsAndTokens(logits_SL=self.inner(encoded), encoded=encoded)

    @override
    def loss(self, found: LabelsAndTokens, batch: TensorBatch) -> ObjectiveLoss:
        """The sum over samples of both losses; right is what the inner head has right."""
        own = self.inner.loss(found.logits_SL, batch)
        tokens = self._token_loss(found.encoded)
        return ObjectiveLoss(total=own.total + self.weight * tokens, count=own.count, tallies=own.tallies)

    def _token_loss(self, encoded: Encoded) -> Tensor:
        """() the mean over the tokens of each sample, summed over samples: no batch changes what a sample weighs."""
        assert encoded.word_table_VE is not None, "a causal encoder has one"
        lengths = encoded.batch.lengths_B.tolist()
        hidden, ids = torch.split(encoded.hidden_ND, lengths), torch.split(encoded.batch.input_ids_N, lengths)
        total = encoded.hidden_ND.new_zeros((), dtype=torch.float32)
        for hidden_TD, ids_T in zip(hidden, ids, strict=True):
            if len(ids_T) > 1:
                loss = causal_lm_loss(self.language_model, hidden_TD[:-1], encoded.word_table_VE, ids_T[1:])
                total = total + loss.total / loss.count
        return total

    @override
    def metrics(self, loss: ObjectiveLoss) -> dict[str, float]:
        """Those of the inner head; the loss is of both."""
        return self.inner.metrics(loss)

    @override
    def split(self, found: LabelsAndTokens, batch: TensorBatch) -> list[Any]:
        return list(self.inner.split(found.logits_SL, batch))
