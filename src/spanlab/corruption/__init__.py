"""The laws that turn blocks into training examples: pure functions of (seed, epoch, sample index), vectorised."""

from spanlab.corruption.example import ExampleBatch
from spanlab.corruption.frame import Frame, FramedBatch, frame_blocks, frame_sequences
from spanlab.corruption.given import GivenSpans, SpanFile, SpanTable
from spanlab.corruption.masking import Masking, MaskingConfig
from spanlab.corruption.replacement import RandomTokens

__all__ = [
    "ExampleBatch",
    "Frame",
    "FramedBatch",
    "GivenSpans",
    "Masking",
    "MaskingConfig",
    "RandomTokens",
    "SpanFile",
    "SpanTable",
    "frame_blocks",
    "frame_sequences",
]
