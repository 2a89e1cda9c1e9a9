"""Greedy search and sampling, on token ids.

Prompts enter as a `Continuation`; the ids generated for each leave as `Decoded`. The random number of a draw is a pure
function of (seed, index of the prompt, index of the token), so the same prompt at the same index gives the same text
in any batch, with a cache or without.

Shapes: B sequences, V vocabulary.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Annotated, Literal

import numpy as np
import torch
from torch import Tensor

from spanlab.config import Above, AtLeast, AtMost, Bounded, Seed
from spanlab.corpus.randomness import sample_keys, uniform
from spanlab.decoding.continuation import Continuation
from spanlab.errors import ConfigError
from spanlab.objectives.chunked_cross_entropy import draw

Ending = Literal["stop", "length", "positions"]


@dataclass(frozen=True, kw_only=True)
class DecodingConfig(Bounded):
    """Settings of text generation."""

    max_new_tokens: Annotated[int, AtLeast(1), AtMost(1_000_000)] = 50
    temperature: Annotated[float, AtLeast(0), AtMost(1_000_000)] = 1.0
    """Divisor of the logits before a token is drawn; 0 chooses the likeliest token (greedy search)."""
    top_k: Annotated[int, AtLeast(1)] | None = None
    """Draw among the k likeliest tokens only."""
    top_p: Annotated[float, Above(0), AtMost(1)] | None = None
    """Draw among the likeliest tokens whose probabilities add up to at least this (nucleus sampling)."""
    seed: Seed = 0
    beams: Annotated[int, AtLeast(1), AtMost(1000)] = 1
    """More than 1: beam search, which needs temperature 0."""
    length_penalty: Annotated[float, AtLeast(-100), AtMost(100)] = 1.0
    """Beam search: a sequence's log-probability is divided by its length to this power; above 0 favours long ones."""
    stop_ids: tuple[int, ...] = ()
    """Tokens that end a text; they are not part of it."""

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.temperature == 0.0 and (self.top_k is not None or self.top_p is not None):
            cause = "top_k and top_p are for sampling, and temperature 0 is greedy search"
            raise ConfigError(cause, fix="leave them out, or set a temperature above 0")
        if self.beams > 1 and self.temperature != 0.0:
            raise ConfigError("beam search does not sample", fix="set temperature to 0")


@dataclass(frozen=True, kw_only=True)
class Decoded:
    """The tokens generated for one prompt."""

    ids: tuple[int, ...]
    """Without the prompt and without a stop token."""
    ended: Ending
    """Why the text ended: a stop token, `max_new_tokens`, or the last position of the model."""
    log_probability: float
    """Log-probability of the ids and the stop token under the model itself (temperature 1, all tokens)."""


def decode_tokens(continuation: Continuation, config: DecodingConfig) -> list[Decoded]:
    """The continuation of each prompt, by greedy search or sampling."""
    prompt_lengths = [len(ids) for ids in continuation.sequences]
    active = list(range(len(prompt_lengths)))
    scores = [0.0] * len(prompt_lengths)
    done: dict[int, Decoded] = {}
    for token_index in range(config.max_new_tokens):
        logits_BV = continuation.logits()
        chosen_B = choose(logits_BV, config, active, token_index)
        log_probabilities = logits_BV.log_softmax(dim=-1).gather(1, chosen_B[:, None]).squeeze(1).tolist()
        tokens = chosen_B.tolist()
        continuation.append(tokens)
        unfinished = []
        for row, prompt in enumerate(active):
            scores[prompt] += log_probabilities[row]
            ended = _ending(continuation, row, tokens[row], token_index, config)
            if ended is None:
                unfinished.append(row)
            else:
                ids = continuation.sequences[row][prompt_lengths[prompt] :]
                ids = ids[:-1] if ended == "stop" else ids
                done[prompt] = Decoded(ids=tuple(ids), ended=ended, log_probability=scores[prompt])
        active = [active[row] for row in unfinished]
        if not active:
            break
        continuation.select(unfinished)
    return [done[prompt] for prompt in range(len(prompt_lengths))]


def _ending(
    continuation: Continuation, row: int, token: int, token_index: int, config: DecodingConfig
) -> Ending | None:
    if token in config.stop_ids:
        return "stop"
    if token_index + 1 == config.max_new_tokens:
        return "length"
    return "positions" if len(continuation.sequences[row]) > continuation.max_positions else None


def choose(logits_BV: Tensor, config: DecodingConfig, prompts: Sequence[int], token_index: int) -> Tensor:
    """(B,) the next token of each sequence; `prompts` are the indices of their prompts."""
    if config.temperature == 0.0:
        return logits_BV.argmax(dim=-1)
    probabilities_BV = restrict(logits_BV.double() / config.temperature, top_k=config.top_k, top_p=config.top_p)
    keys_B = sample_keys(seed=config.seed, purpose="generation", epoch=token_index, index=np.array(prompts))
    return draw(probabilities_BV, torch.from_numpy(uniform(keys_B)).to(logits_BV.device))


def restrict(logits_BV: Tensor, *, top_k: int | None, top_p: float | None) -> Tensor:
    """(B, V) probabilities, 0 for tokens outside top k and top p; the others are not normalised."""
    probabilities_BV = logits_BV.softmax(dim=-1)
    if top_k is not None and top_k < logits_BV.shape[1]:
        threshold_B1 = probabilities_BV.topk(top_k, dim=-1).values[:, -1:]
        probabilities_BV = probabilities_BV.where(probabilities_BV >= threshold_B1, 0.0)
        probabilities_BV = probabilities_BV / probabilities_BV.sum(dim=-1, keepdim=True)
    if top_p is not None and top_p < 1.0:
        sorted_BV, order_BV = probabilities_BV.sort(dim=-1, descending=True, stable=True)
        # A token stays if those before it add up to less than top_p; the first always stays.
        before_BV = sorted_BV.cumsum(dim=-1) - sorted_BV
        kept_BV = sorted_BV.where(before_BV < top_p, 0.0)
        probabilities_BV = torch.zeros_like(probabilities_BV).scatter_(1, order_BV, kept_BV)
    return probabilities_BV
