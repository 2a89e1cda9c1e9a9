"""The Transformer and its variants from one set of parts, the heads they are pre-trained with, weights in and out."""

from spanlab.encoder.config import SIZES, SYSTEMS, EncoderConfig, preset
from spanlab.encoder.electra import Electra
from spanlab.encoder.heads import (
    CausalLMHead,
    MaskedLMHead,
    PermutationLMHead,
    ReplacedTokenHead,
    SentencePairHead,
    SpanBoundaryConfig,
    SpanBoundaryHead,
)
from spanlab.encoder.model import Encoder, EncoderOutput
from spanlab.encoder.weights import LoadReport, Model, load_model, save_model
from spanlab.encoder.xlnet import ReadOutput, XLNetEncoder, build_encoder

__all__ = [
    "SIZES",
    "SYSTEMS",
    "CausalLMHead",
    "Electra",
    "Encoder",
    "EncoderConfig",
    "EncoderOutput",
    "LoadReport",
    "MaskedLMHead",
    "Model",
    "PermutationLMHead",
    "ReadOutput",
    "ReplacedTokenHead",
    "SentencePairHead",
    "SpanBoundaryConfig",
    "SpanBoundaryHead",
    "XLNetEncoder",
    "build_encoder",
    "load_model",
    "preset",
    "save_model",
]
