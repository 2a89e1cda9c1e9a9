"""The objectives by name, and how a model and a set of weights become what a training loop runs.

A new objective is a file of its own and a row here.
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
from spanlab.objectives.mixture import Mixture, active_weights
from spanlab.objectives.mlm import MaskedLM
from spanlab.objectives.objective import Criterion, Objective
from spanlab.objectives.permutation_lm import PermutationLM
from spanlab.objectives.replaced_token import ReplacedToken
from spanlab.objectives.sentence_pairs import NextSentence, SentenceOrder
from spanlab.objectives.span_boundary import SpanBoundary


@dataclass(frozen=True)
class Entry:
    """How one objective is made."""

    objective: Callable[[Any], Objective]
    """From its head."""
    new_head: Callable[[EncoderConfig, SpanBoundaryConfig], nn.Module]


def _new_span_boundary_head(config: EncoderConfig, options: SpanBoundaryConfig) -> SpanBoundaryHead:
    return SpanBoundaryHead(config.width, config.vocab_size, table_width=config.table_width, **vars(options))


ON_ONE_ENCODER: dict[str, Entry] = {
    "mlm": Entry(MaskedLM, lambda config, _: MaskedLMHead(config)),
    "sbo": Entry(SpanBoundary, _new_span_boundary_head),
    "nsp": Entry(NextSentence, lambda config, _: SentencePairHead(config)),
    "sop": Entry(SentenceOrder, lambda config, _: SentencePairHead(config)),
    "clm": Entry(CausalLM, lambda config, _: CausalLMHead(config)),
}
"""What can be mixed at will on the hidden states of one encoder."""

OBJECTIVES = (*ON_ONE_ENCODER, "rtd", "plm", "bilm")
"""All names; `rtd` is trained on a generator and a discriminator, with `mlm` for the generator; `plm` by two streams
of one encoder; `bilm` on an ELMo."""


def build_criterion(
    model: Encoder | Electra,
    weights: Mapping[str, float],
    *,
    heads: Mapping[str, nn.Module] = MappingProxyType({}),
    span_boundary: SpanBoundaryConfig | None = None,
) -> Criterion:
    """The model with the objectives that have a weight.

    Args:
        model: an encoder, or ELECTRA's pair for `rtd`.
        weights: λ by the name of the objective; 0 is off.
        heads: by objective, heads that exist already; the others are new.
        span_boundary: what the span boundary head must be like; None takes one that exists as it is.
    """
    active = active_weights(weights, OBJECTIVES)
    if isinstance(model, Electra) or "rtd" in active:
        return _build_pair(model, active)
    if "plm" in active:
        return _build_two_streams(model, active, heads.get("plm"))
    if "bilm" in active:
        return _build_bidirectional(model, active, heads)
    if {"nsp", "sop"} <= set(active):
        raise ConfigError("nsp and sop both ask about the pair, and a pair has one label", fix="set one of them to 0")
    if "clm" in active:
        _check_causal(model, active)
    if span_boundary is not None and "sbo" in heads:
        _check_span_boundary(heads["sbo"], span_boundary)
    options = span_boundary or SpanBoundaryConfig()
    objectives = []
    for name in active:
        entry = ON_ONE_ENCODER[name]
        objectives.append(entry.objective(heads[name] if name in heads else entry.new_head(model.config, options)))
    return Mixture(model, objectives, active)


def _check_causal(model: Encoder, active: dict[str, float]) -> None:
    """An encoder that looks ahead would read its targets, and an example is either masked or left as it is."""
    if not model.config.causal:
        fix = "take the gpt recipe, or set encoder.causal=true"
        raise ConfigError(
            f"the clm objective needs a causal encoder, and this {model.config.architecture} is not", fix=fix
        )
    others = sorted(set(active) - {"clm"})
    if others:
        raise ConfigError(
            f"'{others[0]}' cannot be mixed with clm: examples have one kind of targets",
            fix=f"set objectives.{others[0]}=0",
        )


def _build_bidirectional(model: Encoder, active: dict[str, float], heads: Mapping[str, nn.Module]) -> BidirectionalLM:
    if not isinstance(model, ElmoEncoder):
        fix = "take the elmo recipe, or set objectives.bilm=0"
        raise ConfigError(f"the bilm objective trains an ELMo, and this is {model.config.architecture}", fix=fix)
    others = sorted(set(active) - {"bilm"})
    if others:
        raise ConfigError(f"'{others[0]}' cannot be mixed with bilm", fix=f"set objectives.{others[0]}=0")
    head = heads["bilm"] if "bilm" in heads else BidirectionalLMHead(model.config)
    return BidirectionalLM(model, cast("BidirectionalLMHead", head), active["bilm"])


def _build_pair(model: Encoder | Electra, active: dict[str, float]) -> ReplacedToken:
    if not isinstance(model, Electra):
        fix = "take the electra recipe, or set objectives.rtd=0"
        raise ConfigError("the rtd objective trains a generator and a discriminator, and this is one encoder", fix=fix)
    others = sorted(set(active) - {"mlm", "rtd"})
    if others:
        fix = f"set objectives.{others[0]}=0"
        raise ConfigError(f"'{others[0]}' cannot be mixed with a generator and a discriminator", fix=fix)
    return ReplacedToken(model, active)


def _build_two_streams(model: Encoder, active: dict[str, float], head: nn.Module | None) -> PermutationLM:
    if not isinstance(model, XLNetEncoder):
        fix = "take the xlnet recipe, or set objectives.plm=0"
        raise ConfigError("the plm objective needs an encoder with two streams, and this one has one", fix=fix)
    others = sorted(set(active) - {"plm"})
    if others:
        raise ConfigError(f"'{others[0]}' cannot be mixed with plm", fix=f"set objectives.{others[0]}=0")
    plm_head = head if isinstance(head, PermutationLMHead) else PermutationLMHead(model.config)
    return PermutationLM(model, plm_head, active["plm"])


def _check_span_boundary(head: nn.Module, wanted: SpanBoundaryConfig) -> None:
    """A head that was trained on one kind of boundaries is not quietly given another."""
    assert isinstance(head, SpanBoundaryHead)
    for name, value in vars(wanted).items():
        current = getattr(head.config, name)
        if current != value and (name != "position_width" or head.position is not None):
            raise ConfigError(f"the model's span boundary head has {name} {current}, and {value} is asked for")
