"""What the head of extractive summaries does on the host, where an exported model computes its layers."""

from typing import Any

import numpy as np

from spanlab.arrays import sinusoids
from spanlab.tasks.host_head import LOGITS, EncodedSample, Layers, by_feature

POSITIONS, SENTENCE = "sentence_positions", "sentence"
"""Inputs of the graph: the sinusoids of each sentence's position, and the sentence of each representing token."""


def sentence_logits(layers: Layers, encoded: EncodedSample) -> Any:  # noqa: ANN401 (an array)
    """(K,) the logits of a document's sentences."""
    inputs = encoded.inputs
    counts_K = inputs["counts"]
    inputs[POSITIONS] = sinusoids(len(counts_K), encoded.hidden_TD.shape[1])
    inputs[SENTENCE] = np.repeat(np.arange(len(counts_K)), counts_K)
    (logits_K,) = layers(LOGITS, inputs)
    return by_feature("counts")(logits_K, encoded.as_batch)[0]
