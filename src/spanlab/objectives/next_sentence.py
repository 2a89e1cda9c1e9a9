"""Next-sentence prediction: does the second segment follow the first (0), or is it from elsewhere (1)?

Devlin et al. 2019, BERT.
"""

from spanlab.objectives.sentence_pairs import PairClassification


class NextSentence(PairClassification):
    """BERT's question about a pair."""

    name = "nsp"
