"""Scores of spans to answers: the best of each window, of all windows of a question, and their probabilities.

The spans of at most `max_length` tokens form a matrix (N, A), one row a start and one column a length. So the scores of
all spans are one sum, and the best are one `topk`, for all windows of a batch together.

A span in the overlap of windows has a score in each; the highest counts. `merge_windows` needs only the `count` best of
every window: a span among the best `count` of all has fewer than `count` better ones in its own window.

Shapes: N tokens, A answer length, B windows, K best spans of a window.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from spanlab.arrays import Integers
from spanlab.tasks.qa.data import Answer
from spanlab.tasks.sample import Sample, TensorBatch


@dataclass(frozen=True, eq=False, kw_only=True)
class WindowAnswers:
    """The best spans of one window, best first, on the host."""

    scores: NDArray[np.float32]
    """(K,)"""
    first: Integers
    """(K,) the first token of each in the window's sequence; in `merge_windows`, its first character."""
    last: Integers
    """(K,) the last token or character, inclusive."""
    null: float
    """The score of no answer."""


@dataclass(frozen=True, eq=False, kw_only=True)
class RankedAnswers:
    """The best spans of a question, best first."""

    scores: NDArray[np.float32]
    documents: Integers
    """The index of each answer's document."""
    first: Integers
    """The first character of each in its document."""
    last: Integers
    """The last character of each, inclusive."""
    null: float
    """The lowest score of no answer of all windows: one window that clearly holds an answer is enough."""

    def text(self, contexts: Sequence[str], rank: int) -> str:
        """The text of an answer."""
        return contexts[int(self.documents[rank])][int(self.first[rank]) : int(self.last[rank]) + 1]


def band(start_N: Tensor, end_N: Tensor, stops_N: Tensor, max_length: int) -> Tensor:
    """(N, A) the score of the span that begins at each token and is 1 to A tokens long; -inf where there is none.

    Args:
        start_N: Logits of an answer's first token.
        end_N: Logits of its last token.
        stops_N: Where the context of each token's window ends; 0 for tokens that are not in a context.
        max_length: A.
    """
    position_N = torch.arange(len(start_N), device=start_N.device)
    padding_A = end_N.new_full((max_length - 1,), -torch.inf)
    ends_NA = torch.cat([end_N, padding_A]).unfold(0, max_length, 1)
    outside_NA = position_N[:, None] + torch.arange(max_length, device=start_N.device) >= stops_N[:, None]
    return (start_N[:, None] + ends_NA).masked_fill(outside_NA, -torch.inf)


def context_stops(batch: TensorBatch) -> Tensor:
    """(N,) where the context of its window ends, for tokens of the context; 0 for all others."""
    position_N = torch.arange(len(batch.input_ids_N), device=batch.input_ids_N.device)
    begin_N, stop_N = (
        torch.repeat_interleave(batch.features[name] + batch.starts, batch.lengths_B) for name in ("begin", "stop")
    )
    return torch.where((position_N >= begin_N) & (position_N < stop_N), stop_N, 0)


def without_cut_words(band_NA: Tensor, batch: TensorBatch) -> Tensor:
    """The scores of spans with -inf for those that begin or end where `may_begin` or `may_end` is false."""
    begins_N, ends_N = torch.zeros(2, len(band_NA), dtype=torch.bool, device=band_NA.device)
    is_context_N = context_stops(batch) > 0
    begins_N[is_context_N], ends_N[is_context_N] = batch.features["may_begin"], batch.features["may_end"]
    longest = band_NA.shape[1]
    ends_NA = torch.cat([ends_N, ends_N.new_zeros(longest - 1)]).unfold(0, longest, 1)
    return band_NA.masked_fill(~(begins_N[:, None] & ends_NA), -torch.inf)


def best_of_windows(band_NA: Tensor, null_B: Tensor, lengths_B: Tensor, count: int) -> list[WindowAnswers]:
    """The `count` best spans of each window of a packed row; fewer where a window has fewer."""
    scores_BTA = pad_rows(band_NA, lengths_B, -torch.inf)
    width = band_NA.shape[1]
    scores_BC = scores_BTA.flatten(1)
    best = scores_BC.topk(min(count, scores_BC.shape[1]), dim=1)
    scores, indices = best.values.float().cpu().numpy(), best.indices.cpu().numpy()
    valid = scores > -np.inf
    first, last = indices // width, indices // width + indices % width
    return [
        WindowAnswers(scores=scores[b, valid[b]], first=first[b, valid[b]], last=last[b, valid[b]], null=null)
        for b, null in enumerate(null_B.float().tolist())
    ]


def pad_rows(values: Tensor, lengths_B: Tensor, fill: float) -> Tensor:
    """(N, …) of a packed row as (B, T, …), with `fill` where a window is shorter than the longest."""
    counts = lengths_B.tolist()
    return torch.nn.utils.rnn.pad_sequence(list(torch.split(values, counts)), batch_first=True, padding_value=fill)


def merge_windows(windows: Sequence[WindowAnswers], documents: Sequence[int], count: int) -> RankedAnswers:
    """The `count` best spans of all windows of a question, each span once.

    Args:
        windows: The best of each window, with positions in its document.
        documents: The document each window is of.
        count: The number of spans to keep.
    """
    sizes = [len(window.scores) for window in windows]
    document = np.repeat(np.array(documents, dtype=np.int64), sizes)
    scores = np.concatenate([window.scores for window in windows])
    first = np.concatenate([window.first for window in windows])
    last = np.concatenate([window.last for window in windows])
    order = np.lexsort((last, first, document, -scores))
    keys = np.stack([document, first, last], axis=1)[order]
    _, earliest = np.unique(keys, axis=0, return_index=True)  # of each span, the rank of its best score
    best = order[np.sort(earliest)[:count]]
    return RankedAnswers(
        scores=scores[best],
        documents=document[best],
        first=first[best],
        last=last[best],
        null=min(window.null for window in windows),
    )


def rank_answers(samples: Sequence[Sample], outputs: Sequence[WindowAnswers], count: int) -> RankedAnswers:
    """The `count` best answers of a question's windows, by characters of their documents."""
    windows = []
    for sample, output in zip(samples, outputs, strict=True):
        begin = int(sample.features["begin"][0])
        starts, ends = (np.asarray(sample.features[name], dtype=np.int64) for name in ("starts", "ends"))
        first, last = starts[output.first - begin], ends[output.last - begin] - 1
        windows.append(WindowAnswers(scores=output.scores, first=first, last=last, null=output.null))
    return merge_windows(windows, [int(sample.features["document"][0]) for sample in samples], count)


def scored_answers(contexts: Sequence[str], ranked: RankedAnswers, *, with_null: bool) -> tuple[list[Answer], Answer]:
    """The answers and no answer with probabilities that sum to one; `with_null`: no answer is one of them."""
    shares = probabilities(np.append(ranked.scores, ranked.null) if with_null else ranked.scores)
    answers = [
        Answer(
            answer=ranked.text(contexts, rank),
            start=int(ranked.first[rank]),
            end=int(ranked.last[rank]) + 1,
            document=int(ranked.documents[rank]),
            score=round(float(shares[rank]), 6),
        )
        for rank in range(len(ranked.scores))
    ]
    null_score = round(float(shares[-1]), 6) if with_null else float(not answers)
    return answers, Answer(answer="", start=None, end=None, document=None, score=null_score)


def probabilities(scores: NDArray[np.floating]) -> NDArray[np.float64]:
    """(K,) a softmax of scores, in double precision."""
    if not len(scores):
        return np.zeros(0)
    exponentials = np.exp(scores.astype(np.float64) - scores.max())
    shares: NDArray[np.float64] = exponentials / exponentials.sum()
    return shares
