"""Scores of spans to the best of each window.

The spans of at most `max_length` tokens form a matrix (N, A), one row a start and one column a length. So the scores of
all spans are one sum, and the best are one `topk`, for all windows of a batch together.

Shapes: N tokens, A answer length, B windows.
"""

import numpy as np
import torch
from torch import Tensor

from spanlab.tasks.qa.decode import WindowAnswers
from spanlab.tasks.tensor_batch import TensorBatch


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
