"""The laws that turn blocks into training examples: pure functions of (seed, epoch, sample index), vectorised."""

from spanlab.corruption.collator import SpanMasking
from spanlab.corruption.examples import ExampleBatch, Order
from spanlab.corruption.given_spans import GivenSpans, SpanFile, SpanTable
from spanlab.corruption.masking import Masking, MaskingConfig
from spanlab.corruption.permutation import Permutation, PermutationConfig, Permuting, permute
from spanlab.corruption.replacement import RandomTokens
from spanlab.corruption.special_tokens import Frame, FramedBatch, frame_blocks, frame_sequences

__all__ = [
    "ExampleBatch",
    "Frame",
    "FramedBatch",
    "GivenSpans",
    "Masking",
    "MaskingConfig",
    "Order",
    "Permutation",
    "PermutationConfig",
    "Permuting",
    "RandomTokens",
    "SpanFile",
    "SpanMasking",
    "SpanTable",
    "frame_blocks",
    "frame_sequences",
    "permute",
]
