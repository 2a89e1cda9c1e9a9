"""Weights from the Hugging Face layout to ours and back, by the rules of an architecture.

Both ways move bytes and compute nothing, so a round trip is bit-identical.
"""

from collections.abc import Iterator, Mapping

import torch
from torch import Tensor

from spanlab.encoder.config import EncoderConfig
from spanlab.encoder.pretrained.names import Names, Rule

State = dict[str, Tensor]
_MODERN = {"gamma": "weight", "beta": "bias"}


def normalise(state: Mapping[str, Tensor], names: Names) -> State:
    """Their tensors under one spelling: no body prefix, no `gamma` and `beta`, no buffers that are recomputed."""
    spelled: State = {}
    for name, tensor in state.items():
        key = modern_name(name.removeprefix(names.prefix))
        if not key.endswith("position_ids") and not key.endswith((".attn.bias", ".attn.masked_bias")):
            spelled[key] = tensor
    if names.twin_bias is not None and names.twin_bias[0] in spelled:
        spelled[names.twin_bias[1]] = spelled.pop(names.twin_bias[0])
    return spelled


def modern_name(name: str) -> str:
    """A weight's name with `weight` and `bias` where old files say `gamma` and `beta`."""
    stem, dot, last = name.rpartition(".")
    return f"{stem}{dot}{_MODERN.get(last, last)}"


def body_rules(names: Names, config: EncoderConfig) -> Iterator[Rule]:
    """The rules of the body, written out for every group of layers and every block in it."""
    for rule in names.body:
        if "{g}" not in rule.ours:
            yield rule
            continue
        for group in range(config.groups):
            for block in range(config.inner_layers):
                theirs = tuple(part.format(g=group, b=block) for part in rule.theirs)
                heads = None if rule.heads is None else config.heads
                yield Rule(rule.ours.format(g=group, b=block), theirs, rule.transposed, heads)


def to_ours(theirs: State, rules: Iterator[Rule] | tuple[Rule, ...]) -> tuple[State, set[str]]:
    """Our tensors as far as theirs are there, and the names that were used."""
    ours: State = {}
    used: set[str] = set()
    for rule in rules:
        for suffix in ("", ".weight", ".bias"):
            sources = [part + suffix for part in rule.theirs]
            if not all(source in theirs for source in sources):
                continue
            whole = [theirs[source] if rule.heads is None else theirs[source].flatten(1) for source in sources]
            parts = [part.t() if _turned(rule, suffix) else part for part in whole]
            ours[rule.ours + suffix] = parts[0].contiguous() if len(parts) == 1 else torch.cat(parts)
            used.update(sources)
    return ours, used


def to_theirs(ours: Mapping[str, Tensor], rules: Iterator[Rule] | tuple[Rule, ...]) -> tuple[State, set[str]]:
    """Their tensors for ours, and the names of ours that were used."""
    theirs: State = {}
    used: set[str] = set()
    for rule in rules:
        for suffix in ("", ".weight", ".bias"):
            name = rule.ours + suffix
            if name not in ours:
                continue
            used.add(name)
            for part, tensor in zip(rule.theirs, ours[name].chunk(len(rule.theirs)), strict=True):
                turned = (tensor.t() if _turned(rule, suffix) else tensor).contiguous()
                theirs[part + suffix] = turned if rule.heads is None else turned.view(len(turned), rule.heads, -1)
    return theirs, used


def _turned(rule: Rule, suffix: str) -> bool:
    return rule.transposed and (rule.ours + suffix).endswith(".weight")
