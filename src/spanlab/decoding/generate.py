"""Text generation on token ids: greedy search, sampling or beam search, as the config says."""

from collections.abc import Sequence

from spanlab.decoding.beam_search import search_beams
from spanlab.decoding.continuation import Continuation
from spanlab.decoding.sampling import Decoded, DecodingConfig, decode_tokens
from spanlab.encoder import CausalLMHead, Encoder, TransformerEncoder
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
    continuation = Continuation(
        encoder,
        head,
        prompts,
        max_new_tokens=config.max_new_tokens,
        use_cache=use_cache,
        prompts_see_all=prompts_see_all,
    )
    return search_beams(continuation, config) if config.beams > 1 else decode_tokens(continuation, config)
