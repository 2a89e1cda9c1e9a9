"""Encoders of every architecture behind one interface, the heads they are pre-trained with, weights in and out.

The names are imported on first use: configs and the table of architectures are read without torch.
"""

from typing import TYPE_CHECKING

from spanlab.lazy_imports import lazy_names

if TYPE_CHECKING:
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
    from spanlab.encoder.config import SIZES, EncoderConfig, SpanBoundaryConfig
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

_MODULES = {
    "ARCHITECTURES": "architectures",
    "AnswerHead": "heads",
    "Architecture": "architectures",
    "BidirectionalLMHead": "heads",
    "CausalLMHead": "heads",
    "Decoder": "decoder",
    "DecoderCache": "decoder",
    "ELMO_SIZES": "architectures",
    "Electra": "discriminator",
    "ElmoConfig": "elmo.config",
    "ElmoEncoder": "elmo.model",
    "Encoder": "model",
    "EncoderConfig": "config",
    "EncoderOutput": "model",
    "KeyValueCache": "cache",
    "LoadReport": "pretrained",
    "MaskedLMHead": "heads",
    "Memory": "cross_attention",
    "Model": "pretrained",
    "PermutationLMHead": "heads",
    "ReadOutput": "xlnet.model",
    "ReplacedTokenHead": "heads",
    "SIZES": "config",
    "SYSTEMS": "architectures",
    "ScalarMixture": "elmo.model",
    "SentencePairHead": "heads",
    "SequenceHead": "heads",
    "SpanBoundaryConfig": "config",
    "SpanBoundaryHead": "heads",
    "TokenHead": "heads",
    "TransformerEncoder": "transformer",
    "XLNetEncoder": "xlnet.model",
    "architecture_of": "architectures",
    "build_encoder": "architectures",
    "elmo_preset": "architectures",
    "load_model": "pretrained",
    "preset": "architectures",
    "save_model": "pretrained",
}

__getattr__, __dir__ = lazy_names(__name__, _MODULES)
