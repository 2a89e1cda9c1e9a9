"""Pre-training objectives, one file each, and their weighted mixture.

Batches of examples and hidden states enter; summed losses with the number of their terms leave. The names are
imported on first use: recipes are read without torch.
"""

from typing import TYPE_CHECKING

from spanlab.lazy_imports import lazy_names

if TYPE_CHECKING:
    from spanlab.objectives.batch import TensorBatch
    from spanlab.objectives.bidirectional_lm import BidirectionalLM
    from spanlab.objectives.build import build_criterion
    from spanlab.objectives.causal_lm import CausalLM
    from spanlab.objectives.chunked_cross_entropy import Projection, project
    from spanlab.objectives.combinations import OBJECTIVES
    from spanlab.objectives.mixture import Mixture, weigh
    from spanlab.objectives.mlm import MaskedLM
    from spanlab.objectives.objective import Criterion, CriterionLoss, Encoded, Objective, ObjectiveLoss, encode
    from spanlab.objectives.permutation_lm import PermutationLM
    from spanlab.objectives.recurrent_state import RecurrentState
    from spanlab.objectives.replaced_token import ReplacedToken
    from spanlab.objectives.sentence_pairs import NextSentence, SentenceOrder
    from spanlab.objectives.span_boundary import SpanBoundary

__all__ = [
    "OBJECTIVES",
    "BidirectionalLM",
    "CausalLM",
    "Criterion",
    "CriterionLoss",
    "Encoded",
    "MaskedLM",
    "Mixture",
    "NextSentence",
    "Objective",
    "ObjectiveLoss",
    "PermutationLM",
    "Projection",
    "RecurrentState",
    "ReplacedToken",
    "SentenceOrder",
    "SpanBoundary",
    "TensorBatch",
    "build_criterion",
    "encode",
    "project",
    "weigh",
]

_MODULES = {
    "BidirectionalLM": "bidirectional_lm",
    "CausalLM": "causal_lm",
    "Criterion": "objective",
    "CriterionLoss": "objective",
    "Encoded": "objective",
    "MaskedLM": "mlm",
    "Mixture": "mixture",
    "NextSentence": "sentence_pairs",
    "OBJECTIVES": "combinations",
    "Objective": "objective",
    "ObjectiveLoss": "objective",
    "PermutationLM": "permutation_lm",
    "Projection": "chunked_cross_entropy",
    "RecurrentState": "recurrent_state",
    "ReplacedToken": "replaced_token",
    "SentenceOrder": "sentence_pairs",
    "SpanBoundary": "span_boundary",
    "TensorBatch": "batch",
    "build_criterion": "build",
    "encode": "objective",
    "project": "chunked_cross_entropy",
    "weigh": "mixture",
}

__getattr__, __dir__ = lazy_names(__name__, _MODULES)
