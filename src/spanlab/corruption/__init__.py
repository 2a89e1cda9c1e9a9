"""Blocks of text to training examples: masking and permutation laws, pure functions of (seed, epoch, sample index)."""

from spanlab.corruption.collator import SpanMasking
from spanlab.corruption.examples import ExampleBatch, PredictionOrder
from spanlab.corruption.given_spans import GivenSpans, SpanFile, SpanTable
from spanlab.corruption.masking import Masking, MaskingConfig
from spanlab.corruption.permutation import Permutation, PermutationConfig, PermutationSampler, permute
from spanlab.corruption.replacement import RandomTokens
from spanlab.corruption.special_tokens import SpecialTokenLayout, TokenBatch, add_special_tokens, batch_sequences

__all__ = [
    "ExampleBatch",
    "GivenSpans",
    "Masking",
    "MaskingConfig",
    "Permutation",
    "PermutationConfig",
    "PermutationSampler",
    "PredictionOrder",
    "RandomTokens",
    "SpanFile",
    "SpanMasking",
    "SpanTable",
    "SpecialTokenLayout",
    "TokenBatch",
    "add_special_tokens",
    "batch_sequences",
    "permute",
]
