"""The best answers of many windows at once, from scores of where an answer begins and ends.

What enters are scores for every token of a packed row; what leaves is, for each window, its best spans. All pairs of a
start and an end at most `max_length` tokens apart lie in a band of the plane of pairs: one row a start, one column a
length. So every pair is one sum in a matrix (N, A), and the best are one `topk`, for all windows of a batch together.

A span of the overlap of windows has a score in each; the best counts. `merge_windows` needs the `count` best of every
window only: whatever is among the best `count` spans of all has fewer than `count` better ones in its own window.

Shapes: N tokens, A answer length, B windows, K best spans of a window.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from spanlab.arrays import Integers


@dataclass(frozen=True, eq=False, kw_only=True)
class WindowAnswers:
    """The best spans of one window, on the host, from the best on."""

    scores: NDArray[np.float32]
    """(K,)"""
    first: Integers
    """(K,) where each begins: a token of the window's sequence, later a character of its document."""
    last: Integers
    """(K,) where each ends, inclusive."""
    null: float
    """The score of no answer."""


@dataclass(frozen=True, eq=False, kw_only=True)
class RankedAnswers:
    """The best spans of a question, from the best on."""

    scores: NDArray[np.float32]
    documents: Integers
    """Which of the question's documents each is in."""
    first: Integers
    """Where each begins in its document."""
    last: Integers
    """Where each ends, inclusive."""
    null: float
    """The lowest score of no answer of all windows: one window that surely holds an answer is enough."""


def band(start_N: Tensor, end_N: Tensor, stops_N: Tensor, max_length: int) -> Tensor:
    """(N, A) the score of the span that begins at each token and is 1 to A tokens long; -inf where there is none.

    Args:
        start_N: How well an answer begins at each token.
        end_N: How well it ends there.
        stops_N: Where the text that may hold the answer ends, for each token that may begin one; 0 for the others.
        max_length: A.
    """
    places_N = torch.arange(len(start_N), device=start_N.device)
    beyond_A = end_N.new_full((max_length - 1,), -torch.inf)
    ends_NA = torch.cat([end_N, beyond_A]).unfold(0, max_length, 1)
    outside_NA = places_N[:, None] + torch.arange(max_length, device=start_N.device) >= stops_N[:, None]
    return (start_N[:, None] + ends_NA).masked_fill(outside_NA, -torch.inf)


def best_of_windows(band_NA: Tensor, null_B: Tensor, lengths_B: Tensor, count: int) -> list[WindowAnswers]:
    """The `count` best spans of each window of a packed row; fewer where a window has fewer."""
    scores_BTA = pad_rows(band_NA, lengths_B, -torch.inf)
    width = band_NA.shape[1]
    scores_BC = scores_BTA.flatten(1)
    found = scores_BC.topk(min(count, scores_BC.shape[1]), dim=1)
    scores, places = found.values.float().cpu().numpy(), found.indices.cpu().numpy()
    real = scores > -np.inf
    first, last = places // width, places // width + places % width
    return [
        WindowAnswers(scores=scores[b, real[b]], first=first[b, real[b]], last=last[b, real[b]], null=null)
        for b, null in enumerate(null_B.float().tolist())
    ]


def pad_rows(values: Tensor, lengths_B: Tensor, fill: float) -> Tensor:
    """(N, …) of a packed row as (B, T, …), with `fill` where a window is shorter than the longest."""
    counts = lengths_B.tolist()
    return torch.nn.utils.rnn.pad_sequence(list(torch.split(values, counts)), batch_first=True, padding_value=fill)


def merge_windows(windows: Sequence[WindowAnswers], documents: Sequence[int], count: int) -> RankedAnswers:
    """The `count` best spans of all windows of a question, each span once.

    Args:
        windows: The best of each window, with places of its document.
        documents: The document each window is of.
        count: How many are kept.
    """
    sizes = [len(window.scores) for window in windows]
    document = np.repeat(np.array(documents, dtype=np.int64), sizes)
    scores = np.concatenate([window.scores for window in windows])
    first = np.concatenate([window.first for window in windows])
    last = np.concatenate([window.last for window in windows])
    order = np.lexsort((last, first, document, -scores))
    keys = np.stack([document, first, last], axis=1)[order]
    _, earliest = np.unique(keys, axis=0, return_index=True)  # of each span, its place of the best score
    best = order[np.sort(earliest)[:count]]
    return RankedAnswers(
        scores=scores[best],
        documents=document[best],
        first=first[best],
        last=last[best],
        null=min(window.null for window in windows),
    )


def probabilities(scores: NDArray[np.floating]) -> NDArray[np.float64]:
    """(K,) a softmax of scores, in double precision."""
    if not len(scores):
        return np.zeros(0)
    raised = np.exp(scores.astype(np.float64) - scores.max())
    shares: NDArray[np.float64] = raised / raised.sum()
    return shares


def tokens_over(starts: Integers, ends: Integers, begin: int, end: int) -> tuple[int, int] | None:
    """First and last token that hold characters `begin` to `end` (exclusive); None if no token does."""
    first = int(np.searchsorted(ends, begin, side="right"))
    last = int(np.searchsorted(starts, end, side="left")) - 1
    return (first, last) if first <= last else None
