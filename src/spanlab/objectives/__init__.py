"""Pre-training objectives, one file each, and their weighted mixture.

Batches of examples and hidden states enter; summed losses with the number of their terms leave.
"""

from spanlab.objectives.batch import TensorBatch
from spanlab.objectives.bidirectional_lm import BidirectionalLM
from spanlab.objectives.build import OBJECTIVES, build_criterion
from spanlab.objectives.causal_lm import CausalLM
from spanlab.objectives.chunked_cross_entropy import Projection, project
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
