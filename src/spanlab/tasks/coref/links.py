"""What the head says of a document: its mentions, the best antecedents of each with their scores, and the choice.

Shapes: M kept mentions, K scored antecedents of each.
"""

from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from spanlab.arrays import Integers


@dataclass(frozen=True, eq=False, kw_only=True)
class Links:
    """The head's output for one document, on the host."""

    kept: Integers
    """(M,) the indices of the kept candidates, in the order of the text."""
    mention_scores: NDArray[np.float32]
    """(M,) logits of being a mention."""
    antecedents: Integers
    """(M,) the index, among the kept, of each one's antecedent; -1 for none."""
    link_scores: NDArray[np.float32]
    """(M,) the probability of that choice."""
    index: Integers
    """(M, K) the antecedents that were scored."""
    scores: NDArray[np.float32]
    """(M, K) their scores; 0 is that of having none, minus infinity where there is no antecedent."""

    def within(self, tokens_M: Integers, reach_M: Integers) -> "Links":
        """The links without antecedents that begin more than `reach_M` tokens back; `tokens_M` is where each begins."""
        is_far_MK = tokens_M[:, None] - tokens_M[self.index] > reach_M[:, None]
        if not is_far_MK.any():
            return self
        scores_MK = np.where(is_far_MK, -np.inf, self.scores).astype(np.float32)
        return replace(self, scores=scores_MK).best()

    def best(self) -> "Links":
        """The choice by the scores alone: the best antecedent if it scores above 0, which is having none."""
        probability_MK = antecedent_probabilities(self.scores)
        best_M = self.scores.argmax(axis=1) if self.scores.size else np.zeros(len(self.scores), np.int64)
        rows_M = np.arange(len(best_M))
        is_linked_M = self.scores[rows_M, best_M] > 0
        none_M = 1.0 - probability_MK.sum(axis=1)
        return replace(
            self,
            antecedents=np.where(is_linked_M, self.index[rows_M, best_M], -1),
            link_scores=np.where(is_linked_M, probability_MK[rows_M, best_M], none_M).astype(np.float32),
        )


def antecedent_probabilities(scores_MK: NDArray[np.float32]) -> NDArray[np.float32]:
    """(M, K) of each antecedent, where having none scores 0."""
    highest_M1 = scores_MK.max(axis=1, keepdims=True, initial=0.0)
    exponents_MK = np.exp(scores_MK - highest_M1)
    total_M1 = exponents_MK.sum(axis=1, keepdims=True) + np.exp(-highest_M1)
    probability_MK: NDArray[np.float32] = (exponents_MK / total_M1).astype(np.float32)
    return probability_MK


def follow_links(antecedents: Integers) -> Integers:
    """(M,) the first mention of each one's chain; an antecedent is an earlier mention, or -1."""
    roots = np.arange(len(antecedents))
    for mention, antecedent in enumerate(antecedents.tolist()):
        if antecedent >= 0:
            roots[mention] = roots[antecedent]
    return roots
