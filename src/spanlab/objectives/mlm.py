"""Masked language modelling: the original token at every masked position, from the hidden state there.

Devlin et al. 2019, BERT. Needs the masked positions and their targets. Logits are computed at those positions only.

Shapes: N tokens, K predicted tokens, D width, V vocabulary, E width of the word table.
"""

from torch import Tensor, nn

from spanlab.corruption.examples import ExampleBatch
from spanlab.encoder import MaskedLMHead
from spanlab.objectives.batch import TensorBatch
from spanlab.objectives.chunked_cross_entropy import Projection, project
from spanlab.objectives.objective import Encoded, ObjectiveLoss, token_metrics


class MaskedLM(nn.Module):
    """The MLM head and its loss."""

    name = "mlm"

    def __init__(self, head: MaskedLMHead) -> None:
        super().__init__()
        self.head = head

    def count(self, examples: ExampleBatch) -> int:
        """K."""
        return len(examples.positions)

    def require_targets(self, examples: ExampleBatch) -> None:
        """Accepts any batch; without masked tokens the loss is zero."""

    def forward(self, encoded: Encoded, batch: TensorBatch) -> ObjectiveLoss:
        """The cross-entropy summed over the masked tokens."""
        return masked_lm_loss(project_masked(self.head, encoded, batch), batch)

    def metrics(self, loss: ObjectiveLoss) -> dict[str, float]:
        """Mean loss, accuracy and perplexity of the masked tokens."""
        return token_metrics(loss)


def project_masked(
    head: MaskedLMHead, encoded: Encoded, batch: TensorBatch, uniforms_K: Tensor | None = None
) -> Projection:
    """Loss and accuracy of the head at the masked positions; with `uniforms_K`, also a token drawn at each."""
    hidden_KD = encoded.hidden_ND.index_select(0, batch.positions)
    table_VE = encoded.word_table_VE if head.decoder is None else head.decoder
    return project(head.features(hidden_KD), table_VE, head.bias, batch.targets, uniforms_K=uniforms_K)


def masked_lm_loss(projection: Projection, batch: TensorBatch) -> ObjectiveLoss:
    """The loss of the objective from the projection of all masked positions."""
    count = len(batch.examples.positions)
    return ObjectiveLoss(total=projection.total, count=count, tallies={"correct": projection.correct})
