"""Scores of mentions and of their antecedents: coarse scores for all pairs, fine ones for the few best.

Each of the M mentions of a document, in the order of the text, gets the K best earlier mentions with their scores; 0 is
the score of having no antecedent (Lee et al. 2018). Coarse scores are bilinear and computed a block of rows at a time,
so that memory does not grow with the square of the document's length; fine scores come from a network on both vectors,
their product, and the properties of the pair.

Shapes: N tokens, D width of the encoder, S spans, M mentions, K antecedents, F features of a span's vector, R rows of a
block, E features of a pair's property, H inner width of the networks.
"""

from collections.abc import Mapping
from dataclasses import dataclass

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from spanlab.encoder.layers import Dropout, init_weights
from spanlab.tasks.spans.config import SpanConfig
from spanlab.tasks.spans.representation import SpanRepresentation, Spans

DISTANCES = 10
"""0, 1, 2, 3, 4, 5-7, 8-15, 16-31, 32-63, 64 and more."""
SPELLINGS = 3
"""Two mentions end in different tokens, end in the same token, or are the same."""


class MentionScorer(nn.Module):
    """The score of a span as a mention: a network on its vector, and a prior by its width."""

    def __init__(
        self, width: int, config: SpanConfig, *, inner_width: int, dropout: float, init_std: float = 0.02
    ) -> None:
        super().__init__()
        self.spans = SpanRepresentation(width, config, dropout=dropout, init_std=init_std)
        self.inner = nn.Linear(self.spans.features, inner_width)
        self.outer = nn.Linear(inner_width, 1)
        size = config.width_features
        self.widths = nn.Embedding(config.max_width, size) if size else None
        self.width_inner = nn.Linear(size, inner_width) if size else None
        self.width_outer = nn.Linear(inner_width, 1) if size else None
        self.dropout = Dropout(dropout)
        self.max_width = config.max_width
        for module in (self.inner, self.outer, self.widths, self.width_inner, self.width_outer):
            if module is not None:
                init_weights(module, init_std)

    @property
    def features(self) -> int:
        """F, the size of a span's vector."""
        return self.spans.features

    def forward(self, hidden_ND: Tensor, spans: Spans, *, rows: int) -> Tensor:
        """(S,) scores of spans in the order of their first tokens, computed `rows` at a time."""
        prior_W = self.prior()
        blocks = []
        for start in range(0, len(spans), rows):
            end = min(start + rows, len(spans))
            first_R, last_R, widths_R = (part[start:end] for part in (spans.first_S, spans.last_S, spans.widths_S))
            # Spans come in the order of the text: a block needs only the tokens around it.
            lowest, highest = int(first_R[0]), int(last_R.max()) + 1
            block = Spans(first_S=first_R - lowest, last_S=last_R - lowest, widths_S=widths_R)
            blocks.append(self.score_block(hidden_ND[lowest:highest], block, prior_W))
        return torch.cat(blocks) if blocks else hidden_ND.new_zeros(0)

    def score_block(self, hidden_ND: Tensor, spans: Spans, prior_W: Tensor | None) -> Tensor:
        """(R,) the scores of spans that are computed at once; `prior_W` is `prior()`."""
        inner_RH = torch.relu(self.spans.project(hidden_ND, spans, self.inner))
        score_R: Tensor = self.outer(self.dropout(inner_RH)).squeeze(-1)
        return score_R if prior_W is None else score_R + prior_W[spans.widths_S.clamp(max=self.max_width) - 1]

    def vectors(self, hidden_ND: Tensor, spans: Spans) -> Tensor:
        """(S, F) the spans' vectors."""
        return self.spans(hidden_ND, spans)  # type: ignore[no-any-return]

    def prior(self) -> Tensor | None:
        """(widths,) the score of each width from 1 on."""
        if self.widths is None or self.width_inner is None or self.width_outer is None:
            return None
        inner_WH = torch.relu(self.width_inner(self.dropout(self.widths.weight)))
        return self.width_outer(self.dropout(inner_WH)).squeeze(-1)  # type: ignore[no-any-return]


@dataclass(frozen=True, eq=False, kw_only=True)
class Antecedents:
    """The chosen antecedents of M mentions."""

    index_MK: Tensor
    """Mention indices of the antecedents; 0 where a mention has fewer than K."""
    valid_MK: Tensor
    """Whether there is an antecedent."""
    score_MK: Tensor
    """Coarse scores; minus infinity where there is no antecedent."""

    def distances(self) -> Tensor:
        """(M, K) how many mentions back each antecedent is."""
        return torch.arange(len(self.index_MK), device=self.index_MK.device)[:, None] - self.index_MK


def distance_bucket(distance: Tensor) -> Tensor:
    """0 to 4 as they are; beyond, a bucket for each doubling, up to 64 and more."""
    bucket = distance.clamp(0, 4)
    for lowest in (5, 8, 16, 32, 64):
        bucket = bucket + (distance >= lowest).long()
    return bucket


def compare_spelling(mention_S2: Tensor, antecedent_S2: Tensor) -> Tensor:
    """0, 1 or 2 of `SPELLINGS`; the last axis holds a key of the last token and one of all tokens."""
    last, whole = ((mention_S2 == antecedent_S2)[..., part].long() for part in (0, 1))
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
            score_RC = self.score_block(
                source_MF[start:end],
                target_MF[lowest:end],
                (mention_M[start:end], mention_M[lowest:end]),
                (spelling_M2[start:end], spelling_M2[lowest:end]),
            )
            blocks.append(_best_of_block(score_RC, prior_D, start, lowest, keep, reach))
        if not blocks:  # no mentions: the user gave an empty list
            empty_MK = vectors_MF.new_zeros(0, keep)
            return Antecedents(index_MK=empty_MK.long(), valid_MK=empty_MK.bool(), score_MK=empty_MK)
        index_MK, valid_MK, score_MK = (torch.cat(parts) for parts in zip(*blocks, strict=True))
        return Antecedents(index_MK=index_MK, valid_MK=valid_MK, score_MK=score_MK)

    def score_block(
        self, source_RF: Tensor, target_CF: Tensor, mentions: tuple[Tensor, Tensor], spelling: tuple[Tensor, Tensor]
    ) -> Tensor:
        """(R, C) scores but for the prior by distance; the scores as mentions and spelling keys are of both sides."""
        score_RC = source_RF @ target_CF.T + mentions[0][:, None] + mentions[1]
        if self.spellings is None:
            return score_RC
        spelling_RC = compare_spelling(spelling[0][:, None], spelling[1][None])
        return score_RC + self.spellings.weight.squeeze(1)[spelling_RC]

    def choose_of_block(self, score_RC: Tensor, shift: Tensor, *, keep: int, reach: int) -> tuple[Tensor, Tensor]:
        """(R, K) the best columns and their scores; the first row is column `shift`."""
        prior_D = self._prior(score_RC.shape[0] + score_RC.shape[1], score_RC.device)
        index_RK, _, score_RK = _best_of_block(score_RC, prior_D, shift, 0, keep, reach)
        return index_RK, score_RK

    def _prior(self, count: int, device: torch.device) -> Tensor | None:
        """(count,) the score of each distance from 0 on."""
        if self.distances is None or self.prior is None:
            return None
        prior_B: Tensor = self.prior(self.dropout(self.distances.weight)).squeeze(-1)
        return prior_B[distance_bucket(torch.arange(count, device=device))]


def _best_of_block(
    score_RC: Tensor, prior_D: Tensor | None, start: int | Tensor, lowest: int, keep: int, reach: int
) -> tuple[Tensor, Tensor, Tensor]:
    """(R, K) indices, validity and scores of the best columns; rows begin at `start`, columns at `lowest`."""
    rows, columns = score_RC.shape
    device = score_RC.device
    distance_RC = (torch.arange(rows, device=device) + start)[:, None] - torch.arange(columns, device=device) - lowest
    if prior_D is not None:
        score_RC = score_RC + prior_D[distance_RC.clamp(min=0)]
    allowed_RC = (distance_RC >= 1) & (distance_RC <= reach)
    missing = keep if torch.onnx.is_in_onnx_export() else max(0, keep - columns)  # a graph is of any number of columns
    score_RC = F.pad(score_RC.masked_fill(~allowed_RC, -torch.inf), (0, missing), value=-torch.inf)
    best = torch.topk(score_RC, keep, dim=1)
    valid_RK = torch.isfinite(best.values.detach())
    return (best.indices + lowest).masked_fill(~valid_RK, 0), valid_RK, best.values


class FineScorer(nn.Module):
    """A network on [i; j; i∘j; properties of the pair]; terms of i or j alone are computed once a mention."""

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
        """`properties`: the number of values of each property of a pair."""
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
        antecedent_MH, tables = self._antecedent_terms(vectors_MF), self._tables()
        blocks = []
        for start in range(0, len(vectors_MF), rows):
            block = slice(start, min(start + rows, len(vectors_MF)))
            properties_RK = {name: values_MK[block] for name, values_MK in properties_MK.items()}
            pairs = vectors_MF[block], vectors_MF, antecedents.index_MK[block]
            blocks.append(self._score(*pairs, properties_RK, antecedent_MH, tables))
        return torch.cat(blocks) if blocks else vectors_MF.new_zeros(antecedents.index_MK.shape)

    def score_block(
        self, own_RF: Tensor, vectors_CF: Tensor, index_RK: Tensor, properties_RK: Mapping[str, Tensor]
    ) -> Tensor:
        """(R, K) the scores of a block of mentions, whose antecedents are among C others."""
        terms = self._antecedent_terms(vectors_CF), self._tables()
        return self._score(own_RF, vectors_CF, index_RK, properties_RK, *terms)

    def _score(
        self,
        own_RF: Tensor,
        vectors_MF: Tensor,
        index_RK: Tensor,
        properties_RK: Mapping[str, Tensor],
        antecedent_MH: Tensor,
        tables: Mapping[str, Tensor],
    ) -> Tensor:
        mention_HF, _, product_HF, *_ = torch.split(self.inner.weight, self._sizes, dim=1)
        product_RKF = own_RF[:, None] * _gather(vectors_MF, index_RK)
        own_RH = F.linear(own_RF, mention_HF, self.inner.bias)
        inner_RKH = F.linear(product_RKF, product_HF) + own_RH[:, None] + _gather(antecedent_MH, index_RK)
        for name, table_VH in tables.items():
            inner_RKH = inner_RKH + _gather(table_VH, properties_RK[name])
        return self.outer(self.dropout(torch.relu(inner_RKH))).squeeze(-1)  # type: ignore[no-any-return]

    def _antecedent_terms(self, vectors_MF: Tensor) -> Tensor:
        """(M, H) the terms of each mention as an antecedent."""
        return F.linear(vectors_MF, torch.split(self.inner.weight, self._sizes, dim=1)[1])

    def _tables(self) -> dict[str, Tensor]:
        """(V, H) the terms of the values of each property."""
        property_HE = torch.split(self.inner.weight, self._sizes, dim=1)[3:]
        named = zip(self.properties.items(), property_HE, strict=True)
        return {name: F.linear(self.dropout(table.weight), weight_HE) for (name, table), weight_HE in named}


def _gather(table_VH: Tensor, index_RK: Tensor) -> Tensor:
    """(R, K, H) rows of a table."""
    return F.embedding(index_RK, table_VH)


def with_none(score_MK: Tensor) -> Tensor:
    """(M, 1 + K) the scores with that of no antecedent, 0, before them."""
    return F.pad(score_MK, (1, 0))


def marginal_loss(score_MK: Tensor, gold_MK: Tensor) -> tuple[Tensor, Tensor]:
    """The negative marginal log-likelihood of all gold antecedents, summed; and how many best antecedents are gold.

    Args:
        score_MK: Scores; minus infinity where there is no antecedent.
        gold_MK: Whether an antecedent is of the mention's cluster. If none is, having no antecedent is right.
    """
    scores = with_none(score_MK)
    right = torch.cat([~gold_MK.any(dim=1, keepdim=True), gold_MK], dim=1)
    likelihood_M = torch.logsumexp(scores.masked_fill(~right, -torch.inf), dim=1) - torch.logsumexp(scores, dim=1)
    chosen_M = scores.detach().argmax(dim=1, keepdim=True)
    return -likelihood_M.sum(), right.gather(1, chosen_M).sum()


class Refinement(nn.Module):
    """One round of higher-order refinement; all rounds share the weights."""

    def __init__(self, features: int, *, init_std: float = 0.02) -> None:
        super().__init__()
        self.gate = nn.Linear(2 * features, features)
        init_weights(self.gate, init_std)

    def forward(self, vectors_MF: Tensor, index_MK: Tensor, score_MK: Tensor) -> Tensor:
        """(M, F) the vectors after the round; minus infinity in `score_MK` where there is no antecedent."""
        weight = torch.softmax(with_none(score_MK), dim=1)
        self_M1 = torch.arange(len(vectors_MF), device=vectors_MF.device)[:, None]
        attended_MF = F.embedding_bag(
            torch.cat([self_M1, index_MK], dim=1),
            vectors_MF,
            mode="sum",
            per_sample_weights=weight.to(vectors_MF.dtype),
        )
        return self._mix(vectors_MF, attended_MF)

    def refine_block(self, own_RF: Tensor, vectors_CF: Tensor, index_RK: Tensor, score_RK: Tensor) -> Tensor:
        """(R, F) the same for a block of rows, whose antecedents are among C columns."""
        none_R1, weight_RK = torch.softmax(with_none(score_RK), dim=1).split([1, score_RK.shape[1]], dim=1)
        attended_RF = (weight_RK.unsqueeze(2) * _gather(vectors_CF, index_RK)).sum(dim=1)
        return self._mix(own_RF, none_R1 * own_RF + attended_RF)

    def _mix(self, vectors_MF: Tensor, attended_MF: Tensor) -> Tensor:
        """(M, F) the gated mean of the vectors and what they attend to."""
        gate_MF = torch.sigmoid(self.gate(torch.cat([vectors_MF, attended_MF], dim=1)))
        return gate_MF * attended_MF + (1 - gate_MF) * vectors_MF
