"""Encoders of every architecture behind one interface, the heads they are pre-trained with, weights in and out."""

from spanlab.encoder.architectures import (
    ARCHITECTURES,
    ELMO_SIZES,
    SYSTEMS,
    Architecture,
    architecture_of,
    build_encoder,
    elmo_preset,
    preset,
)
from spanlab.encoder.cache import KeyValueCache
from spanlab.encoder.config import SIZES, EncoderConfig
from spanlab.encoder.cross_attention import Memory
from spanlab.encoder.decoder import Decoder, DecoderCache
from spanlab.encoder.discriminator import Electra
from spanlab.encoder.elmo.config import ElmoConfig
from spanlab.encoder.elmo.model import ElmoEncoder, ScalarMixture
from spanlab.encoder.heads import (
    AnswerHead,
    BidirectionalLMHead,
    CausalLMHead,
    MaskedLMHead,
    PermutationLMHead,
    ReplacedTokenHead,
    SentencePairHead,
    SequenceHead,
    SpanBoundaryConfig,
    SpanBoundaryHead,
    TokenHead,
)
from spanlab.encoder.model import Encoder, EncoderOutput
from spanlab.encoder.pretrained import LoadReport, Model, load_model, save_model
from spanlab.encoder.transformer import TransformerEncoder
from spanlab.encoder.xlnet.model import ReadOutput, XLNetEncoder

__all__ = [
    "ARCHITECTURES",
    "ELMO_SIZES",
    "SIZES",
    "SYSTEMS",
    "AnswerHead",
    "Architecture",
    "BidirectionalLMHead",
    "CausalLMHead",
    "Decoder",
    "DecoderCache",
    "Electra",
    "ElmoConfig",
    "ElmoEncoder",
    "Encoder",
    "EncoderConfig",
    "EncoderOutput",
    "KeyValueCache",
    "LoadReport",
    "MaskedLMHead",
    "Memory",
    "Model",
    "PermutationLMHead",
    "ReadOutput",
    "ReplacedTokenHead",
    "ScalarMixture",
    "SentencePairHead",
    "SequenceHead",
    "SpanBoundaryConfig",
    "SpanBoundaryHead",
    "TokenHead",
    "TransformerEncoder",
    "XLNetEncoder",
    "architecture_of",
    "build_encoder",
    "elmo_preset",
    "load_model",
    "preset",
    "save_model",
]
