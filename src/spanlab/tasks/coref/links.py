"""What the head says of a document: its mentions, the best antecedents of each with their scores, and the choice.

Shapes: M kept mentions, K scored antecedents of each.
"""

from dataclasses import dataclass

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


def follow_links(antecedents: Integers) -> Integers:
    """(M,) the first mention of each one's chain; an antecedent is an earlier mention, or -1."""
    roots = np.arange(len(antecedents))
    for mention, antecedent in enumerate(antecedents.tolist()):
        if antecedent >= 0:
            roots[mention] = roots[antecedent]
    return roots
