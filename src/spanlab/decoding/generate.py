"""Text generation on token ids: greedy search, sampling or beam search, as the config says."""

from collections.abc import Sequence

from torch import Tensor

from spanlab.decoding.beam_search import search_beams
from spanlab.decoding.config import Decoded, DecodingConfig
from spanlab.decoding.continuation import CausalContinuation, Continuation, DecoderContinuation
from spanlab.decoding.sampling import decode_tokens
from spanlab.encoder import CausalLMHead, Decoder, Encoder, Memory, TransformerEncoder
from spanlab.errors import InputError


def generate_ids(
    encoder: Encoder,
    head: CausalLMHead,
    prompts: Sequence[Sequence[int]],
    config: DecodingConfig,
    *,
    use_cache: bool = True,
    prompts_see_all: bool = False,
) -> list[Decoded]:
    """The continuation of each of the prompts, which may differ in length.

    With `prompts_see_all` the tokens of a prompt attend to each other in both directions.
    """
    if not prompts:
        return []
    if not isinstance(encoder, TransformerEncoder) or not encoder.config.causal:
        cause = f"this {encoder.config.architecture} encoder is not causal, so it cannot generate text"
        raise InputError(cause, fix="use a causal model, such as one of the gpt recipe")
    continuation = CausalContinuation(
        encoder,
        head,
        prompts,
        max_new_tokens=config.max_new_tokens,
        use_cache=use_cache,
        prompts_see_all=prompts_see_all,
    )
    return _search(continuation, config)


def generate_targets(
    decoder: Decoder,
    memory: Memory,
    start: int,
    config: DecodingConfig,
    *,
    word_table_VE: Tensor | None = None,
    use_cache: bool = True,
) -> list[Decoded]:
    """The target that a decoder writes for each source of a memory, after the token `start`.

    `word_table_VE` is the encoder's, for a decoder without words of its own.
    """
    continuation = DecoderContinuation(
        decoder, memory, start, max_new_tokens=config.max_new_tokens, word_table_VE=word_table_VE, use_cache=use_cache
    )
    return _search(continuation, config)


def _search(continuation: Continuation, config: DecodingConfig) -> list[Decoded]:
    return search_beams(continuation, config) if config.beams > 1 else decode_tokens(continuation, config)
