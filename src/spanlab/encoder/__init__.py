"""The Transformer and its variants from one set of parts, the heads they are pre-trained with, weights in and out."""

from spanlab.encoder.cache import KeyValueCache
from spanlab.encoder.config import SIZES, SYSTEMS, EncoderConfig, preset
from spanlab.encoder.electra import Electra
from spanlab.encoder.heads import (
    CausalLMHead,
    MaskedLMHead,
    ReplacedTokenHead,
    SentencePairHead,
    SpanBoundaryConfig,
    SpanBoundaryHead,
)
from spanlab.encoder.model import Encoder, EncoderOutput
from spanlab.encoder.weights import LoadReport, Model, load_model, save_model

__all__ = [
    "SIZES",
    "SYSTEMS",
    "CausalLMHead",
    "Electra",
    "Encoder",
    "EncoderConfig",
    "EncoderOutput",
    "KeyValueCache",
    "LoadReport",
    "MaskedLMHead",
    "Model",
    "ReplacedTokenHead",
    "SentencePairHead",
    "SpanBoundaryConfig",
    "SpanBoundaryHead",
    "load_model",
    "preset",
    "save_model",
]
