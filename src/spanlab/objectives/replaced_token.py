"""Replaced-token detection: a generator fills the masks, and a discriminator detects which tokens were replaced.

Clark et al. 2020, ELECTRA. Both are trained together: the generator by masked language modelling (`mlm`, weight 1), the
discriminator by a binary decision for every token, [CLS] and [SEP] included (`rtd`, weight 50). No gradient flows
through the sampled tokens. A sampled token that equals the original counts as original.

The published code samples with Gumbel noise, one number for each entry of the vocabulary; here one uniform number a
position, part of the batch, picks from the cumulative distribution. The distribution is the same, and the sample
depends on the example only.

Shapes: B sequences, N tokens, K masked tokens, D width.
"""

from collections.abc import Mapping
from types import MappingProxyType

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from spanlab.corruption.examples import ExampleBatch
from spanlab.encoder import Electra
from spanlab.errors import InputError
from spanlab.objectives.batch import TensorBatch
from spanlab.objectives.mixture import active_weights, weigh
from spanlab.objectives.mlm import masked_lm_loss, project_masked
from spanlab.objectives.objective import (
    CriterionLoss,
    ObjectiveLoss,
    encode,
    in_full_precision,
    loss_and_accuracy,
    token_metrics,
)

PUBLISHED_WEIGHTS: Mapping[str, float] = MappingProxyType({"mlm": 1.0, "rtd": 50.0})


class ReplacedToken(nn.Module):
    """Generator and discriminator with both losses, with the interface of `Criterion`."""

    def __init__(self, pair: Electra, weights: Mapping[str, float] = PUBLISHED_WEIGHTS) -> None:
        super().__init__()
        self.weights = {"mlm": 0.0, "rtd": 0.0, **active_weights(weights, PUBLISHED_WEIGHTS)}
        self.pair = pair

    def counts(self, examples: ExampleBatch) -> dict[str, int]:
        """The masked tokens for the generator, all tokens for the discriminator."""
        return {"mlm": len(examples.positions), "rtd": len(examples.input_ids)}

    def require_targets(self, examples: ExampleBatch) -> None:
        """Reject collapsed spans, whose tokens cannot be aligned, and examples without random numbers."""
        if examples.offsets is not None:
            fix = "set masking.collapse=false"
            raise InputError("the rtd objective compares token by token, and spans were collapsed", fix=fix)
        if examples.sampling_uniforms is None:
            fix = "build Masking with sampling=True"
            raise InputError("the examples have no random numbers for the generator to sample with", fix=fix)

    def forward(self, batch: TensorBatch, counts: Mapping[str, int] | None = None) -> CriterionLoss:
        """The loss of a batch, normalised by the `counts` of the whole step; None: by its own counts."""
        self.require_targets(batch.examples)
        pair = self.pair
        projection = project_masked(pair.generator_head, encode(pair.generator, batch), batch, batch.sampling_uniforms)
        assert projection.sampled_K is not None
        filled_N = batch.original_ids.index_copy(0, batch.positions, projection.sampled_K)
        discriminated = encode(pair.discriminator, batch, filled_N)
        logits_N = in_full_precision(pair.discriminator_head(discriminated.hidden_ND))
        parts = {
            "mlm": masked_lm_loss(projection, len(batch.examples.positions)),
            "rtd": detection_loss(logits_N, filled_N != batch.original_ids),
        }
        return weigh(parts, self.weights, counts)

    def metrics(self, parts: Mapping[str, ObjectiveLoss]) -> dict[str, float]:
        """The generator's loss, accuracy and perplexity; the discriminator's, with precision and recall."""
        named = {"mlm": token_metrics(parts["mlm"]), "rtd": detection_metrics(parts["rtd"])}
        return {f"{metric}.{name}": value for name, metrics in named.items() for metric, value in metrics.items()}


def detection_loss(logits_N: Tensor, replaced_N: Tensor) -> ObjectiveLoss:
    """Binary cross-entropy summed over all tokens; a positive logit means replaced."""
    total = F.binary_cross_entropy_with_logits(logits_N, replaced_N.to(logits_N.dtype), reduction="sum")
    flagged_N = logits_N > 0
    tallies = {
        "correct": (flagged_N == replaced_N).sum(),
        "replaced": replaced_N.sum(),
        "flagged": flagged_N.sum(),
        "true_positives": torch.logical_and(flagged_N, replaced_N).sum(),
    }
    return ObjectiveLoss(total=total, count=len(logits_N), tallies=tallies)


def detection_metrics(loss: ObjectiveLoss) -> dict[str, float]:
    """Mean loss and accuracy over all tokens, precision and recall of the replaced ones."""
    metrics = loss_and_accuracy(loss)
    if metrics:
        metrics["precision"] = loss.share("true_positives", "flagged")
        metrics["recall"] = loss.share("true_positives", "replaced")
    return metrics
