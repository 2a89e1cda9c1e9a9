"""Weights from the Hugging Face layout to ours and back, by the rules of an architecture.

Both directions move bytes and compute nothing, so a round trip is bit-identical.
"""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path

import torch
from torch import Tensor

from spanlab.encoder.architectures import HuggingFaceLayout, WeightRule
from spanlab.encoder.config import EncoderConfig
from spanlab.errors import WeightsError

State = dict[str, Tensor]
_MODERN = {"gamma": "weight", "beta": "bias"}


def normalise(state: Mapping[str, Tensor], layout: HuggingFaceLayout) -> State:
    """Their tensors under uniform names: no prefix, no `gamma` and `beta`, no buffers that are recomputed."""
    tensors: State = {}
    for name, tensor in state.items():
        key = modern_name(name.removeprefix(layout.prefix))
        if not key.endswith("position_ids") and not key.endswith((".attn.bias", ".attn.masked_bias")):
            tensors[key] = tensor
    if layout.twin_bias is not None and layout.twin_bias[0] in tensors:
        tensors[layout.twin_bias[1]] = tensors.pop(layout.twin_bias[0])
    return tensors


def modern_name(name: str) -> str:
    """A weight's name with `weight` and `bias` where old files say `gamma` and `beta`."""
    stem, dot, last = name.rpartition(".")
    return f"{stem}{dot}{_MODERN.get(last, last)}"


def encoder_rules(layout: HuggingFaceLayout, config: EncoderConfig) -> tuple[WeightRule, ...]:
    """The rules of the encoder, written out for every group of layers and every block in it."""
    blocks = [(group, block) for group in range(config.groups) for block in range(config.inner_layers)]
    rules: list[WeightRule] = []
    for rule in layout.encoder:
        if "{g}" not in rule.ours:
            rules.append(rule)
            continue
        for group, block in blocks:
            theirs = tuple(part.format(g=group, b=block) for part in rule.theirs)
            rules.append(replace(rule, ours=rule.ours.format(g=group, b=block), theirs=theirs))
    return tuple(rules)


def to_ours(theirs: State, rules: Sequence[WeightRule], path: Path | None = None) -> tuple[State, set[str]]:
    """Our tensors as far as theirs exist, and the names that were used; `path` is theirs, for errors."""
    ours: State = {}
    used: set[str] = set()
    for rule in rules:
        for suffix in ("", ".weight", ".bias"):
            sources = [part + suffix for part in rule.theirs]
            if not all(source in theirs for source in sources):
                continue
            ours[rule.ours + suffix] = _join({source: theirs[source] for source in sources}, rule, suffix, path)
            used.update(sources)
    return ours, used


def _join(sources: State, rule: WeightRule, suffix: str, path: Path | None) -> Tensor:
    """One of our tensors from those it is made of."""
    if len({tensor.is_floating_point() for tensor in sources.values()}) > 1:
        types = ", ".join(f"'{name}' {str(tensor.dtype).removeprefix('torch.')}" for name, tensor in sources.items())
        raise WeightsError(f"weights of different types: {types}", path=path, fix="use weights as trained")
    try:
        tensors = [tensor.flatten(1) if rule.by_heads else tensor for tensor in sources.values()]
        parts = [tensor.t() if _is_transposed(rule, suffix) else tensor for tensor in tensors]
        return parts[0].contiguous() if len(parts) == 1 else torch.cat(parts)
    except (RuntimeError, IndexError):
        shapes = ", ".join(f"'{name}' {tuple(tensor.shape)}" for name, tensor in sources.items())
        raise WeightsError(f"weights of unexpected shapes: {shapes}", path=path) from None


def to_theirs(ours: Mapping[str, Tensor], rules: Sequence[WeightRule], *, heads: int = 1) -> tuple[State, set[str]]:
    """Their tensors for ours, and the names of ours that were used; `heads` is for matrices with an axis of heads."""
    theirs: State = {}
    used: set[str] = set()
    for rule in rules:
        for suffix in ("", ".weight", ".bias"):
            name = rule.ours + suffix
            if name not in ours:
                continue
            used.add(name)
            for part, tensor in zip(rule.theirs, ours[name].chunk(len(rule.theirs)), strict=True):
                matrix = (tensor.t() if _is_transposed(rule, suffix) else tensor).contiguous()
                theirs[part + suffix] = matrix.view(len(matrix), heads, -1) if rule.by_heads else matrix
    return theirs, used


def _is_transposed(rule: WeightRule, suffix: str) -> bool:
    return rule.transposed and (rule.ours + suffix).endswith(".weight")
