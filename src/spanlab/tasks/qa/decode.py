"""The best spans of windows to answers: the best of all windows of a question, and their probabilities.

A span in the overlap of windows has a score in each; the highest counts. `merge_windows` needs only the `count` best of
every window: a span among the best `count` of all has fewer than `count` better ones in its own window.

Shapes: K best spans of a window.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from spanlab.arrays import Integers
from spanlab.tasks.qa.data import Answer
from spanlab.tasks.sample import Sample


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
