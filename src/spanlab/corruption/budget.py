"""How many tokens of each block are masked.

| rule | tokens of a block of n | who |
|---|---|---|
| `ceil` | ⌈ratio·n⌉ of the text | SpanBERT's released code |
| `round` | max(1, round(ratio·n)), counting special tokens, at most `max_predictions` | BERT, ALBERT |
| `chance` | ⌊ratio·n + u⌋ with u uniform in [0, 1), so that the mean is exact | RoBERTa |
| `floor` | ⌊ratio·n⌋ of the text: `int(ratio * n)` | many tutorials |
"""

from typing import Literal

import numpy as np

from spanlab.arrays import Integers
from spanlab.corpus.randomness import Draws, draw, uniform

Rounding = Literal["ceil", "round", "chance", "floor"]


def budgets(
    text_lengths: Integers,
    all_lengths: Integers,
    keys: Draws,
    *,
    ratio: float,
    rounding: Rounding,
    max_predictions: int | None = None,
) -> Integers:
    """(B,) the number of tokens to mask; `chance` draws u from the samples' `keys` (B,).

    At least one text token of a block stays unmasked.
    """
    if rounding == "ceil":
        # Guard against ratio·n landing a hair above a whole number: 0.15 · 20 is 3, not 3.0000000000000004.
        wanted = np.ceil(ratio * text_lengths - 1e-9)
    elif rounding == "round":
        # Halves go to the even neighbour, as in Python's own round.
        wanted = np.maximum(1, np.round(ratio * all_lengths))
    elif rounding == "floor":
        wanted = np.floor(ratio * text_lengths + 1e-9)
    else:
        wanted = np.floor(ratio * text_lengths + uniform(draw(keys, 0)))
    if max_predictions is not None:
        wanted = np.minimum(wanted, max_predictions)
    limit = np.where(text_lengths < 2, 0, text_lengths - 1)
    whole: Integers = np.minimum(wanted, limit).astype(np.int64)
    return whole
