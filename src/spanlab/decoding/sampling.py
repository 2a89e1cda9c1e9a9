"""Choosing tokens one after the other: greedy search and sampling, on token ids.

What enters are prompts as ids, what leaves are the ids that follow each. Sampling draws by a number that is a pure
function of (seed, number of the prompt, number of the token), so the same prompt at the same place gives the same text
whatever batch it is in, with a cache or without.

Shapes: B sequences, V vocabulary.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np
import torch
from torch import Tensor

from spanlab.corpus.randomness import sample_keys, uniform
from spanlab.decoding.continuation import Continuation
from spanlab.errors import ConfigError
from spanlab.objectives.chunked_cross_entropy import draw

Ending = Literal["stop", "length", "positions"]


@dataclass(frozen=True, kw_only=True)
class DecodingConfig:
    """How what follows a prompt is chosen."""

    max_new_tokens: int = 50
    temperature: float = 1.0
    """What logits are divided by before a token is drawn; 0 takes the likeliest token (greedy search)."""
    top_k: int | None = None
    """Draw among the k likeliest tokens only."""
    top_p: float | None = None
    """Draw among the likeliest tokens whose probabilities add up to at least this (nucleus sampling)."""
    seed: int = 0
    beams: int = 1
    """More than 1: beam search, which takes temperature 0."""
    length_penalty: float = 1.0
    """Beam search: a sequence's log-probability is divided by its length to this power; above 0 favours long ones."""
    stop_ids: tuple[int, ...] = ()
    """Tokens that end a text; they are not part of it."""

    def __post_init__(self) -> None:
        for name in ("max_new_tokens", "beams", "top_k"):
            value = getattr(self, name)
            if value is not None and value < 1:
                raise ConfigError(f"'{name}' is {value}; it must be at least 1")
        if not 0.0 <= self.temperature < float("inf"):
            raise ConfigError(f"'temperature' is {self.temperature}; it must be 0 or more")
        if self.top_p is not None and not 0.0 < self.top_p <= 1.0:
            raise ConfigError(f"'top_p' is {self.top_p}; it must be above 0 and at most 1")
        if self.temperature == 0.0 and (self.top_k is not None or self.top_p is not None):
            raise ConfigError("top_k and top_p choose what is drawn from, and temperature 0 draws nothing")
        if self.beams > 1 and self.temperature != 0.0:
            raise ConfigError("beam search draws nothing", fix="set temperature to 0")


@dataclass(frozen=True, kw_only=True)
class Decoded:
    """What follows one prompt."""

    ids: tuple[int, ...]
    """Without the prompt and without a stop token."""
    ended: Ending
    """By a stop token, at the asked number of tokens, or because the model has no further position."""
    log_probability: float
    """Of the ids and the stop token, under the model itself (temperature 1, nothing left out)."""


def decode_tokens(continuation: Continuation, config: DecodingConfig) -> list[Decoded]:
    """What follows each of the prompts, by greedy search or sampling."""
    prompts = [len(ids) for ids in continuation.sequences]
    active = list(range(len(prompts)))
    scores = [0.0] * len(prompts)
    done: dict[int, Decoded] = {}
    for number in range(config.max_new_tokens):
        logits_BV = continuation.logits()
        chosen_B = choose(logits_BV, config, active, number)
        gained = logits_BV.log_softmax(dim=-1).gather(1, chosen_B[:, None]).squeeze(1).tolist()
        tokens = chosen_B.tolist()
        continuation.append(tokens)
        going_on = []
        for row, prompt in enumerate(active):
            scores[prompt] += gained[row]
            ended = _ending(continuation, row, tokens[row], number, config)
            if ended is None:
                going_on.append(row)
            else:
                ids = continuation.sequences[row][prompts[prompt] :]
                ids = ids[:-1] if ended == "stop" else ids
                done[prompt] = Decoded(ids=tuple(ids), ended=ended, log_probability=scores[prompt])
        active = [active[row] for row in going_on]
        if not active:
            break
        continuation.select(going_on)
    return [done[prompt] for prompt in range(len(prompts))]


def _ending(continuation: Continuation, row: int, token: int, number: int, config: DecodingConfig) -> Ending | None:
    if token in config.stop_ids:
        return "stop"
    if number + 1 == config.max_new_tokens:
        return "length"
    return "positions" if len(continuation.sequences[row]) > continuation.positions else None


def choose(logits_BV: Tensor, config: DecodingConfig, prompts: Sequence[int], number: int) -> Tensor:
    """(B,) the token that follows each sequence; `prompts` are their numbers, `number` that of the token."""
    if config.temperature == 0.0:
        return logits_BV.argmax(dim=-1)
    probabilities_BV = restrict(logits_BV.double() / config.temperature, top_k=config.top_k, top_p=config.top_p)
    keys_B = sample_keys(seed=config.seed, purpose="generation", epoch=number, index=np.array(prompts))
    return draw(probabilities_BV, torch.from_numpy(uniform(keys_B)).to(logits_BV.device))


def restrict(logits_BV: Tensor, *, top_k: int | None, top_p: float | None) -> Tensor:
    """(B, V) probabilities with what may not be drawn set to 0; the others do not add up to 1 and need not."""
    probabilities_BV = logits_BV.softmax(dim=-1)
    if top_k is not None and top_k < logits_BV.shape[1]:
        least_B1 = probabilities_BV.topk(top_k, dim=-1).values[:, -1:]
        probabilities_BV = probabilities_BV.where(probabilities_BV >= least_B1, 0.0)
        probabilities_BV = probabilities_BV / probabilities_BV.sum(dim=-1, keepdim=True)
    if top_p is not None and top_p < 1.0:
        sorted_BV, order_BV = probabilities_BV.sort(dim=-1, descending=True, stable=True)
        # A token stays if those before it do not reach the share yet; the first always stays.
        before_BV = sorted_BV.cumsum(dim=-1) - sorted_BV
        kept_BV = sorted_BV.where(before_BV < top_p, 0.0)
        probabilities_BV = torch.zeros_like(probabilities_BV).scatter_(1, order_BV, kept_BV)
    return probabilities_BV
