"""Samples without a text, for tests of batches."""

import numpy as np

from spanlab.tasks.sample import Sample, TokenSequence


def samples_of(lengths: list[int], seed: int = 0) -> list[Sample]:
    """One sequence each, with a label."""
    rng = np.random.default_rng(seed)
    return [
        Sample(
            example=number,
            sequences=(TokenSequence(ids=rng.integers(5, 60, length)),),
            targets={"label": np.array([number % 2])},
        )
        for number, length in enumerate(lengths)
    ]
