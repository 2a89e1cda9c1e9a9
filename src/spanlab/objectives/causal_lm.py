"""Causal language modelling: the next token, from the hidden state of the token before it.

Radford et al. 2018, GPT. Needs examples whose targets are the next tokens, and a causal encoder. Every position is
predicted; the projection is chunked, so the logits of all positions are never in memory at once.

Shapes: N tokens, K predicted tokens, D width, V vocabulary, E width of the word table.
"""

from torch import Tensor, nn

from spanlab.corruption.examples import ExampleBatch
from spanlab.encoder import CausalLMHead
from spanlab.objectives.batch import TensorBatch
from spanlab.objectives.chunked_cross_entropy import project
from spanlab.objectives.objective import Encoded, ObjectiveLoss, token_metrics


class CausalLM(nn.Module):
    """The causal head and its loss."""

    name = "clm"

    def __init__(self, head: CausalLMHead) -> None:
        super().__init__()
        self.head = head

    def count(self, examples: ExampleBatch) -> int:
        """K."""
        return len(examples.positions)

    def require_targets(self, examples: ExampleBatch) -> None:
        """Accepts any batch; sequences of a single token have a loss of zero."""

    def forward(self, encoded: Encoded, batch: TensorBatch) -> ObjectiveLoss:
        """The cross-entropy summed over all tokens but the first of each sequence."""
        hidden_KD = encoded.hidden_ND
        if len(batch.positions) < len(hidden_KD):
            hidden_KD = hidden_KD.index_select(0, batch.positions)
        return causal_lm_loss(self.head, hidden_KD, encoded.word_table_VE, batch.targets)

    def metrics(self, loss: ObjectiveLoss) -> dict[str, float]:
        """Mean loss, accuracy and perplexity of the next token."""
        return token_metrics(loss)


def causal_lm_loss(head: CausalLMHead, hidden_KD: Tensor, word_table_VE: Tensor, targets_K: Tensor) -> ObjectiveLoss:
    """The summed cross-entropy of the next tokens; tasks on causal models use it as an auxiliary loss."""
    projection = project(hidden_KD, word_table_VE if head.decoder is None else head.decoder, None, targets_K)
    return ObjectiveLoss(total=projection.total, count=len(targets_K), tallies={"correct": projection.correct})
