"""The head of end-to-end coreference: candidates are scored, the best kept, and each of those given an antecedent.

    hidden states ──MentionScorer──▶ scores of all candidates ──pruning──▶ M mentions
    mentions ──CoarseScorer──▶ K antecedents each ──FineScorer (and Refinement, round by round)──▶ scores

A batch's documents are computed one by one: mentions of different documents never meet. Within a document everything
large is computed in blocks of rows, whose size follows from `layers.memory_gb`.

Shapes: N tokens of a document, D width, C candidates, M kept mentions, K antecedents.
"""

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor, nn
from typing_extensions import override

from spanlab.arrays import Integers
from spanlab.encoder import EncoderConfig
from spanlab.encoder.layers import init_weights
from spanlab.errors import InputError
from spanlab.objectives.objective import ObjectiveLoss, in_full_precision
from spanlab.tasks.coref.antecedents import (
    DISTANCES,
    SPELLINGS,
    Antecedents,
    CoarseScorer,
    FineScorer,
    MentionScorer,
    Refinement,
    compare_spelling,
    distance_bucket,
    marginal_loss,
)
from spanlab.tasks.coref.config import CorefLayers
from spanlab.tasks.coref.host_links import (
    COARSE,
    FINE,
    MENTIONS,
    REFINE,
    TOKENS,
    VECTORS,
    document_ids,
    keep_mentions,
    make_links,
    spelling_keys,
)
from spanlab.tasks.coref.links import Links
from spanlab.tasks.head import Encoded, Head
from spanlab.tasks.head_graphs import HeadGraph, indices
from spanlab.tasks.heads import on_host
from spanlab.tasks.sample import Sample, SampleBatch
from spanlab.tasks.spans.representation import Spans, packed_spans
from spanlab.tasks.tensor_batch import TensorBatch

_FLOAT_BYTES = 4
_PAIR_BYTES = 64  # of a pair in coarse scores: the score, its distance, its spelling, whether it is allowed
_MAX_CANDIDATES, _MAX_ROWS = 65536, 1024  # larger blocks are no faster and exceed the caches
_GB = 1e9
_WORKING_SHARE = 0.5  # of the available memory; the other half is for copies that torch makes


@dataclass(frozen=True, kw_only=True)
class Rows:
    """How many rows of each large matrix are computed at a time."""

    candidates: int
    coarse: int
    fine: int


def plan_rows(layers: CorefLayers, *, tokens: int, candidates: int, width: int, features: int) -> Rows:
    """Rows that stay within `layers.memory_gb` for a document; an error if not even one row does.

    Args:
        layers: The settings of the head.
        tokens: The number of tokens of the document.
        candidates: The number of its candidates.
        width: The size of a hidden state.
        features: The size of a mention's vector.
    """
    mentions = layers.kept(tokens)
    # Hidden states, candidates, and eight sets of vectors: what a round of refinement holds at a time.
    vectors = 8 * mentions * features + 16 * mentions * layers.antecedents
    fixed_bytes = _FLOAT_BYTES * (3 * tokens * width + 16 * candidates + vectors)
    row_bytes = (
        _FLOAT_BYTES * (6 * layers.inner_width + 4 * layers.span.max_width),
        _PAIR_BYTES * min(layers.max_mentions + _MAX_ROWS, mentions),
        _FLOAT_BYTES * layers.antecedents * (3 * features + 5 * layers.inner_width),
    )
    available_bytes = layers.memory_gb * _GB - fixed_bytes
    rows = [int(_WORKING_SHARE * available_bytes / size) for size in row_bytes]
    if min(rows) < 1:
        needed = (fixed_bytes + max(row_bytes) / _WORKING_SHARE) / _GB
        cause = f"a document of {tokens:,} tokens needs {needed:.1f} GB, and memory_gb is {layers.memory_gb:g}"
        raise InputError(cause, fix="split the document, raise layers.memory_gb or lower layers.mention_ratio")
    return Rows(candidates=min(rows[0], _MAX_CANDIDATES), coarse=min(rows[1], _MAX_ROWS), fine=min(rows[2], _MAX_ROWS))


@dataclass(frozen=True, eq=False, kw_only=True)
class DocumentScores:
    """The scores of one document."""

    candidate_C: Tensor
    """Logits of being a mention."""
    kept: Integers
    """(M,) the indices of the kept candidates, in the order of the text."""
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
        """`genres`: how many; 0 leaves them out. `mention_loss`: the weight of the loss of mention scores."""
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
        if mention_loss:  # most candidates are not mentions; start there instead of learning it first
            nn.init.constant_(self.mentions.outer.bias, -4.0)

    @override
    def count(self, batch: SampleBatch) -> int:
        """The most mentions that are kept."""
        return sum(self.layers.kept(len(sample.features["positions"])) for sample in batch.samples)

    @override
    def forward(self, encoded: Encoded) -> list[DocumentScores]:
        batch, hidden_ND = encoded.batch, in_full_precision(encoded.hidden_ND)
        documents = zip(
            torch.split(hidden_ND, batch.token_counts),
            batch.batch.samples,
            split_arrays(batch.features, batch.batch),
            strict=True,
        )
        # Sums of several scores are compared with each other: in half precision, close ones would be equal.
        with torch.autocast(hidden_ND.device.type, enabled=False):
            return [self._document(*document) for document in documents]

    @override
    def loss(self, logits: list[DocumentScores], batch: TensorBatch) -> ObjectiveLoss:
        """The marginal likelihood summed over kept mentions, and the loss of mention scores where they are trained."""
        targets = split_arrays(batch.targets, batch.batch, targets=True)
        total, correct = batch.lengths_B.new_zeros((), dtype=torch.float32), batch.lengths_B.new_zeros(())
        for scores, target in zip(logits, targets, strict=True):
            cluster_C = target["clusters"]
            cluster_M = cluster_C[torch.from_numpy(scores.kept).to(cluster_C.device)]
            same_MK = cluster_M[scores.antecedents.index_MK] == cluster_M[:, None]
            gold_MK = same_MK & scores.antecedents.valid_MK & (cluster_M > 0)[:, None]
            document_loss, document_correct = marginal_loss(in_full_precision(scores.score_MK), gold_MK)
            total, correct = total + document_loss, correct + document_correct
            if self.mention_loss:
                mention_C = in_full_precision(scores.candidate_C)
                target_C = (cluster_C > 0).to(mention_C.dtype)
                mention_loss = F.binary_cross_entropy_with_logits(mention_C, target_C, reduction="sum")
                total = total + self.mention_loss * mention_loss
        return ObjectiveLoss(total=total, count=self.count(batch.batch), tallies={"correct": correct})

    @override
    def split(self, logits: list[DocumentScores], batch: TensorBatch) -> list[Links]:
        """The best antecedent of each mention of each document."""
        return [
            make_links(
                scores.kept,
                on_host(scores.candidate_C),
                scores.antecedents.index_MK.cpu().numpy(),
                on_host(scores.score_MK),
            )
            for scores in logits
        ]

    def _document(self, states_ND: Tensor, sample: Sample, features: Mapping[str, Tensor]) -> DocumentScores:
        hidden_ND = self._tokens(states_ND, features)
        first_C, last_C = features["first"], features["last"]
        spans = Spans(first_S=first_C, last_S=last_C, widths_S=last_C - first_C + 1)
        rows = self._plan(len(hidden_ND), len(spans))
        candidate_C = self.mentions(hidden_ND, spans, rows=rows.candidates)
        kept = keep_mentions(self.layers, sample, on_host(candidate_C))
        kept_M = torch.from_numpy(kept).to(candidate_C.device)
        # Mentions given by the user count as mentions whatever their score.
        mention_M = torch.where(features["given"][kept_M], candidate_C[kept_M].clamp(min=0), candidate_C[kept_M])
        mentions = spans.select(kept_M)
        vectors_MF = self.mentions.vectors(hidden_ND, mentions)
        ends = (sample.features[name].astype(np.int64)[kept] for name in ("first", "last"))
        spelling_M2 = torch.from_numpy(spelling_keys(document_ids(sample), *ends)).to(candidate_C.device)
        antecedents = self.coarse.choose(
            vectors_MF,
            mention_M,
            spelling_M2,
            keep=self.layers.antecedents,
            reach=self.layers.max_mentions,
            rows=rows.coarse,
        )
        known = {name: features[name][mentions.first_S] for name in ("segments", "speakers") if name in features}
        known |= {"spelling": spelling_M2} | ({"genre": features["genre"]} if "genre" in features else {})
        properties = self._pair_properties(antecedents.index_MK, antecedents.distances(), known, known)
        score_MK = self._refined(vectors_MF, antecedents, properties, rows)
        return DocumentScores(candidate_C=candidate_C, kept=kept, antecedents=antecedents, score_MK=score_MK)

    def _refined(
        self, vectors_MF: Tensor, antecedents: Antecedents, properties: Mapping[str, Tensor], rows: Rows
    ) -> Tensor:
        """(M, K) sums of coarse and fine scores; each round refines the vectors by the scores and scores them again."""
        score_MK: Tensor = antecedents.score_MK + self.fine(vectors_MF, antecedents, properties, rows=rows.fine)
        for _ in range(self.layers.rounds):
            assert self.refinement is not None
            vectors_MF = self.refinement(vectors_MF, antecedents.index_MK, score_MK)
            score_MK = antecedents.score_MK + self.fine(vectors_MF, antecedents, properties, rows=rows.fine)
        return score_MK

    def _tokens(self, states_ND: Tensor, features: Mapping[str, Tensor]) -> Tensor:
        """(N, D) hidden states of the document's tokens; with overlapping segments, both states through the gate."""
        first_ND = states_ND.index_select(0, features["positions"])
        if self.gate is None:
            return first_ND
        second_ND = states_ND.index_select(0, features["second_positions"])
        share_N1 = torch.sigmoid(self.gate(torch.cat([first_ND, second_ND], dim=1)))
        return share_N1 * first_ND + (1 - share_N1) * second_ND

    def _plan(self, tokens: int, candidates: int) -> Rows:
        attention = self.mentions.spans.attention
        width = attention.in_features if attention is not None else 0
        return plan_rows(
            self.layers, tokens=tokens, candidates=candidates, width=width, features=self.mentions.features
        )

    def _pair_properties(
        self, index_MK: Tensor, distance_MK: Tensor, own: Mapping[str, Tensor], other: Mapping[str, Tensor]
    ) -> dict[str, Tensor]:
        """(M, K) each property of the pairs, for the fine scores.

        `own` and `other` are what is known of the mentions and of those that `index_MK` points to.
        """
        properties: dict[str, Tensor] = {}
        if self.layers.distance:
            properties["distance"] = distance_bucket(distance_MK)
        if self.layers.segment_distance:
            apart_MK = own["segments"][:, None] - other["segments"][index_MK]
            properties["segment_distance"] = apart_MK.clamp(0, self.layers.segment_distances - 1)
        if self.layers.spelling:
            properties["spelling"] = compare_spelling(own["spelling"][:, None], other["spelling"][index_MK])
        if "speaker" in self.fine.properties:
            properties["speaker"] = (own["speakers"][:, None] == other["speakers"][index_MK]).long()
        if "genre" in self.fine.properties:
            properties["genre"] = own["genre"].expand(index_MK.shape)
        return properties

    @override
    def graphs(self) -> dict[str, HeadGraph]:
        """Scores and vectors of spans, and a block of mentions with their antecedents; see `host_links.py`."""
        spans = indices("first", "last", "widths")
        rows, columns, width, kept = 2, 3, self.mentions.features, self.layers.antecedents
        names = ("segments", "speakers")
        known = {name: torch.ones(columns, dtype=torch.long) for name in names} | {
            f"{name}_rows": torch.ones(rows, dtype=torch.long) for name in names
        }
        known |= {"spelling": torch.ones(columns, 2, dtype=torch.long), "genre": torch.zeros(1, dtype=torch.long)}
        known |= {"spelling_rows": torch.ones(rows, 2, dtype=torch.long)}
        known |= {"vectors": torch.randn(columns, width), "vectors_rows": torch.randn(rows, width)}
        chosen = {"index": torch.ones(rows, kept, dtype=torch.long), "scores": torch.randn(rows, kept)}
        block = known | {"source_rows": torch.randn(rows, width), "shift": torch.tensor([1])}
        block |= {"mention_rows": torch.randn(rows), "mention": torch.randn(columns)}
        fine = known | chosen | {"distance": torch.ones(rows, kept, dtype=torch.long)}
        graphs = {
            MENTIONS: HeadGraph(compute=self._mention_graph, examples=spans),
            VECTORS: HeadGraph(compute=self._vector_graph, examples=spans),
            COARSE: HeadGraph(compute=self._coarse_graph, examples=block),
            FINE: HeadGraph(compute=self._fine_graph, examples=fine),
        }
        if self.gate is not None:
            positions = indices("positions", "second_positions")
            graphs[TOKENS] = HeadGraph(compute=self._token_graph, examples=positions)
        if self.refinement is not None:
            graphs[REFINE] = HeadGraph(compute=self._refine_graph, examples=known | chosen)
        return graphs

    def _token_graph(self, encoded: Encoded) -> Tensor:
        return self._tokens(encoded.hidden_ND, encoded.batch.features)

    def _mention_graph(self, encoded: Encoded) -> Tensor:
        return self.mentions.score_block(encoded.hidden_ND, packed_spans(encoded.batch), self.mentions.prior())

    def _vector_graph(self, encoded: Encoded) -> tuple[Tensor, Tensor]:
        """The vectors of mentions, and what the coarse score multiplies them by."""
        vectors_MF = self.mentions.vectors(encoded.hidden_ND, packed_spans(encoded.batch))
        return vectors_MF, self.coarse.bilinear(vectors_MF)

    def _coarse_graph(self, encoded: Encoded) -> tuple[Tensor, Tensor]:
        known = encoded.batch.features
        mentions, spelling = ((known[f"{name}_rows"], known[name]) for name in ("mention", "spelling"))
        score_RC = self.coarse.score_block(known["source_rows"], known["vectors"], mentions, spelling)
        keep, reach = self.layers.antecedents, self.layers.max_mentions
        return self.coarse.choose_of_block(score_RC, known["shift"], keep=keep, reach=reach)

    def _fine_graph(self, encoded: Encoded) -> Tensor:
        known = encoded.batch.features
        own = {name: known[f"{name}_rows"] for name in ("segments", "speakers", "spelling")} | {"genre": known["genre"]}
        properties = self._pair_properties(known["index"], known["distance"], own, known)
        return self.fine.score_block(known["vectors_rows"], known["vectors"], known["index"], properties)

    def _refine_graph(self, encoded: Encoded) -> Tensor:
        assert self.refinement is not None
        known = encoded.batch.features
        own_RF, vectors_CF = known["vectors_rows"], known["vectors"]
        return self.refinement.refine_block(own_RF, vectors_CF, known["index"], known["scores"])


def _properties(layers: CorefLayers, *, speakers: bool, genres: int) -> dict[str, int]:
    """The number of values of each property of a pair."""
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


def split_arrays(arrays: Mapping[str, Tensor], batch: SampleBatch, *, targets: bool = False) -> list[dict[str, Tensor]]:
    """The joined features, or targets, of a batch by sample."""
    parts: list[dict[str, Tensor]] = [{} for _ in batch.samples]
    for name, joined in arrays.items():
        counts = [len((sample.targets if targets else sample.features)[name]) for sample in batch.samples]
        for part, tensor in zip(parts, torch.split(joined, counts), strict=True):
            part[name] = tensor
    return parts
