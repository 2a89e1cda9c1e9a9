"""The layers of end-to-end coreference: candidates are scored, the best kept, and each of those given an antecedent.

    hidden states ──MentionScorer──▶ scores of all candidates ──pruning──▶ M mentions
    mentions ──CoarseScorer──▶ K antecedents each ──FineScorer (and Refinement, round by round)──▶ scores

A batch's documents are computed one by one: mentions of different documents never meet. Within a document everything
large is computed in blocks of rows planned by `coref_memory`.

Shapes: N tokens of a document, D width, C candidates, M kept mentions, K antecedents.
"""

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
import torch
import torch.nn.functional as F
from numpy.typing import NDArray
from torch import Tensor, nn
from typing_extensions import override

from spanlab.arrays import Integers
from spanlab.encoder import EncoderConfig
from spanlab.encoder.layers import init_weights
from spanlab.objectives.objective import ObjectiveLoss, in_full_precision
from spanlab.tasks.base import Encoded, Head
from spanlab.tasks.coref.antecedents import (
    DISTANCES,
    SPELLINGS,
    Antecedents,
    CoarseScorer,
    FineScorer,
    Refinement,
    compare_spelling,
    distance_bucket,
    marginal_loss,
    with_none,
)
from spanlab.tasks.coref.config import CorefLayers, Rows, Sizes, plan_rows
from spanlab.tasks.coref.decode import Links
from spanlab.tasks.coref.mention_scores import MentionScorer
from spanlab.tasks.sample import Sample, SampleBatch, TensorBatch
from spanlab.tasks.spans.pruning import without_conflicts
from spanlab.tasks.spans.representation import Spans, tokens_of


@dataclass(frozen=True, eq=False, kw_only=True)
class DocumentScores:
    """What the head says of one document."""

    candidate_C: Tensor
    """How much each candidate looks like a mention."""
    kept: Integers
    """(M,) the numbers of the kept candidates, in the order of the text."""
    antecedents: Antecedents
    score_MK: Tensor
    """The final scores of the antecedents; 0 is that of none, minus infinity where there is none."""


class CorefHead(Head):
    """Mentions and their antecedents."""

    def __init__(
        self,
        encoder: EncoderConfig,
        layers: CorefLayers,
        *,
        speakers: bool = False,
        genres: int = 0,
        overlap: bool = False,
        mention_loss: float = 0.0,
    ) -> None:
        """`genres` counts them, 0 leaves them out; `mention_loss` weighs that of the mention scores themselves."""
        super().__init__()
        self.layers, self.mention_loss = layers, mention_loss
        width, std = encoder.width, encoder.init_std
        shared = {"dropout": layers.dropout, "init_std": std}
        self.mentions = MentionScorer(width, layers.span, inner_width=layers.inner_width, **shared)
        features = self.mentions.features
        self.coarse = CoarseScorer(
            features, layers.property_width if layers.distance else 0, spelling=layers.spelling, **shared
        )
        self.fine = FineScorer(
            features,
            _properties(layers, speakers=speakers, genres=genres),
            property_width=layers.property_width,
            inner_width=layers.inner_width,
            **shared,
        )
        self.refinement = Refinement(features, init_std=std) if layers.rounds else None
        self.gate = nn.Linear(2 * width, 1) if overlap else None
        if self.gate is not None:
            init_weights(self.gate, std)
        if mention_loss:  # most candidates are no mention, which need not be learnt first
            nn.init.constant_(self.mentions.outer.bias, -4.0)

    @override
    def count(self, batch: SampleBatch) -> int:
        """The mentions that may be kept."""
        return sum(self.layers.kept(len(sample.features["places"])) for sample in batch.samples)

    @override
    def forward(self, encoded: Encoded) -> list[DocumentScores]:
        batch, hidden_ND = encoded.batch, in_full_precision(encoded.hidden_ND)
        documents = zip(
            torch.split(hidden_ND, batch.token_counts),
            torch.split(batch.input_ids_N, batch.token_counts),
            batch.batch.samples,
            split_arrays(batch.features, batch.batch),
            strict=True,
        )
        # Sums of several scores are compared with each other: half precision would make neighbours of them equal.
        with torch.autocast(hidden_ND.device.type, enabled=False):
            return [self._document(*document) for document in documents]

    @override
    def loss(self, logits: list[DocumentScores], batch: TensorBatch) -> ObjectiveLoss:
        """The marginal likelihood summed over kept mentions, and that of the mention scores where they are trained."""
        targets = split_arrays(batch.targets, batch.batch, targets=True)
        total, correct = batch.lengths_B.new_zeros((), dtype=torch.float32), batch.lengths_B.new_zeros(())
        for scores, target in zip(logits, targets, strict=True):
            cluster_C = target["clusters"]
            cluster_M = cluster_C[torch.from_numpy(scores.kept).to(cluster_C.device)]
            same_MK = cluster_M[scores.antecedents.index_MK] == cluster_M[:, None]
            gold_MK = same_MK & scores.antecedents.valid_MK & (cluster_M > 0)[:, None]
            part, right = marginal_loss(in_full_precision(scores.score_MK), gold_MK)
            total, correct = total + part, correct + right
            if self.mention_loss:
                mention_C = in_full_precision(scores.candidate_C)
                wanted_C = (cluster_C > 0).to(mention_C.dtype)
                summed = F.binary_cross_entropy_with_logits(mention_C, wanted_C, reduction="sum")
                total = total + self.mention_loss * summed
        return ObjectiveLoss(total=total, count=self.count(batch.batch), tallies={"correct": correct})

    @override
    def split(self, logits: list[DocumentScores], batch: TensorBatch) -> list[Links]:
        """The best antecedent of each mention of each document."""
        return [_links(scores) for scores in logits]

    def _document(
        self, states_ND: Tensor, ids_N: Tensor, sample: Sample, features: Mapping[str, Tensor]
    ) -> DocumentScores:
        hidden_ND = self._tokens(states_ND, features)
        spans = _spans(features)
        rows = self._plan(len(hidden_ND), len(spans))
        candidate_C = self.mentions(hidden_ND, spans, rows=rows.candidates)
        kept = self.keep(sample, candidate_C.detach().float().cpu().numpy())
        kept_M = torch.from_numpy(kept).to(candidate_C.device)
        # A mention that the user gave is one, whatever the score says.
        sure_M = features["sure"][kept_M]
        mention_M = torch.where(sure_M, candidate_C[kept_M].clamp(min=0), candidate_C[kept_M])
        mentions = spans.select(kept_M)
        vectors_MF = self.mentions.vectors(hidden_ND, mentions)
        spelling_M2 = spelling_keys(ids_N[features["places"]], mentions)
        antecedents = self.coarse.choose(
            vectors_MF,
            mention_M,
            spelling_M2,
            keep=self.layers.antecedents,
            reach=self.layers.max_mentions,
            rows=rows.coarse,
        )
        properties = self._pair_properties(antecedents, features, mentions.first_S, spelling_M2)
        score_MK = self._refined(vectors_MF, antecedents, properties, rows)
        return DocumentScores(candidate_C=candidate_C, kept=kept, antecedents=antecedents, score_MK=score_MK)

    def _refined(
        self, vectors_MF: Tensor, antecedents: Antecedents, properties: Mapping[str, Tensor], rows: Rows
    ) -> Tensor:
        """(M, K) coarse and fine scores, the vectors refined by them and scored anew in every round."""
        score_MK: Tensor = antecedents.score_MK + self.fine(vectors_MF, antecedents, properties, rows=rows.fine)
        for _ in range(self.layers.rounds):
            assert self.refinement is not None
            vectors_MF = self.refinement(vectors_MF, antecedents.index_MK, score_MK)
            score_MK = antecedents.score_MK + self.fine(vectors_MF, antecedents, properties, rows=rows.fine)
        return score_MK

    def _tokens(self, states_ND: Tensor, features: Mapping[str, Tensor]) -> Tensor:
        """(N, D) hidden states of the document's own tokens; where two segments hold one, both through the gate."""
        first_ND = states_ND.index_select(0, features["places"])
        if self.gate is None:
            return first_ND
        second_ND = states_ND.index_select(0, features["second_places"])
        share_N1 = torch.sigmoid(self.gate(torch.cat([first_ND, second_ND], dim=1)))
        return share_N1 * first_ND + (1 - share_N1) * second_ND

    def _plan(self, tokens: int, candidates: int) -> Rows:
        sizes = Sizes(
            tokens=tokens,
            candidates=candidates,
            mentions=self.layers.kept(tokens),
            width=self.mentions.spans.attention.in_features if self.mentions.spans.attention is not None else 0,
            features=self.mentions.features,
            inner_width=self.layers.inner_width,
            antecedents=self.layers.antecedents,
            reach=self.layers.max_mentions,
            max_width=self.layers.span.max_width,
        )
        return plan_rows(sizes, self.layers.memory_gb)

    def keep(self, sample: Sample, scores: NDArray[np.float32]) -> Integers:
        """(M,) the numbers of the best candidates, none crossing a better one; all that are sure."""
        first, last = (sample.features[name].astype(np.int64) for name in ("first", "last"))
        sure = sample.features["sure"].astype(bool)
        tokens = len(sample.features["places"])
        edges = np.searchsorted(first, np.arange(0, tokens, self.layers.stretch))
        kept = []
        for number, (start, end) in enumerate(zip(edges, [*edges[1:], len(first)], strict=True)):
            here = slice(int(start), int(end))
            length = min(self.layers.stretch, tokens - number * self.layers.stretch)
            raised = np.where(sure[here], np.inf, scores[here])
            keep = max(self.layers.kept(length), int(sure[here].sum()))
            chosen = without_conflicts(first[here], last[here], raised, conflict="crossing", keep=keep)
            kept.append(np.union1d(chosen, np.flatnonzero(sure[here])) + int(start))
        return np.concatenate(kept).astype(np.int64) if kept else np.zeros(0, dtype=np.int64)

    def _pair_properties(
        self, antecedents: Antecedents, features: Mapping[str, Tensor], first_M: Tensor, spelling_M2: Tensor
    ) -> dict[str, Tensor]:
        """(M, K) each property of the pairs that the fine scores look at."""
        index_MK = antecedents.index_MK
        found: dict[str, Tensor] = {}
        if self.layers.distance:
            found["distance"] = distance_bucket(antecedents.distances())
        if self.layers.segment_distance:
            segment_M = features["segments"][first_M]
            apart_MK = segment_M[:, None] - segment_M[index_MK]
            found["segment_distance"] = apart_MK.clamp(0, self.layers.segment_distances - 1)
        if self.layers.spelling:
            found["spelling"] = compare_spelling(spelling_M2[:, None], spelling_M2[index_MK])
        if "speaker" in self.fine.properties:
            speaker_M = features["speakers"][first_M]
            found["speaker"] = (speaker_M[:, None] == speaker_M[index_MK]).long()
        if "genre" in self.fine.properties:
            found["genre"] = features["genre"].expand(index_MK.shape)
        return found


def _properties(layers: CorefLayers, *, speakers: bool, genres: int) -> dict[str, int]:
    """How many values each property of a pair has."""
    sizes = {"distance": DISTANCES} if layers.distance else {}
    if layers.segment_distance:
        sizes["segment_distance"] = layers.segment_distances
    if layers.spelling:
        sizes["spelling"] = SPELLINGS
    if speakers:
        sizes["speaker"] = 2
    if genres:
        sizes["genre"] = genres
    return sizes


def _spans(features: Mapping[str, Tensor]) -> Spans:
    first_C, last_C = features["first"], features["last"]
    return Spans(first_S=first_C, last_S=last_C, widths_S=last_C - first_C + 1)


def spelling_keys(ids_N: Tensor, spans: Spans) -> Tensor:
    """(S, 2) the last token of each span, and a number that spans of other tokens share only by a rare accident."""
    tokens_G, offsets_S = tokens_of(spans)
    counts_S = spans.last_S - spans.first_S + 1
    place_G = torch.arange(len(tokens_G), device=ids_N.device) - torch.repeat_interleave(offsets_S, counts_S)
    # Products of 64-bit numbers wrap around, which mixes them; one more than the place, so that order counts.
    mixed_G = (ids_N[tokens_G] + 1) * 0x9E3779B97F4A7C1 * (2 * place_G + 3)
    mixed_G = (mixed_G ^ (mixed_G >> 29)) * 0xBF58476D1CE4E5B
    whole_S = torch.zeros_like(spans.first_S).index_add(0, torch.repeat_interleave(counts_S), mixed_G)
    return torch.stack([ids_N[spans.last_S], whole_S], dim=1)


def split_arrays(arrays: Mapping[str, Tensor], batch: SampleBatch, *, targets: bool = False) -> list[dict[str, Tensor]]:
    """The joined features, or targets, of a batch by sample."""
    parts: list[dict[str, Tensor]] = [{} for _ in batch.samples]
    for name, joined in arrays.items():
        counts = [len((sample.targets if targets else sample.features)[name]) for sample in batch.samples]
        for part, tensor in zip(parts, torch.split(joined, counts), strict=True):
            part[name] = tensor
    return parts


def _links(scores: DocumentScores) -> Links:
    probability = torch.softmax(with_none(scores.score_MK.float()), dim=1)
    best = probability.max(dim=1)
    rank_M = (best.indices - 1).clamp(min=0)
    chosen_M = scores.antecedents.index_MK.gather(1, rank_M[:, None]).squeeze(1)
    antecedent_M = torch.where(best.indices == 0, -1, chosen_M)
    return Links(
        kept=scores.kept,
        mention_scores=scores.candidate_C.float().cpu().numpy()[scores.kept],
        antecedents=antecedent_M.cpu().numpy(),
        link_scores=best.values.cpu().numpy(),
    )
