"""Which earlier mention a mention refers to: coarse scores for all pairs, fine ones for the few best.

What enters are the vectors and scores of M mentions of one document, in the order of the text; what leaves is for each
of them the best K earlier ones with scores, where 0 is the score of referring to none (Lee et al. 2018). Coarse scores
are bilinear and computed a block of rows at a time, so that memory does not grow with the square of a document; fine
ones come from a network on both vectors, their product, and what is known of the pair.

Shapes: M mentions, K antecedents, F features of a span's vector, R rows of a block, E features of a pair's property, H
inner width of the network.
"""

from collections.abc import Mapping
from dataclasses import dataclass

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from spanlab.encoder.layers import Dropout, init_weights

DISTANCES = 10
"""0, 1, 2, 3, 4, 5-7, 8-15, 16-31, 32-63, 64 and more."""
SPELLINGS = 3
"""Two mentions end in different tokens, in the same, or are the same from the first to the last."""


@dataclass(frozen=True, eq=False, kw_only=True)
class Antecedents:
    """The chosen antecedents of M mentions."""

    index_MK: Tensor
    """Their numbers; 0 where a mention has fewer than K."""
    valid_MK: Tensor
    """Whether there is one."""
    score_MK: Tensor
    """Coarse scores; minus infinity where there is none."""

    def distances(self) -> Tensor:
        """(M, K) how many mentions back each lies."""
        return torch.arange(len(self.index_MK), device=self.index_MK.device)[:, None] - self.index_MK


def distance_bucket(distance: Tensor) -> Tensor:
    """0 to 4 as they are; beyond, a bucket for each doubling, up to 64 and more."""
    doubled = torch.floor(torch.log2(distance.clamp(min=1).double())).long() + 3
    return torch.where(distance <= 4, distance, doubled).clamp(0, DISTANCES - 1)


def compare_spelling(own_S2: Tensor, other_S2: Tensor) -> Tensor:
    """How far mentions are written alike, 0 to 2; the last axis holds the key of the last token and that of all."""
    last, whole = ((own_S2 == other_S2)[..., part].long() for part in (0, 1))
    return torch.maximum(last, 2 * whole)


class CoarseScorer(nn.Module):
    """A bilinear score, both mention scores, and priors by distance and by spelling."""

    def __init__(
        self,
        features: int,
        property_width: int,
        *,
        spelling: bool = False,
        dropout: float,
        init_std: float = 0.02,
    ) -> None:
        """`property_width` 0 leaves out the prior by distance."""
        super().__init__()
        self.bilinear = nn.Linear(features, features)
        self.spellings = nn.Embedding(SPELLINGS, 1) if spelling else None
        self.distances = nn.Embedding(DISTANCES, property_width) if property_width else None
        self.prior = nn.Linear(property_width, 1) if property_width else None
        self.dropout = Dropout(dropout)
        for module in self.modules():
            init_weights(module, init_std)

    def choose(
        self, vectors_MF: Tensor, mention_M: Tensor, spelling_M2: Tensor, *, keep: int, reach: int, rows: int
    ) -> Antecedents:
        """The best `keep` of the `reach` mentions before each, computed `rows` at a time.

        `spelling_M2` has a key of each mention's last token and one of all its tokens.
        """
        source_MF = self.dropout(self.bilinear(vectors_MF))
        target_MF = self.dropout(vectors_MF)
        prior_D = self._prior(min(reach + rows, len(vectors_MF)), vectors_MF.device)
        blocks = []
        for start in range(0, len(vectors_MF), rows):
            end, lowest = min(start + rows, len(vectors_MF)), max(0, start - reach)
            score_RC = source_MF[start:end] @ target_MF[lowest:end].T
            score_RC = score_RC + mention_M[start:end, None] + mention_M[None, lowest:end]
            if self.spellings is not None:
                alike_RC = compare_spelling(spelling_M2[start:end, None], spelling_M2[None, lowest:end])
                score_RC = score_RC + self.spellings.weight.squeeze(1)[alike_RC]
            blocks.append(_best_of_block(score_RC, prior_D, start, lowest, keep, reach))
        if not blocks:  # a document whose every mention was given, and none was
            nothing = vectors_MF.new_zeros(0, keep)
            return Antecedents(index_MK=nothing.long(), valid_MK=nothing.bool(), score_MK=nothing)
        index_MK, valid_MK, score_MK = (torch.cat(parts) for parts in zip(*blocks, strict=True))
        return Antecedents(index_MK=index_MK, valid_MK=valid_MK, score_MK=score_MK)

    def _prior(self, count: int, device: torch.device) -> Tensor | None:
        """(count,) the score of each distance from 0 on."""
        if self.distances is None or self.prior is None:
            return None
        prior_B: Tensor = self.prior(self.dropout(self.distances.weight)).squeeze(-1)
        return prior_B[distance_bucket(torch.arange(count, device=device))]


def _best_of_block(
    score_RC: Tensor, prior_D: Tensor | None, start: int, lowest: int, keep: int, reach: int
) -> tuple[Tensor, Tensor, Tensor]:
    """(R, K) numbers, validity and scores of the best columns; rows begin at `start`, columns at `lowest`."""
    rows, columns = score_RC.shape
    device = score_RC.device
    distance_RC = torch.arange(start, start + rows, device=device)[:, None] - torch.arange(
        lowest, lowest + columns, device=device
    )
    if prior_D is not None:
        score_RC = score_RC + prior_D[distance_RC.clamp(min=0)]
    allowed_RC = (distance_RC >= 1) & (distance_RC <= reach)
    best = torch.topk(score_RC.masked_fill(~allowed_RC, -torch.inf), min(keep, columns), dim=1)
    missing = keep - best.indices.shape[1]
    score_RK = F.pad(best.values, (0, missing), value=-torch.inf)
    valid_RK = torch.isfinite(score_RK.detach())
    index_RK = F.pad(best.indices + lowest, (0, missing)).masked_fill(~valid_RK, 0)
    return index_RK, valid_RK, score_RK


class FineScorer(nn.Module):
    """A network on [i; j; i∘j; properties of the pair]; what depends on one mention alone is computed once for it."""

    def __init__(
        self,
        features: int,
        properties: Mapping[str, int],
        *,
        property_width: int,
        inner_width: int,
        dropout: float,
        init_std: float = 0.02,
    ) -> None:
        """`properties` says of each property of a pair how many values it has."""
        super().__init__()
        self.properties = nn.ModuleDict({name: nn.Embedding(size, property_width) for name, size in properties.items()})
        self.inner = nn.Linear(3 * features + len(properties) * property_width, inner_width)
        self.outer = nn.Linear(inner_width, 1)
        self.dropout = Dropout(dropout)
        self._sizes = [features] * 3 + [property_width] * len(properties)
        for module in self.modules():
            init_weights(module, init_std)

    def forward(
        self, vectors_MF: Tensor, antecedents: Antecedents, properties_MK: Mapping[str, Tensor], *, rows: int
    ) -> Tensor:
        """(M, K) scores, computed `rows` mentions at a time."""
        own_HF, other_HF, both_HF, *property_HE = torch.split(self.inner.weight, self._sizes, dim=1)
        own_MH, other_MH = F.linear(vectors_MF, own_HF, self.inner.bias), F.linear(vectors_MF, other_HF)
        tables = {
            name: F.linear(self.dropout(table.weight), weight_HE)
            for (name, table), weight_HE in zip(self.properties.items(), property_HE, strict=True)
        }
        blocks = []
        for start in range(0, len(vectors_MF), rows):
            here = slice(start, min(start + rows, len(vectors_MF)))
            index_RK = antecedents.index_MK[here]
            pair_RKF = vectors_MF[here, None] * _gather(vectors_MF, index_RK)
            inner_RKH = F.linear(pair_RKF, both_HF) + own_MH[here, None] + _gather(other_MH, index_RK)
            for name, table_VH in tables.items():
                inner_RKH = inner_RKH + _gather(table_VH, properties_MK[name][here])
            blocks.append(self.outer(self.dropout(torch.relu(inner_RKH))).squeeze(-1))
        return torch.cat(blocks) if blocks else vectors_MF.new_zeros(antecedents.index_MK.shape)


def _gather(table_VH: Tensor, index_RK: Tensor) -> Tensor:
    """(R, K, H) rows of a table."""
    return table_VH.index_select(0, index_RK.reshape(-1)).view(*index_RK.shape, -1)


def with_none(score_MK: Tensor) -> Tensor:
    """(M, 1 + K) the scores with that of referring to nothing, 0, before them."""
    return F.pad(score_MK, (1, 0))


def marginal_loss(score_MK: Tensor, gold_MK: Tensor) -> tuple[Tensor, Tensor]:
    """The marginal log-likelihood of all gold antecedents, negated and summed; and how many first choices are gold.

    Args:
        score_MK: scores; minus infinity where there is no antecedent.
        gold_MK: whether an antecedent is of the mention's own cluster. Where none is, referring to nothing is right.
    """
    scores = with_none(score_MK)
    right = torch.cat([~gold_MK.any(dim=1, keepdim=True), gold_MK], dim=1)
    likelihood_M = torch.logsumexp(scores.masked_fill(~right, -torch.inf), dim=1) - torch.logsumexp(scores, dim=1)
    chosen_M = scores.detach().argmax(dim=1, keepdim=True)
    return -likelihood_M.sum(), right.gather(1, chosen_M).sum()


class Refinement(nn.Module):
    """One round; the same weights serve every round."""

    def __init__(self, features: int, *, init_std: float = 0.02) -> None:
        super().__init__()
        self.gate = nn.Linear(2 * features, features)
        init_weights(self.gate, init_std)

    def forward(self, vectors_MF: Tensor, index_MK: Tensor, score_MK: Tensor) -> Tensor:
        """(M, F) the vectors after the round; minus infinity in `score_MK` where there is no antecedent."""
        weight = torch.softmax(with_none(score_MK), dim=1)
        own_M1 = torch.arange(len(vectors_MF), device=vectors_MF.device)[:, None]
        attended_MF = F.embedding_bag(
            torch.cat([own_M1, index_MK], dim=1), vectors_MF, mode="sum", per_sample_weights=weight.to(vectors_MF.dtype)
        )
        gate_MF = torch.sigmoid(self.gate(torch.cat([vectors_MF, attended_MF], dim=1)))
        return gate_MF * attended_MF + (1 - gate_MF) * vectors_MF
