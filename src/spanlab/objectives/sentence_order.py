"""Sentence order: do two neighbouring segments stand in their order (0), or were they swapped (1)?

Lan et al. 2020, ALBERT.
"""

from spanlab.objectives.sentence_pairs import PairClassification


class SentenceOrder(PairClassification):
    """ALBERT's question about a pair."""

    name = "sop"
