"""Scores of spans to the best of each window, on the host.

The spans of at most `max_answer` tokens form a matrix (C, A), one row a first token of the context and one column a
length. So the scores of all spans are one sum, and the best are one partition.

Shapes: N tokens, T tokens of a window, C tokens of its context, A answer length, K best spans, B windows.
"""

from collections.abc import Iterator
from typing import Any

import numpy as np
from numpy.lib.stride_tricks import sliding_window_view
from numpy.typing import NDArray

from spanlab.tasks.host_head import LOGITS, EncodedSample, HostHead, Layers
from spanlab.tasks.qa.decode import WindowAnswers
from spanlab.tasks.sample import Sample, SampleBatch
from spanlab.tasks.spans.units import enumerate_spans

Scores = NDArray[np.float32]


def band(start_C: Scores, end_C: Scores, max_answer: int) -> Scores:
    """(C, A) the score of the span that begins at each token and is 1 to A tokens long; -inf where there is none."""
    scores_CA: Scores = start_C[:, None] + _ends(end_C, max_answer, -np.inf)
    return scores_CA


def best_pointers(logits_N2: Scores, batch: SampleBatch, *, max_answer: int, count: int) -> list[WindowAnswers]:
    """The best spans of each window from the logits of where an answer begins and where it ends."""
    answers = []
    for sample, logits_T2 in zip(batch.samples, _by_sample(logits_N2, batch), strict=True):
        context, null = context_of(sample), null_position(sample)
        start_C, end_C = logits_T2[context].T
        answers.append(best_of_window(sample, band(start_C, end_C, max_answer), logits_T2[null].sum(), count))
    return answers


def best_of_windows(band_NA: Scores, null_B: Scores, batch: SampleBatch, *, count: int) -> list[WindowAnswers]:
    """The best spans of each window from the scores of the spans that begin at each of its tokens."""
    parts = zip(batch.samples, _by_sample(band_NA, batch), null_B, strict=True)
    return [best_of_window(sample, band_TA[context_of(sample)], null, count) for sample, band_TA, null in parts]


def best_of_window(sample: Sample, band_CA: Scores, null: np.float32, count: int) -> WindowAnswers:
    """The `count` best spans of a window, fewer where it has fewer; none begins or ends inside a word."""
    ends_CA = _ends(sample.features["may_end"].astype(bool), band_CA.shape[1], False)
    allowed_CA = sample.features["may_begin"].astype(bool)[:, None] & ends_CA
    scores = np.where(allowed_CA, band_CA, -np.inf).astype(np.float32).ravel()
    best_K = np.argpartition(-scores, count - 1)[:count] if len(scores) > count else np.arange(len(scores))
    best_K = best_K[scores[best_K] > -np.inf]
    best_K = best_K[np.lexsort((best_K, -scores[best_K]))]
    first_K, extra_K = np.divmod(best_K, band_CA.shape[1])
    first_K += context_of(sample).start
    return WindowAnswers(scores=scores[best_K], first=first_K, last=first_K + extra_K, null=float(null))


def score_spans(*, max_answer: int, count: int) -> HostHead:
    """A head that scores every span of the context, and no answer as the span of the null position."""

    def output(layers: Layers, encoded: EncodedSample) -> WindowAnswers:
        sample = encoded.sample
        context, null = context_of(sample), null_position(sample)
        size = context.stop - context.start
        first_S, last_S = enumerate_spans(np.array([context.start]), np.array([size]), max_answer)
        first_S, last_S = (np.append(null, ends_S) for ends_S in (first_S, last_S))
        spans = {"first": first_S, "last": last_S, "widths": last_S - first_S + 1}
        (score_S,) = layers(LOGITS, encoded.inputs | spans)
        band_CA = np.full((size, max_answer), -np.inf, np.float32)
        band_CA[first_S[1:] - context.start, (last_S - first_S)[1:]] = score_S[1:]
        return best_of_window(sample, band_CA, score_S[0], count)

    return output


def context_of(sample: Sample) -> slice:
    """Where the context is in the window's sequence."""
    return slice(int(sample.features["begin"][0]), int(sample.features["stop"][0]))


def null_position(sample: Sample) -> int:
    """The position of the token that stands for no answer."""
    return int(sample.features["null"][0])


def _ends(values_C: NDArray[Any], width: int, fill: float) -> NDArray[Any]:
    """(C, A) the value at the last token of the span that begins at each token; `fill` beyond the context."""
    padding = np.full(width, fill, values_C.dtype)  # one more than a context needs, for a context without tokens
    return sliding_window_view(np.concatenate([values_C, padding]), width)[: len(values_C)]


def _by_sample(values_N: Scores, batch: SampleBatch) -> Iterator[Scores]:
    return iter(np.split(values_N, np.cumsum([sample.tokens for sample in batch.samples])[:-1]))
