"""Samples, the unit of batches: sequences of token ids, with the features and targets of a head.

An example becomes one or more samples: a short text is one sample of one sequence, a long one a sample per window. The
two texts of a bi-encoder are two sequences of one sample, and so are the segments of a document that a head needs
together. Training draws samples, a batch holds samples, and a head has one output per sample.

A batch concatenates all sequences without padding (`tensor_batch.py`). The arrays of one name are concatenated along
their first axis, too; positions in them count from the start of the sample's own sequence.

Shapes: N tokens.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from spanlab.arrays import Flags, Integers

Arrays = Mapping[str, NDArray[np.generic]]


@dataclass(frozen=True, kw_only=True, eq=False)
class TokenSequence:
    """The ids of one sequence with its special tokens."""

    ids: Integers
    """(N,)"""
    segments: Integers | None = None
    """(N,) token type ids, for encoders with several segments."""
    word_starts: Flags | None = None
    """(N,) whether a word of a text, or a special token, begins here; None if unknown."""
    prefix: int = 0
    """The number of first tokens that attend to each other in both directions in a causal encoder."""

    def __len__(self) -> int:
        return len(self.ids)


@dataclass(frozen=True, kw_only=True, eq=False)
class Sample:
    """One or more sequences that are computed together, with their features and targets."""

    example: int
    """The index of its example in the list that was encoded."""
    sequences: tuple[TokenSequence, ...]
    features: Arrays = field(default_factory=dict)
    """The head's inputs besides hidden states, in training and prediction; by name, the first axis is concatenated."""
    targets: Arrays = field(default_factory=dict)
    """What the head learns to predict; empty in prediction."""
    fixed: Flags | None = None
    """(N,) tokens of all sequences, end to end, that augmentation must not change: whatever a label points to, such as
    an entity, an answer, a mention or a sentence of the summary. None: only special tokens."""
    truncated: bool = False
    """Whether text of the example was truncated, on request."""
    draw: "Callable[[np.random.Generator], Sample] | None" = None
    """Draws another part of the example each time training uses it; None: the sample is the whole example."""

    @property
    def tokens(self) -> int:
        """Tokens of all its sequences."""
        return sum(map(len, self.sequences))

    @property
    def longest(self) -> int:
        """Tokens of its longest sequence."""
        return max(map(len, self.sequences))


@dataclass(frozen=True, kw_only=True, eq=False)
class SampleBatch:
    """Samples of one task, on the host."""

    task: str
    """The name of the head they are for."""
    samples: tuple[Sample, ...]

    @property
    def sequences(self) -> list[TokenSequence]:
        """Of all samples, in order."""
        return [sequence for sample in self.samples for sequence in sample.sequences]

    def feature_counts(self, name: str) -> list[int]:
        """The length of a feature in each sample."""
        return [len(sample.features[name]) for sample in self.samples]
