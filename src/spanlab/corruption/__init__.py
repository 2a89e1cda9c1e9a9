"""The laws that turn blocks into training examples: pure functions of (seed, epoch, sample index), vectorised."""

from spanlab.corruption.example import ExampleBatch, Order
from spanlab.corruption.frame import Frame, FramedBatch, frame_blocks, frame_sequences
from spanlab.corruption.given import GivenSpans, SpanFile, SpanTable
from spanlab.corruption.masking import Masking, MaskingConfig
from spanlab.corruption.permutation import Permutation, PermutationConfig, permute
from spanlab.corruption.permuting import Permuting
from spanlab.corruption.replacement import RandomTokens
from spanlab.corruption.span_masking import SpanMasking

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
