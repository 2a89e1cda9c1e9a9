"""Losses that several heads share: sums over terms, in full precision, with how many were right.

Shapes: K terms, L labels.
"""

from collections.abc import Sequence

import torch
import torch.nn.functional as F
from torch import Tensor

from spanlab.objectives.objective import ObjectiveLoss, in_full_precision


def one_label_loss(
    logits_KL: Tensor, target_K: Tensor, *, weight_L: Tensor | None = None, smoothing: float = 0.0
) -> ObjectiveLoss:
    """Cross-entropy of one label a term."""
    logits_KL = in_full_precision(logits_KL)
    weight_L = None if weight_L is None else weight_L.to(logits_KL.dtype)
    total = F.cross_entropy(logits_KL, target_K, weight=weight_L, reduction="sum", label_smoothing=smoothing)
    correct = (logits_KL.detach().argmax(dim=-1) == target_K).sum()
    return ObjectiveLoss(total=total, count=len(target_K), tallies={"correct": correct})


def label_set_loss(logits_KL: Tensor, target_KL: Tensor, *, weight_L: Tensor | None = None) -> ObjectiveLoss:
    """Binary cross-entropy of a set of labels a term, the mean over the labels; right is the whole set."""
    logits_KL = in_full_precision(logits_KL)
    loss_KL = F.binary_cross_entropy_with_logits(logits_KL, target_KL.to(logits_KL.dtype), reduction="none")
    if weight_L is not None:
        loss_KL = loss_KL * weight_L.to(loss_KL.dtype)
    correct = ((logits_KL.detach() > 0) == (target_KL > 0.5)).all(dim=-1).sum()
    return ObjectiveLoss(total=loss_KL.mean(dim=-1).sum(), count=len(target_KL), tallies={"correct": correct})


def squared_loss(predicted_K: Tensor, target_K: Tensor) -> ObjectiveLoss:
    """Squared distance of one number a term; right is within half a unit."""
    predicted_K = in_full_precision(predicted_K)
    distance_K = predicted_K - target_K.to(predicted_K.dtype)
    correct = (distance_K.detach().abs() < 0.5).sum()
    return ObjectiveLoss(total=(distance_K**2).sum(), count=len(target_K), tallies={"correct": correct})


def balanced_weights(counts: Sequence[int]) -> Tensor:
    """(L,) a factor for each label in inverse proportion to how often it occurs; over the examples their mean is 1."""
    counted = torch.tensor(counts, dtype=torch.float32).clamp(min=1)
    return counted.sum() / (len(counts) * counted)
