"""`head=span`: a score for every candidate span of the context, by its vector, and one for no answer.

Shapes: N tokens, B windows, A answer length, S candidate spans, C candidates of a window, H inner width.
"""

import torch
import torch.nn.functional as F
from torch import Tensor, nn
from typing_extensions import override

from spanlab.arrays import offsets
from spanlab.encoder import EncoderConfig
from spanlab.encoder.layers import ACTIVATIONS, Dropout, init_weights
from spanlab.objectives.objective import ObjectiveLoss, in_full_precision
from spanlab.tasks.head import Encoded, Head
from spanlab.tasks.head_graphs import HeadGraph, indices
from spanlab.tasks.heads import on_host, pad_rows
from spanlab.tasks.host_head import LOGITS
from spanlab.tasks.qa.band import best_of_windows
from spanlab.tasks.qa.config import QaConfig
from spanlab.tasks.qa.decode import WindowAnswers
from spanlab.tasks.sample import SampleBatch
from spanlab.tasks.spans.representation import SpanRepresentation, Spans, packed_spans
from spanlab.tasks.spans.units import enumerate_spans
from spanlab.tasks.tensor_batch import TensorBatch

Scores = tuple[Tensor, Tensor]
"""(N, A) of the span that begins at each token and is 1 to A tokens long, -inf where there is none; (B,) no answer."""


class AnswerSpanHead(Head):
    """A score for every span of the context up to the longest answer; no answer is the span of the null position."""

    def __init__(self, encoder: EncoderConfig, config: QaConfig) -> None:
        super().__init__()
        self.spans = SpanRepresentation(encoder.width, config.span, dropout=encoder.dropout, init_std=encoder.init_std)
        self.inner = nn.Linear(self.spans.features, config.inner_width)
        self.dropout = Dropout(encoder.dropout)
        self.score = nn.Linear(config.inner_width, 1)
        self.max_answer, self.n_best = config.max_answer, config.n_best
        for layer in (self.inner, self.score):
            init_weights(layer, encoder.init_std)

    @override
    def count(self, batch: SampleBatch) -> int:
        """The windows without an answer, or with one that is a candidate."""
        widths = (int(sample.targets["last"][0] - sample.targets["first"][0]) for sample in batch.samples)
        return sum(width < self.max_answer for width in widths)

    @override
    def graphs(self) -> dict[str, HeadGraph]:
        """The scores of a window's candidates, which are inputs."""

        def compute(encoded: Encoded) -> Tensor:
            return self._score(encoded, packed_spans(encoded.batch))

        return {LOGITS: HeadGraph(compute=compute, examples=indices("first", "last", "widths"))}

    def _score(self, encoded: Encoded, spans: Spans) -> Tensor:
        """(S,) the scores of spans."""
        inner_SH = ACTIVATIONS["gelu"](self.spans.project(encoded.hidden_ND, spans, self.inner))
        return in_full_precision(self.score(self.dropout(inner_SH)).squeeze(-1))

    @override
    def forward(self, encoded: Encoded) -> Scores:
        spans = self._candidates(encoded.batch)
        score_S = self._score(encoded, spans)
        windows = len(encoded.batch.lengths_B)
        null_B, rest_S = score_S[:windows], score_S[windows:]
        first_S, last_S = spans.first_S[windows:], spans.last_S[windows:]
        empty_NA = rest_S.new_full((len(encoded.hidden_ND), self.max_answer), -torch.inf)
        return empty_NA.index_put((first_S, last_S - first_S), rest_S), null_B

    def _candidates(self, batch: TensorBatch) -> Spans:
        """The null position of every window, then all spans of all contexts."""
        begin, stop, null = (batch.features[name].cpu().numpy() for name in ("begin", "stop", "null"))
        starts = offsets(batch.lengths_B.cpu().numpy())
        spans = Spans.of(*enumerate_spans(starts + begin, stop - begin, self.max_answer))
        null_B = torch.from_numpy(starts + null)
        return Spans(
            first_S=torch.cat([null_B, spans.first_S]),
            last_S=torch.cat([null_B, spans.last_S]),
            widths_S=torch.cat([torch.ones_like(null_B), spans.widths_S]),
        ).to(batch.lengths_B.device)

    @override
    def loss(self, logits: Scores, batch: TensorBatch) -> ObjectiveLoss:
        """The cross-entropy over all candidates of each window, summed over the windows."""
        band_NA, null_B = logits
        score_BC = pad_rows(band_NA, batch.lengths_B, -torch.inf).flatten(1)
        score_BC = torch.cat([null_B[:, None], score_BC], dim=1)
        first_B, last_B = batch.targets["first"], batch.targets["last"]
        width_B = last_B - first_B
        target_B = torch.where(first_B == batch.features["null"], 0, 1 + first_B * self.max_answer + width_B)
        target_B = target_B.masked_fill(width_B >= self.max_answer, -100)
        total = F.cross_entropy(score_BC, target_B, ignore_index=-100, reduction="sum")
        correct = (score_BC.argmax(dim=-1) == target_B).sum()
        return ObjectiveLoss(total=total, count=int((target_B >= 0).sum()), tallies={"correct": correct})

    @override
    def split(self, logits: Scores, batch: TensorBatch) -> list[WindowAnswers]:
        """The best spans of each window."""
        band_NA, null_B = map(on_host, logits)
        return best_of_windows(band_NA, null_B, batch.batch, count=self.n_best)
