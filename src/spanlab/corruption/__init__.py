"""The laws that turn blocks into training examples: pure functions of (seed, epoch, sample index), vectorised."""

from spanlab.corruption.example import ExampleBatch
from spanlab.corruption.frame import Frame, FramedBatch, frame_blocks, frame_sequences
from spanlab.corruption.given import GivenSpans, SpanFile, SpanTable
from spanlab.corruption.masking import Masking, MaskingConfig
from spanlab.corruption.replacement import RandomTokens
from spanlab.corruption.span_masking import SpanMasking

__all__ = [
    "ExampleBatch",
    "Frame",
    "FramedBatch",
    "GivenSpans",
    "Masking",
    "MaskingConfig",
    "RandomTokens",
    "SpanFile",
    "SpanMasking",
    "SpanTable",
    "frame_blocks",
    "frame_sequences",
]
