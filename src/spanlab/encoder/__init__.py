"""The Transformer and its variants from one set of parts, the heads they are pre-trained with, weights in and out."""

from spanlab.encoder.cache import KeyValueCache
from spanlab.encoder.config import SIZES, SYSTEMS, EncoderConfig, preset
from spanlab.encoder.electra import Electra
from spanlab.encoder.elmo.config import ELMO_SIZES, ElmoConfig, elmo_preset
from spanlab.encoder.elmo.model import Elmo, ScalarMixture
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
from spanlab.encoder.xlnet.model import ReadOutput, XLNetEncoder, build_encoder

__all__ = [
    "ELMO_SIZES",
    "SIZES",
    "SYSTEMS",
    "AnswerHead",
    "BidirectionalLMHead",
    "CausalLMHead",
    "Electra",
    "Elmo",
    "ElmoConfig",
    "Encoder",
    "EncoderConfig",
    "EncoderOutput",
    "KeyValueCache",
    "LoadReport",
    "MaskedLMHead",
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
    "XLNetEncoder",
    "build_encoder",
    "elmo_preset",
    "load_model",
    "preset",
    "save_model",
]
