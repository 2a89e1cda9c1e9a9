"""A model and objective weights become a `Criterion`, the module that the training loop runs.

A new objective is a file of its own, its name in `OBJECTIVES` and a row of `ON_ONE_ENCODER`.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any, cast

from torch import nn

from spanlab.encoder import (
    BidirectionalLMHead,
    CausalLMHead,
    Electra,
    ElmoEncoder,
    Encoder,
    EncoderConfig,
    MaskedLMHead,
    PermutationLMHead,
    SentencePairHead,
    SpanBoundaryConfig,
    SpanBoundaryHead,
    XLNetEncoder,
)
from spanlab.errors import ConfigError
from spanlab.objectives.bidirectional_lm import BidirectionalLM
from spanlab.objectives.causal_lm import CausalLM
from spanlab.objectives.combinations import OBJECTIVES, check_combination
from spanlab.objectives.mixture import Mixture, active_weights
from spanlab.objectives.mlm import MaskedLM
from spanlab.objectives.objective import Criterion, Objective
from spanlab.objectives.permutation_lm import PermutationLM
from spanlab.objectives.replaced_token import ReplacedToken
from spanlab.objectives.sentence_pairs import NextSentence, SentenceOrder
from spanlab.objectives.span_boundary import SpanBoundary


@dataclass(frozen=True)
class Entry:
    """Constructors of one objective and its head."""

    objective: Callable[[Any], Objective]
    """Takes the head."""
    new_head: Callable[[EncoderConfig, SpanBoundaryConfig], nn.Module]


COLLAPSED_TOKENS = 20
"""The tokens of a collapsed span that a new MLM head tells apart, as many as the published span boundary head does."""


def _new_span_boundary_head(config: EncoderConfig, options: SpanBoundaryConfig) -> SpanBoundaryHead:
    return SpanBoundaryHead(config.width, config.vocab_size, table_width=config.table_width, **vars(options))


ON_ONE_ENCODER: dict[str, Entry] = {
    "mlm": Entry(MaskedLM, lambda config, _: MaskedLMHead(config)),
    "sbo": Entry(SpanBoundary, _new_span_boundary_head),
    "nsp": Entry(NextSentence, lambda config, _: SentencePairHead(config)),
    "sop": Entry(SentenceOrder, lambda config, _: SentencePairHead(config)),
    "clm": Entry(CausalLM, lambda config, _: CausalLMHead(config)),
}
"""Objectives that share one forward pass of an encoder, in any combination that `build_criterion` accepts."""


def build_criterion(
    model: Encoder | Electra,
    weights: Mapping[str, float],
    *,
    heads: Mapping[str, nn.Module] = MappingProxyType({}),
    span_boundary: SpanBoundaryConfig | None = None,
    collapsed: bool = False,
) -> Criterion:
    """The model with its heads and losses.

    Args:
        model: an encoder, or ELECTRA's generator and discriminator for `rtd`.
        weights: loss weights by objective; 0 is off.
        heads: existing heads by objective; the others are newly initialised.
        span_boundary: settings of the span boundary head, which an existing head must match; None accepts any.
        collapsed: whether a mask may stand for a whole span, which the MLM head then predicts.
    """
    active = active_weights(weights, OBJECTIVES)
    if isinstance(model, Electra):
        check_combination((*active, "rtd"))
    check_combination(active)
    if isinstance(model, Electra) or "rtd" in active:
        return _build_electra(model, active)
    if "plm" in active:
        return _build_xlnet(model, active, heads.get("plm"))
    if "bilm" in active:
        return _build_elmo(model, active, heads.get("bilm"))
    if "clm" in active:
        _check_causal(model)
    if span_boundary is not None and "sbo" in heads:
        _check_span_boundary(heads["sbo"], span_boundary)
    options = span_boundary or SpanBoundaryConfig()
    objectives = []
    for name in active:
        entry = ON_ONE_ENCODER[name]
        head = heads[name] if name in heads else entry.new_head(model.config, options)
        if collapsed and isinstance(head, MaskedLMHead) and head.offset is None:
            head.add_offsets(COLLAPSED_TOKENS, model.config.init_std)
        objectives.append(entry.objective(head))
    return Mixture(model, objectives, active)


def _check_causal(model: Encoder) -> None:
    """A bidirectional encoder would see its targets."""
    if not model.config.causal:
        cause = f"the clm objective needs a causal encoder, and this {model.config.architecture} is not"
        raise ConfigError(cause, fix="use the gpt recipe, or set encoder.causal=true")


def _build_elmo(model: Encoder, active: dict[str, float], head: nn.Module | None) -> BidirectionalLM:
    if not isinstance(model, ElmoEncoder):
        cause = f"the bilm objective needs an ELMo encoder, and this is {model.config.architecture}"
        raise ConfigError(cause, fix="use the elmo recipe, or set objectives.bilm=0")
    head = BidirectionalLMHead(model.config) if head is None else head
    return BidirectionalLM(model, cast("BidirectionalLMHead", head), active["bilm"])


def _build_electra(model: Encoder | Electra, active: dict[str, float]) -> ReplacedToken:
    if not isinstance(model, Electra):
        cause = "the rtd objective needs a generator and a discriminator, and this is one encoder"
        raise ConfigError(cause, fix="use the electra recipe, or set objectives.rtd=0")
    return ReplacedToken(model, active)


def _build_xlnet(model: Encoder, active: dict[str, float], head: nn.Module | None) -> PermutationLM:
    if not isinstance(model, XLNetEncoder):
        cause = f"the plm objective needs an XLNet encoder, and this is {model.config.architecture}"
        raise ConfigError(cause, fix="use the xlnet recipe, or set objectives.plm=0")
    plm_head = head if isinstance(head, PermutationLMHead) else PermutationLMHead(model.config)
    return PermutationLM(model, plm_head, active["plm"])


def _check_span_boundary(head: nn.Module, config: SpanBoundaryConfig) -> None:
    """Reject settings that differ from those that an existing head was trained with."""
    assert isinstance(head, SpanBoundaryHead)
    without_positions = head.position is None and config.span_limit is None
    unused = {"positions", "max_span", "position_width"} if without_positions else set()
    for name, value in vars(config).items():
        existing = getattr(head.config, name)
        if existing != value and name not in unused:
            cause = f"the model's span boundary head has {name}={existing}, but {value} is configured"
            raise ConfigError(cause, fix=f"use {name}={existing}, or leave span_boundary out")
