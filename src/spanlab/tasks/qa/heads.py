"""The two heads of question answering: pointers to both ends of an answer, or a score for every candidate span.

A window that holds no answer is taught to point at its null place, the summarising token. Both heads end in scores of
all spans of a window, a band (N, A) of starts by lengths, so both are searched alike (`answer_search`).

Shapes: N tokens, D width, B windows, T longest window, A answer length, S candidate spans, H inner width.
"""

from dataclasses import dataclass

import torch
import torch.nn.functional as F
from torch import Tensor, nn
from typing_extensions import override

from spanlab.arrays import offsets
from spanlab.encoder import EncoderConfig
from spanlab.encoder.heads import AnswerHead
from spanlab.encoder.layers import ACTIVATIONS, Dropout
from spanlab.encoder.model import init_weights
from spanlab.objectives.objective import ObjectiveLoss, in_full_precision
from spanlab.tasks.base import Encoded, Head, StandardHead
from spanlab.tasks.qa.decode import WindowAnswers, band, best_of_windows, pad_rows
from spanlab.tasks.sample import SampleBatch, TensorBatch
from spanlab.tasks.spans.representation import SpanConfig, SpanRepresentation, Spans, enumerate_spans


def text_stops(batch: TensorBatch) -> Tensor:
    """(N,) where the context of its window ends, for tokens of the context; 0 for all others."""
    place_N = torch.arange(len(batch.input_ids_N), device=batch.input_ids_N.device)
    begin_N, stop_N = (
        torch.repeat_interleave(batch.features[name] + batch.starts, batch.lengths_B) for name in ("begin", "stop")
    )
    return torch.where((place_N >= begin_N) & (place_N < stop_N), stop_N, 0)


class PointerHead(Head):
    """How well an answer begins, and ends, at each token."""

    def __init__(self, encoder: EncoderConfig, *, max_answer: int, n_best: int) -> None:
        super().__init__()
        self.ends = AnswerHead(encoder)
        self.max_answer, self.n_best = max_answer, n_best

    @property
    @override
    def standard(self) -> StandardHead:
        return StandardHead(kind="answer", layer=self.ends)

    @override
    def forward(self, encoded: Encoded) -> Tensor:
        """(N, 2) logits of start and end."""
        return self.ends(encoded.hidden_ND)  # type: ignore[no-any-return]

    @override
    def loss(self, logits: Tensor, batch: TensorBatch) -> ObjectiveLoss:
        """Half the cross-entropy of both ends over the tokens of each window, summed over the windows."""
        start_BT, end_BT = pad_rows(in_full_precision(logits), batch.lengths_B, -torch.inf).unbind(-1)
        first_B, last_B = batch.targets["first"], batch.targets["last"]
        total = F.cross_entropy(start_BT, first_B, reduction="sum") + F.cross_entropy(end_BT, last_B, reduction="sum")
        correct = ((start_BT.argmax(-1) == first_B) & (end_BT.argmax(-1) == last_B)).sum()
        return ObjectiveLoss(total=total / 2, count=len(first_B), tallies={"correct": correct})

    @override
    def split(self, logits: Tensor, batch: TensorBatch) -> list[WindowAnswers]:
        """The best spans of each window."""
        start_N, end_N = in_full_precision(logits).unbind(-1)
        null_B = batch.features["null"] + batch.starts
        scores_NA = band(start_N, end_N, text_stops(batch), self.max_answer)
        return best_of_windows(scores_NA, start_N[null_B] + end_N[null_B], batch.lengths_B, self.n_best)


@dataclass(frozen=True, eq=False, kw_only=True)
class CandidateScores:
    """What the candidate head says about a batch."""

    band_NA: Tensor
    """The score of the span that begins at each token and is 1 to A tokens long; -inf where there is none."""
    null_B: Tensor
    """The score of no answer."""


class CandidateHead(Head):
    """A score for every span of the context up to the longest answer, and one for no answer."""

    def __init__(
        self, encoder: EncoderConfig, config: SpanConfig, *, inner_width: int, max_answer: int, n_best: int
    ) -> None:
        super().__init__()
        self.spans = SpanRepresentation(encoder.width, config, dropout=encoder.dropout, init_std=encoder.init_std)
        self.inner = nn.Linear(self.spans.features, inner_width)
        self.dropout = Dropout(encoder.dropout)
        self.score = nn.Linear(inner_width, 1)
        self.max_answer, self.n_best = max_answer, n_best
        for layer in (self.inner, self.score):
            init_weights(layer, encoder.init_std)

    @override
    def count(self, batch: SampleBatch) -> int:
        """The windows without an answer, or with one that is a candidate."""
        wide = (int(sample.targets["last"][0] - sample.targets["first"][0]) for sample in batch.samples)
        return sum(width < self.max_answer for width in wide)

    @override
    def forward(self, encoded: Encoded) -> CandidateScores:
        """The scores of all candidates, no answer being the span of the null place alone."""
        batch = encoded.batch
        spans = self._candidates(batch)
        inner_SH = ACTIVATIONS["gelu"](self.spans.project(encoded.hidden_ND, spans, self.inner))
        scores_S = in_full_precision(self.score(self.dropout(inner_SH)).squeeze(-1))
        windows = len(batch.lengths_B)
        null_B, rest_S = scores_S[:windows], scores_S[windows:]
        first_S, last_S = spans.first_S[windows:], spans.last_S[windows:]
        empty_NA = rest_S.new_full((len(encoded.hidden_ND), self.max_answer), -torch.inf)
        band_NA = empty_NA.index_put((first_S, last_S - first_S), rest_S)
        return CandidateScores(band_NA=band_NA, null_B=null_B)

    def _candidates(self, batch: TensorBatch) -> Spans:
        """The null place of every window, then all spans of all contexts."""
        begin, stop, null = (batch.features[name].cpu().numpy() for name in ("begin", "stop", "null"))
        starts = offsets(batch.lengths_B.cpu().numpy())
        first, last = enumerate_spans(starts + begin, stop - begin, self.max_answer)
        nulls = torch.from_numpy(starts + null)
        spans = Spans.of(first, last)
        joined = (
            torch.cat([nulls, spans.first_S]),
            torch.cat([nulls, spans.last_S]),
            torch.cat([torch.ones_like(nulls), spans.widths_S]),
        )
        return Spans(first_S=joined[0], last_S=joined[1], widths_S=joined[2]).to(batch.lengths_B.device)

    @override
    def loss(self, logits: CandidateScores, batch: TensorBatch) -> ObjectiveLoss:
        """The cross-entropy over all candidates of each window, summed over the windows."""
        scores_BC = pad_rows(logits.band_NA, batch.lengths_B, -torch.inf).flatten(1)
        scores_BC = torch.cat([logits.null_B[:, None], scores_BC], dim=1)
        first_B, last_B = batch.targets["first"], batch.targets["last"]
        width_B = last_B - first_B
        target_B = torch.where(first_B == batch.features["null"], 0, 1 + first_B * self.max_answer + width_B)
        target_B = target_B.masked_fill(width_B >= self.max_answer, -100)
        total = F.cross_entropy(scores_BC, target_B, ignore_index=-100, reduction="sum")
        correct = (scores_BC.argmax(dim=-1) == target_B).sum()
        return ObjectiveLoss(total=total, count=int((target_B >= 0).sum()), tallies={"correct": correct})

    @override
    def split(self, logits: CandidateScores, batch: TensorBatch) -> list[WindowAnswers]:
        """The best spans of each window."""
        return best_of_windows(logits.band_NA, logits.null_B, batch.lengths_B, self.n_best)
