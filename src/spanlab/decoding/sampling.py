"""Greedy search and sampling, on token ids.

Prompts enter as a `Continuation`; the ids generated for each leave as `Decoded`. The random number of a draw is a pure
function of (seed, index of the prompt, index of the token), so the same prompt at the same index gives the same text
in any batch, with a cache or without.

Shapes: B sequences, V vocabulary.
"""

from collections.abc import Sequence

import numpy as np
import torch
from torch import Tensor

from spanlab.corpus.randomness import sample_keys, uniform
from spanlab.decoding.config import Decoded, DecodingConfig, Ending
from spanlab.decoding.continuation import Continuation
from spanlab.objectives.chunked_cross_entropy import draw


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
